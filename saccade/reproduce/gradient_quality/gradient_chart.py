"""The picture of gradient quality: cosine with the truth above, variance below, against draws and against σ."""

from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from PIL import Image

from saccade.report.plots import SEVERAL, style
from saccade.reproduce.gradient_quality.gradient_study import SCORES, Quality, Study


class LineStyle(NamedTuple):
    """How a gradient's line looks; dashes and markers tell them apart without colors."""

    color: str
    dashes: str
    marker: str


LINES = {
    "conditional": LineStyle(SEVERAL[0], "-", "o"),
    "score": LineStyle(SEVERAL[1], "-", "s"),
    "diagonal": LineStyle(SEVERAL[3], "-", "^"),
    "Sinkhorn": LineStyle(SEVERAL[2], "--", ""),
    "straight-through": LineStyle(SEVERAL[6], ":", ""),
}
CAPTION = (
    "Against the exact gradient of E[⟨G, Y⟩], Y the top-{k} of s + σZ among {candidates} candidates, for G as a "
    "trained network sends it. Lines are means (cosine) and medians (variance) over {problems} problems with "
    "{repeats} estimates each, bands the 10% and 90% quantiles. diagonal is the gradient of the paper's listing. "
    "Sinkhorn and straight-through have no draws, hence no variance, and do not estimate this gradient: each was "
    "given the ε or τ that agrees best with it at each σ, Sinkhorn with slots in score order."
)
MARGIN = 0.085  # of the height of a panel, between two labels


def draw_gradients(table: Sequence[Quality], study: Study) -> Figure:
    """Four columns: against n and against σ, for each kind of scores; the variance on a logarithmic scale."""
    sweeps: dict[str, Callable[[Quality], bool]] = {
        "draws": lambda row: row.sigma == study.at_sigma and row.draws in (0, *study.draws),
        "sigma": lambda row: row.sigma in study.sigmas and row.draws in (0, study.at_draws),
    }
    names = {"draws": f"draws n   (σ = {study.at_sigma:g})", "sigma": f"σ   (n = {study.at_draws})"}
    with style():
        figure = Figure(figsize=(11, 5.6), layout="constrained")
        grid = figure.subplots(2, 2 * len(SCORES), sharex="col", sharey="row")
        places = [(sweep, scores) for sweep in sweeps for scores in SCORES]
        for (cosine, variance), (sweep, scores) in zip(grid.T, places, strict=True):
            rows = [row for row in table if row.scores == scores and sweeps[sweep](row)]
            _column(cosine, variance, rows, sweep)
            cosine.set_title(f"{scores} scores")
            variance.set_xlabel(names[sweep])
        grid[0, 0].set(ylabel="cosine with the exact gradient", ylim=(None, 1.03))
        grid[1, 0].set(ylabel="variance / ‖exact gradient‖²", yscale="log")
        for axes in grid[:, -1]:
            _label_lines(axes)
        caption = fill(CAPTION.format(**study._asdict()), 190)
        figure.supxlabel(caption, x=0.01, ha="left", fontsize=7.5)
    return figure


def _column(cosine: Axes, variance: Axes, rows: Sequence[Quality], sweep: str) -> None:
    for name, look in LINES.items():
        own = sorted((row for row in rows if row.gradient == name), key=lambda row: getattr(row, sweep))
        line = {"label": name, "color": look.color, "ls": look.dashes, "marker": look.marker, "ms": 4, "lw": 1.6}
        if not own[0].draws and sweep == "draws":
            cosine.axhline(own[0].cosine, **line)
            continue
        x = [getattr(row, sweep) for row in own]
        cosine.plot(x, [row.cosine for row in own], **line)
        low, high = [row.cosine_low for row in own], [row.cosine_high for row in own]
        cosine.fill_between(x, low, high, color=look.color, alpha=0.12, lw=0)
        if own[0].draws:
            variance.plot(x, [row.variance for row in own], **line)
    cosine.set_xscale("log")
    cosine.xaxis.set_major_locator(LogLocator())
    cosine.xaxis.set_minor_locator(NullLocator())
    cosine.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _label_lines(axes: Axes) -> None:
    """Each line's name beside its end."""
    to_panel = axes.transData + axes.transAxes.inverted()
    ends = [float(to_panel.transform(line.get_xydata())[-1, 1]) for line in axes.lines]
    for line, height in zip(axes.lines, spread_out(ends, MARGIN), strict=True):
        text = {"color": line.get_color(), "va": "center", "fontsize": 9, "fontweight": "bold"}
        axes.annotate(str(line.get_label()), (1.02, height), xycoords="axes fraction", annotation_clip=False, **text)


def spread_out(heights: Sequence[float], margin: float) -> list[float]:
    """The heights in the same order, moved down as little as it takes to lie `margin` apart.

    >>> spread_out([0.5, 0.9, 0.45], 0.125)
    [0.5, 0.9, 0.375]
    """
    order = sorted(range(len(heights)), key=lambda i: -heights[i])
    placed = list(heights)
    for above, here in pairwise(order):
        placed[here] = min(placed[here], placed[above] - margin)
    return placed


def save_picture(figure: Figure, path: Path) -> Path:
    """As PNG on white, for papers and for pages of either theme; 64 colors are enough and make a small file."""
    buffer = BytesIO()
    figure.savefig(buffer, dpi=150, facecolor="white")
    Image.open(buffer).convert("RGB").quantize(64).save(path, optimize=True)
    return path
