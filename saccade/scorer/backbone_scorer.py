"""view → scores: the first stages of a timm network, which may come with ImageNet weights.

They tell a crack from a scratch in a view where four new convolutions see edges, for fewer multiply-adds. What they
saw goes along with the scores (`Scored.evidence`): weighted by them it is an answer of the view alone, and so labels
teach the scorer at every candidate at once, before any patch can be read (`context_coefficient` of the model's loss).
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from timm.layers import Conv2dSame  # pyright: ignore[reportPrivateImportUsage]
from torch import Tensor, nn

from saccade.extraction.receptive_field import ReceptiveField
from saccade.features.timm_backbone import Backbone
from saccade.module_modes import do_weights_follow, evaluating
from saccade.registry import register
from saccade.scorer.scored import Scored

DRAWS = 6  # random views: more do not move the center by a tenth of a pixel


@register("scorer", "backbone")
class BackboneScorer(nn.Module):
    """The stages of `model` until it sees the view `stride` times smaller; one cell of that is one candidate.

    model:    a timm name. Without one the feature network is taken, and begins here with the same weights (`features`
              are its options in the config).
    width:    how many numbers the evidence at each candidate has.
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
        width: int = 128,
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
        self.stages = Backbone(channels, image_channels=image_channels, **network)
        self.level = _cut_off(self.stages.net, network["model"], stride)
        _fix_padding(self.stages.net)
        seen = int(self.stages.net.feature_info[self.level]["num_chs"])  # pyright: ignore
        self.describe = nn.Sequential(nn.Conv2d(seen, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.score = nn.Conv2d(width, 1, 1)
        nn.init.zeros_(self.score.weight)  # at first the view is looked at as a whole
        self.width, self.stride = width, stride
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
        """One score per cell, row by row, and what was seen there."""
        (top, bottom), (left, right) = (self.field.padding(side) for side in view.shape[-2:])
        seen = self.describe(self.see(F.pad(view, (left, right, top, bottom), mode="replicate")))
        # In bfloat16 hundreds of scores share a value, and ties would decide where to look.
        with torch.autocast(view.device.type, enabled=False):
            scores = self.score(seen.to(self.score.weight.dtype))
        return Scored(
            rearrange(scores, "b 1 rows cols -> b (rows cols)"), rearrange(seen, "b e rows cols -> b (rows cols) e")
        )

    def see(self, view: Float[Tensor, "B C h w"]) -> Float[Tensor, "B D rows cols"]:
        """The last stage that is left, of a view whose sides are multiples of its stride."""
        net, normalized = self.stages.net, (view - self.stages.mean) / self.stages.std
        return net.forward_intermediates(  # pyright: ignore
            normalized, indices=[self.level], intermediates_only=True, stop_early=True
        )[0]


def _place_cells_again(scorer: BackboneScorer, _: Any) -> None:
    """After weights were loaded; not a lambda, which cannot be pickled."""
    scorer._place_cells()


def _network_of(features: Mapping[str, Any]) -> dict[str, Any]:
    if features.get("name") != "backbone":
        raise ValueError(
            "the scorer backbone takes the stages of the feature network, which is none of timm's here: name one with "
            "scorer.model, for instance tf_efficientnet_lite0"
        )
    return {"model": "resnet18", **{key: value for key, value in features.items() if key != "name"}}


def _cut_off(net: nn.Module, model: str, stride: int) -> int:
    """Drop what comes after the last stage of `stride`; its number among the stages."""
    strides = [info["reduction"] for info in getattr(net, "feature_info", [])]
    if strides and not hasattr(net, "prune_intermediate_layers"):
        raise ValueError(
            f"{model} cannot score: timm cannot cut it off after a stage (it has no prune_intermediate_layers); choose "
            "another model, for instance resnet18 or tf_efficientnet_lite0"
        )
    if stride not in strides:
        has = f"its stages have {', '.join(map(str, sorted(set(strides))))}" if strides else "it has no stages"
        raise ValueError(f"{model} cannot score cells of {stride} view pixels: {has}; choose another stride or model")
    level = max(number for number, other in enumerate(strides) if other == stride)
    net.prune_intermediate_layers([level], prune_norm=True, prune_head=True)  # pyright: ignore
    return level


class FixedPadding(nn.Conv2d):
    """A convolution with TensorFlow's "same" padding for sides that are multiples of its stride.

    For them it does not depend on the side. A graph for images of any size would otherwise carry the formula of every
    side through every layer: minutes of algebra when it is traced.
    """

    def forward(self, input: Float[Tensor, "B C h w"]) -> Float[Tensor, "B D rows cols"]:
        """Rows and columns are the sides divided by the stride."""
        margins = []
        for kernel, stride, dilation in zip(self.kernel_size, self.stride, self.dilation, strict=True):
            both = max(dilation * (kernel - 1) + 1 - stride, 0)
            margins = [both // 2, both - both // 2, *margins]  # the last axis first
        return F.conv2d(F.pad(input, margins), self.weight, self.bias, self.stride, 0, self.dilation, self.groups)


def _fix_padding(net: nn.Module) -> None:
    same: list[tuple[str, Any]] = [each for each in net.named_modules() if isinstance(each[1], Conv2dSame)]
    for name, layer in same:
        channels = layer.in_channels, layer.out_channels
        sizes = layer.kernel_size, layer.stride, 0, layer.dilation, layer.groups
        fixed = FixedPadding(*channels, *sizes, bias=layer.bias is not None)
        fixed.weight, fixed.bias = layer.weight, layer.bias
        net.set_submodule(name, fixed)


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
            seen = scorer.describe(scorer.see(view))[0, :, cell, cell]
            direction = torch.randn(len(seen), generator=generator)
            pull += torch.autograd.grad(seen @ direction, view)[0].square().sum(dim=(0, 1))
    place = torch.arange(side) + 0.5
    x, y = (pull.sum(dim=axis) @ place / pull.sum() for axis in (0, 1))
    return float(x + y) / 2 - cell * stride
