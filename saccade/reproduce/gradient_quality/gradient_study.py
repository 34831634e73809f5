"""How good the gradients of the selectors are: cosine with the truth and variance, against draws n and noise level σ.

The truth is the exact gradient of E[ ⟨G, Y⟩ ], Y the top-K of s + σZ (see `exact_gradient`), for random scores s and a
random G that looks like what a network sends. Sinkhorn and straight-through do not estimate it: they follow other
objectives. Their cosine says how far they agree with it, for each σ with their option set to where they agree best;
that of Sinkhorn, whose slots are in score order, is with the gradient for slots in score order.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from saccade.reproduce.gradient_quality.exact_gradient import Order, exact_gradient
from saccade.selection.perturbed import GradientName, perturbed_topk
from saccade.selection.selection import Selection
from saccade.selection.sinkhorn import sinkhorn_topk
from saccade.selection.straight_through import straight_through_topk

# In two classifiers trained on generated street signs, the mean of a slot's G over the candidates was 1.7 to 3.6 times
# its spread, and slots correlated by 0.3 to 0.6. Right gradients ignore that mean; the diagonal one does not.
SLOT_MEAN, SLOT_CORRELATION = 2.0, 0.5


class Study(NamedTuple):
    """What is measured: all `draws` at σ = `at_sigma`, and all `sigmas` at n = `at_draws`.

    Every case is measured on `problems` random pairs of scores and G, with `repeats` independent estimates each.
    """

    candidates: int = 2028
    k: int = 10
    draws: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000)
    sigmas: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    at_draws: int = 500
    at_sigma: float = 0.05
    problems: int = 8
    repeats: int = 4


PAPER_SIZE = Study()


class Case(NamedTuple):
    """One point of a chart: the kind of scores, the noise level, the number of draws (0: gradients without draws)."""

    scores: str
    sigma: float
    draws: int


class Quality(NamedTuple):
    """One gradient in one case.

    cosine:   with the exact gradient, mean over all estimates; low and high are their 10% and 90% quantiles.
    variance: E‖ĝ − E ĝ‖² / ‖g‖², median over the problems; 0 without draws.
    option:   what a gradient with something to tune was tuned to.
    """

    scores: str
    sigma: float
    draws: int
    gradient: str
    cosine: float
    cosine_low: float
    cosine_high: float
    variance: float
    option: str = ""


class Problems(NamedTuple):
    """Scores in [0, 1], and the gradient that arrives for the indicators."""

    scores: Float[Tensor, "P N"]
    grad: Float[Tensor, "P K N"]


class Tuned(NamedTuple):
    """A selector without draws: the name and values of its option, how it selects with that, the order of its slots."""

    option: str
    settings: tuple[float, ...]
    select: Callable[[Tensor, int, float], Selection]
    order: Order


NOISY: tuple[GradientName, ...] = ("conditional", "score", "diagonal")
TUNED = {
    "Sinkhorn": Tuned(
        "ε",
        (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
        lambda scores, k, value: sinkhorn_topk(scores, k, epsilon=value),
        "score",
    ),
    "straight-through": Tuned(
        "τ",
        (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
        lambda scores, k, value: straight_through_topk(scores, k, temperature=value),
        "index",
    ),
}


def _uniform(study: Study, generator: torch.Generator) -> Tensor:
    return torch.rand(study.problems, study.candidates, generator=generator)


def _peaked(study: Study, generator: torch.Generator) -> Tensor:
    """2K candidates compete between 0.7 and 1, the others lie below 0.3: as after some training."""
    low = 0.3 * _uniform(study, generator)
    high = _uniform(study, generator).topk(2 * study.k, dim=1).indices
    return low.scatter_add(1, high, torch.full_like(low, 0.7))


SCORES: dict[str, Callable[[Study, torch.Generator], Tensor]] = {"uniform": _uniform, "peaked": _peaked}


def gradient_quality(
    study: Study = PAPER_SIZE,
    *,
    seed: int = 0,
    track: Callable[[Sequence[Case]], Iterable[Case]] = iter,
) -> list[Quality]:
    """Every gradient in every case of the study; `track` may show how far the cases are."""
    generator = torch.Generator().manual_seed(seed)
    problems = {scores: _make_problems(make, study, generator) for scores, make in SCORES.items()}

    @cache
    def truth(scores: str, sigma: float, order: Order) -> Tensor:
        pairs = zip(*problems[scores], strict=True)
        return torch.stack([exact_gradient(*pair, sigma=sigma, order=order) for pair in pairs])

    @cache
    def without_draws(scores: str, name: str, setting: float) -> Tensor:
        return _gradients(lambda s, k: TUNED[name].select(s, k, setting), problems[scores])[:, None]

    def best(case: Case, name: str) -> Quality:
        option, settings, _, order = TUNED[name]
        exact = truth(case.scores, case.sigma, order)
        rows = [
            _compare(case, name, without_draws(case.scores, name, setting), exact, f"{option} = {setting:g}")
            for setting in settings
        ]
        return max(rows, key=lambda row: row.cosine)

    table: list[Quality] = []
    for case in track(_cases(study)):
        if case.draws:
            copies = Problems(*(part.repeat_interleave(study.repeats, dim=0) for part in problems[case.scores]))
            table += _with_draws(case, copies, truth(case.scores, case.sigma, "index"), generator)
        else:
            table += [best(case, name) for name in TUNED]
    return table


def _make_problems(
    make: Callable[[Study, torch.Generator], Tensor], study: Study, generator: torch.Generator
) -> Problems:
    p, k, n = study.problems, study.k, study.candidates
    mean, shared, own = (torch.randn(size, generator=generator) for size in ((p, k, 1), (p, 1, n), (p, k, n)))
    grad = SLOT_MEAN * mean + SLOT_CORRELATION**0.5 * shared + (1 - SLOT_CORRELATION) ** 0.5 * own
    return Problems(make(study, generator), grad)


def _cases(study: Study) -> list[Case]:
    """Draws at one σ, then each σ at one number of draws and at none, for every kind of scores."""
    points = [(study.at_sigma, n) for n in (0, *study.draws)]
    points += [(sigma, n) for sigma in study.sigmas for n in (0, study.at_draws)]
    return [Case(scores, *point) for scores in SCORES for point in dict.fromkeys(points)]


def _with_draws(case: Case, copies: Problems, exact: Tensor, generator: torch.Generator) -> Iterator[Quality]:
    for name in NOISY:

        def select(scores: Tensor, k: int, name: GradientName = name) -> Selection:
            options = {"sigma": case.sigma, "num_samples": case.draws, "generator": generator}
            return perturbed_topk(scores, k, gradient=name, **options)

        estimates = _gradients(select, copies)
        yield _compare(case, name, rearrange(estimates, "(p r) n -> p r n", p=len(exact)), exact)


def _gradients(select: Callable[[Tensor, int], Selection], problems: Problems) -> Float[Tensor, "P N"]:
    """∂⟨G, Y⟩/∂s through a selector."""
    scores = problems.scores.clone().requires_grad_()
    selection = select(scores, problems.grad.shape[1])
    arriving = problems.grad.gather(2, selection.index[:, None].expand_as(selection.weight))
    return torch.autograd.grad(selection.weight, scores, arriving)[0]


def _compare(
    case: Case, name: str, estimates: Float[Tensor, "P R N"], exact: Float[Tensor, "P N"], option: str = ""
) -> Quality:
    estimates = estimates.double()
    # Not F.cosine_similarity, which takes gradients below 1e-8 for zero.
    lengths = estimates.norm(dim=-1) * exact.norm(dim=-1, keepdim=True)
    cosine = einsum(estimates, exact, "p r n, p n -> p r") / lengths.clamp(min=torch.finfo(lengths.dtype).tiny)
    low, high = cosine.quantile(torch.tensor([0.1, 0.9], dtype=cosine.dtype)).tolist()
    spread = estimates.var(dim=1, correction=min(1, estimates.shape[1] - 1)).sum(dim=-1) / exact.square().sum(dim=-1)
    return Quality(*case, name, float(cosine.mean()), low, high, float(spread.median()), option)


def write_csv(table: Sequence[Quality], path: Path) -> Path:
    """The table as a file, one line per gradient and case."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Quality._fields)
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in table)
    return path
