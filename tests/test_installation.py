"""The wheel in an empty environment, as somebody has it who never saw this repository.

It downloads torch and takes minutes: `pytest -m slow tests/test_installation.py`, by hand, before a release.
"""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
MAKE_A_MODEL_AND_AN_IMAGE = """
import torch
from PIL import Image
from saccade import ModelConfig, PatchSelectionModel, perturbed_topk

config = ModelConfig(
    num_classes=2, image_size=(96, 128), view={"scale": 0.25}, extraction={"patch": 32}, features={"name": "thin"},
    selection={"name": "perturbed", "k": 2},
)
PatchSelectionModel.from_config(config).save_pretrained("model")
Image.new("RGB", (128, 96), "white").save("white.png")
print(perturbed_topk(torch.rand(2, 100), 3, sigma=0.05, num_samples=10).index.shape[0])
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """Runs a program of an environment that has the wheel and what the wheel asks for."""
    folder = tmp_path_factory.mktemp("user")
    (archive,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    venv.create(folder / "env", with_pip=True)
    programs = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    here = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(programs / words[0]), *words[1:]]
        return subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, check=False)

    done = call("pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), archive)
    assert done.returncode == 0, done.stderr
    return call


@pytest.mark.slow
def test_the_base_has_operator_model_and_command_line(run):
    made = run("python", "-c", MAKE_A_MODEL_AND_AN_IMAGE)
    assert made.stdout == "2\n", made.stderr
    assert "predict" in run("saccade", "--help").stdout
    assert "signs/perturbed" in run("saccade", "recipes").stdout
    said = run("saccade", "predict", "model", "white.png")
    assert len(json.loads(said.stdout)["boxes"]) == 2, said.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "extra"),
    [("serve model", "serve"), ("export model model.onnx", "export"), ("predict model scan.svs", "slides")],
)
def test_what_is_missing_is_asked_for_by_name(run, command, extra):
    assert run("python", "-c", "open('scan.svs', 'wb').write(b'II*\\0' + bytes(8))").returncode == 0
    said = run("saccade", *command.split())
    assert said.returncode != 0
    assert f"pip install 'saccade[{extra}]'" in said.stdout + said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.slow
def test_the_source_distribution_makes_the_same_package(run, tmp_path):
    (source,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    made = run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), source)
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert run("pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel)).returncode == 0
    assert "signs/perturbed" in run("saccade", "recipes").stdout
