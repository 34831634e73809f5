"""A run → the paper's qualitative figure of it: test images that nobody picked, and the patches it looked at."""

from matplotlib.figure import Figure

from saccade.drawing import Caption
from saccade.drawing.patch_columns import patch_columns
from saccade.report.examples import examine, from_all_over
from saccade.runs.run_contents import Run

SHOWN = 8


def draw_patches(run: Run, count: int = SHOWN) -> Figure:
    """`count` images from all over the test split, right and wrong answers as they come."""
    table = run.predictions.get("test")
    if not table or not table.rows:
        raise ValueError(f"{run.folder.path} has no answers to test images: `saccade evaluate` it first")
    rows, model = from_all_over(table.rows, count), run.folder.load_best()
    looks = [examine(model, row).look for row in rows]
    if not all(len(look.boxes) for look in looks):
        raise ValueError(f"the model of {run.folder.path} ({model.config.system}) chooses no patches to show")
    return patch_columns(looks, [Caption(row.predicted, row.confidence, row.label) for row in rows])
