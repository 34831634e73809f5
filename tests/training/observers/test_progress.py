"""Progress: the right numbers in a line or a bar, other voices above it, and a terminal given back whatever happens."""

import io
import logging
import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from rich.console import Console
from tiny import make_spots, tiny_recipe
from tiny_fit import CrashError, crash_at, fit, make_task, make_trainer

from saccade.training.callbacks.progress import HALF_LIFE_STEPS, Clock, Progress, Smooth

FITTING = TrainerFn.FITTING
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


@pytest.fixture(scope="module")
def spots(tmp_path_factory) -> Path:
    return make_spots(tmp_path_factory.mktemp("data") / "spots", 40)


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=140, color_system=None)


def plain() -> Console:
    return Console(file=io.StringIO(), force_terminal=False)


def text_of(console: Console) -> str:
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def words_of(console: Console) -> str:
    """Without escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text_of(console))


# ---- numbers


def test_smooth_is_the_weighted_mean():
    values, mean = torch.rand(40, generator=torch.Generator().manual_seed(0)), Smooth()
    for value in values:
        mean.add(value)
    weight = 0.5 ** (torch.arange(39, -1, -1) / HALF_LIFE_STEPS)
    assert float(mean) == pytest.approx(float((weight * values).sum() / weight.sum()), rel=1e-5)


def test_smooth_keeps_no_graph():
    mean = Smooth()
    mean.add(torch.ones((), requires_grad=True) * 2)
    assert not mean.total.requires_grad


def test_time_left_goes_by_the_steps_of_this_process():
    """Gone on at step 60, ten steps in twenty seconds, thirty to go."""
    clock = Clock(time.monotonic() - 20, 60)
    assert clock.left(70, 100) == "60 s left"
    assert clock.left(60, 100) == ""


# ---- lines


def test_a_line_after_every_validation(spots, tmp_path):
    console = plain()
    fit(tiny_recipe(spots), tmp_path, Progress(console))
    lines = text_of(console).splitlines()
    assert [line.split("  ")[0] for line in lines] == [f"training {step}/16" for step in (5, 10, 15, 16)]
    for line, sigma in zip(lines, (11 / 12, 6 / 12, 1 / 12, 0), strict=True):
        pattern = rf"loss \d\.\d+  accuracy \d+\.\d%  σ {0.05 * sigma:.3f}  val accuracy \S+%  val hit rate \S+%"
        assert re.search(pattern + r"  \d+ s  \d+ s left$", line), line


def test_numbers_are_those_of_the_run(spots, tmp_path):
    """A batch of one step: its own accuracy, and the validation's."""
    console, seen = plain(), []

    class Note(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            seen.append((float(outputs["loss"]), float(outputs["accuracy"])))

        def on_validation_end(self, trainer, pl_module: Any):
            seen.append(pl_module.measures["accuracy"])

    recipe = tiny_recipe(spots, steps=1, validate_every=1)
    fit(replace(recipe, warm_up=replace(recipe.warm_up, steps=0)), tmp_path, Note(), Progress(console))
    (loss, accuracy), val_accuracy = seen
    assert f"loss {loss:.3f}  accuracy {accuracy:.1%}  σ 0.000  val accuracy {val_accuracy:.1%}" in text_of(console)


def test_the_warm_up_has_no_answers_to_tell_of(spots, tmp_path):
    console = plain()
    fit(tiny_recipe(spots, validate_every=2), tmp_path, Progress(console))
    assert re.fullmatch(r"warm-up 2/16  loss \d\.\d+  \d+ s", text_of(console).splitlines()[0])


def test_lines_are_flushed_at_once():
    file = io.StringIO()
    file.flush = Mock()
    Progress(Console(file=file, force_terminal=False))._print("a line")
    assert file.getvalue() == "a line\n"
    file.flush.assert_called()


def test_only_the_first_process_speaks():
    for console in (plain(), terminal()):
        progress = Progress(console)
        trainer = Mock(spec=Trainer, is_global_zero=False, max_steps=10, global_step=5, state=Mock(fn=FITTING))
        trainer.sanity_checking = False
        task = SimpleNamespace(warming_up=False, sigma=None, measures={})
        progress.on_train_start(trainer, task)
        progress.on_train_batch_end(trainer, task, {"loss": torch.tensor(1.0)}, None, 0)
        progress.on_validation_end(trainer, task)
        progress.on_train_end(trainer, task)
        assert text_of(console) == ""


# ---- the bar


def test_a_bar_on_a_terminal(spots, tmp_path):
    console = terminal()
    fit(tiny_recipe(spots), tmp_path, Progress(console))
    words = words_of(console)
    assert "warm-up" in words
    assert "validation" in words
    bar, facts = words.strip().splitlines()[-2:]
    assert re.match(r"training ━+ 16/16 0 s left", bar), bar
    assert re.match(r"loss \S+  accuracy \S+%  σ 0.000  val accuracy \S+%  val hit rate \S+%", facts.strip()), facts


def test_the_bar_goes_on_where_the_run_goes_on(spots, tmp_path, monkeypatch):
    crash_at(12, monkeypatch)
    with pytest.raises(CrashError):
        fit(tiny_recipe(spots), tmp_path, Progress(plain()))
    console = terminal()
    fit(tiny_recipe(spots), tmp_path, Progress(console))
    steps = [int(step) for step in re.findall(r"(\d+)/16", words_of(console))]
    assert min(steps) == 10
    assert max(steps) == 16


@pytest.mark.parametrize("error", [CrashError, KeyboardInterrupt])
def test_the_terminal_is_given_back_after_a_crash(error, spots, tmp_path):
    class Fail(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            if trainer.global_step == 7:
                raise error

    console, streams, handler = terminal(), (sys.stdout, sys.stderr), logging.StreamHandler(sys.stderr)
    logging.getLogger("somebody").addHandler(handler)
    with pytest.raises((CrashError, SystemExit)):  # Lightning exits after an interrupt
        fit(tiny_recipe(spots), tmp_path, Fail(), Progress(console))
    logging.getLogger("somebody").removeHandler(handler)
    text = text_of(console)
    assert text.rindex(SHOW) > text.rindex(HIDE)
    assert (sys.stdout, sys.stderr) == streams
    assert handler.stream is streams[1]


def test_other_voices_are_heard_above_the_bar(spots, tmp_path):
    """Whole lines, none of which has a piece of the bar in it."""
    handler = logging.StreamHandler(sys.stderr)  # as programs make them, long before there is a bar

    class Talk(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if trainer.global_step == 7:
                print("printed at seven")
                print("complained at seven", file=sys.stderr)
                logging.getLogger("saccade").warning("logged at seven [70]")

    logging.getLogger("saccade").addHandler(handler)
    console = terminal()
    fit(tiny_recipe(spots), tmp_path, Talk(), Progress(console))
    logging.getLogger("saccade").removeHandler(handler)
    lines = [line.strip() for line in re.split(r"[\r\n]+", words_of(console))]
    assert {"printed at seven", "complained at seven", "logged at seven [70]"} <= set(lines)


@pytest.mark.parametrize(("how", "phase"), [("validate", "validation"), ("test", "testing")])
def test_evaluation_alone_has_a_bar_too(how, phase, spots, tmp_path):
    recipe = tiny_recipe(spots)
    for console, expected in ((terminal(), rf"{phase} ━+ 2/2"), (plain(), rf"{phase}: 2 batches")):
        trainer = make_trainer(recipe, tmp_path, Progress(console))
        getattr(trainer, how)(make_task(recipe), verbose=False)
        assert re.match(expected, words_of(console).strip().splitlines()[-1])


def test_a_dumb_terminal_gets_lines(spots, tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    console = terminal()
    fit(tiny_recipe(spots, steps=1), tmp_path, Progress(console))
    assert "\x1b" not in text_of(console)
