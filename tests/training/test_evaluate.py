"""A trained model is measured again: as it chooses patches, or otherwise; on its own images, or on others."""

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny import make_spots, tiny_recipe
from tiny_run import make_tiny_run

from saccade.building import load_model
from saccade.data.records import DataError
from saccade.report import write_report
from saccade.runs import RunFolder
from saccade.selection import PerturbedTopK
from saccade.training import evaluations
from saccade.training import run as run_module
from saccade.training.run import evaluate, train


@pytest.fixture(scope="module")
def spots(tmp_path_factory) -> Path:
    return make_spots(tmp_path_factory.mktemp("data") / "spots")


@pytest.fixture(scope="module")
def trained(spots, tmp_path_factory) -> Path:
    return train(tiny_recipe(spots), tmp_path_factory.mktemp("runs") / "trained")


def test_evaluation_again_gives_the_same_numbers(trained):
    before = json.loads((trained / "evaluation" / "test.json").read_text())
    after = evaluate(trained, split="test")
    for name in ("images", "accuracy", "loss", "hit_rate"):
        assert after[name] == before[name]


def test_a_soft_evaluation_has_all_of_the_noise_and_the_same_numbers_each_time(trained):
    # Trained with a σ that fell to zero: the best model has the recipe's again.
    best: Any = load_model(trained / "best")
    assert best.selection.sigma == PerturbedTopK(2).sigma == 0.05
    own = (trained / "evaluation" / "test.csv").read_text()
    soft = evaluate(trained, selection="soft")
    first = (trained / "evaluation" / "test-soft.csv").read_text()
    torch.rand(7)
    again = evaluate(trained, selection="soft")
    assert (trained / "evaluation" / "test-soft.csv").read_text() == first != own
    assert again["loss"] == soft["loss"]
    assert json.loads((trained / "evaluation" / "test-soft.json").read_text())["loss"] == soft["loss"]
    assert (trained / "evaluation" / "test.csv").read_text() == own


def test_a_discrete_evaluation_of_a_discrete_model_is_its_own(trained):
    evaluate(trained, split="val", selection="discrete")
    folder = trained / "evaluation"
    assert (folder / "val-discrete.csv").read_text() == (folder / "val.csv").read_text()


def test_a_soft_model_can_be_evaluated_discretely(spots, tmp_path):
    selection = {"name": "sinkhorn", "k": 2, "epsilon": 0.1, "discrete": False}
    run = make_tiny_run(tmp_path / "soft", spots, selection=selection)
    hard = make_tiny_run(tmp_path / "hard", spots, selection={**selection, "discrete": True})
    evaluate(run)
    evaluate(run, selection="discrete")
    evaluate(hard)
    discrete = (run / "evaluation" / "test-discrete.csv").read_text()
    assert discrete == (hard / "evaluation" / "test.csv").read_text()
    assert discrete != (run / "evaluation" / "test.csv").read_text()


def test_a_choice_that_the_model_does_not_have_is_refused(spots, tmp_path):
    run = make_tiny_run(tmp_path / "diverse", spots, selection={"name": "diverse", "k": 2})
    with pytest.raises(ValueError, match=r"selection diverse\) has no choice .* leave --selection out"):
        evaluate(run, selection="soft")
    assert not (run / "evaluation").exists()
    # Its slots are in score order if they are soft and in index order if they are not, which concat would mix up.
    soft = {"name": "sinkhorn", "k": 2, "discrete": False}
    run = make_tiny_run(tmp_path / "concat", spots, selection=soft, aggregation={"name": "concat"})
    with pytest.raises(ValueError, match="sinkhorn does not go with the aggregation concat"):
        evaluate(run, selection="discrete")


