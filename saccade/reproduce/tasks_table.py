"""The table of labels that are not one class: several labels, levels, several questions.

Every run is what a user types: `saccade train DATA [--weights FILE]`, with a flag where the column says so.
"""

from saccade.reproduce.default_table import CNN, DEFAULT, own_rows
from saccade.reproduce.table_types import ACCURACY, HIT_RATE, MEAN, MULTIPLY_ADDS, NOT_IN_PAPER, Group, Measure, Table

GROUPS = (
    Group("deeppcb", "deeppcb, six kinds of defect", Measure("auroc", "macro AUROC", 1.0, 3), "the CNN's", "–"),
    Group("elpv_levels", "elpv, four levels", Measure("kappa", "kappa", 1.0, 3), "that of four classes", "–"),
    Group("megapixel_mnist_small", "Megapixel MNIST, 750² px, four questions", ACCURACY, "–", "–"),
)
QUESTIONS = ("majority", "max", "top", "multi")

TABLE = Table(
    "tasks",
    "Several labels, levels and questions",
    NOT_IN_PAPER,
    MEAN,
    (
        *own_rows("default", "deeppcb", DEFAULT, seeds=3),
        *own_rows("cnn", "deeppcb", "CNN, half of each side", CNN, "--model.view.scale=0.5", seeds=3),
        *own_rows("default", "elpv_levels", DEFAULT, "--data.labels=ordinal", seeds=3),
        *own_rows("classes", "elpv_levels", "as four classes", "--data.labels=single", seeds=3),
        *own_rows("default", "megapixel_mnist_small", DEFAULT, "--data.options.task=all", seeds=1),
    ),
    measures=(
        HIT_RATE,
        MULTIPLY_ADDS,
        *(Measure(f"accuracy:{name}", f"accuracy of the question {name} [%]") for name in QUESTIONS),
    ),
    groups=GROUPS,
)
