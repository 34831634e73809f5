"""HTML by nesting functions: text is escaped unless it is `Html` already, so nothing from a file can become markup.

    page("A title", element("p", "5 < 6"))

A page is one file: its style is inside, its pictures are data, and it has no script.
"""

import base64
import io
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from matplotlib.figure import Figure
from PIL import Image

from saccade.report.plots import style

VOID = {"br", "img", "input", "meta"}
CSS = (Path(__file__).parent / "page.css").read_text()


class Html(str):
    """Text that is markup."""


def element(tag: str, /, *children: Any, **attributes: Any) -> Html:
    """One element; `class_` stands for class, and an attribute that is True has no value.

    >>> element("p", "a < b ", element("b", "so"), class_="note")
    '<p class="note">a &lt; b <b>so</b></p>'
    """
    said = [
        f" {key.rstrip('_')}" if value is True else f' {key.rstrip("_")}="{escape(str(value))}"'
        for key, value in attributes.items()
    ]
    opening = f"<{tag}{''.join(said)}>"
    return Html(opening if tag in VOID else f"{opening}{join(children)}</{tag}>")


def join(children: Iterable[Any]) -> Html:
    """One after the other; what is None is left out."""
    return Html("".join(c if isinstance(c, Html) else escape(str(c)) for c in children if c is not None))


def table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> Html:
    """A table with a heading row, if there is any heading, and the name of each row in its first cell."""
    lines = [join((element("th", first, scope="row"), *(element("td", c) for c in rest))) for first, *rest in rows]
    names = [element("th", cell, scope="col") for cell in head]
    heading = element("thead", element("tr", *names)) if names else None
    return element(
        "div", element("table", heading, element("tbody", *(element("tr", r) for r in lines))), class_="wide"
    )


def chart(figure: Figure, alt: str) -> Html:
    """A chart as a drawing that stays sharp at every size."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _image(buffer.getvalue(), "svg+xml", alt, class_="chart")


def photo(figure: Figure, alt: str, *, dpi: int = 165) -> Html:
    """A figure of photographs."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="webp", dpi=dpi, pil_kwargs={"quality": 82})
    return _image(buffer.getvalue(), "webp", alt)


def pixels(values: UInt8[np.ndarray, "h w 3"], alt: str) -> Html:
    """Pixels as they are."""
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, format="webp", quality=85)
    return _image(buffer.getvalue(), "webp", alt)


def _image(data: bytes, kind: str, alt: str, **attributes: Any) -> Html:
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return element("img", src=source, alt=alt, **attributes)


def enlargeable(picture: Html, caption: Html) -> Html:
    """A picture that fills the page's width when it is clicked, and shrinks again."""
    return element(
        "figure", element("label", element("input", type="checkbox"), picture), element("figcaption", caption)
    )


def page(title: str, *body: Any) -> Html:
    """A whole file."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(CSS)),
    )
    text = f"<!doctype html>\n{element('html', head, element('body', element('main', *body)), lang='en')}\n"
    return Html(text.encode(errors="backslashreplace").decode())  # names of files need not be UTF-8, pages must be
