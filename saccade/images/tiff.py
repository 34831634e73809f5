"""TIFFs through tifffile: this file's own pages and nothing else.

tifffile follows the metadata of many formats to other files (OME-TIFF, Micro-Manager, NDTiff) and makes lists as long
as a text says (plane counts of OME, ImageJ, ScanImage). None of that is needed for one picture and its smaller levels,
so none of it is switched on, and series are never asked for.
"""

import logging
from itertools import islice
from pathlib import Path

import numpy as np
import tifffile

from saccade.images.bad_image import BadImage, Fault, require_file
from saccade.images.decoding_cost import check_size
from saccade.places import Ranged

# It tells of damage by quoting the file; whoever wants to hear that sets up logging for it.
logging.getLogger("tifffile").addHandler(logging.NullHandler())

MAX_LEVELS = 32  # of a pyramid: each is at least two times smaller

_ORIENTATION = 274
_CHANNELS = {int(tifffile.PHOTOMETRIC.RGB): (3, 4), int(tifffile.PHOTOMETRIC.MINISBLACK): (1,)}


def open_tiff(path: Path | Ranged) -> tifffile.TiffFile:
    """The file, of which `pages` may be used and `series` may not."""
    require_file(path)
    # Of these kinds pages are loaded, or made up, by what the metadata says as soon as the file is opened.
    file = path.open() if isinstance(path, Ranged) else path
    return tifffile.TiffFile(file, _multifile=False, is_lsm=False, is_scanimage=False, is_ndpi=False)


def find_levels(tiff: tifffile.TiffFile) -> list[tifffile.TiffPage]:
    """The first page and those that are it, smaller by a factor of 2, 3 or 4 each time; SubIFDs or further pages."""
    first = tiff.pages.first
    levels, factors = [first], (2, 3, 4)
    for page in islice(first.pages or tiff.pages, MAX_LEVELS):
        assert isinstance(page, tifffile.TiffPage)  # frames are for those who ask for them
        found = [factor for factor in factors if _is_smaller(page, levels[-1], factor)]
        if found:
            levels.append(page)
            factors = (found[0],)
    return levels


def _is_smaller(page: tifffile.TiffPage, than: tifffile.TiffPage, factor: int) -> bool:
    sides = ((than.imagelength, page.imagelength), (than.imagewidth, page.imagewidth))
    alike = page.dtype == than.dtype and page.samplesperpixel == than.samplesperpixel and page.axes == than.axes
    return alike and all(small in (large // factor, -(-large // factor)) for large, small in sides)


def read_tiff(path: Path, max_pixels: int) -> np.ndarray:
    """H W or H W 3, float32 in [0, 1], of the TIFFs that Pillow cannot read: 16-bit and float color, float64."""
    with open_tiff(path) as file:
        page = file.pages.first
        # Its numbers as they are, as float32, and laid over white; an image may also have a depth.
        check_size(path, (page.imagelength, page.imagewidth), max_pixels, page.nbytes + 3 * 4 * page.size)
        upright = _ORIENTATION not in page.tags or page.tags[_ORIENTATION].value == 1
        channels = _CHANNELS.get(int(page.photometric), ())
        if page.axes not in ("YX", "YXS", "SYX") or page.samplesperpixel not in channels or not upright:
            raise BadImage(path, "this kind of TIFF cannot be read: save it as upright 8- or 16-bit RGB", Fault.UNKNOWN)
        values = page.asarray(maxworkers=1)
        axes = page.axes
    if values.dtype.kind == "u":
        values = values / np.float32(np.iinfo(values.dtype).max)
    if axes == "SYX":
        values = np.moveaxis(values, 0, -1)
    if values.ndim == 2:
        return values
    color, alpha = values[..., :3], values[..., 3:]
    return np.ascontiguousarray(color * alpha + (1 - alpha) if alpha.size else color)
