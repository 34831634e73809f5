"""An image with what is known of it, and a cache of such samples: their files are decoded once, not in every round."""

from typing import Any, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor

BLOCK = 2**26  # bytes
NO_KIND = -1


class Sample(NamedTuple):
    """An image (bytes 3 H W, or a source where images are streamed), what its label asks of a model (its class number;
    0 or 1 for each of several labels; a number), its boxes (left, top, right, bottom in its pixels), its place in the
    data set, and the class number of what each box shows (`NO_KIND` where nobody said).
    """

    image: Any
    label: float | tuple[float, ...]
    boxes: Int[Tensor, "R 4"]
    index: int
    kinds: Int[Tensor, " R"] | None = None


class SampleCache:
    """The first samples it is given to keep, as long as their pixels fit into `gigabytes`.

    Pixels are moved into a few large blocks. Thousands of small pieces of memory, taken in between the tensors of a
    step, would leave gaps that nothing fits into: 0.9 GB of images once took 5.7 GB.
    """

    def __init__(self, gigabytes: float):
        self.gigabytes = gigabytes
        self._room = round(gigabytes * 1e9)  # bytes
        self._block = torch.empty(0, dtype=torch.uint8)
        self._samples: dict[int, Sample] = {}

    def __reduce__(self):
        """To another process it goes empty."""
        return SampleCache, (self.gigabytes,)

    def get(self, index: int) -> Sample | None:
        """The sample of this number, if it was kept."""
        return self._samples.get(index)

    def keep(self, sample: Sample) -> Sample:
        """The same sample, whose pixels may lie elsewhere now."""
        count = sample.image.numel()
        if count > self._room:
            return sample
        if count > len(self._block):
            self._block = torch.empty(max(BLOCK, count), dtype=torch.uint8)
        pixels = rearrange(sample.image, "c h w -> h w c")
        kept, self._block = self._block[:count].view(pixels.shape), self._block[count:]
        self._room -= count
        sample = sample._replace(image=rearrange(kept.copy_(pixels), "h w c -> c h w"))
        self._samples[sample.index] = sample
        return sample
