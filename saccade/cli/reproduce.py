"""`saccade reproduce TABLE`: the paper's tables and its speed figure, ours beside theirs; and studies of our own."""

import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt, PositiveInt

from saccade.cli.command import Command, add_ray
from saccade.cli.gradients import measure_gradients
from saccade.cli.memory import keep_freed_memory
from saccade.reproduce import gradient_quality
from saccade.reproduce.paper_tables import PAPER, TABLES
from saccade.reproduce.speed import contestants as speed
from saccade.reproduce.table_types import SCALES, choose

if TYPE_CHECKING:
    from rich.console import Console

    from saccade.reproduce.jobs import Job, Request

EVERY = "paper"  # all of its tables
NAMES = (*TABLES, EVERY, speed.NAME, gradient_quality.NAME)
# What means nothing where nothing is trained, and its defaults.
OF_RUNS = {
    "scale": "small",
    "seeds": None,
    "rows": None,
    "again": False,
    "rehearse": False,
    "data": None,
    "weights": None,
    "jobs": None,
    "ray": None,
}
OWN_FLAGS = {"rounds": speed.NAME, "seed": gradient_quality.NAME}
JOBS = {"small": 2, "full": 1}
ROUNDS = 3


def _add_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Train every run of a table that is missing, and write TABLE.csv, TABLE.md and pictures. What is done is "
        "skipped; what was stopped is resumed. Two tables train nothing, are made anew each time and take no flags "
        "but --out, --list and one of their own: speed times networks on this machine, on the GPU if there is one "
        "(--rounds), gradient-quality compares the gradients of the selectors with the exact one (--seed)."
    )
    parser.add_argument("table", type=str, nargs="?", help=f"one of {', '.join(NAMES)}; with --list, all of them")
    parser.add_argument(
        "--scale",
        choices=SCALES,
        default=OF_RUNS["scale"],
        help="small: for two CPU cores; full: the paper's own (default: small)",
    )
    parser.add_argument(
        "--seeds",
        type=PositiveInt,
        help="runs of each row (default: 3 where the order is the claim and 1 elsewhere; at full scale as the paper)",
    )
    parser.add_argument("--rows", type=str, nargs="+", help="these rows only (default: all)")
    parser.add_argument(
        "--again",
        action="store_true",
        help="run anew what has a line in TABLE.csv and no run folder here (default: the line counts as done)",
    )
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="of --scale full: three steps of each row on random images of the real shape, its memory and hours; no "
        "data is needed and nothing is written",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results"), help="where results and runs go (default: results)"
    )
    parser.add_argument("--data", type=Path, help="folder of the data sets that are not generated (default: data)")
    parser.add_argument("--weights", type=Path, help="ImageNet weights for the rows that start from them")
    parser.add_argument(
        "--jobs",
        type=PositiveInt,
        help="runs side by side, sharing the cores (default: 2; at full scale, on a GPU, 1)",
    )
    add_ray(parser, "run them on a Ray cluster, as many as fit, or --jobs")
    parser.add_argument(
        "--rounds", type=PositiveInt, help=f"of speed alone: timings of each system (default: {ROUNDS})"
    )
    parser.add_argument("--seed", type=NonNegativeInt, help="of gradient-quality alone: other problems (default: 0)")
    parser.add_argument("--list", action="store_true", help="show the rows, their commands and how far they are")


def reproduce(args: Namespace) -> int:
    """Run what is missing and write the table; 1 if a run failed."""
    from rich.console import Console

    console = Console()
    if args.table == EVERY:
        return _reproduce_paper(args)
    if args.table is None and args.list:
        return _list_tables(console)
    if args.table in UNTRAINED:
        _refuse_flags(args)
        return UNTRAINED[args.table](args, console)
    if args.table not in TABLES:
        came = "no table" if args.table is None else f"no table {args.table!r}"
        raise ValueError(f"{came}: choose one of {', '.join(NAMES)}; `saccade reproduce --list` tells what they are")
    for flag, name in OWN_FLAGS.items():
        if args[flag] is not None:
            raise ValueError(f"--{flag} is for the table {name} alone; {args.table} has runs: give --seeds")
    if args.rehearse:
        return _rehearse(args, console)
    from saccade.reproduce.collect import made_elsewhere
    from saccade.reproduce.jobs import Request, list_jobs

    data, weights = (place and place.resolve() for place in (args.data, args.weights))  # the same from everywhere
    request = Request(TABLES[args.table], args.scale, args.out, data, weights)
    rows = choose(request.table, tuple(args.rows or ()), args.scale)
    done = set() if args.again else made_elsewhere(request)
    if args.list:
        request = request._replace(weights=weights or Path("WEIGHTS"))
        return _list_jobs(list_jobs(request, rows, seeds=args.seeds), done, f"in {request.stem}.csv", console)
    for flag, place in (("--data", data), ("--weights", weights)):
        if place and not place.exists():
            raise FileNotFoundError(f"{flag} {place}: no such file or folder; check the path")
    if sys.platform == "win32":
        raise ValueError(
            "runs side by side need locks and process groups that Windows lacks: use its Linux subsystem (WSL), or run "
            "the commands that --list shows one by one"
        )
    jobs = list_jobs(request, rows, seeds=args.seeds, without=done)
    if done:
        _plainly(console)(f"runs that are in {request.stem}.csv are done ({len(done)}); --again makes them anew")
    return _reproduce(request, jobs, args, console)


