"""What stands beside a street: posts, lamps, wires, fences, and red, yellow or round things that are no signs."""

from collections.abc import Callable

import numpy as np

from saccade.data.rendering.pixel_noise import Number
from saccade.data.rendering.sprites import Easel, Sprite
from saccade.data.rendering.street_camera import Camera, Pixel
from saccade.data.rendering.street_light import Color, Light, scaled


def _upright(
    camera: Camera, easel: Easel, x_m: Number, z_m: Number, y_m: tuple[Number, Number], half_m: Number, colors: list
) -> None:
    """A vertical pole between two heights as stripes of `colors` from left to right."""
    half_px = max(half_m * camera.px_per_m(z_m), 0.55)
    low, high = camera.project(x_m, y_m[0], z_m), camera.project(x_m, y_m[1], z_m)
    for k, color in enumerate(colors):
        left = low.x_px - half_px + 2 * half_px * k / len(colors)
        right = low.x_px - half_px + 2 * half_px * (k + 1) / len(colors)
        corners = [Pixel(left, high.y_px), Pixel(right, high.y_px), Pixel(right, low.y_px), Pixel(left, low.y_px)]
        easel.polygon(corners, color)


def _round(light: Light, color: Color) -> list[tuple[int, int, int]]:
    """The same color lit as on a cylinder, from left to right."""
    lit = (0.9, 0.6, 0.1) if light.sun_side < 0 else (0.1, 0.6, 0.9)
    return [light.lit(color, share) for share in lit]


def _flat(
    camera: Camera, easel: Easel, x_m: Number, z_m: Number, y_m: tuple[Number, Number], half_m: Number, color: tuple
) -> None:
    left, right = x_m - half_m, x_m + half_m
    corners = ((left, y_m[0]), (right, y_m[0]), (right, y_m[1]), (left, y_m[1]))
    easel.polygon([camera.project(x, y, z_m) for x, y in corners], color)


def _easel(camera: Camera, x_m: Number, z_m: Number, height_m: Number, half_m: Number) -> Easel:
    corners = [camera.project(x_m - half_m, 0, z_m), camera.project(x_m + half_m, height_m, z_m)]
    return Easel(corners, camera)


def post(camera: Camera, light: Light, x_m: Number, z_m: Number, height_m: Number) -> Sprite:
    """The gray pole a sign hangs on."""
    easel = _easel(camera, x_m, z_m, height_m, 0.3)
    _upright(camera, easel, x_m, z_m, (0, height_m), 0.035, _round(light, (150, 153, 156)))
    return easel.sprite()


def lamp(rng: np.random.Generator, camera: Camera, light: Light, x_m: Number, z_m: Number) -> Sprite:
    """A street lamp whose arm reaches over the road."""
    height, reach = float(rng.uniform(6.5, 8.5)), -np.sign(x_m) * float(rng.uniform(1.2, 2.2))
    easel = _easel(camera, x_m, z_m, height + 0.6, abs(reach) + 0.8)
    steel = (112, 118, 122)
    _upright(camera, easel, x_m, z_m, (0, height), 0.07, _round(light, steel))
    width = max(0.09 * camera.px_per_m(z_m), 1.0)
    previous = camera.project(x_m, height, z_m)
    for t in np.linspace(0.1, 1, 8):
        along = camera.project(x_m + reach * t, height + 0.45 * np.sin(t * np.pi / 2), z_m)
        easel.line(previous, along, light.lit(steel, 0.5), width)
        previous = along
    _flat(camera, easel, x_m + reach * 1.12, z_m, (height + 0.3, height + 0.5), 0.4, light.lit((84, 88, 92), 0.5))
    _flat(camera, easel, x_m + reach * 1.12, z_m, (height + 0.24, height + 0.31), 0.3, light.lit((232, 232, 220), 0.8))
    return easel.sprite()


def delineator(rng: np.random.Generator, camera: Camera, light: Light, x_m: Number, z_m: Number) -> Sprite:
    """A white roadside marker with a black band and a reflector."""
    easel = _easel(camera, x_m, z_m, 1.1, 0.2)
    _flat(camera, easel, x_m, z_m, (0, 1.0), 0.06, light.lit((232, 232, 228), 0.6))
    _flat(camera, easel, x_m, z_m, (0.68, 0.9), 0.06, light.lit((36, 36, 38), 0.5))
    _flat(camera, easel, x_m, z_m, (0.72, 0.86), 0.03, light.lit((226, 70, 30), 0.8))
    return easel.sprite()


