"""view → scores: the paper's scorer.

"A CNN with 4 convolutional layers of kernel size 3×3 with stride 1 and 'valid' padding. The number of feature maps was
8, 16, 32 and 1. Every convolution except for the last was followed by a ReLU. The last convolution was followed by
an 8×8 max pooling of stride 8." 6,321 parameters on RGB.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torchvision.ops import SqueezeExcitation

from saccade.extraction.receptive_field import receptive_field
from saccade.registry import register
from saccade.scorer.scored import Scored
from saccade.scorer.tiled_scoring import LARGE_VIEW_PX, score_in_tiles


@register("scorer", "conv")
class ConvScorer(nn.Module):
    """Convolutions of `widths` channels, a last one to a single channel, and a max-pool of `pool` pixels.

    tiles:              pad the view with its own border so that the cells cover it (the aligned geometry); otherwise
                        every layer is 'valid' as in the paper (the stretched geometry).
    squeeze_excitation: let every position know the whole view: channels are rescaled by a bottleneck of this many
                        channels over their global means, before the last convolution. 0 leaves it out.
    sizes:              of candidates; the last convolution has a channel for each.
    """

    width = 0

    def __init__(
        self,
        channels: int = 3,
        *,
        widths: Sequence[int] = (8, 16, 32),
        kernel: int = 3,
        pool: int = 8,
        squeeze_excitation: int = 0,
        tiles: bool = True,
        sizes: int = 1,
    ):
        super().__init__()
        for name, px in (("kernel", kernel), ("pool", pool)):
            if px < 1:
                raise ValueError(f"{name} is {px}, expected at least 1 pixel of the view")
        layers: list[nn.Module] = []
        for before, after in zip((channels, *widths), widths, strict=False):
            layers += [nn.Conv2d(before, after, kernel), nn.ReLU()]
        if squeeze_excitation:
            layers.append(SqueezeExcitation(widths[-1], squeeze_excitation))
        last = nn.Conv2d((channels, *widths)[-1], sizes, kernel)
        # Sizes begin alike: one whose scores all lay below those of another would be out of reach of the noise.
        with torch.no_grad():
            last.weight[1:], last.bias[1:] = last.weight[:1], last.bias[:1]  # pyright: ignore[reportOptionalSubscript]
        layers += [last, nn.MaxPool2d(pool)]
        self.layers = nn.Sequential(*layers)
        self.local = not squeeze_excitation
        self.field = receptive_field(layers, tiles=tiles)

    def forward(self, view: Float[Tensor, "B C h w"]) -> Scored:
        """One score per size and cell, row by row, and nothing else."""
        # A graph is traced once for all sizes, and squeeze and excitation looks at the whole view.
        in_tiles = self.local and not torch.compiler.is_compiling() and math.prod(view.shape[-2:]) > LARGE_VIEW_PX
        scores = score_in_tiles(self.score, view, self.field) if in_tiles else self.score(self._pad(view))
        scores = rearrange(scores, "b sizes rows cols -> b (sizes rows cols)")
        return Scored(scores, scores.new_zeros(scores.shape[0], 0))

    def score(self, padded: Float[Tensor, "B C h w"]) -> Float[Tensor, "B sizes rows cols"]:
        """The scores of every receptive field that lies wholly in the padded view."""
        hidden = self.layers[:-2](padded)
        # In bfloat16 hundreds of scores share a value, and ties would decide where to look.
        with torch.autocast(padded.device.type, enabled=False):
            return self.layers[-2:](hidden.to(self.layers[-2].weight.dtype))

    def _pad(self, view: Tensor) -> Tensor:
        if not self.field.tiles:
            return view
        top_bottom, left_right = (self.field.padding(side) for side in view.shape[-2:])
        # Zeros would draw an edge around every image, and an edge is what a young scorer likes best.
        return F.pad(view, (*left_right, *top_bottom), mode="replicate")
