import math

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_average_precision

from saccade.evaluation import wilson_interval
from saccade.report import intervals


def test_balanced_accuracy_is_the_mean_of_the_classes_shares():
    label = np.repeat([0, 1, 2], [50, 30, 20])
    right = np.concatenate([np.arange(50) < 40, np.arange(30) < 27, np.arange(20) < 5])
    found = intervals.mean_of_shares(right, label)
    assert found.value == pytest.approx((0.8 + 0.9 + 0.25) / 3)
    # For many answers Wilson's ends are the normal ones, and variances of independent means add up.
    many = intervals.mean_of_shares(np.tile(right, 400), np.tile(label, 400))
    shares, counts = np.array([0.8, 0.9, 0.25]), np.array([20_000, 12_000, 8_000])
    deviation = math.sqrt((shares * (1 - shares) / counts).sum()) / 3
    assert many.high - many.value == pytest.approx(1.96 * deviation, rel=0.01)
    assert many.value - many.low == pytest.approx(1.96 * deviation, rel=0.01)


def test_its_interval_covers_the_truth_about_95_times_in_100():
    rng = np.random.default_rng(0)
    truth, label = np.array([0.97, 0.8, 0.55, 0.9]), np.repeat(np.arange(4), 40)
    covered = 0
    for _ in range(1000):
        found = intervals.mean_of_shares(rng.random(160) < truth[label], label)
        covered += found.low <= truth.mean() <= found.high
    assert 0.93 <= covered / 1000 <= 0.98  # 0.95 ± 3 standard deviations, and a little for being approximate


def test_all_right_does_not_mean_sure():
    label = np.repeat(np.arange(200), 30)
    found = intervals.mean_of_shares(np.ones(6000, bool), label)
    assert found.value == 1
    assert 0.98 < found.low < 0.995
    assert found.high == pytest.approx(1)


def test_the_bootstrap_of_a_mean_is_the_normal_interval_for_many():
    values = np.random.default_rng(1).beta(2, 5, size=2000)
    found = intervals.mean(values)
    assert found.value == pytest.approx(values.mean())
    half = 1.96 * values.std() / math.sqrt(2000)
    # 1000 draws place an end of the interval to about a tenth of its half-width.
    assert found.value - found.low == pytest.approx(half, rel=0.15)
    assert found.high - found.value == pytest.approx(half, rel=0.15)


def test_zeros_and_ones_are_a_share():
    found = intervals.mean(np.array([1.0] * 9 + [0.0]))
    assert found == (0.9, *wilson_interval(9, 10))


@pytest.mark.parametrize("ties", [False, True])
def test_average_precision_is_that_of_torchmetrics(ties):
    rng = np.random.default_rng(2)
    probability = rng.dirichlet(np.ones(3), size=300)
    label = np.array([rng.choice(3, p=p) for p in probability])
    if ties:
        probability = probability.round(1)
    found = intervals.average_precision(probability, label)
    expected = multiclass_average_precision(torch.tensor(probability), torch.tensor(label), 3, thresholds=None)
    assert found.value == pytest.approx(float(expected), abs=1e-6)
    assert found.low < found.value < found.high
    assert found == intervals.average_precision(probability, label)  # the same seed, the same interval


def test_its_bootstrap_weighs_images_as_if_they_were_there_several_times():
    rng = np.random.default_rng(3)
    score, positive, times = rng.random(40).round(1), rng.random(40) < 0.4, rng.integers(0, 4, (5, 40))
    found = intervals._areas(score, positive, times.astype(float))
    for area, counts in zip(found, times, strict=True):
        probability, label = np.repeat(score, counts), np.repeat(positive, counts).astype(int)
        both = torch.tensor(np.stack([1 - probability, probability], axis=1))
        expected = multiclass_average_precision(both, torch.tensor(label), 2, average=None)
        assert area == pytest.approx(float(expected[1]), abs=1e-6)


def test_auroc_counts_pairs_and_equal_scores_by_half():
    rng = np.random.default_rng(4)
    score, label = rng.random(50).round(1), (rng.random(50) < 0.4).astype(int)
    probability = np.stack([1 - score, score], axis=1)
    found = intervals.auroc(probability, label, positive=1)
    pairs = [(a > b) + (a == b) / 2 for a in score[label == 1] for b in score[label == 0]]
    assert found.value == pytest.approx(np.mean(pairs))
    assert found.low < found.value < found.high
    assert intervals.auroc(probability, label).value == pytest.approx(found.value)  # of two classes both are the same


def test_nothing_is_said_of_a_perfect_average_precision():
    found = intervals.average_precision(np.eye(2)[[0, 1, 1, 0]], np.array([0, 1, 1, 0]))
    assert found.value == 1
    assert math.isnan(found.low)
    assert math.isnan(found.high)