def cone(rng: np.random.Generator, camera: Camera, light: Light, x_m: Number, z_m: Number) -> Sprite:
    """An orange traffic cone."""
    easel = _easel(camera, x_m, z_m, 0.8, 0.4)

    def ring(low: Number, high: Number, color: Color) -> None:
        wide, narrow = 0.19 * (1 - low / 0.8), 0.19 * (1 - high / 0.8)
        corners = ((-wide, low), (wide, low), (narrow, high), (-narrow, high))
        easel.polygon([camera.project(x_m + dx, y, z_m) for dx, y in corners], light.lit(color, 0.6))

    _flat(camera, easel, x_m, z_m, (0, 0.06), 0.24, light.lit((206, 78, 20), 0.5))
    for low, high, color in ((0.05, 0.25, (236, 92, 24)), (0.25, 0.42, (236, 236, 230)), (0.42, 0.75, (236, 92, 24))):
        ring(low, high, color)
    return easel.sprite()


def bin_(rng: np.random.Generator, camera: Camera, light: Light, x_m: Number, z_m: Number) -> Sprite:
    """A wheeled bin in green, gray, yellow or red."""
    color = ((48, 88, 58), (74, 78, 82), (206, 164, 40), (158, 34, 34))[int(rng.integers(4))]
    easel = _easel(camera, x_m, z_m, 1.2, 0.5)
    _flat(camera, easel, x_m, z_m, (0.05, 0.98), 0.27, light.lit(color, 0.5))
    _flat(camera, easel, x_m, z_m, (0.96, 1.08), 0.31, light.lit(scaled(color, 0.8), 0.7))
    _flat(camera, easel, x_m, z_m, (0.05, 0.98), 0.03, light.lit(scaled(color, 0.85), 0.4))
    return easel.sprite()


def letter_box(rng: np.random.Generator, camera: Camera, light: Light, x_m: Number, z_m: Number) -> Sprite:
    """A red or yellow letter box on a short post."""
    color = ((188, 28, 32), (236, 190, 36))[int(rng.integers(2))]
    easel = _easel(camera, x_m, z_m, 1.6, 0.5)
    _upright(camera, easel, x_m, z_m, (0, 0.9), 0.05, _round(light, (92, 94, 96)))
    _flat(camera, easel, x_m, z_m, (0.85, 1.45), 0.26, light.lit(color, 0.55))
    _flat(camera, easel, x_m, z_m, (1.36, 1.48), 0.29, light.lit(color, 0.95))
    _flat(camera, easel, x_m, z_m, (1.22, 1.27), 0.18, light.lit((24, 24, 26), 0.4))
    _flat(camera, easel, x_m, z_m, (0.98, 1.12), 0.14, light.lit((238, 236, 226), 0.6))
    return easel.sprite()


def traffic_light(rng: np.random.Generator, camera: Camera, light: Light, x_m: Number, z_m: Number) -> Sprite:
    """A traffic light; one of its three lamps is on."""
    easel = _easel(camera, x_m, z_m, 3.7, 0.6)
    _upright(camera, easel, x_m, z_m, (0, 2.6), 0.06, _round(light, (96, 100, 104)))
    _flat(camera, easel, x_m, z_m, (2.5, 3.6), 0.24, light.lit((34, 36, 38), 0.6))
    on = int(rng.integers(3))
    lamps = ((214, 30, 30), (246, 190, 40), (40, 200, 110))
    for k, color in enumerate(lamps):
        middle = camera.project(x_m, 3.38 - 0.33 * k, z_m)
        radius = 0.12 * camera.px_per_m(z_m) * easel.detail
        x, y = easel.at(middle)
        lit = color if k == on else light.lit(scaled(color, 0.25), 0.6)
        easel.draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=lit)
    return easel.sprite()


