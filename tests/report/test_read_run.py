import csv
import math

import numpy as np
import pytest

from saccade.report.run import read_panel, read_run


def test_everything_a_run_wrote_is_read(made_run):
    run = read_run(made_run)
    assert (run.name, run.split, run.system, run.warm_up_steps, run.steps_done) == (
        "spots",
        "test",
        "patch_selection",
        4,
        16,
    )
    with (made_run / "evaluation" / "test.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    answers = run.predictions["test"]
    assert answers.classes == ("across", "along")
    for row, line in zip(answers.rows, lines, strict=True):
        assert (row.image, row.label, row.predicted) == (line["image"], line["label"], line["predicted"])
        assert row.probabilities == (float(line["p:across"]), float(line["p:along"]))
        assert row.confidence == max(row.probabilities)
    steps, values = run.series("val/accuracy")
    np.testing.assert_array_equal(steps, [5, 10, 16])
    np.testing.assert_allclose(values, [0.25, 0.5, 0.8])
    assert run.warnings[0].message == "It says <along> & nothing else."
    assert [path.name for path in run.panels] == ["0000004.npz", "0000010.npz", "0000016.npz"]


def test_a_panel_holds_the_mixtures_it_shows(made_run):
    first, _, last = (read_panel(path) for path in read_run(made_run).panels)
    assert (first.main_step, first.sigma, last.main_step, last.sigma) == (0, 0.05, 12, 0.0)
    for glance in (*first.glances, *last.glances):
        image = glance.image.astype(float)
        padded = np.pad(image, ((64, 64), (64, 64), (0, 0)))
        cut = [padded[t + 64 : b + 64, left + 64 : r + 64] for left, t, r, b in glance.boxes]
        np.testing.assert_allclose(np.tensordot(glance.weight, cut, 1), glance.patches, atol=0.51)
    assert (np.sort(last.glances[0].weight.max(axis=1)) == 1).all()


def test_a_run_under_way_lacks_only_what_is_not_there_yet(run_folder):
    for path in (run_folder / "evaluation").iterdir():
        path.unlink()
    (run_folder / "run.json").unlink()
    text = (run_folder / "metrics.csv").read_text().splitlines()
    (run_folder / "metrics.csv").write_text("\n".join([*text[:8], text[8][:5]]))  # the last line is being written
    run = read_run(run_folder)
    assert run.split is None
    assert run.facts == {}
    assert run.steps_done == 6
    assert len(run.series("train/loss")[0]) == 7


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        (lambda run: (run / "recipe.yaml").unlink(), r"no recipe.yaml in it, so it is no run; give a folder"),
        (lambda run: (run / "recipe.yaml").write_text("a: [1"), r"recipe.yaml: not YAML"),
        (lambda run: (run / "recipe.yaml").write_text("just words"), r"holds a str, expected the keys of a recipe"),
        (lambda run: (run / "run.json").write_text("{"), r"run.json: not JSON"),
        (
            lambda run: (run / "evaluation" / "test.csv").write_text("image\na.jpg\n"),
            r"no column confidence, label, pred",
        ),
    ],
)
def test_what_is_no_run_is_refused_in_words(run_folder, breakage, message):
    breakage(run_folder)
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        read_run(run_folder)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such folder"):
        read_run(tmp_path / "nowhere")


def test_empty_cells_are_nan(run_folder):
    path = run_folder / "evaluation" / "test.csv"
    head, first, *_ = path.read_text().splitlines()
    cells = first.split(",")
    cells[4:7] = ["", "", ""]
    path.write_text(f"{head}\n{','.join(cells)}\n")
    answer = read_run(run_folder).predictions["test"].rows[0]
    assert all(math.isnan(value) for value in (answer.hit, answer.overlap, answer.entropy))
