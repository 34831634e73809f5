"""Damaged images without end: `python tests/hostile/fuzz.py --count 20000` (a function of `--seed`).

In rounds of a thousand. Each file goes through `data check`, and what passes that through training's reader and both
views; then the round goes, with odd names among it, through the commands `predict`, `data check` and `train
--skip-bad`. Ends with 1 at the first file that does anything but give a picture or be an error with its name, and
keeps the files.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from saccade.data.dataset import ImageDataset
from saccade.data.inspection import Finding, examine
from saccade.data.records import Record, Records
from saccade.images import BadImage, FileImage, Guard, NotASlideError, SlideImage

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from tests.hostile import batches  # noqa: E402
from tests.hostile.mutations import write_mutations  # noqa: E402

SLOW_S = 20
ROUND = 1000


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


def run_command(words: Sequence[str]) -> batches.Ended:
    """A command in a process of its own; what writes lines must not stop doing so."""
    out = Path(words[words.index("--out") + 1]) if words[0] == "predict" else None
    command = [sys.executable, "-W", "ignore", "-m", "saccade.cli", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8:backslashreplace"}
    with (
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT, env=env) as process,
    ):
        size, since = 0, time.monotonic()
        while process.poll() is None:
            time.sleep(0.1)
            now = out.stat().st_size if out and out.exists() else 0
            if now != size or not size:
                size, since = now, time.monotonic()
            if time.monotonic() - since > SLOW_S:
                process.kill()
                return batches.Ended(-9, f"no line for {SLOW_S} s after {size} bytes")
        printed.seek(0)
        return batches.Ended(process.returncode, printed.read().decode(errors="replace"))


def run_commands(folder: Path, count: int, seed: int) -> str | None:
    """The same kinds of files, and odd names, through the commands."""
    images = batches.write_set(folder / "images", count, seed)
    wrongs = (
        f"{name}: {wrong}" for name, take in batches.COMMANDS.items() if (wrong := take(images, folder, run_command))
    )
    return next(wrongs, None)


def main() -> int:
    """Rounds of a thousand files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for first in range(0, args.count, ROUND):
        folder, count = Path(tempfile.mkdtemp(prefix="saccade-fuzz-")), min(ROUND, args.count - first)
        wrong = run(folder / "files", count, args.seed + first)
        wrong = wrong or run_commands(folder / "set", count, args.seed + first)
        if wrong:
            print(wrong.encode("utf-8", "backslashreplace").decode(), f"(in {folder})")
            return 1
        shutil.rmtree(folder)
        print(f"{first + count} of {args.count} files", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
