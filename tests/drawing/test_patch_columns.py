"""The paper's qualitative figure: a column an image, its patches below it as they were cut."""

import numpy as np

from saccade.drawing import Caption
from saccade.drawing.overlay import RIGHT, WRONG
from saccade.drawing.patch_columns import MOST, patch_columns
from saccade.looking import Look


def make_look(count: int, seed: int) -> Look:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (1 + count, 12, 12, 3), dtype=np.uint8)
    boxes = np.array([[place, 2, place + 12, 14] for place in range(count)]).reshape(-1, 4)
    return Look((40, 60), boxes=boxes, crops=pixels[1:], picture=pixels[0])


def test_every_column_has_its_image_its_boxes_and_its_patches_in_order():
    looks = [make_look(3, 0), make_look(2, 1)]
    figure = patch_columns(looks, [Caption("50", 0.9, "50"), Caption("50", 0.9, "70")])
    places = np.array(figure.axes).reshape(4, 2)
    for look, (top, *below) in zip(looks, places.T, strict=True):
        shown = [np.asarray(axes.images[0].get_array()) for axes in below if axes.images]
        assert len(shown) == len(look.crops)
        assert all(np.array_equal(one, other) for one, other in zip(shown, look.crops, strict=True))
        assert np.array_equal(np.asarray(top.images[0].get_array()), look.picture)
        assert [(box.get_x(), box.get_y(), box.get_width()) for box in top.patches] == [
            (left, upper, right - left) for left, upper, right, _ in look.boxes.tolist()
        ]
    titles = [axes.title for axes in places[0]]
    assert [(title.get_text(), title.get_color()) for title in titles] == [("50", RIGHT), ("50, but\n70", WRONG)]


def test_more_patches_than_can_be_seen_are_left_out():
    figure = patch_columns([make_look(MOST + 3, 0)], [Caption("a", 0.5)])
    assert len(figure.axes) == 1 + MOST
    assert len(figure.axes[0].patches) == MOST
