"""Scores in tiles are the scores of one pass, whatever the size of the view, of a tile and the padding."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from saccade.extraction import receptive_field
from saccade.scorer import ConvScorer, conv_scorer
from saccade.scorer.tiled_scoring import score_in_tiles

SIDES = st.integers(17, 90)


def make_scorer(**options) -> ConvScorer:
    torch.manual_seed(0)
    return ConvScorer(**{"widths": (4, 3), **options}).double()


def in_tiles(scorer: ConvScorer, view: torch.Tensor, tile_px: int) -> torch.Tensor:
    return score_in_tiles(scorer.score, view, scorer.field, tile_px=tile_px).flatten(1)


@settings(deadline=None, max_examples=50)
@given(
    height=SIDES,
    width=SIDES,
    tile_px=st.integers(8, 60),
    pool=st.integers(1, 9),
    kernel=st.sampled_from([1, 2, 3, 5]),
    padded=st.booleans(),
)
def test_tiled_equals_whole(height, width, tile_px, pool, kernel, padded):
    scorer = make_scorer(pool=pool, kernel=kernel, tiles=padded)
    view = torch.rand(2, 3, height, width, dtype=torch.float64, generator=torch.Generator().manual_seed(height))
    if not padded and scorer.field.size > min(height, width):
        return  # refused, tiled or not
    with torch.no_grad():
        assert_close(in_tiles(scorer, view, tile_px), scorer(view).scores, atol=1e-12, rtol=0)


@pytest.mark.parametrize("padded", [False, True])
def test_the_gradient_is_that_of_one_pass(padded):
    scorer = make_scorer(tiles=padded)
    view = torch.rand(1, 3, 61, 83, dtype=torch.float64, requires_grad=True)
    weight = torch.rand_like(scorer(view).scores)
    wanted = [view, *scorer.parameters()]
    whole = torch.autograd.grad((scorer(view).scores * weight).sum(), wanted)
    tiled = torch.autograd.grad((in_tiles(scorer, view, 16) * weight).sum(), wanted)
    for ours, theirs in zip(tiled, whole, strict=True):
        assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


def test_a_large_view_is_scored_in_tiles_by_itself(monkeypatch):
    scorer = make_scorer()
    sizes = []
    scorer.layers[0].register_forward_hook(lambda layer, given, result: sizes.append(tuple(given[0].shape[-2:])))
    view = torch.rand(1, 3, 70, 50, dtype=torch.float64)
    whole = scorer(view).scores
    assert len(sizes) == 1
    monkeypatch.setattr(conv_scorer, "LARGE_VIEW_PX", 70 * 50 - 1)
    monkeypatch.setattr(conv_scorer, "score_in_tiles", partial(score_in_tiles, tile_px=16))
    sizes.clear()
    assert_close(scorer(view).scores, whole, atol=1e-12, rtol=0)
    assert len(sizes) == 5 * 4
    # Two cells of 8 px and what the convolutions reach beyond them.
    assert max(max(size) for size in sizes) == 16 + scorer.field.size - 8


def test_squeeze_and_excitation_sees_the_whole_view(monkeypatch):
    scorer = make_scorer(squeeze_excitation=2)
    view = torch.rand(1, 3, 70, 50, dtype=torch.float64)
    whole = scorer(view).scores
    monkeypatch.setattr(conv_scorer, "LARGE_VIEW_PX", 1)
    assert_close(scorer(view).scores, whole)


def test_layers_that_pad_are_refused():
    layers = [torch.nn.Conv2d(3, 1, 3, padding=1), torch.nn.MaxPool2d(4)]
    with pytest.raises(ValueError, match="'valid' layers"):
        score_in_tiles(torch.nn.Sequential(*layers), torch.rand(1, 3, 20, 20), receptive_field(layers, tiles=False))