def test_names_that_are_not_utf8_are_kept_in_the_table_and_spelt_out_in_the_report(tmp_path):
    spots = make_spots(tmp_path / "spots", 20)
    for row in csv.DictReader((spots / "labels.csv").open()):
        folder = tmp_path / "data" / row["split"] / os.fsdecode(b"caf\xe9" if row["label"] == "along" else b"tea")
        folder.mkdir(parents=True, exist_ok=True)
        (spots / row["image"]).rename(folder / os.fsdecode(b"\xff" + Path(row["image"]).name.encode()))
    run = make_tiny_run(tmp_path / "run", tmp_path / "data")
    evaluate(run)
    answers = RunFolder(run).read().predictions["test"]
    assert {answer.image for answer in answers.rows} == {str(path) for path in (tmp_path / "data/test").glob("*/*")}
    assert answers.classes == ("caf\\udce9", "tea")
    page = write_report(run).read_text()
    assert all(Path(row.image).name.replace("\udcff", "\\udcff") in page for row in answers.rows)


def test_ctrl_c_is_told_and_goes_on_having_an_effect(spots, tmp_path, monkeypatch):
    def interrupt(model, batch):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluations, "predict_batch", interrupt)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        evaluate(make_tiny_run(tmp_path, spots))
    assert signal.getsignal(signal.SIGINT) == before


def test_other_data_with_an_unknown_class_is_refused(trained, tmp_path):
    other = make_spots(tmp_path / "other", 20)
    table = other / "labels.csv"
    table.write_text(table.read_text().replace(",along,", ",diagonal,"))
    with pytest.raises(ValueError, match=r"no class 'diagonal'; it knows across, along"):
        evaluate(trained, data=other)


@pytest.mark.parametrize(("split", "images"), [("", 20), (",test", 20), (None, 4)], ids=["none", "all test", "as is"])
def test_all_that_is_not_for_training_is_evaluated(split, images, trained, tmp_path, capsys):
    """Without splits every image of other data counts; with splits those of test do."""
    other = make_spots(tmp_path / "other", 20)
    table = other / "labels.csv"
    if split is not None:
        lines = [line.rpartition(",")[0].rpartition(",")[0] for line in table.read_text().splitlines()]
        table.write_text("\n".join([lines[0] + (split and ",split"), *(line + split for line in lines[1:])]) + "\n")
    assert evaluate(trained, data=table)["images"] == images
    assert (trained / "evaluation" / "other-test.json").is_file()
    assert f"{images} images of {other}" in capsys.readouterr().out.replace("\n", "")


def test_other_data_need_not_be_of_the_kind_of_the_run_s_own(spots, tmp_path):
    run = make_tiny_run(tmp_path / "run", spots)
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    expected = evaluate(run, data=spots)
    recipe["data"]["options"] = {"task": "max-left-right"}  # of billiard, which has tasks
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert evaluate(run, data=spots)["loss"] == expected["loss"]


def test_a_split_of_data_without_any_is_refused(trained, tmp_path):
    table = make_spots(tmp_path / "other", 20) / "labels.csv"
    lines = [line.rpartition(",")[0].rpartition(",")[0] for line in table.read_text().splitlines()]
    table.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"has no splits: leave out --split"):
        evaluate(trained, data=table, split="val")


def test_a_model_is_evaluated_by_one_process_on_this_machine_whatever_trained_it(spots, tmp_path, monkeypatch):
    folder = make_tiny_run(tmp_path, spots)
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    (folder / "recipe.yaml").write_text(yaml.safe_dump({**recipe, "accelerator": "tpu", "devices": 3, "nodes": 2}))
    monkeypatch.setattr(run_module, "_evaluate", lambda *given, **_: {"recipe": given[5]})
    recipe = evaluate(folder)["recipe"]
    assert (recipe.accelerator, recipe.devices, recipe.nodes) == ("auto", 1, 1)


def test_the_areas_are_those_of_the_class_that_is_asked_for_or_of_the_rarer_one(trained, capsys):
    run = RunFolder(trained).read()
    assert run.evaluations["test"]["positive"] == run.positive == "along"  # both are as frequent: the second
    other = evaluate(trained, positive="across")
    assert other["positive"] == "across"
    assert other["accuracy"] == run.evaluations["test"]["accuracy"]
    assert RunFolder(trained).load_best().config.positive == "along"
    with pytest.raises(DataError, match="positive is 'up': no such class; there are 'across', 'along'"):
        evaluate(trained, positive="up")
    evaluate(trained)
