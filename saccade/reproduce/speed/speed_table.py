"""Timings → `speed.csv`, one line per system and round, `speed.md`, one line per system, and `speed.png`.

`speed-steps.csv` has the training steps and the feature network's shares, round by round.

The plot can be drawn again from the CSV: `speed_plot(read_timings(path))`.
"""

import csv
import io
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from saccade.files import whole_file
from saccade.reproduce.collect import PROVENANCE
from saccade.reproduce.figures import DPI
from saccade.reproduce.speed.contestants import NAME, Contestant, Setting, Timing, by_system
from saccade.reproduce.speed.figure import speed_plot
from saccade.reproduce.speed.steps import Lap, table_of_laps, tell
from saccade.reproduce.summaries import show
from saccade.reproduce.table_types import MEDIAN, Measure

COLUMNS = ("system", "kind", "plain", "network", "k", "patch", "share", "round", "batch", "images_per_second")
SPEED = Measure("images_per_second", "images per second", scale=1.0, digits=2)
PAPER = (
    'In the paper, on a V100: ten patches of 100² allow "a 5 fold speed up", soft or hard is not said; ResNet-18 on '
    "the whole image is not faster than ResNet-50 on patches; hard top-K processes 3 to 10% more images than soft. "
    "The other points of its figure are not printed as numbers."
)


def table_of_rounds(timings: Iterable[Timing], facts: Mapping[str, str]) -> str:
    """The CSV, with the facts of `PROVENANCE` in every line."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*COLUMNS, *PROVENANCE))
    for system, share, turn, batch, speed in timings:
        of_system = (system.name, system.kind, system.plain, system.network, system.k, system.patch, f"{share:.6g}")
        writer.writerow((*of_system, turn, batch, f"{speed:.6g}", *(facts[name] for name in PROVENANCE)))
    return text.getvalue()


def read_timings(path: Path) -> list[Timing]:
    """The timings in a file that `table_of_rounds` made."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    missing = [name for name in COLUMNS if not lines or name not in lines[0]]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: expected {NAME}.csv of `saccade reproduce {NAME}`")
    return [
        Timing(
            Contestant(
                line["network"], int(line["k"]), int(line["patch"]), line["kind"] == "soft", line["plain"] == "True"
            ),
            float(line["share"]),
            int(line["round"]),
            int(line["batch"]),
            float(line["images_per_second"]),
        )
        for line in lines
    ]


def markdown(timings: Sequence[Timing], setting: Setting, facts: Mapping[str, str], laps: Sequence[Lap] = ()) -> str:
    """The table: each system against the first two, and what the paper has for it."""
    speeds = {system: [each.images_per_second for each in rounds] for system, rounds in by_system(timings).items()}
    plain, tuned = list(speeds)[:2]
    head = (
        "",
        "pixels seen",
        SPEED.title,
        f"against plain {plain.network}",
        f"against {tuned.network}",
        "paper",
        "batch",
    )
    lines = [head, ("---", *["---:"] * (len(head) - 1))]
    for system, rounds in by_system(timings).items():
        ratios = [statistics.median(speeds[system]) / statistics.median(speeds[other]) for other in (plain, tuned)]
        seen, batch = f"{100 * rounds[0].share:g}%", str(rounds[0].batch)
        speed = show(speeds[system], SPEED, MEDIAN, runs=len(rounds))
        lines.append((system.name, seen, speed, *(f"{ratio:.1f}×" for ratio in ratios), system.paper, batch))
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    texts = (
        f"# Speed: the whole image against K patches of P²\n\n{body}",
        PAPER,
        _ours(speeds, setting),
        *([tell(laps, setting)] if laps else []),
        _made(timings, facts),
    )
    return "\n\n".join(texts) + "\n"


def _ours(speeds: Mapping[Contestant, Sequence[float]], setting: Setting) -> str:
    side, view = setting.side_px, round(setting.side_px * setting.view_scale)
    medians = {system: statistics.median(values) for system, values in speeds.items()}
    gains = [medians[system._replace(soft=False)] / medians[system] - 1 for system in medians if system.soft]
    batches = ", ".join(str(batch) for batch in setting.batches)
    return (
        f"Ours: images of {side}², view of {view}², {setting.network} on the patches, mean pooling, random weights; "
        f"soft: n = {setting.draws}, σ = {setting.sigma:g}. All but the plain one as `for_inference` makes them, each "
        f"with the best of the batches {batches}. Wall time, {MEDIAN} over rounds. "
        f"Hard over soft: {min(gains):+.0%} to {max(gains):+.0%} images per second."
    )


def _made(timings: Sequence[Timing], facts: Mapping[str, str]) -> str:
    rounds = max(each.round for each in timings)
    return (
        f"{facts['hardware']}, {facts['threads']} threads; {facts['finished'][:10]}; saccade {facts['saccade']}, "
        f"commit {facts['commit']}, Python {facts['python']}, {facts['versions']}. "
        f"Every round is in [{NAME}.csv]({NAME}.csv); `saccade reproduce {NAME} --rounds {rounds}`."
    )


def write_results(
    out: Path, timings: Sequence[Timing], laps: Sequence[Lap], *, setting: Setting, facts: Mapping[str, str]
) -> list[Path]:
    """Write all four files whole, or none, and return their paths."""
    paths = [out / name for name in (f"{NAME}.csv", f"{NAME}-steps.csv", f"{NAME}.md", f"{NAME}.png")]
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        table, steps, text, picture = (stack.enter_context(whole_file(path)) for path in paths)
        table.write_text(table_of_rounds(timings, facts), encoding="utf-8")
        steps.write_text(table_of_laps(laps, setting, facts), encoding="utf-8")
        text.write_text(markdown(timings, setting, facts, laps), encoding="utf-8")
        speed_plot(timings).savefig(picture, dpi=DPI, format="png")
    return paths
