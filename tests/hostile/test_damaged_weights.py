"""No damaged checkpoint and no damaged model is believed: not one flipped bit, wherever it is."""

import errno
import json
import logging
import os
import pkgutil
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from full_disk import FullDisk
from safetensors.torch import load_model
from tiny import make_spots, tiny_recipe
from tiny_fit import CrashError, crash_at, fit
from torch import nn

import saccade
from saccade import ModelConfig, build_model
from saccade.cli import main
from saccade.training.checkpoints import resume, save_checkpoint
from saccade.training.phases import Training
from saccade.training.recipe import Recipe, dump_recipe
from tests.hostile.configurations import flip

COUNT = 300


class Parts:
    """A network and its optimizer, as a run has them."""

    def __init__(self, steps: int):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(40, 40), nn.BatchNorm1d(40), nn.Linear(40, 2))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        for _ in range(steps):
            self.model(torch.randn(8, 40)).square().sum().backward()
            self.optimizer.step()

    def all(self) -> dict:
        return {"model": self.model, "optimizer": self.optimizer}


def test_300_of_300_damaged_checkpoints_are_passed_over_with_a_word(tmp_path, caplog):
    for steps in (2, 4):
        save_checkpoint(tmp_path, steps, Parts(steps).all())
    newest, earlier = tmp_path / "00000004.ckpt", Parts(2).model.state_dict()
    sound, parts = newest.read_bytes(), Parts(0)
    for seed in range(COUNT):
        newest.write_bytes(flip(sound, seed))
        caplog.clear()
        assert resume(tmp_path, parts.all()) == 2, seed
        assert f"{newest} cannot be read (it is damaged: its checksum is another)" in caplog.text
        assert all(value.equal(earlier[name]) for name, value in parts.model.state_dict().items()), seed
    newest.write_bytes(sound)
    assert resume(tmp_path, parts.all()) == 4


RAISED = (KeyError("x"), RecursionError(), MemoryError(), AssertionError(), EOFError(), Exception("x"))


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_reading_one_raises_means_that_it_cannot_be_read(tmp_path, monkeypatch, caplog, error):
    for steps in (1, 2):
        save_checkpoint(tmp_path, steps, Parts(steps).all())
    load, left = torch.load, [error]

    def load_or_raise(*args, **options):
        if left:
            raise left.pop()
        return load(*args, **options)

    monkeypatch.setattr(torch, "load", load_or_raise)
    assert resume(tmp_path, Parts(0).all()) == 1
    assert f"00000002.ckpt cannot be read ({type(error).__name__}" in caplog.text


