"""What is timed, and what a timing is. Nothing here imports torch: the command line lists the systems without it."""

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

NAME = "speed"
TITLE = "Images per second against the share of pixels, no training"
SOURCE = "figure of the appendix on speed"


class Contestant(NamedTuple):
    """A network on the whole image, or on `k` patches of `patch`² pixels, chosen by soft or hard top-K.

    plain: as PyTorch runs it, not made for inference.
    """

    network: str
    k: int = 0
    patch: int = 0
    soft: bool = False
    plain: bool = False

    @property
    def kind(self) -> str:
        """How the network's pixels are chosen: whole, soft or hard."""
        return ("soft" if self.soft else "hard") if self.k else "whole"

    @property
    def name(self) -> str:
        """As tables have it.

        >>> Contestant("resnet18").name, Contestant("resnet50", 3, 50, soft=True).name
        ('resnet18, whole image', 'soft, K=3 P=50')
        """
        name = f"{self.kind}, {self.slots}" if self.k else f"{self.network}, whole image"
        return f"{name}, plain PyTorch" if self.plain else name

    @property
    def slots(self) -> str:
        """How many patches of which size."""
        return f"K={self.k} P={self.patch}"

    def share(self, side_px: int) -> float:
        """How much of an image of `side_px`² the network sees."""
        return self.k * self.patch**2 / side_px**2 if self.k else 1.0

    @property
    def paper(self) -> str:
        """How many times as fast as the first system it is in the paper, where the text prints it."""
        return PAPER.get(self, "–")


# Whether soft or hard is five times as fast the paper does not say.
PAPER = {
    Contestant("resnet50", plain=True): "1×",
    Contestant("resnet50", 10, 100, soft=True): "5×",
    Contestant("resnet50", 10, 100): "5×",
}


class Setting(NamedTuple):
    """Sizes of the figure: those of the paper, but for the batches, which are for a CPU; a GPU has others (`fit`).

    batches:    each system is timed with all of these, and keeps the one that suits it best.
    steps_px:   side of the images of the two training steps, `step_batch` of them; step_flags: of their recipes.
    """

    side_px: int = 1000
    view_scale: float = 0.25
    network: str = "resnet50"
    smaller: str = "resnet18"
    slots: tuple[int, ...] = (3, 5, 10)
    patches: tuple[int, ...] = (50, 100)
    sigma: float = 0.05
    draws: int = 500
    batches: tuple[int, ...] = (1, 4, 16)
    steps_px: int = 1000
    step_batch: int = 2
    step_flags: tuple[str, ...] = ()

    def systems(self) -> list[Contestant]:
        """Networks on the whole image, the two to compare with first, then patches."""
        ways = product(self.patches, self.slots, (True, False))
        return [
            Contestant(self.network, plain=True),
            Contestant(self.network),
            Contestant(self.smaller),
            *(Contestant(self.network, k, patch, soft) for patch, k, soft in ways),
        ]


class Timing(NamedTuple):
    """How fast a system was in a round, counted from 1, with the batch that suits it best over all of them.

    share: of the image's pixels that its network sees.
    """

    system: Contestant
    share: float
    round: int
    batch: int
    images_per_second: float


def by_system(timings: Iterable[Timing]) -> dict[Contestant, list[Timing]]:
    """The rounds of each system, in the order in which the systems come."""
    found: dict[Contestant, list[Timing]] = {}
    for timing in timings:
        found.setdefault(timing.system, []).append(timing)
    return found
