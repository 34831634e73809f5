"""The images of one prediction dealt to several jobs, and their files joined again.

Shard i of n has every n-th image, beginning with the i-th, so that a slow folder is everybody's. Its lines go to a file
of its own:

    answers.jsonl  ─ --shard 3/8 ─▶  answers.3-of-8.jsonl, and answers.3-of-8.json once each of its images has a line

The second one says of which list the images were: how many, and the SHA-256 of their names. Joining goes through the
files by turns and compares what it reads with that, so a joined file has every image exactly once and in order.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from saccade.files import shown, whole_file
from saccade.plain_trees import check_types, read_json, write_json
from saccade.predict.line_file import Progress, read_done
from saccade.predict.line_formats import Format, format_of

ANEW = "delete it, and give the command of this shard again with --resume"


class Shard(NamedTuple):
    """One of `of` shares of the images; `number` counts from 1.

    >>> Shard.parse("3/8").file(Path("answers.csv"))
    PosixPath('answers.3-of-8.csv')
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """`3/8` as numbers."""
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        shard = cls(*map(int, found.groups())) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.of:
            raise ValueError(f"--shard {text}: expected a number and how many there are, such as 1/8, 2/8, … 8/8")
        return shard

    def file(self, out: Path) -> Path:
        """The file of its lines."""
        return out.with_name(f"{out.stem}.{self.number}-of-{self.of}{out.suffix}")

    def share(self, images: Iterator[str]) -> Iterator[str]:
        """Those of `images` that are its own."""
        return islice(images, self.number - 1, None, self.of)

    def count(self, images: "ImageList") -> int:
        """How many these are."""
        return len(range(self.number - 1, images.count, self.of))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


class ImageList(NamedTuple):
    """What tells one list of images from another."""

    count: int
    sha256: str

    @classmethod
    def of(cls, images: Iterable[str]) -> "ImageList":
        """Of names in their order."""
        count, digest = 0, sha256()
        for image in images:
            count += 1
            digest.update(image.encode(errors="surrogateescape") + b"\0")
        return cls(count, digest.hexdigest())


class _Facts(NamedTuple):
    """What a finished shard says of itself."""

    images: ImageList
    classes: list[str]
    decides: bool


def finish(file: Path, images: ImageList, classes: Sequence[str], *, decides: bool = False) -> None:
    """Note beside a shard's file that it is whole, of which list, for which classes and whether with decisions."""
    tree = {"images": images.count, "sha256": images.sha256, "classes": list(classes), "decides": decides}
    write_json(file.with_suffix(".json"), tree)


def join(out: Path) -> Progress:
    """Write the lines of all shards of `out` into it, or refuse in words and leave nothing."""
    form_class = format_of(out)
    files = [shard.file(out) for shard in _find(out)]
    found = [_read_facts(file) for file in files]
    for file, facts in zip(files, found, strict=True):
        if facts != found[0]:
            what = "classes or decisions" if facts.images == found[0].images else "a list of images"
            raise ValueError(
                f"{shown(file)} was made with {what} other than {shown(files[0].name)}: give all shards the same model "
                "and images"
            )
    with ExitStack() as stack:
        form = form_class(found[0].classes, decides=found[0].decides)
        shards = [
            _lines(stack.enter_context(file.open(encoding="utf-8", errors="surrogateescape", newline="\n")), form, file)
            for file in files
        ]
        part = stack.enter_context(whole_file(out))
        target = stack.enter_context(part.open("w", encoding="utf-8", errors="surrogateescape", newline=""))
        target.write(form.head)
        return _weave(shards, files, found[0].images, target.write)


def _find(out: Path) -> list["Shard"]:
    """All shards there are to be, once one was found; a missing one is refused."""
    name = re.compile(re.escape(out.stem) + r"\.([0-9]+)-of-([0-9]+)" + re.escape(out.suffix))
    paths = out.parent.iterdir() if out.parent.is_dir() else ()
    matches = [found for path in paths if (found := name.fullmatch(path.name))]
    there = {Shard(int(match[1]), int(match[2])) for match in matches}
    divisions = sorted({shard.of for shard in there})
    if not there:
        raise FileNotFoundError(
            f"no shards of {shown(out)}: expected {shown(Shard(1, 8).file(out))} and so on, which `saccade predict … "
            f"--out {shown(out)} --shard 1/8` writes"
        )
    if len(divisions) > 1:
        raise ValueError(
            f"shards of {shown(out)} overlap: there are some of {' and some of '.join(map(str, divisions))}; delete or "
            "move those that do not belong here"
        )
    wanted = [Shard(number, divisions[0]) for number in range(1, divisions[0] + 1)]
    missing = [shard for shard in wanted if shard not in there]
    if strange := there - set(wanted):
        raise ValueError(f"{shown(min(strange).file(out))} is no shard that saccade predict wrote: move it elsewhere")
    if missing:
        raise FileNotFoundError(
            f"{len(missing)} of {divisions[0]} shards of {shown(out)} are missing, first {missing[0]}: give its "
            f"command, with --shard {missing[0]}"
        )
    return wanted


def _read_facts(file: Path) -> _Facts:
    path = file.with_suffix(".json")
    if not path.is_file():
        raise FileNotFoundError(f"{shown(file)} is not finished: give its command again, with --resume")
    tree, types = read_json(path, ANEW), {"images": int, "sha256": str, "classes": list[str], "decides": bool}
    if missing := types.keys() - tree.keys():
        raise ValueError(f"{shown(path)}: no {min(missing)}; {ANEW}")
    check_types(path, tree, types, ANEW)
    return _Facts(ImageList(tree["images"], tree["sha256"]), tree["classes"], tree["decides"])


class _Line(NamedTuple):
    text: str
    image: str
    failed: bool


def _lines(text: Iterable[str], form: Format, name: Path) -> Iterator[_Line]:
    lines = form.whole(text)
    if form.head and next(lines, None) != form.head:
        raise ValueError(f"{shown(name)} has other columns than {form.head.strip()}: {ANEW}")
    for line in lines:
        for done in read_done(form, iter([line]), name):
            yield _Line(line, done.image, done.failed)


def _weave(
    shards: Sequence[Iterator[_Line]], files: Sequence[Path], images: ImageList, write: Callable[[str], object]
) -> Progress:
    """Write the lines of all shards by turns, and prove that they are those of `images`."""
    progress = Progress()

    def names() -> Iterator[str]:
        nonlocal progress
        for place in range(images.count):
            line = next(shards[place % len(shards)], None)
            if line is None:
                raise ValueError(f"{shown(files[place % len(shards)])} has lost lines: {ANEW}")
            write(line.text)
            progress = Progress(progress.done + 1, progress.failed + line.failed)
            yield line.image

    came = ImageList.of(names())
    more = [file for file, lines in zip(files, shards, strict=True) if next(lines, None) is not None]
    if more or came != images:
        what = f"{shown(more[0])} has too many lines" if more else "the lines are not those of the images"
        raise ValueError(f"{what}: the shards were changed after they were finished; make them anew")
    return progress
