"""What every selector refuses, in one voice."""

from collections.abc import Collection

import torch
from torch import Tensor


def check_scores(scores: Tensor) -> None:
    """Scores must be B N, floating and finite."""
    if scores.ndim != 2:
        raise ValueError(
            f"scores have shape {tuple(scores.shape)}, expected (batch, candidates): flatten a score map with "
            "scores.flatten(1), or add a batch dimension with scores[None]"
        )
    if 0 in scores.shape:
        raise ValueError(f"scores have shape {tuple(scores.shape)}: expected at least one image and one candidate")
    if not scores.is_floating_point():
        raise ValueError(f"scores have dtype {scores.dtype}, expected floating point: call scores.float()")
    if torch.compiler.is_compiling():  # a graph has no values to look at
        return
    finite = torch.isfinite(scores)
    if not finite.all():
        bad = int((~finite).any(dim=1).nonzero()[0])
        raise ValueError(
            f"{int((~finite).sum())} of {scores.numel()} scores are NaN or infinite (first in image {bad}): the scorer "
            "has diverged or its input is not finite; lower the learning rate, clip gradients, or check the images"
        )


def check_k(k: int, n: int) -> None:
    """K patches must be available among N candidates."""
    if not 1 <= k <= n:
        fix = "ask for at least one patch" if k < 1 else "lower k, or use a finer grid (a larger view scale)"
        raise ValueError(f"k is {k} and there are {n} candidates, expected 1 ≤ k ≤ {n}: {fix}")


def check_slots(k: int) -> None:
    """A selector must have something to fill."""
    if k < 1:
        raise ValueError(f"k is {k}, expected at least 1: how many patches are looked at")


def check_name(option: str, name: str, known: Collection[str]) -> None:
    """An option that takes a name must have one of the `known`."""
    if name not in known:
        raise ValueError(f"{option} is {name!r}, expected one of {', '.join(known)}")


def check_sigma(sigma: float) -> None:
    """A noise level must be finite and not negative."""
    if not 0 <= sigma < float("inf"):
        raise ValueError(f"sigma is {sigma}, expected a finite number ≥ 0: 0 selects without noise, 0.05 is usual")


def check_draws(sigma: float, num_samples: int, gradient: str, gradients: Collection[str]) -> None:
    """Noise must have a level, and one of the `gradients` as many draws as it needs."""
    check_sigma(sigma)
    check_name("gradient", gradient, gradients)
    least = 2 if gradient == "score" else 1
    if num_samples < least:
        raise ValueError(f"num_samples is {num_samples}, expected at least {least} with the {gradient} gradient")
