"""Where a model looked: what it says of itself, in pixels of the file."""

from typing import Any

import numpy as np
import pytest
import torch

from saccade import ModelConfig, Preparation, build_model, look_at
from saccade.extraction import Grid, extract
from saccade.images import open_image
from saccade.looking import SHOWN_PX, look_at_slots, make_picture
from saccade.output import Output
from saccade.selection.selection import identity_selection

STAGES = {
    "num_classes": 3,
    "image_size": (64, 80),
    "view": {"scale": 0.5},
    "scorer": {"name": "conv", "widths": [4], "pool": 4},
    "selection": {"name": "perturbed", "k": 3, "num_samples": 50},
    "extraction": {"patch": [20, 24]},
    "features": {"name": "ats", "width": 8},
}


@pytest.fixture
def seen() -> torch.Tensor:
    bytes_ = torch.randint(256, (2, 3, 64, 80), generator=torch.Generator().manual_seed(0))
    return bytes_.float() / 255


def make(**stages) -> Any:
    torch.manual_seed(0)
    return build_model(ModelConfig(**{**STAGES, **stages})).eval()


@torch.no_grad()
def test_a_look_is_what_the_model_says_of_itself(seen):
    output = make()(seen)
    look = look_at(output, 1, size=(64, 80))
    assert (np.diff(look.box_scores) <= 0).all()
    np.testing.assert_allclose(look.box_scores, output.scores[1].sort(descending=True).values[:3])
    assert {tuple(box) for box in look.boxes.tolist()} == {tuple(box) for box in output.boxes[1].tolist()}
    np.testing.assert_array_equal(look.scores.ravel(), output.scores[1])
    assert look.strength.tolist() == [1, 1, 1]
    assert len(look.crops) == 0  # nobody asked for them


@torch.no_grad()
def test_its_crops_are_the_pixels_inside_its_boxes(seen):
    look = look_at(make()(seen), size=(64, 80), seen=seen)
    picture = (seen[0] * 255).round().byte().permute(1, 2, 0).numpy()
    padded = np.pad(picture, ((99, 99), (99, 99), (0, 0)))
    for (left, top, right, bottom), crop in zip(look.boxes, look.crops, strict=True):
        np.testing.assert_array_equal(crop, padded[top + 99 : bottom + 99, left + 99 : right + 99])


@torch.no_grad()
def test_places_are_told_in_pixels_of_the_file(seen):
    output = make()(seen)
    plain = look_at(output, size=(64, 80))
    # A file of 240×280, resized to 120×140, of which the center of 64×80 was seen: from (30, 28) on, at half size.
    preparation = Preparation(resize=(120, 140), crop=(64, 80))
    look = look_at(output, size=(240, 280), preparation=preparation)
    corner = np.array([30, 28, 30, 28])
    np.testing.assert_array_equal(look.boxes, (plain.boxes + corner) * 2)
    np.testing.assert_allclose(look.extent, (plain.extent + corner) * 2)
    np.testing.assert_array_equal(look.scores, plain.scores)


@torch.no_grad()
@pytest.mark.parametrize("stages", [{"system": "cnn"}, {"selection": {"name": "exhaustive"}}])
def test_to_look_everywhere_is_no_choice(seen, stages):
    output = make(**stages)(seen)
    look = look_at(output, size=(64, 80), seen=seen)
    assert not output.chooses
    assert (len(look.boxes), len(look.crops), look.scores.size, len(look.box_scores)) == (0, 0, 0, 0)


def test_slots_of_a_training_are_blends(seen):
    model = make().train()
    model.selection.sigma = 0.5
    torch.manual_seed(0)
    output = model(seen)
    look = look_at_slots(output, 1, size=(64, 80), seen=seen)
    assert look.strength.sum() == pytest.approx(3, abs=1e-4)  # each slot is one whole
    assert len(look.boxes) == int(output.selection.used[1].sum()) > 3
    blends = extract(seen, output.selection, output.grid)[1].detach()
    assert np.abs(look.crops.transpose(0, 3, 1, 2) / 255 - blends.numpy()).max() <= 0.5 / 255 + 1e-6
    assert len(look.box_scores) == 0


def test_the_score_map_spans_the_cells_its_patches_are_centered_on():
    grid = make(image_size=(64, 64), extraction={"patch": 20}).grid((64, 64))
    left, top, right, bottom = grid.extent
    rows, cols = grid.shape
    boxes = grid.boxes(torch.arange(grid.num_candidates)).double().reshape(rows, cols, 4)
    x = left + (torch.arange(cols) + 0.5) * (right - left) / cols
    y = top + (torch.arange(rows) + 0.5) * (bottom - top) / rows
    torch.testing.assert_close((boxes[0, :, 0] + boxes[0, :, 2]) / 2, x.double())
    torch.testing.assert_close((boxes[:, 0, 1] + boxes[:, 0, 3]) / 2, y.double())


def test_a_single_cell_is_as_wide_as_its_patch():
    assert Grid(torch.tensor([5]), torch.tensor([10]), (30, 40)).extent == (10.0, 5.0, 50.0, 35.0)


@torch.no_grad()
def test_of_a_soft_selection_only_what_is_in_a_slot_was_looked_at(seen):
    output = make(selection={"name": "perturbed", "k": 3, "num_samples": 8, "sigma": 0.3, "discrete": False})(seen)
    used = output.selection.used
    assert not used.all()  # one of the two images needs fewer
    for row in range(2):
        look = look_at(output, row, size=(64, 80))
        assert sorted(look.boxes.tolist()) == sorted(output.boxes[row, used[row]].tolist())
        scores = output.scores[row, output.selection.index[row, used[row]]]
        np.testing.assert_allclose(look.box_scores, scores.sort(descending=True).values)


@torch.no_grad()
def test_glimpses_have_no_scores_and_crops_of_one_size(seen):
    output = make(system="spatial", options={"k": 2})(seen)
    look = look_at(output, size=(64, 80), seen=seen)
    np.testing.assert_array_equal(look.boxes, output.boxes[0])
    assert (len(look.crops), len(look.box_scores), look.scores.size) == (2, 0, 0)


def test_a_picture_is_as_large_as_it_is_ever_shown():
    small, large = (torch.randint(256, (3, 30, side), dtype=torch.uint8) for side in (40, 3 * SHOWN_PX))
    np.testing.assert_array_equal(make_picture(small), small.permute(1, 2, 0))
    assert make_picture(large).shape == make_picture(open_image(large)).shape == (10, SHOWN_PX, 3)


def test_of_more_proposals_than_are_looked_at_only_those_that_are_count():
    """As in training of NTS-Net."""
    scores = torch.tensor([[0.1, 0.9, 0.5, 0.7]])
    selection = identity_selection(torch.tensor([[1, 3, 2]]), scores.dtype)
    boxes = torch.tensor([[[1, 1, 3, 3], [3, 3, 5, 5]]])
    output = Output(torch.zeros(1, 2), scores, scores, selection, boxes)
    look = look_at(output, size=(8, 8))
    assert look.boxes.tolist() == boxes[0].tolist()
    assert look.box_scores.tolist() == pytest.approx([0.9, 0.7])
