"""The recipes that ship with the package: one run, one file, `<data set>/<method>.yaml` beside this one.

A recipe's first comment line says in one sentence what it is. This module imports no torch.
"""

from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (".yaml", ".yml")


class Shipped(NamedTuple):
    """A recipe that ships: `saccade train NAME`."""

    name: str
    path: Path
    summary: str


def list_recipes(folder: Path | None = None) -> list[Shipped]:
    """The recipes in `folder` (default: those that ship), by name.

    >>> "signs/perturbed" in [recipe.name for recipe in list_recipes()]
    True
    """
    folder = folder or Path(str(files(__name__)))
    paths = sorted(path for path in folder.glob("*/*") if path.suffix in SUFFIXES)
    return [Shipped(f"{path.parent.name}/{path.stem}", path, _summary(path)) for path in paths]


def _summary(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.strip("# \t") for line in lines if line.startswith("#")), "")


def find_recipe(text: str, folder: Path | None = None) -> Path | None:
    """The file of a recipe given by name or by path; None if `text` is something else, such as a data set.

    A name of a recipe that ships comes first: a data set of the same name is `./signs/cnn`. What is neither, but looks
    like a recipe, is an error that says what was perhaps meant.
    """
    shipped = {recipe.name: recipe.path for recipe in list_recipes(folder)}
    if text in shipped:
        return shipped[text]
    path = Path(text)
    looks_like_a_file = path.suffix.lower() in SUFFIXES
    if path.exists():
        return path if looks_like_a_file and path.is_file() else None
    name = str(path.with_suffix("")) if looks_like_a_file else text.rstrip("/")
    close = [each for each in shipped if each.startswith(f"{name}/")] or get_close_matches(name, shipped)
    if looks_like_a_file or close:
        meant = f"did you mean {' or '.join(close)}? " if close else ""
        raise ValueError(f"no recipe {text!r}: {meant}`saccade recipes` lists those that ship, or give a .yaml file")
    return None
