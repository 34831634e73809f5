"""The shards of a prediction that one process writes and others work on: each is given out, and put back if whoever
had it is gone. What an earlier run left, or jobs of an array, is continued in the division it has."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from saccade.files import shown
from saccade.predict.line_file import Writer, open_alone, refuse_existing, resume
from saccade.predict.line_formats import format_of
from saccade.predict.shards import Facts, ImageList, Shard, check_facts, facts_file, find_shards, finish, read_facts

SHARDS_EACH = 16  # few, for there is a pause between two; many, for at the end all wait for the last one


class Line(NamedTuple):
    """What is written of an image, and its error if it has one."""

    text: str
    image: str
    error: str | None


class Stretch(NamedTuple):
    """A shard and the names of its images; `again` if it was put back."""

    shard: Shard
    names: list[str]
    again: bool = False


class Task(NamedTuple):
    """A stretch in work: the names that have no line yet, and what writes them.

    done, failed: lines that were there already.
    """

    names: list[str]
    writer: Writer
    done: int
    failed: int

    def write(self, lines: Sequence[Line]) -> None:
        """Put down the lines of the next images."""
        for line in lines:
            if line.image != self.names[0]:
                raise RuntimeError(f"a line of {self.names[0]} was awaited, and one of {line.image} came")
            self.writer.put(line.text)
            del self.names[0]


class ShardQueue:
    """The shards of `out` that are not whole yet, first to last.

    images:  all that are listed, in order; walked once, as shards are taken.
    workers: how many there will be, for a division that is made now.
    """

    def __init__(self, out: Path, listed: ImageList, images: Iterator[str], *, workers: int, resumes: bool):
        there = find_shards(out)
        if there and not resumes:
            refuse_existing(min(there).file(out))
        of = min(there).of if there else min(listed.count, SHARDS_EACH * workers)
        self.out, self.listed = out, listed
        self.shards = [Shard(number, of) for number in range(1, of + 1)]
        self.whole = {shard for shard in self.shards if facts_file(shard.file(out)).is_file()}
        self.done = sum(len(shard.places(listed)) for shard in self.whole)  # images, by earlier runs
        self._images, self._coming, self._again = images, iter(self.shards), deque[Stretch]()

    def check(self, classes: list[str], decides: bool) -> None:
        """Refuse whole shards of other images, or of another model."""
        for file in (shard.file(self.out) for shard in sorted(self.whole)):
            whose = f"those given now: give the same again, or another --out than {shown(self.out)}"
            check_facts(file, read_facts(file), Facts(self.listed, classes, decides), whose)

    def take(self) -> Stretch | None:
        """The next one, those that were put back first; None if there is none to be had now."""
        if self._again:
            return self._again.popleft()
        for shard in self._coming:
            names = list(islice(self._images, len(shard.places(self.listed))))
            if shard not in self.whole:
                return Stretch(shard, names)
        return None

    def put_back(self, stretch: Stretch) -> None:
        """It is not whole."""
        self._again.append(stretch._replace(again=True))

    @contextmanager
    def work_on(self, stretch: Stretch, classes: list[str], decides: bool) -> Iterator[Task]:
        """The file of a stretch, for this process alone; whole if the block ends with a line for each image."""
        file = stretch.shard.file(self.out)
        with open_alone(file, resumes=True) as stream:
            form, names = format_of(self.out)(classes, decides=decides), iter(stretch.names)
            before = resume(stream, form, names, file)
            task = Task([*names], Writer(stream, form), before.done, before.failed)
            task.writer.begin()
            yield task
            left = len(task.names)
        if not left:
            finish(file, Facts(self.listed, classes, decides))
            self.whole.add(stretch.shard)

    @property
    def are_whole(self) -> bool:
        """Whether they can be joined."""
        return len(self.whole) == len(self.shards)

    def delete(self) -> None:
        """All files, once they are joined."""
        for file in (shard.file(self.out) for shard in self.shards):
            facts_file(file).unlink()
            file.unlink()
