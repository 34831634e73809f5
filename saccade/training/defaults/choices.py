"""What a default may depend on, and what it is: a value with its reason. See `defaults`."""

from collections.abc import Callable
from typing import Any, NamedTuple

from saccade.data.records import Records
from saccade.data.typical_size import Images
from saccade.extraction.extract import both_sides

Size = tuple[int, int]


class Choice(NamedTuple):
    """A value of the recipe, `key` with dots, and why it was chosen; `said` in words where the value says little."""

    key: str
    value: Any
    reason: str
    said: str = ""


class Known(NamedTuple):
    """All that a choice may depend on; `values` are those the user gave and those chosen so far, by dotted key."""

    records: Records
    images: Images
    values: dict[str, Any]
    within_reach: Callable[[str], bool]

    @property
    def selects(self) -> bool:
        """Whether the system chooses patches at all."""
        return self.values.get("model.system", "patch_selection") == "patch_selection"

    @property
    def reads(self) -> bool:
        """Whether the default for networks with weights is made: they come with some, and no part of it was given."""
        features = self.values.get("model.features") or self.options("features")
        own = ("model.scorer.name", "model.aggregation.name", "model.prediction.name", "training.name")
        weights = features.get("pretrained") or features.get("weights")
        return self.selects and bool(weights) and features.get("name") == "cells" and not any(map(self.values.get, own))

    @property
    def patch(self) -> Size:
        """Height and width of the patches."""
        return both_sides(self.values["model.extraction.patch"])

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Height and width of candidates: those of the patches, unless there are several."""
        return tuple(map(both_sides, self.values.get("model.extraction.sizes") or [self.patch]))

    @property
    def k(self) -> int:
        """How many patches are looked at."""
        return self.values.get("model.selection.k", 1)

    @property
    def training_images(self) -> int:
        """How many there are."""
        return self.records.sizes()["train"]

    def options(self, stage: str) -> dict[str, Any]:
        """What the user said of one stage of the model."""
        prefix = f"model.{stage}."
        return {key.removeprefix(prefix): value for key, value in self.values.items() if key.startswith(prefix)}


def show(size: Size) -> str:
    """Height and width to read.

    >>> show((960, 1280))
    '960×1280'
    """
    return f"{size[0]}×{size[1]}"


def percent(share: float) -> str:
    """A share to read.

    >>> percent(0.0964), percent(0.0017)
    ('10%', '0.2%')
    """
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.1g}%"
