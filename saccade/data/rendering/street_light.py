"""The light of a street scene: hour, weather and season as a handful of colors that every painter shares.

Colors are RGB in 0 … 255. What is far takes on the haze's color as 1 − exp(−z / haze_m).
"""

from typing import NamedTuple

import numpy as np

from saccade.data.rendering.pixel_noise import Number

Color = tuple[Number, Number, Number]


def scaled(color: Color, factor: Number) -> Color:
    """A darker or lighter color."""
    return color[0] * factor, color[1] * factor, color[2] * factor


def mixed(color: Color, other: Color, share: Number) -> Color:
    """`color` with `share` (0 … 1) of `other`."""
    r, g, b = (a + (b - a) * share for a, b in zip(color, other, strict=True))
    return r, g, b


class Light(NamedTuple):
    """Sun, sky, haze and season of one scene."""

    zenith: Color
    horizon: Color
    sun: Color  # what surfaces in the sun are multiplied with
    ambient: Color  # what surfaces in the shade are multiplied with
    haze: Color
    haze_m: float
    cloud_cover: float  # 0 clear … 1 closed
    shadow: float  # 0 none … 1 black
    sun_side: float  # −1 the sun stands left … 1 right
    grass: Color
    foliage: tuple[tuple[Color, Color], ...]  # (shaded, lit) leaf colors

    def haze_at(self, z_m: Number) -> float:
        """The share of haze in what is seen at depth `z_m`."""
        return float(1 - np.exp(-max(z_m, 0) / self.haze_m))

    def lit(self, color: Color, share: Number) -> tuple[int, int, int]:
        """`color` with `share` (0 … 1) of the sun on it."""
        (r, g, b), dark, sun = color, self.ambient, self.sun  # spelled out: called hundreds of times a picture
        return (
            min(int(r * (dark[0] + (sun[0] - dark[0]) * share)), 255),
            min(int(g * (dark[1] + (sun[1] - dark[1]) * share)), 255),
            min(int(b * (dark[2] + (sun[2] - dark[2]) * share)), 255),
        )


_HOURS = {  # zenith, horizon, sun, ambient, haze length in metres, cloud cover, shadow
    "noon": ((62, 118, 190), (186, 212, 232), (1.10, 1.07, 1.0), (0.60, 0.65, 0.74), 420, (0.1, 0.55), 0.50),
    "fair": ((84, 138, 200), (206, 222, 234), (1.08, 1.04, 0.98), (0.62, 0.66, 0.74), 300, (0.4, 0.75), 0.44),
    "evening": ((88, 118, 168), (248, 212, 168), (1.14, 1.01, 0.84), (0.57, 0.58, 0.66), 230, (0.2, 0.65), 0.48),
    "overcast": ((150, 160, 170), (212, 216, 218), (0.96, 0.97, 0.98), (0.78, 0.80, 0.83), 240, (0.8, 1.0), 0.14),
    "dull": ((112, 124, 138), (184, 192, 196), (0.84, 0.86, 0.88), (0.70, 0.73, 0.77), 150, (0.85, 1.0), 0.10),
    "mist": ((168, 186, 202), (226, 229, 228), (0.99, 0.98, 0.95), (0.80, 0.81, 0.83), 75, (0.3, 0.7), 0.16),
}
_SEASONS = {  # grass, leaves as (shaded, lit)
    "spring": ((100, 126, 62), (((34, 62, 26), (146, 178, 74)), ((40, 70, 34), (128, 168, 88)))),
    "summer": ((96, 118, 58), (((24, 44, 22), (104, 138, 62)), ((28, 50, 28), (118, 142, 70)))),
    "late summer": ((126, 124, 76), (((30, 44, 22), (116, 128, 60)), ((36, 46, 24), (136, 134, 66)))),
    "autumn": ((108, 112, 64), (((70, 40, 18), (204, 138, 52)), ((60, 48, 20), (190, 164, 66)))),
}


def draw_light(rng: np.random.Generator) -> Light:
    """An hour and a season, each jittered a little."""
    hour = tuple(_HOURS.values())[int(rng.choice(len(_HOURS), p=[0.24, 0.24, 0.18, 0.16, 0.08, 0.10]))]
    zenith, horizon, sun, ambient, haze_m, cover, shadow = hour
    grass, foliage = tuple(_SEASONS.values())[int(rng.choice(len(_SEASONS), p=[0.25, 0.4, 0.2, 0.15]))]
    exposure = float(rng.uniform(0.88, 1.06))
    return Light(
        zenith=_jitter(rng, zenith, 0.05),
        horizon=_jitter(rng, horizon, 0.02),
        sun=scaled(sun, exposure),
        ambient=scaled(ambient, exposure),
        haze=_jitter(rng, horizon, 0.015),
        haze_m=haze_m * float(rng.uniform(0.7, 1.5)),
        cloud_cover=float(rng.uniform(*cover)),
        shadow=shadow,
        sun_side=float(rng.choice((-1, 1)) * rng.uniform(0.4, 1.0)),
        grass=_jitter(rng, grass, 0.03),
        foliage=foliage,
    )


def _jitter(rng: np.random.Generator, color: Color, spread: Number) -> Color:
    r, g, b = (float(c * (1 + spread * k)) for c, k in zip(color, rng.standard_normal(3), strict=True))
    return r, g, b
