"""file → pixels: any ordinary image file as upright RGB, in bytes or, where the file is finer, in floats of [0, 1].

    several pages or frames     the first
    EXIF or TIFF orientation    applied: the picture stands upright
    palette, gray, 1-bit, CMYK  converted to RGB (color profiles are not applied)
    alpha                       laid over white, as viewers show it: what lies under transparency is arbitrary
    16-bit                      value / 65535, kept as finely as the file has it where Pillow does
    float                       taken as it is, if within [0, 1]

Everything else, and every file that is damaged, missing or absurdly large, is a `BadImage` with the file's name.
"""

import threading
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image, ImageOps, UnidentifiedImageError

# As float32 RGB this many pixels take 3.6 GB, about what one image of a batch may reasonably take.
MAX_PIXELS = 300_000_000

_BITS_PER_SAMPLE, _COMPRESSION, _PHOTOMETRIC, _ORIENTATION = 258, 259, 262, 274
_pillow_limit = threading.Lock()


class BadImage(ValueError):  # noqa: N818 (it says what it is without a suffix)
    """An image file that cannot be used: `path` and the `reason`."""

    def __init__(self, path: Path | str, reason: str | None = None):
        if reason is None:
            # A DataLoader worker hands its error on as one text, a traceback that ends in our own message.
            last_line = str(path).strip().splitlines()[-1]
            path, _, reason = last_line.removeprefix(f"{__name__}.BadImage: ").partition(": ")
        super().__init__(str(path), reason)
        self.path = Path(path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def read_pixels(path: Path, *, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """The upright picture in `path` as H W 3 RGB, or `BadImage`: uint8, or float32 in [0, 1] if it has over 8 bits."""
    try:
        return _read(path, max_pixels)
    except BadImage:
        raise
    except Exception as error:  # decoders meet damaged files with almost any exception
        raise BadImage(path, _explain(path, error)) from error


def _read(path: Path, max_pixels: int) -> np.ndarray:
    try:
        image = open_lazily(path)
    except UnidentifiedImageError:
        if not _is_tiff(path):
            raise
        return _read_tiff(path, max_pixels)
    with image:
        _check_size(path, image.size, max_pixels)
        return _read_tiff(path, max_pixels) if _is_raw_deep_tiff(image) else _to_rgb(path, image)


def open_lazily(path: Path) -> Image.Image:
    """The header of an image file, pixels to follow when asked for, however large it says they are."""
    # Pillow's own limit is one number for the whole process and refuses before the size can be told. Opening
    # reads the header only, so it is safe without; the caller's limit is checked before any pixel is decoded.
    with _pillow_limit:
        saved, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(path)
        finally:
            Image.MAX_IMAGE_PIXELS = saved


def _check_size(path: Path, size: tuple[int, int], max_pixels: int) -> None:
    width, height = size
    if width * height > max_pixels:
        raise BadImage(
            path,
            f"{height}×{width} is {width * height / 1e6:,.0f} megapixels, the limit is {max_pixels / 1e6:,.0f}; if you "
            "trust the file, raise max_pixels (--max-pixels, in training --model.preparation.max_pixels), or make a "
            "tiled pyramid of it, which is read in parts (in training with model.preparation.stream)",
        )


def _to_rgb(path: Path, image: Image.Image) -> np.ndarray:
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode == "F":
        return _three_channels(_unit_range(path, np.array(image)))
    if image.mode.startswith("I"):
        return _three_channels(_from_16_bit(path, image))
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _from_16_bit(path: Path, image: Image.Image) -> np.ndarray:
    # Pillow's "I" has 32 bits; the 16-bit formats that come that way (PGM, old PNG) keep to 16 of them.
    values = np.array(image)
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 65535:
        raise BadImage(path, f"its integers run from {low} to {high}, expected 8 or 16 bits: save it with one of these")
    gray = values.astype(np.float32) / 65535
    # Pillow turns white-is-zero TIFFs the right way round at 8 bits, not at 16.
    white_is_zero = image.format == "TIFF" and image.getexif().get(_PHOTOMETRIC) == 0
    return 1 - gray if white_is_zero else gray


def _unit_range(path: Path, values: np.ndarray) -> np.ndarray:
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 1):  # also false for NaN
        raise BadImage(
            path, f"its float pixels run from {low:g} to {high:g}, expected [0, 1]: scale them and save again"
        )
    return values.astype(np.float32)


def _three_channels(gray: np.ndarray) -> np.ndarray:
    return np.repeat(gray[..., None], 3, axis=-1)


def _is_tiff(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def _is_raw_deep_tiff(image: Image.Image) -> bool:
    # Pillow mixes up the samples of uncompressed 16-bit color that is stored plane by plane.
    tags = getattr(image, "tag_v2", {})
    bits = tags.get(_BITS_PER_SAMPLE, (1,))
    return len(bits) > 1 and max(bits) > 8 and tags.get(_COMPRESSION, 1) == 1


def _read_tiff(path: Path, max_pixels: int) -> np.ndarray:
    """The TIFFs Pillow cannot read: 16-bit and float color, float64."""
    with tifffile.TiffFile(path) as file:
        page = file.pages.first
        _check_size(path, (page.imagewidth, page.imagelength), max_pixels)
        kinds = (tifffile.PHOTOMETRIC.RGB, tifffile.PHOTOMETRIC.MINISBLACK)
        upright = _ORIENTATION not in page.tags or page.tags[_ORIENTATION].value == 1
        if page.photometric not in kinds or page.samplesperpixel not in (1, 3, 4) or not upright:
            raise BadImage(path, "this kind of TIFF cannot be read: save it as upright 8- or 16-bit RGB")
        values = page.asarray()
        axes = page.axes
    if values.dtype.kind == "u":
        values = values / np.float32(np.iinfo(values.dtype).max)
    values = _unit_range(path, values)
    if axes == "SYX":
        values = np.moveaxis(values, 0, -1)
    if values.ndim == 2:
        return _three_channels(values)
    color, alpha = values[..., :3], values[..., 3:]
    return np.ascontiguousarray(color * alpha + (1 - alpha) if alpha.size else color)


def _explain(path: Path, error: Exception) -> str:
    if not path.exists():
        return "no such file"
    if path.is_file() and path.stat().st_size == 0:
        return "the file is empty (0 bytes)"
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of a kind Pillow cannot read"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"damaged or truncated ({error or type(error).__name__})"
