"""A table of two rows over a recipe that trains in seconds."""

from pathlib import Path

import pytest
from tiny import make_spots, tiny_recipe

from saccade.reproduce.jobs import Request
from saccade.reproduce.table_types import MEAN, Plan, Row, Table
from saccade.training.recipe import dump_recipe


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Six steps after two of warm-up, on 60 images of 64² px."""
    path = tmp_path / "spots.yaml"
    data = make_spots(tmp_path / "spots")
    path.write_text(dump_recipe(tiny_recipe(data, steps=6, validate_every=4)))
    return path


@pytest.fixture
def request_(tmp_path: Path, recipe: Path) -> Request:
    rows = (
        Row("one", "One patch", "90.0 ± 1.0", Plan(str(recipe), ("--model.selection.k=1",)), seeds=3),
        Row("two", "Two patches", "91.0", Plan(str(recipe))),
        Row("big", "Only at full size", "99.0", full=Plan(str(recipe))),
    )
    return Request(Table("spots", "Spots", "nowhere", MEAN, rows, shown=("two",)), out=tmp_path / "results")


@pytest.fixture
def shared(request_: Request) -> Request:
    """The same table with a row that is the run of "two" with other patches at inference, and without the others."""
    two = request_.table.rows[1]
    assert two.small is not None
    soft = Row("soft", "Two soft patches", "89.0", two.small._replace(selection="soft"))
    return request_._replace(table=request_.table._replace(rows=(soft, two), shown=()))
