"""A whole street scene: backdrop, ground, everything that stands on it from far to near, then the camera's own traces.

What must stay visible, the plates, is placed first (`Scene.plates`); trees, houses, cars and the rest are scattered
around, and whatever would stand in front of a plate is left out.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageFilter

from saccade.data.rendering.pixel_noise import Number, fractal, window
from saccade.data.rendering.sign_plates import Plate, plate_box, pose
from saccade.data.rendering.sprites import Sprite, paste
from saccade.data.rendering.street_backdrop import paint_hills, paint_sky
from saccade.data.rendering.street_camera import Camera
from saccade.data.rendering.street_cars import car
from saccade.data.rendering.street_furniture import THINGS, fence, post, wires
from saccade.data.rendering.street_ground import Road, Shadow, paint_ground
from saccade.data.rendering.street_houses import draw_house, house
from saccade.data.rendering.street_light import Light
from saccade.data.rendering.street_trees import plant

_SHARES = {  # of the things beside the road
    "delineator": 0.24, "cone": 0.18, "bin": 0.14, "letter_box": 0.14, "traffic_light": 0.07, "billboard": 0.05,
    "lamp": 0.18,
}  # fmt: skip


class Scene(NamedTuple):
    """Everything that decides what a picture shows; `seed` is where its decoration comes from."""

    seed: tuple[int, ...]
    camera: Camera
    light: Light
    road: Road
    plates: tuple[Plate, ...]


class Prop(NamedTuple):
    """Something that stands in the street at depth `z_m`."""

    z_m: float
    sprite: Sprite


class Tree(NamedTuple):
    """Where a plant stands and how tall it is."""

    kind: str
    x_m: float
    z_m: float
    height_m: float


def render(scene: Scene) -> Image.Image:
    """The picture of a scene."""
    rng = np.random.default_rng(scene.seed)
    camera, light, road = scene.camera, scene.light, scene.road
    picture = np.zeros((*camera.size, 3), np.uint8)
    sky = np.asarray(paint_sky(rng, camera, light))[: camera.size[0]]
    picture[: len(sky)] = sky
    trees = _draw_trees(rng, road)
    paint_ground(rng, picture, camera, light, road, _shadows(trees, light))
    paint_hills(rng, picture, camera, light)
    canvas = Image.fromarray(picture)
    props = list(_free_of_plates(scene, _props(rng, scene, trees)))
    for prop in sorted([*props, *_signs(scene)], key=lambda prop: -prop.z_m):
        paste(canvas, prop.sprite, light, prop.z_m)
    return finish(rng, canvas)


def _draw_trees(rng: np.random.Generator, road: Road) -> list[Tree]:
    kinds = ("broadleaf", "poplar", "conifer", "bush")
    mix = rng.dirichlet((1.2, 0.4, 0.7, 0.9))
    edge = road.half_width_m + (2.6 if road.kerb else 1.6)
    out = []
    for _ in range(int(rng.integers(9, 20))):
        kind = kinds[int(rng.choice(4, p=mix))]
        side = -1 if rng.random() < 0.5 else 1
        z = float(9 * np.exp(rng.uniform(0, 2.7)))
        height = float(rng.uniform(1.0, 2.4)) if kind == "bush" else float(rng.uniform(4, 10))
        x = side * (edge + 0.18 * height + float(rng.exponential(2.5 + 0.12 * z)))
        out.append(Tree(kind, x, z, height))
    return out


def _shadows(trees: list[Tree], light: Light) -> tuple[Shadow, ...]:
    near = [t for t in trees if t.z_m < 50]
    cast = (
        Shadow(t.x_m - light.sun_side * 0.55 * t.height_m, t.z_m, 0.42 * t.height_m, 0.20 * t.height_m, light.shadow)
        for t in near
    )
    under = (Shadow(t.x_m, t.z_m, 0.3 * t.height_m, 0.1 * t.height_m, 0.45) for t in near if t.kind == "bush")
    return (*cast, *under)


def _props(rng: np.random.Generator, scene: Scene, trees: list[Tree]) -> Iterator[Prop]:
    camera, light, road = scene.camera, scene.light, scene.road
    for tree in trees:
        if _in_frame(camera, tree.x_m, tree.z_m, 0.6 * tree.height_m):
            yield Prop(tree.z_m, plant(rng, camera, light, *tree))
    yield from _houses(rng, scene)
    edge = road.half_width_m + (0.6 if road.kerb else 0.9)
    for _ in range(int(rng.integers(3, 8))):
        name = str(rng.choice(list(_SHARES), p=list(_SHARES.values())))
        side, z = (-1 if rng.random() < 0.5 else 1), float(8 * np.exp(rng.uniform(0, 2.2)))
        x = side * (edge + (4 if name == "billboard" else 0) + float(rng.exponential(1.2)))
        if _in_frame(camera, x, z, 3):
            yield Prop(z, THINGS[name](rng, camera, light, x, z))
    if rng.random() < 0.35:
        side = -1 if rng.random() < 0.5 else 1
        for z, sprite in wires(rng, camera, light, side * (edge + float(rng.uniform(2.5, 5)))):
            yield Prop(z, sprite)
    if rng.random() < 0.4:
        side, near = (-1 if rng.random() < 0.5 else 1), float(rng.uniform(9, 20))
        far = near + float(rng.uniform(15, 40))
        yield Prop(far, fence(rng, camera, light, side * (edge + float(rng.uniform(2, 4))), (near, far)))
    yield from _cars(rng, scene)


def _in_frame(camera: Camera, x_m: Number, z_m: Number, half_m: Number) -> bool:
    reach = half_m * camera.px_per_m(z_m)
    return -reach < camera.project(x_m, 0, z_m).x_px < camera.size[1] + reach


def _houses(rng: np.random.Generator, scene: Scene) -> Iterator[Prop]:
    count = int(rng.integers(2, 6)) if scene.road.kerb else int(rng.integers(0, 3))
    for side in (-1, 1):
        z = float(rng.uniform(14, 34))
        for _ in range(count):
            plan = draw_house(rng, side, scene.road.half_width_m + float(rng.uniform(5, 9)), z)
            seen = _in_frame(scene.camera, side * plan.near_x_m, z + plan.length_m, 1)
            if seen and rng.random() < 0.7:
                yield Prop(z + plan.length_m / 2, house(rng, scene.camera, scene.light, plan))
            z += plan.length_m + float(rng.uniform(3, 14))


def _cars(rng: np.random.Generator, scene: Scene) -> Iterator[Prop]:
    lane = scene.road.half_width_m / 2
    for side in (-1, 1):
        for _ in range(int(rng.choice(3, p=(0.5, 0.38, 0.12)))):
            z = float(11 * np.exp(rng.uniform(0, 2.0)))
            x = side * lane + float(rng.normal(0, 0.15))
            yield Prop(z, car(rng, scene.camera, scene.light, x, z, from_behind=side > 0))


def _free_of_plates(scene: Scene, props: Iterator[Prop]) -> Iterator[Prop]:
    """Drops what would hide a plate."""
    boxes = [(plate.z_m, plate_box(scene.camera, plate)) for plate in scene.plates]
    for prop in props:
        if not any(prop.z_m < z + 1 and prop.sprite.box.near(box, 3) for z, box in boxes):
            yield prop


def _signs(scene: Scene) -> Iterator[Prop]:
    for plate in scene.plates:
        top_m = plate.center_m + 0.42 * plate.span_m
        yield Prop(plate.z_m + 0.02, post(scene.camera, scene.light, plate.x_m, plate.z_m, top_m))
        yield Prop(plate.z_m, pose(scene.camera, scene.light, plate))


def finish(rng: np.random.Generator, picture: Image.Image) -> Image.Image:
    """Lens and film: a little softness, darker corners, a tone curve and grain."""
    soft = float(rng.uniform(0.0, 0.22))
    picture = picture.filter(ImageFilter.BoxBlur(soft))
    contrast, warmth = float(rng.uniform(0.96, 1.10)), float(rng.normal(0, 0.012))
    levels = (np.arange(256) / 255 - 0.5) * contrast + 0.5
    curve = np.concatenate([levels * (1 + warmth), levels, levels * (1 - warmth)])
    picture = picture.point((curve * 255).clip(0, 255).astype(int).tolist())
    size = (picture.height, picture.width)
    grain = window(fractal(41, cells=512, octaves=1), rng, size) * float(rng.uniform(1.5, 5.0))
    y, x = (np.linspace(-1, 1, side, dtype=np.float32) for side in size)
    dim = 1 - float(rng.uniform(0.03, 0.16)) * (y[:, None] ** 2 + x[None, :] ** 2) / 2
    bands = ((np.asarray(band) * dim + grain).clip(0, 255).astype(np.uint8) for band in picture.split())
    return Image.merge("RGB", [Image.fromarray(band) for band in bands])
