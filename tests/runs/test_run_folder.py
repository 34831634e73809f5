import csv
import math
import os
import threading
import time

import numpy as np
import pytest

from saccade.runs import RunFolder, find_model_folder
from saccade.runs import run_folder as run_folder_module


def test_everything_a_run_wrote_is_read(made_run):
    run = RunFolder(made_run).read()
    assert (run.name, run.split, run.system) == ("spots", "test", "patch_selection")
    assert (run.first_step_with_labels, run.steps_done) == (4, 16)
    assert run.phases == (("label_free", 0, 4), ("labels", 4, 16))
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
    assert run.folder.panel_steps() == [4, 10, 16]


def test_a_run_under_way_lacks_only_what_is_not_there_yet(run_folder):
    for path in (run_folder / "evaluation").iterdir():
        path.unlink()
    (run_folder / "run.json").unlink()
    text = (run_folder / "metrics.csv").read_text().splitlines()
    (run_folder / "metrics.csv").write_text("\n".join([*text[:8], text[8][:1]]))  # the last line is being written
    run = RunFolder(run_folder).read()
    assert run.split is None
    assert run.facts == {}
    assert run.steps_done == 7
    assert len(run.series("train/loss")[0]) == 7


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        (lambda run: (run / "recipe.yaml").unlink(), r"no recipe.yaml in it, so it is not a run; give a folder"),
        (lambda run: (run / "recipe.yaml").write_text("a: [1"), r"recipe.yaml: not YAML"),
        (
            lambda run: (run / "recipe.yaml").write_text("just words"),
            r"holds just 'just words', expected keys and values; restore",
        ),
        (lambda run: (run / "run.json").write_text("{"), r"run.json: not JSON.*; restore"),
        (lambda run: (run / "run.json").write_text("{}"), r"run.json: .* earlier version .*; train again"),
        (lambda run: (run / "evaluation" / "test.json").write_text("[]"), r"test.json: holds a list.*evaluate"),
        (
            lambda run: (run / "evaluation" / "test.csv").write_text("image\na.jpg\n"),
            r"no column confidence, label, pred",
        ),
    ],
)
def test_what_is_not_a_run_is_refused_in_words(run_folder, breakage, message):
    breakage(run_folder)
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        RunFolder(run_folder).read()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such folder"):
        RunFolder(tmp_path / "nowhere").read()


def test_empty_cells_are_nan(run_folder):
    path = run_folder / "evaluation" / "test.csv"
    head, first, *_ = path.read_text().splitlines()
    cells = first.split(",")
    cells[4:7] = ["", "", ""]
    path.write_text(f"{head}\n{','.join(cells)}\n")
    answer = RunFolder(run_folder).read().predictions["test"].rows[0]
    assert all(math.isnan(value) for value in (answer.hit, answer.overlap, answer.entropy))


def test_the_model_of_a_run_is_its_best_and_any_other_model_is_itself(run_folder, tmp_path):
    best = RunFolder(run_folder).best
    assert find_model_folder(run_folder) == best
    assert find_model_folder(best) == best
    (best / "config.json").unlink()
    for folder, words in ((run_folder, "no model there yet"), (best, "no model there;"), (tmp_path / "x", "no such")):
        with pytest.raises(FileNotFoundError, match=words):
            find_model_folder(folder)


def test_the_best_model_is_loaded_once_until_there_is_another(run_folder):
    folder = RunFolder(run_folder)
    model = folder.load_best()
    assert folder.load_best() is model
    assert not model.training
    model.save_pretrained(folder.best)
    assert folder.load_best() is not model


# ---- whose folder it is


def test_a_folder_is_free_until_a_run_there_has_something_to_lose(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert folder.is_free()
    folder.claim("steps: 1\n")
    assert not folder.is_free()  # somebody's own recipe
    folder.begin(seed=0, parameters=1, phases=[], accelerator="cpu")
    assert folder.is_free()
    folder.claim("steps: 2\n")
    assert folder.recipe() == {"steps": 2}
    assert folder.facts() == {}  # those were of the other run
    folder.begin(seed=0, parameters=1, phases=[], accelerator="cpu")
    folder.checkpoints.mkdir()
    assert not folder.is_free()
    folder.claim("steps: 3\n")
    assert folder.recipe() == {"steps": 2}


def test_a_folder_of_something_else_is_not_free(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="not empty and does not hold a run"):
        RunFolder(tmp_path).is_free()


# ---- the lock


def test_a_folder_that_is_let_go_of_soon_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder_module, "WAIT_S", 0.3)
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with RunFolder(tmp_path).alone():
            held.set()
            let_go.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    assert RunFolder(tmp_path).in_use()
    with pytest.raises(ValueError, match="another process trains"), RunFolder(tmp_path).alone():
        pass
    monkeypatch.setattr(run_folder_module, "WAIT_S", 60.0)
    threading.Timer(0.5, let_go.set).start()
    with RunFolder(tmp_path).alone():
        assert RunFolder(tmp_path).in_use()
    assert not RunFolder(tmp_path).in_use()
    other.join()


def test_processes_that_read_images_do_not_hold_the_lock_of_one_that_died(tmp_path):
    """A process takes the lock, forks a reader, and is killed; the reader lives on for a while."""
    read_end, write_end = os.pipe()
    trainer = os.fork()
    if trainer == 0:
        with RunFolder(tmp_path).alone():
            reader = os.fork()
            if reader == 0:
                time.sleep(30)
                os._exit(0)
            os.write(write_end, reader.to_bytes(4, "big"))
            os.kill(os.getpid(), 9)
    os.waitpid(trainer, 0)
    reader = int.from_bytes(os.read(read_end, 4), "big")
    try:
        os.kill(reader, 0)  # it is there
        assert not RunFolder(tmp_path).in_use()
    finally:
        os.kill(reader, 9)
