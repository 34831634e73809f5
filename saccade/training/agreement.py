"""Do a recipe and a data set go together? Asked once both are known, before anything is chosen, timed or written."""

from collections.abc import Sequence

from saccade.building import check_parts
from saccade.data.augment import build_augmentation
from saccade.data.records import DataError, Records, positive_class
from saccade.registry import parts
from saccade.tasks.labels import as_number
from saccade.training.recipe import Recipe

BEST_BY = {
    "single": ("accuracy", "balanced_accuracy", "average_precision", "auroc", "f1", "loss"),
    "multi": ("accuracy", "balanced_accuracy", "average_precision", "auroc", "f1", "loss"),
    "ordinal": ("accuracy", "balanced_accuracy", "kappa", "mean_absolute_error", "loss"),
    "regression": ("mean_absolute_error", "loss"),
    "questions": ("accuracy", "loss"),
}
# Where no class is rare or frequent as such.
UNWEIGHED = {
    "regression": "labels are numbers, which are of no class",
    "questions": "what is rare for one question is frequent for another",
}


def check_recipe(recipe: Recipe) -> None:
    """Refuse what no data set could be trained with."""
    check_parts(recipe.model, recipe.imports)
    build_augmentation(recipe.data.augmentation, crop=recipe.model.preparation.crop)
    if recipe.training.frozen and recipe.model.extraction.get("sizes") is not None:
        raise ValueError(
            "model.extraction.sizes is given, and a frozen start (training.frozen), with which networks with weights "
            "begin, knows patches of one size: let it choose one of training.patch_sizes, or name a training without "
            "it, such as --training.name guided_by_scores"
        )


def check_labels(recipe: Recipe, records: Records) -> None:
    """Refuse what has no meaning for what the labels of this data set mean."""
    task, system = records.task, parts("system")[recipe.model.system]
    if task not in system.tasks:
        raise DataError(
            f"{records.root}: labels are for the task {task}, and the system {recipe.model.system} knows "
            f"{', '.join(system.tasks)} alone: use another system, such as patch_selection or cnn"
        )
    if recipe.class_weights and task in UNWEIGHED:
        raise DataError(f"{records.root}: class_weights is true, and {UNWEIGHED[task]}: leave it out")
    if recipe.training.evenly and task == "questions":
        raise DataError(f"{records.root}: training.evenly is given, and {UNWEIGHED[task]}: leave it out")
    told = BEST_BY[task] + (("kappa",) if task == "single" and _are_numbers(records.classes) else ())
    if recipe.best_by and recipe.best_by not in told:
        raise DataError(
            f"{records.root}: best_by is {recipe.best_by}, which the task {task} does not have: expected one of "
            f"{', '.join(told)}"
        )
    positive_class(records, recipe.positive)  # refuses what is no class


def _are_numbers(classes: Sequence[str]) -> bool:
    """Whether classes have a kappa, as levels have: they are numbers, and more than two."""
    return len(classes) > 2 and all(as_number(name) is not None for name in classes)
