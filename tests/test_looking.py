"""A look is what the model says of itself, in pixels of the file, whatever was done to the image first."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.extraction import Grid
from saccade.images import Sources, open_image
from saccade.looking import SHOWN_PX, look_at, look_at_slots, make_picture
from saccade.preparation import Preparation

STAGES = {
    "num_classes": 3,
    "image_size": (64, 80),
    "view": {"scale": 0.5},
    "scorer": {"name": "conv", "widths": [4], "pool": 4},
    "selection": {"name": "perturbed", "k": 3},
    "extraction": {"patch": [20, 24]},
    "features": {"name": "ats", "width": 8},
}


@pytest.fixture
def image() -> Tensor:
    """Two images, in bytes."""
    return torch.randint(256, (2, 3, 64, 80), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def make_model(**changes: Any) -> Any:
    torch.manual_seed(0)
    return build_model(ModelConfig(**STAGES | changes)).eval().requires_grad_(False)


@pytest.mark.parametrize("row", [0, 1])
def test_a_look_is_what_the_model_says_of_itself(image, row):
    output = make_model()(image / 255)
    look = look_at(output, row, size=(64, 80))
    assert (np.diff(look.box_scores) <= 0).all()
    np.testing.assert_allclose(look.box_scores, output.scores[row].sort(descending=True).values[:3])
    best = output.scores[row].argsort(descending=True)[:3]
    np.testing.assert_array_equal(look.boxes, output.grid.boxes(best))
    np.testing.assert_array_equal(look.scores.ravel(), output.scores[row])
    np.testing.assert_array_equal(look.strength, np.ones(3))
    assert (look.crops.size, look.picture.size) == (0, 0)


def test_its_crops_are_the_pixels_inside_its_boxes(image):
    output = make_model()(image / 255)
    padded = np.pad(image[1].permute(1, 2, 0).numpy(), ((99, 99), (99, 99), (0, 0)))
    for seen in (image / 255, Sources([open_image(each) for each in image])):
        look = look_at(output, 1, size=(64, 80), seen=seen)
        for (left, top, right, bottom), crop in zip(look.boxes, look.crops, strict=True):
            np.testing.assert_array_equal(crop, padded[top + 99 : bottom + 99, left + 99 : right + 99])


@pytest.mark.parametrize("changes", [{"system": "cnn"}, {"selection": {"name": "exhaustive"}}])
def test_who_looks_everywhere_has_chosen_nothing(image, changes):
    look = look_at(make_model(**changes)(image / 255), size=(64, 80), seen=image / 255)
    assert (len(look.boxes), len(look.crops), look.scores.size, len(look.box_scores)) == (0, 0, 0, 0)


def test_glimpses_have_no_scores_and_crops_of_one_size(image):
    output = make_model(system="spatial", options={"k": 2})(image / 255)
    look = look_at(output, size=(64, 80), seen=image / 255)
    np.testing.assert_array_equal(look.boxes, output.boxes[0])
    assert (len(look.crops), len(look.box_scores), look.scores.size) == (2, 0, 0)


def test_a_look_at_a_prepared_image_is_in_pixels_of_the_file(image):
    output = make_model()(image / 255)
    preparation = Preparation(resize=(72, 100), crop=(64, 80))  # 4 rows and 10 columns are cut off at each side
    plain = look_at(output, size=(64, 80), seen=image / 255)
    placed = look_at(output, size=(144, 300), preparation=preparation, seen=image / 255)
    scale, shift = np.array([3, 2, 3, 2]), np.array([10, 4, 10, 4])
    np.testing.assert_array_equal(placed.boxes, (plain.boxes + shift) * scale)
    np.testing.assert_allclose(placed.extent, (np.array(plain.extent) + shift) * scale)
    np.testing.assert_array_equal(placed.crops, plain.crops)


def test_the_score_map_spans_the_cells_its_patches_are_centered_on(image):
    output = make_model(extraction={"patch": 20})(image / 255)
    look = look_at(output, size=(64, 80))
    (left, top, right, bottom), (rows, cols) = look.extent, look.scores.shape
    boxes = output.grid.boxes(torch.arange(rows * cols)).double().reshape(rows, cols, 4)
    x = left + (torch.arange(cols) + 0.5) * (right - left) / cols
    y = top + (torch.arange(rows) + 0.5) * (bottom - top) / rows
    # Corners are whole pixels, so a center may lie half a pixel off.
    assert_close((boxes[0, :, 0] + boxes[0, :, 2]) / 2, x.double(), atol=0.5, rtol=0)
    assert_close((boxes[:, 0, 1] + boxes[:, 0, 3]) / 2, y.double(), atol=0.5, rtol=0)


def test_a_single_cell_is_as_wide_as_its_patch():
    assert Grid(torch.tensor([5]), torch.tensor([10]), (30, 40)).extent == (10.0, 5.0, 50.0, 35.0)


def test_of_a_soft_selection_only_what_is_in_a_slot_was_looked_at(image):
    model = make_model(selection={"name": "perturbed", "k": 3, "num_samples": 8, "sigma": 0.3, "discrete": False})
    output = model(image / 255)
    used = output.selection.used
    assert not used.all()  # one of the two images needs fewer
    for row in range(2):
        look = look_at(output, row, size=(64, 80))
        assert sorted(look.boxes.tolist()) == sorted(output.boxes[row, used[row]].tolist())
        scores = output.scores[row, output.selection.index[row, used[row]]]
        np.testing.assert_allclose(look.box_scores, scores.sort(descending=True).values)


def test_slots_are_blends_of_their_boxes_and_a_box_is_as_strong_as_its_share(image):
    model = make_model(selection={"name": "perturbed", "k": 3, "num_samples": 8, "sigma": 0.3}).train()
    output = model(image / 255)
    look = look_at_slots(output, 1, size=(64, 80), seen=image / 255)
    used = output.selection.used[1]
    weight = output.selection.weight[1, :, used]  # K S
    np.testing.assert_allclose(look.strength, weight.sum(dim=0).clamp(max=1), rtol=1e-5)
    padded = np.pad(image[1].permute(1, 2, 0).double().numpy(), ((99, 99), (99, 99), (0, 0)))
    patches = np.stack([padded[t + 99 : b + 99, x + 99 : r + 99] for x, t, r, b in look.boxes])
    blends = np.einsum("ks,spqc->kpqc", weight.double().numpy(), patches)
    np.testing.assert_allclose(look.crops, blends, atol=0.51)
    assert len(look.box_scores) == 0


def test_a_picture_is_as_large_as_it_is_ever_shown():
    small, large = (torch.randint(256, (3, 30, side), dtype=torch.uint8) for side in (40, 3 * SHOWN_PX))
    np.testing.assert_array_equal(make_picture(small), small.permute(1, 2, 0))
    assert make_picture(large).shape == make_picture(open_image(large)).shape == (10, SHOWN_PX, 3)
