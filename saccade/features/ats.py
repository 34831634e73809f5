"""patches → features: the thin ResNet of attention sampling (ATS), which the paper uses on traffic signs.

A pre-activation ResNet: 3×3 convolution of stride 1 with 32 filters (the paper's text says 16, its code 32), three
single blocks of stride 2, batch norm, ReLU, global average pool. 59,680 parameters on RGB.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class _Block(nn.Module):
    """Two 3×3 convolutions after batch norm and ReLU, halving the resolution; 1×1 convolution as shortcut."""

    def __init__(self, width: int):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(width, width, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(width, width, 1, stride=2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x))
        return self.shortcut(active) + self.conv2(F.relu(self.norm2(self.conv1(active))))


class ATSNet(nn.Module):
    """Patches n C P P → features n D with D = `width`; `l2_normalise` scales each to unit length, as ATS does."""

    def __init__(self, channels: int = 3, *, width: int = 32, l2_normalise: bool = False):
        super().__init__()
        if width < 8:
            # Below 8 channels the channels-last gradient of a 1×1 convolution of stride 2 writes beyond its memory on
            # CPUs (torch 2.15), and the process dies somewhere else.
            raise ValueError(f"width is {width}, expected at least 8: the paper's net has 32")
        self.stem = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(*(_Block(width) for _ in range(3)))
        self.norm = nn.BatchNorm2d(width)
        self.l2_normalise = l2_normalise
        self.width = width

    def forward(self, patches: Float[Tensor, "n C P Q"]) -> Float[Tensor, "n D"]:
        """Features of each patch."""
        features = F.relu(self.norm(self.blocks(self.stem(patches)))).mean(dim=(2, 3))
        return F.normalize(features, dim=1) if self.l2_normalise else features
