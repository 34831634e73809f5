"""Is this data set sound? Every file decoded, every picture compared: `saccade data check`.

Pictures are compared by a hash of their decoded pixels, so a copy is found under another name and in another lossless
format. The same picture in train and in val or test is leakage: the model is then tested on what it has learnt.

Of slides and tiled pyramids above the limit on pixels, which training reads in parts, a small view is read.

Files are read in processes that can be killed: one that hangs its reader, or ends it, is one more unreadable file.
"""

import hashlib
import logging
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from saccade.data.folds import fold_names
from saccade.data.groups import have_groups
from saccade.data.records import SPLITS, Record, Records
from saccade.data.splits import parted_groups
from saccade.data.typical_size import look_at
from saccade.files import shown
from saccade.images.bad_image import BadImage, blaming
from saccade.images.decode import read_pixels
from saccade.images.decoding_cost import MAX_PIXELS
from saccade.images.guarded import SUPPORTED, Guard
from saccade.images.image_source import open_file
from saccade.images.in_shards import at_hand
from saccade.images.pyramid import NotASlideError
from saccade.images.slide import SlideImage

log = logging.getLogger(__name__)

PLAIN_LINES = 10
SHOWN_LEAKS = 20
SLIDE_VIEW_PX = 1024


class Finding(NamedTuple):
    """What decoding one file gave: its size (height, width) and a hash of its pixels, or why it cannot be read."""

    size: tuple[int, int] | None
    digest: bytes
    bad: BadImage | None


class Report(NamedTuple):
    """A data set and what decoding each of its files gave, at so many microns per pixel if that was asked for."""

    records: Records
    findings: tuple[Finding, ...]
    mpp: float | None = None

    def bad(self) -> list[BadImage]:
        """Every file that cannot be read."""
        return [finding.bad for finding in self.findings if finding.bad]

    def sizes(self) -> Counter[tuple[int, int]]:
        """How many images have which size (height, width)."""
        return Counter(finding.size for finding in self.findings if finding.size)

    def odd(self) -> list[tuple[Record, tuple[int, int]]]:
        """Images with far fewer or far more pixels than most, and their sizes."""
        sizes = [finding.size for finding in self.findings]
        odd = {*look_at([size for size in sizes if size]).odd} if any(sizes) else set()
        return [(each, size) for each, size in zip(self.records.records, sizes, strict=True) if size and size in odd]

    def leaks(self) -> list[list[Record]]:
        """Images that are the same picture and lie in different splits."""
        return self.same_in_several("split")

    def same_in_several(self, *places: str) -> list[list[Record]]:
        """Images that are the same picture and lie in different splits, groups or folds, whatever `places` says."""
        same: dict[bytes, list[Record]] = defaultdict(list)
        for record, finding in zip(self.records.records, self.findings, strict=True):
            if finding.size:
                same[finding.digest].append(record)
        return [alike for alike in same.values() if len({tuple(getattr(r, p) for p in places) for r in alike}) > 1]


def examine(
    records: Records,
    *,
    workers: int | None = None,
    max_pixels: int = MAX_PIXELS,
    mpp: float | None = None,
    stream: bool = False,
) -> Iterator[Finding]:
    """Decode every file of a set, several at once; the findings come in the set's order, as they are made.

    mpp:    microns per pixel at which slides are to be seen: one that does not say is bad.
    stream: larger files that can be read in parts are fine, as they are in training with `model.preparation.stream`.
    """
    count = workers or os.cpu_count() or 1
    with ExitStack() as stack:
        free: SimpleQueue[Guard | None] = SimpleQueue()
        for _ in range(count):
            free.put(stack.enter_context(Guard()) if SUPPORTED else None)

        def look(record: Record) -> Finding:
            guard = free.get()
            try:
                return _examine_file(record.image, guard, max_pixels=max_pixels, mpp=mpp, stream=stream)
            finally:
                free.put(guard)

        # Threads that wait for processes, where there are guards; elsewhere Pillow lets go of the interpreter's lock.
        pool = stack.enter_context(ThreadPoolExecutor(count))
        yield from pool.map(look, records.records)


def _examine_file(path: Path, guard: Guard | None, *, max_pixels: int, mpp: float | None, stream: bool) -> Finding:
    try:
        with at_hand(path) as here, blaming(file := Path(here)):
            scaled = None if mpp is None else open_file(file, mpp=mpp, guard=guard).size
            slide = _huge_slide(file, guard, max_pixels) if stream else None
            read = guard.read_pixels if guard else read_pixels
            pixels = _small_view(slide) if slide else read(file, max_pixels=max_pixels)
    except BadImage as error:
        return Finding(None, b"", error)
    size = slide.size if slide else (pixels.shape[0], pixels.shape[1])
    digest = hashlib.blake2b(repr(size).encode(), digest_size=16)  # the same bytes may be a picture of another shape
    digest.update(pixels.data)
    return Finding(scaled or size, digest.digest(), None)


def _huge_slide(path: Path, guard: Guard | None, max_pixels: int) -> SlideImage | None:
    try:
        slide = SlideImage(path, guard=guard)
    except NotASlideError:
        return None
    return slide if math.prod(slide.size) > max_pixels else None


