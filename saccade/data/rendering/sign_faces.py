"""The faces of road signs: the speed limit, and everything that looks like one from far away.

A face is drawn once, 192 px wide, in plate coordinates: x to the right and y down, from −1 to 1, a round plate being
the unit disc.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from saccade.data.rendering.pixel_noise import Number

SPEED_LIMITS = ("50", "70", "80")
SIDE, UNIT = 192, 90  # pixels of the picture and of one plate radius
_RED, _BLUE, _YELLOW = (186, 22, 34), (22, 72, 150), (244, 200, 44)
_WHITE, _BLACK, _GREY, _GREEN, _ORANGE = (243, 243, 239), (22, 22, 24), (138, 142, 146), (18, 104, 66), (232, 108, 26)


class Style(NamedTuple):
    """What varies between signs of one kind."""

    text: str
    weight: float  # of the figures' strokes, 1 is bold
    cap: float  # height of a speed limit's figures, in plate radii
    yellow: bool  # yellow instead of white ground


class _Face:
    """A canvas in plate coordinates."""

    def __init__(self) -> None:
        self.image = Image.new("RGBA", (SIDE, SIDE))
        self.draw = ImageDraw.Draw(self.image)

    def _at(self, *numbers: Number) -> list[float]:
        return [SIDE / 2 + UNIT * n for n in numbers]

    def disc(self, radius: Number, color: tuple[int, ...], x: Number = 0, y: Number = 0) -> None:
        self.draw.ellipse(self._at(x - radius, y - radius, x + radius, y + radius), fill=color)

    def shape(self, corners: list[tuple[Number, Number]], color: tuple[int, ...]) -> None:
        self.draw.polygon([tuple(self._at(x, y)) for x, y in corners], fill=color)  # type: ignore[arg-type]

    def box(
        self, half_x: Number, half_y: Number, color: tuple[int, ...], y: Number = 0, round_by: Number = 0.06
    ) -> None:
        self.draw.rounded_rectangle(self._at(-half_x, y - half_y, half_x, y + half_y), round_by * UNIT, fill=color)

    def stroke(
        self, start: tuple[Number, Number], end: tuple[Number, Number], width: Number, color: tuple[int, ...]
    ) -> None:
        self.draw.line([*self._at(*start), *self._at(*end)], fill=color, width=round(width * UNIT))

    def text(self, text: str, cap: Number, color: tuple[int, ...], weight: Number = 1.0, y: Number = 0) -> None:
        """`text` centered, its capitals `cap` high and never wider than the plate allows."""
        stroke = cap * UNIT * 0.075 * weight
        font = _font(round(cap * UNIT * 1.32))
        x_px, y_px = self._at(0, y)
        self.draw.text((x_px, y_px), text, font=font, fill=color, anchor="mm", stroke_width=stroke, stroke_fill=color)  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)


def _ring(face: _Face, ground: tuple[int, ...]) -> None:
    face.disc(1.0, (222, 222, 220))
    face.disc(0.975, _RED)
    face.disc(0.76, ground)


def _speed(face: _Face, style: Style) -> None:
    _ring(face, _YELLOW if style.yellow else _WHITE)
    face.text(style.text, style.cap, _BLACK, style.weight, y=-0.01)


def _no_vehicles(face: _Face, style: Style) -> None:
    _ring(face, _YELLOW if style.yellow else _WHITE)


def _no_entry(face: _Face, style: Style) -> None:
    face.disc(1.0, (222, 222, 220))
    face.disc(0.96, _RED)
    face.box(0.68, 0.18, _WHITE)


def _no_overtaking(face: _Face, style: Style) -> None:
    _ring(face, _YELLOW if style.yellow else _WHITE)
    for x, color in ((-0.33, _RED), (0.33, _BLACK)):
        face.draw.rounded_rectangle(face._at(x - 0.26, -0.08, x + 0.26, 0.22), 0.08 * UNIT, fill=color)
        face.draw.rounded_rectangle(face._at(x - 0.19, -0.30, x + 0.19, 0.05), 0.08 * UNIT, fill=color)
        face.disc(0.09, color, x - 0.16, 0.24)
        face.disc(0.09, color, x + 0.16, 0.24)


def _no_stopping(face: _Face, style: Style) -> None:
    _ring(face, _BLUE)
    face.stroke((-0.58, -0.58), (0.58, 0.58), 0.2, _RED)
    face.stroke((-0.58, 0.58), (0.58, -0.58), 0.2, _RED)


def _end(face: _Face, style: Style) -> None:
    face.disc(1.0, (96, 98, 100))
    face.disc(0.95, _WHITE)
    for k in (-0.18, -0.06, 0.06, 0.18):
        face.stroke((-0.62 + k, 0.62 + k), (0.62 + k, -0.62 + k), 0.055, _BLACK)


def _minimum(face: _Face, style: Style) -> None:
    face.disc(1.0, _WHITE)
    face.disc(0.94, _BLUE)
    face.text(style.text, 0.74, _WHITE, style.weight)


def _mirror(face: _Face, style: Style) -> None:
    face.disc(1.0, _ORANGE)
    face.disc(0.82, (150, 176, 200))
    face.draw.chord(face._at(-0.82, -0.82, 0.82, 0.82), 12, 168, fill=(96, 104, 84))
    face.disc(0.16, (226, 234, 240), -0.3, -0.4)


def _back(face: _Face, style: Style) -> None:
    face.disc(1.0, (122, 126, 130))
    face.disc(0.95, _GREY)
    face.box(0.9, 0.05, (112, 116, 120), y=-0.3)
    face.box(0.9, 0.05, (112, 116, 120), y=0.3)


def _bus_stop(face: _Face, style: Style) -> None:
    face.disc(1.0, (34, 120, 70))
    face.disc(0.84, _YELLOW)
    face.text("H", 0.86, (34, 120, 70), 1.2)


def _triangle(face: _Face, scale: Number, color: tuple[int, ...]) -> None:
    face.shape(
        [(0, -1.02 * scale + 0.1), (0.98 * scale, 0.68 * scale + 0.1), (-0.98 * scale, 0.68 * scale + 0.1)], color
    )


def _warning(face: _Face, style: Style) -> None:
    _triangle(face, 1.0, _RED)
    _triangle(face, 0.68, _YELLOW if style.yellow else _WHITE)
    face.stroke((0, -0.24), (0, 0.24), 0.16, _BLACK)
    face.disc(0.09, _BLACK, 0, 0.42)


def _yield(face: _Face, style: Style) -> None:
    face.shape([(0, 1.0), (1.0, -0.72), (-1.0, -0.72)], _RED)
    face.shape([(0, 0.55), (0.62, -0.5), (-0.62, -0.5)], _YELLOW if style.yellow else _WHITE)


def _stop(face: _Face, style: Style) -> None:
    for scale, color in ((1.04, _WHITE), (0.98, _RED)):
        turns = [math.pi / 8 + k * math.pi / 4 for k in range(8)]
        face.shape([(scale * math.cos(t), scale * math.sin(t)) for t in turns], color)
    face.text("STOP", 0.5, _WHITE, 1.0)


def _diamond(face: _Face, scale: Number, color: tuple[int, ...]) -> None:
    face.shape([(0, -scale), (scale, 0), (0, scale), (-scale, 0)], color)


def _priority(face: _Face, style: Style) -> None:
    _diamond(face, 1.0, _WHITE)
    _diamond(face, 0.72, _YELLOW)


def _advisory(face: _Face, style: Style) -> None:
    _diamond(face, 1.04, _BLACK)
    _diamond(face, 1.0, _YELLOW)
    face.text(style.text, 0.62, _BLACK, style.weight)


def _board(face: _Face, style: Style) -> None:
    face.box(0.74, 0.98, _BLACK)
    face.box(0.70, 0.94, _YELLOW if style.yellow else _WHITE)
    face.text(style.text, 0.74, _BLACK, style.weight, y=0.2)
    face.box(0.42, 0.06, _BLACK, y=-0.62)
    face.box(0.32, 0.06, _BLACK, y=-0.42)


def _parking(face: _Face, style: Style) -> None:
    face.box(0.96, 0.96, _WHITE)
    face.box(0.90, 0.90, _BLUE)
    face.text("P", 1.1, _WHITE, 1.2)


def _route(face: _Face, style: Style) -> None:
    face.box(1.0, 0.62, _WHITE)
    face.box(0.94, 0.56, _GREEN if style.yellow else _BLUE)
    face.text(style.text, 0.66, _WHITE, style.weight)


def _chevron(face: _Face, style: Style) -> None:
    ground, mark = (_YELLOW, _BLACK) if style.yellow else (_RED, _WHITE)
    face.box(0.96, 0.96, ground)
    face.shape([(-0.5, -0.8), (0.1, -0.8), (0.6, 0), (0.1, 0.8), (-0.5, 0.8), (0.0, 0)], mark)


def _panel(face: _Face, style: Style) -> None:
    face.box(0.98, 0.5, _BLACK)
    face.box(0.94, 0.46, _YELLOW if style.yellow else _WHITE)
    face.box(0.62, 0.07, _BLACK, y=-0.14)
    face.box(0.40, 0.07, _BLACK, y=0.14)


FACES: dict[str, Callable[[_Face, Style], None]] = {
    "speed": _speed, "no_vehicles": _no_vehicles, "no_entry": _no_entry, "no_overtaking": _no_overtaking,
    "no_stopping": _no_stopping, "end": _end, "minimum": _minimum, "mirror": _mirror, "back": _back,
    "bus_stop": _bus_stop, "warning": _warning, "yield": _yield, "stop": _stop, "priority": _priority,
    "advisory": _advisory, "board": _board, "parking": _parking, "route": _route, "chevron": _chevron, "panel": _panel,
}  # fmt: skip


@lru_cache(maxsize=1024)
def face(kind: str, style: Style) -> Image.Image:
    """The face of a kind of sign, premultiplied by its opacity."""
    canvas = _Face()
    FACES[kind](canvas, style)
    return canvas.image.convert("RGBa")
