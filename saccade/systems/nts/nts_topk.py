"""image → parts by differentiable top-K → logits: the paper's fine-grained system, NTS-Top-K.

NTS-Net's anchors, backbone and heads, without its ranking loss: the gradient of the answers reaches the scores through
the selection. In training a part is a mixture of anchors, each resized to one size first. Squeeze-excitation in the
proposal net stands in for non-maximum suppression; the selection `diverse` brings that back.

    L = CE(image) + CE(image and parts) + CE(parts) − c · H(softmax(raw scores)),    c = 0.05

Not in the paper: on request the scores are also told directly which part explains the label best (`mixture_loss`), as
NTS-Net's ranking does.
"""

from jaxtyping import Float, Int
from torch import Tensor

from saccade.output import Output
from saccade.prediction import mixture_loss, score_entropy
from saccade.registry import register
from saccade.systems.nts.trunk import Trunk, cross_entropies


@register("system", "nts_topk")
class NTSTopK(Trunk):
    """NTS-Net's anchors on any stride-32 backbone, chosen by any selection that fills K slots.

    >>> import torch
    >>> from saccade import ModelConfig
    >>> config = ModelConfig(
    ...     system="nts_topk", num_classes=8, image_size=(224, 224), view={"scale": 1}, extraction={"patch": 64},
    ...     features={"name": "backbone", "model": "resnet18"}, aggregation={"name": "mean"},
    ...     scorer={"name": "proposals", "squeeze_excitation": 32}, selection={"name": "perturbed", "k": 2},
    ... )
    >>> NTSTopK(config).eval()(torch.rand(1, 3, 224, 224)).boxes.shape
    torch.Size([1, 2, 4])
    """

    def loss(
        self,
        output: Output,
        label: Int[Tensor, " B"],
        *,
        class_weight: Float[Tensor, " L"] | None = None,
        entropy_coefficient: float = 0.05,
        mixture_coefficient: float = 0.0,
    ) -> Float[Tensor, ""]:
        """Three cross-entropies minus an entropy bonus, and `mixture_loss` of the parts on request."""
        choice = output.choice
        part_logits = self.part_prediction(choice.features)  # B K L
        answers = output.logits, self.image_prediction(choice.context), part_logits
        losses = cross_entropies(*answers, label, share=choice.selection.share, class_weight=class_weight)
        loss = losses - entropy_coefficient * score_entropy(choice.raw_scores)
        if mixture_coefficient:
            slot_scores = choice.selection.detach().look_up(choice.raw_scores)  # B K
            mixture = mixture_loss(part_logits, slot_scores, label, class_weight=class_weight)
            loss = loss + mixture_coefficient * mixture
        return loss
