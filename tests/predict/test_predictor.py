"""A predictor says what the evaluation says, whatever form the image comes in."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from torch.testing import assert_close

from saccade import Predictor
from saccade.building import build_model, load_model
from saccade.data import ImageDataset, collate, load
from saccade.data.dataset import collate_sources
from saccade.evaluation import predict_batch
from saccade.images import Guard, SlideImage, image_formats, open_image
from saccade.images.decode import BadImage, read_pixels
from saccade.looking import look_at
from saccade.predict import Failure, Prediction, reading
from saccade.predict.line_formats import as_tree

PREPARED = {"resize": (56, 72), "crop": (40, 48)}
SYSTEMS = {
    "patch_selection": {},
    "with positions": {"positions": True},
    "diverse": {"selection": {"name": "diverse", "k": 2, "num_samples": 20}},
    "resized": {"preparation": {"resize": (48, 96)}},
    "resized and cropped": {"preparation": PREPARED},
    "cropped": {"preparation": {"crop": (40, 48)}},
    "streamed": {"preparation": {"stream": True}},
    "exhaustive": {"selection": {"name": "exhaustive"}, "preparation": {"resize": (64, 64)}},
    "cnn": {"system": "cnn"},
    "ips": {"system": "ips", "options": {"memory": 3}},
    "spatial": {"system": "spatial", "options": {"k": 2}, "preparation": PREPARED},
    "nts_topk": {
        "system": "nts_topk",
        "view": {"scale": 1},
        "extraction": {"patch": 32},
        "features": {"name": "backbone", "model": "resnet18"},
        "scorer": {"name": "proposals", "squeeze_excitation": 32},
        "preparation": {"resize": (96, 96)},
    },
}


def told(prediction: Prediction) -> dict:
    """What the line of an image says, without the time."""
    return as_tree(prediction) | {"milliseconds": None}


@pytest.fixture
def image(spots) -> Path:
    return spots / "images" / "001.png"  # 80×80


@pytest.mark.parametrize("name", SYSTEMS)
def test_it_says_what_the_evaluation_says(make_run, spots, name):
    run = make_run(**SYSTEMS[name])
    predictor, model = Predictor(run, device="cpu"), load_model(run / "best")
    dataset = ImageDataset(load(spots).split("test"), preparation=model.config.preparation)
    assert len(dataset) == 4
    for number, record in enumerate(dataset.records.records):
        sample = dataset[number]
        streamed = model.config.preparation.stream
        batch = collate_sources([sample], scale=0.25) if streamed else collate([sample])
        expected = predict_batch(model, batch).logits[0].softmax(0)
        prediction = predictor(record.image)
        assert prediction.label == predictor.classes[int(expected.argmax())]
        np.testing.assert_allclose([*prediction.probabilities.values()], expected, atol=2e-6)


def test_boxes_of_a_prepared_image_lie_where_their_pixels_come_from(make_run, image):
    run = make_run(preparation=PREPARED)
    prediction = Predictor(run, device="cpu")(image)
    assert prediction.size == (80, 80)
    pixels = torch.from_numpy(read_pixels(image)).permute(2, 0, 1)[None]
    shown = torch.nn.functional.interpolate(pixels, (56, 72), mode="bilinear", antialias=True)
    model = load_model(run / "best")
    seen = model.take(shown[..., 8:48, 12:60])  # the center, 40×48
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
    assert Predictor(make_run(selection={"name": "exhaustive"}))(image).boxes == ()
    glimpses = Predictor(make_run(system="spatial", options={"k": 2}), device="cpu")(image).boxes
    assert [box.score for box in glimpses] == [None, None]


@pytest.mark.parametrize("preparation", [{}, PREPARED], ids=["plain", "prepared"])
def test_every_form_of_an_image_gives_the_same_answer(make_run, image, preparation):
    predictor = Predictor(make_run(preparation=preparation), device="cpu")
    picture = Image.open(image)
    array = np.array(picture)
    pixels = torch.from_numpy(array).permute(2, 0, 1)
    forms = [str(image), picture, array, array / 255, pixels, pixels / 255, open_image(image), open_image(pixels)]
    expected = predictor(image)
    for form in forms:
        assert told(predictor(form)) == told(expected)


@pytest.mark.parametrize("name", ["resized and cropped", "streamed", "spatial"])
def test_a_model_prepares_images_wherever_its_folder_is(make_run, image, tmp_path, name):
    run = make_run(**SYSTEMS[name])
    shutil.copytree(run / "best", tmp_path / "elsewhere")
    expected = told(Predictor(run, device="cpu")(image))
    for model in (run / "best", tmp_path / "elsewhere", load_model(run / "best")):
        assert told(Predictor(model, device="cpu")(image)) == expected


def test_a_model_that_is_given_is_left_as_it_was(run, image):
    model = load_model(run / "best").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    Predictor(model, device="cpu")(image)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert_close(model.state_dict(), before, atol=0, rtol=0)


def test_classes_without_names_are_numbered(run, image):
    model = build_model(replace(load_model(run / "best").config, classes=()))
    assert list(Predictor(model, device="cpu")(image).probabilities) == ["0", "1"]


def test_a_photo_that_lies_on_its_side_is_turned(run, image, tmp_path):
    upright = Image.open(image).crop((0, 0, 80, 60))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90° clockwise to see it
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    upright.save(tmp_path / "upright.png")
    predictor = Predictor(run, device="cpu")
    turned = predictor(tmp_path / "turned.png")
    assert turned.size == (60, 80)
    assert told(turned) == told(predictor(tmp_path / "upright.png"))
    assert told(turned) == told(predictor(Image.open(tmp_path / "turned.png")))


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
def test_a_slide_is_answered_by_every_model(make_run, slide, name):
    predictor = Predictor(make_run(**SYSTEMS[name]), device="cpu")
    by_slide, by_pixels = predictor(slide), predictor(read_pixels(slide))
    assert by_slide.size == (128, 160)
    np.testing.assert_allclose([*by_slide.probabilities.values()], [*by_pixels.probabilities.values()], atol=0.02)


def test_a_slide_too_large_for_a_model_that_needs_it_whole_is_refused(make_run, slide):
    predictor = Predictor(make_run(positions=True), device="cpu", max_pixels=1000)
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
def test_crops_and_picture_come_with_the_prediction_if_asked_for(make_run, image, name):
    predictor = Predictor(make_run(**SYSTEMS[name]), device="cpu")
    plain, whole = predictor(image), predictor(image, crops=True, picture=True)
    assert told(plain) == told(whole)
    assert (len(plain.look.crops), plain.look.picture.size) == (0, 0)
    assert len(whole.look.crops) == len(whole.boxes)
    np.testing.assert_array_equal(whole.look.picture, read_pixels(image))  # not as the model saw it


@pytest.mark.parametrize("name", ["patch_selection", "resized"])
def test_a_look_at_a_slide_has_its_own_pixels(make_run, slide, name):
    look = Predictor(make_run(**SYSTEMS[name]), device="cpu")(slide, crops=True, picture=True).look
    np.testing.assert_array_equal(look.picture, read_pixels(slide))
    if name == "patch_selection":
        padded = np.pad(read_pixels(slide), ((50, 50), (50, 50), (0, 0)))
        for crop, (left, top, right, bottom) in zip(look.crops, look.boxes + 50, strict=True):
            np.testing.assert_array_equal(crop, padded[top:bottom, left:right])


def test_a_look_through_a_crop_is_moved_to_the_whole_image(make_run, image):
    run = make_run(preparation={"crop": (40, 48)})
    model = load_model(run / "best")
    seen = model.take(torch.from_numpy(read_pixels(image)).permute(2, 0, 1)[None, :, 20:60, 16:64])
    inner = look_at(model(seen), size=(40, 48), seen=seen)
    outer = Predictor(run, device="cpu")(image, crops=True, picture=True).look
    corner = np.array([16, 20, 16, 20])
    np.testing.assert_array_equal(outer.boxes, inner.boxes + corner)
    np.testing.assert_allclose(outer.extent, inner.extent + corner)
    np.testing.assert_array_equal(outer.crops, inner.crops)
    assert outer.picture.shape == (80, 80, 3)


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
    open_lazily = image_formats.open_lazily
    monkeypatch.setattr(image_formats, "open_lazily", lambda path: opened.append(open_lazily(path)) or opened[-1])
    reading.Reader()(image)
    assert [picture.fp is None or picture.fp.closed for picture in opened] == [True]


def test_a_guard_reads_the_same_in_this_process_and_in_others(run, spots, slide):
    paths = [*sorted(spots.rglob("*.png"))[:4], slide]
    expected = [told(Predictor(run, device="cpu")(path)) for path in paths]
    with Guard() as guard:
        guarded = Predictor(run, device="cpu", guard=guard)
        for workers in (0, 2):
            answers = [answer for _, answer in guarded.stream(paths, batch=1, workers=workers)]
            assert [told(answer) for answer in answers if isinstance(answer, Prediction)] == expected
