"""Street scenes: balanced classes, true boxes, and a view that shows a sign without its number."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from saccade.data.generate import make
from saccade.data.loading import load
from saccade.data.rendering.box import Box
from saccade.data.rendering.sign_faces import SPEED_LIMITS
from saccade.data.rendering.sign_plates import plate_box
from saccade.data.rendering.street_scene import Scene, render
from saccade.data.signs import CLASSES, describe, draw_scene, files, label_of, split_of
from saccade.images.view import make_view

SMALL = {"size": (160, 214), "seed": 1}


def with_face(scene: Scene, kind: str, text: str = "") -> np.ndarray:
    """The picture of a scene whose sign has another face and is the same in all else, 3 H W."""
    sign, *others = scene.plates
    changed = sign._replace(kind=kind, style=sign.style._replace(text=text))
    return np.asarray(render(scene._replace(plates=(changed, *others))), np.float32).transpose(2, 0, 1)


def outside(box: Box, shape: tuple[int, ...], margin_px: int) -> np.ndarray:
    mask = np.ones(shape[-2:], bool)
    mask[box.top - margin_px : box.bottom + margin_px, box.left - margin_px : box.right + margin_px] = False
    return mask


@pytest.mark.parametrize("seed", [0, 5])
def test_every_block_of_forty_has_all_classes_equally_in_every_split(seed: int):
    counted = [(split_of(k), label_of(k, seed=seed)) for k in range(80)]
    for label in CLASSES:
        assert [counted.count((split, label)) for split in ("train", "val", "test")] == [14, 2, 4]


def test_the_order_of_classes_depends_on_the_seed():
    orders = {tuple(label_of(k, seed=seed) for k in range(40)) for seed in range(5)}
    assert len(orders) == 5


@pytest.mark.parametrize("index", range(4))
def test_a_picture_differs_only_inside_its_box_when_its_sign_does(index: int):
    scene = draw_scene(index, **SMALL)
    box = plate_box(scene.camera, scene.plates[0])
    speed, blank = with_face(scene, "speed", "50"), with_face(scene, "back")
    changed = np.abs(speed - blank).max(0)
    assert changed[outside(box, speed.shape, margin_px=3)].max() == 0  # three pixels: the reach of the blurs
    rows, columns = np.nonzero(changed > 12)
    assert rows.min() - box.top <= 2  # and the sign fills its box
    assert box.bottom - rows.max() <= 3
    assert columns.min() - box.left <= 2
    assert box.right - columns.max() <= 3


def test_the_number_is_lost_in_the_view_and_the_sign_is_not():
    lost, kept = [], []
    for index in range(6):
        scene = draw_scene(index, seed=2, size=(240, 320))
        box = plate_box(scene.camera, scene.plates[0])
        area = (box.right - box.left) * (box.bottom - box.top)
        pictures = [torch.from_numpy(with_face(scene, "speed", text))[None] for text in SPEED_LIMITS]
        for a, b in combinations(pictures, 2):
            full = (a - b).square().sum() / area
            view = 16 * make_view(a - b, 1 / 4).square().sum() / area
            lost.append((view / full).sqrt().item())
        blank = torch.from_numpy(with_face(scene, "back"))[None]
        kept.append((make_view(pictures[0] - blank, 1 / 4)).abs().amax().item())
    assert np.mean(lost) < 0.45  # of the contrast between two numbers less than half is left
    assert np.median(kept) > 20  # levels of 255 between a speed limit and a gray disc in its place


@pytest.mark.parametrize("index", range(24))
def test_scenes_hold_what_their_label_says(index: int):
    scene, sign = draw_scene(index, **SMALL), describe(index, **SMALL)
    limits = [plate for plate in scene.plates if plate.kind == "speed"]
    assert [plate.style.text for plate in limits] == ([] if sign.label == "EMPTY" else [sign.label])
    assert len(sign.boxes) == len(limits)
    assert not any(plate.style.text in SPEED_LIMITS for plate in scene.plates if plate.kind != "speed")


@pytest.mark.parametrize("sign_px", [(18, 28), (40, 60)])
def test_signs_are_as_large_as_asked_and_wholly_in_the_picture(sign_px: tuple[int, int]):
    size = (320, 480)
    for index in range(40):
        for left, top, right, bottom in describe(index, seed=3, size=size, sign_px=sign_px).boxes:
            assert sign_px[0] - 1 <= bottom - top <= sign_px[1] + 2  # turned about the post, not about the road
            assert right - left <= sign_px[1] + 2
            assert min(left, top) >= 0
            assert right <= size[1]
            assert bottom <= size[0]


def test_a_picture_depends_on_seed_and_index_alone():
    first = files(7, **SMALL)
    files(3, **SMALL)
    assert files(7, **SMALL) == first
    assert len({files(k, **SMALL)[f"images/{k:06d}.jpg"] for k in range(6)}) == 6


def test_the_manifest_loader_reads_the_folder(tmp_path: Path):
    make("signs", tmp_path, count=12, workers=1, **SMALL)
    records = load(tmp_path)
    assert records.classes == tuple(sorted(CLASSES))
    for index, record in enumerate(records.records):
        assert (record.label, record.split, record.boxes) == describe(index, **SMALL)
        assert record.image.is_file()


def test_a_scene_too_small_for_its_sign_is_refused():
    with pytest.raises(ValueError, match="no room for a sign of 40 to 50 px in a scene of 30×30 px"):
        draw_scene(0, seed=0, size=(30, 30), sign_px=(40, 50))
