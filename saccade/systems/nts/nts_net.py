"""image → parts by non-maximum suppression → logits: NTS-Net (Yang et al., ECCV 2018).

The navigator scores anchors and proposes M parts, the teacher says how well each part alone gives the label, and the
scrutinizer answers from the image and the K best parts:

    L = CE(image) + CE(image and K parts) + CE(M parts) + (1/B) Σ_{L_i < L_j} max(0, 1 − (s_i − s_j))

The sum runs over pairs of proposals with part losses L = −log p(label | part) and raw scores s: a part with a smaller
loss should have a score larger by the margin. Losses only tell who is better; the gradient goes to the scores alone.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from saccade.config import ModelConfig
from saccade.output import Output
from saccade.registry import register
from saccade.systems.nts.nms import NonMaximumTopK
from saccade.systems.nts.trunk import Trunk, cross_entropies


@register("system", "nts_net")
class NTSNet(Trunk):
    """NTS-Net on any stride-32 backbone: anchors of many sizes, ranked, without overlap.

    >>> config = ModelConfig(
    ...     system="nts_net", num_classes=8, image_size=(224, 224), view={"scale": 1}, extraction={"patch": 64},
    ...     features={"name": "backbone", "model": "resnet18"}, scorer={"name": "proposals"},
    ...     selection={"name": "nms", "k": 2, "proposals": 3}, aggregation={"name": "concat"},
    ... )
    >>> NTSNet(config).eval()(torch.rand(1, 3, 224, 224)).boxes.shape
    torch.Size([1, 2, 4])
    """

    why_not_export = "how many parts its suppression leaves is known only when it runs"

    def __init__(self, config: ModelConfig):
        super().__init__(config, {"nms": NonMaximumTopK})

    def loss(
        self,
        output: Output,
        label: Int[Tensor, " B"],
        *,
        class_weight: Float[Tensor, " L"] | None = None,
        margin: float = 1.0,
    ) -> Float[Tensor, ""]:
        """Three cross-entropies and the ranking of the proposals."""
        choice = output.choice
        part_logits = self.part_prediction(choice.features)  # B M L
        confidence = part_logits.log_softmax(dim=2)
        part_losses = -confidence.take_along_dim(label[:, None, None], dim=2)[..., 0]  # B M
        proposed = choice.raw_scores.gather(1, choice.selection.index)  # B M
        answers = output.logits, self.image_prediction(choice.context), part_logits
        ranking = ranking_loss(proposed, part_losses, margin=margin)
        return cross_entropies(*answers, label, class_weight=class_weight) + ranking


def ranking_loss(
    scores: Float[Tensor, "B M"], losses: Float[Tensor, "B M"], *, margin: float = 1.0
) -> Float[Tensor, ""]:
    """Σ over pairs with losses i < j of max(0, margin − (scores i − scores j)), the mean over the batch.

    >>> ranking_loss(torch.tensor([[0.0, 3.0, 2.5]]), torch.tensor([[0.9, 0.1, 0.2]]))  # only 3.0 − 2.5 is too little
    tensor(0.5000)
    """
    better = losses.detach()[:, :, None] < losses.detach()[:, None, :]  # B M M
    lead = scores[:, :, None] - scores[:, None, :]
    return torch.where(better, F.relu(margin - lead), 0).sum() / len(scores)
