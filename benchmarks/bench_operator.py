"""Perturbed top-K, forward and backward, against the one-hot formulation of the paper's listing.

python benchmarks/bench_operator.py [--keep-memory]

Takes about two minutes. Times are the processor's on one thread. "-dense" asks for the paper's B K N indicators instead
of the weights of the support. Half of the listing's time or more goes into memory that the system has to clear;
--keep-memory measures all with freed memory kept for the next step, as `saccade train` keeps it.
"""

import sys
from typing import cast

import torch
from measure import comparison_rows, extra_peak_mb, extra_peak_mb_elsewhere, memory_case, print_table, processor_seconds
from rival_operators import OneHotTopK
from torch import Tensor

from saccade import normalize_scores, perturbed_topk
from saccade.cli.memory import keep_freed_memory
from saccade.selection.perturbed import GradientName

BATCH, CANDIDATES, K, DRAWS, SIGMA = 8, 2028, 10, 500, 0.05


def make_scores(kind: str, *, batch: int = BATCH, n: int = CANDIDATES) -> Tensor:
    """Uniform in [0, 1]; or peaked: K high ones, the rest below 0.3, as after some training."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(batch, n, generator=generator)
    if kind == "peaked":
        top = torch.rand(batch, n, generator=generator).topk(K, dim=1).indices
        scores = (0.3 * scores).scatter(1, top, 0.9 + 0.1 * torch.rand(batch, K, generator=generator))
    return normalize_scores(scores)


def step_of(method: str, kind: str, **size: int):
    """One forward and backward pass; the gradient that arrives is random."""
    scores = make_scores(kind, **size).requires_grad_()
    torch.manual_seed(0)
    if method == "one-hot":
        grad = torch.randn(len(scores), K, scores.shape[1])
        return lambda: OneHotTopK.apply(scores, K, SIGMA, DRAWS).backward(grad)
    gradient = cast(GradientName, method.removesuffix(DENSE))

    def step():
        selection = perturbed_topk(scores, K, sigma=SIGMA, num_samples=DRAWS, gradient=gradient)
        weight = selection.dense(scores.shape[1]) if method.endswith(DENSE) else selection.weight
        weight.backward(torch.randn_like(weight))

    return step


DENSE = "-dense"
METHODS = ["one-hot", "conditional", "conditional-dense", "score", "diagonal"]
SIZES = [1_000, 10_000, 100_000, 1_000_000]


def main() -> None:
    torch.set_num_threads(1)
    if "--keep-memory" in sys.argv:
        keep_freed_memory()
    for kind in ("uniform", "peaked"):
        seconds = processor_seconds({method: step_of(method, kind) for method in METHODS})
        memory = {method: extra_peak_mb_elsewhere(__file__, f"{method} {kind}") for method in METHODS}
        rows = comparison_rows(seconds, memory, unit=1000, time_digits=1, ratio_digits=0)
        title = f"Operator, {kind} scores, B={BATCH} N={CANDIDATES} K={K} n={DRAWS} σ={SIGMA}, forward + backward"
        print_table(title, ["gradient", "ms", "speed-up", "extra MB", "memory"], rows)

    rows = []
    for n in SIZES:
        row = [f"{n:,}"]
        for kind in ("uniform", "peaked"):
            seconds = processor_seconds({"": step_of("conditional", kind, batch=1, n=n)}, rounds=3)
            row += [f"{1000 * seconds['']:.0f}", f"{extra_peak_mb_elsewhere(__file__, f'conditional {kind} {n}'):.0f}"]
        rows.append(row)
    header = ["N", "uniform ms", "extra MB", "peaked ms", "extra MB"]
    print_table(f"Growth with N, conditional gradient, B=1 K={K} n={DRAWS}", header, rows)


if __name__ == "__main__":
    if case := memory_case():
        method, kind, *n = case.split()
        step_of(method, kind, batch=1, n=100)()  # whatever libraries allocate once
        print(extra_peak_mb(step_of(method, kind, **({"batch": 1, "n": int(n[0])} if n else {}))))
    else:
        main()
