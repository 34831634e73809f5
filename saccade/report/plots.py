"""Charts: learning curves, confusion matrix, runs over one another. All on a transparent ground, for light and dark."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator, PercentFormatter
from PIL import Image

from saccade.deciding import Threshold
from saccade.evaluation import wilson_interval
from saccade.evaluation.calibration import Bin
from saccade.runs.run_contents import Run

TRAIN, VALIDATION, SECOND, MUTED, PHASE = "#7fa8d1", "#1f4e8c", "#d1720f", "#8a8a8a", "#555555"
# Okabe and Ito's colors, told apart by the color-blind.
SEVERAL = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
NUMBERS_UP_TO, NAMES_UP_TO = 12, 40  # classes with counts in the confusion matrix, and with all their names

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#8a8a8a",
    "grid.alpha": 0.25,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "saccade",  # the same chart, the same bytes
}


class Curve(NamedTuple):
    """A column of the metrics in a chart; a noisy one is drawn faint, and its moving mean over it."""

    column: str
    label: str
    color: str
    noisy: bool = False


LABELS_AUROC = "AUROC, mean over labels (validation)"
CHARTS = {
    "Loss": (Curve("train/loss", "training", TRAIN, noisy=True), Curve("val/loss", "validation", VALIDATION)),
    "Accuracy": (
        Curve("train/accuracy", "training", TRAIN, noisy=True),
        Curve("val/accuracy", "validation", VALIDATION),
    ),
    LABELS_AUROC: (Curve("val/auroc", "AUROC", VALIDATION),),
    "Kappa (validation)": (Curve("val/kappa", "kappa", VALIDATION),),
    "Mean absolute error (validation)": (Curve("val/mean_absolute_error", "error", VALIDATION),),
    "Where it looks (validation)": (
        Curve("val/hit_rate", "hit rate", VALIDATION),
        Curve("val/overlap", "overlap", SECOND),
    ),
    "Noise σ of the selection": (Curve("sigma", "σ", VALIDATION),),
}
SHARES = ("Accuracy", "Where it looks (validation)")


@contextmanager
def style() -> Iterator[None]:
    """The look of all charts, without touching anybody else's."""
    with matplotlib.rc_context(STYLE):
        yield


def learning_curves(run: Run) -> Figure:
    """Loss, accuracy, hit rate and σ over the steps, as far as the run has them, with the phases marked."""
    shown = [title for title, curves in CHARTS.items() if any(len(run.series(c.column)[0]) for c in curves)]
    if not len(run.series("val/exact_match")[0]):  # of one label each, accuracy says it
        shown = [title for title in shown if title != LABELS_AUROC]
    with style():
        columns = min(2, max(1, len(shown)))
        rows = max(1, math.ceil(len(shown) / columns))
        figure = Figure(figsize=(9.5, 2.7 * rows), layout="constrained")
        for axes, title in zip(figure.subplots(rows, columns, squeeze=False).flat, shown, strict=False):
            _chart(axes, run, title)
        for axes in figure.axes[len(shown) :]:
            axes.set_axis_off()
    return figure


def _chart(axes: Axes, run: Run, title: str) -> None:
    for curve in CHARTS[title]:
        steps, values = run.series(curve.column)
        _part_without_labels(axes, run, curve, steps, values)
        main = steps >= run.first_step_with_labels
        _line(axes, steps[main], values[main], curve)
    axes.set(title=title, xlabel="step")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlim(0, max(1, run.steps_done))
    axes.set_ylim(bottom=0, top=1.02 if title in SHARES else None)
    if title in SHARES:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    _mark_phases(axes, run)
    if len(axes.get_legend_handles_labels()[1]) > 1:
        axes.legend(loc="best", fontsize=8)


def _mark_phases(axes: Axes, run: Run) -> None:
    """Every other phase is shaded, and each has its name at its beginning; a training of one phase has no marks."""
    phases = run.phases if len(run.phases) > 1 else ()
    for number, phase in enumerate(phases):
        if number % 2 == 0:
            axes.axvspan(phase.first, phase.end, color=MUTED, alpha=0.15, lw=0)
        axes.annotate(
            phase.name.replace("_", " "),
            (phase.first, 1),
            (2, -3),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            va="top",
            rotation=90,
            fontsize=8,
            color=PHASE,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],  # readable across a curve
        )


