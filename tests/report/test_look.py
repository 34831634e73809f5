import numpy as np
import pytest
import torch

from saccade.config import ModelConfig
from saccade.extraction import Grid
from saccade.model import PatchSelectionModel
from saccade.report.look import extent, glance_look, look_at
from saccade.runs import RunFolder
from saccade.systems import CNN

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
def image() -> torch.Tensor:
    return torch.randint(256, (3, 64, 80), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_a_look_is_what_the_model_says_of_itself(image):
    torch.manual_seed(0)
    model = PatchSelectionModel.from_config(ModelConfig(**STAGES)).eval()
    look, probability = look_at(model, image, torch.tensor([[1, 2, 3, 4]]))
    with torch.no_grad():
        output = model(image[None] / 255)
    torch.testing.assert_close(probability, output.logits[0].softmax(0))
    assert (np.diff(look.values) <= 0).all()
    np.testing.assert_allclose(look.values, output.scores[0].sort(descending=True).values[:3])
    assert {tuple(box) for box in look.boxes.tolist()} == {tuple(box) for box in output.boxes[0].tolist()}
    np.testing.assert_array_equal(look.scores.ravel(), output.scores[0])
    np.testing.assert_array_equal(look.truth, [[1, 2, 3, 4]])


def test_its_crops_are_the_pixels_inside_its_boxes(image):
    look = look_at(PatchSelectionModel.from_config(ModelConfig(**STAGES)).eval(), image).look
    padded = np.pad(look.image, ((99, 99), (99, 99), (0, 0)))
    for (left, top, right, bottom), crop in zip(look.boxes, look.crops, strict=True):
        np.testing.assert_array_equal(crop, padded[top + 99 : bottom + 99, left + 99 : right + 99])


def test_a_network_without_patches_leaves_them_empty(image):
    model = CNN(ModelConfig(**STAGES | {"system": "cnn"})).eval()
    look, probability = look_at(model, image)
    assert probability.sum() == pytest.approx(1)
    assert (len(look.boxes), len(look.crops), look.scores.size, len(look.values)) == (0, 0, 0, 0)


def test_the_score_map_spans_the_cells_its_patches_are_centered_on():
    model = PatchSelectionModel.from_config(
        ModelConfig(**STAGES | {"image_size": (64, 64), "extraction": {"patch": 20}})
    )
    grid = model.grid((64, 64))
    left, top, right, bottom = extent(grid)
    rows, cols = grid.shape
    boxes = grid.boxes(torch.arange(grid.num_candidates)).double().reshape(rows, cols, 4)
    x = left + (torch.arange(cols) + 0.5) * (right - left) / cols
    y = top + (torch.arange(rows) + 0.5) * (bottom - top) / rows
    torch.testing.assert_close((boxes[0, :, 0] + boxes[0, :, 2]) / 2, x.double())
    torch.testing.assert_close((boxes[:, 0, 1] + boxes[:, 0, 3]) / 2, y.double())


def test_a_single_cell_is_as_wide_as_its_patch():
    assert extent(Grid(torch.tensor([5]), torch.tensor([10]), (30, 40))) == (10.0, 5.0, 50.0, 35.0)


def test_the_strength_of_a_box_is_its_share_in_all_patches(made_run):
    for step in RunFolder(made_run).panel_steps():
        glance = RunFolder(made_run).panel(step).glances[0]
        look = glance_look(glance)
        assert look.strength.sum() == pytest.approx(len(glance.patches), abs=1e-4)  # each patch is one whole
        assert look.extent == (0, 0, 64, 64)
        assert len(look.values) == 0
