"""The noise that perturbs the scores: how to draw it, and what its gradient estimators need.

For noise with density p, s ↦ E[f(s + σZ)] has two unbiased derivatives: the score form E[f · ν′(Z)] / σ with
ν = −log p, and the conditional form E[p((τ − s)/σ) · Δf] / σ (see `gradients`). Each row of `NOISES` states p and ν′.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Noise(NamedTuple):
    """A distribution for perturbations.

    sample:       fills a tensor with draws, in place, and returns it.
    density:      p(z), which is highest at 0.
    score:        ν′(z) = −d log p / dz.
    median:       P(Z > median) = ½.
    single_reach: P(Z > single_reach) ≈ 1e-9.
    pair_reach:   P(Z − Z′ > pair_reach) ≈ 1e-9: how far below another a candidate can stand and still overtake it.
    """

    sample: Callable[[Tensor, torch.Generator], Tensor]
    density: Callable[[Float[Tensor, "*shape"]], Float[Tensor, "*shape"]]
    score: Callable[[Float[Tensor, "*shape"]], Float[Tensor, "*shape"]]
    median: float
    single_reach: float
    pair_reach: float


def draw_seed(generator: torch.Generator | None) -> int:
    """A seed by chance, so that noise can be drawn on any device, and drawn again instead of being kept."""
    return int(torch.randint(2**62, (), generator=generator, device=generator.device if generator else "cpu"))


def _sample_gumbel(out: Tensor, generator: torch.Generator) -> Tensor:
    uniform = out.uniform_(generator=generator).clamp_(min=torch.finfo(out.dtype).tiny)
    return uniform.log_().neg_().log_().neg_()


def _gumbel_density(z: Tensor) -> Tensor:
    z = z.clamp(min=-80.0)  # the density is 0 there; without the clamp z = −∞ gives ∞ − ∞
    return torch.exp(-z - torch.exp(-z))


NOISES: dict[str, Noise] = {
    # Z − Z′ is normal with standard deviation √2, and 1 − Φ(6) = 1e-9.
    "normal": Noise(
        sample=lambda out, generator: out.normal_(generator=generator),
        density=lambda z: torch.exp(-0.5 * z * z) * (2 * torch.pi) ** -0.5,
        score=lambda z: z,
        median=0.0,
        single_reach=6.0,
        pair_reach=6 * 2**0.5,
    ),
    # Z − Z′ is logistic, whose tail is e^(−x): −log(1e-9) = 20.8. p(z) = e^(−z − e^(−z)), at most 1/e.
    "gumbel": Noise(
        sample=_sample_gumbel,
        density=_gumbel_density,
        score=lambda z: 1 - torch.exp(-z),
        median=0.3665,
        single_reach=20.8,
        pair_reach=20.8,
    ),
}
