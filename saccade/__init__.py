"""Saccade: classify high-resolution images by looking closely at a few patches.

The public names, in the order in which an image meets them. They are imported when first used, so that
`import saccade` and the command line's help do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saccade.building import build_model, load_model
    from saccade.config import ModelConfig
    from saccade.extraction import Grid, extract
    from saccade.images import make_view
    from saccade.looking import Look, look_at
    from saccade.model import PatchSelectionModel
    from saccade.output import Output
    from saccade.predict import Prediction, Predictor
    from saccade.prediction import mixture_loss, score_entropy, selection_loss
    from saccade.preparation import Preparation
    from saccade.registry import register
    from saccade.selection import (
        AttentionSampling,
        DiverseTopK,
        Exhaustive,
        GumbelTopK,
        HardTopK,
        PerturbedTopK,
        RandomTopK,
        Selection,
        Selector,
        SinkhornTopK,
        SoftSortTopK,
        StraightThroughTopK,
        attention_sampling,
        diverse_topk,
        exhaustive,
        gumbel_topk,
        hard_topk,
        linear_decay,
        normalize_scores,
        perturbed_topk,
        random_topk,
        sinkhorn_topk,
        softsort_topk,
        straight_through_topk,
    )
    from saccade.training.recipe import Recipe, load_recipe
    from saccade.training.run import train

__version__ = "0.1.0"

# The module each name is in, in data-path order.
_NAMES = {
    "config": ["ModelConfig"],
    "registry": ["register"],
    "building": ["build_model", "load_model"],
    "model": ["PatchSelectionModel"],
    "output": ["Output"],
    "preparation": ["Preparation"],
    "images": ["make_view"],
    "selection": [
        "normalize_scores",
        "linear_decay",
        "Selection",
        "Selector",
        *("PerturbedTopK", "perturbed_topk"),
        *("DiverseTopK", "diverse_topk"),
        *("SinkhornTopK", "sinkhorn_topk"),
        *("AttentionSampling", "attention_sampling"),
        *("GumbelTopK", "gumbel_topk"),
        *("StraightThroughTopK", "straight_through_topk"),
        *("SoftSortTopK", "softsort_topk"),
        *("HardTopK", "hard_topk"),
        *("RandomTopK", "random_topk"),
        *("Exhaustive", "exhaustive"),
    ],
    "extraction": ["Grid", "extract"],
    "prediction": ["selection_loss", "score_entropy", "mixture_loss"],
    "looking": ["Look", "look_at"],
    "training.recipe": ["Recipe", "load_recipe"],
    "training.run": ["train"],
    "predict": ["Predictor", "Prediction"],
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [  # noqa: RUF022 (the order tells the story)
    "ModelConfig",
    "register",
    "build_model",
    "load_model",
    "PatchSelectionModel",
    "Output",
    "Preparation",
    "make_view",
    "normalize_scores",
    "linear_decay",
    "Selection",
    "Selector",
    "PerturbedTopK",
    "perturbed_topk",
    "DiverseTopK",
    "diverse_topk",
    "SinkhornTopK",
    "sinkhorn_topk",
    "AttentionSampling",
    "attention_sampling",
    "GumbelTopK",
    "gumbel_topk",
    "StraightThroughTopK",
    "straight_through_topk",
    "SoftSortTopK",
    "softsort_topk",
    "HardTopK",
    "hard_topk",
    "RandomTopK",
    "random_topk",
    "Exhaustive",
    "exhaustive",
    "Grid",
    "extract",
    "selection_loss",
    "score_entropy",
    "mixture_loss",
    "Look",
    "look_at",
    "Recipe",
    "load_recipe",
    "train",
    "Predictor",
    "Prediction",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'saccade' has no attribute {name!r}")
    return getattr(import_module(f"saccade.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
