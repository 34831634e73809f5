"""What NTS-Net and NTS-Top-K share: one backbone sees the whole image and its parts, three linear heads answer.

    image ─ view ─▶ backbone ─ map ─▶ proposal net ─ scores ─▶ selection ─▶ parts ─▶ the same backbone ─ R_P1 … R_PK
    R_I = pooled map;    heads on R_I, on each R_Pk, and on [R_I, R_P1, …, R_PK] ("concat") or R_I + mean R_P ("mean")

At view scale 1 the whole image is seen at full resolution, as in the paper; below it only the parts are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.aggregation import Aggregator, Concat, Mean, check_together
from saccade.config import ModelConfig
from saccade.extraction.anchors import STEPS_PX, AnchorExtraction, Anchors
from saccade.features import Backbone
from saccade.images import View, view_size
from saccade.output import Output
from saccade.registry import build, build_one
from saccade.scorer.proposals import ProposalScorer
from saccade.selection import Selector, ignore_outside
from saccade.selection.refusals import check_k
from saccade.system import System

AGGREGATIONS = {"concat": Concat, "mean": Mean}


@dataclass(frozen=True)
class NTSOptions:
    """`config.options` of both systems: how many features of the image and of its parts are dropped in training."""

    dropout: float = 0.5


class Trunk(System):
    """Both systems but for their losses; `selections` are the selectors to choose from by name (None: all).

    Slots are the K parts that are looked at, or all that NTS-Net proposes in training, best first; `context` is what
    was seen of the whole image.
    """

    tasks = ("single",)
    configured = ("view", "features", "scorer", "selection", "extraction", "aggregation")
    own_options = NTSOptions
    options: NTSOptions
    view: View
    features: Backbone
    selection: Selector
    extraction: AnchorExtraction
    aggregation: Aggregator
    scorer: ProposalScorer

    def __init__(self, config: ModelConfig, selections: Mapping[str, Any] | None = None):
        super().__init__(config)
        self.view = build_one("view", View, config.view)
        self.features = build(
            "features",
            config.features,
            config.input_channels,
            among={"backbone": Backbone},
            patch=None,
            image_channels=config.channels,
        )
        width, classes = self.features.width, self.task.outputs
        self.scorer = build("scorer", config.scorer, _map_width(self.features), among={"proposals": ProposalScorer})
        self.selection = build("selection", config.selection, among=selections)
        self.extraction = build_one("extraction", AnchorExtraction, config.extraction)
        slots = self._slots()
        self.aggregation = build("aggregation", config.aggregation, width, among=AGGREGATIONS, slots=slots)
        check_together(self.selection, self.aggregation)
        self.dropout = nn.Dropout(self.options.dropout)
        self.prediction = nn.Linear(self.aggregation.width + self.aggregation.needs_order * width, classes)
        self.image_prediction = nn.Linear(width, classes)
        self.part_prediction = nn.Linear(width, classes)

    def forward(self, image: Float[Tensor, "B C H W"], size: Int[Tensor, "B 2"] | None = None) -> Output:
        """Logits of each image; `size` is the height and width of each where the rest of its H×W is padding."""
        self.check_images(image)
        pixels, grid = self.standardize(image, size), self.grid(image.shape[-2:], image.device, size)
        chart = self.chart(pixels)  # B D h w
        raw_scores, scores = self.score(chart, grid)  # B N
        selection = self.selection(scores, grid)  # index B S, weight B M S
        whole = self.dropout(self.features.net.forward_head(chart))  # B D
        parts = self.encode(self.extraction(pixels, selection, grid))  # B M D
        used = self.selection.k  # in training NTS-Net proposes more than it looks at
        pooled = self.aggregation(parts[:, :used], selection, grid)
        joined = torch.cat([whole, pooled], dim=1) if self.aggregation.needs_order else whole + pooled
        logits = self.prediction(joined)
        boxes = grid.boxes(selection.index[:, :used] if selection.hard else selection.index)
        return Output(logits, raw_scores, scores, selection, boxes, grid, features=parts, context=whole)

    def grid(
        self,
        image_size: Sequence[int],
        device: torch.device | str = "cpu",
        size: Int[Tensor, "B 2"] | None = None,
    ) -> Anchors:
        """The candidates of an image of `image_size` (height, width), or of a batch padded to it from each `size`."""
        height, width = image_size
        grid = self.extraction.grid((height, width), view_size((height, width), self.view.scale), device)
        return grid if size is None else grid.padded(size)

    def standardize(
        self, image: Float[Tensor, "B C H W"], size: Int[Tensor, "B 2"] | None
    ) -> Float[Tensor, "B C_in H W"]:
        """Pixels as the backbone wants them. Parts are cut from these: what lies outside is then of a mean color."""
        pixels = (self.with_positions(image, size) - self.features.mean) / self.features.std
        return pixels if size is None else pixels * inside(size, pixels.shape[-2:])[:, None]

    def chart(self, pixels: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        """The backbone's map of the view, ⌈side / 32⌉ cells a side."""
        view = self.view(pixels)
        below, right = (-side % STEPS_PX[0] for side in view.shape[-2:])  # some backbones would drop what is left over
        return self.features.net.forward_features(F.pad(view, (0, right, 0, below)))

    def score(
        self, chart: Float[Tensor, "B D h w"], grid: Anchors
    ) -> tuple[Float[Tensor, "B N"], Float[Tensor, "B N"]]:
        """Raw and normalized scores of the anchors. The backbone is not trained to score: its map is detached."""
        if chart.shape[-2:] != grid.shape:
            raise ValueError(
                f"the backbone's map has {chart.shape[-2]}×{chart.shape[-1]} cells and the anchors "
                f"{grid.shape[0]}×{grid.shape[1]}: use one that pads its convolutions, such as resnet50"
            )
        raw_scores = self.scorer(chart.detach())
        if grid.inside is None:
            return raw_scores, self.selection.normalize(raw_scores)
        return ignore_outside(raw_scores, grid.inside, self.selection.normalize)

    def encode(self, parts: Float[Tensor, "B K C P Q"]) -> Float[Tensor, "B K D"]:
        """Features of the parts, with dropout."""
        features = self.features.net(rearrange(parts, "b k c p q -> (b k) c p q"))
        return self.dropout(rearrange(features, "(b k) d -> b k d", b=len(parts)))

    def _slots(self) -> int:
        slots = self.selection.k
        if slots is None:
            raise ValueError(
                f"the selection {self.config.selection['name']} takes all anchors: use one with an option k"
            )
        check_k(slots, self.grid(self.config.image_size).num_candidates)
        return slots


