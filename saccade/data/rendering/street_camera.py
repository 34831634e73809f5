"""Where things of a street appear in its picture: a pinhole camera at driver's height over a flat, gently bent road.

World coordinates in metres: x to the right of the road's center line, y up, z ahead of the camera. With focal length f,
vanishing point (v, h), eye height e, lateral offset c and bend b, a point lands at

    column = v + f · (x + c + b·z²) / z        row = h + f · (e − y) / z
"""

from typing import NamedTuple

import numpy as np

from saccade.data.rendering.pixel_noise import Number


class Pixel(NamedTuple):
    """A place in the picture; fractions are allowed, pixel k covers [k, k + 1)."""

    x_px: float
    y_px: float


class Camera(NamedTuple):
    """The view of a street; `size` is (height, width)."""

    size: tuple[int, int]
    focal_px: float
    horizon_px: float
    vanish_px: float
    eye_m: float
    center_m: float
    bend_per_m: float

    def project(self, x_m: Number, y_m: Number, z_m: Number) -> Pixel:
        """The place of a point of the street in the picture."""
        across = x_m + self.center_m + self.bend_per_m * z_m * z_m
        x_px = self.vanish_px + self.focal_px * across / z_m
        return Pixel(x_px, self.horizon_px + self.focal_px * (self.eye_m - y_m) / z_m)

    def lateral(self, x_px: Number, z_m: Number) -> float:
        """Metres to the right of the road's center of what appears in column `x_px` at depth `z_m`."""
        return (x_px - self.vanish_px) * z_m / self.focal_px - self.center_m - self.bend_per_m * z_m * z_m

    def px_per_m(self, z_m: Number) -> float:
        """Pixels per metre at depth `z_m`."""
        return self.focal_px / z_m


def draw_camera(rng: np.random.Generator, size: tuple[int, int]) -> Camera:
    """A camera of a car on the right lane, with its horizon near the middle of the picture."""
    height, width = size
    return Camera(
        size=size,
        focal_px=float(rng.uniform(0.85, 1.15)) * max(width, 0.8 * height),
        horizon_px=float(rng.uniform(0.42, 0.58)) * height,
        vanish_px=float(rng.uniform(0.36, 0.64)) * width,
        eye_m=float(rng.uniform(1.25, 1.6)),
        center_m=float(rng.uniform(-2.2, -0.9)),
        bend_per_m=float(rng.normal(0, 0.0007)),
    )
