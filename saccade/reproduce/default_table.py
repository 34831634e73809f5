"""The table of the default: one training for all data, against plain networks and against what is left out of it.

Every run is what a user types: `saccade train DATA [--weights FILE]`, with a flag where the column says so.
"""

from saccade.reproduce.table_types import (
    ACCURACY,
    HIT_RATE,
    MEAN,
    MULTIPLY_ADDS,
    NOT_IN_PAPER,
    Group,
    Measure,
    Plan,
    Row,
    Table,
)

AVERAGE_PRECISION = Measure("average_precision", "average precision", 1.0, 3)
DEFAULT = "default"

GROUPS = (
    Group("signs", "signs, 336×448 px, generated", ACCURACY, "99, hit rate 98", "99.7"),
    Group("billiard_small", "billiard, 256² px, generated", ACCURACY, "97", "97.8 ± 0.9"),
    Group("megapixel_mnist_small", "Megapixel MNIST, 750² px", ACCURACY, "97.5", "97.1 ± 0.3"),
    Group("megapixel_mnist", "Megapixel MNIST, 1500² px, 60 minutes", ACCURACY, "99.1", "96.0 ± 0.4"),
    Group("kolektor_folds", "kolektor_folds, class defect", AVERAGE_PRECISION, "0.995", "0.970"),
    Group("speed_limits", "speed_limits", ACCURACY, "97, hit rate 80", "96.5"),
    Group("cub_sparrows", "cub_sparrows", ACCURACY, "the CNN's", "66.7"),
    Group("elpv", "elpv, sound or defective", ACCURACY, "the CNN's", "–"),
)

GENERATED = {
    "signs": "signs/diverse",
    "billiard_small": "billiard_small/perturbed",
    "megapixel_mnist_small": "megapixel_mnist_small/perturbed",
    "megapixel_mnist": "megapixel_mnist/perturbed",
}
WITH_WEIGHTS = ("kolektor_folds", "speed_limits", "cub_sparrows", "elpv", "deeppcb", "elpv_levels")
FOLDS = {"kolektor_folds": ("0", "1", "2")}
MINUTES = {"megapixel_mnist": 60}

CNN = "--model.system=cnn"
# Of the size of the image: a plain network on such a view has the default's multiply-adds.
EQUAL_SCALE = {"kolektor_folds": 0.4, "speed_limits": 0.39, "elpv": 0.95}
PAPER = (
    "--training.name=paper",
    "--model.selection.name=perturbed",
    "--model.aggregation.name=mean",
    "--model.selection.sigma=0.05",
    "--model.selection.gradient_per_sigma=false",
)
SLOWEST = "--training.scorer.rate=1e-9"


def own_rows(name: str, data: str, label: str, *flags: str, seeds: int) -> tuple[Row, ...]:
    """What a column has for a data set that is trained as one's own: a row, or one for each of its folds."""
    minutes = (f"--minutes={MINUTES[data]}",) if data in MINUTES else ()
    rows = []
    for fold in FOLDS.get(data, ("",)):
        which = (f"--data.fold={fold}",) if fold else ()
        plan = Plan(
            f"data/{data}",
            (*which, *flags, *minutes),
            pretrained=data in WITH_WEIGHTS,
            own=True,
            made_by=GENERATED.get(data, ""),
        )
        rows.append(Row("_".join(filter(None, (data, name, fold))), label, small=plan, seeds=seeds, group=data))
    return tuple(rows)


def _columns(data: str) -> tuple[Row, ...]:
    scale = EQUAL_SCALE.get(data)
    equal = (CNN, f"--model.view.scale={scale}") if scale else (CNN,)
    compared = (
        *own_rows("default", data, DEFAULT, seeds=3),
        *own_rows("cnn", data, "CNN, as many multiply-adds", *equal, seeds=3),
        *own_rows("random", data, "patches at random", "--model.selection.name=random", seeds=1),
    )
    if data in WITH_WEIGHTS:
        return (*compared, *own_rows("cnn_full", data, "CNN, whole image", CNN, "--model.view.scale=1", seeds=1))
    return (
        *compared,
        *own_rows("frozen_scorer", data, "scorer frozen after its label-free steps", SLOWEST, seeds=1),
        *own_rows("paper", data, "the paper's training", *PAPER, seeds=1),
    )


TABLE = Table(
    "default",
    "One training for all data",
    NOT_IN_PAPER,
    MEAN,
    tuple(row for group in GROUPS for row in _columns(group.name)),
    measures=(HIT_RATE, MULTIPLY_ADDS),
    note="Every run is `saccade train DATA`, with `--weights tf_efficientnet_lite0.safetensors` on the last four sets, "
    "and what the column's name says; nothing is chosen by the name of a set. The column before has the best recipe "
    "that was tuned for the set. Of commutators every fold counts as a run. A run failed that has not half of the best "
    "score of its set, or answers most images alike. Aids: with weights the frozen start, without the training "
    "guided_by_scores. Some rules of the frozen start were written after test figures of commutators, speed limits and "
    "sparrows had been seen (docs/experiments.md). Minutes are of a machine that did other things, too. "
    "By which rules a run was made, its commit in the CSV tells.",
    groups=GROUPS,
)
