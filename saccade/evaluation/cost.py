"""What an answer costs: multiply-adds of the stages, and memory."""

import math
import sys
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from saccade.images import Sources, view_size
from saccade.images.boxes import region_size
from saccade.module_modes import evaluating
from saccade.system import System

STAGES = ("scorer", "features")


class Blank:
    """An `ImageSource` of `size` (height, width) without anything in it."""

    def __init__(self, size: tuple[int, int], channels: int = 3):
        self.size, self.channels = size, channels

    def view(self, scale: float) -> Float[Tensor, "C h w"]:
        """Black."""
        return torch.zeros(self.channels, *view_size(self.size, scale))

    def regions(self, boxes: Int[Tensor, "R 4"]) -> Float[Tensor, "R C P Q"]:
        """Black."""
        return torch.zeros(len(boxes), self.channels, *region_size(boxes))


@torch.no_grad()
def multiply_adds(model: nn.Module, image_size: tuple[int, int], channels: int = 3) -> dict[str, int]:
    """Multiply-adds of one image in evaluation mode: in all (`total`), and of the scorer and the feature network.

    Counted are convolutions and matrix products, which is where the work is; all other operations are a few per pixel.
    A feature network that also reads the view, as that of NTS-Net does, is counted with all it reads; the scorer is
    then what comes on top of it.

    >>> model = nn.Sequential()
    >>> model.add_module("features", nn.Conv2d(3, 8, 1, bias=False))
    >>> multiply_adds(model, (10, 10))
    {'total': 2400, 'features': 2400}
    """
    place = next(model.parameters())
    in_parts = isinstance(model, System) and model.reads_parts
    # An image that is read in parts may be too large to be a tensor.
    image: Any = Sources([Blank(image_size, channels)]) if in_parts else torch.zeros(1, channels, *image_size)
    image = image.to(place.device, place.dtype)
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # what a fused transformer layer does is not counted
    try:
        with evaluating(model), FlopCounterMode(display=False) as counter:
            model(image)
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
    counts = {name.partition(".")[2]: flops for name, flops in counter.get_flop_counts().items()}
    parts = dict(model.named_children())
    stages = {name: _work(parts[name], name, counts) // 2 for name in STAGES if name in parts}
    return {"total": counter.get_total_flops() // 2, **stages}


def _work(module: nn.Module, name: str, counts: Mapping[str, Mapping[Any, int]]) -> int:
    """What a module did, whether it was called or, as NTS-Net does with its backbone, only parts of it were."""
    of_parts = sum(_work(part, f"{name}.{inner}", counts) for inner, part in module.named_children())
    return max(sum(counts.get(name, {}).values()), of_parts)


def peak_memory_mb() -> float:
    """The most memory this process had until now: that of the GPU if it uses one, else resident memory.

    NaN on Windows, where Python cannot tell.
    """
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated() // 2**20
    try:
        import resource
    except ImportError:
        return math.nan
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20
