import numpy as np
import pytest
import torch

from saccade.images.decode import BadImage
from saccade.report.examples import confident_mistakes, of_class, open_examiner, typical_successes
from saccade.report.look import look_at
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


def test_images_of_a_class_come_from_all_over(answers):
    assert [row.image for row in of_class(answers, "a", 3)] == ["a0", "a3", "a6"]
    assert [row.image for row in of_class(answers, "b", 9)] == ["b0", "w0", "w1", "w2", "w3"]


def test_the_examiner_sees_what_the_evaluation_saw(made_run):
    run = RunFolder(made_run).read()
    examiner = open_examiner(run)
    for row in run.predictions["test"].rows:
        look, probability = examiner.see(row)
        np.testing.assert_allclose(probability, row.probabilities, atol=1e-5)
        assert len(look.truth) == 1
        left, top, right, bottom = look.truth[0]
        assert set(np.unique(look.image[top:bottom, left:right])) == {0, 255}  # the stripes, and nothing but them


def test_a_resized_image_has_its_boxes_resized(made_run):
    run = RunFolder(made_run).read()
    half = run._replace(recipe=run.recipe | {"data": run.recipe["data"] | {"resize": [32, 32]}})
    row = run.predictions["test"].rows[0]
    whole, small = open_examiner(run).see(row).look, open_examiner(half).see(row).look
    assert small.size == (32, 32)
    np.testing.assert_allclose(small.truth, whole.truth / 2, atol=1)


def test_through_a_crop_the_model_sees_the_center_and_the_picture_is_whole(made_run):
    run = RunFolder(made_run).read()
    data = run.recipe["data"] | {"augmentation": {"name": "cub", "crop": [40, 48]}}
    cropped = open_examiner(run._replace(recipe=run.recipe | {"data": data}))
    row = run.predictions["test"].rows[0]
    look, probability = cropped.see(row)
    whole = open_examiner(run).see(row).look
    inner = look_at(cropped.model, torch.from_numpy(whole.image.copy()).permute(2, 0, 1)[:, 12:52, 8:56])
    np.testing.assert_array_equal(probability, inner.probability)
    np.testing.assert_array_equal(look.boxes, inner.look.boxes + np.array([8, 12, 8, 12]))
    np.testing.assert_array_equal(look.truth, whole.truth)
    assert look.size == (64, 64)


def test_without_its_data_set_only_the_boxes_are_missing(made_run, tmp_path):
    run = RunFolder(made_run).read()
    moved = run._replace(recipe=run.recipe | {"data": {"path": str(tmp_path / "gone")}})
    assert len(open_examiner(moved).see(run.predictions["test"].rows[0]).look.truth) == 0


def test_an_image_that_is_gone_is_a_bad_image(made_run):
    run = RunFolder(made_run).read()
    row = run.predictions["test"].rows[0]._replace(image="/nowhere/x.png")
    with pytest.raises(BadImage, match="no such file"):
        open_examiner(run).see(row)
