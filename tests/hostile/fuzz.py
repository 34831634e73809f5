"""Damaged images without end: `python tests/hostile/fuzz.py --count 20000` (a function of `--seed`).

Each goes through `data check`, and what passes that through training's reader and both views. Ends with 1 at the first
file that does anything but give a picture or be a `BadImage` with its name, and keeps that file.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from saccade.data.dataset import ImageDataset
from saccade.data.inspection import Finding, examine
from saccade.data.records import Record, Records
from saccade.images import BadImage, FileImage, Guard, NotASlideError, SlideImage

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.hostile.mutations import write_mutations

SLOW_S = 20


def as_records(paths: list[Path]) -> Records:
    """Files as a data set of one class."""
    return Records(paths[0].parent, ("cat",), tuple(Record(path, "cat", "train") for path in paths))


def complaint(path: Path, finding: Finding, guard: Guard) -> str | None:
    """What is wrong with how a file was taken, if anything: check, training and streaming must agree."""
    if finding.bad and path.name not in str(finding.bad):
        return f"an error without its name: {finding.bad}"
    if finding.size:
        shape = ImageDataset(as_records([path]))[0].image.shape
        if tuple(shape) != (3, *finding.size):
            return f"check says {finding.size}, training reads {tuple(shape)}"
    try:
        try:
            SlideImage(path, guard=guard, single_file=True).view(1 / 2)
        except NotASlideError:
            FileImage(path, guard=guard).view(1 / 4)
    except BadImage as error:
        if path.name not in str(error):
            return f"an error without its name: {error}"
    except ValueError as error:
        if "has no pixel left" not in str(error):  # a true word about a tiny picture
            return f"{type(error).__name__}: {error}"
    return None


def run(folder: Path, count: int, seed: int) -> str | None:
    """Make and read `count` files; the first complaint, if there is one."""
    paths = write_mutations(folder, count, first_seed=seed)
    begin = time.monotonic()
    with Guard() as guard:
        for path, finding in zip(paths, examine(as_records(paths), workers=2), strict=True):
            wrong = complaint(path, finding, guard)
            if time.monotonic() - begin > SLOW_S:
                wrong = wrong or f"took {time.monotonic() - begin:.0f} s"
            if wrong:
                return f"{path}: {wrong}"
            begin = time.monotonic()
    return None


def main() -> int:
    """Rounds of a thousand files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for first in range(0, args.count, 1000):
        folder = Path(tempfile.mkdtemp(prefix="saccade-fuzz-"))
        wrong = run(folder, min(1000, args.count - first), args.seed + first)
        if wrong:
            print(wrong)
            return 1
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        print(f"{min(first + 1000, args.count)} of {args.count} files", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
