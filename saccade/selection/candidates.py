"""What there is to choose from: N places in an image, each of which can be read."""

from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.images import Sources


@runtime_checkable
class Readable(Protocol):
    """Places whose pixels can be read, all at the size `patch`: all that extraction asks for."""

    @property
    def patch(self) -> tuple[int, int]:
        """Height and width of what `read` gives."""
        ...

    def read(self, image: Float[Tensor, "B C H W"] | Sources, index: Int[Tensor, "B S"]) -> Float[Tensor, "B S C P Q"]:
        """The pixels of each place, differentiable with respect to the image."""
        ...


@runtime_checkable
class Candidates(Readable, Protocol):
    """Whatever N candidates are: a `Grid`, or anchors of many sizes."""

    @property
    def num_candidates(self) -> int:
        """N."""
        ...

    @property
    def inside(self) -> Bool[Tensor, "B N"] | None:
        """In a batch of images padded to one size, which candidates lie in each picture; None without padding."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of `chart`."""
        ...

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of `chart` in image pixels; perhaps a little beyond the image."""
        ...

    def chart(self, scores: Float[Tensor, " N"]) -> Float[Tensor, "rows cols"]:
        """The scores as a map to look at."""
        ...

    def boxes(self, index: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape 4"]:
        """Left, top, right, bottom in image pixels."""
        ...
