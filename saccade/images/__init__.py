"""Where pixels come from: a tensor, a file, a slide; the view of an image and regions of it.

Names are imported on first use: the process that decodes for others must not wait for torch, nor hold it in memory.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.images.bad_image import BadImage, Fault
    from saccade.images.file import FileImage
    from saccade.images.guarded import Guard
    from saccade.images.image_source import open_file, open_image, open_url
    from saccade.images.position_channels import add_positions
    from saccade.images.pyramid import NotASlideError
    from saccade.images.regions import cut_regions
    from saccade.images.slide import SlideImage
    from saccade.images.source_batch import ImageSource, Sources, unit_range
    from saccade.images.tensor import TensorImage
    from saccade.images.view import View, make_view, resize_bytes, view_size

_HOME = {
    "BadImage": "bad_image",
    "Fault": "bad_image",
    "FileImage": "file",
    "Guard": "guarded",
    "ImageSource": "source_batch",
    "NotASlideError": "pyramid",
    "SlideImage": "slide",
    "Sources": "source_batch",
    "TensorImage": "tensor",
    "View": "view",
    "add_positions": "position_channels",
    "cut_regions": "regions",
    "make_view": "view",
    "open_file": "image_source",
    "open_image": "image_source",
    "open_url": "image_source",
    "resize_bytes": "view",
    "unit_range": "source_batch",
    "view_size": "view",
}

__all__ = [
    "BadImage",
    "Fault",
    "FileImage",
    "Guard",
    "ImageSource",
    "NotASlideError",
    "SlideImage",
    "Sources",
    "TensorImage",
    "View",
    "add_positions",
    "cut_regions",
    "make_view",
    "open_file",
    "open_image",
    "open_url",
    "resize_bytes",
    "unit_range",
    "view_size",
]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
