"""An ordinary image file (JPEG, PNG, TIFF, …), decoded by Pillow.

Such a file has no parts that could be read alone: `regions` decodes it whole, at the first call, and keeps the bytes.
A JPEG's view does without: its blocks can be decoded at 1/2, 1/4 or 1/8 of their size from the low frequencies of
their cosine transform alone, several times faster, and the antialiased resize goes the rest of the way.
"""

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from PIL import ExifTags, Image, ImageOps
from PIL.JpegImagePlugin import JpegImageFile
from torch import Tensor

from saccade.images.bands import resize
from saccade.images.boxes import read_regions, to_float
from saccade.images.decode import MAX_PIXELS, BadImage, read_pixels
from saccade.images.view import view_size

# A cut at the view's own size rings and aliases: a mean error of 2 gray levels on street scenes, below 1 with this.
DCT_MARGIN = 1.5


class FileImage:
    """An `ImageSource` over one file; it travels to other processes as its path and is decoded where it is used."""

    def __init__(self, path: str | Path, *, max_pixels: int = MAX_PIXELS):
        self.path = Path(path)
        self.max_pixels = max_pixels

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "max_pixels": self.max_pixels}

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the upright picture in pixels."""
        jpeg = self._open_jpeg()
        if jpeg is None:
            height, width = self._pixels.shape[:2]
            return height, width
        with jpeg:
            width, height = jpeg.size
            return (width, height) if _lies_on_its_side(jpeg) else (height, width)

    def view(self, scale: float) -> Float[Tensor, "3 h w"]:
        """The image resized to `view_size(size, scale)`; a JPEG at a scale up to 1/3 is never decoded whole."""
        size = view_size(self.size, scale)
        jpeg = self._open_jpeg() if scale * DCT_MARGIN <= 1 / 2 else None
        if jpeg is None:
            return resize([self._pixels], self.size, size)  # as floats the whole would take four times its bytes
        try:
            return to_float(_shrink_jpeg(jpeg, size))
        except OSError as error:
            raise BadImage(self.path, f"damaged or truncated ({error})") from error

    def regions(self, boxes: Int[Tensor, "R 4"]) -> Float[Tensor, "R 3 P Q"]:
        """The pixels inside equally sized boxes (left, top, right, bottom), zero outside the image."""
        return read_regions(lambda box: self._pixels[box.top : box.bottom, box.left : box.right], boxes, self.size)

    @cached_property
    def _pixels(self) -> np.ndarray:
        return read_pixels(self.path, max_pixels=self.max_pixels)

    def _open_jpeg(self) -> JpegImageFile | None:
        """The file if it is a JPEG that may be decoded; otherwise `read_pixels` decodes it or says what is wrong."""
        try:
            jpeg = JpegImageFile(self.path)
        except (SyntaxError, OSError):  # Pillow's answer to another format is a SyntaxError
            return None
        return jpeg if math.prod(jpeg.size) <= self.max_pixels else None


def _shrink_jpeg(jpeg: JpegImageFile, size: tuple[int, int]) -> np.ndarray:
    """The upright picture as bytes of `size`, from the smallest cosine-transform cut that is large enough."""
    with jpeg:
        height, width = reversed(size) if _lies_on_its_side(jpeg) else size
        cut = jpeg.draft(None, (int(width * DCT_MARGIN), int(height * DCT_MARGIN)))
        # A cut has whole pixels: of 1277 columns it makes 639, of which the picture covers 638.5. That is its box.
        box = cut[1] if cut else None
        small = jpeg.convert("RGB").resize((width, height), Image.Resampling.BILINEAR, box)
        return np.array(ImageOps.exif_transpose(small))


def _lies_on_its_side(image: Image.Image) -> bool:
    return image.getexif().get(ExifTags.Base.Orientation) in (5, 6, 7, 8)
