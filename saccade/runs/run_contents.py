"""`Run`: everything a run wrote down, in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from saccade.runs.prediction_tables import PredictionTable, readable
from saccade.runs.step_tables import TrainingWarning

if TYPE_CHECKING:
    from saccade.runs.run_folder import RunFolder


MEAN_OVER_CLASSES = "mean over classes"  # what an evaluation has for the positive class where there is none


class PhaseSpan(NamedTuple):
    """A part of the training: its name, its first step and the first step after it."""

    name: str
    first: int
    end: int


class Run(NamedTuple):
    """A run as it is at one moment. `metrics` are rows of numbers by step; panels stay on disk."""

    folder: RunFolder
    name: str
    recipe: dict[str, Any]
    facts: dict[str, Any]
    metrics: tuple[dict[str, float], ...]
    evaluations: dict[str, dict[str, Any]]
    predictions: dict[str, PredictionTable]
    warnings: tuple[TrainingWarning, ...]

    @property
    def split(self) -> str | None:
        """The split its numbers are told for: test, else whatever was evaluated; None before the first evaluation."""
        return next((split for split in ("test", "val", *self.predictions) if split in self.predictions), None)

    @property
    def evaluation(self) -> dict[str, Any]:
        """The numbers of that split."""
        return self.evaluations.get(self.split or "", {})

    @property
    def positive(self) -> str | None:
        """The class whose average precision and AUROC they have; None if these are means over classes."""
        told = self.evaluation.get("positive", MEAN_OVER_CLASSES)
        return None if told == MEAN_OVER_CLASSES else readable(told)

    @property
    def system(self) -> str:
        """The kind of model."""
        return str(self.recipe.get("model", {}).get("system", "patch_selection"))

    @property
    def phases(self) -> tuple[PhaseSpan, ...]:
        """The parts of the training, one after the other; none before it began."""
        return tuple(PhaseSpan(each["name"], each["from"], each["to"]) for each in self.facts.get("phases", ()))

    @property
    def first_step_with_labels(self) -> int:
        """Before it the loss is another one: no answer was asked for, and none was counted as right or wrong."""
        return min((int(row["step"]) for row in self.metrics if "train/accuracy" in row), default=0)

    @property
    def steps_done(self) -> int:
        """Steps so far, of all phases."""
        planned = self.phases[-1].end if self.phases else 0
        logged = max((int(row["step"]) for row in self.metrics), default=planned)
        return planned if self.evaluations and planned else logged

    def series(self, name: str) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """Steps and values at which `name` was logged."""
        known = [(row["step"], row[name]) for row in self.metrics if not math.isnan(row.get(name, math.nan))]
        steps, values = np.array(known, float).reshape(-1, 2).T
        return steps, values
