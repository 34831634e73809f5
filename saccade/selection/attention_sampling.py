"""scores → Selection by attention sampling (ATS): K candidates drawn from an attention, and an unbiased mean over them.

The answer depends on F = Σ_i a_i f_i, the expectation of the features f under the attention a = softmax(scores), mixed
with 1e-4 of the uniform distribution so that no a_i is zero. Only K candidates are looked at. Let a_k and f_k be those
of the k-th drawn, k = 0 … K−1, and let no gradient pass stop(·):

with replacement     F̂ = 1/K Σ_k a_k / stop(a_k) f_k: value 1/K Σ f_k, gradient 1/K Σ f_k da_k / a_k.
without replacement  Given those before it, k is drawn with probability a_k / p_k, where p_k = 1 − Σ_{j<k} a_j is left.
                     So F̂_k = Σ_{j<k} a_j f_j + p_k f_k has the mean Σ a_i f_i, whatever was drawn before, and
                     Σ_{j<k} f_j da_j + (p_k / a_k) f_k da_k has the mean Σ f_i da_i. Both averaged over k:

                         share_k = 1/K [(K−1−k) a_k + stop(p_k / a_k) a_k],    F̂ = Σ_k share_k f_k.

`share` is all that the mean over slots needs. Its values sum to one, F̂ is unbiased, and so are the gradients to the
features (share_k ∂F̂) and to the scores.

The code released with ATS has another gradient to the attention, 1/K [F̂_k p_k / a_k + Σ_{j<k} (f_j − f_k)] da_k. It is
the same for K = 1 and BIASED for K ≥ 2: the likelihood ratio asks for F̂_k / a_k there, and for F̂_k / p_k + f_j − f_k at
each earlier a_j. Summed over all ordered draws of five candidates (the tests do it) it is off by 30% of the true
gradient's length for K = 2 and by 60% for K = 3. Where the best features have the highest scores already, it is off by
267% and 344% and points backwards (cosine −0.94 and −0.99): it flattens the attention.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.registry import register
from saccade.selection.candidates import Candidates
from saccade.selection.normalize import inside_of
from saccade.selection.refusals import check_k, check_scores, check_slots
from saccade.selection.selection import Selection, identity_selection
from saccade.selection.selector import Selector

# As in the released code: rarely drawn candidates would otherwise divide by next to nothing.
SMOOTHING = 1e-4


def attention_sampling(
    scores: Float[Tensor, "B N"],
    k: int,
    *,
    replacement: bool = False,
    smoothing: float = SMOOTHING,
    inside: Bool[Tensor, "B N"] | None = None,
    generator: torch.Generator | None = None,
) -> Selection:
    """K candidates drawn from softmax(scores), in index order, with their `share` in the expectation.

    inside: candidates that may be drawn; the others are drawn only where there are fewer than K of these.

    With replacement a candidate may be drawn, and then read, more than once: its index is repeated.

    >>> selection = attention_sampling(torch.tensor([[0.0, 20.0, 0.0]]), 2)
    >>> 1 in selection.index, selection.share.sum().round(decimals=4)
    (True, tensor(1.))
    """
    attention = smooth_attention(scores, smoothing=smoothing, inside=inside)
    check_k(k, scores.shape[1])
    drawn = _draw(attention.detach(), k, replacement=replacement, generator=generator)
    share = _independent_share(attention, drawn) if replacement else _ordered_share(attention, drawn)
    return _in_index_order(drawn, share)


def attention_topk(
    scores: Float[Tensor, "B N"], k: int, *, smoothing: float = SMOOTHING, inside: Bool[Tensor, "B N"] | None = None
) -> Selection:
    """The K candidates of highest attention as if they had been drawn in that order: the same answer every time.

    No estimate of the expectation is unbiased without chance; this one leaves out the least.

    >>> attention_topk(torch.tensor([[1.0, 6.0, 3.0]]).log(), 2, smoothing=0.0).share  # a = 0.1, 0.6, 0.3
    tensor([[0.8000, 0.2000]])
    """
    attention = smooth_attention(scores, smoothing=smoothing, inside=inside)
    check_k(k, scores.shape[1])
    best = attention.detach().sort(dim=1, descending=True, stable=True).indices[:, :k]
    return _in_index_order(best, _ordered_share(attention, best))


def smooth_attention(
    scores: Float[Tensor, "B N"], *, smoothing: float = SMOOTHING, inside: Bool[Tensor, "B N"] | None = None
) -> Float[Tensor, "B N"]:
    """(1 − ε) softmax(scores) + ε / N, both over the candidates `inside` where not all of them count.

    >>> smooth_attention(torch.tensor([[0.0, 99.0]]), smoothing=0.1)
    tensor([[0.0500, 0.9500]])
    """
    check_scores(scores)
    _check_smoothing(smoothing)
    whole = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if inside is None:
        return (1 - smoothing) * whole.softmax(dim=1) + smoothing / scores.shape[1]
    attention = whole.masked_fill(~inside, -torch.inf).softmax(dim=1)
    return (1 - smoothing) * attention + smoothing * inside / inside.sum(dim=1, keepdim=True)


def _draw(
    attention: Float[Tensor, "B N"], k: int, *, replacement: bool, generator: torch.Generator | None
) -> Int[Tensor, "B K"]:
    """K candidates in the order in which they were drawn."""
    weights = attention if generator is None else attention.to(generator.device)
    if replacement:
        return weights.multinomial(k, replacement=True, generator=generator).to(attention.device)
    # The Gumbel top-K of log a, without logarithms: −log of an exponential variable is a Gumbel one.
    race = weights / torch.empty_like(weights).exponential_(generator=generator)
    return race.topk(k, dim=1).indices.to(attention.device)


def _independent_share(attention: Float[Tensor, "B N"], drawn: Int[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    each = attention.gather(1, drawn)
    return _with_slope(torch.full_like(each, 1 / drawn.shape[1]), 1 / (drawn.shape[1] * each), each)


def _ordered_share(attention: Float[Tensor, "B N"], drawn: Int[Tensor, "B K"]) -> Float[Tensor, "B K"]:
    k = drawn.shape[1]
    each = attention.gather(1, drawn)
    # p_k as the sum of what comes later: one minus the sum of what came before would leave rounding errors only.
    never = attention.scatter(1, drawn, 0.0).sum(dim=1, keepdim=True)
    left = never + each.flip(1).cumsum(dim=1).flip(1)
    later = torch.arange(k - 1, -1, -1, device=drawn.device)
    tiny = torch.finfo(each.dtype).tiny
    return _with_slope((later * each + left) / k, (later + left / each.clamp(min=tiny)) / k, each)


def _with_slope(value: Tensor, slope: Tensor, at: Tensor) -> Tensor:
    """`value` with the gradient `slope` · d`at`."""
    return value.detach() + slope.detach() * (at - at.detach())


def _in_index_order(drawn: Int[Tensor, "B K"], share: Float[Tensor, "B K"]) -> Selection:
    index, order = drawn.sort(dim=1)
    return identity_selection(index, share.dtype)._replace(share=share.gather(1, order))


def _check_smoothing(smoothing: float) -> None:
    if not 0 <= smoothing <= 1:
        raise ValueError(
            f"smoothing is {smoothing}, expected a share from 0 to 1 of the uniform distribution: the default is 1e-4"
        )


@register("selection", "ats")
class AttentionSampling(nn.Module, Selector):
    """Attention sampling (ATS): drawn from a softmax in training; its K largest in evaluation, where ATS draws too.

    replacement: draw independently instead of without replacement.
    smoothing:   how much of the attention is uniform.
    """

    k: int
    samples_mean = True

    def __init__(self, k: int, *, replacement: bool = False, smoothing: float = SMOOTHING):
        super().__init__()
        check_slots(k)
        _check_smoothing(smoothing)
        self.k = k
        self.replacement = replacement
        self.smoothing = smoothing

    @staticmethod
    def normalize(scores: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """Raw scores from the lowest on, which a softmax does not see: scaled to [0, 1] it could not become sharp."""
        return scores - scores.detach().amin(dim=1, keepdim=True)

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Draw in training mode, take the most probable in evaluation mode."""
        inside = inside_of(grid)  # padding is not to be drawn even by the smoothing, however low its scores are
        if not self.training:
            return attention_topk(scores, self.k, smoothing=self.smoothing, inside=inside)
        return attention_sampling(scores, self.k, replacement=self.replacement, smoothing=self.smoothing, inside=inside)