def _part_without_labels(axes: Axes, run: Run, curve: Curve, steps: np.ndarray, values: np.ndarray) -> None:
    # Before the first label the loss is another one (missing detail), so it gets another color.
    early = steps < run.first_step_with_labels
    if curve.column == "train/loss" and early.any():
        axes.plot(steps[early], values[early], color=MUTED, lw=1)


def _line(axes: Axes, x: np.ndarray, y: np.ndarray, curve: Curve) -> None:
    if not len(x):
        return
    if curve.noisy:
        axes.plot(x, y, color=curve.color, lw=0.8, alpha=0.35)
        axes.plot(x, moving_mean(y), color=curve.color, lw=1.8, label=curve.label)
    else:
        axes.plot(x, y, color=curve.color, lw=1.6, marker="o" if len(x) <= 40 else "", ms=3, label=curve.label)


def moving_mean(values: Float[np.ndarray, " n"], *, share: float = 0.04) -> Float[np.ndarray, " n"]:
    """The mean over the neighbors on both sides, `share` of all values in total; at the ends over those there are.

    >>> moving_mean(np.array([0.0, 3.0, 0.0]))
    array([1.5, 1. , 1.5])
    """
    half = max(1, round(share * len(values) / 2))
    total = np.concatenate([[0.0], values.cumsum()])
    place = np.arange(len(values))
    first, last = (place - half).clip(0), (place + half + 1).clip(max=len(values))
    return (total[last] - total[first]) / (last - first)


def confusion_matrix(
    counts: Int[np.ndarray, "L L"], names: Sequence[str], of: Int[np.ndarray, " L"] | None = None
) -> Figure:
    """Truth in rows, answers in columns; colors are shares of a row. With few classes the counts are written in.

    of: of how many each row counts, if not of its sum.
    """
    shares = counts / (counts.sum(axis=1) if of is None else of).clip(min=1)[:, None]
    classes = len(counts)
    side = min(8.0, max(2.2, 0.62 * classes))
    with style(), matplotlib.rc_context({"axes.grid": False, "axes.spines.left": False, "axes.spines.bottom": False}):
        figure = Figure(figsize=(side + 1.6, side + 1.0), layout="constrained")
        axes = figure.add_subplot()
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        if classes <= NUMBERS_UP_TO:
            _write_counts(axes, counts, shares)
        _name_classes(axes, names)
        axes.set(xlabel="the model says", ylabel="it is")
    return figure


def scatter(there: Float[np.ndarray, " n"], said: Float[np.ndarray, " n"]) -> Figure:
    """Answers over labels, both on one scale, with the line where they are the same."""
    low, high = (float(end([there.min(), said.min(), there.max(), said.max()])) for end in (min, max))
    room = 0.04 * (high - low or 1.0)
    with style():
        figure = Figure(figsize=(4.6, 4.4), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([low, high], [low, high], color=MUTED, lw=1)
        axes.scatter(there, said, s=14, color=VALIDATION, alpha=max(0.15, min(0.8, 60 / len(there))), lw=0)
        axes.set(xlabel="it is", ylabel="the model says", aspect="equal")
        axes.set(xlim=(low - room, high + room), ylim=(low - room, high + room))
    return figure


def reliability_chart(raw: Sequence[Bin], told: Sequence[Bin] | None, *, title: str = "") -> Figure:
    """How often answers of a confidence are right; `raw` in gray where `told` is another."""
    with style():
        figure = Figure(figsize=(4.2, 3.9), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color=MUTED, lw=1)
        if told is not None:
            _bins(axes, raw, MUTED, "without temperature")
        _bins(axes, raw if told is None else told, VALIDATION, "as told")
        axes.set(
            xlim=(0, 1), ylim=(0, 1.02), xlabel="probability that is told", ylabel="share that is right", title=title
        )
        if told is not None:
            axes.legend(loc="upper left", fontsize=8)
    return figure


def _bins(axes: Axes, bins: Sequence[Bin], color: str, label: str) -> None:
    share = np.array([each.right / each.count for each in bins])
    low, high = np.array([wilson_interval(each.right, each.count) for each in bins]).T
    error = [(share - low).clip(0), (high - share).clip(0)]
    axes.errorbar([each.confidence for each in bins], share, error, color=color, marker="o", ms=4, lw=1.4, label=label)


def threshold_chart(
    share: Float[np.ndarray, " n"], there: Bool[np.ndarray, " n"], chosen: Threshold, *, title: str
) -> Figure:
    """Recall and precision of a class by the probability from which it is said; the band of doubt is shaded."""
    cuts = np.unique(np.concatenate([share, [chosen.at]]))
    said = share[None, :] >= cuts[:, None]  # cuts n
    found = (said & there).sum(axis=1)
    with style():
        figure = Figure(figsize=(4.8, 3.4), layout="constrained")
        axes = figure.add_subplot()
        axes.axvspan(chosen.low, chosen.high, color=MUTED, alpha=0.25, lw=0, label="in doubt")
        axes.axvline(chosen.at, color=MUTED, lw=1.2)
        axes.step(cuts, found / there.sum(), color=VALIDATION, lw=1.6, where="pre", label="recall")
        axes.step(cuts, found / said.sum(axis=1).clip(1), color=SECOND, lw=1.6, where="pre", label="precision")
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="said from this probability on", title=title)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.legend(loc="best", fontsize=8)
    return figure


