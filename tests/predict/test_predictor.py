"""A predictor says what the evaluation says, whatever form the image comes in."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from tiny_run import make_tiny_run
from torch.testing import assert_close

from saccade import Predictor
from saccade.building import load_model
from saccade.images import SlideImage, open_image
from saccade.images.decode import BadImage, read_pixels
from saccade.predict import Failure, reading
from saccade.report.look import look_at
from saccade.training.run import evaluate

CROP = {"name": "cub", "crop": (40, 48)}
PREPARED = {"resize": (56, 72), "augmentation": CROP}
SYSTEMS = {
    "patch_selection": {},
    "with positions": {"positions": True},
    "diverse": {"selection": {"name": "diverse", "k": 2, "num_samples": 20}},
    "resized": {"data": {"resize": (48, 96)}},
    "resized and cropped": {"data": PREPARED},
    "cropped": {"data": {"augmentation": CROP}},
    "streamed": {"data": {"stream": True, "augmentation": {"name": "none"}}, "batch": 1},
    "exhaustive": {"selection": {"name": "exhaustive"}, "data": {"resize": (64, 64)}},
    "cnn": {"system": "cnn"},
    "ips": {"system": "ips", "options": {"memory": 3}},
    "spatial": {"system": "spatial", "options": {"k": 2}, "data": PREPARED},
    "nts_topk": {
        "system": "nts_topk",
        "view": {"scale": 1},
        "extraction": {"patch": 32},
        "features": {"name": "backbone", "model": "resnet18"},
        "scorer": {"name": "proposals", "squeeze_excitation": 32},
        "data": {"resize": (96, 96)},
    },
}


@pytest.fixture(scope="module")
def make_run(spots, tmp_path_factory) -> Callable[..., Path]:
    return lambda **changes: make_tiny_run(tmp_path_factory.mktemp("runs"), spots, **changes)


@pytest.fixture
def image(spots) -> Path:
    return spots / "images" / "001.png"  # 80×80


@pytest.mark.parametrize("name", SYSTEMS)
def test_it_says_what_the_evaluation_says(make_run, name):
    run = make_run(**SYSTEMS[name])
    evaluate(run)
    predictor = Predictor(run, device="cpu")
    with (run / "evaluation" / "test.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    for row in rows:
        prediction = predictor(row["image"])
        assert prediction.label == row["predicted"]
        expected = [float(row[f"p:{name}"]) for name in predictor.classes]
        np.testing.assert_allclose([*prediction.probabilities.values()], expected, atol=2e-6)


def test_boxes_of_a_prepared_image_lie_where_their_pixels_come_from(make_run, image):
    run = make_run(data=PREPARED)
    prediction = Predictor(run, device="cpu")(image)
    assert prediction.size == (80, 80)
    pixels = torch.from_numpy(read_pixels(image)).permute(2, 0, 1)[None]
    shown = torch.nn.functional.interpolate(pixels, (56, 72), mode="bilinear", antialias=True)
    seen = shown[..., 8:48, 12:60] / 255  # the center, 40×48
    model = load_model(run / "best")
    with torch.no_grad():
        output = model(seen)
    best = output.scores[0, output.selection.index[0]].argsort(descending=True)
    for box, (left, top, right, bottom) in zip(prediction.boxes, output.boxes[0, best].tolist(), strict=True):
        x, y = 80 / 72, 80 / 56
        expected = [(left + 12) * x, (top + 8) * y, (right + 12) * x, (bottom + 8) * y]
        np.testing.assert_allclose([box.left, box.top, box.right, box.bottom], expected, atol=0.5)
    scores = [box.score for box in prediction.boxes]
    assert scores == sorted(scores, reverse=True)
    assert_close(torch.tensor(scores), output.scores[0, output.selection.index[0]].sort(descending=True).values)


def test_systems_tell_what_they_have(make_run, image):
    assert Predictor(make_run(system="cnn"), device="cpu")(image).boxes == ()
    assert Predictor(make_run(system="majority"), device="cpu")(image).probabilities == {"across": 0.5, "along": 0.5}
    assert Predictor(make_run(selection={"name": "exhaustive"}, data={"resize": (64, 64)}))(image).boxes == ()
    glimpses = Predictor(make_run(system="spatial", options={"k": 2}), device="cpu")(image).boxes
    assert [box.score for box in glimpses] == [None, None]


@pytest.mark.parametrize("data", [{}, PREPARED], ids=["plain", "prepared"])
def test_every_form_of_an_image_gives_the_same_answer(make_run, image, data):
    predictor = Predictor(make_run(data=data), device="cpu")
    picture = Image.open(image)
    array = np.array(picture)
    pixels = torch.from_numpy(array).permute(2, 0, 1)
    forms = [str(image), picture, array, array / 255, pixels, pixels / 255, open_image(image), open_image(pixels)]
    expected = predictor(image)
    for form in forms:
        assert predictor(form)[:4] == expected[:4]


def test_a_folder_of_the_model_alone_prepares_nothing_but_one_in_a_run_does(make_run, image, tmp_path):
    run = make_run(data=PREPARED)
    load_model(run / "best").save_pretrained(tmp_path / "alone")
    alone, inside, whole = (Predictor(folder, device="cpu") for folder in (tmp_path / "alone", run / "best", run))
    assert inside(image)[:4] == whole(image)[:4]
    assert alone(image).probabilities != whole(image).probabilities
    with torch.no_grad():
        plain = load_model(run / "best")(open_image(image).regions(torch.tensor([[0, 0, 80, 80]]))).logits[0]
    np.testing.assert_allclose([*alone(image).probabilities.values()], plain.softmax(0), atol=1e-6)


def test_classes_without_names_are_numbered(run, tmp_path, image):
    model = load_model(run / "best")
    model.config = model.config.__class__(**vars(model.config) | {"classes": ()})
    model.save_pretrained(tmp_path)
    assert list(Predictor(tmp_path, device="cpu")(image).probabilities) == ["0", "1"]


def test_a_photo_that_lies_on_its_side_is_turned(run, image, tmp_path):
    upright = Image.open(image).crop((0, 0, 80, 60))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90° clockwise to see it
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    upright.save(tmp_path / "upright.png")
    predictor = Predictor(run, device="cpu")
    turned = predictor(tmp_path / "turned.png")
    assert turned.size == (60, 80)
    assert turned[:4] == predictor(tmp_path / "upright.png")[:4]
    assert turned[:4] == predictor(Image.open(tmp_path / "turned.png"))[:4]


def write_pyramid(path: Path, pixels: np.ndarray) -> None:
    with tifffile.TiffWriter(path) as tiff:
        options = {"tile": (32, 32), "photometric": "rgb"}
        tiff.write(pixels, subifds=1, **options)
        tiff.write(pixels[::2, ::2], subfiletype=1, **options)


@pytest.fixture
def slide(tmp_path) -> Path:
    smooth = np.random.default_rng(0).integers(0, 256, (8, 10, 3), dtype=np.uint8)
    pixels = np.array(Image.fromarray(smooth).resize((160, 128), Image.Resampling.BICUBIC))
    write_pyramid(tmp_path / "slide.tif", pixels)
    return tmp_path / "slide.tif"


def test_a_slide_is_read_by_parts(run, slide, monkeypatch):
    predictor = Predictor(run, device="cpu")
    whole = predictor(read_pixels(slide))
    areas = []
    regions = SlideImage.regions
    monkeypatch.setattr(SlideImage, "regions", lambda self, boxes: areas.append(boxes) or regions(self, boxes))
    by_parts = predictor(slide)
    assert by_parts.size == (128, 160)
    assert [len(boxes) for boxes in areas] == [2]  # K patches and nothing else
    np.testing.assert_allclose([*by_parts.probabilities.values()], [*whole.probabilities.values()], atol=0.02)


@pytest.mark.parametrize("name", ["cnn", "ips", "with positions", "cropped", "resized"])
def test_a_slide_goes_whole_to_a_model_that_cannot_read_parts(make_run, slide, name):
    predictor = Predictor(make_run(**SYSTEMS[name]), device="cpu")
    by_slide, by_pixels = predictor(slide), predictor(read_pixels(slide))
    assert by_slide.size == (128, 160)
    np.testing.assert_allclose([*by_slide.probabilities.values()], [*by_pixels.probabilities.values()], atol=0.02)


def test_a_slide_too_large_for_a_model_that_needs_it_whole_is_refused(make_run, slide):
    predictor = Predictor(make_run(system="cnn"), device="cpu", max_pixels=1000)
    with pytest.raises(ValueError, match="128×160 is 0 megapixels, and this model needs the whole image"):
        predictor(slide)


def test_a_large_ordinary_file_is_read_by_parts_too(run, image, monkeypatch):
    predictor = Predictor(run, device="cpu")
    expected = predictor(image)
    monkeypatch.setattr("saccade.predict.reading.LARGE_PX", 1000)
    assert not isinstance(predictor.reader(image).pixels, torch.Tensor)
    answer = predictor(image)
    assert answer.probabilities == pytest.approx(expected.probabilities, abs=1e-6)
    assert [box[:4] for box in answer.boxes] == [box[:4] for box in expected.boxes]
    assert [box.score for box in answer.boxes] == pytest.approx([box.score for box in expected.boxes], abs=1e-6)
    assert answer.size == expected.size


@pytest.mark.parametrize("name", ["patch_selection", "resized and cropped", "spatial", "cnn", "exhaustive"])
def test_a_look_has_the_boxes_of_the_answer(make_run, image, name):
    predictor = Predictor(make_run(**SYSTEMS[name]), device="cpu")
    prediction, (look, probability) = predictor(image), predictor.look(image)
    assert look.size == prediction.size
    assert [tuple(box) for box in look.boxes.tolist()] == [box[:4] for box in prediction.boxes]
    np.testing.assert_allclose(probability, [*prediction.probabilities.values()], atol=1e-6)
    assert len(look.crops) == len(prediction.boxes)


def test_a_look_at_a_slide_has_its_own_pixels(run, slide):
    look = Predictor(run, device="cpu").look(slide).look
    padded = np.pad(read_pixels(slide), ((50, 50), (50, 50), (0, 0)))
    for crop, (left, top, right, bottom) in zip(look.crops, look.boxes + 50, strict=True):
        np.testing.assert_array_equal(crop, padded[top:bottom, left:right])
    np.testing.assert_array_equal(look.image, read_pixels(slide))


def test_a_look_through_a_crop_is_moved_to_the_whole_image(make_run, image):
    run = make_run(data={"augmentation": CROP})
    pixels = torch.from_numpy(read_pixels(image)).permute(2, 0, 1)
    inner = look_at(load_model(run / "best"), pixels[:, 20:60, 16:64]).look
    outer = Predictor(run, device="cpu").look(image).look
    corner = np.array([16, 20, 16, 20])
    np.testing.assert_array_equal(outer.boxes, inner.boxes + corner)
    np.testing.assert_allclose(outer.extent, inner.extent + corner)
    np.testing.assert_array_equal(outer.crops, inner.crops)
    assert outer.image.shape == (80, 80, 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.full((8, 8, 3), 255.0), "from 255 to 255: expected RGB"),
        (torch.full((3, 8, 8), torch.nan), "expected RGB"),
        (torch.zeros(4, 64, 64), "4 channels"),
        (torch.zeros(1, 3, 64, 64), "not one image"),
        (Path("nowhere.png"), "nowhere.png: no such file"),
    ],
)
def test_what_is_no_image_is_refused(run, wrong, message):
    with pytest.raises(ValueError, match=message):
        Predictor(run, device="cpu")(wrong)


def test_a_run_without_a_model_and_no_run_at_all_are_told_apart(run, tmp_path):
    (tmp_path / "recipe.yaml").write_text((run / "recipe.yaml").read_text())
    with pytest.raises(FileNotFoundError, match="no model there yet"):
        Predictor(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        Predictor(tmp_path / "gone")


def test_an_unknown_device_is_refused(run):
    with pytest.raises(ValueError, match="device 'abacus' cannot be used here"):
        Predictor(run, device="abacus")


def test_bad_images_are_answered_with_their_error(run, image, tmp_path):
    (tmp_path / "empty.png").touch()
    with pytest.raises(BadImage, match="empty"):
        Predictor(run, device="cpu")(tmp_path / "empty.png")
    Image.new("RGB", (2, 2)).save(tmp_path / "tiny.png")  # no pixel is left of its view
    paths = [tmp_path / "empty.png", image, tmp_path / "tiny.png", tmp_path / "gone.png", image]
    answers = dict(enumerate(Predictor(run, device="cpu").stream(paths, workers=0)))
    assert [answers[n][0] for n in range(5)] == paths
    failures = {n: answer.error for n, (_, answer) in answers.items() if isinstance(answer, Failure)}
    assert list(failures) == [0, 2, 3]
    assert failures[0] == "the file is empty (0 bytes)"
    assert "no pixel left" in failures[2]
    assert failures[3] == "no such file"


def test_asking_for_the_size_leaves_no_file_open(image, monkeypatch):
    opened = []
    open_lazily = reading.open_lazily
    monkeypatch.setattr(reading, "open_lazily", lambda path: opened.append(open_lazily(path)) or opened[-1])
    reading.Reader()(image)
    assert [picture.fp is None or picture.fp.closed for picture in opened] == [True]
