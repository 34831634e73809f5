"""Templates → pages. All that comes from files is escaped, so nothing of it can become markup.

A page is one file: its style is inside, its pictures are data, and it has no script.
"""

import base64
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure
from PIL import Image

from saccade.files import write_whole
from saccade.report.plots import style

ENVIRONMENT = Environment(
    loader=PackageLoader("saccade.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


class Picture(NamedTuple):
    """An image inside a page: its data as an address, and what it shows in words."""

    source: str
    alt: str


def write_rendered(path: Path, template: str, **values: Any) -> Path:
    """Fill a template and write the page to `path`."""
    text = ENVIRONMENT.get_template(template).render(**values)
    # Names of files need not be UTF-8, pages must be.
    return write_whole(path, text.encode(errors="backslashreplace"))


def chart(figure: Figure, alt: str) -> Picture:
    """A chart as a drawing that stays sharp at every size."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _embed(buffer, "svg+xml", alt)


def photo(figure: Figure, alt: str, *, dpi: int = 165) -> Picture:
    """A figure of photographs."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="webp", dpi=dpi, pil_kwargs={"quality": 82})
    return _embed(buffer, "webp", alt)


def pixels(values: UInt8[np.ndarray, "h w 3"], alt: str) -> Picture:
    """Pixels as they are."""
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, format="webp", quality=85)
    return _embed(buffer, "webp", alt)


def _embed(buffer: io.BytesIO, kind: str, alt: str) -> Picture:
    return Picture(f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}", alt)
