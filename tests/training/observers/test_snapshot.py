"""Snapshots: every number against a count by hand, places against chance."""

import math

import pytest
import torch
from torch.testing import assert_close

from saccade.evaluation import Predictions
from saccade.extraction import Grid
from saccade.tasks.single import Single
from saccade.training.observers.collapse import examine
from saccade.training.observers.snapshot import find_places, take_snapshot

CLASSES = ("EMPTY", "50", "70", "80")


def make_predictions(label, said, centers=None):
    label, said = torch.tensor(label), torch.tensor(said)
    n = len(label)
    centers = torch.rand(n, 3, 2, generator=torch.Generator().manual_seed(0)) if centers is None else centers
    logits = 3.0 * torch.nn.functional.one_hot(said, 4).float()
    unknown = torch.full((n,), math.nan)
    return Predictions(
        torch.arange(n), label, logits, unknown, unknown, unknown, torch.full((n,), 0.5), centers, torch.zeros(n, 0)
    )


def test_a_snapshot_counts_answers():
    snapshot = take_snapshot(make_predictions([0, 0, 0, 1], [0, 0, 1, 1]), task=Single(CLASSES), progress=0.5)
    assert snapshot.favorite_share == 0.5
    assert snapshot.skill == pytest.approx(2 * ((2 / 3 + 1) / 2 - 1 / 2))
    assert snapshot.prior_loss == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    right, wrong = -math.log(math.e**3 / (math.e**3 + 3)), -math.log(1 / (math.e**3 + 3))
    assert snapshot.loss == pytest.approx((3 * right + wrong) / 4)
    assert math.isnan(snapshot.hit_rate)
    assert math.isnan(snapshot.entropy)


def test_skill_runs_from_guessing_to_all_right():
    label = [0, 1, 2, 2] * 5
    guess = take_snapshot(make_predictions(label, [2] * 20), task=Single(CLASSES), progress=0.5)
    assert (guess.skill, guess.favorite, guess.favorite_share) == (pytest.approx(0, abs=1e-6), "70", 1)
    assert take_snapshot(make_predictions(label, label), task=Single(CLASSES), progress=0.5).skill == pytest.approx(1)


def test_luck_is_twice_the_deviation_of_guesses():
    generator = torch.Generator().manual_seed(0)
    label = [0, 1, 2, 3] * 20
    guesses = torch.randint(4, (500, 80), generator=generator).tolist()
    shots = [take_snapshot(make_predictions(label, said), task=Single(CLASSES), progress=0.5) for said in guesses]
    skill = torch.tensor([shot.skill for shot in shots])
    assert shots[0].luck == pytest.approx(2 * float(skill.std()), rel=0.1)


def test_images_of_one_class_leave_nothing_to_be_skilled_at():
    snapshot = take_snapshot(make_predictions([1] * 9, [1] * 9), task=Single(CLASSES), progress=0.5)
    assert math.isnan(snapshot.skill)
    assert not examine([snapshot] * 5)


def grid_places():
    """Ten by ten candidates 10 px apart, patches of 20 px, in an image of 100 px."""
    corners = torch.arange(10) * 10 - 5
    return find_places(Grid(corners, corners, (20, 20)), (100, 100))


def test_places_are_relative_and_know_their_edges():
    places = grid_places()
    assert_close(places.half, torch.tensor([0.1, 0.1]))
    assert_close(places.centers[:2], torch.tensor([[0.05, 0.05], [0.15, 0.05]]))
    assert places.at_edge(places.centers).sum() == 36  # the outermost ring


def test_places_of_a_wide_image():
    places = find_places(Grid(torch.tensor([0]), torch.tensor([0, 150]), (30, 50)), (30, 200))
    assert_close(places.centers, torch.tensor([[0.125, 0.5], [0.875, 0.5]]))
    assert_close(places.half, torch.tensor([0.125, 0.5]))


def snapshot_of(centers, places=None):
    n = len(centers)
    predictions = make_predictions([0, 1] * (n // 2), [0, 1] * (n // 2), centers)
    return take_snapshot(predictions, task=Single(CLASSES), progress=0.5, places=places or grid_places())


def test_agreement_is_one_where_all_look_alike_and_chance_where_they_do_not():
    places = grid_places()
    same = places.centers[[3, 40, 77]].expand(50, 3, 2)
    assert snapshot_of(same).agreement == pytest.approx(1)
    generator = torch.Generator().manual_seed(0)
    order = torch.stack([torch.randperm(100, generator=generator)[:3].sort().values for _ in range(2000)])
    scattered = snapshot_of(places.centers[order])
    assert scattered.agreement == pytest.approx(scattered.by_chance, rel=0.1)
    assert scattered.by_chance == 0.03
    assert scattered.at_edge == pytest.approx(scattered.edge_by_chance, rel=0.1)


def test_agreement_ignores_the_slots():
    """One image in ten also looks elsewhere, which moves its other patches to other slots."""
    places = grid_places()
    same = places.centers[[3, 40, 77]].repeat(50, 1, 1)
    same[::10] = places.centers[[40, 77, 99]]
    assert snapshot_of(same).agreement > 0.9


def test_slots_that_an_image_does_not_need_count_as_nothing():
    places = grid_places()
    order = torch.stack([torch.randperm(100, generator=torch.Generator().manual_seed(n))[:3] for n in range(400)])
    few = places.centers[order]
    many = torch.cat([few, torch.full((400, 5, 2), math.nan)], dim=1)
    for name in ("agreement", "by_chance", "at_edge"):
        assert getattr(snapshot_of(many), name) == pytest.approx(getattr(snapshot_of(few), name))


def test_edges_are_counted():
    centers = torch.tensor([[0.05, 0.5], [0.5, 0.5], [0.5, 0.95], [0.95, 0.02]]).expand(10, 4, 2)
    assert snapshot_of(centers).at_edge == 0.75


def test_a_model_that_diverged_is_not_finite():
    predictions = make_predictions([0, 1], [0, 1])._replace(logits=torch.full((2, 4), math.nan))
    assert not take_snapshot(predictions, task=Single(CLASSES), progress=0.5).finite
