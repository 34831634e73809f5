"""Making a data set: the same bytes for the same seed, whatever the number of processes and interruptions.

A generator makes item `index` from (seed, index) alone. Every file is written beside its place and then moved there,
so a file that exists is whole, and an item is done when all its files exist: a run that was killed resumes with the
items that are missing. `generator.json` keeps the settings: a folder made with others is refused; only the number of
items may grow.
"""

import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from saccade.data.records import DataError
from saccade.files import write_whole

SETTINGS_FILE = "generator.json"


class Generator(NamedTuple):
    """How one data set is made, paths relative to its folder; a new `version` when a seed gives other bytes."""

    version: int
    count: int
    size: tuple[int, int]
    paths: Callable[[int], tuple[str, ...]]
    files: Callable[..., dict[str, bytes]]  # (index, *, seed, size, options) → path → content
    closing: Callable[..., dict[str, bytes]]  # (count, *, seed, size, options) → path → content, written last


def _signs() -> Generator:
    from saccade.data import signs

    return Generator(1, 4000, signs.SIZE, signs.paths, signs.files, signs.manifest)


def _billiard() -> Generator:
    from saccade.data import billiard_render as billiard

    return Generator(1, 20_000, billiard.SIZE, billiard.paths, billiard.files, _nothing)


def _megapixel_mnist() -> Generator:
    from saccade.data import megapixel_mnist as mnist

    return Generator(1, 6000, mnist.SIZE, mnist.paths, mnist.files, _nothing)


def _megapixel_images() -> Generator:
    from saccade.data import megapixel_images as mnist
    from saccade.data.megapixel_mnist import SIZE

    return Generator(1, 6000, SIZE, mnist.paths, mnist.files, _nothing)


def _nothing(count: int, **keywords: Any) -> dict[str, bytes]:
    return {}


# Functions, not generators: listing them must not import what they need.
GENERATORS: dict[str, Callable[[], Generator]] = {
    "signs": _signs,
    "billiard": _billiard,
    "megapixel-mnist": _megapixel_mnist,
    "megapixel-mnist-images": _megapixel_images,
}


def make(
    name: str,
    out: Path | str,
    *,
    count: int | None = None,
    size: tuple[int, int] | None = None,
    seed: int = 0,
    workers: int | None = None,
    **options: Any,
) -> Path:
    """Makes `count` items of data set `name` in folder `out`, or the ones still missing there, and returns the folder.

    `size` is (height, width); count and size default to the generator's own, workers to one per core. Options, None
    being the same as not given: `sign_px` (smallest and largest sign) for signs, `source` (the folder of the MNIST
    files) for megapixel-mnist and megapixel-mnist-images.

    >>> make("signs", "street", count=400, seed=1)  # doctest: +SKIP
    """
    if name not in GENERATORS:
        raise DataError(f"nothing called {name!r} can be made; choose one of {', '.join(GENERATORS)}")
    generator, out = GENERATORS[name](), Path(out)
    count, size = count or generator.count, size or generator.size
    given = {key: value for key, value in options.items() if value is not None}
    _check_options(name, generator, given)
    keywords = {"seed": seed, "size": size, **given}
    out.parent.mkdir(parents=True, exist_ok=True)
    # Runs that start together wait for the first one; a finished set may lie where nobody can write, locks neither.
    lock = FileLock(out.with_name(f".{out.name}.lock"))
    with lock if os.access(out.parent, os.W_OK) else nullcontext():
        record = out / SETTINGS_FILE
        begun = record.is_file()
        _claim(out, {"generator": name, "version": generator.version, "count": count, **keywords})
        try:
            _make_missing(name, generator, out, count, keywords, workers or os.cpu_count() or 1)
        except DataError:  # settings that cannot be drawn do not keep the folder
            if not begun and [*_visible(out)] == [record]:
                record.unlink()
            raise
    return out


def _make_missing(
    name: str, generator: Generator, out: Path, count: int, keywords: dict[str, Any], workers: int
) -> None:
    missing = [k for k in range(count) if not all((out / path).is_file() for path in generator.paths(k))]
    produce = partial(_produce, name, out, keywords)
    with _progress() as progress:
        task = progress.add_task(f"making {name}", total=count, completed=count - len(missing))
        for _ in _run(produce, missing, workers):
            progress.advance(task)
    _write(out, generator.closing(count, **keywords))


def _progress() -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


def _run(produce: Callable[[int], None], missing: list[int], workers: int) -> Iterable[None]:
    if min(workers, len(missing)) < 2:
        yield from map(produce, missing)
        return
    # Spawned, not forked: a process that has used threads (torch's, say) cannot be forked safely.
    with ProcessPoolExecutor(min(workers, len(missing)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(produce, missing, chunksize=4)


def _produce(name: str, out: Path, keywords: dict[str, Any], index: int) -> None:
    _write(out, GENERATORS[name]().files(index, **keywords))


def _write(out: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        target = out / path
        if target.is_file() and target.read_bytes() == content:
            continue  # a finished set is only read
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)


def _check_options(name: str, generator: Generator, given: dict[str, Any]) -> None:
    parameters = list(inspect.signature(generator.files).parameters.values())
    known = {p.name: p for p in parameters if p.name not in ("index", "seed", "size")}
    for option in given:
        if option not in known:
            raise DataError(f"{name} has no option {option!r}; it has {', '.join(known) or 'none'}")
    for option, parameter in known.items():
        if parameter.default is parameter.empty and option not in given:
            raise DataError(f"{name} cannot be made without {option}: pass {option}=…, on the command line --{option}")


def _claim(out: Path, settings: dict[str, Any]) -> None:
    """Takes the folder for these settings, or refuses because it holds something else."""
    # As JSON gives them back; the source's place is no property of the data.
    settings = json.loads(json.dumps({key: value for key, value in settings.items() if key != "source"}))
    record = out / SETTINGS_FILE
    if record.is_file():
        held = json.loads(record.read_text())
        other = [key for key in {**held, **settings} if key != "count" and held.get(key) != settings.get(key)]
        if other:
            differ = ", ".join(f"{key} {held.get(key)} (asked for: {settings.get(key)})" for key in other)
            raise DataError(f"{out} holds data of other settings: {differ}; choose another folder or the same settings")
        if held["count"] > settings["count"]:
            raise DataError(
                f"{out} holds {held['count']} items, {settings['count']} were asked for: a set can only grow"
            )
    elif out.is_dir() and any(_visible(out)):
        raise DataError(f"{out} is not empty and was not made by a generator: choose another folder")
    _write(out, {SETTINGS_FILE: json.dumps(settings, indent=1).encode()})


def _visible(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.name != f"{SETTINGS_FILE}.part")
