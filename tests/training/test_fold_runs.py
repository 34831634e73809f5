"""One run for each fold: who tests what, what is joined, what is refused, and one true run of everything."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from folded_run import COPY, make_grouped_spots, pretend_to_train, write_recipe

from saccade.cli import main
from saccade.data.records import DataError
from saccade.predict import Predictor
from saccade.runs import FoldFolder, RunFolder
from saccade.training import fold_runs
from saccade.training.fold_runs import train_folds, wants_folds
from saccade.training.recipe import DataOptions, load_recipe


@pytest.fixture(scope="module")
def spots(tmp_path_factory) -> Path:
    return make_grouped_spots(tmp_path_factory.mktemp("data") / "spots")


@pytest.fixture(scope="module")
def folded(spots, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_runs, "run_jobs", pretend_to_train)
        assert train_folds(write_recipe(folder, spots), folder / "run", say=lambda text: None) == []
    return folder / "run"


def test_each_image_is_answered_once_by_the_model_that_had_not_seen_its_fold(folded):
    found = FoldFolder(folded).out_of_fold()
    assert len({row.said.image for row in found.rows}) == len(found.rows) == 25
    for name, run in FoldFolder(folded).runs().items():
        told = run.predictions()["test"].rows
        assert [row.said[:4] for row in found.rows if row.fold == name] == [row[:4] for row in told]
        assert load_recipe(run.recipe_file).data.fold == name
    assert Counter(row.fold for row in found.rows) == {"a": 8, "b": 9, "c": 8}
    assert {row.group: row.fold for row in found.rows} == {f"g{n}": "abc"[n % 3] for n in range(6)}


def test_copies_in_other_folds_are_marked(folded):
    repeated = {
        os.path.basename(row.said.image): row.fold for row in FoldFolder(folded).out_of_fold().rows if row.repeated
    }
    assert repeated == {"000.png": "a", os.path.basename(COPY): "b"}


def test_all_folds_tell_the_same_class(folded):
    assert {run.read().positive for run in FoldFolder(folded).runs().values()} == {"along"}  # 13 and 12 images


def test_the_same_command_resumes_and_another_is_refused(folded, spots, tmp_path):
    said = []
    assert train_folds(str(folded.parent / "tiny.yaml"), folded, ["--data.workers=1"], say=said.append) == []
    assert "3 of 3 runs are finished already" in said
    assert any("the data set has 3 folds of its own (a, b, c)" in line for line in said)
    assert any(line.startswith("warning: 1 pictures lie in groups of different folds ('g0 and g1')") for line in said)
    with pytest.raises(ValueError, match=r"holds folds with other settings .flags.steps None there, 5 here"):
        train_folds(str(folded.parent / "tiny.yaml"), folded, ["--steps=5"], say=said.append)
    with pytest.raises(ValueError, match="holds a run without folds"):
        train_folds(str(folded.parent / "tiny.yaml"), folded / "fold-a", say=said.append)


def test_what_cannot_be_folded_writes_nothing(spots, tmp_path):
    source = write_recipe(tmp_path, spots)
    without = spots.parent / "without"
    without.mkdir()
    rows = (spots / "labels.csv").read_text().splitlines()
    (without / "images").symlink_to(spots / "images")
    (without / "labels.csv").write_text("\n".join(row.rpartition(",")[0] for row in rows))
    with pytest.raises(DataError, match=r"9 folds and 5 groups.* give at most --folds 5"):
        train_folds(source, tmp_path / "run", [f"--data.path={without}", "--data.folds=9"])
    with pytest.raises(DataError, match="positive is 'up': no such class"):
        train_folds(source, tmp_path / "run", ["--positive=up"])
    assert not (tmp_path / "run").exists()


def test_folds_are_asked_for_by_a_column_or_a_number(spots):
    assert wants_folds(DataOptions(path=str(spots)))
    assert wants_folds(DataOptions(path=str(spots / "labels.csv")))
    assert not wants_folds(DataOptions(path=str(spots), folds=0))
    assert not wants_folds(DataOptions(path=str(spots), fold="a"))
    assert wants_folds(DataOptions(path="anything", folds=5))


def test_a_prediction_is_the_mean_of_the_models_or_that_of_one(folded, spots, capsys):
    image, names = spots / "images" / "003.png", ("a", "b", "c")
    each = [Predictor(RunFolder(folded / f"fold-{name}").best)(image).probabilities for name in names]
    together = Predictor(folded)(image)
    for label, share in together.probabilities.items():
        assert share == pytest.approx(sum(one[label] for one in each) / 3, abs=1e-6)
    assert Predictor(folded, fold="b")(image).probabilities == each[1]
    surest = max(names, key=lambda name: Predictor(folded, fold=name)(image).probabilities[together.label])
    assert (together.look.boxes == Predictor(folded, fold=surest)(image).look.boxes).all()
    assert main(["predict", str(folded), str(image), "--fold", "d"]) == 2
    assert "has no fold 'd': choose one of a, b, c" in capsys.readouterr().err
    assert main(["predict", str(folded / "fold-a"), str(image), "--fold", "a"]) == 2
    assert main(["export", str(folded), str(folded / "model.onnx")]) == 2
    assert "a run in folds" in capsys.readouterr().err


def test_evaluation_of_folds_is_joined_again_and_that_of_other_images_is_compared(folded, spots, capsys):
    before = FoldFolder(folded).out_of_fold_file.read_text()
    FoldFolder(folded).out_of_fold_file.unlink()
    assert main(["evaluate", str(folded)]) == 0
    assert FoldFolder(folded).out_of_fold_file.read_text() == before
    assert "mean ± s.d." in capsys.readouterr().out
    assert main(["evaluate", str(folded), "--data", str(spots), "--split", "train"]) == 0
    assert "fold a" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("where", [[], ["--ray", "local"]])
def test_folds_from_the_command_line(spots, tmp_path, capsys, where):
    source, run = write_recipe(tmp_path, spots), str(tmp_path / "run")
    words = ["train", source, "--steps", "2", "--validate_every", "2", "--out", run, *where]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "all 25 images (95%)" in text
    assert "without pictures that lie in several folds" in text
    assert json.loads(FoldFolder(run).summary_file.read_text())["without_repeated"]["images"] == 23
    assert (tmp_path / "run" / "report.html").is_file()
    assert main(["report", run]) == 0
