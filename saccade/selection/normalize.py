"""Raw scores → normalized scores, and the noise level's schedule.

The paper: "We normalize the scorer output s to lie in [0, 1] with a small ε = 10⁻⁵ to avoid any division by zero",
and "we linearly decay σ to zero during training".
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.selection.candidates import Candidates

EPSILON = 1e-5

# So far below every other score that no noise lifts it and no softmax sees it.
OUT_OF_REACH = 100.0


def normalize_scores(scores: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
    """(s − min s) / (max s − min s + ε) per image; the gradient flows through the minimum and the maximum too.

    Without it σ would mean something else for every image and every step: the noise is in units of these scores.

    >>> import torch
    >>> normalize_scores(torch.tensor([[-3.0, 1.0, 5.0]]))
    tensor([[0.0000, 0.5000, 1.0000]])
    """
    # Not `aminmax`, which has no gradient in torch 2.9.
    low, high = scores.amin(dim=1, keepdim=True), scores.amax(dim=1, keepdim=True)
    return (scores - low) / (high - low + EPSILON)


def ignore_outside(
    raw_scores: Float[Tensor, "B N"],
    inside: Bool[Tensor, "B N"],
    normalize: Callable[[Tensor], Tensor] = normalize_scores,
) -> tuple[Float[Tensor, "B N"], Float[Tensor, "B N"]]:
    """Raw and normalized scores in which candidates that are not `inside` the picture play no part.

    >>> import torch
    >>> ignore_outside(torch.tensor([[1.0, 9.0, 3.0]]), torch.tensor([[True, False, True]]))[1]
    tensor([[   0.0000, -100.0000,    1.0000]])
    """
    lowest = raw_scores.masked_fill(~inside, torch.inf).amin(dim=1, keepdim=True)
    scores = normalize(torch.where(inside, raw_scores, lowest))
    return put_out_of_reach(raw_scores, inside), put_out_of_reach(scores, inside)


def put_out_of_reach(
    scores: Float[Tensor, "B N"], inside: Bool[Tensor, "B N"], *, margin: float = OUT_OF_REACH
) -> Float[Tensor, "B N"]:
    """The same scores, but those that are not `inside` lie `margin` below the lowest that are, and get no gradient.

    They stay finite: an infinite score has no gradient in most selectors, and check_scores takes it for divergence.

    >>> import torch
    >>> put_out_of_reach(torch.tensor([[1.0, 9.0, 3.0]]), torch.tensor([[True, False, True]]))
    tensor([[  1., -99.,   3.]])
    """
    if not torch.compiler.is_compiling() and not bool(inside.any(dim=1).all()):  # a graph has no values to look at
        raise ValueError(
            "an image is so much smaller than the others of its batch that no candidate is centered in it: leave it "
            "out, or give all images one size with preparation.resize"
        )
    lowest = scores.detach().masked_fill(~inside, torch.inf).amin(dim=1, keepdim=True)
    return torch.where(inside, scores, lowest - margin)


def inside_of(grid: Candidates | None) -> Bool[Tensor, "B N"] | None:
    """Which candidates of `grid` lie in the picture and not in its padding; None if all do, or if nobody says."""
    return None if grid is None else grid.inside


def linear_decay(sigma: float, *, step: int, total_steps: int) -> float:
    """σ at a training step: σ · (1 − step / T), σ at the first step, σ/T at the last, and 0 from T on.

    >>> [linear_decay(0.05, step=step, total_steps=4) for step in (0, 2, 3, 4, 9)]
    [0.05, 0.025, 0.0125, 0.0, 0.0]
    """
    if total_steps < 1 or step < 0:
        raise ValueError(f"step {step} of {total_steps}: step counts from 0 and total_steps must be at least 1")
    return sigma * max(0.0, 1.0 - step / total_steps)


def scale_gradient(scores: Float[Tensor, "B N"], factor: float) -> Float[Tensor, "B N"]:
    """The same scores; what comes back to them is multiplied by `factor`.

    >>> scores = torch.ones(1, 2, requires_grad=True)
    >>> torch.autograd.grad(scale_gradient(scores, 0.1).sum(), scores)
    (tensor([[0.1000, 0.1000]]),)
    """
    still = scores.detach()
    return still + (scores - still) * factor
