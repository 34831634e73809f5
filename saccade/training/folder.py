"""A run folder and its recipe: whose it is, and whether another run may have it. This module imports no torch."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError

from saccade.files import locked, write_whole
from saccade.training.alone import LOCK
from saccade.training.recipe import Recipe, dump_recipe, load_recipe

KEPT = ("checkpoints", "best", "last", "evaluation")  # what would be lost with a run


def check_folder(folder: Path, recipe: Recipe) -> None:
    """Refuse a run folder that holds another run, or something else; a run that came to nothing is no run."""
    path = folder / "recipe.yaml"
    if came_to_nothing(folder):
        return
    if not path.is_file():
        if folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
            raise ValueError(f"{folder} is not empty and holds no run: give another folder with --out")
    elif differences := [
        *_differences(*(yaml.safe_load(dump_recipe(_read_anyhow(each))) for each in (_there(folder, path), recipe)))
    ]:
        raise ValueError(
            f"{folder} holds a run with other settings ({'; '.join(differences)}): give another folder with --out, "
            "or the same settings to go on"
        )


def _read_anyhow(recipe: Recipe) -> Recipe:
    """The recipe without how its images are read, which changes nothing: a run may go on with fewer workers."""
    return replace(recipe, data=replace(recipe.data, workers=None, cache_gb=0.0))


def _there(folder: Path, path: Path) -> Recipe:
    """The folder's recipe; what an older version did not know yet has its default."""
    try:
        return load_recipe(path)
    except (ArgumentError, ValueError) as error:
        raise ValueError(
            f"{folder} holds a run with a recipe that this version does not read ({error}): give another folder with "
            "--out"
        ) from error


def claim_folder(folder: Path, recipe: Recipe) -> None:
    """Write the recipe into a run folder that passed `check_folder`: from now on it is this run's.

    Not before its lock is held: nobody else's run may be under way there.
    """
    path, text = folder / "recipe.yaml", dump_recipe(recipe)
    if path.is_file():
        if not _holds_nothing(folder) or path.read_text() == text:
            return
        (folder / "run.json").unlink()  # says of the other run when it began, and with which command
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)


def came_to_nothing(folder: Path) -> bool:
    """Whether a run began there and ended before its first checkpoint, as one that cannot be trained does."""
    if not _holds_nothing(folder):
        return False
    try:
        with locked(folder / LOCK, wait=False):
            return True
    except BlockingIOError:  # it is under way
        return False


def _holds_nothing(folder: Path) -> bool:
    # Without run.json there was no run, and a recipe.yaml is what somebody wrote.
    return (folder / "run.json").is_file() and not any((folder / name).exists() for name in KEPT)


def _differences(old: Any, new: Any, key: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            yield from _differences(old.get(name), new.get(name), f"{key}.{name}" if key else name)
    elif old != new:
        yield f"{key} {old} there, {new} here"
