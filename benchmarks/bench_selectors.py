"""Every selector, and peers that can be installed, forward and backward at the paper's size, in one run.

python benchmarks/bench_selectors.py

Peers are measured if they can be imported: pip install entmax difftopk, and, with a C++ compiler,
pip install --no-build-isolation torchsort.
"""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

import torch
from bench_operator import BATCH, CANDIDATES, DRAWS, SIGMA, K, make_scores
from measure import extra_peak_mb, extra_peak_mb_elsewhere, median_seconds, memory_case, print_table
from rival_operators import OneHotTopK
from torch import Tensor

from saccade.extraction import make_grid
from saccade.scorer import ConvScorer
from saccade.selection import (
    Selection,
    attention_sampling,
    gumbel_topk,
    hard_topk,
    perturbed_topk,
    sinkhorn_topk,
    softsort_topk,
    straight_through_topk,
)
from saccade.selection.diverse import diverse_topk

IMAGE, VIEW, PATCH = (960, 1280), (320, 426), (100, 100)
SOFT, HARD = "slots × support, soft", "slots × candidates, hard"


class Operator(NamedTuple):
    """What it gives, how its gradient is, and scores → the tensor through which that gradient flows."""

    returns: str
    gradient: str
    forward: Callable[[Tensor], Tensor]
    package: str = "saccade"


class Cost(NamedTuple):
    uniform_ms: float
    peaked_ms: float
    extra_mb: float


def weights(select: Callable[..., Selection], **options) -> Callable[[Tensor], Tensor]:
    return lambda scores: select(scores, K, **options).weight


def perturbed(gradient: str) -> Callable[[Tensor], Tensor]:
    return weights(perturbed_topk, sigma=SIGMA, num_samples=DRAWS, gradient=gradient)


def diverse(gradient: str) -> Callable[[Tensor], Tensor]:
    field = ConvScorer(tiles=False).field
    grid = make_grid("stretched", image_size=IMAGE, view_size=VIEW, patch=PATCH, field=field)
    boxes = grid.boxes(torch.arange(CANDIDATES)[None])[0]

    def forward(scores: Tensor) -> Tensor:
        options = {"sigma": SIGMA, "num_samples": DRAWS, "gradient": gradient}
        return diverse_topk(scores, K, boxes[: scores.shape[1]], **options).weight

    return forward


def listing(scores: Tensor) -> Tensor:
    return OneHotTopK.apply(scores, K, SIGMA, DRAWS)


def hard(scores: Tensor) -> Tensor:
    return hard_topk(scores, K).weight + 0 * scores.sum()  # so that there is something to go back through


def peer(package: str, name: str, **options) -> Callable[[Tensor], Tensor]:
    return lambda scores: getattr(import_module(package), name)(scores, **options)


def sorting_rows(name: str, *, tau: float) -> Callable[[Tensor], Tensor]:
    return lambda scores: getattr(import_module("difftopk"), name)(tau=tau)(scores)[:, :K]


OPERATORS = {
    "the paper's listing": Operator("slots × all, soft", "biased", listing),
    "perturbed, `conditional`": Operator(SOFT, "unbiased to 0.1%", perturbed("conditional")),
    "perturbed, `score`": Operator(SOFT, "unbiased", perturbed("score")),
    "perturbed, `diagonal`": Operator(SOFT, "biased", perturbed("diagonal")),
    "diverse, `conditional`": Operator(SOFT, "unbiased", diverse("conditional")),
    "diverse, `score`": Operator(SOFT, "unbiased", diverse("score")),
    "Sinkhorn, ε = 1e-4": Operator(SOFT, "exact, of its relaxation", weights(sinkhorn_topk, epsilon=1e-4)),
    "Sinkhorn, ε = 0.05": Operator(SOFT, "exact, of its relaxation", weights(sinkhorn_topk, epsilon=0.05)),
    "Gumbel, one draw": Operator(SOFT, "unbiased, of its relaxation", weights(gumbel_topk, sigma=SIGMA)),
    "straight-through": Operator(HARD, "biased", weights(straight_through_topk)),
    "SoftSort": Operator(SOFT, "exact, of its relaxation", weights(softsort_topk)),
    "attention sampling": Operator(
        "slots × candidates, hard; shares", "unbiased", lambda scores: shares(attention_sampling(scores, K))
    ),
    "hard": Operator(HARD, "none", hard),
    "entmax `budget_bisect`": Operator(
        "candidates, soft; no slots", "exact, of its relaxation", peer("entmax", "budget_bisect", budget=K), "entmax"
    ),
    "torchsort `soft_rank`": Operator(
        "ranks; no slots",
        "exact, of its relaxation",
        peer("torchsort", "soft_rank", regularization_strength=SIGMA),
        "torchsort",
    ),
    "difftopk `SoftSort`": Operator(
        "all × all, soft", "exact, of its relaxation", sorting_rows("SoftSort", tau=0.01), "difftopk"
    ),
    "difftopk `NeuralSort`": Operator(
        "all × all, soft", "exact, of its relaxation", sorting_rows("NeuralSort", tau=1.0), "difftopk"
    ),
}


def shares(selection: Selection) -> Tensor:
    assert selection.share is not None
    return selection.share


def step_of(name: str, kind: str, **size: int) -> Callable[[], object]:
    """One forward and backward pass; the gradient that arrives is random."""
    scores = make_scores(kind, **size).requires_grad_()
    torch.manual_seed(0)

    def step() -> None:
        out = OPERATORS[name].forward(scores)
        out.backward(torch.randn_like(out))

    return step


def installed(package: str) -> bool:
    try:
        import_module(package)
    except ImportError:
        return False
    return True


SLOW = ("the paper's listing", "difftopk `SoftSort`", "difftopk `NeuralSort`")  # seconds each: fewer repeats


def measure(name: str) -> Cost:
    repeats = 3 if name in SLOW else 9
    uniform, peaked = (1000 * median_seconds(step_of(name, kind), repeats=repeats) for kind in ("uniform", "peaked"))
    return Cost(uniform, peaked, extra_peak_mb_elsewhere(__file__, name))


def describe(cost: Cost | None, base: float) -> list[str]:
    if cost is None:
        return ["not installed", "", "", ""]
    speed_up = base / cost.uniform_ms
    return [
        f"{cost.uniform_ms:.1f}",
        f"{cost.peaked_ms:.1f}",
        f"{speed_up:,.0f}×" if speed_up > 2 else f"{speed_up:.1f}×",
        f"{cost.extra_mb:.0f}",
    ]


def main() -> None:
    costs = {}
    for name, operator in OPERATORS.items():
        costs[name] = measure(name) if installed(operator.package) else None
        print(name, costs[name] or "not installed", flush=True)
    base = costs["the paper's listing"].uniform_ms
    rows = [[name, *operator[:2], *describe(costs[name], base)] for name, operator in OPERATORS.items()]
    title = f"Selectors, B={BATCH} N={CANDIDATES} K={K}, perturbed and diverse n={DRAWS} σ={SIGMA}, forward + backward"
    header = ["operator", "returns", "gradient", "uniform ms", "peaked ms", "speed-up", "extra MB"]
    print_table(title, header, rows)


if __name__ == "__main__":
    if case := memory_case():
        step_of(case, "uniform", batch=1, n=100)()  # whatever libraries allocate once
        print(extra_peak_mb(step_of(case, "uniform")))
    else:
        main()
