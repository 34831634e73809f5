"""How good the gradients are at the paper's size: variance against one another, and what the support leaves out.

python benchmarks/bench_gradients.py
"""

from typing import cast

import torch
from measure import print_table
from torch import Tensor

from saccade import perturbed_topk
from saccade.selection import perturbed
from saccade.selection.noise import NOISES
from saccade.selection.perturbed import GradientName

N, K, SIGMA, DRAWS, REPEATS = 2028, 10, 0.05, 500, 16
NORMAL = NOISES["normal"]
EVERYTHING = NORMAL._replace(pair_reach=1e9, single_reach=1e9)  # no pruning
SHIPPED = perturbed.LEFT_OUT


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_scores() -> dict[str, Tensor]:
    uniform = torch.rand(N, generator=seeded(0))
    peaked = 0.3 * uniform
    peaked[::100] += 0.7
    above_a_crowd = torch.zeros(N)
    above_a_crowd[::203] = 5.5 * SIGMA  # K of them
    return {"uniform": uniform, "all alike": torch.full((N,), 0.5), "peaked": peaked, "above a crowd": above_a_crowd}


def estimates(scores: Tensor, grad: Tensor, method: str, *, draws: int = DRAWS) -> Tensor:
    """Independent estimates of the gradient: REPEATS N."""
    copies = scores.expand(REPEATS, -1).clone().requires_grad_()
    options = {"sigma": SIGMA, "num_samples": draws, "generator": seeded(1)}
    selection = perturbed_topk(copies, K, gradient=cast(GradientName, method), **options)
    (selection.dense(N) * grad).sum().backward()
    assert copies.grad is not None
    return copies.grad


def left_out(scores: Tensor, truth: Tensor, allowed: float) -> float:
    """The sum of the gradient's sizes that fall outside the support, over the sum of all of them."""
    perturbed.LEFT_OUT = allowed
    kept = torch.zeros(N)
    for seed in range(8):
        index = perturbed_topk(scores[None], K, sigma=SIGMA, num_samples=DRAWS, generator=seeded(seed)).index
        kept[index[0]] += 1 / 8
    perturbed.LEFT_OUT = SHIPPED
    return float((truth * (1 - kept)).abs().sum() / truth.abs().sum())


def main() -> None:
    grad = torch.randn(K, N, generator=seeded(2))
    variance_rows, support_rows = [], []
    for name, scores in make_scores().items():
        conditional = estimates(scores, grad, "conditional")
        pruned = estimates(scores, grad, "score").var(dim=0).sum()
        NOISES["normal"], perturbed.LEFT_OUT = EVERYTHING, 0.0
        full = estimates(scores, grad, "score").var(dim=0).sum()
        truth = estimates(scores, grad, "conditional", draws=3000).mean(dim=0)
        NOISES["normal"], perturbed.LEFT_OUT = NORMAL, SHIPPED
        cosine = torch.nn.functional.cosine_similarity(conditional, truth[None]).mean()
        own = conditional.var(dim=0).sum()
        variance_rows.append([name, f"{full / own:,.0f}×", f"{pruned / own:,.0f}×", f"{cosine:.3f}"])
        shares = [left_out(scores, truth, reach) for reach in (1.0, 10 * SHIPPED, SHIPPED)]
        support_rows.append([name, *(f"{100 * share:.2f}%" for share in shares)])
    size = f"N={N} K={K} n={DRAWS} σ={SIGMA}, independent normal G"
    header = [
        "scores",
        "the paper's equation, all candidates",
        "`score`, pruned",
        "cosine of `conditional` with the truth",
    ]
    print_table(f"Variance over that of the conditional gradient, {size}", header, variance_rows)
    header = ["scores", "drawn candidates only", "1/100 left out", "1/1000 left out (shipped)"]
    print_table(f"Share of the conditional gradient outside the support, {size}", header, support_rows)


if __name__ == "__main__":
    main()
