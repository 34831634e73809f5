"""What a feature network offers."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class FeatureNetwork(Protocol):
    """Patches n C P Q → features n D, D being its `width`."""

    width: int

    def __call__(self, patches: Float[Tensor, "n C P Q"]) -> Float[Tensor, "n D"]:
        """Features of each patch."""
        ...
