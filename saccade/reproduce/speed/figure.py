"""Timings → the paper's figure: images per second over the share of pixels, whole images as level lines."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from saccade.report.plots import MUTED, SEVERAL, style
from saccade.reproduce.speed.contestants import Contestant, Timing, by_system

Points = Mapping[Contestant, tuple[float, float]]  # per cent of the pixels, images per second


def speed_plot(timings: Sequence[Timing]) -> Figure:
    """Medians over the rounds, on logarithmic axes: the shares of the paper crowd at the left of a linear one."""
    points = {
        system: (100 * rounds[0].share, statistics.median(each.images_per_second for each in rounds))
        for system, rounds in by_system(timings).items()
    }
    whole = [system for system in points if system.kind == "whole"]
    with style():
        figure = Figure(figsize=(7.5, 4.8), layout="constrained", facecolor="white")
        axes = figure.add_subplot(xscale="log", yscale="log")
        for system, line in zip(whole, ("-", "--", ":"), strict=True):
            axes.axhline(points[system][1], linestyle=line, color=MUTED, label=system.name)
        for kind, marker, color in (("soft", "o", SEVERAL[0]), ("hard", "^", SEVERAL[1])):
            of_kind = sorted(point for system, point in points.items() if system.kind == kind)
            label = f"{whole[0].network} on patches, {kind} top-K"
            axes.plot(*zip(*of_kind, strict=True), marker=marker, color=color, label=label)
        _label(axes, points)
        _scale(axes, sorted({share for system, (share, _) in points.items() if system.k}))
        figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _label(axes: Axes, points: Points) -> None:
    """K and P of each point. Curves fall from left to right, so there is room above right and below left of them.

    Points of different P lie close together, those of one P do not: the largest P is named above, others below.
    """
    largest = max(system.patch for system in points)
    for system in (each for each in points if each.kind == "hard"):
        share, hard = points[system]
        soft = points[system._replace(soft=True)][1]
        above = system.patch == largest
        place: dict[str, Any] = (
            {"xytext": (4, 5), "ha": "left", "va": "bottom"}
            if above
            else {"xytext": (-4, -5), "ha": "right", "va": "top"}
        )
        speed = max(soft, hard) if above else min(soft, hard)
        axes.annotate(system.slots, (share, speed), textcoords="offset points", fontsize=8, **place)


def _scale(axes: Axes, shares: Sequence[float]) -> None:
    axes.set(title="Inference: the whole image, or patches of it", xlabel="pixels extracted [%]")
    axes.set(ylabel="images per second", xlim=(shares[0] / 1.6, shares[-1] * 1.6), ymargin=0.1)
    axes.set_xticks(shares, [f"{share:g}" for share in shares])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
