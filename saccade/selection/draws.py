"""The M noisy top-K draws behind a perturbed selection: pruned, drawn in chunks, kept as indices only.

Nothing here is larger than one chunk of draws × the candidates that can still be chosen. Of each draw the K+1 best
candidates and two values survive; noise is never stored, and drawn again from its seed where a gradient needs it.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.selection.noise import Noise

# Elements of one chunk of noise: 4 MB of float32 stay in a CPU's cache; an accelerator wants fewer, larger launches.
CHUNK_ELEMENTS = {"cpu": 2**20, "cuda": 2**24}


class Draws(NamedTuple):
    """What M draws chose.

    best:      the K+1 best candidates of every draw, best first, as positions among the kept candidates.
    kth_value, next_value: the perturbed scores of the last one chosen and of the first one left out.
    """

    best: Int[Tensor, "B M K1"]
    kth_value: Float[Tensor, "B M"]
    next_value: Float[Tensor, "B M"]


def near_the_top(scores: Float[Tensor, "B N"], k: int, *, sigma: float, noise: Noise) -> Int[Tensor, "B U"]:
    """Candidates that noise can lift into the top K, ascending; any other is there in about one of 1e9 draws.

    Two bounds, and the higher one holds. A candidate must overtake one of the K best, so it is out of reach
    `pair_reach` σ below the K-th. And in a crowd: of the J best each stands above the J-th score plus the noise's
    median with probability ½ or more, so by Hoeffding's inequality at least K of them do in all but 1e-9 of the draws,
    if √J ≥ √(L/2) + √(L/2 + 2(K − 1)) with L = log 1e9; a candidate `single_reach` σ below that level cannot follow.

    U is the largest count in the batch; images that need fewer keep their next-best candidates as well, which
    costs little and spares everything downstream a mask.
    """
    half = math.log(1e9) / 2
    crowd = math.ceil((half**0.5 + (half + 2 * (k - 1)) ** 0.5) ** 2)
    ranked = scores.topk(min(max(crowd, k + 1), scores.shape[1]), dim=1).values
    lowest = ranked[:, k - 1] - noise.pair_reach * sigma
    if crowd <= scores.shape[1]:
        lowest = lowest.maximum(ranked[:, crowd - 1] + (noise.median - noise.single_reach) * sigma)
    count = max(k + 1, int((scores >= lowest[:, None]).sum(dim=1).max()))
    if count == scores.shape[1]:
        return torch.arange(count, device=scores.device).expand(len(scores), count)
    return scores.topk(count, dim=1, sorted=False).indices.sort(dim=1).values


def chunks_of_draws(num_samples: int, elements_per_draw: int, device: torch.device) -> Iterator[slice]:
    """Slices over the draws, each a multiple of 16 draws.

    torch fills normal noise in blocks of 16, so with such chunks a CPU's stream of noise, and with it the answer, does
    not depend on the chunk size.
    """
    budget = CHUNK_ELEMENTS.get(device.type, CHUNK_ELEMENTS["cuda"])
    step = max(16, budget // elements_per_draw // 16 * 16)
    for start in range(0, num_samples, step):
        yield slice(start, min(start + step, num_samples))


def noise_chunks(
    kept_scores: Float[Tensor, "B U"], *, num_samples: int, noise: Noise, seed: int
) -> Iterator[tuple[slice, Float[Tensor, "m B U"]]]:
    """The noise of all draws, chunk by chunk; the same seed gives the same noise.

    The caller may overwrite a chunk, and has it until the next one: all lie in the same memory. Fresh memory for each
    would leave gaps between small results, as many megabytes as there are chunks on some machines.
    """
    generator = torch.Generator(kept_scores.device).manual_seed(seed)
    chunks = list(chunks_of_draws(num_samples, kept_scores.numel(), kept_scores.device))
    room = kept_scores.new_empty(chunks[0].stop, *kept_scores.shape)
    for chunk in chunks:
        yield chunk, noise.sample(room[: chunk.stop - chunk.start], generator)


def draw_topk(
    kept_scores: Float[Tensor, "B U"], k: int, *, sigma: float, num_samples: int, noise: Noise, seed: int
) -> Draws:
    """The K+1 best of s + σZ for every draw."""
    best = kept_scores.new_empty(len(kept_scores), num_samples, k + 1, dtype=torch.long)  # B M K+1
    values = kept_scores.new_empty(len(kept_scores), num_samples, 2)  # B M 2
    for chunk, z in noise_chunks(kept_scores, num_samples=num_samples, noise=noise, seed=seed):
        top = z.mul_(sigma).add_(kept_scores).topk(k + 1, dim=-1)
        best[:, chunk], values[:, chunk] = top.indices.transpose(0, 1), top.values[..., k - 1 :].transpose(0, 1)
    return Draws(best, values[..., 0], values[..., 1])


def find_support(
    drawn: Bool[Tensor, "B U"], kept_scores: Float[Tensor, "B U"], count: int
) -> tuple[Int[Tensor, "B S"], Int[Tensor, "B U"]]:
    """The `drawn` candidates, ascending, and the place of each kept one among them.

    Images that need fewer than `count` are filled up with their next-best candidates.
    """
    priority = torch.where(drawn, torch.inf, kept_scores)
    support = priority.topk(count, dim=1, sorted=False).indices.sort(dim=1).values
    place = torch.arange(count, device=support.device).expand_as(support)
    return support, torch.zeros_like(kept_scores, dtype=torch.long).scatter(1, support, place)


def mean_indicators(draws: Draws, num_kept: int) -> Float[Tensor, "B K U"]:
    """The share of draws in which each kept candidate came into each slot, slots in index order."""
    batch, num_samples, k = draws.best[..., :-1].shape
    chosen = draws.best[..., :-1].sort(dim=-1).values  # B M K
    flat = chosen + num_kept * torch.arange(k, device=chosen.device)
    counts = draws.kth_value.new_zeros(batch, k * num_kept)
    counts.scatter_add_(1, flat.flatten(1), counts.new_ones(()).expand(batch, num_samples * k))
    return counts.div_(num_samples).view(batch, k, num_kept)