def test_a_sound_checkpoint_of_another_model_is_told_apart_from_damage(tmp_path):
    save_checkpoint(tmp_path, 3, {"model": nn.Linear(2, 2)})
    with pytest.raises(ValueError, match=r"00000003\.ckpt is not damaged, but of another model .* give another folder"):
        resume(tmp_path, {"model": nn.Linear(2, 3)})


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Recipe, dict]:
    """A recipe, and the weights at the end of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    recipe = tiny_recipe(make_spots(folder / "spots", 10), steps=3, validate_every=2)
    return recipe, fit(recipe, folder / "run").model.state_dict()


def ends_alike(whole: tuple[Recipe, dict], folder: Path) -> bool:
    weights = fit(whole[0], folder).model.state_dict()
    return all(weights[name].equal(value) for name, value in whole[1].items())


def test_a_run_whose_newest_checkpoint_is_damaged_ends_with_the_same_weights(whole, tmp_path, monkeypatch, caplog):
    crash_at(6, monkeypatch)
    with pytest.raises(CrashError):
        fit(whole[0], tmp_path)
    newest = max((tmp_path / "checkpoints").iterdir())
    newest.write_bytes(flip(newest.read_bytes(), seed=1))
    with caplog.at_level(logging.WARNING):
        assert ends_alike(whole, tmp_path)
    assert f"{newest} cannot be read" in caplog.text


# ---- models

CONFIG = ModelConfig(
    num_classes=2,
    image_size=(64, 64),
    view={"scale": 0.25},
    scorer={"name": "conv", "widths": [4], "pool": 2},
    selection={"name": "hard", "k": 2},
    extraction={"patch": 20},
    features={"name": "ats", "width": 8},
    classes=("across", "along"),
)


@pytest.fixture
def model(tmp_path) -> Path:
    torch.manual_seed(0)
    build_model(CONFIG).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_300_of_300_damaged_models_are_refused_with_their_name(model, name):
    file = model / name
    sound = file.read_bytes()
    for seed in range(COUNT):
        file.write_bytes(flip(sound, seed))
        with pytest.raises(ValueError, match=r"^\S+/model/model\.safetensors (has no checksum|or the config\.json)"):
            saccade.load_model(model)
    file.write_bytes(sound)
    saccade.load_model(model)


def test_every_byte_of_the_header_counts(model):
    file = model / "model.safetensors"
    sound = file.read_bytes()
    end = 8 + int.from_bytes(sound[:8], "little")
    for place in (*range(150), *range(150, end, 29)):
        file.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        with pytest.raises(ValueError, match=r"has no checksum|is damaged"):
            saccade.load_model(model)


def test_what_was_made_by_hand_or_changed_on_purpose_can_be_saved_anew(model, tmp_path):
    tree = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(tree | {"classes": ["a", "b"]}))
    with pytest.raises(ValueError, match="if it was changed on purpose, build the model anew and save it"):
        saccade.load_model(model)
    changed = build_model(ModelConfig.from_json((model / "config.json").read_text()))  # as docs/security.md says
    load_model(changed, str(model / "model.safetensors"))
    changed.save_pretrained(tmp_path / "anew")
    again = saccade.load_model(tmp_path / "anew")
    assert again.config.classes == ("a", "b")
    assert all(value.equal(again.state_dict()[name]) for name, value in changed.state_dict().items())


def test_killed_while_it_saves_leaves_files_that_belong_together(model, monkeypatch):
    other, replace = build_model(CONFIG), os.replace

    def replace_and_die(part, path):
        replace(part, path)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replace_and_die)
    with pytest.raises(KeyboardInterrupt):
        other.save_pretrained(model)
    weights = saccade.load_model(model).state_dict()
    assert all(weights[name].equal(value) for name, value in other.state_dict().items())


# ---- files that cannot be written


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_weights_have_the_permissions_of_their_neighbours(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        build_model(CONFIG).save_pretrained(tmp_path)
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys(
        ("README.md", "config.json", "model.safetensors"), mode
    )


@pytest.mark.parametrize("room", [100, 3000, 20_000])
def test_a_full_disk_leaves_the_model_that_was_there_and_nothing_beside(model, room):
    assert (model / "model.safetensors").stat().st_size > 20_000
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    with (
        FullDisk(room),
        pytest.raises(OSError, match=r"/(config\.json|model\.safetensors) cannot be written .*room"),
    ):
        build_model(CONFIG).save_pretrained(model)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before


@pytest.mark.parametrize("writer", ["saccade.system.save_weights", "saccade.training.loop.save_checkpoint"])
def test_a_run_whose_disk_was_full_resumes(whole, tmp_path, monkeypatch, writer):
    write, calls = pkgutil.resolve_name(writer), []

    def write_to_a_full_disk(*args):
        calls.append(args)
        with FullDisk(1000) if len(calls) == 2 else nullcontext():
            write(*args)

    monkeypatch.setattr(writer, write_to_a_full_disk)
    with pytest.raises(OSError, match=r"^\S+/(model\.safetensors|0.*\.ckpt) cannot be written .*File too large"):
        fit(whole[0], tmp_path)
    assert not list(tmp_path.rglob("*.part"))
    assert ends_alike(whole, tmp_path)


def test_a_full_disk_is_one_line_on_the_command_line(tmp_path, monkeypatch, capsys):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(dump_recipe(tiny_recipe(make_spots(tmp_path / "spots", 10), steps=1, training=Training())))

    def find_no_room(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("saccade.system.save_weights", find_no_room)
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"saccade: error: {tmp_path / 'run' / 'best' / 'model.safetensors'} cannot be written (No space"
    )
