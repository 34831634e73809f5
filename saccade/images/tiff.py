"""TIFFs through tifffile: this file's own pages and nothing else.

tifffile follows the metadata of many formats to other files (OME-TIFF, Micro-Manager, NDTiff) and makes lists as long
as a text says (plane counts of OME, ImageJ, ScanImage). None of that is needed for one picture and its smaller levels,
so none of it is switched on, and series are never asked for.
"""

import logging
import re
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
_UNIT_UM = {2: 25_400.0, 3: 10_000.0}  # inch, centimeter
_OTHER = re.compile(r"^(label|macro|thumbnail|overview)\b|[\r\n](label|macro)\b", re.IGNORECASE)
FINEST_UM, COARSEST_UM = 0.01, 20.0  # a pixel of a microscope
MAX_DESCRIPTION = 2**16
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


def sensible_microns(down: object, across: object) -> tuple[float, float] | None:
    """Microns per pixel, down and across, if both are numbers that a microscope could have.

    >>> sensible_microns("0.25", "0.25"), sensible_microns(None, "0.25"), sensible_microns(352.8, 352.8)
    ((0.25, 0.25), None, None)
    """
    try:
        found = float(str(down)), float(str(across))
    except ValueError:
        return None
    return found if all(FINEST_UM <= each <= COARSEST_UM for each in found) else None


def microns_of(tiff: tifffile.TiffFile) -> tuple[float, float] | None:
    """Microns per pixel of the first page: what OME wrote into its description, or the TIFF's own resolution.

    A printer's resolution, 72 to an inch, is more than any microscope's.
    """
    tags = tiff.pages.first.tags
    text = str(tags.valueof("ImageDescription", ""))[:MAX_DESCRIPTION]
    ome = [re.search(rf'PhysicalSize{axis}="([^"]+)"', text) for axis in "YX"]
    if all(ome) and not re.search(r'PhysicalSize[XY]Unit="(?!µm|&#181;m|\xb5m)', text):
        return sensible_microns(*(each and each[1] for each in ome))
    unit = _UNIT_UM.get(int(tags.valueof("ResolutionUnit", 0) or 0))
    ratios = [tags.valueof(f"{axis}Resolution", (0, 1)) for axis in "YX"]
    if unit is None or not all(isinstance(ratio, tuple) and len(ratio) == 2 and all(ratio) for ratio in ratios):
        return None
    return sensible_microns(*(unit * below / above for above, below in ratios))


def _is_smaller(page: tifffile.TiffPage, than: tifffile.TiffPage, factor: int) -> bool:
    sides = ((than.imagelength, page.imagelength), (than.imagewidth, page.imagewidth))
    alike = page.dtype == than.dtype and page.samplesperpixel == than.samplesperpixel and page.axes == than.axes
    # Scanners put a thumbnail and photographs of the glass beside the levels: those are in strips, or called so.
    alike = (
        alike and page.is_tiled == than.is_tiled and not _OTHER.search(str(page.tags.valueof("ImageDescription", "")))
    )
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
