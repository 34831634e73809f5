"""The images of one prediction in shares, be they jobs' (`--shard`) or a cluster's (`--ray`), and their files joined.

Shard i of n has the i-th of n equal stretches of the list, so the list is walked once, whoever works on it, and joining
is putting one file after the other. Its lines go to a file of its own:

    answers.jsonl  ─ --shard 3/8 ─▶  answers.3-of-8.jsonl, and answers.3-of-8.json once each of its images has a line

The second one says of which list the images were: how many, and the SHA-256 of their names. Joining compares what it
reads with that, so a joined file has every image exactly once and in order.
"""

import re
from collections.abc import Iterable, Iterator
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

    def share(self, images: Iterator[str], of: "ImageList") -> Iterator[str]:
        """Those of `images`, all that are listed, that are its own."""
        places = self.places(of)
        return islice(images, places.start, places.stop)

    def places(self, images: "ImageList") -> range:
        """Where in the list its images are.

        >>> [Shard(number, 3).places(ImageList(7, "")) for number in (1, 2, 3)]
        [range(0, 2), range(2, 4), range(4, 7)]
        """
        return range((self.number - 1) * images.count // self.of, self.number * images.count // self.of)

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


class Facts(NamedTuple):
    """What a finished shard says of itself: of which list, for which classes and whether with decisions."""

    images: ImageList
    classes: list[str]
    decides: bool


def finish(file: Path, facts: Facts) -> None:
    """Note beside a shard's file that it is whole."""
    tree = {"images": facts.images.count, "sha256": facts.images.sha256}
    write_json(facts_file(file), {**tree, "classes": facts.classes, "decides": facts.decides})


def facts_file(file: Path) -> Path:
    """Where the facts of a shard's file are, once it is whole."""
    return file.with_suffix(".json")


def join(out: Path) -> Progress:
    """Write the lines of all shards of `out` into it, or refuse in words and leave nothing."""
    form_class = format_of(out)
    shards = _find_all(out)
    files = [shard.file(out) for shard in shards]
    first = read_facts(files[0])
    for file in files:
        check_facts(file, read_facts(file), first, f"{shown(files[0].name)}: give all shards the same model and images")
    form, progress = form_class(first.classes, decides=first.decides), Progress()
    with whole_file(out) as part, part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as target:
        target.write(form.head)

        def names() -> Iterator[str]:
            nonlocal progress
            for shard, file in zip(shards, files, strict=True):
                for line in _all_lines(file, form, len(shard.places(first.images))):
                    target.write(line.text)
                    progress = Progress(progress.done + 1, progress.failed + line.failed)
                    yield line.image

        if ImageList.of(names()) != first.images:
            raise ValueError(
                "the lines are not those of the images: the shards were changed after they were finished; make them "
                "anew"
            )
    return progress


def check_facts(file: Path, facts: Facts, wanted: Facts, whose: str) -> None:
    """Refuse a shard that does not go together with what is wanted, in words that end with whose that is."""
    if facts != wanted:
        what = "classes or decisions" if facts.images == wanted.images else "a list of images"
        raise ValueError(f"{shown(file)} was made with {what} other than {whose}")


def find_shards(out: Path) -> set[Shard]:
    """Those whose files are there, all of one division."""
    name = re.compile(re.escape(out.stem) + r"\.([0-9]+)-of-([0-9]+)" + re.escape(out.suffix))
    paths = out.parent.iterdir() if out.parent.is_dir() else ()
    matches = [found for path in paths if (found := name.fullmatch(path.name))]
    there = {Shard(int(match[1]), int(match[2])) for match in matches}
    divisions = sorted({shard.of for shard in there})
    if len(divisions) > 1:
        raise ValueError(
            f"shards of {shown(out)} overlap: there are some of {' and some of '.join(map(str, divisions))}; delete or "
            "move those that do not belong here"
        )
    return there


def _find_all(out: Path) -> list[Shard]:
    """All shards there are to be, once one was found; a missing one is refused."""
    there = find_shards(out)
    if not there:
        raise FileNotFoundError(
            f"no shards of {shown(out)}: expected {shown(Shard(1, 8).file(out))} and so on, which `saccade predict … "
            f"--out {shown(out)} --shard 1/8` writes"
        )
    of = min(there).of
    wanted = [Shard(number, of) for number in range(1, of + 1)]
    missing = [shard for shard in wanted if shard not in there]
    if strange := there - set(wanted):
        raise ValueError(f"{shown(min(strange).file(out))} is no shard that saccade predict wrote: move it elsewhere")
    if missing:
        raise FileNotFoundError(
            f"{len(missing)} of {of} shards of {shown(out)} are missing, first {missing[0]}: give its "
            f"command, with --shard {missing[0]}"
        )
    return wanted


def read_facts(file: Path) -> Facts:
    """What a shard's file is said to hold; one that is not finished is refused."""
    path = facts_file(file)
    if not path.is_file():
        raise FileNotFoundError(f"{shown(file)} is not finished: give its command again, with --resume")
    tree, types = read_json(path, ANEW), {"images": int, "sha256": str, "classes": list[str], "decides": bool}
    if missing := types.keys() - tree.keys():
        raise ValueError(f"{shown(path)}: no {min(missing)}; {ANEW}")
    check_types(path, tree, types, ANEW)
    return Facts(ImageList(tree["images"], tree["sha256"]), tree["classes"], tree["decides"])


class _Line(NamedTuple):
    text: str
    image: str
    failed: bool


def _all_lines(file: Path, form: Format, count: int) -> Iterator[_Line]:
    """The lines of a shard, exactly so many."""
    with file.open(encoding="utf-8", errors="surrogateescape", newline="\n") as text:
        lines = _lines(text, form, file)
        for _ in range(count):
            line = next(lines, None)
            if line is None:
                raise ValueError(f"{shown(file)} has lost lines: {ANEW}")
            yield line
        if next(lines, None) is not None:
            raise ValueError(f"{shown(file)} has too many lines: {ANEW}")


def _lines(text: Iterable[str], form: Format, name: Path) -> Iterator[_Line]:
    lines = form.whole(text)
    if form.head and next(lines, None) != form.head:
        raise ValueError(f"{shown(name)} has other columns than {form.head.strip()}: {ANEW}")
    for line in lines:
        for done in read_done(form, iter([line]), name):
            yield _Line(line, done.image, done.failed)
