import re

import pytest
from matplotlib.figure import Figure

from saccade.report.markup import Html, chart, element, join, page, photo, table


def test_text_is_escaped_and_markup_is_not():
    assert element("p", "<b>", element("i", "&"), title='"x"') == '<p title="&quot;x&quot;">&lt;b&gt;<i>&amp;</i></p>'
    assert join(["a", None, Html("<br>"), 3]) == "a<br>3"
    assert element("input", type="checkbox", checked=True) == '<input type="checkbox" checked>'


def test_a_table_names_its_rows():
    found = table(("x", "<y>"), [("one", 1)])
    assert '<th scope="col">&lt;y&gt;</th>' in found
    assert '<th scope="row">one</th><td>1</td>' in found


@pytest.mark.parametrize(("draw", "kind"), [(chart, "svg+xml"), (photo, "webp")])
def test_a_figure_is_data_and_always_the_same(draw, kind):
    figure = Figure(figsize=(1, 1))
    figure.add_subplot().plot([0, 1])
    found = draw(figure, "a <line>")
    assert re.fullmatch(rf'<img src="data:image/{re.escape(kind)};base64,[\w+/=]+" alt="a &lt;line&gt;"[^>]*>', found)
    assert draw(figure, "a <line>") == found


def test_a_page_is_one_document():
    text = page("Grüße <1>", element("p", "σ"))
    assert text.startswith("<!doctype html>")
    assert "<title>Grüße &lt;1&gt;</title>" in text
