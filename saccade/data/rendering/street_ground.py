"""The ground of a street: verge, shoulder or pavement, asphalt with its markings, and the shadows that fall on it.

Every picture row below the horizon is one depth z = f·e / (row − horizon), so the ground is a function of (x, z) in
metres, evaluated in bands of rows. Edges are antialiased by the width of a pixel in metres; the dashes of the center
line by the exact integral of the dash pattern over a row's depth.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from saccade.data.rendering.pixel_noise import TILE, Number, fractal, sample, smoothstep
from saccade.data.rendering.street_camera import Camera
from saccade.data.rendering.street_light import Light

_BAND = 96


class Road(NamedTuple):
    """What the road is made of."""

    half_width_m: float
    kerb: bool  # pavement with a kerb, or a gravel shoulder
    asphalt: float  # gray level
    wear: float  # 0 fresh paint … 1 worn away
    edge_line: bool
    dash_m: float
    period_m: float  # dash and gap together; equal to dash_m for a solid line


class Shadow(NamedTuple):
    """A patch of shade on the ground: center and half axes."""

    x_m: float
    z_m: float
    half_x_m: float
    half_z_m: float
    density: float


class _Patch(NamedTuple):
    """A band of ground: per pixel place and noise, per row resolution."""

    x: ndarray
    z: ndarray
    step: ndarray  # metres a pixel is wide
    row: ndarray  # metres a pixel is deep
    grain: ndarray
    blotch: ndarray


def draw_road(rng: np.random.Generator) -> Road:
    """A country road or a suburban street."""
    kerb = bool(rng.random() < 0.45)
    dash, period = ((3.0, 9.0), (3.0, 12.0), (6.0, 9.0), (1.0, 1.0))[int(rng.choice(4, p=[0.4, 0.3, 0.15, 0.15]))]
    return Road(
        half_width_m=float(rng.uniform(2.9, 3.9)),
        kerb=kerb,
        asphalt=float(rng.uniform(82, 124)),
        wear=float(rng.uniform(0.1, 0.75)),
        edge_line=bool(rng.random() < (0.35 if kerb else 0.8)),
        dash_m=dash,
        period_m=period,
    )


def paint_ground(
    rng: np.random.Generator,
    picture: UInt8[ndarray, "H W 3"],
    camera: Camera,
    light: Light,
    road: Road,
    shadows: tuple[Shadow, ...],
) -> None:
    """Paints everything below the horizon."""
    shift = rng.uniform(0, TILE, 2).astype(np.float32) + 64 * TILE
    for top in range(max(int(camera.horizon_px), 0), camera.size[0], _BAND):
        rows = np.arange(top, min(top + _BAND, camera.size[0]), dtype=np.float32)[:, None]
        ground = _look(camera, rows, shift)
        color = _surface(ground, light, road)  # 3 h W: planes, because NumPy is slow along an axis of three
        shade = _shade(ground, shift, shadows)
        far = 1 - np.exp(-ground.z / light.haze_m)
        color *= (1 - far) * (_plane(light.sun) + _plane(np.subtract(light.ambient, light.sun)) * shade)
        color += _plane(light.haze) * far
        picture[top : top + _BAND] = color.clip(0, 255).astype(np.uint8).transpose(1, 2, 0)


def _look(camera: Camera, rows: ndarray, shift: ndarray) -> _Patch:
    below = np.maximum(rows + 0.5 - camera.horizon_px, 0.25)
    z = camera.focal_px * camera.eye_m / below
    step = z / camera.focal_px
    column = np.arange(camera.size[1], dtype=np.float32)[None, :] + 0.5
    x = (column - camera.vanish_px) * step - camera.center_m - camera.bend_per_m * z * z
    # The grain's scale follows the depth in octaves, so that it is always about a pixel fine.
    fine = 2.0 ** np.floor(np.log2(0.9 / step))
    grain = sample(fractal(14, cells=128, octaves=2, gain=0.8), x * fine + shift[0], z * fine * 0.5 + shift[1])
    blotch = sample(fractal(15, cells=6, octaves=6, gain=0.7), x * 24 + shift[1], z * 16 + shift[0])
    return _Patch(x, z, step, z * step / camera.eye_m, grain, blotch)


def _surface(ground: _Patch, light: Light, road: Road) -> ndarray:
    """Colors before light: grass, then what borders the road, then the road and its paint."""
    across, edge, step = np.abs(ground.x), road.half_width_m, ground.step
    color = _grass(ground, light)
    if road.kerb:
        joints = 1 - 0.16 * _line((ground.z % 1.5) - 0.75, 0.02, ground.row)
        pavement = _plane((158, 155, 149)) * (_tone(ground, 0.04, 0.04) * joints)
        color = _over(color, pavement, _inside(across, edge + 2.1, step))
        color = _over(color, 186 * _tone(ground, 0.04, 0), _inside(across, edge + 0.22, step))
        color = _over(color, np.float32(92), _inside(across, edge + 0.04, step))
    else:
        ragged = edge + 0.45 + 0.20 * ground.blotch + 0.10 * ground.grain - across
        gravel = _plane((148, 136, 116)) * _tone(ground, 0.10, 0.06)
        color = _over(color, gravel, 0.85 * smoothstep(-0.3, 0.3, ragged))
        across += 0.02 * ground.grain
    color = _over(color, _asphalt(ground, road), _inside(across, edge, step))
    return _over(color, _plane((226, 225, 216)), _markings(ground, road))


def _grass(ground: _Patch, light: Light) -> ndarray:
    green = _plane(light.grass)
    dry = green * _plane((0.16, 0.05, -0.05))
    tone = np.clip(_tone(ground, 0.12, 0.06), 0.4, 1.7)
    return (green + dry * smoothstep(-0.8, 1.6, ground.blotch)) * tone


def _asphalt(ground: _Patch, road: Road) -> ndarray:
    # Tyres polish two tracks per lane; oil darkens the strip between them.
    from_lane = np.abs(np.abs(ground.x) - road.half_width_m / 2)
    tracks = np.exp(-(((from_lane - 0.75) / 0.28) ** 2)) - 0.7 * np.exp(-((from_lane / 0.3) ** 2))
    seams = np.abs(sample(fractal(17, cells=5, octaves=5), ground.x * 14 + 32 * TILE, ground.z * 5))
    cracks = smoothstep(0.06, 0.0, seams) * np.clip(9 / ground.z, 0, 1)
    tone = _tone(ground, 0.045, 0.022) + 0.05 * tracks - 0.08 * cracks
    return road.asphalt * _plane((0.99, 1.0, 1.02)) * tone


def _markings(ground: _Patch, road: Road) -> ndarray:
    def painted(at: ndarray) -> ndarray:
        return np.floor(at / road.period_m) * road.dash_m + np.minimum(at % road.period_m, road.dash_m)

    dash = (painted(ground.z + ground.row / 2) - painted(ground.z - ground.row / 2)) / ground.row
    cover = dash * _line(ground.x, 0.07, ground.step)
    if road.edge_line:
        cover = np.maximum(cover, _line(np.abs(ground.x) - (road.half_width_m - 0.28), 0.07, ground.step))
    worn = smoothstep(1.5 - 1.3 * road.wear, 3.2 - 1.3 * road.wear, 0.6 * ground.grain + ground.blotch + 1)
    return cover * (0.92 - 0.75 * worn)


def _shade(ground: _Patch, shift: ndarray, shadows: tuple[Shadow, ...]) -> ndarray:
    """How much of the sun is lost, 0 … 1; the edge is broken up like a crown's."""
    total = np.zeros_like(ground.x)
    leaves = fractal(18, cells=20, octaves=4, gain=0.7)
    for shadow in shadows:
        rows = np.flatnonzero(np.abs(ground.z[:, 0] - shadow.z_m) < 1.7 * shadow.half_z_m)
        if len(rows):
            band = slice(rows[0], rows[-1] + 1)
            x, z = ground.x[band], ground.z[band]
            far = np.hypot((x - shadow.x_m) / shadow.half_x_m, (z - shadow.z_m) / shadow.half_z_m)
            far += 0.30 * sample(leaves, x * 22 + shift[0], z * 22 + shift[1])
            np.maximum(total[band], shadow.density * smoothstep(1.25, 0.75, far), out=total[band])
    return total


def _plane(color: Sequence[Number] | ndarray) -> ndarray:
    return np.array(color, np.float32)[:, None, None]


def _tone(ground: _Patch, fine: Number, coarse: Number) -> ndarray:
    return 1 + fine * ground.grain + coarse * ground.blotch


def _inside(across: ndarray, edge_m: Number, step: ndarray) -> ndarray:
    return np.clip((edge_m - across) / step + 0.5, 0, 1)


def _line(x: ndarray, half_width_m: Number, step: ndarray) -> ndarray:
    """How much of a pixel `step` wide at `x` a line of the given half width around 0 covers."""
    ends = np.minimum(x + step / 2, half_width_m) - np.maximum(x - step / 2, -half_width_m)
    return np.clip(ends / step, 0, 1)


def _over(below: ndarray, above: ndarray | np.float32, cover: ndarray) -> ndarray:
    below += (above - below) * cover
    return below
