"""image → view → localization → K glimpses → features → pooled → logits: the spatial transformer.

Jaderberg, Simonyan, Zisserman, Kavukcuoglu: Spatial Transformer Networks, 2015. As the paper casts it, the localization
network takes the place of scorer and selection, and the grid sampler (`glimpses`) that of extraction. At the start the
K glimpses are spread over the image at the natural scale; all at its center they would be one and the same, and learn
the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.config import ModelConfig
from saccade.extraction import Extraction
from saccade.images import View
from saccade.options import AT_LEAST_ONE, check_ranges
from saccade.output import Output
from saccade.registry import build, build_one, register
from saccade.selection.selection import identity_selection
from saccade.system import System
from saccade.systems.glimpses import FREE, Transforms, glimpses, make_transforms


def spread(k: int, image_size: Sequence[int]) -> Float[Tensor, "K 2"]:
    """K places, x and y in (−1, 1), evenly in rows over an image of `image_size` (height, width).

    >>> spread(4, (300, 400)).tolist()
    [[-0.5, -0.5], [0.5, -0.5], [-0.5, 0.5], [0.5, 0.5]]
    """
    rows = min(k, max(1, round(math.sqrt(k * image_size[0] / image_size[1]))))
    counts = [k // rows + (row < k % rows) for row in range(rows)]
    return torch.tensor(
        [
            (2 * (col + 0.5) / count - 1, 2 * (row + 0.5) / rows - 1)
            for row, count in enumerate(counts)
            for col in range(count)
        ]
    )


class Localization(nn.Module):
    """View → the numbers of K glimpses: start + gain · network(view), where the network starts out at zero.

    Convolutions of stride 2, then a mean over `cells` × `cells` parts of the view, so that any size of it will do.
    Adam moves all weights alike, however small their gradient is; without a gain well below 1 the glimpses have gone to
    the edges before the features mean anything.
    """

    start: Float[Tensor, "K n"]

    def __init__(
        self, channels: int, start: Float[Tensor, "K n"], *, widths: Sequence[int], cells: int, hidden: int, gain: float
    ):
        super().__init__()
        self.gain = gain
        self.register_buffer("start", start, persistent=False)
        convolutions = [
            layer
            for before, after in pairwise((channels, *widths))
            for layer in (
                nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            )
        ]
        self.layers = nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(cells), nn.Flatten())
        self.hidden = nn.Linear(widths[-1] * cells**2, hidden)
        self.last = nn.Linear(hidden, start.numel())
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, view: Float[Tensor, "B C h w"]) -> Float[Tensor, "B K n"]:
        """The numbers that `make_transforms` takes."""
        seen = F.relu(self.hidden(self.layers(view)))
        # Half precision cannot tell the pixels of a large image apart.
        with torch.autocast(view.device.type, enabled=False):
            away = self.last(seen.to(self.last.weight.dtype))
        return self.start + self.gain * away.unflatten(1, self.start.shape)


@dataclass(frozen=True, kw_only=True)
class SpatialOptions:
    """`config.options` of the system.

    k:      how many glimpses.
    free:   what the localization network chooses: translation, scale (and translation), or affine (everything).
    widths: of its convolutions; cells, hidden and gain: see `Localization`.
    """

    k: int = 4
    free: Literal["translation", "scale", "affine"] = "translation"
    widths: Sequence[int] = (16, 32, 64)
    cells: int = 6
    hidden: int = 128
    gain: float = 0.1

    def __post_init__(self) -> None:
        check_ranges("options", self, **dict.fromkeys(("k", "cells", "hidden"), AT_LEAST_ONE))


@register("system", "spatial")
class SpatialTransformer(System):
    """Glimpses that a localization network places: view, extraction.patch, features, aggregation and prediction.

    >>> config = ModelConfig(system="spatial", num_classes=4, image_size=(300, 400), options={"k": 4})
    >>> output = SpatialTransformer(config).eval()(torch.rand(2, 3, 300, 400))
    >>> output.boxes[0].tolist()  # before any training
    [[50, 25, 150, 125], [250, 25, 350, 125], [50, 175, 150, 275], [250, 175, 350, 275]]
    """

    configured = ("view", "extraction", "features", "aggregation", "prediction")
    own_options = SpatialOptions
    options: SpatialOptions

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.k, self.free = self.options.k, self.options.free
        self.view = build_one("view", View, config.view)
        self.extraction = build_one("extraction", Extraction, config.extraction)
        self.extraction.refuse_sizes(config.system)
        centers = spread(self.k, config.image_size).atanh()
        self.localization = Localization(
            config.input_channels,
            F.pad(centers, (0, FREE[self.free].count)),
            widths=self.options.widths,
            cells=self.options.cells,
            hidden=self.options.hidden,
            gain=self.options.gain,
        )
        self.features = build(
            "features",
            config.features,
            config.input_channels,
            patch=self.extraction.patch,
            image_channels=config.channels,
        )
        # Glimpses lie anywhere, and a part that needs cells is refused below.
        self.aggregation = build(
            "aggregation", config.aggregation, self.features.width, slots=self.k, cells=(1, self.k)
        )
        if self.aggregation.needs_cells:
            raise ValueError(
                f"the system spatial does not go with the aggregation {config.aggregation['name']}: that one knows a "
                "position for each cell of a grid, and glimpses lie anywhere; use mean, max, concat or attention"
            )
        self.prediction = build("prediction", config.prediction, self.aggregation.width, self.task.outputs)

    def forward(self, image: Float[Tensor, "B C H W"], size: Int[Tensor, "B 2"] | None = None) -> Output:
        """Logits of each image; `size` tells the positions, if there are any, where each picture ends."""
        self.check_images(image)
        image = self.with_positions(image, size)
        transforms = self.localize(image, size)
        patches = glimpses(image, transforms, self.extraction.patch)  # B K C P P
        features = self.features(rearrange(patches, "b k c p q -> (b k) c p q"))
        features = rearrange(features, "(b k) d -> b k d", b=len(image))  # B K D
        # Each glimpse is a candidate of its own, and there are no others.
        every = torch.arange(self.k, device=image.device).expand(len(image), -1)
        pooled = self.aggregation(features, identity_selection(every, features.dtype), None)
        return Output(self.prediction(pooled), boxes=transforms.boxes(self.extraction.patch))

    def localize(self, image: Float[Tensor, "B C H W"], size: Int[Tensor, "B 2"] | None = None) -> Transforms:
        """Where the K glimpses of each image are; their centers lie within it, not in its padding."""
        numbers = self.localization(self.view(image))  # B K n
        numbers = numbers.to(torch.promote_types(numbers.dtype, torch.float32))
        if size is None:
            size = torch.tensor([image.shape[-2:]], device=image.device).expand(len(image), 2)
        return make_transforms(numbers, size, free=self.free)
