# %% [markdown]
# # Reading a gigapixel slide
#
# A slide is a pyramid of tiles. A model sees a small view of it and K patches, so of a gigapixel only a few megabytes
# are read. This slide is painted: 32,768² pixels of pale tissue with one dark spot, written tile by tile.

# %%
import resource
import time
import zlib
from pathlib import Path

import numpy as np
import tifffile
import torch

import saccade
from saccade.drawing import overlay
from saccade.images import open_image, view_size

SIDE, TILE, SPOT = 32_768, 1024, (20_480, 9_216)  # where the spot begins: left, top
texture = np.random.default_rng(0).integers(0, 12, (64, 64, 1), dtype=np.uint8)
pale = np.tile(np.array([238, 205, 219], np.uint8) - texture, (TILE // 64, TILE // 64, 1))
empty = zlib.compress(pale.tobytes(), 1)


def make_tiles(side: int):
    """The tiles of a level row by row, encoded: all alike, but where the spot is."""
    scale = side / SIDE
    left, top, wide = (round(value * scale) for value in (*SPOT, 256))
    for y in range(0, side, TILE):
        for x in range(0, side, TILE):
            if x <= left < x + TILE and y <= top < y + TILE:
                tile = pale.copy()
                tile[top - y : top - y + wide, left - x : left - x + wide] = (96, 42, 120)
                yield zlib.compress(tile.tobytes(), 1)
            else:
                yield empty


with tifffile.TiffWriter("slide.tif", bigtiff=True) as file:
    for side in (SIDE, SIDE // 4, SIDE // 16):
        shape, tile = (side, side, 3), (TILE, TILE)
        file.write(
            make_tiles(side), shape=shape, dtype=np.uint8, tile=tile, compression="deflate", photometric="rgb",
            subfiletype=int(side < SIDE),
        )  # fmt: skip
print(f"{SIDE**2 / 1e9:.2f} gigapixels in {Path('slide.tif').stat().st_size / 1e6:.0f} MB")

# %% [markdown]
# `open_image` opens it without decoding anything. It has a view at any scale, and regions at full resolution.

# %%
image = open_image("slide.tif")
began = time.perf_counter()
view = image.view(1 / 128)
region = image.regions(torch.tensor([[20_400, 9_100, 20_800, 9_500]]))
print(image.size, tuple(view.shape), tuple(region.shape), f"{time.perf_counter() - began:.1f} s")
assert view.shape[1:] == view_size(image.size, 1 / 128)

# %% [markdown]
# A model takes `Sources`, images that are read as they are needed, in the place of a tensor. This one is not trained:
# its scorer, a part of our own, likes what is dark. What a trained one likes, it has learnt.

# %%
from saccade.scorer.conv_scorer import ConvScorer


@saccade.register("scorer", "dark")
class Dark(ConvScorer):
    """Cells of the view by how dark their darkest pixel is."""

    def __init__(self, channels: int = 3, *, tiles: bool = True):
        super().__init__(channels, widths=(), kernel=1, pool=4, tiles=tiles)
        with torch.no_grad():
            self.layers[0].weight.fill_(-1.0)


torch.manual_seed(0)
model = saccade.build_model(
    saccade.ModelConfig(
        num_classes=2,
        classes=("healthy", "spotted"),
        image_size=(SIDE, SIDE),
        view={"scale": 1 / 128},
        scorer={"name": "dark"},
        selection={"name": "hard", "k": 2},
        extraction={"patch": 512},
        features={"name": "thin"},
        preparation=saccade.Preparation(stream=True),
    )
)

began = time.perf_counter()
prediction = saccade.Predictor(model)("slide.tif", crops=True, picture=True)
print(f"answered in {time.perf_counter() - began:.1f} s; whole, the slide would be {3 * SIDE**2 / 1e9:.1f} GB of bytes")
left, top, right, bottom = prediction.look.boxes[0].tolist()
print("looked at", (left, top, right, bottom))
assert left <= SPOT[0] + 128 <= right
assert top <= SPOT[1] + 128 <= bottom

# %%
overlay(prediction.look, width_in=6)

# %%
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(f"memory of this process at its peak: {peak:.1f} GB, torch and all")

# %% [markdown]
# [Images](../images.md) has formats, microns per pixel, training on slides, and what it costs;
# [predicting](../predict.md) reads them by folders, and from S3.
