"""An exported file says what the model says: on any batch and size, in other runtimes, or there is no file at all."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import make_spots
from torch import nn
from torch.testing import assert_close

from saccade.building import build_model, load_model
from saccade.cli import main
from saccade.config import ModelConfig
from saccade.data import ImageDataset, load
from saccade.export import parity, program
from saccade.export.exporting import describe
from saccade.export.formats import FORMATS
from saccade.preparation import Preparation

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra `export`")

CLASSES = ("leaf", "größe", "none")
TINY = {
    "num_classes": 3,
    "classes": CLASSES,
    "image_size": (60, 72),
    "view": {"scale": 1 / 3},
    "scorer": {"name": "conv", "widths": [4], "pool": 2},
    "selection": {"name": "perturbed", "k": 4},
    "extraction": {"patch": 17},
    "features": {"name": "ats", "width": 8},
}
TRANSFORMER = {"aggregation": {"name": "transformer", "dim": 8, "hidden": 8, "heads": 2, "layers": 1}}
DIVERSE = {"selection": {"name": "diverse", "k": 4}}
MANY = {
    "transformer.onnx": TRANSFORMER,
    "max.onnx": {"aggregation": {"name": "max"}, "extraction": {"patch": 17, "geometry": "stretched"}},
    "attention.onnx": {"aggregation": {"name": "attention"}, "positions": True},
    "concat.onnx": {"aggregation": {"name": "concat"}, "extraction": {"patch": 17}},
    "diverse.onnx": DIVERSE,
    "exhaustive.onnx": {"selection": {"name": "exhaustive"}},
    "cnn.onnx": {"system": "cnn"},
    "cells.onnx": {
        "scorer": {"name": "backbone", "model": "resnet10t", "glance": True, "heads": 2, "width": 4},
        "features": {"name": "cells", "model": "resnet10t", "heads": 2, "width": 4},
        "aggregation": {"name": "max"},
        "selection": {"name": "hard", "k": 2},
    },
    "tissue.onnx": {"view": {"scale": 1 / 3, "tissue": True}},
    "warm.onnx": {"task": {"name": "single", "temperature": 2.5}},
    "mean.pt2": {},
    "transformer.pt2": TRANSFORMER,
    "diverse.pt2": DIVERSE,
}

# Sizes are symbols while a graph is traced, and the shape checks that tests switch on know numbers only.
EXPORT = """
import sys
from saccade.export import export_model
for folder, path in zip(sys.argv[1::2], sys.argv[2::2]):
    print(path, export_model(folder, path).fixed)
