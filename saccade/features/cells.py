"""pixels → cells: what three stages of a timm network saw, side by side on the grid of the middle one.

Early stages tell a crack from a scratch, later ones a wheel from a drum; a linear layer takes what it needs of each.
With ImageNet weights these cells are worth so much as they are that a small gated attention over them learns from a few
hundred images, in seconds, with the network held still (docs/training.md):

    e_n = ReLU(W cell_n + b),   score_n = wᵀ (tanh(V e_n) ⊙ sigm(U e_n)),   features = Σ_n softmax(score)_n e_n

`Cells` is this for patches, the feature network `cells`. For views the scorer `backbone` has the same layers, and its
scores say where to look.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from jaxtyping import Float
from timm.layers import Conv2dSame  # pyright: ignore[reportPrivateImportUsage]
from torch import Tensor, nn

from saccade.features.timm_backbone import Backbone
from saccade.registry import register

DROPOUT = 0.25


class Seen(NamedTuple):
    """What a network saw: its cells and, if it was run to its end, the features of the whole (E = 0 if it was not)."""

    cells: Float[Tensor, "B D rows cols"]
    whole: Float[Tensor, "B E"]


class Stages(nn.Module):
    """A timm network as `Seen`: stages of half the stride, of `stride` and of twice the stride.

    to_the_end: run the network to its end, too.
    """

    def __init__(
        self, channels: int, *, stride: int, to_the_end: bool, image_channels: int | None, network: dict[str, Any]
    ):
        super().__init__()
        self.backbone = Backbone(channels, image_channels=image_channels, **network)
        net, name = self.backbone.net, network["model"]
        self.levels = [_find_level(net, name, side) for side in (stride // 2, stride, 2 * stride)]
        if not to_the_end:
            net.prune_intermediate_layers(self.levels, prune_norm=True, prune_head=True)
        _fix_padding(net)
        self.stride, self.to_the_end = stride, to_the_end
        self.width = sum(int(net.feature_info[level]["num_chs"]) for level in self.levels)
        self.whole_width = self.backbone.width if to_the_end else 0
        self.multiple_px = max(info["reduction"] for info in net.feature_info) if to_the_end else 2 * stride

    def forward(self, pixels: Float[Tensor, "B C h w"]) -> Seen:
        """One cell for every `stride` pixels that were begun; the border is repeated where a stage needs more."""
        rows, cols = (-(-side // self.stride) for side in pixels.shape[-2:])
        beyond = [-side % self.multiple_px for side in pixels.shape[-2:]]
        padded = F.pad(pixels, (0, beyond[1], 0, beyond[0]), mode="replicate")
        net, normalized = self.backbone.net, (padded - self.backbone.mean) / self.backbone.std
        if self.to_the_end:
            last, stages = net.forward_intermediates(normalized, indices=self.levels)
            whole = net.forward_head(last, pre_logits=True)
        else:
            stages = net.forward_intermediates(
                normalized, indices=self.levels, intermediates_only=True, stop_early=True
            )
            whole = pixels.new_zeros(pixels.shape[0], 0)
        fine, middle, coarse = stages
        cells = torch.cat([F.avg_pool2d(fine, 2), middle, F.interpolate(coarse, scale_factor=2.0)], dim=1)
        return Seen(cells[..., :rows, :cols], whole)


def with_mirrored(pixels: Float[Tensor, "B C h w"]) -> Float[Tensor, "2*B C h w"]:
    """Pictures, and after them their mirror images: what is right of both is right more often than what is of one."""
    return torch.cat([pixels, pixels.flip(-1)])


def see_one_way(stages: Stages, pixels: Float[Tensor, "B C h w"]) -> Seen:
    """What is seen of pictures as they are or, by the toss of a coin, mirrored; cells lie as in the pictures.

    So a network that looks at both learns for the price of one.
    """
    if torch.rand(()) < 0.5:
        return stages(pixels)
    seen = stages(pixels.flip(-1))
    return seen._replace(cells=seen.cells.flip(-1))


class Attended(NamedTuple):
    """One score per cell, row by row, and what was seen where the scores are high."""

    scores: Float[Tensor, "B N"]
    context: Float[Tensor, "B E"]


class CellAttention(nn.Module):
    """Gated attention over cells by several heads, each with layers of its own: `heads` · `width` numbers.

    Heads that each learn to answer alone are wrong in different places, and their mean is right more often than one.
    At first all scores are zero: the mean over all cells is seen, from which a head learns like any other; a score
    rises where the evidence is better than that mean.
    """

    def __init__(self, channels: int, *, heads: int, width: int):
        super().__init__()
        self.describe = nn.Conv2d(channels, heads * width, 1)
        self.content = nn.Conv1d(heads * width, heads * width // 2, 1, groups=heads)
        self.gate = nn.Conv1d(heads * width, heads * width // 2, 1, groups=heads)
        self.score = nn.Conv1d(heads * width // 2, heads, 1, groups=heads)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)  # pyright: ignore[reportArgumentType]
        self.heads, self.width = heads, heads * width

    def forward(self, cells: Float[Tensor, "B D rows cols"]) -> Attended:
        """Scores are means over the heads; the context is theirs one after the other."""
        evidence = F.relu(self.describe(cells)).flatten(2)  # B HE N
        evidence = F.dropout(evidence, DROPOUT, self.training)
        # In bfloat16 hundreds of scores share a value, and ties would decide where to look.
        with torch.autocast(cells.device.type, enabled=False):
            exact = evidence.to(self.score.weight.dtype)
            scores = self.score(self.content(exact).tanh() * self.gate(exact).sigmoid())  # B H N
        evidence = rearrange(evidence, "b (h e) n -> b h e n", h=self.heads)
        context = torch.einsum("bhn,bhen->bhe", scores.softmax(dim=2).to(evidence.dtype), evidence)
        return Attended(scores.mean(dim=1), rearrange(context, "b h e -> b (h e)"))


@register("features", "cells")
class Cells(nn.Module):
    """The stages of a timm network on a patch, and attention to those of its cells that count.

    model, pretrained, weights: as of the feature network backbone.
    stride: patch pixels from one cell to the next.
    heads, width: how many attend to the cells, and how many numbers each of them gives.
    mirrored: look at the mirror image of each patch, too, and take the mean; in training look at one of both.
    """

    def __init__(
        self,
        channels: int = 3,
        *,
        image_channels: int | None = None,
        model: str = "resnet18",
        pretrained: bool = False,
        weights: str | None = None,
        stride: int = 8,
        heads: int = 4,
        width: int = 64,
        mirrored: bool = False,
    ):
        super().__init__()
        self.mirrored = mirrored
        network = {"model": model, "pretrained": pretrained, "weights": weights}
        self.stages = Stages(channels, stride=stride, to_the_end=False, image_channels=image_channels, network=network)
        self.attention = CellAttention(self.stages.width, heads=heads, width=width)
        self.width = self.attention.width

    def forward(self, patches: Float[Tensor, "n C P Q"]) -> Float[Tensor, "n D"]:
        """Features of each patch."""
        if self.mirrored and not self.training:
            context = self.attention(self.stages(with_mirrored(patches)).cells).context
            return reduce(context, "(v n) d -> n d", "mean", v=2)
        seen = see_one_way(self.stages, patches) if self.mirrored else self.stages(patches)
        return self.attention(seen.cells).context


def _find_level(net: nn.Module, model: str, stride: int) -> int:
    """The number of the last stage that sees its input `stride` times smaller."""
    strides = [info["reduction"] for info in getattr(net, "feature_info", [])]
    if strides and not hasattr(net, "prune_intermediate_layers"):
        raise ValueError(
            f"{model} has no cells: timm cannot cut it off after a stage (it has no prune_intermediate_layers); choose "
            "another model, for instance resnet18 or tf_efficientnet_lite0"
        )
    if stride not in strides:
        has = f"its stages have {', '.join(map(str, sorted(set(strides))))}" if strides else "it has no stages"
        raise ValueError(
            f"{model} has no stage of {stride} pixels ({has}), and cells are made of those of half the stride, of the "
            "stride and of twice the stride: choose another stride or model"
        )
    return max(number for number, other in enumerate(strides) if other == stride)


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
