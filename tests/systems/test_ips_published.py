"""Ours beside the published algorithm of IPS, written here from the paper: a buffer of M patches meets the next I.

A fixed network, features of N = 30 patches, every size of the chunks.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from saccade import hard_topk
from saccade.systems.ips import QueryAttention

N = 30
CHUNKS = (1, 2, 3, 7, 11, N)


def make_attention(heads: int, *, sharp: float = 1.0) -> QueryAttention:
    torch.manual_seed(heads)
    attention = QueryAttention(8, dim=12, heads=heads, hidden=8, dropout=0.0).double().eval()
    attention.query.data *= sharp
    return attention


def make_features(count: int = N) -> Tensor:
    return torch.randn(count, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def published_scores(logits: Tensor) -> Tensor:
    """Of the patches in buffer and chunk (G n): softmax over them, then the mean over heads."""
    return logits.softmax(dim=1).mean(dim=0)


def mean_logits(logits: Tensor) -> Tensor:
    """Ours: heads are averaged before any softmax."""
    return logits.mean(dim=0)


def run_published(
    attention: QueryAttention,
    features: Tensor,
    memory: int,
    chunk: int,
    scores: Callable[[Tensor], Tensor] = published_scores,
) -> list[int]:
    """The patches in the buffer at the end: the first M, then M of buffer and next I again and again."""
    kept = list(range(memory))
    for start in range(memory, len(features), chunk):
        there = kept + list(range(start, min(start + chunk, len(features))))
        best = scores(attention.logits(features[None, there])[0]).topk(memory).indices
        kept = [there[place] for place in best.tolist()]
    return sorted(kept)


def run_ours(attention: QueryAttention, features: Tensor, memory: int) -> list[int]:
    return hard_topk(attention.logits(features[None]).mean(dim=1), memory).index[0].tolist()


@torch.no_grad()
@pytest.mark.parametrize("sharp", [1.0, 30.0])
@pytest.mark.parametrize("memory", [1, 5, 29])
def test_with_one_head_ours_keeps_what_the_published_algorithm_keeps(memory, sharp):
    """A softmax over more patches divides all of their weights by the same number: the order stays."""
    attention, features = make_attention(1, sharp=sharp), make_features()
    for chunk in CHUNKS:
        assert run_published(attention, features, memory, chunk) == run_ours(attention, features, memory), chunk


@torch.no_grad()
@pytest.mark.parametrize("memory", [1, 5, 29])
def test_with_our_score_the_buffer_ends_with_the_best_of_all_whatever_the_chunk(memory):
    attention, features = make_attention(4, sharp=30.0), make_features()
    for chunk in CHUNKS:
        kept = run_published(attention, features, memory, chunk, scores=mean_logits)
        assert kept == run_ours(attention, features, memory), chunk


@torch.no_grad()
@pytest.mark.parametrize(("sharp", "alike", "answers"), [(0.01, 5, 1), (3.0, 4, 3), (10.0, 3, 2)])
def test_with_several_heads_the_published_order_is_ours_only_while_attention_is_even(sharp, alike, answers):
    """Of five patches, how many ours and one pass of the published algorithm share; how many sets it keeps by chunk."""
    attention, features = make_attention(4, sharp=sharp), make_features()
    kept = {chunk: run_published(attention, features, 5, chunk) for chunk in CHUNKS}
    assert len({*kept[N]} & {*run_ours(attention, features, 5)}) == alike
    assert len({tuple(each) for each in kept.values()}) == answers


@torch.no_grad()
@pytest.mark.parametrize(("sharp", "alike", "moved"), [(1.0, 0.906, 0.24), (3.0, 0.779, 0.52)])
def test_how_far_apart_the_two_orders_are_as_the_file_says(sharp, alike, moved):
    """Over 200 new networks with four heads: the share of patches both keep; how often chunks of 3 keep others."""
    shared, other = [], []
    for seed in range(200):
        torch.manual_seed(seed)
        attention = QueryAttention(8, dim=12, heads=4, hidden=8, dropout=0.0).double()
        attention.query.data *= sharp
        features = torch.randn(N, 8, dtype=torch.float64)
        one_pass = run_published(attention, features, 5, N)
        shared.append(len({*one_pass} & {*run_ours(attention, features, 5)}) / 5)
        other.append(run_published(attention, features, 5, 3) != one_pass)
    assert abs(sum(shared) / 200 - alike) < 0.01
    assert abs(sum(other) / 200 - moved) < 0.01
