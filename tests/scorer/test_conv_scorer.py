import torch

from saccade.scorer import ConvScorer


def test_parameters_of_the_paper():
    assert sum(p.numel() for p in ConvScorer().parameters()) == 6_321


def test_widths_pooling_and_depth_follow_the_options():
    scorer = ConvScorer(1, widths=(4, 6), kernel=5, pool=4, tiles=False)
    assert [m.out_channels for m in scorer.layers if isinstance(m, torch.nn.Conv2d)] == [4, 6, 1]
    assert (scorer.field.size, scorer.field.stride) == (1 + 3 * 4 + 3, 4)
    assert scorer(torch.rand(2, 1, 40, 52)).scores.shape == (2, scorer.field.cells(40) * scorer.field.cells(52))


def test_padding_changes_no_score_that_did_not_need_it():
    """Cells whose receptive field lies inside the view score the same with and without padding."""
    torch.manual_seed(0)
    tiled, valid = ConvScorer(tiles=True), ConvScorer(tiles=False)
    valid.load_state_dict(tiled.state_dict())
    view = torch.rand(1, 3, 48, 64)
    # A tiled cell i starts 4 px before 8 i; shift the view so that valid cells fall on tiled ones.
    inner = valid(view[:, :, 4:, 4:]).scores.view(1, 4, 6)
    torch.testing.assert_close(tiled(view).scores.view(1, 6, 8)[:, 1:5, 1:7], inner)


def test_squeeze_excitation_lets_a_far_corner_matter():
    torch.manual_seed(0)
    view = torch.rand(1, 3, 64, 64)
    changed = view.clone()
    changed[:, :, -8:, -8:] = 0.0
    for excite, same in ((0, True), (8, False)):
        scorer = ConvScorer(squeeze_excitation=excite)
        assert torch.equal(scorer(view).scores[0, 0], scorer(changed).scores[0, 0]) is same


def test_border_padding_draws_no_edge():
    """On a featureless picture all scores are alike, borders included."""
    scores = ConvScorer()(torch.full((1, 3, 50, 70), 0.5)).scores
    torch.testing.assert_close(scores, scores[:, :1].expand_as(scores))
