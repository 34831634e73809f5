"""Which labels are doubted, and in which order."""

import math
from pathlib import Path

from folded_run import make_grouped_spots, pretend_to_train, write_recipe

from saccade.cli import main
from saccade.runs import FoldFolder, RunFolder
from saccade.runs.prediction_tables import PredictionRow, PredictionTable
from saccade.runs.suspects import find_suspects
from saccade.tasks.labels import Question
from saccade.training import fold_runs


def run_that_said(folder: Path, **tables: PredictionTable) -> Path:
    run = RunFolder(folder)
    run.claim("seed: 0\n")
    for split, table in tables.items():
        spec = {"name": table.task}
        if table.questions:
            each = [{"name": q.name, "task": {"name": q.task}, "classes": [*q.classes]} for q in table.questions]
            spec["questions"] = each
        run.write_evaluation(split, table, {"task": spec})
    return folder


def row(image: str, label: str, said: str, *shares: float) -> PredictionRow:
    return PredictionRow(image, label, said, max(shares, default=math.nan), math.nan, math.nan, math.nan, shares)


def doubts(folder: Path, **labels: str) -> list[tuple[str, str, float, str]]:
    known = {Path(f"/{name}.png"): label for name, label in labels.items()}
    return [(each.image.stem, each.said, round(each.doubt, 3), each.source) for each in find_suspects(folder, known)]


def test_the_surest_against_its_label_comes_first_and_what_agrees_not_at_all(tmp_path):
    classes = ("bird", "cat", "dog")
    test = (
        row("/a.png", "cat", "dog", 0.1, 0.3, 0.6),
        row("/b.png", "cat", "cat", 0.0, 0.9, 0.1),
        row("/c.png", "dog", "bird", 0.95, 0.04, 0.01),
    )
    train = (row("/a.png", "cat", "cat", 0.0, 1.0, 0.0), row("/d.png", "dog", "cat", 0.0, 0.8, 0.2))
    run = run_that_said(tmp_path / "r", test=PredictionTable(classes, test), train=PredictionTable(classes, train))
    # An image is in one list only: its own split's answer counts, not one of a model that learnt its label.
    told = doubts(run, a="cat", b="cat", c="dog", d="dog")
    assert told == [("c", "bird", 0.99, "test"), ("d", "cat", 0.8, "train"), ("a", "dog", 0.7, "test")]
    # What counts is what the table says now, and images that it no longer has are left out.
    assert doubts(run, a="dog", b="bird", d="dog") == [("b", "cat", 1.0, "test"), ("d", "cat", 0.8, "train")]


def test_of_several_labels_the_one_that_is_most_wrong_counts(tmp_path):
    rows = (
        row("/a.png", "open", "open;short", 0.9, 0.7),
        row("/b.png", "open;short", "open", 0.9, 0.05),
        row("/c.png", ";", ";", 0.1, 0.4),
        row("/d.png", "open;short", "open;short", 0.6, 0.7),
    )
    run = run_that_said(tmp_path / "r", test=PredictionTable(("open", "short"), rows, "multi"))
    told = doubts(run, a="open", b="open;short", c=";", d="open;short")
    assert told == [("b", "open", 0.95, "test"), ("a", "open;short", 0.7, "test")]


def test_numbers_come_by_their_error(tmp_path):
    rows = (row("/a.png", "1.5", "2"), row("/b.png", "4", "1"), row("/c.png", "3", "3"))
    run = run_that_said(tmp_path / "r", test=PredictionTable((), rows, "regression"))
    assert [name for name, *_ in doubts(run, a="1.5", b="4", c="3")] == ["b", "a", "c"]


def test_of_several_questions_the_answer_that_is_most_wrong_counts(tmp_path):
    questions = (Question("of", "single", ("tin", "zinc")), Question("age", "regression", ()))
    classes = ("of: tin", "of: zinc")
    rows = (
        row("/a.png", "tin | 5", "tin | 5.1", 0.9, 0.1),
        row("/b.png", "tin | 5", "zinc | 5", 0.25, 0.75),
        row("/c.png", "tin | 9", "tin | 1", 0.8, 0.2),
    )
    run = run_that_said(tmp_path / "r", test=PredictionTable(classes, rows, "questions", questions))
    # Errors are 0.1, 0 and 8: a third and two thirds of the images have smaller ones.
    told = [(name, doubt) for name, _, doubt, _ in doubts(run, a="tin | 5", b="tin | 5", c="tin | 9")]
    assert told == [("b", 0.75), ("c", 0.667), ("a", 0.333)]


def test_of_folds_the_model_that_had_not_seen_the_image_speaks(tmp_path, monkeypatch):
    monkeypatch.setattr(fold_runs, "run_jobs", pretend_to_train)
    data = make_grouped_spots(tmp_path / "spots")
    assert main(["train", write_recipe(tmp_path, data), f"--out={tmp_path / 'run'}"]) == 0
    folds = FoldFolder(tmp_path / "run")
    out = {Path(each.said.image): each for each in folds.out_of_fold().rows}
    opposite = {"across": "along", "along": "across"}
    suspects = find_suspects(tmp_path / "run", {image: opposite[each.said.predicted] for image, each in out.items()})
    assert len(suspects) == len(out)
    assert all(each.model.name == f"fold-{out[each.image].fold}" for each in suspects)
    assert all(each.source == "out of fold" for each in suspects)
