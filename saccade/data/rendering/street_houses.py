"""Houses beside a street: boxes in perspective with roofs, windows and doors.

The camera stands on the road, so it sees two walls of every house: the one that faces the road and the one that faces
the camera. A wall is a function of metres along it and above the ground, so windows are drawn in wall coordinates.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from saccade.data.rendering.pixel_noise import Number
from saccade.data.rendering.sprites import Easel, Sprite, roughen
from saccade.data.rendering.street_camera import Camera, Pixel
from saccade.data.rendering.street_light import Color, Light, mixed, scaled

_PAINTS = (
    (214, 204, 184), (232, 228, 216), (196, 172, 138), (168, 92, 70), (150, 74, 58), (206, 186, 150), (178, 188, 192),
    (226, 206, 158), (146, 156, 140), (190, 178, 166), (138, 52, 44), (222, 196, 120),
)  # fmt: skip
_ROOFS = ((112, 62, 48), (92, 60, 52), (74, 74, 80), (96, 98, 104), (128, 78, 56), (62, 58, 60))
_DOORS = ((96, 62, 40), (66, 84, 74), (120, 40, 36), (58, 66, 84))
_FRAME = (236, 234, 228)
_STOREY_M = 2.9


class House(NamedTuple):
    """A house beside the road; `side` is −1 left, 1 right, `near_x_m` the distance of its road wall from the center."""

    side: int
    near_x_m: float
    z_m: float
    width_m: float
    length_m: float
    storeys: int
    roof_m: float  # height of the ridge above the eaves, 0 for a flat roof
    ridge_along_road: bool


class _Wall(NamedTuple):
    """A wall being painted: where its points appear, its length, and its share of the sun."""

    at: Callable[[Number, Number], Pixel]
    length_m: float
    share: float


class _Site(NamedTuple):
    """What painting a house needs; x and z at the corner nearest to the camera and the road, and opposite."""

    rng: np.random.Generator
    easel: Easel
    camera: Camera
    light: Light
    x: tuple[float, float]
    z: tuple[float, float]
    eaves_m: float
    paint: Color
    close: bool  # near enough for boards and bars to be seen

    def face(self, corners: list[tuple[Number, Number, Number]], color: tuple[int, ...]) -> None:
        """A flat part, given by its corners (x, y, z) in metres."""
        self.easel.polygon([self.camera.project(*corner) for corner in corners], color)

    def patch(self, wall: _Wall, left: Number, low: Number, right: Number, high: Number, color: Color) -> None:
        """A rectangle on a wall."""
        corners = [wall.at(left, low), wall.at(right, low), wall.at(right, high), wall.at(left, high)]
        self.easel.polygon(corners, self.light.lit(color, wall.share))


def draw_house(rng: np.random.Generator, side: int, near_x_m: Number, z_m: Number) -> House:
    """A family house or, more rarely, a block of flats."""
    flats = bool(rng.random() < 0.18)
    return House(
        side=side,
        near_x_m=near_x_m,
        z_m=z_m,
        width_m=float(rng.uniform(7, 10)) * (1.5 if flats else 1),
        length_m=float(rng.uniform(8, 13)) * (1.6 if flats else 1),
        storeys=int(rng.integers(3, 5)) if flats else int(rng.integers(1, 3)),
        roof_m=0.0 if flats else float(rng.uniform(2.2, 4.0)),
        ridge_along_road=bool(rng.random() < 0.55),
    )


def house(rng: np.random.Generator, camera: Camera, light: Light, plan: House) -> Sprite:
    """The house as seen by `camera`."""
    eaves_m = _STOREY_M * plan.storeys + 0.4
    x = (plan.side * plan.near_x_m, plan.side * (plan.near_x_m + plan.width_m))
    z = (plan.z_m, plan.z_m + plan.length_m)
    tops = (0, eaves_m + plan.roof_m + 1)
    extremes = [camera.project(a, b, c) for a in (x[0] - plan.side, x[1]) for b in tops for c in z]
    paint, tiles = _PAINTS[int(rng.integers(len(_PAINTS)))], _ROOFS[int(rng.integers(len(_ROOFS)))]
    easel = Easel(extremes, camera, detail=2)
    site = _Site(rng, easel, camera, light, x, z, eaves_m, paint, close=camera.px_per_m(z[0]) > 8)
    road = _Wall(lambda u, v: camera.project(x[0], v, z[0] + u), plan.length_m, 0.5 - 0.45 * plan.side * light.sun_side)
    front = _Wall(lambda u, v: camera.project(x[0] + plan.side * u, v, z[0]), plan.width_m, 0.42)
    for wall in (road, front):
        _paint_wall(site, wall, plan.storeys)
    _paint_roof(site, plan, tiles, road.share, front.share)
    sprite = easel.sprite()
    return sprite._replace(image=roughen(sprite.image, rng, 0.035))


def _paint_wall(site: _Site, wall: _Wall, storeys: int) -> None:
    rng, light = site.rng, site.light
    site.patch(wall, 0, 0, wall.length_m, site.eaves_m, site.paint)
    site.patch(wall, 0, 0, wall.length_m, 0.45, scaled(site.paint, 0.62))
    if site.close:
        boards = light.lit(scaled(site.paint, 0.93), wall.share)
        for v in np.arange(0.7, site.eaves_m, 0.28):
            site.easel.line(wall.at(0, v), wall.at(wall.length_m, v), boards, 0.34)
    # The eaves throw a shadow on the wall under them.
    site.patch(wall._replace(share=0.3 * wall.share), 0, site.eaves_m - 0.5, wall.length_m, site.eaves_m, site.paint)
    count = max(int(wall.length_m / float(rng.uniform(2.2, 3.2))), 1)
    door = int(rng.integers(count)) if rng.random() < 0.7 else -1
    for storey in range(storeys):
        for k in range(count):
            left = (k + 0.5) * wall.length_m / count - 0.6
            if storey == 0 and k == door:
                _paint_door(site, wall, left + 0.1)
            else:
                _paint_window(site, wall, left, _STOREY_M * storey + 1.2)


def _paint_door(site: _Site, wall: _Wall, left: Number) -> None:
    site.patch(wall, left - 0.1, 0.1, left + 1.1, 2.35, _FRAME)
    site.patch(wall, left, 0.1, left + 1.0, 2.25, _DOORS[int(site.rng.integers(len(_DOORS)))])
    site.patch(wall, left + 0.25, 1.5, left + 0.75, 2.05, (70, 82, 92))


def _paint_window(site: _Site, wall: _Wall, left: Number, sill: Number) -> None:
    right, top = left + 1.2, sill + 1.3
    site.patch(wall, left - 0.12, sill - 0.12, right + 0.12, top + 0.12, _FRAME)
    site.patch(wall, left, sill, right, top, (44, 50, 56))
    sky = mixed((44, 44, 44), site.light.horizon, float(site.rng.uniform(0.15, 0.55)))
    site.patch(wall, left, sill + 0.55, right, top, sky)
    if site.close:
        bars, ledge = (site.light.lit(color, wall.share) for color in (_FRAME, (96, 92, 88)))
        site.easel.line(wall.at(left + 0.6, sill), wall.at(left + 0.6, top), bars, 0.7)
        site.easel.line(wall.at(left, sill + 0.8), wall.at(right, sill + 0.8), bars, 0.7)
        site.easel.line(wall.at(left - 0.2, sill - 0.16), wall.at(right + 0.2, sill - 0.16), ledge, 0.7)


def _paint_roof(site: _Site, plan: House, tiles: Color, to_road: Number, to_camera: Number) -> None:
    (x0, x1), (z0, z1), eaves = site.x, site.z, site.eaves_m
    if not plan.roof_m:
        rim = site.light.lit((92, 92, 94), to_camera)
        for x, z in ((x1, z0), (x0, z1)):
            site.face([(x0, eaves, z0), (x, eaves, z), (x, eaves + 0.5, z), (x0, eaves + 0.5, z0)], rim)
        return
    ridge = eaves + plan.roof_m
    if plan.ridge_along_road:
        _gable_to_camera(site, plan.side, ridge, tiles, to_camera)
    else:
        _gable_to_road(site, plan.side, ridge, tiles, to_road)
    x, z = (x0 + x1) / 2, (z0 + z1) / 2
    for half, low, high, color in ((0.4, -0.5, 0.8, (134, 84, 66)), (0.5, 0.75, 0.9, (120, 116, 112))):
        corners = [(-half, low), (half, low), (half, high), (-half, high)]
        site.face([(x + dx, ridge + dy, z) for dx, dy in corners], site.light.lit(color, 0.5))


def _gable_to_camera(site: _Site, side: int, ridge: Number, tiles: Color, share: Number) -> None:
    (x0, x1), (z0, z1), eaves, light = site.x, site.z, site.eaves_m, site.light
    middle, over, low, near, far = (x0 + x1) / 2, x0 - 0.5 * side, eaves - 0.35, z0 - 0.4, z1 + 0.4
    site.face([(x0, eaves, z0), (x1, eaves, z0), (middle, ridge, z0)], light.lit(site.paint, share))
    slope = [(over, low, near), (over, low, far), (middle, ridge, far), (middle, ridge, near)]
    site.face(slope, light.lit(tiles, 0.75 - 0.25 * side * light.sun_side))
    trim, width_px = light.lit(_FRAME, share), max(0.2 * site.camera.px_per_m(near), 0.7)
    top = site.camera.project(middle, ridge, near)
    for corner in (over, x1 + 0.5 * side):
        site.easel.line(site.camera.project(corner, low, near), top, trim, width_px)


def _gable_to_road(site: _Site, side: int, ridge: Number, tiles: Color, share: Number) -> None:
    (x0, x1), (z0, z1), eaves, light = site.x, site.z, site.eaves_m, site.light
    middle, over, low = (z0 + z1) / 2, z0 - 0.5, eaves - 0.3
    left, right = x0 - 0.4 * side, x1 + 0.4 * side
    site.face([(x0, eaves, z0), (x0, eaves, z1), (x0, ridge, middle)], light.lit(site.paint, share))
    slope = [(left, low, over), (right, low, over), (right, ridge, middle), (left, ridge, middle)]
    site.face(slope, light.lit(tiles, 0.62))
    gutter, width_px = light.lit((70, 66, 64), 0.4), max(0.16 * site.camera.px_per_m(over), 0.7)
    site.easel.line(site.camera.project(left, low, over), site.camera.project(right, low, over), gutter, width_px)
