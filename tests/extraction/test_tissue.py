"""White glass is never a candidate: against sums over boxes one by one, and in what a model looks at."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import tiny_recipe

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.drawing.overlay import heat
from saccade.extraction.grid import Grid
from saccade.extraction.tissue import LEAST, find_tissue, on_tissue, share_of
from saccade.looking import look_at


def grid(step: int = 7, patch: tuple[int, int] = (12, 16), rows: int = 9, cols: int = 11) -> Grid:
    return Grid(torch.arange(rows) * step - 5, torch.arange(cols) * step - 3, patch)


def test_shares_are_means_over_boxes():
    mask = torch.rand(2, 33, 41, generator=torch.Generator().manual_seed(0)) < 0.3
    image_size, places = (66, 82), grid()
    shares = share_of(mask, places, image_size)
    for number, (left, top, right, bottom) in enumerate((places.boxes(torch.arange(99)) / 2).tolist()):
        x, y = (
            slice(max(int(np.floor(left)), 0), int(np.ceil(right))),
            slice(max(int(np.floor(top)), 0), int(np.ceil(bottom))),
        )
        expected = mask[:, y, x].float().flatten(1).mean(1).nan_to_num() if mask[:, y, x].numel() else torch.zeros(2)
        assert torch.allclose(shares[:, number], expected, atol=1e-6)


def test_of_a_slide_with_hardly_any_tissue_all_stays():
    view = torch.ones(2, 3, 33, 41)
    view[0, :, 10:20, 10:20] = 0.5
    inside = on_tissue(grid(), view, (66, 82), k=4).inside
    assert inside is not None
    assert torch.equal(inside[0], share_of(find_tissue(view), grid(), (66, 82))[0] >= LEAST)
    assert 4 <= int(inside[0].sum()) < 99
    assert bool(inside[1].all())
    padded = grid().padded(torch.tensor([[66, 60], [40, 60]]))
    both = on_tissue(padded, view, (66, 82), k=4).inside
    assert padded.inside is not None
    assert both is not None
    assert torch.equal(both[0], inside[0] & padded.inside[0])
    assert torch.equal(both[1], padded.inside[1])


@pytest.mark.parametrize("name", ["hard", "perturbed", "diverse", "random"])
@pytest.mark.parametrize("training", [False, True])
def test_glass_is_never_looked_at(name, training):
    torch.manual_seed(0)
    stages = vars(tiny_recipe(Path("none")).model)
    stages |= {"view": {"scale": 0.5, "tissue": True}, "selection": {"name": name, "k": 3}}
    model = build_model(ModelConfig(**stages, num_classes=2, image_size=(128, 160))).train(training)
    image = torch.full((2, 3, 128, 160), 0.95)
    image[0, :, 40:90, 30:80] = torch.rand(3, 50, 50) * 0.7
    image[1, :, 70:, 90:] = torch.rand(3, 58, 70) * 0.7
    output = model(image)
    assert output.boxes is not None
    for picture, boxes, used in zip(image, output.boxes.tolist(), output.used, strict=True):
        for (left, top, right, bottom), chosen in zip(boxes, used.tolist(), strict=True):
            assert not chosen or picture[:, max(top, 0) : bottom, max(left, 0) : right].amin() < 0.84
    look = look_at(output, 0, size=(128, 160))
    assert np.isnan(look.scores).any()  # drawn gray: there was nothing to choose
    known = look.scores[~np.isnan(look.scores)]
    assert known.min() >= 0
    assert known.max() <= 1
    colors = heat(look.scores)
    assert np.allclose(colors[np.isnan(look.scores)], (0.5, 0.5, 0.5, 0.35))
