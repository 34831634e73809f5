"""view → scores: gated attention over the cells of a timm network, which may come with ImageNet weights.

They tell a crack from a scratch in a view where four new convolutions see edges. What was seen where scores are high
goes along with them (`Scored.context`): it is an answer of the view alone, and so labels teach the scorer at every
candidate at once, before any patch can be read. With `glance` the network is run to its end, and the context also holds
its features of the view as a whole.
"""

from collections.abc import Mapping
from typing import Any

import torch
from einops import reduce
from jaxtyping import Float
from torch import Tensor, nn

from saccade.extraction.receptive_field import ReceptiveField
from saccade.features.cells import CellAttention, Stages, see_one_way, with_mirrored
from saccade.module_modes import do_weights_follow, evaluating
from saccade.registry import register
from saccade.scorer.scored import Scored

DRAWS = 6  # random views: more do not move the center by a tenth of a pixel


@register("scorer", "backbone")
class BackboneScorer(nn.Module):
    """Cells of `stride` view pixels as three stages of `model` saw them; one cell is one candidate.

    model:    a timm name. Without one the feature network is taken, and begins here with the same weights (`features`
              are its options in the config).
    heads, width: how many attend to the cells, and how many numbers each of them gives.
    mirrored: look at the mirror image of the view, too: the context is the mean of both, scores are of the view itself.
              In training one of both is looked at.
    glance:   whether the context also holds the network's features of the whole view.
    tiles:    whether cells cover the whole view, as the aligned geometry wants; there is no other way here.
    """

    center: Tensor

    @torch.inference_mode(mode=False)  # its weights would have no gradient by which to find the center of a cell
    def __init__(
        self,
        channels: int = 3,
        *,
        model: str | None = None,
        stride: int = 8,
        heads: int = 4,
        width: int = 64,
        glance: bool = False,
        mirrored: bool = False,
        pretrained: bool = False,
        weights: str | None = None,
        image_channels: int | None = None,
        features: Mapping[str, Any] | None = None,
        tiles: bool = True,
    ):
        super().__init__()
        if not tiles:
            raise ValueError("the scorer backbone centers patches on what it saw: use extraction.geometry aligned")
        if model is None and (pretrained or weights):
            raise ValueError("the scorer backbone takes pretrained and weights with a model of its own: give model too")
        network = (
            {"model": model, "pretrained": pretrained, "weights": weights} if model else _network_of(features or {})
        )
        self.stages = Stages(channels, stride=stride, to_the_end=glance, image_channels=image_channels, network=network)
        self.attention = CellAttention(self.stages.width, heads=heads, width=width)
        self.mirrored = mirrored
        self.width, self.stride = self.attention.width + self.stages.whole_width, stride
        # Saved with the weights: training may move it, but patches and scores have learnt to go together by then.
        # Where they are about to be loaded it comes with them, and need not be found, which takes seconds.
        center = stride / 2 if do_weights_follow() else _find_center(self, channels, stride)
        self.register_buffer("center", torch.tensor(center))
        self._place_cells()
        self.register_load_state_dict_post_hook(_place_cells_again)

    def _place_cells(self) -> None:
        """Cells cover the view and look at `center` of each; a plain number, so that graphs can be traced."""
        self.field = ReceptiveField(self.stride, self.stride, float(self.center), tiles=True, before=0)

    def forward(self, view: Float[Tensor, "B C h w"]) -> Scored:
        """One score per cell, row by row, and the context: attended cells, then the glance."""
        if self.mirrored and not self.training:
            return self._see_both_ways(view)
        cells, glance = see_one_way(self.stages, view) if self.mirrored else self.stages(view)
        scores, context = self.attention(cells)
        return Scored(scores, torch.cat([context, glance], dim=1))

    def _see_both_ways(self, view: Float[Tensor, "B C h w"]) -> Scored:
        cells, glance = self.stages(with_mirrored(view))
        scores, context = self.attention(cells)
        seen = torch.cat([context, glance], dim=1)
        return Scored(scores[: len(view)], reduce(seen, "(v b) e -> b e", "mean", v=2))


def _place_cells_again(scorer: BackboneScorer, _: Any) -> None:
    """After weights were loaded; not a lambda, which cannot be pickled."""
    scorer._place_cells()


def _network_of(features: Mapping[str, Any]) -> dict[str, Any]:
    if features.get("name") not in ("backbone", "cells"):
        raise ValueError(
            "the scorer backbone takes the stages of the feature network, which is none of timm's here: name one with "
            "scorer.model, for instance tf_efficientnet_lite0"
        )
    known = {key: features[key] for key in ("model", "pretrained", "weights") if key in features}
    return {"model": "resnet18", **known}


def _find_center(scorer: "BackboneScorer", channels: int, stride: int) -> float:
    """View pixels from the corner of a cell to the middle of what it looks at, in the weights it begins with.

    The center of mass of the squared gradient of a cell's evidence, over random views. Kernels and paddings alone do
    not tell: those of tf_efficientnet_lite0 would have cells of 8 px look at 7.5, its ImageNet weights look at 3.6.
    """
    side, cell = 32 * stride, 16  # far from every border
    generator = torch.Generator().manual_seed(0)
    pull = torch.zeros(side, side)
    with evaluating(scorer), torch.enable_grad():
        for _ in range(DRAWS):
            view = torch.rand(1, channels, side, side, generator=generator).requires_grad_()
            seen = scorer.attention.describe(scorer.stages(view).cells)[0, :, cell, cell]
            direction = torch.randn(len(seen), generator=generator)
            pull += torch.autograd.grad(seen @ direction, view)[0].square().sum(dim=(0, 1))
    place = torch.arange(side) + 0.5
    x, y = (pull.sum(dim=axis) @ place / pull.sum() for axis in (0, 1))
    return float(x + y) / 2 - cell * stride
