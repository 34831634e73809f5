"""Small pictures with soft edges that are laid over a large one: drawn big, shrunk, hazed, pasted."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageChops, ImageDraw

from saccade.data.rendering.box import Box
from saccade.data.rendering.pixel_noise import Number, fractal, window
from saccade.data.rendering.street_camera import Camera, Pixel
from saccade.data.rendering.street_light import Light


class Sprite(NamedTuple):
    """An RGBA picture and where its left upper corner lies in the large one."""

    image: Image.Image
    left_px: int
    top_px: int

    @property
    def box(self) -> Box:
        """The pixels of the large picture it lies over."""
        width, height = self.image.size
        return Box(self.left_px, self.top_px, self.left_px + width, self.top_px + height)


def paste(picture: Image.Image, sprite: Sprite, light: Light, z_m: Number) -> None:
    """Lays `sprite` over `picture` as seen through `z_m` metres of haze."""
    color = sprite.image.convert("RGB")
    haze = light.haze_at(z_m)
    if haze > 0.01:
        r, g, b = (int(c) for c in light.haze)
        color = Image.blend(color, Image.new("RGB", color.size, (r, g, b)), haze)
    picture.paste(color, (sprite.left_px, sprite.top_px), sprite.image.getchannel("A"))


class Easel:
    """Draws polygons given in picture coordinates `detail` times larger than life; `sprite()` shrinks the result.

    The shrinking is what makes the edges smooth: Pillow's own polygons have none.
    """

    def __init__(self, corners: Sequence[Pixel], camera: Camera, *, detail: int = 3, margin_px: int = 2):
        height, width = camera.size
        left = max(int(min(c.x_px for c in corners)) - margin_px, -2)
        top = max(int(min(c.y_px for c in corners)) - margin_px, -2)
        right = min(int(max(c.x_px for c in corners)) + margin_px + 1, width + 2)
        bottom = min(int(max(c.y_px for c in corners)) + margin_px + 1, height + 2)
        self.left_px, self.top_px, self.detail = left, top, detail
        self.size = (max(right - left, 1), max(bottom - top, 1))
        # Opaque or nothing, so this is premultiplied by itself: it can be shrunk without a conversion.
        self.image = Image.new("RGBa", (self.size[0] * detail, self.size[1] * detail))
        self.draw = ImageDraw.Draw(self.image)

    def at(self, pixel: Pixel) -> tuple[float, float]:
        """A place of the picture on the enlarged canvas."""
        return (pixel.x_px - self.left_px) * self.detail, (pixel.y_px - self.top_px) * self.detail

    def polygon(self, corners: Sequence[Pixel], color: tuple[int, ...]) -> None:
        """A filled polygon."""
        self.draw.polygon([self.at(c) for c in corners], fill=color)

    def line(self, start: Pixel, end: Pixel, color: tuple[int, ...], width_px: Number) -> None:
        """A straight stroke."""
        self.draw.line([self.at(start), self.at(end)], fill=color, width=max(int(width_px * self.detail + 0.5), 1))

    def sprite(self) -> Sprite:
        """What was drawn, at the picture's size."""
        return Sprite(shrink(self.image, self.detail), self.left_px, self.top_px)


def shrink(image: Image.Image, factor: int) -> Image.Image:
    """An RGBA picture from a premultiplied one `factor` times larger."""
    return image.reduce(factor).convert("RGBA")


def roughen(image: Image.Image, rng: np.random.Generator, amount: Number) -> Image.Image:
    """An RGBA picture whose colors are uneven like plaster or paint: noise of standard deviation `amount`."""
    tone = 1 + amount * window(fractal(51, cells=24, octaves=5, gain=0.8), rng, (image.height, image.width))
    gray = Image.fromarray((tone * 235).clip(0, 255).astype(np.uint8))
    out = ImageChops.multiply(image.convert("RGB"), Image.merge("RGB", (gray, gray, gray)))
    out.putalpha(image.getchannel("A"))
    return out
