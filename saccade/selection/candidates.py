"""What there is to choose from: N places in an image, each of which can be read."""

from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.images import Sources


@runtime_checkable
class Candidates(Protocol):
    """Whatever N candidates are: a `Grid`, or anchors of many sizes, all read at the size `patch`."""

    @property
    def patch(self) -> tuple[int, int]:
        """Height and width of what `read` gives."""
        ...

    @property
    def num_candidates(self) -> int:
        """N."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of `chart`."""
        ...

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of `chart` in image pixels; perhaps a little beyond the image."""
        ...

    @property
    def inside(self) -> Bool[Tensor, "B N"] | None:
        """In a batch of images padded to one size, which candidates lie in each picture; None without padding."""
        ...

    def chart(self, scores: Float[Tensor, " N"]) -> Float[Tensor, "rows cols"]:
        """The scores as a map to look at."""
        ...

    def boxes(self, index: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape 4"]:
        """Left, top, right, bottom in image pixels."""
        ...

    def read(self, image: Float[Tensor, "B C H W"] | Sources, index: Int[Tensor, "B S"]) -> Float[Tensor, "B S C P Q"]:
        """The pixels of each candidate, differentiable with respect to the image."""
        ...