def _small_view(slide: SlideImage) -> np.ndarray:
    return slide.view(min(1.0, SLIDE_VIEW_PX / max(slide.size))).numpy()


def leave_out_bad(records: Records, max_pixels: int) -> tuple[Records, list[BadImage]]:
    """The records whose files can be read, and what is wrong with the others, which is logged."""
    findings = tuple(examine(records, max_pixels=max_pixels))
    bad = Report(records, findings).bad()
    for error in bad:
        log.warning("left out %s", error)
    if bad:
        log.warning("left out %d of %d images that cannot be read", len(bad), len(findings))
    kept = tuple(r for r, finding in zip(records.records, findings, strict=True) if finding.bad is None)
    return records._replace(records=kept), bad


def follow(findings: Iterable[Finding], total: int, console: Console) -> Iterator[Finding]:
    """The same findings, with a bar on a terminal and now and then a plain line elsewhere."""
    if not console.is_terminal:
        for number, finding in enumerate(findings, start=1):
            yield finding
            if number * PLAIN_LINES // total > (number - 1) * PLAIN_LINES // total:
                console.print(f"decoded {number} of {total} images", highlight=False)
        return
    columns = (TextColumn("decoding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield from progress.track(findings, total=total)


def show(report: Report, console: Console) -> None:
    """Print what a user wants to know of a data set."""
    _show_counts(report.records, console)
    at = "" if report.mpp is None else f", at {report.mpp:g} microns per pixel"
    _say(console, f"{_describe_sizes(report.sizes())}{at}")
    for note in report.records.notes:
        _say(console, note if note.startswith("warning: ") else f"note: {note}")
    for record, size in (odd := report.odd())[:SHOWN_LEAKS]:
        _say(console, f"warning: far from the size of most: {record.image} has {size[0]}×{size[1]} px")
    if odd:
        _say(console, f"warning: {len(odd)} images are of another size altogether; leave out what is a mistake")
    _show_groups(report.records, console)
    for alike in report.same_in_several("split", "group", "fold")[:SHOWN_LEAKS]:
        places = "  =  ".join(f"{record.image} ({_place(record)})" for record in alike)
        _say(console, f"warning: the same picture in several {_where(alike)}: {places}")
    leaks = report.leaks()
    if leaks:
        _say(
            console,
            f"warning: {len(leaks)} pictures lie in several splits, so accuracy will be overstated; keep one of each",
        )
    for bad in report.bad():
        _say(console, f"unreadable: {bad}")
    _say(console, f"{len(report.findings)} images, {len(report.bad())} unreadable, {len(leaks)} in several splits")


def _show_groups(records: Records, console: Console) -> None:
    """How many groups and folds there are, and the groups that splits or folds part."""
    if folds := fold_names(records):
        sizes = Counter(record.fold for record in records.records)
        _say(console, f"folds: {', '.join(f'{fold} ({sizes[fold]} images)' for fold in folds)}")
    if not have_groups(records.records):
        return
    for kind in ("split", "fold"):
        for group, places in list(parted_groups(records, kind).items())[:SHOWN_LEAKS]:
            _say(console, f"warning: the group {group!r} lies in several {kind}s: {', '.join(places)}")
    groups = len({record.group for record in records.records})
    _say(console, f"{groups} groups, {len(parted_groups(records))} in several splits")


def _place(record: Record) -> str:
    fold = f"fold {record.fold}" if record.fold else ""
    return ", ".join(text for text in (record.split, record.group, fold) if text)


def _where(alike: list[Record]) -> str:
    several = [kind for kind in ("split", "group", "fold") if len({getattr(record, kind) for record in alike}) > 1]
    return " and ".join(f"{kind}s" for kind in several)


def _show_counts(records: Records, console: Console) -> None:
    counts = records.counts()
    table = Table(
        "class" if records.task == "single" else records.task,
        *SPLITS,
        "all",
        title=Text(shown(records.root)),
        title_justify="left",
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for label in records.classes:
        row = [counts[split][label] for split in SPLITS]
        table.add_row(Text(shown(label)), *map(str, row), str(sum(row)), end_section=label == records.classes[-1])
    totals = [records.sizes()[split] for split in SPLITS]
    table.add_row("all", *map(str, totals), str(sum(totals)))
    console.print(table)


def _describe_sizes(sizes: Counter[tuple[int, int]]) -> str:
    if not sizes:
        return "sizes: no image could be read"
    (height, width), count = sizes.most_common(1)[0]
    if len(sizes) == 1:
        return f"sizes: all {height}×{width} (height×width)"
    smallest, largest = min(sizes, key=lambda size: size[0] * size[1]), max(sizes, key=lambda size: size[0] * size[1])
    return (
        f"sizes: {len(sizes)} different, from {smallest[0]}×{smallest[1]} to {largest[0]}×{largest[1]} (height×width), "
        f"most often {height}×{width} ({count} images)"
    )


def _say(console: Console, text: str) -> None:
    # Lines that hold file names stay whole, so that they can be searched and copied.
    console.print(shown(text), soft_wrap=True, markup=False, highlight=False)
