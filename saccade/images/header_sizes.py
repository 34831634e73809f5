"""How large images are, by their headers alone; of those in shards, by the index."""

from pathlib import Path

from PIL import ExifTags, Image, UnidentifiedImageError

from saccade.images.image_formats import SLIDE_SUFFIXES, open_lazily
from saccade.images.image_source import open_file
from saccade.images.pyramid import open_pyramid
from saccade.images.tiff import open_tiff
from saccade.places import find_member


def upright_size(path: Path, mpp: float | None = None) -> tuple[int, int] | None:
    """Height and width of the upright picture; None where the header cannot be read.

    mpp: microns per pixel at which slides are seen.
    """
    if mpp is not None:
        return open_file(path, mpp=mpp).size  # a slide that does not say its microns is told now
    if member := find_member(path):
        return member.size
    # Some scanners' files are a small picture to Pillow, and others none at all.
    if path.suffix.lower() in SLIDE_SUFFIXES and (size := _slide_size(path)):
        return size
    try:
        with open_lazily(path) as image:
            width, height = image.size
            return (width, height) if _lies_on_its_side(image) else (height, width)
    except UnidentifiedImageError:
        return _tiff_size(path)  # slides, and the TIFFs that Pillow does not know
    except Exception:  # damaged files can raise anything here
        return None


def _slide_size(path: Path) -> tuple[int, int] | None:
    try:
        return open_pyramid(path).sizes[0]
    except Exception:
        return None


def _lies_on_its_side(image: Image.Image) -> bool:
    # A PNG may carry its orientation behind the pixels; to find out there is none, Pillow would decode it whole.
    if image.format == "PNG" and "exif" not in image.info:
        return False
    return image.getexif().get(ExifTags.Base.Orientation) in (5, 6, 7, 8)


def _tiff_size(path: Path) -> tuple[int, int] | None:
    try:
        with open_tiff(path) as file:
            return file.pages.first.imagelength, file.pages.first.imagewidth
    except Exception:
        return None
