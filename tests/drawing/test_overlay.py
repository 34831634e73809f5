import io

import numpy as np
import pytest
from PIL import Image

from saccade.drawing.layout import arrange
from saccade.drawing.overlay import CAPTION_IN, MAX_CROPS, Caption, heat, overlay
from saccade.looking import Look

DPI = 100
PATCH = 60


def look_at_nothing(size=(480, 640), boxes=((100, 200, 160, 260),), **more) -> Look:
    boxes = np.array(boxes)
    crops = np.stack([np.full((PATCH, PATCH, 3), 40 + 5 * number, np.uint8) for number in range(len(boxes))])
    picture = np.zeros((*size, 3), np.uint8)
    return Look(size, picture=picture, boxes=boxes, strength=np.ones(len(boxes)), crops=crops, **more)


def render(figure) -> np.ndarray:
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=DPI)
    return np.asarray(Image.open(buffer).convert("RGB")).astype(int)


def picture_of(pixels: np.ndarray, look: Look) -> tuple[np.ndarray, float]:
    """The part of a rendered figure that is the picture, and its pixels per pixel of the image."""
    left, bottom, width, height = arrange(look.size, look.crops.shape[1:3], len(look.crops)).picture
    last = round(pixels.shape[0] - bottom * DPI)
    part = pixels[max(0, last - round(height * DPI)) : last, round(left * DPI) : round((left + width) * DPI)]
    return part, width * DPI / look.size[1]


@pytest.mark.parametrize("size", [(200, 200), (480, 640), (1250, 500), (500, 2500), (3000, 4000)])
@pytest.mark.parametrize("caption", [None, Caption("a", 0.5, "b")])
def test_a_box_is_drawn_where_it_is(size, caption):
    height, width = size
    box = (width // 4, height // 3, width // 4 + width // 5, height // 3 + height // 5)
    look = look_at_nothing(size, [box])
    part, scale = picture_of(render(overlay(look, caption)), look)
    rows, columns = np.nonzero((part > 200).all(axis=2))  # white on black
    edges = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    # The line is 1.4 points wide, half of it outside; and a pixel for rounding.
    np.testing.assert_allclose(edges, np.array(box) * scale + 0.7 / 72 * DPI * np.array([-1, -1, 1, 1]), atol=1.6)


def test_true_boxes_are_dashed_in_a_color_of_their_own():
    truth = np.array([[300, 100, 420, 220]])
    look = look_at_nothing(truth=truth)
    part, scale = picture_of(render(overlay(look)), look)
    cyan = (part[..., 0] < 100) & (part[..., 1] > 180) & (part[..., 2] > 200)
    rows, columns = np.nonzero(cyan)
    edges = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    np.testing.assert_allclose(edges, truth[0] * scale, atol=4)
    along = cyan[round(100 * scale), round(300 * scale) : round(420 * scale)]
    assert 0.3 < along.mean() < 0.9
    assert np.abs(np.diff(along.astype(int))).sum() > 6  # it goes on and off


def test_patches_stand_where_the_layout_says_and_show_their_pixels():
    look = look_at_nothing(boxes=[(i * 60, i * 40, i * 60 + 60, i * 40 + 60) for i in range(5)])
    pixels = render(overlay(look))
    for number, (left, bottom, width, height) in enumerate(arrange(look.size, (PATCH, PATCH), 5).crops):
        y, x = round(pixels.shape[0] - (bottom + height / 2) * DPI), round((left + width / 2) * DPI)
        assert (pixels[y, x] == 40 + 5 * number).all()


def test_the_score_map_lights_up_its_cell_and_leaves_the_low_ones_alone():
    scores = np.zeros((6, 8), np.float32)
    scores[2, 5] = 1
    look = look_at_nothing(boxes=[(0, 0, 60, 60)], scores=scores, extent=(0.0, 0.0, 640.0, 480.0))
    part, scale = picture_of(render(overlay(look)), look)
    light = part.sum(axis=2)
    center = light[round(200 * scale), round(440 * scale)]  # of cell 2, 5: cells are 80 pixels
    assert center > 300
    assert center == pytest.approx(light[round(80 * scale) :, round(80 * scale) :].max(), rel=0.05)
    assert light[round(400 * scale) :, : round(300 * scale)].max() == 0


def test_heat_is_clear_below_bright_above_and_gray_where_no_candidate_is():
    colors = heat(np.array([[0.0, 0.3, 0.7, 1.0, np.nan]]))
    alpha = colors[0, :, 3]
    assert alpha[0] == 0
    assert colors[0, 4].tolist() == [0.5, 0.5, 0.5, 0.35]
    assert (np.diff(alpha[:4]) > 0).all()
    assert alpha[1] < 0.1
    brightness = colors[0, :4, :3] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(brightness) > 0).all()


@pytest.mark.parametrize(
    ("caption", "text", "dominant"),
    [
        (Caption("70", 0.9876, "70"), "✓ 70 (98% sure)", 1),
        (Caption("50", 0.871, "70"), "✗ 50 (87% sure), but it is 70", 0),
        (Caption("50", 1.0), "50 (100% sure)", None),
    ],
)
def test_the_answer_is_green_if_right_and_red_if_wrong(caption, text, dominant):
    assert caption.text == text
    pixels = render(overlay(look_at_nothing(), caption))
    strip = pixels[: round(CAPTION_IN * DPI) - 1].reshape(-1, 3)
    ink = strip[strip.sum(axis=1) < 400]
    assert len(ink) > 100
    if dominant is None:
        assert np.ptp(ink.mean(axis=0)) < 2
    else:
        assert ink.mean(axis=0).argmax() == dominant
        assert np.ptp(ink.mean(axis=0)) > 50


def test_a_long_name_stays_inside():
    caption = Caption("a very long name of a class " * 3, 0.5, "another name that is just as long " * 2)
    pixels = render(overlay(look_at_nothing(truth=np.array([[0, 0, 10, 10]])), caption))
    strip = pixels[: round(CAPTION_IN * DPI) - 1]
    reddish = (strip[..., 0] - strip[..., 1]) > 60
    dark_gray = (strip.max(axis=2) < 100) & (np.ptp(strip, axis=2) < 20)
    assert np.nonzero(reddish.any(axis=0))[0].max() < np.nonzero(dark_gray.any(axis=0))[0].min()


def test_more_patches_than_can_be_seen_are_left_out():
    boxes = [(i * 10, 0, i * 10 + 60, 60) for i in range(40)]
    figure = overlay(look_at_nothing(boxes=boxes, box_scores=np.linspace(1, 0, 40)))
    patches, _ = figure.axes
    assert len(patches.images) == len(patches.texts) == MAX_CROPS


def test_faint_boxes_are_faint():
    look = look_at_nothing(boxes=[(100, 100, 160, 160), (300, 100, 360, 160), (500, 100, 560, 160)])
    part, scale = picture_of(render(overlay(look._replace(strength=np.array([1.0, 0.4, 0.0])))), look)
    strong, faint, none = (
        part[: round(200 * scale), round(x * scale) : round((x + 100) * scale)].max() for x in (80, 280, 480)
    )
    assert strong > 240
    assert 60 < faint < 160
    assert none == 0
