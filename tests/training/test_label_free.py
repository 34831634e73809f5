"""The warm-up's target against a loop over candidates, and its loss against closed forms."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from saccade import ModelConfig, PatchSelectionModel
from saccade.extraction import Grid, Grids
from saccade.images import Sources, make_view, open_image
from saccade.training.label_free import label_free_loss, missing_detail


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def detail_by_loop(image, view, grid):
    """Candidate by candidate, in double precision; boxes cut at the image's border."""
    upsampled = F.interpolate(view, size=image.shape[-2:], mode="bilinear", align_corners=False)
    residual = (image - upsampled).double() ** 2
    means = []
    for left, top, right, bottom in grid.boxes(torch.arange(grid.num_candidates)).tolist():
        width, height = right - left, bottom - top
        wide, high = round(0.75 * width), round(0.75 * height)  # the middle
        left, top = left + (width - wide) // 2, top + (height - high) // 2
        right, bottom = left + wide, top + high
        inside = residual[:, :, max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
        means.append(inside.mean(dim=(1, 2, 3)) if inside.numel() else inside.new_zeros(len(image)))
    return torch.stack(means, dim=1)


def test_detail_equals_a_loop_over_candidates():
    config = ModelConfig(num_classes=2, image_size=(90, 121), view={"scale": 1 / 3}, extraction={"patch": [20, 31]})
    model = PatchSelectionModel.from_config(config)
    image = torch.rand(2, 3, 90, 121, generator=seeded(0))
    grid = model.grid((90, 121))
    assert grid.left_px.min() < 0  # some patches leave the image
    view = model.view(image)
    assert_close(missing_detail(image, view, grid), detail_by_loop(image, view, grid).float())


def test_detail_of_candidates_outside_the_image_is_zero():
    grid = Grid(torch.tensor([-9, 3]), torch.tensor([-4, 30]), (8, 8))
    image = torch.rand(1, 1, 16, 32, generator=seeded(0))
    view = make_view(image, 1 / 2)
    assert_close(missing_detail(image, view, grid), detail_by_loop(image, view, grid).float())
    assert (missing_detail(image, view, grid)[0, :2] == 0).all()


def test_detail_survives_cancellation():
    """A faint candidate after a megapixel of strong residual: float32 sums would be off by far more than its value."""
    rows, cols = torch.arange(1024), torch.arange(1024)
    image = (100.0 * ((rows[:, None] + cols) % 2))[None, None]  # 50² away from its flat view, everywhere
    image[..., -8:, -8:] = 50.0
    grid = Grid(torch.tensor([1016]), torch.tensor([1016]), (8, 8))
    view = torch.full((1, 1, 512, 512), 50.0 + 1e-2)
    assert_close(missing_detail(image, view, grid), torch.full((1, 1), 1e-4), rtol=1e-2, atol=0)


def test_loss_is_zero_for_the_standardized_target_and_one_for_no_opinion():
    target = torch.rand(4, 50, generator=seeded(0))
    std, mean = torch.std_mean(target, dim=1, keepdim=True, correction=0)
    assert_close(label_free_loss((target - mean) / std, target), torch.tensor(0.0))
    assert_close(label_free_loss(torch.zeros(4, 50), target), torch.tensor(1.0))


def test_loss_ignores_each_images_level_and_contrast():
    target, scores = torch.rand(2, 3, 40, generator=seeded(0))
    scale = torch.tensor([[1e-3], [1.0], [50.0]])
    assert_close(label_free_loss(scores, target * scale + scale), label_free_loss(scores, target), rtol=1e-3, atol=0)


@pytest.mark.parametrize("level", [0.0, 0.25])
@pytest.mark.parametrize("focus", [0.0, 2.0])
def test_a_flat_image_asks_for_equal_scores(focus, level):
    scores = torch.zeros(1, 20, requires_grad=True)
    label_free_loss(scores, torch.full((1, 20), level), focus=focus).backward()
    assert scores.grad.abs().max() < 1e-7


def test_with_focus_scores_are_pulled_towards_shares_of_the_powered_detail():
    target = torch.rand(3, 40, generator=seeded(0)) * 1e-20  # its square is below what float32 holds
    scores = torch.randn(3, 40, generator=seeded(1), requires_grad=True)
    label_free_loss(scores, target, focus=2.0).backward()
    powers = target.double().square()
    shares = powers / powers.sum(dim=1, keepdim=True)
    assert_close(scores.grad, ((scores.softmax(dim=1) - shares) / 3).float())


@pytest.mark.parametrize("focus", [0.0, 2.0])
def test_the_scorer_learns_it_without_labels(focus):
    """Fine stripes on blank paper: after the warm-up the highest score is at the stripes, in places never shown."""
    torch.manual_seed(0)
    config = ModelConfig(
        num_classes=2,
        image_size=(64, 64),
        channels=1,
        view={"scale": 1 / 4},
        scorer={"name": "conv", "pool": 2},
        selection={"name": "perturbed", "k": 1},
        extraction={"patch": 16},
    )
    model, generator = PatchSelectionModel.from_config(config), seeded(0)
    grid = model.grid((64, 64))
    optimizer = torch.optim.AdamW(model.scorer.parameters(), lr=5e-3)
    for _ in range(60):
        view, target, _ = _striped(model, grid, generator)
        optimizer.zero_grad()
        label_free_loss(model.scorer(view).scores, target, focus=focus).backward()
        optimizer.step()
    view, _, centers = _striped(model, grid, generator)
    boxes = grid.boxes(model.scorer(view).scores.argmax(dim=1))
    assert ((boxes[:, :2] <= centers) & (centers < boxes[:, 2:])).all(dim=1).float().mean() > 0.9


def _striped(model, grid, generator):
    image = torch.ones(32, 1, 64, 64)
    corners = torch.randint(56, (32, 2), generator=generator)
    for picture, (x, y) in zip(image, corners.tolist(), strict=True):
        picture[:, y : y + 8, x : x + 8 : 2] = 0
    view = model.view(image)
    return view, missing_detail(image, view, grid), corners + 4


def several(sizes, side=96, step=8):
    """Candidates of several sizes around the cells of a square image."""
    corners = [torch.arange(side // step) * step + (step - size) // 2 for size in sizes]
    return Grids(tuple(Grid(c, c, (size, size)) for c, size in zip(corners, sizes, strict=True)), (16, 16))


def checkered(spot, count=16, side=96):
    """A square of fine checks somewhere on faint noise; its corners."""
    image = 0.1 * torch.rand(count, 1, side, side, generator=seeded(0))
    corners = torch.randint(side - spot + 1, (count, 2), generator=seeded(1))
    checks = ((torch.arange(spot)[:, None] + torch.arange(spot)) % 2).float()
    for picture, (x, y) in zip(image, corners.tolist(), strict=True):
        picture[0, y : y + spot, x : x + spot] = checks
    return image, corners


def test_every_size_has_the_mean_and_spread_of_the_first():
    image, _ = checkered(12)
    view, grid = make_view(image, 1 / 4), several([16, 24, 48])
    alone = [detail_by_loop(image, view, each) for each in grid.grids]
    expected = [
        alone[0].mean(1, keepdim=True)
        + (each - each.mean(1, keepdim=True)) * alone[0].std(1, keepdim=True) / each.std(1, keepdim=True)
        for each in alone
    ]
    assert_close(missing_detail(image, view, grid), torch.cat(expected, dim=1).float(), atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize(("spot", "size"), [(8, 0), (12, 0), (44, 1), (60, 1)])
def test_a_spot_stands_out_most_at_its_own_size(spot, size):
    """By means no large one ever stands out, by sums every one: it has nine times the pixels."""
    image, corners = checkered(spot)
    view, grid = make_view(image, 1 / 4), several([16, 48])
    best = missing_detail(image, view, grid).argmax(dim=1)
    assert (best // 144 == size).all()
    boxes = grid.boxes(best)
    common = torch.minimum(boxes[:, 2:], corners + spot) - torch.maximum(boxes[:, :2], corners)
    assert (common >= 0.8 * min(spot, 16 if size == 0 else 48)).float().mean() > 0.85  # and it is looked at
    small, large = (detail_by_loop(image, view, each).amax(dim=1) for each in grid.grids)
    assert (large < 1.1 * small).all()
    assert (9 * large > small).all()


def test_where_nothing_stands_out_no_size_is_preferred():
    image = torch.rand(96, 1, 96, 96, generator=seeded(2))
    best = missing_detail(image, make_view(image, 1 / 4), several([16, 48])).argmax(dim=1)
    assert 0.3 < (best < 144).float().mean() < 0.7  # a fair coin is within it in 9999 of 10,000 cases


def test_several_sizes_of_sources_are_those_of_the_image():
    image, _ = checkered(12, count=2)
    view, grid = make_view(image, 1 / 4), several([16, 48])
    expected = missing_detail(image, view, grid)
    assert_close(
        missing_detail(Sources([open_image(one) for one in image]), view, grid), expected, atol=1e-5, rtol=1e-3
    )
