"""An uploaded file → what the model says of it, and tiles for people; too many pixels are refused before decoding."""

import logging
import math
from pathlib import Path

from fastapi import HTTPException
from PIL import UnidentifiedImageError

from saccade.images import BadImage, NotASlideError, SlideImage
from saccade.images.decode import open_lazily
from saccade.predict import Predictor
from saccade.serve.limits import Limits, try_later
from saccade.serve.store import Kept
from saccade.serve.tiles import PixelTiles, SlideTiles, Tiles


def examine(predictor: Predictor, path: Path, limits: Limits) -> Kept:
    """Everything a request asks of the worker; an HTTPException that says why it fails."""
    try:
        tiles = open_tiles(path, limits)
        source = predictor.reader._replace(single_file=True).open(path)
        return Kept(tiles, predictor(source, crops=True), path)
    except BadImage as error:
        raise _refuse(error) from error
    except (ValueError, OSError) as error:  # an image that this model cannot take, such as one smaller than its view
        raise HTTPException(422, str(error).replace(str(path), "the image")) from error
    except (MemoryError, RuntimeError) as error:  # torch says with a RuntimeError that memory is short
        logging.getLogger(__name__).exception("looking at an image failed")
        raise try_later("the server is short of memory, or its model failed on this image") from error


def _refuse(error: BadImage) -> HTTPException:
    if is_short_of_memory(error):
        return try_later("the server is short of memory")
    unknown = isinstance(error.__cause__, UnidentifiedImageError)
    return HTTPException(415 if unknown else 422, error.reason)


def is_short_of_memory(error: Exception) -> bool:
    """Whether the server, not the image, is the reason; readers of images wrap whatever they meet."""
    return isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError)


def open_tiles(path: Path, limits: Limits) -> Tiles:
    """The tiles of the picture in a file, or 413 if it has too many pixels; none is decoded yet."""
    slide = _open_pyramid(path)
    if slide is not None:
        _check(slide.size, limits.max_slide_pixels)
        return SlideTiles(slide)
    _check(_header_size(path), limits.max_pixels)
    return PixelTiles(path, max_pixels=limits.max_pixels)


def _open_pyramid(path: Path) -> SlideImage | None:
    try:
        slide = SlideImage(path, single_file=True)  # uploads are files of strangers
    except NotASlideError:
        return None
    # Without a coarser level the view would need every pixel anyway.
    return slide if len(slide.pyramid.sizes) > 1 else None


def _header_size(path: Path) -> tuple[int, int]:
    """Height and width as the file has them; nothing where Pillow does not know, which decoding then tells."""
    try:
        with open_lazily(path) as image:
            return image.height, image.width
    except (OSError, ValueError, SyntaxError):
        return 0, 0


def _check(size: tuple[int, int], max_pixels: int) -> None:
    if math.prod(size) > max_pixels:
        raise HTTPException(
            413, f"{size[0]}×{size[1]} is {math.prod(size) / 1e6:,.0f} megapixels, the limit is {max_pixels / 1e6:,.0f}"
        )
