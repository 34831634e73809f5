from dataclasses import replace

import numpy as np
import pytest
import torch

from saccade.building import build_model
from saccade.images.decode import BadImage
from saccade.looking import look_at
from saccade.preparation import Preparation
from saccade.report.examples import (
    confident_mistakes,
    examine,
    example_groups,
    found_labels,
    of_class,
    typical_successes,
)
from saccade.runs import RunFolder
from saccade.runs.prediction_tables import PredictionRow, PredictionTable


def answer(name: str, label: str, predicted: str, confidence: float) -> PredictionRow:
    return PredictionRow(name, label, predicted, confidence, np.nan, np.nan, np.nan, (confidence, 1 - confidence))


@pytest.fixture
def answers() -> PredictionTable:
    right = [answer(f"a{i}", "a", "a", 0.5 + i / 20) for i in range(9)] + [answer("b0", "b", "b", 0.7)]
    wrong = [answer(f"w{i}", "b", "a", 0.5 + i / 10) for i in range(4)]
    return PredictionTable(("a", "b"), tuple(right + wrong))


def test_the_surest_mistakes_come_first(answers):
    assert [row.image for row in confident_mistakes(answers, 3)] == ["w3", "w2", "w1"]


def test_usual_successes_of_every_class(answers):
    assert [row.image for row in typical_successes(answers, 4)] == ["a4", "b0", "a3", "a5"]


def test_each_label_has_an_image_where_it_was_found():
    """Rather one that is all right and not shown for another label already; labels that were never found have none."""
    rows = [
        ("1", "a;b", "a;b", 0.9),
        ("2", "a", "a;b", 0.6),
        ("3", "b", "b", 0.2),
        ("4", "c", ";", 0.3),
        ("5", "a", "a", 0.8),
    ]
    table = PredictionTable(
        ("a", "b", "c"), tuple(answer(*row)._replace(probabilities=(row[3],) * 3) for row in rows), "multi"
    )
    assert {name: row.image for name, row in found_labels(table, 12).items()} == {"a": "5", "b": "3"}
    assert [row.image for row in found_labels(table, 1).values()] == ["5"]
    wrong, found = example_groups(table, 2).items()
    assert [row.image for row in wrong[1]] == ["2", "4"]
    assert found[0] == "Labels that were found, an image for each: a, b"


def test_images_of_a_class_come_from_all_over(answers):
    assert [row.image for row in of_class(answers, "a", 3)] == ["a0", "a3", "a6"]
    assert [row.image for row in of_class(answers, "b", 9)] == ["b0", "w0", "w1", "w2", "w3"]


@pytest.fixture
def run(made_run):
    return RunFolder(made_run).read()


def prepared(run, **preparation):
    """The run's model with another preparation."""
    model = run.folder.load_best()
    config = replace(model.config, preparation=Preparation(**preparation))
    other = build_model(config)
    other.load_state_dict(model.state_dict())
    return other.eval()


def test_the_model_sees_what_the_evaluation_saw(run):
    for row in run.predictions["test"].rows:
        look, told, _ = examine(run.folder.load_best(), row)
        np.testing.assert_allclose(told, row.probabilities, atol=1e-5)
        assert len(look.truth) == 1
        left, top, right, bottom = look.truth[0]
        assert set(np.unique(look.picture[top:bottom, left:right])) == {0, 255}  # the stripes, and nothing but them


def test_a_resized_image_has_its_boxes_resized(run):
    row = run.predictions["test"].rows[0]
    whole, small = examine(run.folder.load_best(), row).look, examine(prepared(run, resize=(32, 32)), row).look
    assert small.size == (32, 32)
    assert small.picture.shape == (32, 32, 3)
    np.testing.assert_allclose(small.truth, whole.truth / 2, atol=1)


def test_through_a_crop_the_model_sees_the_center_and_the_picture_is_whole(run):
    row, model = run.predictions["test"].rows[0], prepared(run, crop=(40, 48))
    look, told, _ = examine(model, row)
    whole = examine(run.folder.load_best(), row).look
    center = torch.from_numpy(whole.picture.copy()).permute(2, 0, 1)[None, :, 12:52, 8:56] / 255
    with torch.no_grad():
        output = model(center)
    np.testing.assert_array_equal(told, output.logits[0].softmax(dim=0))
    np.testing.assert_array_equal(look.boxes, look_at(output, size=(40, 48)).boxes + np.array([8, 12, 8, 12]))
    np.testing.assert_array_equal(look.truth, whole.truth)
    np.testing.assert_array_equal(look.picture, whole.picture)
    assert look.size == (64, 64)


def test_an_image_that_is_gone_is_a_bad_image(run):
    row = run.predictions["test"].rows[0]._replace(image="/nowhere/x.png")
    with pytest.raises(BadImage, match="no such file"):
        examine(run.folder.load_best(), row)
