"""A threshold is the best of all there are, by brute force; its band is where draws of the images put it."""

import itertools

import numpy as np
import pytest

from saccade.evaluation import wilson_interval
from saccade.evaluation.thresholds import choose_threshold, cost, f1, images_needed, precision, recall

AIMS = {
    **{f"recall {wanted}": recall(wanted) for wanted in (0.5, 0.9, 1.0)},
    **{f"precision {wanted}": precision(wanted) for wanted in (0.3, 0.7)},
    **{f"cost {missing}": cost(missing) for missing in (0.2, 1.0, 20.0)},
    "f1": f1(),
}


def answers(seed, count=25, ties=False):
    rng = np.random.default_rng(seed)
    there = rng.random(count) < 0.4
    there[:2] = True, False
    share = rng.beta(2, 3, count) * 0.6 + 0.35 * there
    return (share.round(1) if ties else share), there


def worth(name, share, there, at):
    """What is made as large as possible, after what must hold: in words, for one threshold."""
    said = share >= at
    found, alarms, missed = (said & there).sum(), (said & ~there).sum(), (~said & there).sum()
    kind, _, value = name.partition(" ")
    if kind == "recall":
        return (found / there.sum() >= float(value), -alarms, found)
    if kind == "precision":
        return (found > 0 and found / max(said.sum(), 1) >= float(value), found, -alarms)
    if kind == "cost":
        return (True, -(float(value) * missed + alarms), -missed if float(value) >= 1 else -alarms)
    return (True, 2 * found / (said.sum() + there.sum()), found)


@pytest.mark.parametrize("name", AIMS)
@pytest.mark.parametrize(("seed", "ties"), [*itertools.product(range(3), (False, True))])
def test_no_other_threshold_is_better(name, seed, ties):
    share, there = answers(seed, ties=ties)
    values = np.unique(share)
    every = [2.0, *((values[1:] + values[:-1]) / 2), -1.0]  # all that can be told apart
    best = max(worth(name, share, there, at) for at in every)
    found = choose_threshold(share, there, AIMS[name])
    if not best[0]:
        assert found is None
        return
    assert worth(name, share, there, found.at) == pytest.approx(best)
    assert found.low <= found.at <= found.high


def test_the_cost_is_least_by_enumeration_of_all_decisions():
    """Probabilities that are right and many images: the threshold of Bayes, cost of a false alarm / sum of costs."""
    rng = np.random.default_rng(0)
    share = rng.random(4000)
    found = choose_threshold(share, rng.random(4000) < share, cost(9.0))
    assert found.at == pytest.approx(0.1, abs=0.04)
    assert found.low < 0.1 < found.high


def test_the_threshold_lies_halfway_between_neighbors():
    share, there = np.array([0.1, 0.3, 0.7, 0.9]), np.array([False, False, True, True])
    for aim in AIMS.values():
        assert choose_threshold(share, there, aim).at == pytest.approx(0.5)


def test_the_band_holds_the_best_threshold_of_many_images():
    rng, held = np.random.default_rng(1), 0
    for _ in range(10):
        share = rng.random(300)
        band = choose_threshold(share, rng.random(300) < share, recall(0.8))
        # Of a class as likely as its score, the part above t is (1 − t²): 0.8 at t = √0.2.
        held += band.low <= 0.2**0.5 <= band.high
    assert held >= 7  # of 10 at 95%, fewer once in 1,000


def test_groups_are_drawn_whole():
    """Copies of an image tell nothing new: the band is that of the images alone, not a narrower one."""
    share, there = answers(3, 40)
    groups = [str(place) for place in range(40)] * 25
    once = choose_threshold(share, there, recall(0.8))
    copies = choose_threshold(np.tile(share, 25), np.tile(there, 25), recall(0.8), groups=groups)
    alone = choose_threshold(np.tile(share, 25), np.tile(there, 25), recall(0.8))
    assert copies.at == once.at
    assert copies.high - copies.low > 3 * (alone.high - alone.low)
    assert copies.high - copies.low == pytest.approx(once.high - once.low, rel=0.5)


def test_nothing_is_chosen_where_there_is_nothing_to_find_or_no_way():
    share = np.array([0.9, 0.5, 0.1])
    assert choose_threshold(share, np.zeros(3, bool), recall(0.5)) is None
    assert choose_threshold(share, np.array([False, False, True]), precision(0.5)) is None


@pytest.mark.parametrize("wanted", [0.5, 0.9, 0.99])
def test_so_many_images_are_needed(wanted):
    needed = images_needed(wanted)
    assert wilson_interval(needed, needed)[0] >= wanted > wilson_interval(needed - 1, needed - 1)[0]
