import numpy as np
import pytest
from matplotlib.text import Annotation

from saccade.report.answers import count_confusions
from saccade.report.plots import (
    NAMES_UP_TO,
    confusion_matrix,
    curves_together,
    learning_curves,
    mosaic,
    moving_mean,
)
from saccade.runs import RunFolder
from saccade.runs.prediction_tables import PredictionRow, PredictionTable


def answers_of(truth, said, classes) -> PredictionTable:
    rows = [
        PredictionRow("", classes[t], classes[s], 0.5, np.nan, np.nan, np.nan, (0.5,) * len(classes))
        for t, s in zip(truth, said, strict=True)
    ]
    return PredictionTable(tuple(classes), tuple(rows))


@pytest.mark.parametrize("classes", [2, 12, 40, 200])
def test_confusions_are_counted_and_every_size_can_be_drawn(classes):
    rng = np.random.default_rng(classes)
    truth, said = rng.integers(classes, size=(2, 500))
    answers = answers_of(truth, said, [f"class {i}" for i in range(classes)])
    counts = count_confusions(answers)
    expected = np.zeros((classes, classes), int)
    np.add.at(expected, (truth, said), 1)
    np.testing.assert_array_equal(counts, expected)
    (axes,) = confusion_matrix(counts, answers.classes).axes
    shares = np.asarray(axes.images[0].get_array())
    np.testing.assert_allclose(shares.sum(axis=1)[counts.sum(axis=1) > 0], 1)
    assert len(axes.get_xticklabels()) <= NAMES_UP_TO
    assert axes.get_yticklabels()[1].get_text() == f"class {int(axes.get_yticks()[1])}"
    written = [text.get_text() for text in axes.texts]
    if classes == 2:
        of = counts.sum(axis=1)
        assert written == [f"{counts[i, j]}\n{100 * counts[i, j] / of[i]:.0f}%" for i in (0, 1) for j in (0, 1)]
    assert len(written) == (classes**2 if classes <= 12 else 0)


def test_a_class_without_images_does_not_divide_by_zero():
    (axes,) = confusion_matrix(count_confusions(answers_of([0, 0], [0, 1], "abc")), "abc").axes
    np.testing.assert_array_equal(axes.images[0].get_array(), [[0.5, 0.5, 0], [0, 0, 0], [0, 0, 0]])


def test_curves_are_the_logged_numbers_with_the_label_free_ones_apart(made_run):
    run = RunFolder(made_run).read()
    charts = {axes.get_title("left"): axes for axes in learning_curves(run).axes}
    assert list(charts) == ["Loss", "Accuracy", "Where it looks (validation)", "Noise σ of the selection"]
    steps, values = run.series("val/accuracy")
    line = next(line for line in charts["Accuracy"].lines if line.get_label() == "validation")
    np.testing.assert_array_equal(line.get_xdata(), steps)
    np.testing.assert_array_equal(line.get_ydata(), values)
    label_free, raw, *_ = charts["Loss"].lines
    assert max(label_free.get_xdata()) == 3
    assert min(raw.get_xdata()) == 4


def test_phases_are_marked_with_their_names_where_they_are(made_run):
    run = RunFolder(made_run).read()
    phases = [("label_free", 0, 4), ("by_detail", 4, 9), ("soft", 9, 16)]
    spans = [{"name": name, "from": first, "to": end} for name, first, end in phases]
    for axes in learning_curves(run._replace(facts=run.facts | {"phases": spans})).axes:
        named = [(text.get_text(), text.xy[0]) for text in axes.texts if isinstance(text, Annotation)]
        assert named == [("label free", 0), ("by detail", 4), ("soft", 9)]
        shaded = [patch.get_extents().transformed(axes.transData.inverted()) for patch in axes.patches]
        assert [(span.x0, span.x1) for span in shaded] == [pytest.approx((0, 4)), pytest.approx((9, 16))]
    for axes in learning_curves(run._replace(facts=run.facts | {"phases": spans[:1]})).axes:
        assert not axes.texts
        assert not axes.patches


def test_a_run_without_numbers_gives_an_empty_chart(run_folder):
    (run_folder / "metrics.csv").unlink()
    run = RunFolder(run_folder).read()
    assert all(not axes.lines for axes in learning_curves(run).axes)
    assert not curves_together([run]).axes


def test_runs_are_compared_over_the_images_they_saw(made_run):
    run = RunFolder(made_run).read()
    other = run._replace(name="larger batches", recipe=run.recipe | {"batch": 40})
    accuracy = curves_together([run, other]).axes[0]
    one, ten = (line.get_xdata() for line in accuracy.lines)
    np.testing.assert_array_equal(np.asarray(ten), 10 * np.asarray(one))
    assert [text.get_text() for text in accuracy.get_legend().get_texts()] == ["spots", "larger batches"]


def test_the_moving_mean_keeps_straight_lines_and_calms_noise():
    line = np.linspace(0, 1, 200)
    np.testing.assert_allclose(moving_mean(line)[4:-4], line[4:-4])
    noise = np.random.default_rng(0).normal(size=2000)
    # A mean of 81 values has a ninth of their deviation.
    assert moving_mean(noise).std() == pytest.approx(1 / 9, rel=0.25)


def test_a_mosaic_has_the_patches_from_left_to_right():
    patches = [np.full((20, 30, 3), shade, np.uint8) for shade in (10, 100, 200)]
    picture = mosaic(patches, height_px=40)
    assert picture.shape == (40, 180, 3)
    assert [int(picture[20, x, 0]) for x in (30, 90, 150)] == [10, 100, 200]
