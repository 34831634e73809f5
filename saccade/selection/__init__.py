"""scores → Selection."""

from saccade.selection.hard import Exhaustive, HardTopK, RandomTopK, exhaustive, hard_topk, random_topk
from saccade.selection.normalise import ignore_outside, linear_decay, normalise_scores
from saccade.selection.perturbed import PerturbedTopK, perturbed_topk
from saccade.selection.selection import Selection

SELECTIONS = {
    "perturbed": PerturbedTopK,
    "hard": HardTopK,
    "random": RandomTopK,
    "exhaustive": Exhaustive,
}

__all__ = [
    "SELECTIONS",
    "Exhaustive",
    "HardTopK",
    "PerturbedTopK",
    "RandomTopK",
    "Selection",
    "exhaustive",
    "hard_topk",
    "ignore_outside",
    "linear_decay",
    "normalise_scores",
    "perturbed_topk",
    "random_topk",
]
