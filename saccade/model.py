"""The model: its forward is the data's path.

image ─ view ─▶ scorer ─ scores ─▶ selection ─ Selection ─▶ extraction ─ patches ─▶ features ─▶ aggregation ─ pooled ─▶
prediction ─ logits
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Int
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from saccade.aggregation import AGGREGATIONS
from saccade.config import ModelConfig, build, build_one
from saccade.extraction import Extraction, Grid
from saccade.features import FEATURES
from saccade.images import View, view_size
from saccade.prediction import HEADS
from saccade.scorer import SCORERS
from saccade.selection import SELECTIONS, Selection
from saccade.selection.check import check_k


class Output(NamedTuple):
    """What the model says and where it looked.

    raw_scores are the scorer's own, scores those normalised per image; boxes are left, top, right, bottom in image
    pixels of the candidates in `selection.index` (in evaluation exactly the K patches that were looked at).
    """

    logits: Float[Tensor, "B L"]
    raw_scores: Float[Tensor, "B N"]
    scores: Float[Tensor, "B N"]
    selection: Selection
    boxes: Int[Tensor, "B S 4"]


class PatchSelectionModel(nn.Module):
    """Classify an image by its K best patches: softly selected in training mode, hard in evaluation mode.

    >>> import torch
    >>> model = PatchSelectionModel(ModelConfig(num_classes=4, image_size=(300, 400))).eval()
    >>> output = model(torch.rand(2, 3, 300, 400))
    >>> output.logits.shape, output.boxes.shape
    (torch.Size([2, 4]), torch.Size([2, 10, 4]))
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.view = build_one("view", View, config.view)
        self.extraction = build_one("extraction", Extraction, config.extraction)
        self.scorer = build("scorer", SCORERS, config.scorer, config.channels, tiles=self.extraction.tiles)
        grid = self.grid(config.image_size)
        self.selection = build("selection", SELECTIONS, config.selection)
        slots = getattr(self.selection, "k", grid.num_candidates)
        check_k(slots, grid.num_candidates)
        self.features = build("features", FEATURES, config.features, config.channels, patch=self.extraction.patch)
        self.aggregation = build(
            "aggregation",
            AGGREGATIONS,
            config.aggregation,
            self.features.width,
            slots=slots,
            cells=grid.shape,
        )
        self.prediction = build("prediction", HEADS, config.prediction, self.aggregation.width, config.num_classes)

    def forward(self, image: Float[Tensor, "B C H W"]) -> Output:
        """Logits of each image, with the scores, selection and boxes behind them."""
        self._check(image)
        grid = self.grid(image.shape[-2:], image.device)
        raw_scores = self.scorer(self.view(image))  # B N
        scores = self.selection.normalise(raw_scores)  # B N
        selection = self.selection(scores)  # index B S, weight B K S
        patches = self.extraction(image, selection, grid)  # B K C P P
        features = self.features(rearrange(patches, "b k c p q -> (b k) c p q"))
        features = rearrange(features, "(b k) d -> b k d", b=len(image))  # B K D
        pooled = self.aggregation(features, selection, grid)  # B D
        return Output(self.prediction(pooled), raw_scores, scores, selection, grid.boxes(selection.index))

    def _check(self, image: Tensor) -> None:
        channels = self.config.channels
        if image.ndim != 4 or image.shape[1] != channels or not image.is_floating_point():
            raise ValueError(
                f"images have shape {tuple(image.shape)} and dtype {image.dtype}, expected (batch, {channels}, height, "
                "width) in floating point: add a batch dimension with image[None], make floats of bytes with unit_range"
            )

    def grid(self, image_size: Sequence[int], device: torch.device | str = "cpu") -> Grid:
        """The candidates of an image of `image_size` (height, width)."""
        height, width = image_size
        size = view_size((height, width), self.view.scale)
        return self.extraction.grid((height, width), size, self.scorer.field, device)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into `folder`; each appears whole or not at all."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights, config = folder / "model.safetensors.part", folder / "config.json.part"
        save_model(self, str(weights))
        config.write_text(self.config.to_json())
        for part in (weights, config):
            os.replace(part, part.with_suffix(""))

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "PatchSelectionModel":
        """The model that `save_pretrained` wrote, in evaluation mode."""
        folder = Path(folder)
        for name in ("config.json", "model.safetensors"):
            if not (folder / name).is_file():
                raise FileNotFoundError(f"no {name} in {folder}: expected a folder written by save_pretrained")
        config = ModelConfig.from_json((folder / "config.json").read_text())
        # The weights are all in the folder: neither a hub nor the file they once started from is asked again.
        features = {k: v for k, v in config.features.items() if k not in ("pretrained", "weights")}
        model = cls(replace(config, features=features))
        load_model(model, str(folder / "model.safetensors"))
        return model.eval()
