"""A rehearsal takes the loop's own steps, at sizes small enough for a test."""

from dataclasses import replace

import pytest
import torch
from jsonargparse import Namespace
from tiny import tiny_recipe

import saccade.cli.reproduce as command
from saccade.cli import main
from saccade.reproduce import rehearsal
from saccade.reproduce.paper_tables import PAPER
from saccade.reproduce.rehearsal import Rehearsed, reckon_hours, rehearse, tell
from saccade.reproduce.stand_in import SHAPES, Shape, StandIn
from saccade.training.phases import Training
from saccade.training.recipe import load_recipe


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.setitem(SHAPES, "spots", Shape((64, 64), 3))
    return replace(tiny_recipe(tmp_path / "spots", training=Training()), batch=6)


def test_every_full_row_has_a_shape_to_be_rehearsed_with():
    recipes = {row.full.recipe for table in PAPER for row in table.rows if row.full}
    names = {str(load_recipe(name).data.path) for name in recipes}
    assert names == {f"data/{name}" for name in SHAPES}


def test_a_step_moves_the_weights_and_says_its_seconds(recipe):
    stand_in = StandIn(recipe, SHAPES["spots"])
    before = [parameter.clone() for parameter in stand_in.learner.parameters()]
    kept = stand_in.kept_bytes(stand_in.batch(2))
    assert all(torch.equal(old, new) for old, new in zip(before, stand_in.learner.parameters(), strict=True))
    assert stand_in.step(stand_in.batch(2), 1) > 0  # the first has the learning rate 0
    assert not all(torch.equal(old, new) for old, new in zip(before, stand_in.learner.parameters(), strict=True))
    assert kept < stand_in.kept_bytes(stand_in.batch(4))


def test_what_is_kept_is_the_activations_of_a_network_that_one_can_count(recipe):
    """Of one convolution and a sum, its input is kept and its weights are not counted."""
    stand_in = StandIn(recipe, SHAPES["spots"])
    layer, image = torch.nn.Conv2d(3, 4, 1), torch.rand(5, 3, 8, 8)
    stand_in.learner.add_module("one", layer)
    stand_in.module = lambda batch, step: layer(image)
    assert stand_in.kept_bytes(stand_in.batch(1)) == image.numel() * 4


def test_three_steps_on_a_processor_have_fewer_images_and_say_so(recipe):
    found = rehearse(recipe, on_gpu=False)
    assert found.batch == 2
    assert found.hours == reckon_hours(recipe, found.multiply_adds)
    said = tell(recipe, found, runs=4)
    assert said.startswith("3 steps done, batch 2 of 6, ")
    assert "GB with 6" in said
    assert said.endswith("a run, 4 of them")
    whole = Rehearsed(6, 0.5, 2.5e9, 10**9, {"V100": 2.0})
    assert "batch 6, 0.50 s a step here, 2.5 GB; 1.00 billion" in tell(recipe, whole, runs=1)


def test_rows_that_share_a_run_are_rehearsed_once(monkeypatch):
    calls, said = [], []
    rows = next(table for table in PAPER if table.name == "sigma").rows[:3]  # two of them are one run
    monkeypatch.setattr(rehearsal, "rehearse", lambda recipe: calls.append(recipe) or HOURS)
    rehearsal.rehearse_rows(rows, said.append)
    assert len(calls) == 2
    assert "V100 36 h" in said[-1]  # nine runs of each


HOURS = Rehearsed(64, 1.0, 1e9, 10**9, {name: 2.0 if name == "V100" else 0.0 for name in rehearsal.PEAKS})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["traffic", "--rehearse"], "--rehearse is for --scale full"),
        (["systems", "--scale", "full", "--rehearse"], "does not exist at scale full"),
        (["speed", "--rehearse"], "leave out --rehearse"),
        (["paper", "--scale", "full"], "starts from ImageNet weights: give their file with --weights"),
        (["paper", "--rows", "cnn"], "--rows is for one table"),
    ],
)
def test_wrong_words_are_one_line(words, message, capsys):
    assert main(["reproduce", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("codes", "code"), [((0, 0, 0, 0, 0), 0), ((0, 1, 0, 0, 0), 1)])
def test_paper_is_all_of_its_tables(codes, code, monkeypatch):
    calls, ends = [], iter(codes)
    monkeypatch.setattr(command, "reproduce", lambda args: calls.append((args.table, args.scale)) or next(ends))
    asked = Namespace(table="paper", scale="full", rows=None, weights=None, list=True, rehearse=False)
    assert command._reproduce_paper(asked) == code
    assert calls == [(name, "full") for name in ("traffic", "sinkhorn", "billiard", "sigma", "cub")]
