"""A run folder → `Run`: everything a training run wrote down, in memory. A run still under way lacks some of it."""

import csv
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from jaxtyping import Float, Int, UInt8

PROBABILITY = "p:"  # columns of evaluation/<split>.csv that hold the probability of a class


class Answer(NamedTuple):
    """What the model said of one image; hit, overlap and entropy are NaN where they do not apply."""

    image: str
    label: str
    predicted: str
    confidence: float
    hit: float
    overlap: float
    entropy: float
    probabilities: tuple[float, ...]

    @property
    def right(self) -> bool:
        """Whether it said what was true."""
        return self.predicted == self.label


class Answers(NamedTuple):
    """The answers to the images of one split; probabilities are in the order of `classes`."""

    classes: tuple[str, ...]
    rows: tuple[Answer, ...]


class Caution(NamedTuple):
    """A warning of the collapse watch."""

    step: int
    kind: str
    message: str


class Glance(NamedTuple):
    """How one image was looked at in the middle of training: `weight` says how much of each box is in each patch."""

    label: int
    image: UInt8[np.ndarray, "h w 3"]
    size: tuple[int, int]
    scores: Float[np.ndarray, "rows cols"]
    patches: UInt8[np.ndarray, "K P Q 3"]
    boxes: Int[np.ndarray, "S 4"]
    weight: Float[np.ndarray, "K S"]


class Panel(NamedTuple):
    """The same few images at one moment of training; sigma is NaN where the selection has no noise."""

    step: int
    main_step: int
    sigma: float
    glances: tuple[Glance, ...]


class Run(NamedTuple):
    """A run. `metrics` are columns over the logged steps, NaN where nothing was logged; `panels` are files."""

    folder: Path
    name: str
    recipe: dict[str, Any]
    facts: dict[str, Any]
    metrics: dict[str, Float[np.ndarray, " rows"]]
    evaluations: dict[str, dict[str, Any]]
    predictions: dict[str, Answers]
    warnings: tuple[Caution, ...]
    panels: tuple[Path, ...]

    @property
    def split(self) -> str | None:
        """The split its numbers are told for: test, else whatever was evaluated; None before the first evaluation."""
        return next((split for split in ("test", "val", *self.predictions) if split in self.predictions), None)

    @property
    def system(self) -> str:
        """The kind of model."""
        return str(self.recipe.get("model", {}).get("system", "patch_selection"))

    @property
    def warm_up_steps(self) -> int:
        """Steps before the first label was used."""
        return int((self.recipe.get("warm_up") or {}).get("steps", 0))

    @property
    def steps_done(self) -> int:
        """Steps so far, those of the warm-up included."""
        planned = self.warm_up_steps + int(self.recipe.get("steps", 0))
        logged = self.metrics.get("step", np.zeros(0))
        return planned if self.evaluations or not len(logged) else int(logged.max())

    def series(self, name: str) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """Steps and values at which `name` was logged."""
        values = self.metrics.get(name, np.zeros(0))
        known = ~np.isnan(values)
        return self.metrics.get("step", np.zeros(0))[: len(values)][known], values[known]


def read_run(folder: Path | str) -> Run:
    """Everything in a run folder.

    >>> read_run("/")
    Traceback (most recent call last):
    FileNotFoundError: /: no recipe.yaml in it, so it is no run; give a folder that `saccade train` wrote
    """
    folder = Path(folder)
    if not (folder / "recipe.yaml").is_file():
        reason = "no recipe.yaml in it, so it is no run" if folder.is_dir() else "no such folder"
        raise FileNotFoundError(f"{folder}: {reason}; give a folder that `saccade train` wrote")
    evaluation = sorted((folder / "evaluation").glob("*.json"))
    tables = sorted((folder / "evaluation").glob("*.csv"))
    return Run(
        folder=folder,
        name=folder.resolve().name,
        recipe=_read_yaml(folder / "recipe.yaml"),
        facts=_read_json(folder / "run.json"),
        metrics=_read_metrics(folder / "metrics.csv"),
        evaluations={path.stem: _read_json(path) for path in evaluation},
        predictions={path.stem: answers for path in tables if (answers := _read_answers(path)).rows},
        warnings=tuple(_read_warnings(folder / "warnings.csv")),
        panels=tuple(sorted((folder / "panels").glob("*.npz"))),
    )


def read_panel(path: Path) -> Panel:
    """A moment of training, as `panels/<step>.npz` has it."""
    with np.load(path) as file:
        values = {name: file[name] for name in file.files}
    glances = tuple(
        Glance(
            label=int(label),
            size=(int(values[f"size_{v}"][0]), int(values[f"size_{v}"][1])),
            **{part: values[f"{part}_{v}"] for part in ("image", "scores", "patches", "boxes", "weight")},
        )
        for v, label in enumerate(values["label"])
    )
    return Panel(int(values["step"]), int(values["main_step"]), float(values["sigma"]), glances)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML ({error}); restore it from the recipe the run was started with") from error
    if not isinstance(tree, dict):
        raise ValueError(f"{path}: holds a {type(tree).__name__}, expected the keys of a recipe")
    return tree


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}); run `saccade evaluate` again, or delete it") from error


def _rows(path: Path) -> Iterator[dict[str, str]]:
    if path.is_file():
        with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:  # as `write_whole` writes
            yield from csv.DictReader(file)


def _number(text: str | None) -> float:
    # A line that is being written may end anywhere.
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


def _read_metrics(path: Path) -> dict[str, Float[np.ndarray, " rows"]]:
    rows = [row for row in _rows(path) if not math.isnan(_number(row.get("step")))]
    names = rows[0].keys() if rows else ()
    return {name: np.array([_number(row.get(name)) for row in rows]) for name in names if name}


def _read_answers(path: Path) -> Answers:
    rows = list(_rows(path))
    columns = [name for name in (rows[0] if rows else ()) if name and name.startswith(PROBABILITY)]
    classes = tuple(_readable(name.removeprefix(PROBABILITY)) for name in columns)
    needed = {"image", "label", "predicted", "confidence"}
    if rows and (missing := sorted(needed - rows[0].keys())):
        raise ValueError(f"{path}: no column {', '.join(missing)}; run `saccade evaluate` again")
    return Answers(classes, tuple(_answer(row, columns) for row in rows))


def _answer(row: dict[str, str], columns: Iterable[str]) -> Answer:
    numbers = [_number(row.get(name)) for name in ("confidence", "hit", "overlap", "entropy")]
    confidence, hit, overlap, entropy = numbers
    probabilities = tuple(_number(row.get(name)) for name in columns)
    label, predicted = _readable(row["label"]), _readable(row["predicted"])
    return Answer(row["image"], label, predicted, confidence, hit, overlap, entropy, probabilities)


def _readable(label: str) -> str:
    """A label that can be drawn: bytes of a folder's name that are not UTF-8 are spelt out."""
    return label.encode(errors="backslashreplace").decode()


def _read_warnings(path: Path) -> Iterator[Caution]:
    for row in _rows(path):
        if not math.isnan(step := _number(row.get("step"))):
            yield Caution(int(step), row.get("kind") or "", row.get("message") or "")
