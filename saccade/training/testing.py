"""The predictions of an evaluated task → a table and a summary on disk, from which the report is drawn."""

import math
import statistics
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer

from saccade.evaluation import multiply_adds, peak_memory_mb
from saccade.evaluation.tabulate import tabulate
from saccade.images import view_size
from saccade.runs import RunFolder
from saccade.runs.run_facts import hardware
from saccade.training.task import Task


def save_evaluation(task: Task, trainer: Trainer, folder: Path, split: str) -> dict[str, Any]:
    """Keep the predictions and the numbers over all of them in the run folder; the numbers are returned."""
    summary = {
        "split": split,
        "images": len(task.data["test"]),
        **task.measures,
        "milliseconds_per_image": (milliseconds := statistics.median(task.milliseconds or [math.nan])),
        "images_per_second": 1000 / milliseconds,
        "peak_memory_mb": peak_memory_mb(),
        "hardware": hardware(task.recipe.accelerator),
        "pixels": _pixels(task),
        "multiply_adds": multiply_adds(task.model, task.model.config.image_size, task.model.config.channels),
    }
    if trainer.is_global_zero:
        assert task.predictions is not None
        RunFolder(folder).write_evaluation(split, tabulate(task.predictions, task.data["test"].records), summary)
    return summary


def _pixels(task: Task) -> dict[str, int]:
    """How many there are in an image of the size the model was made for, in its view, and in the patches that the
    feature network sees: the chosen ones, or all of them.
    """
    model = task.model
    height, width = model.config.image_size
    seen = {"image": height * width}
    if hasattr(model, "view"):
        view_height, view_width = view_size((height, width), model.view.scale)
        seen["view"] = view_height * view_width
    if hasattr(model, "extraction"):
        slots = getattr(getattr(model, "selection", model), "k", None) or model.grid((height, width)).num_candidates
        slots += getattr(model.extraction, "glance", False)
        seen["patches"] = slots * model.extraction.patch[0] * model.extraction.patch[1]
    return seen
