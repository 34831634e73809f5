"""Cars on a street, seen from behind (own lane) or from the front (the other lane)."""

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from saccade.data.rendering.pixel_noise import Number
from saccade.data.rendering.sprites import Sprite, shrink
from saccade.data.rendering.street_camera import Camera
from saccade.data.rendering.street_light import Light

_PAINTS = (
    (228, 228, 226), (176, 180, 184), (92, 96, 102), (38, 40, 44), (150, 26, 28), (34, 62, 116), (58, 92, 74),
    (196, 158, 60), (120, 110, 98), (206, 206, 210),
)  # fmt: skip
_DETAIL = 4


def car(
    rng: np.random.Generator, camera: Camera, light: Light, x_m: Number, z_m: Number, *, from_behind: bool
) -> Sprite:
    """A car standing on the road at (x, z), 1.85 m wide."""
    scale = camera.px_per_m(z_m)
    foot = camera.project(x_m, 0, z_m)
    tall_m = float(rng.uniform(1.42, 1.75))
    wide, tall = max(int(1.85 * scale * 1.25), 4), max(int(tall_m * scale * 1.12), 4)
    size = (wide * _DETAIL, tall * _DETAIL)
    paint = light.lit(_PAINTS[int(rng.integers(len(_PAINTS)))], 0.55)
    body = _body(rng, size, paint, light, from_behind)
    shadow = Image.new("L", size)
    ImageDraw.Draw(shadow).ellipse(_span(size, 0.06, 0.86, 0.94, 1.0), fill=190)
    shadow = shadow.filter(ImageFilter.BoxBlur(size[1] * 0.02))
    image = Image.new("RGBA", size, (18, 18, 20, 255))
    image.paste(body.convert("RGB"), mask=body.getchannel("A"))
    image.putalpha(ImageChops.lighter(body.getchannel("A"), shadow))
    return Sprite(shrink(image.convert("RGBa"), _DETAIL), int(foot.x_px - wide / 2), int(foot.y_px - 0.97 * tall))


def _span(size: tuple[int, int], left: Number, top: Number, right: Number, bottom: Number) -> tuple[float, ...]:
    return left * size[0], top * size[1], right * size[0], bottom * size[1]


class _Sheet:
    """A canvas in shares of its width and height."""

    def __init__(self, size: tuple[int, int]):
        self.size = size
        self.image = Image.new("RGBA", size)
        self.draw = ImageDraw.Draw(self.image)

    def box(
        self, left: Number, top: Number, right: Number, bottom: Number, color: tuple[int, ...], radius: Number = 0.02
    ) -> None:
        self.draw.rounded_rectangle(_span(self.size, left, top, right, bottom), radius * self.size[0], fill=color)

    def both(self, points: tuple[tuple[Number, Number], ...], color: tuple[int, ...]) -> None:
        """The left half of a shape and its mirror image as one polygon."""
        whole = (*points, *((1 - x, y) for x, y in reversed(points)))
        self.draw.polygon([(x * self.size[0], y * self.size[1]) for x, y in whole], fill=color)


def _body(
    rng: np.random.Generator, size: tuple[int, int], paint: tuple[int, int, int], light: Light, from_behind: bool
) -> Image.Image:
    sheet = _Sheet(size)
    waist, roof = float(rng.uniform(0.42, 0.48)), float(rng.uniform(0.25, 0.29))
    shoulder = waist + 0.05
    dark, bright = (tuple(int(min(k * c + e, 255)) for c in paint) for k, e in ((0.5, 0), (1.08, 14)))
    for tyre, mirror in ((0.12, 0.055), (0.74, 0.865)):
        sheet.box(tyre, 0.72, tyre + 0.14, 0.985, (22, 22, 24), 0.03)
        sheet.box(mirror, waist - 0.05, mirror + 0.08, waist + 0.02, dark)
    edge = ((roof - 0.015, 0.13), (roof + 0.015, 0.085), (roof + 0.06, 0.06))
    sheet.both(((0.13, shoulder + 0.04), (0.165, waist - 0.03), *edge), paint)
    pane = ((roof + 0.01, 0.15), (roof + 0.03, 0.125), (roof + 0.06, 0.115))
    sheet.both(((0.19, waist), *pane), (34, 40, 46))
    sheet.both(((0.205, waist - 0.07), *pane), tuple(int(0.42 * c + 14) for c in light.horizon))
    flank = ((0.10, 0.86), (0.085, 0.70), (0.10, shoulder + 0.03), (0.14, waist + 0.01), (0.22, waist - 0.01))
    sheet.both(flank, paint)
    gleam = ((0.11, shoulder + 0.055), (0.12, shoulder + 0.02), (0.2, waist + 0.02), (0.22, waist + 0.035))
    sheet.both(gleam, bright)
    sheet.both(((0.10, 0.93), (0.088, 0.80), (0.11, 0.765)), dark)
    _fittings(sheet, waist + 0.07, from_behind)
    ramp = np.interp(np.linspace(0, 1, size[1]), (0, waist, waist + 0.04, 0.75, 1), (1.0, 0.94, 1.0, 0.8, 0.55))
    tone = Image.fromarray((ramp[:, None] * 255).astype(np.uint8)).resize(size)
    shaded = ImageChops.multiply(sheet.image.convert("RGB"), Image.merge("RGB", (tone, tone, tone)))
    shaded.putalpha(sheet.image.getchannel("A"))
    return shaded


def _fittings(sheet: _Sheet, top: Number, from_behind: bool) -> None:
    """Number plate, lamps and, in front, the grille; `top` is where the lamps begin."""
    sheet.box(0.39, 0.655, 0.61, 0.735, (218, 218, 212), 0.01)
    for k in range(5):
        sheet.box(0.42 + 0.034 * k, 0.675, 0.44 + 0.034 * k, 0.715, (58, 58, 64), 0.004)
    for left in (0.105, 0.735):
        if from_behind:
            sheet.box(left, top, left + 0.16, top + 0.12, (150, 18, 20))
            sheet.box(left + 0.02, top + 0.02, left + 0.14, top + 0.055, (206, 40, 36), 0.01)
            sheet.box(left + 0.05, top + 0.075, left + 0.11, top + 0.1, (232, 200, 180), 0.01)
        else:
            sheet.box(left, top + 0.01, left + 0.16, top + 0.11, (196, 202, 206), 0.03)
            sheet.box(left + 0.03, top + 0.025, left + 0.12, top + 0.085, (255, 255, 248), 0.03)
    if not from_behind:
        sheet.box(0.31, top + 0.01, 0.69, top + 0.1, (30, 30, 34))
        sheet.box(0.33, top + 0.045, 0.67, top + 0.06, (120, 122, 126), 0.005)
