"""Candidates of several sizes against cutting and resizing them one by one."""

from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from oracles import seeded
from torch.testing import assert_close
from torchvision.ops import nms
from torchvision.transforms.v2 import functional as v2

from saccade import Grid, ModelConfig, PatchSelectionModel, extract, hard_topk, perturbed_topk
from saccade.extraction import Grids
from saccade.extraction.tissue import on_tissue
from saccade.images import Sources, TensorImage, cut_regions
from saccade.registry import build
from saccade.selection import Candidates

grids_module = import_module("saccade.extraction.grids")
SIZES, PATCH = ((6, 6), (12, 12), (6, 15), (4, 4)), (6, 6)  # as they are, shrunk, of another shape, enlarged


def centered(height: int, width: int) -> Grid:
    """A grid of 4×5 cells; patches at the border leave an image of 30×34."""
    return Grid(torch.arange(4) * 7 + 3 - height // 2, torch.arange(5) * 6 + 2 - width // 2, (height, width))


GRIDS = Grids(tuple(centered(*size) for size in SIZES), PATCH)
EVERYTHING = torch.arange(80).expand(2, 80)


def images(*, channels_last: bool = False) -> torch.Tensor:
    image = torch.rand(2, 3, 30, 34, dtype=torch.float64, generator=seeded(0))
    return image.contiguous(memory_format=torch.channels_last) if channels_last else image


def one_by_one(image: torch.Tensor) -> torch.Tensor:
    """All patches B N C P Q: out of a picture with a wide border of zeros, resized by torchvision."""
    border = 20
    wide = F.pad(image, (border,) * 4)
    patches = []
    for z, (height, width) in enumerate(SIZES):
        for y in range(4):
            for x in range(5):
                top, left = 7 * y + 3 - height // 2 + border, 6 * x + 2 - width // 2 + border
                cut = wide[:, :, top : top + height, left : left + width]
                patches.append(cut if z == 0 else v2.resize(cut, list(PATCH), antialias=True))
    return torch.stack(patches, dim=1)


def test_they_are_candidates_of_their_true_sizes():
    assert isinstance(GRIDS, Candidates)
    assert GRIDS.num_candidates == 4 * 20
    boxes = GRIDS.boxes(torch.tensor([[0, 19], [20 + 6, 79]]))
    assert boxes.tolist() == [[[-1, 0, 5, 6], [23, 21, 29, 27]], [[2, 4, 14, 16], [24, 22, 28, 26]]]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("at_once", [1, 2**24])
def test_each_is_read_as_if_cut_out_and_resized(channels_last, at_once, monkeypatch):
    monkeypatch.setattr(grids_module, "AT_ONCE_BYTES", at_once)
    image, index = images(channels_last=channels_last), torch.randint(80, (2, 33), generator=seeded(1))
    expected = torch.stack([row[chosen] for row, chosen in zip(one_by_one(image), index, strict=True)])
    assert_close(GRIDS.read(image, index), expected, atol=1e-12, rtol=0)


def test_slots_mix_sizes_as_the_dense_formula_does():
    """Values, and gradients for the weights and the image: X̃ = Yᵀ P with all 80 patches there."""
    scores = torch.rand(2, 80, dtype=torch.float64, generator=seeded(2))
    selection = perturbed_topk(scores, 4, sigma=0.3, num_samples=60, generator=seeded(3))
    assert all(((selection.index // 20) == z).any() for z in range(4)), "the case needs candidates of every size"

    def dense(image, selection, _):
        return torch.einsum("bkn,bncpq->bkcpq", selection.dense(80), one_by_one(image))

    results = []
    for function in (extract, dense):
        image, weight = images().requires_grad_(), selection.weight.detach().requires_grad_()
        patches = function(image, selection._replace(weight=weight), GRIDS)
        patches.backward(torch.randn(patches.shape, dtype=torch.float64, generator=seeded(4)))
        results.append((patches.detach(), weight.grad, image.grad))
    assert_close(results[0], results[1])


def test_at_one_size_they_are_a_grid_bit_by_bit():
    one, same = centered(6, 6), Grids((centered(6, 6),), PATCH)
    scores = torch.rand(2, 20, dtype=torch.float64, generator=seeded(2))
    soft = perturbed_topk(scores, 3, sigma=0.3, num_samples=60, generator=seeded(3))
    for selection in (soft, hard_topk(scores, 3)):
        assert torch.equal(extract(images(), selection, same), extract(images(), selection, one))
        assert torch.equal(same.boxes(selection.index), one.boxes(selection.index))
    assert torch.equal(same.chart(scores[0]), one.chart(scores[0]))
    assert (same.extent, same.shape, same.num_candidates) == (one.extent, one.shape, one.num_candidates)


class Recorded(TensorImage):
    """A source that remembers which boxes were asked for."""

    def regions(self, boxes):
        self.asked = [*getattr(self, "asked", []), *map(tuple, boxes.tolist())]
        return super().regions(boxes)


def test_of_sources_only_the_boxes_are_read():
    pixels = images().float()
    sources, index = [Recorded(image) for image in pixels], torch.tensor([[3, 25, 41, 60], [79, 20, 0, 1]])
    assert_close(GRIDS.read(Sources(sources), index), GRIDS.read(pixels, index), atol=1e-6, rtol=0)
    for source, chosen in zip(sources, index, strict=True):
        assert sorted(source.asked) == sorted(map(tuple, GRIDS.boxes(chosen).tolist()))


def test_half_precision_is_resized_in_single():
    image, index = images().bfloat16(), torch.tensor([[30], [50]])
    read = GRIDS.read(image, index)
    assert read.dtype == torch.bfloat16
    assert_close(read, GRIDS.read(image.float(), index).bfloat16(), atol=0, rtol=0)


def test_padding_leaves_out_what_is_centered_in_it():
    grids = GRIDS.padded(torch.tensor([[30, 34], [12, 34]]))
    assert grids.inside is not None
    assert grids.inside[0].all()
    boxes = GRIDS.boxes(torch.arange(80))
    assert torch.equal(grids.inside[1], (boxes[:, 1] + boxes[:, 3]) / 2 < 12)


def test_glass_is_left_out_size_by_size():
    """A spot of tissue is a twentieth of the small candidates around it, and of no large one."""
    view = torch.ones(1, 3, 30, 34)
    view[..., 15:17, 14:16] = 0.3
    shown = on_tissue(GRIDS, view, (30, 34), k=1).inside
    assert shown is not None
    for z, size in enumerate(SIZES):
        alone = on_tissue(centered(*size), view, (30, 34), k=1).inside
        assert alone is not None
        if alone.sum() < 20:  # a size of which none shows tissue keeps all of them where it is alone
            assert torch.equal(shown[:, 20 * z : 20 * z + 20], alone)
    assert 0 < shown.sum() < 80


@pytest.mark.parametrize("max_overlap", [0.0, 0.2, 0.5])
def test_suppression_goes_by_the_boxes_as_they_are(max_overlap):
    scores = torch.rand(2, 80, generator=seeded(5))
    selector = build("selection", {"name": "diverse", "k": 4, "max_overlap": max_overlap}).eval()
    chosen = selector(scores, GRIDS).index
    for mine, values in zip(chosen, scores, strict=True):
        kept = nms(GRIDS.boxes(torch.arange(80)).float(), values, max_overlap)[:4]
        assert mine.tolist() == sorted(kept.tolist())


def make(**changes) -> PatchSelectionModel:
    torch.manual_seed(0)
    parts = {
        "view": {"scale": 1 / 4},
        "scorer": {"name": "conv", "pool": 4},
        "extraction": {"patch": 16},
        "features": {"name": "ats", "width": 8},
    }
    return PatchSelectionModel.from_config(ModelConfig(num_classes=2, image_size=(96, 96), **parts | changes))


@pytest.mark.parametrize(
    "scorer", [{"name": "conv", "pool": 4}, {"name": "conv", "pool": 4, "squeeze_excitation": 4}], ids=str
)
def test_all_sizes_of_a_cell_begin_with_the_same_score(scorer):
    """Otherwise noise might never reach a size; and each is a channel of its own."""
    model = make(scorer=scorer, extraction={"patch": 16, "sizes": [16, 32, [16, 32]]})
    scores = model.scorer(torch.rand(2, 3, 24, 24, generator=seeded(6))).scores.unflatten(1, (3, 36))
    assert_close(scores[:, 1:], scores[:, :1].expand(-1, 2, -1), atol=0, rtol=0)
    grad = torch.autograd.grad(scores[:, 1].sum(), model.scorer.layers[-2].weight)[0]
    assert (grad.flatten(1).norm(dim=1) > 0).tolist() == [False, True, False]


def test_cells_of_a_network_are_attended_to_by_all_sizes_together():
    scorer = {"name": "backbone", "model": "resnet18", "stride": 8}
    model = make(scorer=scorer, extraction={"patch": 16, "sizes": [16, 32]}).eval()
    attention = model.scorer.attention
    torch.nn.init.normal_(attention.score.weight, generator=seeded(7))
    cells = torch.rand(2, model.scorer.stages.width, 3, 4, generator=seeded(8))
    scores, context = attention(cells)
    evidence = attention.describe(cells).relu().flatten(2)
    raw = attention.score(attention.content(evidence).tanh() * attention.gate(evidence).sigmoid())  # B H·2 N
    expected = []
    for head in range(4):
        both = raw[:, 2 * head : 2 * head + 2].flatten(1).softmax(dim=1).unflatten(1, (2, 12)).sum(dim=1)
        expected.append(torch.einsum("bn,ben->be", both, evidence[:, 64 * head : 64 * head + 64]))
    assert_close(context, torch.cat(expected, dim=1))
    assert_close(scores, torch.cat([raw[:, 0::2].mean(dim=1), raw[:, 1::2].mean(dim=1)], dim=1))


@pytest.mark.parametrize("aggregation", [{"name": "placed"}, {"name": "transformer", "dim": 16, "heads": 2}], ids=str)
def test_positions_know_the_size(aggregation):
    """A row for each candidate; in an image of another size interpolated among those of its own size."""
    model = make(aggregation=aggregation, extraction={"patch": 16, "sizes": [16, 32]}).eval()
    positions = model.aggregation.positions
    table = positions.weight.detach()
    assert len(table) == model.grid((96, 96)).num_candidates == 72
    index = torch.tensor([[0, 5, 36, 71]])
    assert torch.equal(positions.rows(index, (6, 6)), table[index])
    wider = torch.arange(2 * 6 * 9)[None]
    for z in range(2):
        charts = table.unflatten(0, (2, 6, 6))[z].movedim(-1, 0)[None]
        expected = F.interpolate(charts, size=(6, 9), mode="bilinear")[0].flatten(1).T
        assert_close(positions.rows(wider, (6, 9))[0, 54 * z : 54 * z + 54], expected, atol=1e-5, rtol=1e-4)
    assert_close(positions.table((6, 9)), positions.rows(wider, (6, 9))[0], atol=1e-5, rtol=1e-4)
    model(torch.rand(1, 3, 96, 144, generator=seeded(9)))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([], r"sizes is \[\], expected different sides"),
        ([16, 16], "expected different sides"),
        ([16, [32, 0]], "expected different sides"),
        ([16, 128], "a patch of 128×128 px is larger than the image of 96×96 px"),
        ([16, [1, 2, 3]], r"a size is \[1, 2, 3\], expected one side, or \[height, width\]"),
        (16, "extraction: sizes is 16, expected a list, each a whole number or a list of whole numbers or null"),
    ],
)
def test_wrong_sizes_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        make(extraction={"patch": 16, "sizes": sizes})


@pytest.mark.parametrize("system", ["ips", "spatial"])
def test_systems_with_patches_of_one_size_refuse_several(system):
    from saccade.building import build_model

    config = ModelConfig(system=system, num_classes=2, image_size=(96, 96), extraction={"patch": 16, "sizes": [16, 32]})
    with pytest.raises(ValueError, match=rf"extraction\.sizes is given, and the system {system} cuts patches of one"):
        build_model(config)


def test_a_scorer_with_one_score_a_cell_is_refused():
    model = make(extraction={"patch": 16, "sizes": [16, 32]})
    model.scorer = make().scorer
    with pytest.raises(ValueError, match="the scorer gives 36 scores, and there are 72 candidates"):
        model(torch.rand(1, 3, 96, 96))


def test_all_sizes_of_a_cell_have_its_middle():
    """To half a pixel; and the size of a patch is read as it is."""
    grid = make(extraction={"patch": 16, "sizes": [16, 32, [17, 40]]}).grid((96, 96))
    middles = torch.stack(
        [each.boxes(torch.arange(36)).float().unflatten(1, (2, 2)).mean(dim=1) for each in grid.grids]
    )
    assert (middles - middles[0]).abs().max() <= 0.5
    image = torch.rand(1, 3, 96, 96, generator=seeded(10))
    first = grid.read(image, torch.tensor([[7]]))
    assert torch.equal(first, cut_regions(image, grid.boxes(torch.tensor([[7]]))[..., :2], (16, 16)))
