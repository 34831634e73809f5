"""Billiard tables: what the JSON says is what the picture shows, and every number is in sight."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import binary_dilation

from saccade.data.billiard import load_billiard
from saccade.data.billiard_render import COLOURS, Table, describe, draw_table, files, paths, render
from saccade.data.generate import make
from saccade.data.rendering.balls import DISC, DISC_ID
from saccade.data.rendering.table_room import paint_room

SIZE = (200, 200)
TABLES = [draw_table(index, seed=4, size=SIZE) for index in range(12)]


def alone(table: Table, place: int) -> np.ndarray:
    return render(table._replace(balls=(table.balls[place],)), SIZE).ids


@pytest.mark.parametrize("table", TABLES)
def test_no_number_is_hidden(table: Table):
    ids = render(table, SIZE).ids
    for place in range(len(table.balls)):
        disc = alone(table, place) == 1 + DISC_ID
        assert disc.sum() > 30
        assert (ids[disc] == place + 1 + DISC_ID).all()


@pytest.mark.parametrize("table", TABLES[:4])
def test_a_ball_fills_its_box_and_is_as_large_as_the_projection_says(table: Table):
    for place, ball in enumerate(describe(table)):
        ids = alone(table, place)
        rows, columns = np.nonzero(ids)
        left, top, right, bottom = ball["bbox"]
        assert (columns.min() - left, rows.min() - top) in {(i, j) for i in (0, 1) for j in (0, 1)}
        assert (right - columns.max(), bottom - rows.max()) in {(i, j) for i in (1, 2) for j in (1, 2)}
        depth = (table.balls[place].center - table.camera.eye) @ table.camera.forward
        radius_px = table.camera.focal_px / depth
        np.testing.assert_allclose((ids > 0).sum(), np.pi * radius_px**2, rtol=0.06)
        np.testing.assert_allclose((ids > DISC_ID).sum() / (ids > 0).sum(), DISC**2, rtol=0.15)


@pytest.mark.parametrize("table", [draw_table(index, seed=5, size=(1000, 1000)) for index in range(40)])
def test_the_ends_are_the_same_by_position_and_by_picture(table: Table):
    balls = describe(table)
    assert 4 <= len(balls) <= 8
    by_position = sorted(balls, key=lambda ball: ball["position"][0])
    by_picture = sorted(balls, key=lambda ball: ball["bbox"][0] + ball["bbox"][2])
    assert by_position[0] is by_picture[0]
    assert by_position[-1] is by_picture[-1]
    assert by_picture[1]["bbox"][0] - by_picture[0]["bbox"][0] > 5  # a lead that can be seen
    assert all(ball["color"] in COLOURS and 1 <= ball["number"] <= 9 for ball in balls)


def test_numbers_counts_and_colors_are_uniform():
    balls = [draw_table(index, seed=6, size=SIZE) for index in range(300)]
    counts = np.bincount([len(table.balls) for table in balls])[4:]
    numbers = np.bincount([ball.number for table in balls for ball in table.balls])[1:]
    colors = np.unique([name for table in balls for name in table.colors], return_counts=True)[1]
    for seen in (counts, numbers, colors):
        expected = seen.sum() / len(seen)
        assert ((seen - expected) ** 2 / expected).sum() < 27  # χ², p < 0.001 for up to 8 degrees of freedom


def test_balls_only_darken_the_cloth_around_them():
    table = TABLES[0]
    left, top = (round(a - b) for a, b in zip(table.room.camera.center_px, table.camera.center_px, strict=True))
    empty = paint_room(table.room_number, SIZE)[top : top + SIZE[0], left : left + SIZE[1]].astype(int)
    picture, ids = render(table._replace(exposure=1.0), SIZE)
    change = np.asarray(picture).astype(int) - empty
    cloth = change[np.logical_not(binary_dilation(ids > 0))]  # without the balls' antialiased rims
    assert cloth.max() == 0
    assert cloth.min() < -20  # contact shadows


def test_the_spheres_are_lit_from_above():
    table = TABLES[0]
    picture, ids = render(table, SIZE)
    gray = np.asarray(picture.convert("L")).astype(float)
    for place in range(len(table.balls)):
        rows, columns = np.nonzero(ids == place + 1)
        upper = rows < rows.mean()
        light = gray[rows, columns]
        assert light[upper].mean() > 1.05 * light[~upper].mean()


def test_twenty_pictures_are_split_as_published():
    folders = [path.split("/")[0] for index in range(40) for path in paths(index)[:1]]
    assert [folders.count(name) for name in ("train", "valid", "test")] == [16, 4, 20]


def test_the_published_loader_reads_the_folder(tmp_path: Path):
    make("billiard", tmp_path, count=10, size=SIZE, seed=4, workers=1)
    records = load_billiard(tmp_path).records
    assert len(records) == 10
    for record in records:
        balls = describe(draw_table(int(record.image.stem), seed=4, size=SIZE))
        by_picture = sorted(balls, key=lambda ball: ball["bbox"][0] + ball["bbox"][2])
        assert record.label == str(max(by_picture[0]["number"], by_picture[-1]["number"]))
        assert record.boxes == tuple(tuple(ball["bbox"]) for ball in balls)


def test_files_hold_the_picture_and_its_balls():
    made = files(3, seed=4, size=(120, 150))
    assert set(made) == {"train/3.png", "train/3.json"}
    picture = Image.open(io.BytesIO(made["train/3.png"]))
    assert (picture.size, picture.mode) == ((150, 120), "RGB")
    for ball in json.loads(made["train/3.json"]):
        left, top, right, bottom = ball["bbox"]
        assert 0 <= left < right <= 150
        assert 0 <= top < bottom <= 120


def test_a_table_too_small_for_its_balls_is_refused():
    with pytest.raises(ValueError, match="a table of 111×500 px has no room for eight balls: ask for at least 112 px"):
        draw_table(0, seed=0, size=(111, 500))
    assert len(draw_table(0, seed=0, size=(112, 112)).balls) >= 4
