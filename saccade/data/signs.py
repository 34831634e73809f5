"""`signs`: street scenes that hold one speed-limit sign (50, 70 or 80) or none, among things that look like one.

A sign is 18 to 28 px wide: large enough to read at full resolution, and a colored dot in a view four times smaller. So
a low-resolution view tells where a sign might be and not what it says. The answer is the sign's number, or EMPTY.

Written as `images/<index>.jpg` and a manifest `labels.csv` with the columns image, label, split, boxes (`left top right
bottom`, right and bottom exclusive). Four consecutive indices hold all four classes and are in the same split.
"""

import csv
import io
from typing import NamedTuple

import numpy as np

from saccade.data.records import DataError
from saccade.data.rendering.box import Box
from saccade.data.rendering.sign_faces import SPEED_LIMITS, Style
from saccade.data.rendering.sign_plates import Plate, plate_box
from saccade.data.rendering.street_camera import Camera, draw_camera
from saccade.data.rendering.street_ground import Road, draw_road
from saccade.data.rendering.street_light import draw_light
from saccade.data.rendering.street_scene import Scene, render

CLASSES = ("EMPTY", *SPEED_LIMITS)
SIZE = (480, 640)
SIGN_PX = (18, 28)
_SPLITS = ("train", "val", "test", "train", "train", "train", "train", "test", "train", "train")

_LOOKALIKES = (
    "no_vehicles", "no_entry", "no_overtaking", "no_stopping", "end", "minimum", "mirror", "back", "bus_stop",
    "warning", "yield", "stop", "priority", "advisory", "board", "parking", "route", "chevron", "panel",
)  # fmt: skip
_OTHER_NUMBERS = ("10", "15", "20", "25", "30", "35", "40", "45", "60", "65", "90", "95")


class Sign(NamedTuple):
    """What the manifest says of one picture."""

    label: str
    split: str
    boxes: tuple[Box, ...]


