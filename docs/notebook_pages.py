"""`examples/notebooks/*.py` → pages of the site and notebooks to download, both with what their cells gave.

The sources are Python in the percent format, which Jupyter (with jupytext), VS Code and PyCharm open as notebooks. They
run here in one process, a cell after the other: what was printed, and the last expression of a cell, is its output.
"""

import ast
import base64
import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from PIL import Image

SOURCES = Path(__file__).parents[1] / "examples" / "notebooks"
CELL = re.compile(r"^# %%( \[markdown\])?[^\n]*\n", re.MULTILINE)


class Cell(NamedTuple):
    """A cell and, once it was run, what it printed and the picture (PNG) it ended with."""

    text: str
    markdown: bool
    printed: str = ""
    picture: bytes = b""


def read_cells(path: Path) -> list[Cell]:
    """The cells of a source."""
    _, *parts = CELL.split(path.read_text(encoding="utf-8"))
    cells = zip(parts[::2], parts[1::2], strict=True)
    return [Cell(_uncomment(body) if mark else body.strip("\n"), bool(mark)) for mark, body in cells]


def _uncomment(body: str) -> str:
    return re.sub(r"^# ?", "", body.strip("\n"), flags=re.MULTILINE)


def run_cells(path: Path, folder: Path) -> list[Cell]:
    """The cells after they ran, with `folder` as the current one; an error is raised where it happens."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        return [cell if cell.markdown else _run(cell, names, path) for cell in read_cells(path)]


def _run(cell: Cell, names: dict[str, Any], path: Path) -> Cell:
    tree, printed, shown = ast.parse(cell.text, str(path)), io.StringIO(), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(path), "exec"), names)
        if last is not None:
            shown = eval(compile(ast.Expression(last.value), str(path), "eval"), names)
    text = printed.getvalue()
    if isinstance(shown, Figure | Image.Image):
        return cell._replace(printed=text, picture=_as_png(shown))
    return cell._replace(printed=text)


def _as_png(shown: Figure | Image.Image) -> bytes:
    buffer = io.BytesIO()
    shown.savefig(buffer, dpi=110) if isinstance(shown, Figure) else shown.save(buffer, format="png")
    return buffer.getvalue()


def as_markdown(cells: list[Cell]) -> str:
    """A page of the site."""
    return "\n\n".join(part for cell in cells for part in _parts(cell)) + "\n"


def _parts(cell: Cell) -> Iterator[str]:
    yield cell.text if cell.markdown else f"```python\n{cell.text}\n```"
    if cell.printed.strip():
        yield f"```text\n{cell.printed.rstrip()}\n```"
    if cell.picture:
        yield f"![What the cell gave](data:image/png;base64,{base64.b64encode(cell.picture).decode()})"


def as_notebook(cells: list[Cell]) -> str:
    """The same as `.ipynb`."""
    made = [_as_cell(cell, number) for number, cell in enumerate(cells)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": made}, indent=1)


def _as_cell(cell: Cell, number: int) -> dict[str, Any]:
    common = {"id": f"cell-{number}", "metadata": {}, "source": cell.text}
    if cell.markdown:
        return {"cell_type": "markdown", **common}
    outputs: list[dict[str, Any]] = []
    if cell.printed:
        outputs.append({"output_type": "stream", "name": "stdout", "text": cell.printed})
    if cell.picture:
        data = {"image/png": base64.b64encode(cell.picture).decode()}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    return {"cell_type": "code", **common, "execution_count": None, "outputs": outputs}
