"""file → pixels: any ordinary image file as upright RGB, in bytes or, where the file is finer, in floats of [0, 1].

    several pages or frames     the first
    EXIF or TIFF orientation    applied: the picture stands upright
    palette, gray, 1-bit, CMYK  converted to RGB (color profiles are not applied)
    alpha                       laid over white, as viewers show it: what lies under transparency is arbitrary
    16-bit                      value / 65535, kept as finely as the file has it where Pillow does
    float                       taken as it is, if within [0, 1]

Everything else, and every file that is damaged, missing or absurdly large, is a `BadImage` with the file's name.

JPEGs are decoded by libjpeg-turbo where it and Pillow agree to the byte (`turbo`), everything else by Pillow. Pixels go
from there into the result a few rows at a time, upright as they arrive, so that there is never a third copy.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from saccade.images.bad_image import BadImage, blaming
from saccade.images.decoding_cost import MAX_PIXELS, check_cost
from saccade.images.image_formats import is_tiff, open_lazily, without_pillow_limit
from saccade.images.tiff import read_tiff
from saccade.images.turbo import decode_jpeg

BAND_PX = 2**20  # converted at once

Allocate = Callable[[tuple[int, ...], type], np.ndarray]

_BITS_PER_SAMPLE, _COMPRESSION, _PHOTOMETRIC = 258, 259, 262

# For each orientation, the result (H W 3) seen as the file has it.
_AS_STORED: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.swapaxes(0, 1),
    6: lambda upright: upright[:, ::-1].swapaxes(0, 1),
    7: lambda upright: upright[::-1, ::-1].swapaxes(0, 1),
    8: lambda upright: upright[::-1].swapaxes(0, 1),
}


def read_pixels(path: Path, *, max_pixels: int = MAX_PIXELS, allocate: Allocate = np.empty) -> np.ndarray:
    """The upright picture in `path` as H W 3 RGB, or `BadImage`: uint8, or float32 in [0, 1] if it has over 8 bits.

    allocate: where the result is to lie, as `np.empty`.
    """
    with blaming(path):
        try:
            image = open_lazily(path)
        except UnidentifiedImageError:
            if not is_tiff(path):
                raise
            return _three_channels(_unit_range(path, read_tiff(path, max_pixels)), allocate)
        with image:
            check_cost(path, image, max_pixels)
            if _is_raw_deep_tiff(image):
                return _three_channels(_unit_range(path, read_tiff(path, max_pixels)), allocate)
            if image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L"):
                upright, stored = _place(image, allocate, np.uint8)
                if decode_jpeg(path, stored):
                    return upright
            _load(image)
            return _to_rgb(path, image, allocate)


def _load(image: Image.Image) -> None:
    limit = Image.MAX_IMAGE_PIXELS
    if image.format == "TIFF" and limit is not None and image.width * image.height > limit:
        with without_pillow_limit():  # TIFF is the one format that asks for it again
            image.load()
    image.load()


def _to_rgb(path: Path, image: Image.Image, allocate: Allocate) -> np.ndarray:
    if image.mode == "F":
        convert, dtype = _float_range(path, image), np.float32
    elif image.mode.startswith("I"):
        convert, dtype = _16_bit_range(path, image), np.float32
    else:
        convert, dtype = _rgb_bytes, np.uint8
    upright, stored = _place(image, allocate, dtype)
    for top, band in _bands(image):
        stored[top : top + band.height] = convert(band)
    return upright


def _place(image: Image.Image, allocate: Allocate, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Room for the upright picture, and the same room seen as the file has it."""
    orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    width, height = image.size
    upright = allocate((width, height, 3) if orientation in (5, 6, 7, 8) else (height, width, 3), dtype)
    return upright, _AS_STORED.get(orientation, lambda upright: upright)(upright)


def _bands(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    rows = max(BAND_PX // image.width, 1)
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _rgb_bytes(band: Image.Image) -> np.ndarray:
    if band.has_transparency_data:
        band = Image.alpha_composite(Image.new("RGBA", band.size, "white"), band.convert("RGBA"))
    return np.asarray(band if band.mode == "RGB" else band.convert("RGB"))


def _range(image: Image.Image) -> tuple[float, float]:
    extremes = [(values.min(), values.max()) for values in (np.asarray(band) for _, band in _bands(image))]
    lows, highs = np.array(extremes).T
    return float(lows.min()), float(highs.max())  # NaN if there is one


def _16_bit_range(path: Path, image: Image.Image) -> Callable[[Image.Image], np.ndarray]:
    # Pillow's "I" has 32 bits; the 16-bit formats that come that way (PGM, old PNG) keep to 16 of them.
    low, high = map(int, _range(image))
    if low < 0 or high > 65535:
        raise BadImage(path, f"its integers run from {low} to {high}, expected 8 or 16 bits: save it with one of these")
    # Pillow turns white-is-zero TIFFs the right way round at 8 bits, not at 16.
    white_is_zero = image.format == "TIFF" and image.getexif().get(_PHOTOMETRIC) == 0

    def convert(band: Image.Image) -> np.ndarray:
        gray = np.asarray(band).astype(np.float32)[..., None] / 65535
        return 1 - gray if white_is_zero else gray

    return convert


def _float_range(path: Path, image: Image.Image) -> Callable[[Image.Image], np.ndarray]:
    _require_unit_range(path, *_range(image))
    return lambda band: np.asarray(band)[..., None]


def _unit_range(path: Path, values: np.ndarray) -> np.ndarray:
    _require_unit_range(path, float(values.min()), float(values.max()))
    return values.astype(np.float32, copy=False)


def _require_unit_range(path: Path, low: float, high: float) -> None:
    if not (low >= 0 and high <= 1):  # also false for NaN
        raise BadImage(
            path, f"its float pixels run from {low:g} to {high:g}, expected [0, 1]: scale them and save again"
        )


def _three_channels(values: np.ndarray, allocate: Allocate) -> np.ndarray:
    pixels = allocate((*values.shape[:2], 3), np.float32)
    pixels[:] = values[..., None] if values.ndim == 2 else values
    return pixels


def _is_raw_deep_tiff(image: Image.Image) -> bool:
    # Pillow mixes up the samples of uncompressed 16-bit color that is stored plane by plane.
    tags = getattr(image, "tag_v2", {})
    bits = tags.get(_BITS_PER_SAMPLE, (1,))
    return len(bits) > 1 and max(bits) > 8 and tags.get(_COMPRESSION, 1) == 1
