"""What the user said of the model's parts, before other values are chosen by it."""

from saccade.extraction import Extraction
from saccade.images import View
from saccade.registry import build, build_one, check_spec, import_parts
from saccade.training.recipe import Recipe


def check_given(recipe: Recipe) -> None:
    """Refuse what the parts themselves would refuse, but only once a model is built."""
    import_parts(recipe.imports)
    build_one("view", View, recipe.model.view)
    if recipe.model.system == "patch_selection":
        build_one("extraction", Extraction, recipe.model.extraction)
        build("selection", recipe.model.selection)
        check_spec("scorer", recipe.model.scorer)
    check_spec("features", recipe.model.features)
