"""A rule says what its thresholds or costs ask for, and comes back from a config as it was."""

import itertools
import json

import numpy as np
import pytest

from saccade.deciding import Costs, Thresholds, cost_matrix, make_rule

CLASSES = ("clean", "dent", "crack")


def shares(seed, count=3):
    return np.random.default_rng(seed).dirichlet(np.ones(count)).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_the_expected_cost_is_least_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    costs = {f"{a}:{b}": float(rng.uniform(0.1, 30)) for a, b in itertools.permutations(CLASSES, 2)}
    told = shares(seed)
    expected = {
        said: sum(told[place] * costs[f"{true}:{said}"] for place, true in enumerate(CLASSES) if true != said)
        for said in CLASSES
    }
    assert Costs(CLASSES, "", costs).decide(told).label == min(expected, key=expected.__getitem__)


def test_with_equal_costs_the_likeliest_is_said():
    for seed in range(20):
        told = shares(seed)
        assert Costs(CLASSES, "", {}).decide(told).label == CLASSES[int(np.argmax(told))]


def test_of_two_classes_costs_are_a_threshold():
    rule, other = Costs(("no", "yes"), "", {"yes:no": 19.0}), Thresholds(("no", "yes"), "", {"yes": [0.05, 0.0, 0.0]})
    for share in np.linspace(0.001, 0.999, 200):
        assert rule.decide([1 - share, share]).label == other.decide([1 - share, share]).label


def test_doubtful_is_what_other_temperatures_decide_otherwise():
    rule = Costs(CLASSES, "", {"crack:clean": 5.0}, (0.5, 2.0))
    sure, torn = rule.decide([0.999, 0.0005, 0.0005]), rule.decide([0.85, 0.05, 0.1])
    assert (sure.label, sure.review) == ("clean", False)
    assert (torn.label, torn.review) == ("clean", True)  # √p: 0.62, 0.15, 0.21 → crack


def test_one_class_has_a_threshold_and_the_others_are_said_by_their_probability():
    rule = Thresholds(CLASSES, "", {"crack": [0.2, 0.1, 0.3]})
    assert rule.decide([0.5, 0.3, 0.2]) == ("crack", True)
    assert rule.decide([0.3, 0.61, 0.09]) == ("dent", False)
    assert rule.decide([0.1, 0.2, 0.7]) == ("crack", False)


def test_each_label_has_its_own_and_others_a_half():
    rule = Thresholds(CLASSES, "", {"dent": [0.1, 0.05, 0.2]}, several=True)
    assert rule.decide([0.5, 0.3, 0.49]) == ("clean;dent", False)
    assert rule.decide([0.4, 0.08, 0.0]) == (";", True)


@pytest.mark.parametrize(
    "rule",
    [
        Thresholds(CLASSES, "recall 0.9 of 'dent'", {"dent": [0.1, 0.0, 0.2]}),
        Costs(CLASSES, "costs", {"dent:clean": 3.0}, (0.5, 2.0)),
    ],
    ids=["thresholds", "costs"],
)
def test_a_rule_comes_back(rule):
    again = make_rule(json.loads(json.dumps(rule.spec())), CLASSES, several=False)
    assert again == rule
    assert all(again.decide(shares(seed)) == rule.decide(shares(seed)) for seed in range(50))


def test_damaged_rules_are_refused_in_words():
    with pytest.raises(ValueError, match="unknown decision 'dice': expected one of thresholds, costs"):
        make_rule({"name": "dice"}, CLASSES, several=False)
    with pytest.raises(ValueError, match=r"decision.thresholds has 'rust': expected some of clean, dent, crack"):
        make_rule({"name": "thresholds", "asked": "", "thresholds": {"rust": [0.1, 0.1, 0.1]}}, CLASSES, several=False)
    with pytest.raises(ValueError, match=r"decision.thresholds has 0: expected that of one class"):
        make_rule({"name": "thresholds", "asked": "", "thresholds": {}}, CLASSES, several=False)
    with pytest.raises(ValueError, match="there are several labels: expected thresholds"):
        make_rule({"name": "costs", "asked": "", "costs": {}}, CLASSES, several=True)
    with pytest.raises(ValueError, match="the cost 'dent:rust' names no mistake"):
        cost_matrix(CLASSES, {"dent:rust": 3.0})