def inside(size: Int[Tensor, "B 2"], shape: Sequence[int]) -> Bool[Tensor, "B H W"]:
    """Which pixels of a padded batch of `shape` (height, width) are of pictures of `size`."""
    row, column = (torch.arange(side, device=size.device) for side in shape)
    return (row[:, None] < size[:, 0, None, None]) & (column < size[:, 1, None, None])


def cross_entropies(
    logits: Float[Tensor, "B L"],
    image_logits: Float[Tensor, "B L"],
    part_logits: Float[Tensor, "B K L"],
    label: Int[Tensor, " B"],
    *,
    share: Float[Tensor, "B K"] | None = None,
    class_weight: Float[Tensor, " L"] | None = None,
) -> Float[Tensor, ""]:
    """CE(image and parts) + CE(image) + CE(parts), the last a mean over the parts, each of which counts its `share`."""
    cross_entropy = partial(F.cross_entropy, weight=class_weight, reduction="none")
    labels = repeat(label, "b -> b k", k=part_logits.shape[1])
    of_parts = cross_entropy(rearrange(part_logits, "b k l -> b l k"), labels)  # B K
    of_parts = of_parts.mean(dim=1) if share is None else (share * of_parts).sum(dim=1)
    losses = cross_entropy(logits, label) + cross_entropy(image_logits, label) + of_parts  # B
    return losses.sum() / (len(label) if class_weight is None else class_weight[label].sum())


def _map_width(features: Backbone) -> int:
    """Channels of the backbone's last map, which must lie as densely as the anchors."""
    net: Any = features.net
    layers = getattr(net, "feature_info", None)
    step = layers[-1]["reduction"] if layers else None
    if step != STEPS_PX[0] or str(getattr(net, "output_fmt", "NCHW")).endswith("NHWC"):
        raise ValueError(
            f"the backbone {type(net).__name__} ends in no map B D h w with a stride of {STEPS_PX[0]} px (its stride "
            f"is {step}): use a convolutional net such as resnet50 or tf_efficientnet_lite0"
        )
    return int(net.num_features)