def label_of(index: int, *, seed: int) -> str:
    """The class of picture `index`: each block of four indices is a shuffle of the four classes."""
    order = np.random.default_rng((seed, index // 4, 4)).permutation(4)
    return CLASSES[int(order[index % 4])]


def split_of(index: int) -> str:
    """Train, val or test, 7 : 1 : 2, in blocks of four indices, whatever the number of pictures."""
    return _SPLITS[index // 4 % len(_SPLITS)]


def draw_scene(index: int, *, seed: int, size: tuple[int, int] = SIZE, sign_px: tuple[int, int] = SIGN_PX) -> Scene:
    """The scene of picture `index`; its first plate is the sign, unless the picture is EMPTY."""
    rng = np.random.default_rng((seed, index, 0))
    camera, light, road = draw_camera(rng, size), draw_light(rng), draw_road(rng)
    label = label_of(index, seed=seed)
    plates: list[Plate] = []
    for k in range(int(rng.integers(2, 5))):
        span_px = (1.0 * sign_px[0], 1.0 * sign_px[1]) if k == 0 else (0.7 * sign_px[0], 1.1 * sign_px[1])
        plate = _place(rng, camera, road, span_px, plates)
        if plate is None and k == 0:
            raise DataError(
                f"no room for a sign of {sign_px[0]} to {sign_px[1]} px in a scene of {size[0]}×{size[1]} px: "
                "ask for larger scenes or smaller signs"
            )
        if plate is not None:
            other = _lookalike(rng, plate)  # drawn either way, so that EMPTY scenes are like the others
            plates.append(_with_text(plate, label) if k == 0 and label != "EMPTY" else other)
    return Scene((seed, index, 1), camera, light, road, tuple(plates))


def _place(
    rng: np.random.Generator, camera: Camera, road: Road, span_px: tuple[float, float], taken: list[Plate]
) -> Plate | None:
    """A speed-limit plate beside the road, wholly in the picture and clear of the plates there, if there is room."""
    height, width = camera.size
    boxes = [box for plate in taken for box in (plate_box(camera, plate), _post_box(camera, plate))]
    for attempt in range(120):
        plate = _hang(rng, camera, road, span_px)
        if attempt >= 80:  # the picture is too small to show the roadside: anywhere in it
            lowest_px = camera.project(0, plate.span_m, plate.z_m).y_px
            x_px, y_px = float(rng.uniform(0, width)), float(rng.uniform(0, min(lowest_px, height)))
            height_m = camera.eye_m + (camera.horizon_px - y_px) * plate.z_m / camera.focal_px
            plate = plate._replace(x_m=camera.lateral(x_px, plate.z_m), center_m=height_m)
        box = plate_box(camera, plate)
        inside = box.left >= 2 and box.top >= 2 and box.right <= width - 2 and box.bottom <= height - 2
        if inside and not any(part.near(other, 4) for part in (box, _post_box(camera, plate)) for other in boxes):
            return plate
    return None


def _hang(rng: np.random.Generator, camera: Camera, road: Road, span_px: tuple[float, float]) -> Plate:
    span_m = float(rng.uniform(0.6, 0.75))
    side = 1 if rng.random() < 0.62 else -1
    beside = float(rng.uniform(0.5, 1.6)) + float(rng.exponential(0.8))
    z_m = camera.focal_px * span_m / float(rng.uniform(*span_px))
    return Plate(
        kind="speed",
        style=Style(
            text="",
            weight=float(rng.choice((0.55, 0.7, 0.85, 1.0))),
            cap=float(rng.choice((0.64, 0.70, 0.76))),
            yellow=bool(rng.random() < 0.35),
        ),
        x_m=side * (road.half_width_m + beside),
        center_m=float(rng.uniform(1.9, 3.1)),
        z_m=z_m,
        span_m=span_m,
        yaw=float(rng.uniform(-0.6, 0.6)),
        roll=float(rng.normal(0, 0.05)),
        shade=float(rng.uniform(0.1, 1.0)),
        blur_px=float(rng.uniform(0, 0.65)),
        seed=int(rng.integers(2**31)),
    )


def _post_box(camera: Camera, plate: Plate) -> Box:
    foot, top = (camera.project(plate.x_m, y, plate.z_m) for y in (0, plate.center_m))
    return Box(int(foot.x_px) - 2, int(top.y_px), int(foot.x_px) + 3, int(foot.y_px))


def _lookalike(rng: np.random.Generator, plate: Plate) -> Plate:
    kind = _LOOKALIKES[int(rng.integers(len(_LOOKALIKES)))]
    return _with_text(plate._replace(kind=kind), _OTHER_NUMBERS[int(rng.integers(len(_OTHER_NUMBERS)))])


def _with_text(plate: Plate, text: str) -> Plate:
    return plate._replace(style=plate.style._replace(text=text))


def paths(index: int) -> tuple[str, ...]:
    """The file of picture `index`."""
    return (f"images/{index:06d}.jpg",)


def files(
    index: int, *, seed: int, size: tuple[int, int] = SIZE, sign_px: tuple[int, int] = SIGN_PX
) -> dict[str, bytes]:
    """Picture `index` as a JPEG without color subsampling, which would smear the red rings."""
    buffer = io.BytesIO()
    picture = render(draw_scene(index, seed=seed, size=size, sign_px=sign_px))
    picture.save(buffer, "JPEG", quality=94, subsampling=0)
    return {paths(index)[0]: buffer.getvalue()}


def describe(index: int, *, seed: int, size: tuple[int, int] = SIZE, sign_px: tuple[int, int] = SIGN_PX) -> Sign:
    """Label, split and boxes of picture `index`, without painting it."""
    label = label_of(index, seed=seed)
    scene = draw_scene(index, seed=seed, size=size, sign_px=sign_px)
    boxes = () if label == "EMPTY" else (plate_box(scene.camera, scene.plates[0]),)
    return Sign(label, split_of(index), boxes)


def manifest(
    count: int, *, seed: int, size: tuple[int, int] = SIZE, sign_px: tuple[int, int] = SIGN_PX
) -> dict[str, bytes]:
    """`labels.csv`, one row per picture."""
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(("image", "label", "split", "boxes"))
    for index in range(count):
        label, split, boxes = describe(index, seed=seed, size=size, sign_px=sign_px)
        writer.writerow((paths(index)[0], label, split, ";".join(" ".join(map(str, box)) for box in boxes)))
    return {"labels.csv": table.getvalue().encode()}
