"""Numbers against formulas written out by hand, and intervals against scipy's."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats

from saccade.evaluation import Predictions, measure, wilson_interval


def make_predictions(count=60, classes=4, *, absent=3, seed=0, **columns):
    """Random answers; no image is of class `absent`, and only every second image has boxes."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(classes, (count,), generator=generator)
    label[label == absent] = 0
    known = torch.where(torch.arange(count) % 2 == 0, torch.rand(count, generator=generator), torch.nan)
    logits = 2 * torch.randn(count, classes, generator=generator)
    logits[torch.arange(count), label] += 1.0
    values = {
        "index": torch.arange(count),
        "label": label,
        "logits": logits,
        "hit": known,
        "overlap": known / 2,
        "mutual_overlap": known / 3,
        "entropy": torch.rand(count, generator=generator),
        "centers": torch.rand(count, 2, 2, generator=generator),
        "hits": torch.zeros(count, 0),
    }
    return Predictions(**{**values, **columns})


def average_precision_by_hand(score, positive):
    """Σ over distinct thresholds, from the highest, of precision times the recall gained there."""
    total, last_recall = 0.0, 0.0
    for threshold in sorted(set(score.tolist()), reverse=True):
        chosen = score >= threshold
        recall = (chosen & positive).sum() / positive.sum()
        total += (chosen & positive).sum() / chosen.sum() * (recall - last_recall)
        last_recall = recall
    return total


def test_measures_equal_formulas_by_hand():
    predictions = make_predictions()
    logits, label = predictions.logits.double().numpy(), predictions.label.numpy()
    said, present = logits.argmax(1), sorted(set(label.tolist()))
    assert len(present) == 3
    values = measure(predictions)
    log_p = special.log_softmax(logits, axis=1)
    assert values["loss"] == pytest.approx(-log_p[np.arange(len(label)), label].mean(), rel=1e-5)
    assert values["accuracy"] == pytest.approx((said == label).mean())
    recalls = [(said[label == c] == c).mean() for c in present]
    assert values["balanced_accuracy"] == pytest.approx(np.mean(recalls))
    precisions = [average_precision_by_hand(np.exp(log_p[:, c]), label == c) for c in present]
    assert values["average_precision"] == pytest.approx(np.mean(precisions), rel=1e-5)
    f1s = [2 * ((said == c) & (label == c)).sum() / ((said == c).sum() + (label == c).sum()) for c in present]
    assert values["f1"] == pytest.approx(np.mean(f1s))
    areas = [
        stats.mannwhitneyu(logs[label == c], logs[label != c]).statistic / (label == c).sum() / (label != c).sum()
        for c, logs in ((c, log_p[:, c]) for c in present)
    ]
    assert values["auroc"] == pytest.approx(np.mean(areas), rel=1e-5)
    assert values["hit_rate"] == pytest.approx(np.nanmean(predictions.hit.numpy()), rel=1e-5)
    assert values["overlap"] == pytest.approx(np.nanmean(predictions.overlap.numpy()), rel=1e-5)
    assert values["mutual_overlap"] == pytest.approx(np.nanmean(predictions.mutual_overlap.numpy()), rel=1e-5)
    assert values["entropy"] == pytest.approx(predictions.entropy.mean().item(), rel=1e-5)


def test_with_a_positive_class_the_areas_are_its_own():
    predictions = make_predictions()
    log_p, label = special.log_softmax(predictions.logits.double().numpy(), axis=1), predictions.label.numpy()
    every, two = measure(predictions), measure(predictions, positive=2)
    assert two["average_precision"] == pytest.approx(average_precision_by_hand(log_p[:, 2], label == 2), rel=1e-5)
    area = stats.mannwhitneyu(log_p[label == 2, 2], log_p[label != 2, 2]).statistic
    assert two["auroc"] == pytest.approx(area / (label == 2).sum() / (label != 2).sum(), rel=1e-5)
    assert {name for name in every if every[name] != two[name]} == {"average_precision", "auroc"}
    assert not {"average_precision", "auroc"} & measure(predictions, positive=3).keys()  # no image is of that class