def billboard(rng: np.random.Generator, camera: Camera, light: Light, x_m: Number, z_m: Number) -> Sprite:
    """An advertisement: a colored board on two posts with a disc and bars on it."""
    grounds = ((190, 30, 36), (240, 196, 52), (238, 236, 228), (34, 84, 150))
    ground, mark = (grounds[int(k)] for k in rng.permutation(len(grounds))[:2])
    easel = _easel(camera, x_m, z_m, 4.2, 2.2)
    for dx in (-1.2, 1.2):
        _upright(camera, easel, x_m + dx, z_m, (0, 1.6), 0.06, _round(light, (104, 96, 86)))
    _flat(camera, easel, x_m, z_m, (1.45, 3.75), 1.85, light.lit((92, 94, 96), 0.5))
    _flat(camera, easel, x_m, z_m, (1.52, 3.68), 1.78, light.lit(ground, 0.6))
    middle, radius = camera.project(x_m - 0.9, 2.6, z_m), 0.62 * camera.px_per_m(z_m) * easel.detail
    x, y = easel.at(middle)
    easel.draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=light.lit(mark, 0.6))
    for k in range(3):
        _flat(camera, easel, x_m + 0.75, z_m, (2.0 + 0.5 * k, 2.2 + 0.5 * k), 0.75 - 0.14 * k, light.lit(mark, 0.55))
    return easel.sprite()


THINGS: dict[str, Callable[..., Sprite]] = {
    "delineator": delineator, "cone": cone, "bin": bin_, "letter_box": letter_box, "traffic_light": traffic_light,
    "billboard": billboard, "lamp": lamp,
}  # fmt: skip


def fence(rng: np.random.Generator, camera: Camera, light: Light, x_m: Number, z_m: tuple[Number, Number]) -> Sprite:
    """A wooden fence along the road between two depths, `z_m` = (near, far)."""
    near, far = z_m
    wood = ((150, 124, 96), (222, 220, 212), (116, 92, 72))[int(rng.integers(3))]
    corners = [camera.project(x_m, y, z) for y in (0, 1.3) for z in z_m]
    easel = Easel(corners, camera)
    for low in (0.35, 0.8):
        rail = [camera.project(x_m, y, z) for y, z in ((low, near), (low, far), (low + 0.16, far), (low + 0.16, near))]
        easel.polygon(rail, light.lit(wood, 0.5))
    for z in np.arange(far, near, -2.2):
        _upright(camera, easel, x_m, float(z), (0, 1.15), 0.07, _round(light, wood))
    return easel.sprite()


def wires(rng: np.random.Generator, camera: Camera, light: Light, x_m: Number) -> list[tuple[float, Sprite]]:
    """Wooden poles along the road with wires hanging between them, as (depth, sprite)."""
    first, spacing, height = float(rng.uniform(9, 16)), float(rng.uniform(26, 36)), float(rng.uniform(6.5, 8))
    depths = [first + spacing * k for k in range(5)]
    out = []
    for k, z in enumerate(depths):
        corners = [camera.project(x_m - 1, 0, z), camera.project(x_m + 1, height + 1, z)]
        ahead = depths[k + 1] if k + 1 < len(depths) else None
        if ahead:
            corners.append(camera.project(x_m, height + 1, ahead))
        easel = Easel(corners, camera, detail=2)
        if ahead:
            for dx in (-0.8, 0.0, 0.8):
                _wire(easel, camera, light, x_m + dx, height, z, ahead)
        _upright(camera, easel, x_m, z, (0, height + 0.4), 0.11, _round(light, (112, 92, 74)))
        _flat(camera, easel, x_m, z, (height - 0.25, height - 0.08), 0.95, light.lit((92, 76, 62), 0.4))
        out.append((z, easel.sprite()))
    return out


def _wire(easel: Easel, camera: Camera, light: Light, x_m: Number, height_m: Number, near: Number, far: Number) -> None:
    previous = camera.project(x_m, height_m, near)
    for t in np.linspace(0.1, 1, 10):
        z = near + (far - near) * float(t)
        hanging = camera.project(x_m, height_m - 3.2 * float(t) * (1 - float(t)), z)
        easel.line(previous, hanging, light.lit((58, 58, 62), 0.3), 0.45)
        previous = hanging