def _reproduce_paper(args: Namespace) -> int:
    """All tables of the paper, one after the other; what a later one lacks is told before the first begins."""
    if args.rows:
        raise ValueError(f"--rows is for one table, and {EVERY} is all of them: leave it out, or name a table")
    if args.weights is None and not (args.list or args.rehearse):
        raise ValueError(
            f"{EVERY} has the table cub, which starts from ImageNet weights: give their file with --weights"
        )
    return max([reproduce(Namespace({**vars(args), "table": table.name})) for table in PAPER])


def _rehearse(args: Namespace, console: "Console") -> int:
    if args.scale != "full":
        raise ValueError("--rehearse is for --scale full: small runs take minutes as they are")
    keep_freed_memory()
    from saccade.reproduce.rehearsal import rehearse_rows

    table = TABLES[args.table]
    rehearse_rows(choose(table, tuple(args.rows or ()), args.scale), _plainly(console))
    return 0


def _reproduce(request: "Request", jobs: Sequence["Job"], args: Namespace, console: "Console") -> int:
    from saccade.reproduce.collect import collect, outdated
    from saccade.reproduce.data_sets import make_data
    from saccade.reproduce.figures import draw_all
    from saccade.reproduce.results import write_results
    from saccade.training.jobs_on_ray import jobs_on_ray
    from saccade.training.side_by_side import run_jobs

    def keep() -> None:
        if results := collect(request):
            write_results(request, results)

    say = _plainly(console)
    if old := outdated(request):
        say(f"the rows' settings have changed since {request.stem}.csv was written; it loses {'; '.join(old)}")
    able, failures = make_data(jobs, say)
    if args.ray and able:
        with jobs_on_ray(args.ray, args.jobs or len(able), gpus=1) as share:
            failures += run_jobs(able, at_once=share.at_once, say=say, keep=keep, start=share.start)
    else:
        failures += run_jobs(able, at_once=args.jobs or JOBS[args.scale], say=say, keep=keep)
    if results := collect(request):
        for path in write_results(request, results):
            say(f"wrote {path}")
        draw_all(request, results, say)
    return 1 if failures else 0


def _refuse_flags(args: Namespace) -> None:
    """Those that mean nothing for a table without runs."""
    others = {flag: None for flag, name in OWN_FLAGS.items() if name != args.table}
    if given := [f"--{name}" for name, default in (OF_RUNS | others).items() if args[name] != default]:
        own = next(flag for flag, name in OWN_FLAGS.items() if name == args.table)
        raise ValueError(
            f"leave out {', '.join(given)}: {args.table} trains nothing, and takes --out, --{own} and --list only"
        )


def _gradient_quality(args: Namespace, console: "Console") -> int:
    if args.list:
        _plainly(console)(gradient_quality.TITLE)
        return 0
    return measure_gradients(args.out, console, seed=args.seed or 0)


def _speed(args: Namespace, console: "Console") -> int:
    setting, say = speed.Setting(), _plainly(console)
    if args.list:
        for system in setting.systems():
            say(f"{system.name} ({100 * system.share(setting.side_px):g}% of the pixels; paper: {system.paper})")
        return 0
    keep_freed_memory()  # as the commands do that predict
    from saccade.reproduce.speed.measure import fit, measure, provenance
    from saccade.reproduce.speed.speed_table import write_results
    from saccade.reproduce.speed.steps import time_steps

    args.out.mkdir(parents=True, exist_ok=True)  # a place that cannot be written to is told before, not after
    setting = fit(setting)
    timings = measure(setting, rounds=args.rounds or ROUNDS, say=say)
    laps = time_steps(setting, rounds=args.rounds or ROUNDS, say=say)
    for path in write_results(args.out, timings, laps, setting=setting, facts=provenance()):
        say(f"wrote {path}")
    return 0


def _plainly(console: "Console") -> Callable[[str], None]:
    return partial(console.print, soft_wrap=True, highlight=False, markup=False)


def _list_tables(console: "Console") -> int:
    from rich.table import Table

    shown = Table("table", "what it is", "in the paper", "rows, small", "rows, full", box=None)
    for table in TABLES.values():
        counts = [str(sum(row.plan(scale) is not None for row in table.rows)) for scale in SCALES]
        shown.add_row(table.name, table.title, table.source, *counts)
    shown.add_row(speed.NAME, speed.TITLE, speed.SOURCE, "–", "–")
    shown.add_row(gradient_quality.NAME, gradient_quality.TITLE, "none", "–", "–")
    console.print(shown)
    return 0


def _list_jobs(jobs: Sequence["Job"], done: Collection[tuple[str, int]], told: str, console: "Console") -> int:
    from saccade.reproduce.jobs import shell_lines

    for job in jobs:
        now = told if (job.row.name, job.seed) in done else job.state()
        lines = [f"{job.name} ({now}; paper: {job.row.paper})", *shell_lines(job)]
        console.print("\n    ".join(lines), soft_wrap=True, highlight=False, markup=False)
    return 0


# Tables for which nothing is trained.
UNTRAINED = {speed.NAME: _speed, gradient_quality.NAME: _gradient_quality}

REPRODUCE = Command("run a table of the paper, ours beside theirs", _add_arguments, reproduce)
