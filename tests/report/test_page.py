import csv
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from saccade.config import ModelConfig
from saccade.evaluation import wilson_interval
from saccade.report import write_report
from saccade.runs import RunFolder
from saccade.systems import CNN

VOID = {"meta", "img", "input", "br"}


class Reader(HTMLParser):
    """The text of a page, its pictures and its headings; fails where tags do not match or something lies outside."""

    def __init__(self, path: Path):
        super().__init__()
        self.open: list[str] = []
        self.text, self.images, self.headings = "", [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        assert tag not in ("script", "link", "iframe", "object", "base")
        assert not any(name.startswith("on") for name in values)
        for name in ("src", "href", "srcset", "action"):
            assert values.get(name, "data:").startswith("data:"), (tag, name)
        if tag == "img":
            assert values["alt"]
            self.images.append(values["src"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["style"]:
            assert "url(" not in data
            assert "@import" not in data
            return
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)
        self.text += data


SECTIONS = [
    "Warnings during training",
    "Learning curves",
    "What is taken for what",
    "Answers and where they came from",
    "Patches",
    "How the selection sharpened",
    "What this run was",
]


@pytest.fixture(scope="module")
def whole(made_run, tmp_path_factory) -> Reader:
    folder = shutil.copytree(made_run, tmp_path_factory.mktemp("copy") / "spots")
    path = write_report(folder)
    assert path == folder / "report.html"
    assert not list(folder.glob("*.part"))
    return Reader(path)


def test_a_report_tells_everything_in_one_file(whole):
    assert whole.headings == SECTIONS
    # Charts, up to six answers of each kind, a strip for each of two classes, two images at three moments.
    assert 2 + 6 + 2 + 6 <= len(whole.images) <= 2 + 12 + 2 + 6


def test_its_numbers_are_those_of_the_table(whole, made_run):
    with (made_run / "evaluation" / "test.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    right = sum(row["label"] == row["predicted"] for row in rows)
    low, high = wilson_interval(right, len(rows))
    assert f"Of {len(rows)} test images of 2 classes, {100 * right / len(rows):.1f}% are answered right" in whole.text
    assert f"95% interval {100 * low:.1f}–{100 * high:.1f}%" in whole.text
    hit = sum(float(row["hit"]) for row in rows) / len(rows)
    assert f"A chosen patch shows the evidence in {100 * hit:.1f}%" in whole.text
    assert f"looks closely at {100 * 800 / 4096:.1f}% of an image" in whole.text


def test_every_answer_it_shows_is_in_the_table(whole, made_run):
    said = re.findall(r"([✓✗]) (\w+) \((\d+)% sure\)(?:, but it is (\w+))? · (\d+\.png)", whole.text)
    rows = {Path(row.image).name: row for row in RunFolder(made_run).read().predictions["test"].rows}
    assert said
    for sign, predicted, sure, truth, name in said:
        assert (rows[name].predicted, rows[name].label) == (predicted, truth or predicted)
        assert int(100 * rows[name].confidence) == int(sure)
        assert rows[name].right == (sign == "✓")
    mistakes = [int(sure) for sign, _, sure, *_ in said if sign == "✗"]
    assert mistakes == sorted(mistakes, reverse=True)


@pytest.fixture
def few_pictures(monkeypatch):
    """Drawing them takes most of the time."""
    monkeypatch.setattr("saccade.report.shown_images.EXAMPLES", 1)
    monkeypatch.setattr("saccade.report.shown_images.SHARPENED", 1)


def test_nothing_from_a_file_becomes_markup(run_folder, tmp_path, few_pictures):
    folder = run_folder.rename(tmp_path / "<img src=x> & co")
    table = folder / "evaluation" / "test.csv"
    table.write_text(table.read_text().replace("across", "<script>alert(1)</script>"))
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text() + "\n# </pre><script>alert(2)</script>\n")
    reader = Reader(write_report(folder))  # which knows no script, and no picture from outside
    assert "<img src=x> & co" in reader.text
    assert "It says <along> & nothing else." in reader.text
    assert "<script>alert(1)</script>" in reader.text


def test_a_run_under_way_has_a_report_too(run_folder, few_pictures):
    shutil.rmtree(run_folder / "evaluation")
    shutil.rmtree(run_folder / "best")
    (run_folder / "panels" / "0000016.npz").unlink()
    reader = Reader(write_report(run_folder))
    assert "not evaluated yet" in reader.text
    assert reader.headings == [SECTIONS[0], SECTIONS[1], *SECTIONS[5:]]


def test_a_run_that_has_only_begun(run_folder):
    for name in ("evaluation", "best", "panels"):
        shutil.rmtree(run_folder / name)
    for name in ("metrics.csv", "run.json", "warnings.csv"):
        (run_folder / name).unlink()
    assert Reader(write_report(run_folder)).headings == ["What this run was"]


def test_images_that_are_gone_are_told(run_folder, few_pictures):
    table = run_folder / "evaluation" / "test.csv"
    table.write_text(re.sub(r"^.*/images/", "/nowhere/", table.read_text(), flags=re.MULTILINE))
    reader = Reader(write_report(run_folder))
    assert re.search(r"\d{3}\.png: no such file", reader.text)
    assert "Patches" not in reader.headings


def test_a_missing_model_is_told(run_folder, few_pictures):
    shutil.rmtree(run_folder / "best")
    reader = Reader(write_report(run_folder))
    assert "The best model cannot be loaded" in reader.text
    assert "no model there yet" in reader.text


def test_a_network_without_patches(run_folder, few_pictures):
    shutil.rmtree(run_folder / "panels")
    recipe = run_folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("system: patch_selection", "system: cnn"))
    config = ModelConfig(
        system="cnn",
        num_classes=2,
        image_size=(64, 64),
        classes=("across", "along"),
        features={"name": "ats", "width": 8},
    )
    CNN(config).save_pretrained(run_folder / "best")
    reader = Reader(write_report(run_folder))
    assert "there are no patches to show" in reader.text
    assert "numbered from the highest score" not in reader.text
    assert "How the selection sharpened" not in reader.headings


def test_an_answer_without_a_look_costs_nothing(run_folder, few_pictures):
    """The majority class: no scorer, and no multiply-add to have a share of."""
    path = run_folder / "evaluation" / "test.json"
    summary = json.loads(path.read_text())
    path.write_text(json.dumps(summary | {"multiply_adds": {"total": 0}}))
    text = Reader(write_report(run_folder)).text
    assert "0.0 millionfor one image" in text
    assert "in the scorer" not in text


def test_a_final_run_says_that_its_validation_proves_nothing(run_folder, few_pictures):
    recipe = run_folder / "recipe.yaml"
    assert "final: false" in recipe.read_text()
    assert "validation images too" not in Reader(write_report(run_folder)).text
    recipe.write_text(recipe.read_text().replace("final: false", "final: true"))
    assert "trained on the validation images too" in Reader(write_report(run_folder)).text
