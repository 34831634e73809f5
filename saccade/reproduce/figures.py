"""Finished runs → pictures: a box-and-whisker plot over seeds, and what the selection looked at.

TABLE.png               the first measure of each row, as the paper's box plots
TABLE-learning.png      validation accuracy over the steps, of tables that tell how fast runs learn
TABLE-ROW-init.jpg      scores and blended patches of a validation image at initialization, made again from the seed
TABLE-ROW-end.jpg       the same image after the last step
TABLE-ROW-test.jpg      score map, patches and answer on a test image that was answered right
TABLE-ROW-error.jpg     the same on the one that was answered wrong with the most confidence
TABLE-ROW-patches.jpg   images from all over the test split and their patches, of the run with the best first measure
"""

from collections.abc import Callable, Iterator, Sequence

from lightning.fabric import seed_everything
from matplotlib.figure import Figure
from torch import Tensor

from saccade.drawing import Caption, overlay
from saccade.files import whole_file
from saccade.looking import Look
from saccade.report.examples import confident_mistakes, examine, typical_successes
from saccade.report.patches import draw_patches
from saccade.report.plots import MUTED, SEVERAL, VALIDATION, style
from saccade.reproduce.collect import Result
from saccade.reproduce.jobs import Request
from saccade.reproduce.results import values_of
from saccade.reproduce.table_types import STEPS_TO_50, Table
from saccade.runs.run_contents import Run
from saccade.training.observers.panels import SHOWN, glimpse, spread
from saccade.training.recipe import Recipe, load_recipe
from saccade.training.run import make_learner, open_data

DPI = 110
Draw = Callable[[Run], Iterator[tuple[str, Figure]]]


def box_plot(request: Request, results: Sequence[Result]) -> Figure:
    """A line for every row that has runs: each run as a dot, a box with whiskers over several, the paper's number."""
    table, measure = request.table, request.table.measures[0]
    rows = [(row, values) for row in table.rows if (values := values_of(results, row, measure))]
    places = range(len(rows), 0, -1)
    several = [(place, values) for place, (_, values) in zip(places, rows, strict=True) if len(values) > 1]
    theirs = [(row.paper_number, place) for place, (row, _) in zip(places, rows, strict=True) if row.paper_number]
    with style():
        figure = Figure(figsize=(8.0, 0.9 + 0.36 * len(rows)), layout="constrained", facecolor="white")
        axes = figure.add_subplot()
        if several:
            axes.boxplot(
                [values for _, values in several],
                positions=[place for place, _ in several],
                orientation="horizontal",
                widths=0.55,
                showfliers=False,
                medianprops={"color": SEVERAL[1]},
            )
        for place, (_, values) in zip(places, rows, strict=True):
            axes.plot(values, [place] * len(values), "o", ms=4, alpha=0.7, color=VALIDATION, clip_on=False)
        if theirs and not table.ours:
            axes.plot(*zip(*theirs, strict=True), "D", ms=6, mfc="none", color=MUTED, label="paper, at full size")
            axes.legend(loc="best")
        axes.set_yticks(list(places), [row.label for row, _ in rows])
        axes.set(title=request.title, xlabel=measure.title)
    return figure


def learning_plot(table: Table, results: Sequence[Result]) -> Figure:
    """Validation accuracy over the steps: a chart for each data set, a color for each row, a line for each run."""
    groups = list(dict.fromkeys(result.row.group for result in results))
    with style():
        figure = Figure(figsize=(4.6 * len(groups), 3.2), layout="constrained", facecolor="white")
        for axes, group in zip(figure.subplots(1, len(groups), squeeze=False).flat, groups, strict=True):
            rows = [row for row in table.rows if row.group == group]
            for row, color in zip(rows, SEVERAL, strict=False):  # the same colors in all charts
                curves = [result.curve for result in results if result.row.name == row.name]
                for number, curve in enumerate(curves):
                    steps, percent = [step for step, _ in curve], [100 * accuracy for _, accuracy in curve]
                    label = None if number else row.label.removeprefix(f"{group}, ")
                    axes.plot(steps, percent, color=color, alpha=0.8, label=label)
            axes.set(title=group, xlabel="step", ylabel="validation accuracy [%]", ylim=(0, 100))
        lines = {line.get_label(): line for axes in figure.axes for line in axes.get_legend_handles_labels()[0]}
        figure.legend(handles=list(lines.values()), loc="outside lower center", ncols=len(SEVERAL))
    return figure


def draw_all(request: Request, results: Sequence[Result], say: Callable[[str], None]) -> None:
    """Write every picture of a table and say so; of runs whose model or images are gone, say that."""

    def write(name: str, figure: Figure, seed: int = 0) -> None:
        path = request.out / f"{request.stem}{name}"
        with whole_file(path) as part:
            figure.savefig(part, dpi=DPI, format=path.suffix[1:])
        say(f"wrote {path}{f' (of seed {seed})' if seed else ''}")

    if not request.table.groups:  # their measures differ
        write(".png", box_plot(request, results))
    if any(measure.name == STEPS_TO_50.name for measure in request.table.measures):
        write("-learning.png", learning_plot(request.table, results))
    for name in request.table.shown:
        mine = [each for each in results if each.row.name == name and each.run]
        for run, seed, draw in _to_draw(mine, request.table):
            try:
                seen = [*draw(run)]
            except (ValueError, OSError) as error:
                say(f"no pictures of {name}: {error}")
                continue
            for what, figure in seen:
                write(f"-{name}-{what}.jpg", figure, seed)


def _to_draw(runs: Sequence[Result], table: Table) -> Iterator[tuple[Run, int, Draw]]:
    """The first run, and of the best one what the paper shows of its best."""
    ways: tuple[Draw, ...] = (looks, patches)
    best = sorted(runs, key=lambda each: -each.numbers.get(table.measures[0].name, 0.0))
    for run, draw in zip((*runs[:1], *best[:1]), ways, strict=False):
        if run.run:
            yield run.run, run.seed, draw


def patches(run: Run) -> Iterator[tuple[str, Figure]]:
    """What a run looked at in images that nobody picked."""
    if "test" in run.predictions and run.predictions["test"].rows:
        yield "patches", draw_patches(run)


def looks(run: Run) -> Iterator[tuple[str, Figure]]:
    """What the selection of a run looked at: at initialization, at the end, and in a test image of each kind."""
    if steps := run.folder.panel_steps():
        yield "init", overlay(_look_before_training(load_recipe(run.folder.recipe_file)))
        yield "end", overlay(run.folder.panel(steps[-1]).looks[0])
    if table := run.predictions.get("test"):
        for what, rows in (("test", typical_successes(table, 1)), ("error", confident_mistakes(table, 1))):
            for row in rows:
                seen = examine(run.folder.load_best(), row).look
                yield what, overlay(seen, Caption(row.predicted, row.confidence, row.label))


def _look_before_training(recipe: Recipe) -> Look:
    """How the first image of the run's panels was looked at before the first step: the seed says."""
    seed_everything(recipe.seed, verbose=False)
    data = open_data(recipe)
    learner, validation = make_learner(recipe, data), data["val"]
    classes, records = validation.records.classes, validation.records.records
    image = validation[spread([classes.index(record.label) for record in records], SHOWN)[0]].image
    if isinstance(image, Tensor):
        image = recipe.model.preparation.see(image[None])[0]
    return glimpse(learner.model, image, in_training=True, sigma=learner.full_sigma)
