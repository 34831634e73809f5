"""What reading a file will take at its peak, in bytes, told by its header before anything is allocated.

The number of pixels says too little: a progressive JPEG holds its coefficients, a WebP three copies of the picture, a
TIFF one tile of any size, and a deep image becomes floats. The peak is

    pixels · (in Pillow + what the decoder holds + in the result)  +  the largest strip or tile of a TIFF.

Measured by `tests/hostile`: the true peak of every kind of file stays below this.
"""

import math
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from saccade.extras import how_to_install, is_installed
from saccade.images.bad_image import BadImage, Fault
from saccade.images.image_formats import is_tiff
from saccade.images.jpeg_scans import MAX_SCANS, Scans, count_scans

# 16384²: as RGB, 4 bytes a pixel in Pillow and 3 in the result make 1.75 GiB, so that all of reading stays below 2.
MAX_PIXELS = 2**28
RGB_BYTES = 7
MIN_BYTES = 2**29  # whoever allows few pixels still allows any kind of file, up to 20 megapixels

_BITS_PER_SAMPLE, _ORIENTATION, _SAMPLES = 258, 274, 277
_TILE_WIDTH, _TILE_HEIGHT, _ROWS_PER_STRIP = 322, 323, 278
_ONE_BYTE, _TWO_BYTES, _FLOATS = {"1", "L", "P"}, {"I;16", "I;16B", "I;16L", "I;16N"}, {"I", "F"}


def check_cost(path: Path, image: Image.Image, max_pixels: int) -> None:
    """Refuse a file, in words, if it has too many pixels, or would take too much memory or too many passes."""
    width, height = image.size
    scans = count_scans(path) if image.format in ("JPEG", "MPO") else Scans(1, 0)
    if scans.count > MAX_SCANS:
        raise BadImage(
            path, f"a JPEG of more than {MAX_SCANS} scans, each of which costs a pass: save it again", Fault.LARGE
        )
    check_size(path, (height, width), max_pixels, peak_bytes(image, held_channels=scans.held_channels))


def check_size(path: Path, size: tuple[int, int], max_pixels: int, needed: int) -> None:
    """Refuse a picture of `size` (height, width) whose reading takes `needed` bytes, if that is beyond the limits."""
    (height, width), allowed = size, allowed_bytes(max_pixels)
    if height * width > max_pixels:
        too_much = f"{height * width / 1e6:,.0f} megapixels, the limit is {max_pixels / 1e6:,.0f}"
    elif needed > allowed:
        too_much = f"an image that takes {needed / 1e9:,.1f} GB to read, the limit is {allowed / 1e9:,.1f} GB"
    else:
        return
    raise BadImage(
        path,
        f"{height}×{width} is {too_much}; if you trust the file, raise max_pixels (--max-pixels, in training "
        "--model.preparation.max_pixels), or make a tiled pyramid of it, which is read in parts (in training with "
        f"model.preparation.stream){_other_reader(path)}",
        Fault.LARGE,
    )


def _other_reader(path: Path) -> str:
    if is_installed("slides") or not is_tiff(path):
        return ""
    return f"; if it is a tiled pyramid, it needs OpenSlide: {how_to_install('slides')}"


def allowed_bytes(max_pixels: int) -> int:
    """What reading may take at its peak: whoever allows so many pixels allows the memory of that many in RGB."""
    return max(MIN_BYTES, RGB_BYTES * max_pixels)


def peak_bytes(image: Image.Image, *, held_channels: int = 0) -> int:
    """What Pillow and `read_pixels` take for an image that has been opened and not yet loaded."""
    in_result = 12 if image.mode in _TWO_BYTES | _FLOATS else 3
    held = _HELD_BY_DECODER.get(image.format or "", lambda image: 0)(image) + 2 * held_channels
    return math.prod(image.size) * (_in_pillow(image.mode) + held + in_result) + _largest_chunk(image)


def _in_pillow(mode: str) -> int:
    return 1 if mode in _ONE_BYTE else 2 if mode in _TWO_BYTES else 4


# Bytes per pixel. WebP: the canvas of this frame and of the one before, and the picture as bytes. AVIF: planes of up to
# 16 bits, the same as RGBA and as bytes. JPEG 2000: 32 bits per channel, and a row of them. GIF: the frame before.
_HELD_BY_DECODER: dict[str, Callable[[Image.Image], int]] = {
    "WEBP": lambda image: 12,
    "AVIF": lambda image: 16,
    "JPEG2000": lambda image: 5 * len(image.getbands()),
    "GIF": lambda image: 1,
}


def _largest_chunk(image: Image.Image) -> int:
    if image.format != "TIFF":
        return 0
    tags = image.tag_v2  # type: ignore[attr-defined]
    # Turned TIFFs are turned by Pillow itself, which takes the picture twice.
    turned = math.prod(image.size) * _in_pillow(image.mode) if tags.get(_ORIENTATION, 1) != 1 else 0
    sample_bytes = -(-max(tags.get(_BITS_PER_SAMPLE, (1,))) // 8)
    pixel_bytes = max(int(tags.get(_SAMPLES, 1)) * sample_bytes, 4)  # libtiff makes RGBA of some
    width, height = image.size
    if _TILE_WIDTH in tags:
        chunk = int(tags[_TILE_WIDTH]) * int(tags.get(_TILE_HEIGHT, 1))
    else:
        chunk = width * min(int(tags.get(_ROWS_PER_STRIP, height)), height)
    return turned + chunk * pixel_bytes
