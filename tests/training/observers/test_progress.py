"""Progress: the right numbers in a line or a bar, other voices above it, and a terminal given back whatever happens."""

import io
import logging
import re
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from rich.console import Console
from tiny import make_spots, tiny_recipe
from tiny_fit import CrashError, at_step, crash_at, fit, make_parts

from saccade.runs import RunFolder
from saccade.training.devices import make_fabric
from saccade.training.evaluations import run_through
from saccade.training.observers.progress import HALF_LIFE_STEPS, Clock, Progress, Smooth
from saccade.training.phases import Training

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
    """Resumed at step 60, ten steps in twenty seconds, thirty to go."""
    clock = Clock(time.monotonic() - 20, 60)
    assert clock.left(70, 100) == "60 s left"
    assert clock.left(60, 100) == ""


# ---- lines


def test_a_line_after_every_validation(spots, tmp_path):
    console = plain()
    fit(tiny_recipe(spots), tmp_path, console)
    lines = text_of(console).splitlines()
    assert [line.split("  ")[0] for line in lines] == [f"training (labels) {step}/16" for step in (5, 10, 15, 16)]
    for line, sigma in zip(lines, (11 / 12, 6 / 12, 1 / 12, 0), strict=True):
        pattern = rf"loss \d\.\d+  accuracy \d+\.\d%  σ {0.05 * sigma:.3f}  val accuracy \S+%  val hit rate \S+%"
        assert re.search(pattern + r"  \d+ s  \d+ s left$", line), line


def test_numbers_are_those_of_the_run(spots, tmp_path):
    """A batch of one step: its own accuracy, and the validation's."""
    console = plain()
    fit(tiny_recipe(spots, steps=1, validate_every=1, training=Training()), tmp_path, console)
    seen = {name: value for row in RunFolder(tmp_path).metrics() for name, value in row.items()}
    numbers = f"loss {seen['train/loss']:.3f}  accuracy {seen['train/accuracy']:.1%}"
    assert f"training 1/1  {numbers}  σ 0.000  val accuracy {seen['val/accuracy']:.1%}" in text_of(console)


def test_label_free_steps_have_no_answers_to_tell_of(spots, tmp_path):
    console = plain()
    fit(tiny_recipe(spots, validate_every=2), tmp_path, console)
    first = text_of(console).splitlines()[0]
    assert re.fullmatch(r"training \(label free\) 2/16  loss \d\.\d+  \d+ s", first), first


def test_lines_are_flushed_at_once():
    file = io.StringIO()
    file.flush = Mock()
    Progress(Console(file=file, force_terminal=False))._print("a line")
    assert file.getvalue() == "a line\n"
    file.flush.assert_called()


def test_a_quiet_console_stays_silent(spots, tmp_path):
    """The one that processes other than the first have."""
    console = Console(file=io.StringIO(), force_terminal=True, quiet=True)
    fit(tiny_recipe(spots, steps=2), tmp_path, console)
    assert text_of(console) == ""


# ---- the bar


def test_a_bar_on_a_terminal(spots, tmp_path):
    console = terminal()
    fit(tiny_recipe(spots), tmp_path, console)
    words = words_of(console)
    assert "training (label free)" in words
    assert "validation" in words
    bar, facts = words.strip().splitlines()[-2:]
    assert re.match(r"training \(labels\) ━+ 16/16 0 s left", bar), bar
    assert re.match(r"loss \S+  accuracy \S+%  σ 0.000  val accuracy \S+%  val hit rate \S+%", facts.strip()), facts


def test_the_bar_resumes_where_the_run_resumes(spots, tmp_path, monkeypatch):
    crash_at(12, monkeypatch)
    with pytest.raises(CrashError):
        fit(tiny_recipe(spots), tmp_path, plain())
    console = terminal()
    fit(tiny_recipe(spots), tmp_path, console)
    steps = [int(step) for step in re.findall(r"(\d+)/16", words_of(console))]
    assert min(steps) == 10
    assert max(steps) == 16


@pytest.mark.parametrize("error", [CrashError, KeyboardInterrupt])
def test_the_terminal_is_given_back_after_a_crash(error, spots, tmp_path, monkeypatch):
    def fail():
        raise error

    at_step(7, fail, monkeypatch)
    console, streams, handler = terminal(), (sys.stdout, sys.stderr), logging.StreamHandler(sys.stderr)
    logging.getLogger("somebody").addHandler(handler)
    with pytest.raises(error):
        fit(tiny_recipe(spots), tmp_path, console)
    logging.getLogger("somebody").removeHandler(handler)
    text = text_of(console)
    assert text.rindex(SHOW) > text.rindex(HIDE)
    assert (sys.stdout, sys.stderr) == streams
    assert handler.stream is streams[1]


def test_other_voices_are_heard_above_the_bar(spots, tmp_path, monkeypatch):
    """Whole lines, none of which has a piece of the bar in it."""
    handler = logging.StreamHandler(sys.stderr)  # as programs make them, long before there is a bar

    def talk():
        print("printed at seven")
        print("complained at seven", file=sys.stderr)
        logging.getLogger("saccade").warning("logged at seven [70]")

    logging.getLogger("saccade").addHandler(handler)
    at_step(7, talk, monkeypatch)
    console = terminal()
    fit(tiny_recipe(spots), tmp_path, console)
    logging.getLogger("saccade").removeHandler(handler)
    lines = [line.strip() for line in re.split(r"[\r\n]+", words_of(console))]
    assert {"printed at seven", "complained at seven", "logged at seven [70]"} <= set(lines)


def test_evaluation_alone_has_a_bar_too(spots):
    recipe = tiny_recipe(spots)
    learner, data = make_parts(recipe)
    for console, expected in ((terminal(), r"testing ━+ 2/2"), (plain(), r"testing: 2 batches")):
        run_through(make_fabric(recipe), learner.model, data["test"], recipe, showing=Progress(console).going_through)
        assert re.match(expected, words_of(console).strip().splitlines()[-1])


def test_a_dumb_terminal_gets_lines(spots, tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    console = terminal()
    fit(tiny_recipe(spots, steps=1), tmp_path, console)
    assert "\x1b" not in text_of(console)
