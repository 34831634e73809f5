"""The predictions of an evaluated task → a table and a summary on disk, from which the report is drawn."""

import csv
import io
import json
import math
import statistics
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer
from torch import Tensor

from saccade.evaluation import multiply_adds, peak_memory_mb
from saccade.files import write_whole
from saccade.images import view_size
from saccade.training.provenance import hardware
from saccade.training.task import Task


def save_evaluation(task: Task, trainer: Trainer, folder: Path, split: str) -> dict[str, Any]:
    """Write `split.csv`, one line per image, and `split.json`, the numbers over all; the numbers are returned."""
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
        folder.mkdir(exist_ok=True)
        write_whole(folder / f"{split}.csv", _table(task))
        write_whole(folder / f"{split}.json", json.dumps(summary, indent=1))
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


def _table(task: Task) -> str:
    predictions, records = task.predictions, task.data["test"].records
    assert predictions is not None
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    classes = records.classes
    head = ("image", "label", "predicted", "confidence", "hit", "overlap", "entropy")
    writer.writerow((*head, *(f"p:{name}" for name in classes)))
    # In double and with all digits, as `measure` takes them: sure answers keep their order.
    shares = predictions.logits.double().softmax(dim=1)
    for row, index in enumerate(predictions.index.tolist()):
        best = int(shares[row].argmax())
        looks = [_number(column[row], 6) for column in (predictions.hit, predictions.overlap, predictions.entropy)]
        record = records.records[index]
        answer = (record.image, record.label, classes[best], _number(shares[row, best], 17))
        writer.writerow((*answer, *looks, *(_number(share, 17) for share in shares[row])))
    return text.getvalue()


def _number(value: Tensor, digits: int) -> str:
    return "" if math.isnan(value) else f"{float(value):.{digits}g}"
