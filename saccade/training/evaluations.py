"""What a model says of all images of a data set, shared among the processes, and how good that is."""

import math
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from lightning.fabric import Fabric
from torch.utils.data import DataLoader

from saccade.data.dataset import Batch, ImageDataset
from saccade.evaluation import Predictions, gather, measure, multiply_adds, peak_memory_mb, predict_batch
from saccade.evaluation.calibration import fit_temperatures, reliability, with_temperatures
from saccade.evaluation.decided import decide_all, measure_decisions
from saccade.evaluation.tabulate import tabulate
from saccade.images import view_size
from saccade.module_modes import evaluating
from saccade.runs import RunFolder
from saccade.runs.run_contents import MEAN_OVER_CLASSES
from saccade.runs.run_facts import hardware
from saccade.system import System
from saccade.tasks.task import make_task
from saccade.training.batches import evaluation_loader
from saccade.training.recipe import Recipe


class Evaluated(NamedTuple):
    """A row per image, numbers over all of them, and how long an image of each batch took in this process.

    positive: the class whose average precision and AUROC the numbers have; None if these are means over classes.
    """

    predictions: Predictions
    measures: dict[str, float]
    milliseconds: list[float]
    positive: str | None


def run_through(
    fabric: Fabric,
    model: System,
    dataset: ImageDataset,
    recipe: Recipe,
    *,
    positive: str | None = None,
    showing: Callable[[DataLoader[Any]], Iterable[Batch]] = iter,
) -> Evaluated:
    """Ask the model about every image once; `showing` gives the batches as they are, and may show how far it is.

    positive: the class whose average precision and AUROC are told, if not the model's own.
    """
    parts, milliseconds = [], []
    with evaluating(model), fabric.autocast():
        loader = evaluation_loader(dataset, recipe, rank=fabric.global_rank, world=fabric.world_size)
        for batch in showing(loader):
            batch = fabric.to_device(batch)
            start = time.perf_counter()
            part = predict_batch(model, batch)
            parts.append(Predictions(*(column.cpu() for column in part)))  # which waits for a GPU, too
            milliseconds.append(1000 * (time.perf_counter() - start) / len(batch.index))
    predictions = gather(parts)
    positive = positive or model.config.positive
    place = None if positive is None else model.config.class_names.index(positive)
    return Evaluated(predictions, measure(predictions, model.task, positive=place), milliseconds, positive)


def save_evaluation(
    evaluated: Evaluated, model: System, dataset: ImageDataset, files: RunFolder, name: str, *, accelerator: str
) -> dict[str, Any]:
    """Keep the predictions and the numbers over all of them in the run folder; the numbers are returned."""
    table = tabulate(evaluated.predictions, dataset.records, model.task)
    decided = {} if model.rule is None else measure_decisions(decide_all(table, model.rule))
    summary = {
        "split": name,
        "task": model.config.task,
        "images": len(dataset),
        **({"positive": evaluated.positive or MEAN_OVER_CLASSES} if model.task.has_areas else {}),
        **evaluated.measures,
        **({"decision": model.config.decision} if model.rule else {}),
        **decided,
        "reliability": reliability(model.task, evaluated.predictions),
        "milliseconds_per_image": (milliseconds := statistics.median(evaluated.milliseconds or [math.nan])),
        "images_per_second": 1000 / milliseconds,
        "peak_memory_mb": peak_memory_mb(),
        "hardware": hardware(accelerator),
        "pixels": pixels(model),
        "multiply_adds": multiply_adds(model, model.config.image_size, model.config.channels),
    }
    files.write_evaluation(name, table, summary)
    return summary


def calibrate(
    files: RunFolder, model: System, evaluated: Evaluated, dataset: ImageDataset, say: Callable[[str], None]
) -> Evaluated:
    """Give the best model the temperatures that its validation answers ask for; the same answers, told so."""
    groups = [record.group or str(place) for place, record in enumerate(dataset.records.records)]
    fitted = fit_temperatures(model.task, evaluated.predictions, groups)
    for each in fitted:
        say(each.say())
    spec = with_temperatures(model.config.task, fitted)
    if spec != model.config.task:
        files.change_best(task=spec)
    task = make_task(spec, model.config.classes, model.config.num_classes)
    place = None if evaluated.positive is None else model.config.class_names.index(evaluated.positive)
    return evaluated._replace(measures=measure(evaluated.predictions, task, positive=place))


def pixels(model: Any) -> dict[str, int]:
    """How many there are in an image of the size the model was made for, in its view, and in the patches that the
    feature network sees: the chosen ones, or all of them.
    """
    height, width = model.config.image_size
    seen = {"image": height * width}
    if model.view is not None:
        view_height, view_width = view_size((height, width), model.view.scale)
        seen["view"] = view_height * view_width
    if model.extraction is not None:
        slots = getattr(model.selection or model, "k", None) or model.grid((height, width)).num_candidates
        seen["patches"] = slots * model.extraction.patch[0] * model.extraction.patch[1]
    return seen
