from itertools import combinations

import numpy as np
import pytest

from saccade.drawing.layout import BADGE_IN, HEIGHT_IN, WIDTH_IN, arrange, place_badges

NOTHING = np.zeros((0, 4), int)


def area_in_common(one, other) -> float:
    across = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    down = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    return max(0.0, across) * max(0.0, down)


@pytest.mark.parametrize("size", [(200, 200), (480, 640), (3000, 4000), (1250, 500), (500, 2500), (60, 3000)])
@pytest.mark.parametrize("count", [0, 1, 2, 4, 5, 10, 16])
@pytest.mark.parametrize("crop", [(40, 40), (100, 50), (30, 90)])
def test_pictures_keep_their_shape_and_their_distance(size, count, crop):
    layout = arrange(size, crop, count)
    assert len(layout.crops) == count
    assert layout.size[0] <= WIDTH_IN + 1e-9
    assert layout.size[1] <= HEIGHT_IN + 1e-9
    for place, shape in [(layout.picture, size), *((crop_place, crop) for crop_place in layout.crops)]:
        left, bottom, width, height = place
        assert height / width == pytest.approx(shape[0] / shape[1])
        assert min(left, bottom) >= -1e-9
        assert left + width <= layout.size[0] + 1e-9
        assert bottom + height <= layout.size[1] + 1e-9
    for one, other in combinations([layout.picture, *layout.crops], 2):
        assert area_in_common(one, other) < 1e-9


@pytest.mark.parametrize("count", [1, 4, 9, 16])
def test_patches_beside_a_picture_end_level_with_it(count):
    layout = arrange((480, 640), (40, 40), count)
    assert layout.crops[0][1] + layout.crops[0][3] == pytest.approx(layout.size[1])
    assert min(bottom for _, bottom, _, _ in layout.crops) == pytest.approx(0)


def test_fewer_inches_are_the_same_layout_smaller():
    full, half = arrange((480, 640), (40, 40), 5), arrange((480, 640), (40, 40), 5, width_in=WIDTH_IN / 2)
    np.testing.assert_allclose(np.array(half.crops), np.array(full.crops) / 2)
    np.testing.assert_allclose(half.size, np.array(full.size) / 2)


@pytest.mark.parametrize("patch", [20, 60, 200])
@pytest.mark.parametrize("together", [True, False])
def test_no_number_hides_another(patch, together):
    rng = np.random.default_rng(patch)
    spread_px = patch if together else 600
    corner = 300 + rng.integers(0, spread_px, (16, 2)) - spread_px // 2
    boxes = np.concatenate([corner, corner + patch], axis=1)
    px_per_in = 100
    spots = place_badges(boxes, NOTHING, (640, 640), px_per_in)
    wide, high = (side * px_per_in for side in BADGE_IN)
    for x, y in spots:
        assert wide / 2 <= x <= 640 - wide / 2
        assert high / 2 <= y <= 640 - high / 2
    hidden = [(x - wide / 2, y - high / 2, wide, high) for x, y in spots]
    worst = max(area_in_common(one, other) for one, other in combinations(hidden, 2))
    assert worst <= 0.1 * wide * high