"""


def make_model(folder: Path, **changes) -> Path:
    torch.manual_seed(0)
    model = build_model(ModelConfig(**{**TINY, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # fresh weights give nearly equal answers to all images
            parameter.mul_(1.5)
    model.save_pretrained(folder)
    return folder


def export_all(models: dict[str, dict], folder: Path) -> Path:
    pairs = [(make_model(folder / Path(name).stem, **changes), folder / name) for name, changes in models.items()]
    words = [str(word) for pair in pairs for word in pair]
    done = subprocess.run([sys.executable, "-c", EXPORT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{path} {{}}" for _, path in pairs]  # nothing is fixed
    return folder


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    return export_all({"mean.onnx": {}}, tmp_path_factory.mktemp("exported"))


def assert_same_answers(folder: Path, name: str) -> None:
    hard = program.HardModel(load_model(folder / Path(name).stem))
    run = FORMATS[Path(name).suffix].open(folder / name)
    for batch, height, width in ((2, 60, 72), (1, 60, 72), (3, 61, 103), (1, 140, 59)):
        image = torch.rand(batch, 3, height, width, generator=torch.Generator().manual_seed(height))
        with torch.no_grad():
            expected = hard(image)
        for got, wanted in zip(run(image.numpy()), expected, strict=True):
            assert_close(torch.from_numpy(got), wanted, atol=1e-5, rtol=1e-5)


def test_any_batch_and_image_size_gives_pytorchs_answers(exported):
    assert_same_answers(exported, "mean.onnx")


@pytest.mark.slow
def test_other_stages_and_systems_give_pytorchs_answers_too(tmp_path):
    export_all(MANY, tmp_path)
    for name in MANY:
        assert_same_answers(tmp_path, name)


@pytest.mark.slow
def test_candidates_of_several_sizes_are_chosen_and_read_as_in_pytorch(tmp_path):
    sizes = {"extraction": {"patch": 17, "sizes": [17, 34, [12, 30]]}, "selection": {"name": "perturbed", "k": 24}}
    names = ("sizes.onnx", "sizes.pt2")
    for name in names:
        model: Any = load_model(make_model(tmp_path / Path(name).stem, **TRANSFORMER, **sizes))
        last = model.scorer.layers[-2]
        with torch.no_grad():  # at first the scores of all sizes are the same
            last.weight.normal_(generator=torch.Generator().manual_seed(1)).sub_(last.weight.mean((1, 2, 3), True))
            last.bias.zero_()
            boxes = model(torch.rand(2, 3, 60, 72, generator=torch.Generator().manual_seed(60))).boxes
        assert len((boxes[..., 2:] - boxes[..., :2]).flatten(0, 1).unique(dim=0)) == 3
        model.save_pretrained(tmp_path / Path(name).stem)
        words = [str(tmp_path / Path(name).stem), str(tmp_path / name)]
        done = subprocess.run([sys.executable, "-c", EXPORT, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert_same_answers(tmp_path, name)


def test_boxes_come_best_first_and_are_the_models_own(exported):
    model: Any = load_model(exported / "mean")
    image = torch.rand(2, 3, 60, 72, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        output = model(image)
    session = onnxruntime.InferenceSession(exported / "mean.onnx")
    boxes, scores = session.run(["boxes", "scores"], {"image": image.numpy()})
    assert (np.diff(scores, axis=1) <= 0).all()
    best = output.scores.argmax(dim=1, keepdim=True)
    assert_close(torch.from_numpy(boxes[:, :1]), model.grid((60, 72)).boxes(best))
    for mine, theirs in zip(boxes.tolist(), output.boxes.tolist(), strict=True):
        assert sorted(mine) == sorted(theirs)


def test_the_file_tells_its_classes_and_names_what_it_takes_and_gives(exported):
    session = onnxruntime.InferenceSession(exported / "mean.onnx")
    facts = {name: json.loads(value) for name, value in session.get_modelmeta().custom_metadata_map.items()}
    assert facts["classes"] == list(CLASSES)
    assert facts["patch"] == [17, 17]
    assert facts["view_scale"] == 1 / 3
    assert facts["preparation"] == {"resize": None, "crop": None, "max_pixels": None, "mpp": None, "stream": False}
    (image,) = session.get_inputs()
    assert (image.name, image.shape) == ("image", ["batch", 3, "height", "width"])
    assert [output.name for output in session.get_outputs()] == ["logits", "boxes", "scores"]


def test_logits_are_divided_by_the_temperature_and_the_facts_do_not_ask_for_it_again(tmp_path):
    rule = {"name": "thresholds", "asked": "F1 of 'leaf'", "thresholds": {"leaf": [0.2, 0.1, 0.4]}}
    model = load_model(make_model(tmp_path, task={"name": "single", "temperature": 2.5}, decision=rule))
    image = torch.rand(2, 3, 60, 72, generator=torch.Generator().manual_seed(5))
    logits = program.HardModel(model)(image)[0]
    assert_close(logits, model(image).logits.detach() / 2.5)
    assert_close(logits.softmax(dim=1), model.task.tell(model(image).logits.detach()))
    facts = {name: json.loads(value) for name, value in describe(model).items()}
    assert facts["task"] == {"name": "single"}
    assert facts["decision"] == rule


EXAMPLE = """
import runpy, sys
sys.modules["torch"] = None  # importing it is an error from here on
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
assert "saccade" not in sys.modules
"""


def test_the_example_answers_without_torch(exported, tmp_path):
    example = Path(__file__).parents[1] / "examples" / "onnx_without_torch.py"
    pixels = np.random.default_rng(0).integers(0, 256, (90, 70, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    words = [sys.executable, "-c", EXAMPLE, example, exported / "mean.onnx", tmp_path / "photo.png"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    label, *boxes = done.stdout.splitlines()
    hard = program.HardModel(load_model(exported / "mean"))
    with torch.no_grad():
        logits, expected, scores = hard(torch.from_numpy(pixels / np.float32(255)).permute(2, 0, 1)[None])
    assert label == CLASSES[int(logits.argmax())]
    assert [line.split()[:4] for line in boxes] == [list(map(str, box)) for box in expected[0].tolist()]
    assert [float(line.split()[4]) for line in boxes] == pytest.approx(scores[0].tolist(), abs=1e-3)


def wrong_by(shift: float, hard: program.HardModel):
    return lambda image: [output.numpy() + shift for output in hard(torch.from_numpy(image))]


def test_a_difference_is_an_error_and_a_small_one_is_told(tmp_path):
    hard = program.HardModel(load_model(make_model(tmp_path / "model", system="cnn")))
    images = parity.Images([torch.rand(2, 3, 60, 72)], "two images")
    found = parity.compare(hard, wrong_by(1e-6, hard), images, ["logits"])
    assert 0 < found.difference["logits"] < 1e-5
    with pytest.raises(ValueError, match="differs from PyTorch on two images"):
        parity.compare(hard, wrong_by(1e-2, hard), images, ["logits"])


def test_other_patches_are_an_error_unless_their_scores_are_equal(tmp_path):
    hard = program.HardModel(load_model(make_model(tmp_path / "model")))

    def other_boxes(image):
        logits, boxes, scores = (output.numpy() for output in hard(torch.from_numpy(image)))
        return logits, boxes + 1, scores

    textured, flat = torch.rand(1, 3, 60, 72, generator=torch.Generator().manual_seed(0)), torch.ones(1, 3, 60, 72)
    with torch.no_grad():
        assert hard.margin(textured) > parity.TIE
        assert hard.margin(flat) < parity.TIE
    with pytest.raises(ValueError, match="differs from PyTorch"):
        parity.compare(hard, other_boxes, parity.Images([textured, flat], "both"), program.OUTPUTS)
    with pytest.raises(ValueError, match="candidates of equal scores"):
        parity.compare(hard, other_boxes, parity.Images([flat], "one"), program.OUTPUTS)


class Fixed(nn.Module):
    """A scorer that says `scores` of every image."""

    def __init__(self, scorer: Any, scores: torch.Tensor):
        super().__init__()
        self.scorer, self.field, self.width, self.scores = scorer, scorer.field, scorer.width, scores

    def forward(self, view: torch.Tensor) -> Any:
        return self.scorer(view)._replace(scores=self.scores)


def test_a_tie_among_patches_that_suppression_left_is_a_tie(tmp_path):
    """The second patch is the third best candidate, as near to the fourth as rounding goes."""
    diverse = {"name": "diverse", "k": 2, "max_overlap": 0.0}
    hard = program.HardModel(load_model(make_model(tmp_path / "model", selection=diverse)))
    model: Any = hard.model
    scores = torch.zeros(1, *model.grid((60, 72)).shape)
    scores[0, 0, 0], scores[0, 0, 1], scores[0, -1, 0], scores[0, -1, -1] = 1.0, 0.9, 0.5, 0.5 - 1e-7
    model.scorer = Fixed(model.scorer, scores.flatten(1))
    assert 0 <= hard.margin(torch.rand(1, 3, 60, 72)) < parity.TIE


def test_the_file_tells_how_to_prepare_an_image(tmp_path):
    preparation = Preparation(resize=(600, 600), crop=(448, 440))
    model: Any = load_model(make_model(tmp_path / "model", extraction={"patch": [24, 32]}, preparation=preparation))
    facts = describe(model)
    assert Preparation.from_tree(json.loads(facts["preparation"])) == preparation
    assert json.loads(facts["patch"]) == [24, 32]
    assert json.loads(facts["view_scale"]) == model.view.scale
    plain: Any = load_model(make_model(tmp_path / "plain", system="cnn"))
    assert json.loads(describe(plain)["patch"]) is None


def test_it_is_checked_on_the_runs_own_images_as_the_model_sees_them(tmp_path):
    spots, run = make_spots(tmp_path / "spots", 20), tmp_path / "run"
    preparation = Preparation(resize=(50, 62), crop=(48, 60))
    config = load_model(make_model(run / "best", image_size=(48, 60), preparation=preparation)).config
    (run / "recipe.yaml").write_text(json.dumps({"data": {"path": str(spots)}}))
    images = parity.find_images(run, None, config=config, image_size=(48, 60))
    assert images.source == "4 images of the run's own data"
    dataset = ImageDataset(load(spots).split("test"), preparation=preparation)
    for number, image in enumerate(images.batches):
        assert_close(image[0], dataset[number].image[:, 1:49, 1:61] / 255)
    shutil.rmtree(spots)
    assert "random images" in parity.find_images(run, None, config=config, image_size=(48, 60)).source


def test_images_too_large_for_memory_are_left_out(tmp_path, monkeypatch):
    spots, run = make_spots(tmp_path / "spots", 20), tmp_path / "run"
    config = load_model(make_model(run / "best")).config
    (run / "recipe.yaml").write_text(json.dumps({"data": {"path": str(spots)}}))
    monkeypatch.setattr(parity, "LARGE_PX", 1000)
    assert "random images" in parity.find_images(run, None, config=config, image_size=(60, 72)).source
    with pytest.raises(ValueError, match=r"no image in .* that this model can take"):
        parity.find_images(run, spots, config=config, image_size=(60, 72))


def test_a_failed_check_leaves_no_file(tmp_path, monkeypatch, capsys):
    folder = make_model(tmp_path / "model", system="cnn")
    wrong = FORMATS[".pt2"]._replace(open=lambda path: lambda image: [np.full((len(image), 3), 7.0)])
    monkeypatch.setitem(FORMATS, ".pt2", wrong)
    assert main(["export", str(folder), str(tmp_path / "model.pt2"), "--static"]) == 2
    assert "differs from PyTorch" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_static_file_says_what_is_fixed(tmp_path, capsys):
    folder, photos = make_model(tmp_path / "model", system="cnn"), tmp_path / "photos"
    photos.mkdir()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 90, 3), dtype=np.uint8)).save(photos / "a.png")
    words = ["export", str(folder), str(tmp_path / "model.pt2"), "--static", "--image-size", "48", "64"]
    assert main([*words, "--check", str(photos)]) == 0
    told = capsys.readouterr().out
    assert "batch is fixed at 1, height is fixed at 48, width is fixed at 64" in told
    assert f"1 images of {photos}" in told
    assert "largest difference" in told
    assert (tmp_path / "model.pt2").stat().st_size > 1000


@pytest.mark.parametrize(
    ("changes", "words", "expected"),
    [
        ({}, ["model.tflite"], "expected .onnx or .pt2"),
        ({}, ["nowhere/model.onnx"], "make it first"),
        ({}, ["model.onnx", "--opset", "13"], "expected 18 or later"),
        ({}, ["model.onnx", "--check", "empty"], "no image in"),
        ({"selection": {"name": "random", "k": 2}}, ["model.onnx"], "draws other patches at every call"),
        ({"system": "majority"}, ["model.pt2"], "does not look at the image"),
        ({"selection": {"name": "perturbed", "k": 2, "discrete": False}}, ["model.pt2"], "set selection.discrete to"),
    ],
)
def test_what_cannot_be_exported_is_one_line(changes, words, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_model(tmp_path / "model", **changes)
    assert main(["export", "model", *words]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert len(error.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch, capsys):
    make_model(tmp_path / "model")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["export", str(tmp_path / "model"), str(tmp_path / "model.onnx")]) == 2
    assert "pip install 'saccade[export]'" in capsys.readouterr().err
