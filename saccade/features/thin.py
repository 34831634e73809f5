"""patches → features: thin pre-activation ResNets that keep the resolution of small patches at first.

A stem (3×3 convolution of stride 1), single blocks of stride 2, batch norm, ReLU, global pool. Two of them:

ats   the net of attention sampling (ATS), which the paper uses on traffic signs: 32 filters throughout (the paper's
      text also says 16, its code 32), mean pool. 59,680 parameters on RGB.
thin  ours for small evidence: filters double where the resolution halves, and the pool takes the largest response. A
      sign is a fraction of its patch: a mean dilutes it and learns to read many times slower (docs/experiments.md).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.registry import register


class _Block(nn.Module):
    """Two 3×3 convolutions after batch norm and ReLU, halving the resolution; 1×1 convolution as shortcut."""

    def __init__(self, before: int, after: int):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(before, after, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x))
        # Every second pixel taken by hand: the channels-last gradient of a 1×1 convolution of stride 2 writes beyond
        # its memory on CPUs (torch 2.15) for some sizes, such as 12 channels of 90² px, and the process dies.
        short = self.shortcut(active[:, :, ::2, ::2])
        return short + self.conv2(F.relu(self.norm2(self.conv1(active))))


@register("features", "thin")
class ThinResNet(nn.Module):
    """A thin ResNet for small evidence: `widths` of the stem and of each block, the last of which is D.

    stem_stride:  above 1 for whole images, where full resolution would cost too much; the stem's kernel is
                  2 · stem_stride + 1 wide.
    l2_normalize: scale features to unit length, as ATS does before it averages them.
    """

    def __init__(
        self,
        channels: int = 3,
        *,
        widths: Sequence[int] = (12, 24, 48, 96),
        stem_stride: int = 1,
        pool: Literal["mean", "max"] = "max",
        l2_normalize: bool = False,
    ):
        super().__init__()
        if len(widths) < 2 or min(widths) < 8:  # narrower ones were never trained
            raise ValueError(
                f"widths are {list(widths)}, expected two or more, each at least 8, such as [12, 24, 48, 96]"
            )
        if stem_stride < 1:
            raise ValueError(f"stem_stride is {stem_stride}, expected 1 or more")
        kernel = 2 * stem_stride + 1
        self.stem = nn.Conv2d(channels, widths[0], kernel, stride=stem_stride, padding=stem_stride, bias=False)
        self.blocks = nn.Sequential(*(_Block(before, after) for before, after in pairwise(widths)))
        self.norm = nn.BatchNorm2d(widths[-1])
        self.pool = pool
        self.l2_normalize = l2_normalize
        self.width = widths[-1]

    def forward(self, patches: Float[Tensor, "n C P Q"]) -> Float[Tensor, "n D"]:
        """Features of each patch."""
        chart = F.relu(self.norm(self.blocks(self.stem(patches))))
        features = chart.amax(dim=(2, 3)) if self.pool == "max" else chart.mean(dim=(2, 3))
        return F.normalize(features, dim=1) if self.l2_normalize else features


@register("features", "ats")
class ATSNet(ThinResNet):
    """The network of attention sampling: three blocks of `width` filters and a mean pool."""

    def __init__(self, channels: int = 3, *, width: int = 32, l2_normalize: bool = False):
        super().__init__(channels, widths=(width,) * 4, pool="mean", l2_normalize=l2_normalize)