def _write_counts(axes: Axes, counts: Int[np.ndarray, "L L"], shares: Float[np.ndarray, "L L"]) -> None:
    for (i, j), count in np.ndenumerate(counts):
        text = f"{count}\n{100 * shares[i, j]:.0f}%" if count else "·"
        axes.text(j, i, text, ha="center", va="center", color="white" if shares[i, j] > 0.5 else "black", fontsize=8)


def _name_classes(axes: Axes, classes: Sequence[str]) -> None:
    every = math.ceil(len(classes) / NAMES_UP_TO)
    places = range(0, len(classes), every)
    names = [name if len(name) <= 20 else f"{name[:19]}…" for name in classes[::every]]
    fontsize = 9 if len(classes) <= 20 else 7
    slanted: dict[str, Any] = (
        {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names)) > 4 else {}
    )
    if len(names) > 12:
        slanted = {"rotation": 90}
    axes.set_xticks(places, names, fontsize=fontsize, **slanted)
    axes.set_yticks(places, names, fontsize=fontsize)


def curves_together(runs: Sequence[Run]) -> Figure:
    """Validation accuracy, training loss and hit rate of several runs over the images they saw."""
    columns = {
        "Accuracy (validation)": "val/accuracy",
        "Loss (training)": "train/loss",
        "Hit rate (validation)": "val/hit_rate",
    }
    shown = {title: c for title, c in columns.items() if any(len(run.series(c)[0]) for run in runs)}
    with style():
        figure = Figure(figsize=(9.5, 3.2), layout="constrained")
        for place, (title, column) in enumerate(shown.items()):
            axes = figure.add_subplot(1, len(shown), place + 1)
            for number, run in enumerate(runs):
                _line_of_run(axes, run, column, SEVERAL[number % len(SEVERAL)])
            axes.set(title=title, xlabel="images seen", ylim=(0, None if column == "train/loss" else 1.02))
            if column != "train/loss":
                axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            axes.xaxis.set_major_locator(MaxNLocator(4))
        if figure.axes:
            figure.axes[0].legend(fontsize=8)
    return figure


def _line_of_run(axes: Axes, run: Run, column: str, color: str) -> None:
    steps, values = run.series(column)
    main = steps >= run.first_step_with_labels
    if main.any():
        smooth = moving_mean(values[main]) if column.startswith("train/") else values[main]
        axes.plot(steps[main] * int(run.recipe.get("batch", 1)), smooth, color=color, lw=1.6, label=run.name)


def mosaic(patches: Sequence[UInt8[np.ndarray, "P Q 3"]], *, height_px: int = 96) -> UInt8[np.ndarray, "h w 3"]:
    """Patches side by side, all `height_px` high."""
    sized = []
    for patch in patches:
        width_px = max(1, round(patch.shape[1] * height_px / patch.shape[0]))
        sized.append(np.asarray(Image.fromarray(patch).resize((width_px, height_px), Image.Resampling.LANCZOS)))
    return np.concatenate(sized, axis=1)
