"""features → scores: NTS-Net's proposal net (its navigator), one score per anchor.

The backbone's map goes through three 3×3 convolutions with ReLU, of strides 1, 2, 2; at each resolution a 1×1
convolution gives the scores of that level's anchors. The paper puts squeeze-excitation over all three maps together
before the 1×1 convolutions: z = mean over all positions, maps · sigmoid(W₂ relu(W₁ z)), so that every anchor knows of
the others.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.extraction.anchors import TYPES


class ProposalScorer(nn.Module):
    """Map B D h w → scores B N, numbered as in `saccade.extraction.anchors`.

    hidden:             channels of the three convolutions.
    squeeze_excitation: channels of its bottleneck, 32 in the paper; 0 leaves it out, as in NTS-Net.

    >>> ProposalScorer(8)(torch.rand(2, 8, 14, 14)).shape
    torch.Size([2, 1614])
    """

    def __init__(self, width: int, *, hidden: int = 128, squeeze_excitation: int = 0):
        super().__init__()
        self.down = nn.ModuleList(
            nn.Conv2d(before, hidden, 3, stride=stride, padding=1)
            for before, stride in ((width, 1), (hidden, 2), (hidden, 2))
        )
        self.heads = nn.ModuleList(nn.Conv2d(hidden, types, 1) for types in TYPES)
        self.excitation: nn.Module | None = None
        if squeeze_excitation:
            self.excitation = nn.Sequential(
                nn.Linear(hidden, squeeze_excitation, bias=False),
                nn.ReLU(),
                nn.Linear(squeeze_excitation, hidden, bias=False),
                nn.Sigmoid(),
            )

    def forward(self, features: Float[Tensor, "B D h w"]) -> Float[Tensor, "B N"]:
        """One score per anchor: level by level, then type, row, column."""
        maps = []
        for convolution in self.down:
            features = convolution(features).relu()
            maps.append(features)
        if self.excitation is not None:
            maps = self._excite(maps, self.excitation)
        # In bfloat16 hundreds of scores share a value, and ties would decide where to look.
        whole = next(self.heads.parameters()).dtype
        with torch.autocast(features.device.type, enabled=False):
            scores = [head(chart.to(whole)).flatten(1) for head, chart in zip(self.heads, maps, strict=True)]
        return torch.cat(scores, dim=1)

    @staticmethod
    def _excite(maps: Sequence[Tensor], excitation: nn.Module) -> list[Tensor]:
        squeezed = torch.cat([chart.flatten(2) for chart in maps], dim=2).mean(dim=2)  # B hidden
        gate = excitation(squeezed)[..., None, None]
        return [chart * gate for chart in maps]
