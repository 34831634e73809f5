"""pooled → logits, and the loss."""

from saccade.prediction.head import LinearHead, MLPHead
from saccade.prediction.loss import mixture_loss, mixture_of_answers, score_entropy, selection_loss

__all__ = ["LinearHead", "MLPHead", "mixture_loss", "mixture_of_answers", "score_entropy", "selection_loss"]
