"""An uploaded file → what the model says of it, and tiles for people; too many pixels are refused before decoding.

The file is read by a guard, and both the guard and the model stop at the deadline of the request.
"""

import logging
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

from fastapi import HTTPException
from torch import nn

from saccade.images import BadImage, Fault, Guard, NotASlideError, SlideImage
from saccade.images.image_formats import header_size
from saccade.predict import Predictor
from saccade.serve.limits import Deadline, Limits, too_late, try_later
from saccade.serve.store import Kept
from saccade.serve.tiles import PixelTiles, SlideTiles

STATUSES = {Fault.UNKNOWN: 415, Fault.LARGE: 413}  # of others 422


def examine(
    predictor: Predictor,
    path: Path,
    limits: Limits,
    deadline: Deadline,
    *,
    guard: Guard | None = None,
    tile_guard: Guard | None = None,
) -> Kept:
    """Everything a request asks of the worker; an HTTPException that says why it fails.

    tile_guard: reads for people who look around later, so that nobody's prediction waits for them.
    """
    try:
        with _stopping(predictor.models, guard, deadline.end):
            _check_size(path, limits, guard)
            source = predictor.reader._replace(single_file=True, guard=guard).open(path)
            prediction = predictor(source, crops=True)
    except BadImage as error:
        raise refuse(error, deadline) from error
    except TimeoutError as late:
        raise too_late(deadline) from late
    except (ValueError, OSError) as error:  # an image that this model cannot take, such as one smaller than its view
        raise HTTPException(422, str(error).replace(str(path), "the image")) from error
    except (MemoryError, RuntimeError) as error:  # torch says with a RuntimeError that memory is short
        logging.getLogger(__name__).exception("looking at an image failed")
        raise try_later("the server is short of memory, or its model failed on this image") from error
    if isinstance(source, SlideImage):
        return Kept(SlideTiles(path, prediction.size, tile_guard), prediction, path)
    return Kept(PixelTiles(path, prediction.size, tile_guard, max_pixels=limits.max_pixels), prediction, path)


def refuse(error: BadImage, deadline: Deadline) -> HTTPException:
    """The refusal that tells what is wrong with a file."""
    if error.fault is Fault.SLOW:
        return too_late(deadline)
    if error.fault is Fault.MEMORY:
        return try_later("the server is short of memory")
    # What follows on a limit is advice for who started the server.
    return HTTPException(STATUSES.get(error.fault, 422), error.reason.partition("; if you trust the file")[0])


@contextmanager
def _stopping(models: Iterable[nn.Module], guard: Guard | None, moment: float) -> Iterator[None]:
    """Work in the block ends soon after `moment`: no further file is read, and no further layer computed."""

    def stop(*_: object) -> None:
        if time.monotonic() > moment:
            raise TimeoutError

    with ExitStack() as stack:
        if guard:
            stack.enter_context(guard.until(moment))
        for module in chain.from_iterable(model.modules() for model in models):
            stack.callback(module.register_forward_pre_hook(stop).remove)
        yield


def _check_size(path: Path, limits: Limits, guard: Guard | None) -> None:
    """413 if the file has too many pixels, by its header; a pyramid, of which only parts are read, may have more."""
    try:
        slide = SlideImage(path, single_file=True, guard=guard)  # uploads are files of strangers
    except NotASlideError:
        slide = None
    # Without a coarser level the view would need every pixel anyway.
    if slide is not None and len(slide.pyramid.sizes) > 1:
        return _check(slide.size, limits.max_slide_pixels)
    ask = guard.header_size if guard else header_size
    return _check(ask(path) or (0, 0), limits.max_pixels)  # what Pillow does not know, decoding will tell


def _check(size: tuple[int, int], max_pixels: int) -> None:
    if math.prod(size) > max_pixels:
        raise HTTPException(
            413, f"{size[0]}×{size[1]} is {math.prod(size) / 1e6:,.0f} megapixels, the limit is {max_pixels / 1e6:,.0f}"
        )
