"""pooled → logits, and the loss."""

from saccade.prediction.head import LinearHead, MLPHead
from saccade.prediction.loss import mixture_loss, score_entropy, selection_loss

HEADS = {"mlp": MLPHead, "linear": LinearHead}

__all__ = ["HEADS", "LinearHead", "MLPHead", "mixture_loss", "score_entropy", "selection_loss"]
