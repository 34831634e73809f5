"""scores → Selection by relaxed subset sampling (Xie & Ermon 2019): Gumbel noise, then K successive softmaxes.

The K highest of the keys α¹ = s/σ + Gumbel noise are K candidates drawn without replacement from softmax(s/σ). That
choice is relaxed slot by slot,

    a^j = softmax(α^j / τ),   α^(j+1) = α^j + log(1 − a^j),

where the logarithm takes away what slot j has used up. As τ → 0, slot j is the one-hot of the j-th highest key. The
gradient is exact for the drawn noise and the relaxation, hence an unbiased estimate for the mean relaxed selection; for
the mean hard selection it is biased.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.registry import register
from saccade.selection.candidates import Candidates
from saccade.selection.hard import hard_topk
from saccade.selection.noise import NOISES, draw_seed
from saccade.selection.refusals import check_k, check_scores, check_sigma, check_slots
from saccade.selection.selection import Selection, zero_gradient
from saccade.selection.selector import Selector
from saccade.selection.support import check_temperature, reach, uncompiled, within


@uncompiled
def gumbel_topk(
    scores: Float[Tensor, "B N"],
    k: int,
    *,
    sigma: float = 0.05,
    temperature: float = 0.5,
    generator: torch.Generator | None = None,
) -> Selection:
    """One relaxed draw of K candidates, slots from the highest key to the lowest.

    sigma:       noise level in units of the scores; 0 gives `hard_topk` with zero gradient.
    temperature: τ, relative to the noise. From 1 on, a candidate far above the rest fills more than one slot.
    generator:   where the randomness comes from; the same state gives the same answer.

    A candidate whose key lies d below the K-th highest weighs at most (K · exp(−d))^(1/τ) in a slot: among the K best
    there is always one that is used up to (K − 1)/K at most. Those that add up to less than 1e-9 are left out.
    Scores are used as they are: see `normalize_scores`.

    >>> gumbel_topk(torch.tensor([[0.0, 1.0, 0.5]]), 2, sigma=0.01).dense(3).round(decimals=4)
    tensor([[[0., 1., 0.],
             [0., 0., 1.]]])
    """
    check_scores(scores)
    n = scores.shape[1]
    check_k(k, n)
    _check_options(sigma, temperature)
    with torch.autocast(scores.device.type, enabled=False):
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if sigma < torch.finfo(scores.dtype).tiny:
            return zero_gradient(hard_topk(scores, k), scores)
        own_generator = torch.Generator(scores.device).manual_seed(draw_seed(generator))
        keys = scores / sigma + NOISES["gumbel"].sample(torch.empty_like(scores), own_generator)
        below = math.log(k) + temperature * reach(k, n)
        index = within(keys, k, below=below)  # B S
        return Selection(index, successive_softmax(keys.gather(1, index), k, temperature=temperature))


def successive_softmax(keys: Float[Tensor, "B S"], k: int, *, temperature: float) -> Float[Tensor, "B K S"]:
    """K softmaxes, each over what the ones before have left.

    >>> successive_softmax(torch.tensor([[0.0, 0.0]]), 2, temperature=1.0)
    tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]])
    """
    slots = [(keys / temperature).softmax(dim=1)]
    for _ in range(k - 1):
        keys = keys + _log_rest(keys / temperature)
        slots.append((keys / temperature).softmax(dim=1))
    return torch.stack(slots, dim=1)


def _log_rest(logits: Tensor) -> Tensor:
    """log(1 − softmax(logits)), exact where the softmax rounds to one.

    The usual log(1 − a + 1e-7) takes 16 from a key at most; a candidate that leads by more would be drawn again.
    """
    top = torch.zeros_like(logits, dtype=torch.bool).scatter(1, logits.argmax(dim=1, keepdim=True), True)
    others = logits.masked_fill(top, -torch.inf).logsumexp(dim=1, keepdim=True)
    # All but the top are at most ½. The mask keeps the infinite slope at 1 out of the gradient.
    share = logits.softmax(dim=1).masked_fill(top, 0.0)
    return torch.where(top, others - logits.logsumexp(dim=1, keepdim=True), torch.log1p(-share))


def _check_options(sigma: float, temperature: float) -> None:
    check_sigma(sigma)
    check_temperature(temperature)


@register("selection", "gumbel")
class GumbelTopK(nn.Module, Selector):
    """Softmax after softmax of scores with Gumbel noise: `gumbel_topk` in training, `hard_topk` in evaluation.

    `sigma` may be changed between steps: see `linear_decay`.
    """

    k: int
    sigma: float
    score_order = True

    def __init__(self, k: int, *, sigma: float = 0.05, temperature: float = 0.5):
        super().__init__()
        check_slots(k)
        _check_options(sigma, temperature)
        self.k = k
        self.sigma = sigma
        self.temperature = temperature

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Select softly in training mode, hard in evaluation mode."""
        if not self.training:
            return hard_topk(scores, self.k)
        return gumbel_topk(scores, self.k, sigma=self.sigma, temperature=self.temperature)
