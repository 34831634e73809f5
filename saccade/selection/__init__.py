"""scores → Selection."""

from saccade.selection.attention_sampling import AttentionSampling, attention_sampling, attention_topk
from saccade.selection.candidates import Candidates
from saccade.selection.diverse import DiverseTopK, diverse_topk, hard_diverse_topk
from saccade.selection.gumbel import GumbelTopK, gumbel_topk
from saccade.selection.hard import Exhaustive, HardTopK, RandomTopK, exhaustive, hard_topk, random_topk
from saccade.selection.normalize import ignore_outside, linear_decay, normalize_scores
from saccade.selection.perturbed import PerturbedTopK, perturbed_topk
from saccade.selection.selection import Selection
from saccade.selection.selector import Selector
from saccade.selection.sinkhorn import SinkhornTopK, sinkhorn_topk
from saccade.selection.softsort import SoftSortTopK, softsort_topk
from saccade.selection.straight_through import StraightThroughTopK, straight_through_topk

__all__ = [
    "AttentionSampling",
    "Candidates",
    "DiverseTopK",
    "Exhaustive",
    "GumbelTopK",
    "HardTopK",
    "PerturbedTopK",
    "RandomTopK",
    "Selection",
    "Selector",
    "SinkhornTopK",
    "SoftSortTopK",
    "StraightThroughTopK",
    "attention_sampling",
    "attention_topk",
    "diverse_topk",
    "exhaustive",
    "gumbel_topk",
    "hard_diverse_topk",
    "hard_topk",
    "ignore_outside",
    "linear_decay",
    "normalize_scores",
    "perturbed_topk",
    "random_topk",
    "sinkhorn_topk",
    "softsort_topk",
    "straight_through_topk",
]
