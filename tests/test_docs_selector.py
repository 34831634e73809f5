"""docs/write_your_own_selector.md as it stands: its module, its recipe, its commands, and the model loaded again."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from saccade.cli import main
from saccade.registry import parts
from saccade.runs import RunFolder

PAGE = (Path(__file__).parents[1] / "docs" / "write_your_own_selector.md").read_text()
MODULE, LOADING = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
(RECIPE,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
TRAIN, PREDICT = (shlex.split(line)[1:] for line in re.findall(r"^    (saccade .*)", PAGE, flags=re.MULTILINE))
(WITHOUT,) = re.findall(r"`saccade (train photos [^`]*)`", PAGE)
LESS = ["--steps=2", "--batch=2", "--data.workers=0"]


def forget() -> None:
    """As in a new process: the part is not registered."""
    sys.modules.pop("my_selector", None)
    parts("selection").pop("mine", None)  # type: ignore[attr-defined]


@pytest.fixture
def here(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(10):
            pixels = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{number}.png")
    (tmp_path / "my_selector.py").write_text(MODULE)
    (tmp_path / "my_recipe.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    forget()


def test_it_is_short():
    lines = [line for line in (MODULE + RECIPE).splitlines() if line.strip()]
    assert len(lines) <= 30


def test_it_is_trained_predicts_and_comes_back(here, capsys):
    assert main([*TRAIN, *LESS]) == 0
    forget()
    assert main([*PREDICT, "--workers=0"]) == 0
    assert len((here / "answers.jsonl").read_text().splitlines()) == 20
    forget()
    capsys.readouterr()
    exec(compile(LOADING, "the page", "exec"), {})
    assert capsys.readouterr().out == "BestAndSome 3\n"
    assert RunFolder(here / "runs" / "mine").recipe()["imports"] == ["my_selector"]


def test_it_works_without_a_recipe(here):
    assert main([*shlex.split(WITHOUT), *LESS, "--out=runs/chosen"]) == 0
    assert RunFolder(here / "runs" / "chosen").recipe()["model"]["selection"]["name"] == "mine"
