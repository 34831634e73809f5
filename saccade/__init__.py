"""Saccade: classify high-resolution images by looking closely at a few patches.

The public names, in the order in which an image meets them. They are imported when first used, so that
`import saccade` and the command line's help do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saccade.config import ModelConfig
    from saccade.extraction import Grid, extract
    from saccade.images import make_view
    from saccade.model import Output, PatchSelectionModel
    from saccade.predict import Prediction, Predictor
    from saccade.prediction import score_entropy, selection_loss
    from saccade.selection import (
        PerturbedTopK,
        Selection,
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

__version__ = "0.1.0"

_HOME = {
    "ModelConfig": "config",
    "PatchSelectionModel": "model",
    "Output": "model",
    "make_view": "images",
    "normalize_scores": "selection",
    "Selection": "selection",
    "PerturbedTopK": "selection",
    "perturbed_topk": "selection",
    "sinkhorn_topk": "selection",
    "gumbel_topk": "selection",
    "straight_through_topk": "selection",
    "softsort_topk": "selection",
    "diverse_topk": "selection",
    "linear_decay": "selection",
    "hard_topk": "selection",
    "random_topk": "selection",
    "exhaustive": "selection",
    "attention_sampling": "selection",
    "Grid": "extraction",
    "extract": "extraction",
    "score_entropy": "prediction",
    "selection_loss": "prediction",
    "Predictor": "predict",
    "Prediction": "predict",
}

__all__ = [  # noqa: RUF022 (the order tells the story)
    "ModelConfig",
    "PatchSelectionModel",
    "Output",
    "make_view",
    "normalize_scores",
    "Selection",
    "PerturbedTopK",
    "perturbed_topk",
    "sinkhorn_topk",
    "gumbel_topk",
    "straight_through_topk",
    "softsort_topk",
    "diverse_topk",
    "linear_decay",
    "hard_topk",
    "random_topk",
    "exhaustive",
    "attention_sampling",
    "Grid",
    "extract",
    "score_entropy",
    "selection_loss",
    "Predictor",
    "Prediction",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'saccade' has no attribute {name!r}")
    return getattr(import_module(f"saccade.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
