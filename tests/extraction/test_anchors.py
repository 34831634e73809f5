"""Anchors against a table written out cell by cell, and their pixels against a crop of a padded image, resized."""

import inspect
import math

import pytest
import torch
import torch.nn.functional as F
from oracles import seeded
from torch import Tensor
from torch.testing import assert_close

from saccade import Selection, extract, perturbed_topk
from saccade.extraction.anchors import AnchorExtraction, Anchors, make_anchors, resize_regions
from saccade.selection import Candidates


def slow_table(height: int, width: int, *, factor: int = 1) -> list[list[int]]:
    """One anchor after the other; a view `factor` times smaller than the image has cells that much larger."""
    third = 2 ** (1 / 3)
    levels = ((32, 48, (third, third**2)), (64, 96, (third, third**2)), (128, 192, (1, third, third**2)))
    table = []
    for stride, size, scales in levels:
        step = stride * factor
        for scale in scales:
            for ratio in (0.667, 1, 1.5):
                h, w = int(size * scale / math.sqrt(ratio)), int(size * scale * math.sqrt(ratio))
                rows = range(step // 2, math.ceil(height / step) * step, step)
                cols = range(step // 2, math.ceil(width / step) * step, step)
                table += [[x - w // 2, y - h // 2, x - w // 2 + w, y - h // 2 + h] for y in rows for x in cols]
    return table


@pytest.mark.parametrize("size", [(448, 448), (224, 224), (300, 452)])
def test_the_table_is_that_of_the_slow_construction(size):
    anchors = make_anchors(size)
    assert anchors.table.tolist() == slow_table(*size)
    assert isinstance(anchors, Candidates)


def test_a_smaller_view_has_fewer_and_wider_cells():
    assert make_anchors((448, 640), (224, 320)).table.tolist() == slow_table(448, 640, factor=2)


def test_there_are_1614_at_448_in_levels_of_1176_294_and_144():
    anchors = make_anchors((448, 448))
    counts = [kinds * rows * cols for kinds, (rows, cols) in zip((6, 6, 9), anchors.cells, strict=True)]
    assert counts == [1176, 294, 144]
    assert anchors.num_candidates == 1614


def test_columns_run_fastest_then_rows_then_types():
    table = make_anchors((448, 448)).table
    center = (table[:, :2] + table[:, 2:]).float() / 2
    assert_close(center[1] - center[0], torch.tensor([32.0, 0.0]))
    assert_close(center[14] - center[0], torch.tensor([0.0, 32.0]))
    assert_close(center[196], center[0], atol=0.5, rtol=0)  # the next type, at the same place
    assert_close(center[1176 + 7] - center[1176], torch.tensor([0.0, 64.0]))
    assert_close(center[1470 + 4] - center[1470], torch.tensor([0.0, 128.0]))


def crop_and_resize(image: Tensor, box: list[int], size: tuple[int, int]) -> Tensor:
    """As NTS-Net does it: pad by far enough, cut, resize."""
    pad = 400
    left, top, right, bottom = (side + pad for side in box)
    crop = F.pad(image, (pad,) * 4)[None, :, top:bottom, left:right]
    return F.interpolate(crop, size, mode="bilinear", align_corners=False)[0]


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-11), (torch.float32, 1e-4)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_reading_is_cropping_and_resizing(dtype, atol, channels_last):
    image = torch.rand(2, 3, 130, 190, dtype=dtype, generator=seeded(0))
    image = image.contiguous(memory_format=torch.channels_last) if channels_last else image
    anchors = make_anchors((130, 190), patch=(40, 28))
    index = torch.randint(anchors.num_candidates, (2, 30), generator=seeded(1))
    index[:, :3] = torch.tensor([0, 24, anchors.num_candidates - 1])  # over the border at two corners
    read = anchors.read(image, index)
    for b, row in enumerate(anchors.boxes(index).tolist()):
        for s, box in enumerate(row):
            assert_close(read[b, s], crop_and_resize(image[b], box, (40, 28)), atol=atol, rtol=0)


def test_the_gradient_to_the_image_is_that_of_cropping_and_resizing():
    anchors = make_anchors((96, 96), patch=(16, 16))
    index = torch.randint(anchors.num_candidates, (1, 12), generator=seeded(1))
    grad = torch.randn(1, 12, 2, 16, 16, dtype=torch.float64, generator=seeded(2))
    image = torch.rand(1, 2, 96, 96, dtype=torch.float64, generator=seeded(0), requires_grad=True)
    (got,) = torch.autograd.grad(anchors.read(image, index), image, grad)
    slow = torch.stack([crop_and_resize(image[0], box, (16, 16)) for box in anchors.boxes(index[0]).tolist()])
    (expected,) = torch.autograd.grad(slow, image, grad[0])
    assert_close(got, expected)


def test_a_region_at_its_own_size_is_itself():
    image = torch.rand(1, 3, 20, 30, dtype=torch.float64, generator=seeded(0))
    assert_close(resize_regions(image, torch.tensor([[[4, 3, 15, 13]]]), (10, 11))[0, 0], image[0, :, 3:13, 4:15])


def test_mixing_the_support_equals_mixing_all_anchors():
    anchors = make_anchors((96, 96), patch=(12, 12))
    n = anchors.num_candidates
    scores = torch.rand(2, n, dtype=torch.float64, generator=seeded(1))
    selection = perturbed_topk(scores, 3, sigma=0.1, num_samples=50, generator=seeded(2))
    everything = torch.arange(n).expand(2, n)
    results = []

    def sparse(image: Tensor, chosen: Selection) -> Tensor:
        return extract(image, chosen, anchors)

    def dense(image: Tensor, chosen: Selection) -> Tensor:
        return torch.einsum("bkn,bncpq->bkcpq", chosen.dense(n), anchors.read(image, everything))

    for function in (sparse, dense):
        image = torch.rand(2, 3, 96, 96, dtype=torch.float64, generator=seeded(0), requires_grad=True)
        weight = selection.weight.detach().requires_grad_()
        parts = function(image, selection._replace(weight=weight))
        parts.backward(torch.randn(parts.shape, dtype=torch.float64, generator=seeded(3)))
        results.append((parts.detach(), weight.grad, image.grad))
    assert_close(results[0], results[1])


def test_only_the_support_is_read(monkeypatch):
    asked: list[int] = []
    honest = Anchors.read

    def watched(self: Anchors, image: Tensor, index: Tensor) -> Tensor:
        asked.extend(index.flatten().tolist())
        return honest(self, image, index)

    monkeypatch.setattr(Anchors, "read", watched)
    weight = torch.tensor([[[0.25, 0.75]]], requires_grad=True)
    selection = Selection(torch.tensor([[5, 17]]), weight)
    extract(torch.rand(1, 3, 96, 96), selection, make_anchors((96, 96), patch=(12, 12))).sum().backward()
    assert asked == [5, 17, 5, 17]  # forward and backward


def test_the_chart_shows_the_best_anchor_at_each_place():
    anchors = make_anchors((448, 448))
    scores = torch.zeros(1614)
    scores[2 * 196 + 3 * 14 + 5] = 0.5  # third type, row 3, column 5 of the finest level
    scores[1176 + 294 + 4 * 16 + 15] = 0.9  # the last of the coarse cells
    chart = anchors.chart(scores)
    assert chart.shape == (14, 14)
    assert float(chart[3, 5]) == 0.5
    assert torch.equal(chart[11:, 11:], torch.full((3, 3), 0.9))
    assert int((chart > 0).sum()) == 10
    assert anchors.extent == (0.0, 0.0, 448.0, 448.0)


def test_padding_holds_no_center():
    anchors = make_anchors((128, 256))
    inside = anchors.centered_in(torch.tensor([[128, 256], [96, 130]]))
    assert inside[0].all()
    x, y = ((anchors.table[:, :2] + anchors.table[:, 2:]) / 2).unbind(-1)
    assert torch.equal(inside[1], (x < 130) & (y < 96))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patch": 0}, "patch is 0, expected one number of pixels"),
        ({"sizes": [48, 96]}, r"sizes are \[48, 96\], expected three"),
    ],
)
def test_impossible_sizes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):  # a recipe's values come unchecked
        inspect.unwrap(AnchorExtraction.__init__)(AnchorExtraction.__new__(AnchorExtraction), **options)
