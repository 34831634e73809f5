"""Whether a recipe may be trained in a run folder. This module imports no torch."""

from dataclasses import replace
from typing import Any

import yaml
from jsonargparse import ArgumentError

from saccade.plain_trees import differences
from saccade.runs import RunFolder
from saccade.training.recipe import Recipe, dump_recipe, load_recipe


def check_folder(folder: RunFolder, recipe: Recipe) -> None:
    """Refuse a run folder that holds another run, or something else; a run that came to nothing does not count."""
    if not folder.is_free() and (lines := differences(settings(_there(folder)), settings(recipe))):
        raise ValueError(
            f"{folder.path} holds a run with other settings ({'; '.join(lines)}): give another folder with --out, "
            "or the same settings to resume"
        )


def settings(recipe: Recipe) -> dict[str, Any]:
    """The recipe without what changes nothing, how images are read and where numbers go: a run may resume otherwise."""
    data = replace(recipe.data, workers=None, cache_gb=0.0)
    return yaml.safe_load(dump_recipe(replace(recipe, data=data, logger=None)))


def _there(folder: RunFolder) -> Recipe:
    """The folder's recipe; what an older version did not know yet has its default."""
    try:
        return load_recipe(folder.recipe_file)
    except (ArgumentError, ValueError) as error:
        raise ValueError(
            f"{folder.path} holds a run with a recipe that this version does not read ({error}): give another folder "
            "with --out"
        ) from error
