"""Wrong recipes, damaged model folders, run folders and checkpoints: `python tests/hostile/fuzz_configurations.py`.

Each is a function of its seed and given to the commands that read it. Ends with 1 if one of them raised, hung, or said
anything but one line with the name of what is wrong; if a damaged model answered; or if a run whose newest checkpoint
was damaged ended with other weights.
"""

import argparse
import io
import json
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))
from saccade.cli import main
from saccade.training.interrupts import StopRequest
from tests.hostile.configurations import flip, odd_file, odd_json, odd_yaml
from tests.hostile.mutations import mutate
from tests.sealing import seal

SLOW_S = 60


class Hung(BaseException):
    """Nothing catches it."""


@contextmanager
def limited() -> Iterator[None]:
    def interrupt(*_: Any) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(SLOW_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class StopsAtOnce(StopRequest):
    """A run of one step: by then everything that a recipe says was looked at."""

    def __init__(self) -> None:
        self.asked = True


def complaint(words: list[str], named: Path) -> tuple[int, str | None]:
    """How a command ended, and what is wrong with how it took what is `named`, if anything."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with (
            limited(),
            redirect_stdout(out),
            redirect_stderr(err),
            patch("saccade.training.loop.StopRequest", StopsAtOnce),
        ):
            code = main(words)
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return -1, f"{type(error).__name__}: {str(error)[:200]} at {last.filename}:{last.lineno}"
    lines = [line for line in err.getvalue().splitlines() if line.startswith("saccade: error: ")]
    told = err.getvalue().strip().splitlines()[-1:]
    if code == 2 and (len(lines) != 1 or lines != told):
        return code, f"not one line: {err.getvalue()}"
    if code == 2 and str(named) not in lines[0]:
        return code, f"without its name: {lines[0]}"
    if "\x1b" in err.getvalue():
        return code, f"an escape sequence: {err.getvalue()!r}"
    return code, None


def wrong_recipe(sound: Path, seed: int, folder: Path) -> Iterator[str | None]:
    """A recipe that somebody got wrong, trained."""
    recipe = folder / "recipe.yaml"
    recipe.write_bytes(odd_yaml(sound.read_bytes(), seed))
    yield complaint(["train", str(recipe), "--out", str(folder / "run")], recipe)[1]


def wrong_model(sound: Path, seed: int, folder: Path) -> Iterator[str | None]:
    """A model folder with another config or other weights; half of the configs with the right checksum."""
    model = folder / "model"
    shutil.copytree(sound / "best", model)
    name, odd = [("config.json", odd_json), ("model.safetensors", mutate)][seed % 4 == 0]
    before = (model / name).read_bytes()
    (model / name).write_bytes(odd(before, seed))
    sealed = bool(seed % 4 > 1)
    if sealed:
        seal(model)
    image = next((sound.parent / "spots" / "images").iterdir())
    code, wrong = complaint(["predict", str(model), str(image), "--workers=0", f"--out={folder}/out.jsonl"], model)
    if not sealed and code == 0 and before != (model / name).read_bytes():
        wrong = "a damaged model answers"
    yield wrong


def wrong_run(sound: Path, seed: int, folder: Path) -> Iterator[str | None]:
    """A run folder with a damaged file: its report, an evaluation, and the run resumed."""
    run = shutil.copytree(sound, folder / "run")
    files = sorted(path for path in run.rglob("*") if path.is_file() and "tensorboard" not in path.parts)
    odd_file(files[seed % len(files)], seed)
    yield complaint(["report", str(run)], run)[1]
    yield complaint(["evaluate", str(run), "--split", "val"], run)[1]
    yield complaint(["train", str(sound.parent / "recipe.yaml"), "--out", str(run)], run)[1]


def damaged_checkpoint(sound: Path, seed: int, folder: Path) -> Iterator[str | None]:
    """A run whose newest checkpoint has a flipped bit, or 4 KB of zeros: resumed, it ends as if nothing had been."""
    run = shutil.copytree(sound, folder / "run")
    newest = max((run / "checkpoints").iterdir())
    newest.write_bytes(flip(newest.read_bytes(), seed))
    err = io.StringIO()
    with limited(), redirect_stdout(io.StringIO()), redirect_stderr(err):
        code = main(["train", str(sound.parent / "recipe.yaml"), "--out", str(run)])
    yield None if code == 0 else f"ended with {code}: {err.getvalue()}"
    yield None if f"{newest} cannot be read" in err.getvalue() else f"taken without a word: {err.getvalue()}"
    for name in ("best", "last"):
        weights, expected = (load_file(place / name / "model.safetensors") for place in (run, sound.parent / "whole"))
        same = weights.keys() == expected.keys() and all(weights[key].equal(expected[key]) for key in weights)
        yield None if same else f"other weights in {name}"


Case = Callable[[Path, int, Path], Iterator[str | None]]


def complaints(case: Case, sound: Path, count: int, *, first_seed: int = 0) -> list[str]:
    """What is wrong with how `count` cases were taken."""
    found = []
    for seed in range(first_seed, first_seed + count):
        folder = Path(tempfile.mkdtemp(prefix="saccade-fuzz-"))
        try:
            found += [f"{case.__name__} {seed}: {wrong}" for wrong in case(sound, seed, folder) if wrong]
        finally:
            shutil.rmtree(folder)
    return found


def make_sound(folder: Path) -> tuple[Path, Path]:
    """A recipe and the run of it, with one step and the end to come; and the same run as it ends, in `whole`."""
    from tiny import make_spots, tiny_recipe

    from saccade.training.recipe import dump_recipe

    recipe = folder / "recipe.yaml"
    recipe.write_text(dump_recipe(tiny_recipe(make_spots(folder / "spots", 20))))
    with redirect_stdout(io.StringIO()), patch("saccade.training.checkpoints.KEPT", 3):
        assert main(["train", str(recipe), "--out", str(folder / "run")]) == 0
    shutil.copytree(folder / "run", folder / "whole")
    facts = json.loads((folder / "run" / "run.json").read_text())
    del facts["finished"]
    (folder / "run" / "run.json").write_text(json.dumps(facts))
    (folder / "run" / "checkpoints" / "00000016.ckpt").unlink()
    return recipe, folder / "run"


def run_all() -> int:
    """As many of each as were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipes", type=int, default=1000)
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--checkpoints", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="saccade-sound-") as folder:
        recipe, run = make_sound(Path(folder))
        cases: list[tuple[Case, Path, int]] = [
            (wrong_recipe, recipe, args.recipes),
            (wrong_model, run, args.models),
            (wrong_run, run, args.runs),
            (damaged_checkpoint, run, args.checkpoints),
        ]
        found = []
        for case, sound, count in cases:
            found += (now := complaints(case, sound, count, first_seed=args.seed))
            print(f"{case.__name__}: {count}, of which {len(now)} were taken wrongly", *now, sep="\n", flush=True)
    return bool(found)


if __name__ == "__main__":
    sys.exit(run_all())
