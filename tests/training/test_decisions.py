"""A rule is chosen on answers to validation images, kept with the model, and decides alike wherever the model goes."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from oracles import seeded
from rich.console import Console
from tiny import make_spots, tiny_recipe

from saccade import Predictor
from saccade.building import load_model
from saccade.cli import main
from saccade.data.dataset import ImageDataset
from saccade.data.records import DataError, Record, Records
from saccade.evaluation import Predictions
from saccade.predict import line_formats
from saccade.runs import RunFolder
from saccade.runs.prediction_tables import PredictionRow, PredictionTable
from saccade.system import rewrite_config
from saccade.training.decisions import Wish, choose_rule
from saccade.training.evaluations import Evaluated, calibrate
from saccade.training.run import _keep_seeing, evaluate, train


def two(count=60, seed=0, task="single"):
    rng = np.random.default_rng(seed)
    rows = []
    for place in range(count):
        there = rng.random() < 0.3
        share = float(rng.beta(4, 2) if there else rng.beta(2, 5))
        label, shares = ("defect" if there else "clean"), (1 - share, share)
        rows.append(PredictionRow(f"{place}.png", label, label, share, np.nan, np.nan, np.nan, shares))
    return PredictionTable(("clean", "defect"), tuple(rows), task)


def alone(table):
    return [row.image for row in table.rows]


@pytest.fixture(scope="module")
def spots(tmp_path_factory) -> Path:
    return make_spots(tmp_path_factory.mktemp("data") / "spots")


@pytest.fixture(scope="module")
def trained(spots, tmp_path_factory) -> Path:
    return train(tiny_recipe(spots), tmp_path_factory.mktemp("runs") / "trained", console=Console(quiet=True))


def test_a_rule_chosen_is_kept_and_a_copied_model_decides_alike(trained, spots, tmp_path):
    summary = evaluate(trained, wish=Wish(recall=0.9), console=Console(quiet=True))
    shutil.copytree(trained / "best", tmp_path / "copy")
    image = spots / "images" / "000.png"
    here, there = (Predictor(path, device="cpu")(image) for path in (trained, tmp_path / "copy"))
    assert here.decision is not None
    assert (here.decision, here.review, here.probabilities) == (there.decision, there.review, there.probabilities)
    model = load_model(tmp_path / "copy")
    model.save_pretrained(tmp_path / "again")
    assert load_model(tmp_path / "again").config.decision == summary["decision"]
    assert model.rule.decide(list(here.probabilities.values())) == (here.decision, here.review)
    assert line_formats.as_tree(here)["decision"] == here.decision
    schema = pytest.importorskip("saccade.serve.schema", reason="needs the extra `serve`")
    body = schema.describe_prediction(here, "token", "000.png")
    assert (body.decision, body.review) == (here.decision, here.review)


def test_predict_writes_decisions_and_does_not_mix_lines_with_and_without(trained, spots, tmp_path, capsys):
    images = [str(spots / "images" / f"{number:03d}.png") for number in range(3)]
    rule = load_model(trained / "best").config.decision
    for suffix in ("csv", "jsonl"):
        rewrite_config(trained / "best", decision=None)
        assert main(["predict", str(trained), *images[:2], "--out", str(tmp_path / f"plain.{suffix}")]) == 0
        evaluate(trained, wish=Wish(f1=True), console=Console(quiet=True))
        assert main(["predict", str(trained), *images, "--out", str(tmp_path / f"plain.{suffix}"), "--resume"]) == 2
        assert main(["predict", str(trained), *images, "--out", str(tmp_path / f"decided.{suffix}")]) == 0
    capsys.readouterr()
    rows = list(csv.DictReader((tmp_path / "decided.csv").open()))
    trees = [json.loads(line) for line in (tmp_path / "decided.jsonl").read_text().splitlines()]
    assert [row["decision"] for row in rows] == [tree["decision"] for tree in trees]
    assert [row["review"] == "yes" for row in rows] == [tree.get("review", False) for tree in trees]
    rewrite_config(trained / "best", decision=rule)


def test_a_temperature_is_told_everywhere_and_changes_no_answer(trained, spots, tmp_path):
    shutil.copytree(trained / "best", tmp_path / "warm")
    rewrite_config(tmp_path / "warm", task={"name": "single", "temperature": 3.0})
    image = spots / "images" / "001.png"
    plain, warm = (Predictor(path, device="cpu")(image) for path in (trained, tmp_path / "warm"))
    share = torch.tensor(list(plain.probabilities.values())).double() ** (1 / 3)
    assert list(warm.probabilities.values()) == pytest.approx((share / share.sum()).tolist(), abs=1e-5)
    assert warm.label == plain.label


def test_training_says_what_became_of_the_temperature(trained):
    summary = json.loads((trained / "evaluation" / "val.json").read_text())
    assert summary["task"] == load_model(trained / "best").config.task
    raw, told = summary["reliability"][""].values()
    assert sum(each[0] for each in raw) == sum(each[0] for each in told) == summary["images"]


def test_an_overconfident_model_gets_a_temperature_and_its_seeing_twin_the_same(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    files, lines = RunFolder(tmp_path / "run"), []
    model, unknown = files.load_best(), torch.full((300,), torch.nan)
    logits = 5 * torch.randn(300, 2, generator=seeded(0))
    label = torch.multinomial((logits / 5).softmax(dim=1), 1, generator=seeded(1))[:, 0]
    looks = (unknown, unknown, unknown, unknown, torch.zeros(300, 0, 2), unknown[:, None])
    said = Evaluated(Predictions(torch.arange(300), label, logits, *looks), {}, [], None)
    records = [Record(Path(f"{place}.png"), "along", "val") for place in range(300)]
    dataset = ImageDataset(Records(Path(), ("across", "along"), tuple(records)))
    told = calibrate(files, model, said, dataset, lines.append)
    temperature = files.load_best().config.task["temperature"]
    assert temperature == pytest.approx(5, rel=0.25)
    assert lines[0].startswith("probabilities are told at temperature")
    assert told.measures["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(logits / temperature, label)))
    shutil.copytree(trained / "best", files.frozen_seeing)
    _keep_seeing(files)
    assert files.load_best().config.task["temperature"] == temperature
    assert load_model(files.frozen_seeing).config.task == {"name": "single"}


def test_what_cannot_be_shown_or_reached_is_said():
    table = two()
    count = sum(row.label == "defect" for row in table.rows)
    chosen = choose_rule(table, alone(table), Wish(recall=0.99), "defect", "images")
    assert f"note: {count} images of 'defect' among the images cannot show a recall of 0.99" in chosen.lines[1]
    assert "381 would do" in chosen.lines[1]
    assert len(choose_rule(table, alone(table), Wish(recall=0.5), "defect", "images").lines) == 1
    pairs = [f"{place // 6}" for place in range(len(table.rows))]
    assert "groups of 'defect'" in choose_rule(table, pairs, Wish(recall=0.99), "defect", "x").lines[1]
    mixed = table._replace(rows=tuple(row._replace(probabilities=(0.5, 0.5)) for row in table.rows))
    with pytest.raises(DataError, match=r"no threshold of 'defect' reaches precision 0.9 on 60 x: 0\.\d+ at best"):
        choose_rule(mixed, alone(mixed), Wish(precision=0.9), "defect", "x")
    clean = table._replace(rows=tuple(row for row in table.rows if row.label == "clean"))
    with pytest.raises(DataError, match=r"none of .* x has 'defect', so no threshold can be chosen"):
        choose_rule(clean, alone(clean), Wish(recall=0.9), "defect", "x")


@pytest.mark.parametrize("task", ["ordinal", "regression", "questions"])
def test_thresholds_without_meaning_are_refused(task):
    with pytest.raises(ValueError, match="--recall, --precision, --cost or --f1: a threshold has no meaning here, for"):
        choose_rule(two(task=task), [], Wish(recall=0.9), None, "x")


@pytest.mark.parametrize(
    ("wish", "positive", "told"),
    [
        (Wish(cost=("defect:clean",)), "defect", "--cost defect:clean: expected TRUTH:SAID=20"),
        (Wish(cost=("defect:clean=-1",)), "defect", "--cost defect:clean=-1: expected"),
        (Wish(cost=("defect:rust=2",)), "defect", "the cost 'defect:rust' names no mistake"),
        (Wish(recall=0.9), "rust", "positive is 'rust': no such class; there are 'clean', 'defect'"),
        (Wish(recall=0.9), None, "which class is to be found"),
    ],
)
def test_wishes_that_mean_nothing_are_refused(wish, positive, told):
    with pytest.raises(ValueError, match=told):
        choose_rule(two(), alone(two()), wish, positive, "x")


def test_decisions_have_one_aim():
    with pytest.raises(ValueError, match="decisions have one aim"):
        Wish(recall=0.9, f1=True).check()
    with pytest.raises(ValueError, match="--recall is 2: expected a share"):
        Wish(recall=2.0).check()


def test_without_validation_images_nothing_is_chosen(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    for file in (tmp_path / "run" / "evaluation").glob("val.*"):
        file.unlink()
    before = (tmp_path / "run" / "best" / "config.json").read_text()
    with pytest.raises(DataError, match="has no validation images to choose a threshold on"):
        evaluate(tmp_path / "run", wish=Wish(recall=0.9))
    assert (tmp_path / "run" / "best" / "config.json").read_text() == before
    assert RunFolder(tmp_path / "run").load_best().config.decision == json.loads(before)["decision"]
