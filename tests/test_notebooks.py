"""The notebooks run from top to bottom, and give what their text promises; they assert it themselves."""

import json
from pathlib import Path

import pytest
from notebook_pages import SOURCES, as_markdown, as_notebook, read_cells, run_cells

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(SOURCES.glob("*.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = run_cells(path, tmp_path)
    assert cells[0].text.startswith("# ")
    assert any(cell.picture for cell in cells)
    assert any(cell.printed for cell in cells)
    made = json.loads(as_notebook(cells))
    assert "".join(cell["source"] for cell in made["cells"]) == "".join(cell.text for cell in read_cells(path))
    for cell in cells:
        assert cell.text in as_markdown(cells)


def test_there_are_four():
    assert len(NOTEBOOKS) == 4
