"""Where pixels come from: a tensor, a file, a slide; the view of an image and regions of it."""

from saccade.images.decode import BadImage
from saccade.images.file import FileImage
from saccade.images.image_source import open_image
from saccade.images.position_channels import add_positions
from saccade.images.pyramid import NotASlideError
from saccade.images.regions import cut_regions
from saccade.images.slide import SlideImage
from saccade.images.source_batch import ImageSource, Sources
from saccade.images.tensor import TensorImage
from saccade.images.view import View, glance, make_view, view_size

__all__ = [
    "BadImage",
    "FileImage",
    "ImageSource",
    "NotASlideError",
    "SlideImage",
    "Sources",
    "TensorImage",
    "View",
    "add_positions",
    "cut_regions",
    "glance",
    "make_view",
    "open_image",
    "view_size",
]
