"""Sparse extraction against the paper's X̃ = Yᵀ P, with P built in full."""

import inspect
from importlib import import_module
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from oracles import seeded
from torch import Tensor
from torch.testing import assert_close

from saccade import Grid, Selection, extract, hard_topk, perturbed_topk
from saccade.images import cut_regions

module = import_module("saccade.extraction.extract")
GRID = Grid(torch.arange(5) * 7 - 6, torch.arange(6) * 6 - 4, (9, 11))


def image_batch(*, channels_last=False, dtype=torch.float64):
    image = torch.rand(2, 3, 30, 34, dtype=dtype, generator=seeded(0))
    return image.contiguous(memory_format=torch.channels_last) if channels_last else image


def soft_selection(dtype=torch.float64):
    scores = torch.rand(2, 30, dtype=dtype, generator=seeded(1))
    return perturbed_topk(scores, 4, sigma=0.2, num_samples=50, generator=seeded(2))


def dense_extract(image: Tensor, selection: Selection) -> Tensor:
    everything = torch.arange(30).expand(2, 30)
    patches = cut_regions(image, GRID.left_top_px(everything), GRID.patch)  # B N C P Q
    return torch.einsum("bkn,bncpq->bkcpq", selection.dense(30), patches)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("chunk_bytes", [1, 20_000, 2**30])
def test_sparse_equals_dense_values_and_gradients(channels_last, chunk_bytes, monkeypatch):
    monkeypatch.setitem(module.CHUNK_BYTES, "cpu", chunk_bytes)
    results = []
    for function in (lambda i, s: extract(i, s, GRID), dense_extract):
        image = image_batch(channels_last=channels_last).requires_grad_()
        selection = soft_selection()
        weight = selection.weight.detach().requires_grad_()
        patches = function(image, selection._replace(weight=weight))
        patches.backward(torch.randn(patches.shape, dtype=torch.float64, generator=seeded(3)))
        results.append((patches.detach(), weight.grad, image.grad))
    assert_close(results[0], results[1])


def test_zero_weights_cost_nothing_forward_but_get_their_gradient():
    selection = soft_selection()
    assert (selection.weight == 0).all(dim=1).any(), "the case needs a candidate that no draw chose"
    weight = selection.weight.detach().requires_grad_()
    image = image_batch()
    extract(image, selection._replace(weight=weight), GRID).sum().backward()
    expected = GRID.read(image, selection.index).sum(dim=(2, 3, 4))[:, None].expand_as(weight)
    assert_close(weight.grad, expected)


def test_hard_selection_reads_the_patches_as_they_are():
    image = image_batch()
    selection = hard_topk(torch.rand(2, 30, generator=seeded(1)), 4)
    assert torch.equal(extract(image, selection, GRID), GRID.read(image, selection.index))


def test_soft_at_sigma_zero_equals_hard():
    image = image_batch()
    scores = torch.rand(2, 30, dtype=torch.float64, generator=seeded(1))
    hard = extract(image, hard_topk(scores, 4), GRID)
    assert_close(extract(image, perturbed_topk(scores, 4, sigma=0.0), GRID), hard, atol=0, rtol=0)
    assert_close(extract(image, perturbed_topk(scores, 4, sigma=1e-9), GRID), hard, atol=0, rtol=0)


def test_memory_format_is_kept():
    patches = extract(image_batch(channels_last=True), soft_selection(), GRID)
    assert patches.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)


def test_autocast_leaves_pixels_alone():
    image, selection = image_batch(dtype=torch.float32), soft_selection(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = extract(image, selection, GRID)
    assert_close(mixed, extract(image, selection, GRID), atol=0, rtol=0)


def test_bytes_and_mismatched_batches_are_refused():
    selection = soft_selection()
    with pytest.raises(ValueError, match=r"expected floating point: .* saccade\.images\.unit_range"):
        inspect.unwrap(extract)((image_batch() * 255).byte(), selection, GRID)
    with pytest.raises(ValueError, match="1 images and a selection for 2"):
        inspect.unwrap(extract)(image_batch()[:1], selection, GRID)


def test_one_chunk_of_patches_is_all_that_is_held(monkeypatch):
    """Patches in flight are bounded by the chunk, forward and backward, whatever the support."""
    read_at_once = []

    class Counting(Grid):
        def read(self, image, index):
            read_at_once.append(index.shape[1])
            return super().read(image, index)

    patch_bytes = 3 * 9 * 11 * 8
    monkeypatch.setitem(module.CHUNK_BYTES, "cpu", 3 * patch_bytes)
    selection = soft_selection()
    weight = selection.weight.detach().requires_grad_()
    extract(image_batch(), selection._replace(weight=weight), Counting(*GRID)).sum().backward()
    assert max(read_at_once) <= 3
    assert sum(read_at_once) >= selection.index.shape[1]


class TwoSizes(NamedTuple):
    """Anchors of two sizes over one score vector, all read at 6×6: what NTS-Net will need."""

    corners: Tensor
    sides: Tensor
    patch: tuple[int, int] = (6, 6)

    def boxes(self, index: Tensor) -> Tensor:
        corner, side = self.corners[index], self.sides[index]
        return torch.cat([corner, corner + side[..., None]], dim=-1)

    def read(self, image: Tensor, index: Tensor) -> Tensor:
        rows = []
        for picture, boxes in zip(image, self.boxes(index).tolist(), strict=True):
            crops = [picture[None, :, top:bottom, left:right] for left, top, right, bottom in boxes]
            rows.append(torch.cat([F.interpolate(crop, self.patch, mode="bilinear") for crop in crops]))
        return torch.stack(rows)


def test_anchors_of_several_sizes_fit_the_same_types():
    anchors = TwoSizes(torch.randint(0, 15, (30, 2), generator=seeded(4)), torch.tensor([6, 14]).repeat(15))
    image, selection = image_batch().requires_grad_(), soft_selection()
    weight = selection.weight.detach().requires_grad_()
    patches = extract(image, selection._replace(weight=weight), anchors)
    everything = anchors.read(image.detach(), torch.arange(30).expand(2, 30))
    expected = torch.einsum("bkn,bncpq->bkcpq", selection.dense(30), everything)
    assert_close(patches, expected)
    patches.sum().backward()
    assert_close(weight.grad[0, 0], everything[0].sum(dim=(1, 2, 3))[selection.index[0]])
