"""Models on a hub, against a stand-in on loopback: what is sent comes back, and what goes wrong is told in one line."""

import json

import pytest
import timm
import torch
from made_run import made_run, run_folder
from safetensors.torch import save_file
from sealing import seal
from torch.testing import assert_close

from saccade import ModelConfig, PatchSelectionModel, load_model, load_recipe
from saccade.cli import main
from saccade.features.timm_backbone import Backbone
from saccade.places import UnreachableError
from saccade.training.defaults.propose import _model_of

__all__ = ["made_run", "run_folder"]

TINY = ModelConfig(
    num_classes=2,
    image_size=(64, 64),
    scorer={"name": "conv", "widths": [4], "pool": 2},
    selection={"name": "perturbed", "k": 2},
    extraction={"patch": 20},
    features={"name": "ats", "width": 8},
    classes=("across", "a|long"),
)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return PatchSelectionModel.from_config(TINY).eval()


@pytest.fixture
def saved(model, tmp_path):
    model.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_model_that_was_pushed_comes_back(hub, model):
    where = model.push_to_hub("birds/marks", private=True)
    assert where == f"{hub.url}/birds/marks"
    assert set(hub.models["birds/marks"]) == {"config.json", "model.safetensors", "README.md"}
    assert hub.private["birds/marks"] is True
    image = torch.rand(1, 3, 64, 64)
    for back in (PatchSelectionModel.from_pretrained("birds/marks"), load_model("birds/marks@main")):
        assert_close(back(image).logits, model(image).logits)


def test_only_config_and_weights_are_fetched(hub, saved):
    (saved / "evil.py").write_text("raise SystemExit")
    (saved / "pytorch_model.bin").write_bytes(b"a pickle")
    load_model(hub.put("birds/marks", saved))
    fetched = {line.rpartition("/")[2] for line in hub.asked if "/resolve/" in line}
    assert fetched == {"config.json", "model.safetensors"}


def test_what_was_fetched_once_needs_no_hub(hub, saved, model):
    hub.put("birds/marks", saved)
    load_model("birds/marks")
    hub.shutdown()
    hub.server_close()
    assert load_model("birds/marks").config == model.config


def refused(name: str) -> str:
    with pytest.raises((ValueError, OSError)) as caught:
        load_model(name)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_model_that_is_not_there(hub):
    assert refused("birds/nothing").startswith(f"birds/nothing: no such folder here, and {hub.url} has no such model")


def test_a_revision_that_is_not_there(hub, saved):
    assert "not this revision" in refused(hub.put("birds/marks", saved) + "@v9")


def test_a_connection_that_breaks(hub, saved):
    hub.breaks.add("model.safetensors")
    assert refused(hub.put("birds/marks", saved)).startswith(f"birds/marks: {hub.url} could not be asked (")


def test_a_hub_that_is_not_there(hub):
    hub.shutdown()
    hub.server_close()
    assert "cannot be reached, and there is no whole copy" in refused("birds/marks")


def test_a_model_of_another_library(hub, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"architecture": "resnet18"}')
    assert "no model.safetensors" in refused(hub.put("birds/other", tmp_path / "other"))
    (tmp_path / "other" / "model.safetensors").write_bytes(b"\x02\x00\x00\x00\x00\x00\x00\x00{}")
    assert "has no checksum" in refused(hub.put("birds/another", tmp_path / "other"))


def test_a_repository_with_nothing_of_a_model(hub, tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "notes.txt").write_text("nothing")
    assert "has none of the files config.json, model.safetensors" in refused(hub.put("birds/text", tmp_path / "text"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"selection": {"name": "their_selector", "k": 2}}, "their_selector"),
        ({"imports": ["their_parts"]}, "their_parts"),
    ],
)
def test_an_unknown_part(hub, saved, change, told):
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, **change}))
    seal(saved)
    assert told in refused(hub.put("birds/marks", saved))


def test_a_name_that_is_none(hub, model):
    with pytest.raises(ValueError, match="expected OWNER/MODEL"):
        model.push_to_hub("marks")


def test_a_path_is_never_a_name(hub, tmp_path, monkeypatch):
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no config\.json in birds/marks"):
        load_model(Path("birds/marks"))
    assert not hub.asked


def test_an_url_of_a_model_is_fetched_from_the_hub(hub, saved):
    from saccade.runs import fetch_model, find_model_folder

    folder = fetch_model(f"hf://{hub.put('birds/marks', saved)}")
    assert load_model(find_model_folder(folder)).config.classes == ("across", "a|long")
    with pytest.raises(UnreachableError, match="no such model"):
        fetch_model("hf://birds/nothing")


@pytest.fixture
def published(hub, tmp_path):
    """Weights of a small network of timm's, as timm publishes them."""
    net = timm.create_model("resnet10t", pretrained=False)
    (tmp_path / "published").mkdir()
    save_file(net.state_dict(), tmp_path / "published" / "model.safetensors")
    return hub.put("timm/resnet10t.c3_in1k", tmp_path / "published"), net


def test_weights_of_a_network_come_from_the_hub(published):
    name, net = published
    backbone = Backbone(model="resnet10t", weights=name)
    assert_close(backbone.net.conv1[0].weight, net.conv1[0].weight)
    assert _model_of(name) == _model_of(f"{name}@main") == "resnet10t"


def test_weights_of_another_network(published):
    with pytest.raises(ValueError, match="does not hold the weights of resnet18"):
        Backbone(model="resnet18", weights=published[0])
    with pytest.raises(UnreachableError, match="no such model"):
        Backbone(model="resnet18", weights="timm/resnet18.nobody")


def test_push_and_predict_from_the_command_line(hub, run_folder, capsys):
    assert main(["push", str(run_folder), "birds/spots", "--no-picture"]) == 0
    assert f"sent: {hub.url}/birds/spots" in capsys.readouterr().out
    assert set(hub.models["birds/spots"]) == {"config.json", "model.safetensors", "README.md"}
    image = load_recipe(run_folder / "recipe.yaml").data.path + "/images/000.png"
    assert main(["predict", "hf://birds/spots", image]) == 0
    assert main(["predict", str(run_folder), image]) == 0
    remote, here = (json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{"))
    assert remote["label"] == here["label"]
    assert main(["predict", "hf://birds/typo", image]) == 2
    assert "error: birds/typo: no such folder here" in capsys.readouterr().err
