"""scores → Selection by perturbed top-K, the paper's differentiable patch selection.

Y_σ = E_Z[ argmax_{Y ∈ C} ⟨Y, (s + σZ) 1ᵀ⟩ ], where C makes the argmax the indicator of the K largest entries with the
slots in index order. The expectation is a mean over `num_samples` draws; `gradients` says how it is differentiated.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.registry import register
from saccade.selection.candidates import Candidates
from saccade.selection.draws import Draws, draw_topk, find_support, near_the_top
from saccade.selection.estimators import GRADIENTS, Perturbation, mean_selection
from saccade.selection.hard import hard_topk
from saccade.selection.noise import NOISES, Noise, draw_seed
from saccade.selection.normalize import scale_gradient
from saccade.selection.refusals import check_draws, check_k, check_name, check_scores, check_slots
from saccade.selection.selection import Selection, zero_gradient
from saccade.selection.selector import Selector
from saccade.selection.support import uncompiled

# Weights (B·K·S) of one call: 128 MB of float32. It only binds where a hundred thousand candidates or more are all
# alike; then the lowest of those that no draw lifted get no gradient.
MAX_WEIGHTS = 2**25

# The share of the conditional gradient that candidates left out may have, of its scale or its sum over candidates.
LEFT_OUT = 1e-3
LEVELS = 8  # thresholds of an image that stand for those of all its draws

GradientName = Literal["conditional", "score", "diagonal"]
NoiseName = Literal["normal", "gumbel"]


@uncompiled
def perturbed_topk(
    scores: Float[Tensor, "B N"],
    k: int,
    *,
    sigma: float,
    num_samples: int = 500,
    gradient: GradientName = "conditional",
    noise: NoiseName = "normal",
    generator: torch.Generator | None = None,
) -> Selection:
    """The mean of `num_samples` index-sorted top-K selections of scores + σ · noise.

    sigma:     noise level in units of the scores; 0 gives `hard_topk` with zero gradient.
    gradient:  "score" is unbiased, "conditional" (default) but for what its pruning leaves out, less than 0.1%;
               "diagonal" is the paper's listing and is biased.
    noise:     "normal" or "gumbel".
    generator: where the randomness comes from; the same state gives the same answer (on CUDA up to the order in which
               sums of the gradient are taken).

    The conditional gradient leaves out the lowest candidates, as many as have a share of about `LEFT_OUT` together.
    Half-precision scores are perturbed in float32. Scores are used as they are: see `normalize_scores`. Differentiable
    once.

    >>> scores = torch.tensor([[0.0, 1.0, 0.5]], requires_grad=True)
    >>> selection = perturbed_topk(scores, 2, sigma=0.05)
    >>> selection.dense(3)
    tensor([[[0., 1., 0.],
             [0., 0., 1.]]], grad_fn=<ScatterAddBackward0>)
    """
    check_scores(scores)
    check_k(k, scores.shape[1])
    _check_options(sigma, num_samples, gradient, noise)
    with torch.autocast(scores.device.type, enabled=False):
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if sigma < torch.finfo(scores.dtype).tiny or k == scores.shape[1]:
            return zero_gradient(hard_topk(scores, k), scores)
        seed = draw_seed(generator)
        past = _perturb(scores.detach(), k, sigma, num_samples, gradient, NOISES[noise], seed)
        return mean_selection(scores, past, GRADIENTS[gradient])


def _perturb(
    scores: Tensor, k: int, sigma: float, num_samples: int, gradient: str, noise: Noise, seed: int
) -> Perturbation:
    kept = near_the_top(scores, k, sigma=sigma, noise=noise)  # B U
    kept_scores = scores.gather(1, kept)
    draws = draw_topk(kept_scores, k, sigma=sigma, num_samples=num_samples, noise=noise, seed=seed)
    drawn = torch.zeros_like(kept_scores, dtype=torch.bool).scatter(1, draws.best.flatten(1), True)
    count = drawn.sum(dim=1)
    if gradient == "conditional":
        count = count + _count_in_reach(draws, kept_scores.masked_fill(drawn, -torch.inf), sigma, noise)
    most = max(int(drawn.sum(dim=1).max()), MAX_WEIGHTS // (len(scores) * k))
    support, rank = find_support(drawn, kept_scores, min(int(count.max()), most))  # B S, among the kept; B U
    best = rank[:, None].expand(-1, num_samples, -1).gather(2, draws.best)
    return Perturbation(kept, kept_scores, support, draws._replace(best=best), sigma, noise, seed)


def _count_in_reach(draws: Draws, undrawn: Float[Tensor, "B U"], sigma: float, noise: Noise) -> Int[Tensor, " B"]:
    """How many of the `undrawn` scores the conditional gradient must know, the best ones first.

    No draw happened to lift them, but each could have crossed the threshold. One of them seldom matters; a crowd does,
    however low it stands. So the lowest are left out as long as their densities of crossing add up to next to nothing.
    They are in the support with zero weight.
    """
    num_samples = draws.kth_value.shape[1]
    places = (torch.arange(LEVELS, device=undrawn.device) + 0.5) * num_samples / LEVELS
    crossing = torch.zeros_like(undrawn)
    for level in draws.kth_value.sort(dim=1).values[:, places.long()].unbind(1):
        crossing += noise.density(((level[:, None] - undrawn) / sigma).clamp(min=0.0))  # falls from its peak at 0
    crossing /= LEVELS * noise.density(undrawn.new_zeros(()))
    lowest_first = crossing.sort(dim=1).values.cumsum(dim=1)  # B U
    return (lowest_first > LEFT_OUT * (1 + lowest_first[:, -1:])).sum(dim=1)


def _check_options(sigma: float, num_samples: int, gradient: str, noise: str) -> None:
    check_draws(sigma, num_samples, gradient, GRADIENTS)
    check_name("noise", noise, NOISES)


@register("selection", "perturbed")
class PerturbedTopK(nn.Module, Selector):
    """The paper's: `perturbed_topk` in training; in evaluation `hard_topk` if `discrete`, else the same soft selection.

    sigma:            may be changed between steps: see `linear_decay`.
    gradient_per_sigma: the scores get the gradient with respect to scores / σ, that is σ times the true one, which
                      grows with 1/σ and would drown every other gradient of the scorer.
    """

    k: int
    sigma: float

    def __init__(
        self,
        k: int,
        *,
        sigma: float = 0.05,
        num_samples: int = 500,
        gradient: GradientName = "conditional",
        noise: NoiseName = "normal",
        gradient_per_sigma: bool = False,
        discrete: bool = True,
    ):
        super().__init__()
        check_slots(k)
        _check_options(sigma, num_samples, gradient, noise)
        self.k = k
        self.sigma = sigma
        self.num_samples = num_samples
        self.gradient: GradientName = gradient
        self.noise: NoiseName = noise
        self.gradient_per_sigma = gradient_per_sigma
        self.discrete = discrete

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Select softly in training mode, and in evaluation mode as `discrete` says."""
        if self.discrete and not self.training:
            return hard_topk(scores, self.k)
        return perturbed_topk(
            scale_gradient(scores, self.sigma) if self.gradient_per_sigma else scores,
            self.k,
            sigma=self.sigma,
            num_samples=self.num_samples,
            gradient=self.gradient,
            noise=self.noise,
        )
