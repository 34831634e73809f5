"""pooled → logits."""

from jaxtyping import Float
from torch import Tensor, nn

from saccade.registry import register


@register("prediction", "mlp")
class MLPHead(nn.Sequential):
    """Linear(D → D), SiLU, Linear(D → L): the head of the paper's released models."""

    def __init__(self, width: int, num_classes: int):
        super().__init__(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, num_classes))


@register("prediction", "linear")
class LinearHead(nn.Linear):
    """Linear(D → L): the head of the paper's CNN baselines and of NTS-Net."""

    def __init__(self, width: int, num_classes: int):
        super().__init__(width, num_classes)

    def forward(self, input: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape L"]:
        """Logits of each image."""
        return super().forward(input)
