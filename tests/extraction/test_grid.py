"""Where patches lie: the released numbers, and that an aligned patch shows what its score saw."""

import pytest
import torch

from saccade.extraction import Grid, make_grid
from saccade.images import make_view, view_size
from saccade.scorer import ConvScorer


def grid_for(geometry, image_size, scale, patch):
    field = ConvScorer(tiles=geometry == "aligned").field
    view = view_size(image_size, scale)
    return make_grid(geometry, image_size=image_size, view_size=view, patch=patch, field=field)


@pytest.mark.parametrize(
    ("image", "scale", "shape", "stride"), [((960, 1280), 1 / 3, (39, 52), 24), ((1000, 1000), 1 / 4, (30, 30), 33)]
)
def test_stretched_grid_is_the_released_one(image, scale, shape, stride):
    grid = grid_for("stretched", image, scale, (100, 100))
    pad = (100 - stride) // 2
    assert grid.shape == shape
    assert grid.num_candidates == shape[0] * shape[1]
    assert grid.boxes(torch.tensor(0)).tolist() == [-pad, -pad, 100 - pad, 100 - pad]
    assert (grid.top_px.diff() == stride).all()
    assert (grid.left_px.diff() == stride).all()


def delta_scorer(tiles):
    """The paper's scorer with every kernel a single one in the middle: a score is the brightest pixel of its cell."""
    scorer = ConvScorer(1, widths=(1, 1, 1), tiles=tiles)
    for layer in scorer.layers:
        if isinstance(layer, torch.nn.Conv2d):
            torch.nn.init.zeros_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
            layer.weight.data[:, :, 1, 1] = 1.0
    return scorer


def distance_to_best_patch(geometry, image_size, scale, dot):
    """Pixels between a bright dot and the center of the patch whose score is highest, along x and y."""
    scorer = delta_scorer(geometry == "aligned")
    image = torch.zeros(1, 1, *image_size)
    image[0, 0, dot[1], dot[0]] = 1.0
    best = scorer(make_view(image, scale)).scores.argmax()
    left, top, right, bottom = grid_for(geometry, image_size, scale, (28, 28)).boxes(best).tolist()
    return abs((left + right) / 2 - (dot[0] + 0.5)), abs((top + bottom) / 2 - (dot[1] + 0.5))


SIZE, SCALE = (203, 331), 1 / 3
DOTS = [(x, y) for x in (0, 1, 14, 100, 165, 250, 317, 330) for y in (0, 3, 23, 24, 77, 150, 201, 202)]


def test_a_dot_is_centered_in_its_best_patch_everywhere():
    """Half a cell (12 px) is as near as any center can be guaranteed to come; two pixels allow for view rounding."""
    for dot in DOTS:
        assert max(distance_to_best_patch("aligned", SIZE, SCALE, dot)) <= 12 + 2, dot


def test_the_stretched_grid_misses_it():
    dots = [(x, x * 202 // 330) for x in range(30, 300, 10)]  # along the diagonal, where its receptive fields reach
    assert max(max(distance_to_best_patch("stretched", SIZE, SCALE, dot)) for dot in dots) > 12 + 2


@pytest.mark.parametrize("geometry", ["aligned", "stretched"])
@pytest.mark.parametrize("patch", [(100, 100), (31, 64), (7, 3)])
def test_candidates_run_row_by_row(geometry, patch):
    grid = grid_for(geometry, (203, 331), 1 / 3, patch)
    boxes = grid.boxes(torch.arange(grid.num_candidates))
    assert torch.equal(boxes[:, [1, 0]], torch.cartesian_prod(grid.top_px, grid.left_px))
    assert ((boxes[:, 2:] - boxes[:, :2]) == torch.tensor([patch[1], patch[0]])).all()


def test_a_box_is_left_top_right_bottom():
    grid = Grid(torch.tensor([0, 10]), torch.tensor([0, 7, 14]), (5, 4))
    assert grid.boxes(torch.tensor([[4]])).tolist() == [[[7, 10, 11, 15]]]


def test_a_candidate_is_in_the_picture_if_its_center_is():
    grid = Grid(torch.tensor([-4, 4, 12]), torch.tensor([-3, 7]), (8, 6))  # centers y 0 8 16, x 0 10
    size = torch.tensor([[17, 11], [16, 11], [9, 10], [1, 1]])
    expected = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [1, 0, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]).bool()
    assert torch.equal(grid.centered_in(size), expected)
