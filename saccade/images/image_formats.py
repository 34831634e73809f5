"""Which files are read, and by whom: a list of what is allowed, since Pillow alone brings more than forty readers.

Some of those run other programs (EPS runs Ghostscript), decode before a limit can be looked at (ICO, ICNS) or have
hardly been tested against damage. None but the ones named here is ever asked about a file.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from saccade.images.bad_image import BadImage, blaming, require_file

SLIDE_SUFFIXES = {".svs", ".ndpi", ".mrxs", ".scn", ".vms", ".vmu", ".svslide", ".bif"}  # of OpenSlide's formats
IMAGE_SUFFIXES = {
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".avif", ".jp2"),
    *(".ppm", ".pgm", ".pbm", ".pnm"),
    *SLIDE_SUFFIXES,
}
PILLOW_FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "GIF", "WEBP", "AVIF", "JPEG2000", "PPM")

TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_pillow_limit = threading.Lock()


def open_lazily(path: Path, formats: tuple[str, ...] = PILLOW_FORMATS) -> Image.Image:
    """The header of an image file, pixels to follow when asked for, however large it says they are."""
    require_file(path)
    # Opening reads the header only; the caller's own limit is checked before any pixel is decoded.
    with without_pillow_limit():
        return Image.open(path, formats=formats)


def header_size(path: Path) -> tuple[int, int] | None:
    """Height and width as the header has them, not turned upright; None where Pillow does not know the file."""
    try:
        with blaming(path), open_lazily(path) as image:
            return image.height, image.width
    except BadImage:
        return None


@contextmanager
def without_pillow_limit() -> Iterator[None]:
    """Pillow's own limit is one number for the whole process, and refuses before the size can be told."""
    with _pillow_limit:
        saved, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = saved


def is_tiff(path: Path) -> bool:
    """Whether a file begins as TIFFs and BigTIFFs do."""
    require_file(path)
    with path.open("rb") as file:
        return file.read(4) in TIFF_MAGIC