def test_perfect_answers_have_perfect_numbers():
    label = torch.arange(12) % 3
    predictions = make_predictions(12, 3, label=label, logits=20.0 * torch.nn.functional.one_hot(label, 3))
    values = measure(predictions)
    assert values["accuracy"] == values["balanced_accuracy"] == values["average_precision"] == 1
    assert values["loss"] == pytest.approx(0, abs=1e-6)


def test_rare_classes_count_as_much_in_the_balanced_accuracy():
    """Nine of class 0, one of class 1, everything called 0."""
    label = torch.tensor([0] * 9 + [1])
    logits = torch.tensor([[1.0, 0.0]]).repeat(10, 1)
    values = measure(make_predictions(10, 2, label=label, logits=logits))
    assert values["accuracy"] == pytest.approx(0.9)
    assert values["balanced_accuracy"] == pytest.approx(0.5)


def test_confident_answers_are_still_ranked():
    """Float32 cannot tell these probabilities of class 0 from 1, and ties would make its ranking look worse."""
    label = torch.tensor([0, 1, 0, 1])
    logits = torch.tensor([[32.0, 0.0], [20.0, 0.0], [30.0, 0.0], [25.0, 0.0]])
    values = measure(make_predictions(4, 2, label=label, logits=logits))
    assert values["average_precision"] == pytest.approx(1.0)


def _nowhere(unknown):
    looks = dict.fromkeys(("hit", "overlap", "mutual_overlap", "entropy"), unknown)
    return make_predictions(**looks, centers=torch.zeros(60, 0, 2))


def test_what_does_not_apply_is_left_out():
    unknown = torch.full((60,), torch.nan)
    values = measure(_nowhere(unknown))
    always = {"loss", "accuracy", "balanced_accuracy", "f1", "average_precision", "auroc", "calibration_error"}
    assert set(values) == always


def test_images_of_one_class_have_no_auroc():
    assert "auroc" not in measure(make_predictions(label=torch.ones(60, dtype=torch.long)))


def test_calibration_error_is_what_confidence_promises_too_much():
    """Half of the answers are right, and all of them are given with the same confidence."""
    confidence = 0.9
    logits = torch.tensor([[math.log(confidence), math.log(1 - confidence)]]).repeat(60, 1)
    values = measure(make_predictions(classes=2, label=torch.arange(60) % 2, logits=logits))
    assert values["calibration_error"] == pytest.approx(0.4, abs=1e-5)


def test_a_loss_that_is_not_a_number_is_said_to_be_so():
    values = measure(make_predictions(logits=torch.full((60, 4), torch.nan)))
    assert math.isnan(values["loss"])


@pytest.mark.parametrize(("right", "count"), [(0, 1), (1, 1), (0, 50), (50, 50), (3, 7), (98, 100), (12_345, 20_000)])
def test_wilson_solves_its_equation(right, count):
    """From its ends p the share s that was seen is 1.96 standard deviations away: (s − p)² = z² p (1 − p) / n."""
    z = stats.norm.ppf(0.975)
    share, spread = right / count, z * z / count
    ends = np.roots([1 + spread, -(2 * share + spread), share**2])
    assert wilson_interval(right, count) == pytest.approx(sorted(ends.real), abs=1e-6)


def test_wilson_stays_within_zero_and_one():
    for count in range(1, 500):
        for right in (0, count):
            low, high = wilson_interval(right, count)
            assert 0 <= low < high <= 1


@pytest.mark.parametrize(("right", "count"), [(0, 0), (-1, 4), (5, 4)])
def test_wilson_refuses_impossible_counts(right, count):
    with pytest.raises(ValueError, match=r"must (not )?be"):
        wilson_interval(right, count)
