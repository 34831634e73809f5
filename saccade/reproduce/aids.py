"""What helped a run to start that the paper does not have, told from its recipe: no table leaves an aid unnamed."""

from collections.abc import Callable

from saccade.training.phases import Phase
from saccade.training.recipe import Recipe

IN_PHASES: dict[str, Callable[[Phase], bool]] = {
    "label-free steps": lambda phase: not phase.labeled,
    "guided start": lambda phase: phase.guided,
    "mixture loss": lambda phase: phase.labeled and bool(phase.loss.get("mixture_coefficient")),
    "classes dealt evenly": lambda phase: phase.labeled and phase.deal == "evenly",
    "slow scorer": lambda phase: phase.labeled and phase.scorer.rate * phase.scorer.start < 1,
    "fast scorer": lambda phase: phase.labeled and phase.scorer.rate > 1,
}
ELSEWHERE: dict[str, Callable[[Recipe], bool]] = {
    "frozen start": lambda recipe: recipe.training.frozen,
    "gradient scaled by σ": lambda recipe: bool(recipe.model.selection.get("gradient_per_sigma")),
    "positions": lambda recipe: recipe.model.positions or recipe.model.aggregation.get("name") == "placed",
}


def name_aids(recipe: Recipe) -> tuple[str, ...]:
    """The aids of a run.

    >>> from saccade.training.recipe import load_recipe
    >>> name_aids(load_recipe("billiard_small/ats"))
    ('label-free steps', 'guided start', 'mixture loss', 'classes dealt evenly', 'slow scorer')
    >>> name_aids(load_recipe("traffic/perturbed"))
    ()
    """
    phases = [span.phase for span in recipe.plan.spans]
    of_phases = [name for name, has in IN_PHASES.items() if any(map(has, phases))]
    return (*of_phases, *(name for name, has in ELSEWHERE.items() if has(recipe)))
