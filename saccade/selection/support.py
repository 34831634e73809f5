"""What soft selectors share: how they are compiled, and if made of softmaxes, what they keep and their temperatures.

A softmax gives every candidate some weight, and every candidate with a weight must be read from the image. Each
selector bounds the weight of a candidate by how far its score lies below the best, and drops what lies below the
bound. What is left out weighs less than `NEGLIGIBLE` in all slots together: far below the rounding of float32.
"""

import math
from collections.abc import Callable
from typing import TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

Selector = TypeVar("Selector", bound=Callable)

NEGLIGIBLE = 1e-9

# Why such a selector does not go with an aggregation that tells the slots apart.


def uncompiled(selector: Selector) -> Selector:
    """A selector whose support's size depends on the scores or the noise: a compiled model calls it uncompiled."""
    return cast(Selector, torch.compiler.disable(selector))  # which hides the signature


def reach(k: int, n: int) -> float:
    """The r with N · K · exp(−r) = NEGLIGIBLE: how many units of the exponent below the bound's anchor matter.

    >>> round(reach(10, 2028), 1)
    30.6
    """
    return math.log(n * k / NEGLIGIBLE)


def highest(scores: Float[Tensor, "B N"], lowest: Float[Tensor, " B"], *, at_least: int) -> Int[Tensor, "B S"]:
    """The candidates that score `lowest` or more, ascending, without a gradient.

    S is the largest count in the batch, or `at_least`; images that need fewer keep their next-best candidates as well.

    >>> import torch
    >>> highest(torch.tensor([[0.9, 0.1, 0.5], [0.0, 0.2, 0.1]]), torch.tensor([0.4, 0.2]), at_least=1)
    tensor([[0, 2],
            [1, 2]])
    """
    scores = scores.detach()
    count = max(at_least, int((scores >= lowest.detach()[:, None]).sum(dim=1).max()))
    return scores.topk(count, dim=1, sorted=False).indices.sort(dim=1).values


def within(scores: Float[Tensor, "B N"], k: int, *, below: float) -> Int[Tensor, "B S"]:
    """The candidates that lie at most `below` under the K-th best, ascending.

    >>> import torch
    >>> within(torch.tensor([[0.9, 0.1, 0.5, 0.8]]), 2, below=0.4)
    tensor([[0, 2, 3]])
    """
    return highest(scores, scores.detach().topk(k, dim=1).values[:, -1] - below, at_least=k)


def check_temperature(temperature: float) -> None:
    """A temperature must be positive and finite."""
    if not 0 < temperature < float("inf"):
        raise ValueError(
            f"temperature is {temperature}, expected a finite number > 0: the smaller, the closer to a hard top-K"
        )
