"""Overlap of patches and boxes against counting pixels."""

import pytest
import torch
from torch.testing import assert_close

from saccade.evaluation import best_overlap, mutual_overlap


def boxes_in(size, count, generator):
    """Random boxes of at least one pixel, some of which leave the image on any side."""
    corner = torch.randint(-6, size, (count, 2), generator=generator)
    return torch.cat([corner, corner + torch.randint(1, 12, (count, 2), generator=generator)], dim=1)


def overlap_by_pixels(patch, box):
    """Common pixels, and the most that rectangles of these sizes could have in common."""
    common = {(x, y) for x in range(patch[0], patch[2]) for y in range(patch[1], patch[3])} & {
        (x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])
    }
    width, height = (min(patch[axis + 2] - patch[axis], box[axis + 2] - box[axis]) for axis in (0, 1))
    return len(common) / (width * height)


def test_best_overlap_equals_counting_pixels():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        patches, boxes = boxes_in(20, 4, generator), boxes_in(20, 3, generator)
        expected = [max(overlap_by_pixels(p, b) for p in patches.tolist()) for b in boxes.tolist()]
        assert_close(best_overlap(patches, boxes), torch.tensor(expected))


@pytest.mark.parametrize("patch", [(10, 10, 30, 30), (0, 0, 100, 100), (12, 5, 14, 90)])
def test_a_patch_within_a_box_or_around_it_or_across_it_shows_it_whole(patch):
    box = torch.tensor([[10, 10, 30, 30]])
    assert best_overlap(torch.tensor([patch]), box) == 1


def test_overlap_does_not_depend_on_which_is_called_the_patch():
    generator = torch.Generator().manual_seed(1)
    one, other = boxes_in(20, 1, generator), boxes_in(20, 1, generator)
    assert_close(best_overlap(one, other), best_overlap(other, one))


def test_rectangles_that_only_touch_do_not_overlap():
    assert best_overlap(torch.tensor([[0, 0, 10, 10]]), torch.tensor([[10, 0, 20, 10]])) == 0


def test_no_boxes_no_overlaps():
    nothing = torch.zeros(0, 4, dtype=torch.int64)
    assert best_overlap(torch.tensor([[0, 0, 10, 10]]), nothing).shape == (0,)


def pixels(box):
    return {(x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])}


def test_mutual_overlap_equals_counting_pixels_of_every_pair():
    generator = torch.Generator().manual_seed(2)
    patches = torch.stack([boxes_in(12, 4, generator) for _ in range(10)])
    expected = []
    for chosen in patches.tolist():
        pairs = [(pixels(a), pixels(b)) for i, a in enumerate(chosen) for b in chosen[:i]]
        expected.append(sum(len(a & b) / len(a | b) for a, b in pairs) / len(pairs))
    assert_close(mutual_overlap(patches), torch.tensor(expected))
    assert max(expected) > 0.05


def test_mutual_overlap_of_equal_patches_is_one_and_of_one_patch_unknown():
    patch = torch.tensor([[3, 4, 13, 14]])
    assert mutual_overlap(patch.expand(3, -1)) == 1
    assert mutual_overlap(patch).isnan()
