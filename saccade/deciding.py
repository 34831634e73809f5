"""Probabilities → a decision: a class, or labels; and whether somebody should look again.

A rule was chosen on images the model had not learnt from (`saccade.evaluation.thresholds`) and is kept in the model's
config. There are two:

    thresholds   a class, or each of several labels, is said if its probability reaches the threshold; of one class, the
                 most probable of the others is said if not
    costs        of more than two classes the one with the least expected cost, Σ_i p_i · cost(i is taken for j)

Doubtful is an answer that other images to choose on could well have made another: its probability lies among the
thresholds that 95% of the draws of these images lead to or, with costs, temperatures within their 95% give different
decisions. This module imports no torch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from saccade.options import make
from saccade.tasks.labels import join_labels


class Decided(NamedTuple):
    """A decision, written as a label is; and whether it is doubtful."""

    label: str
    review: bool


class Threshold(NamedTuple):
    """A class is said if its probability is at least `at`; between `low` and `high` the answer is doubtful."""

    at: float
    low: float
    high: float


@runtime_checkable
class DecisionRule(Protocol):
    """How probabilities become a decision.

    name:  as in a model's config.
    asked: what it was chosen for, in words.
    """

    name: ClassVar[str]
    asked: str

    def decide(self, shares: Sequence[float]) -> Decided:
        """The decision for the probabilities of the classes, in the order of the model."""
        ...

    def spec(self) -> dict[str, Any]:
        """As plain values, for a model's config."""
        ...


@dataclass(frozen=True)
class Thresholds(DecisionRule):
    """By a threshold for a class, or one for each of several labels.

    >>> rule = Thresholds(("clean", "defect"), "recall 0.99 of 'defect'", {"defect": [0.2, 0.1, 0.3]})
    >>> rule.decide([0.75, 0.25]), rule.decide([0.6, 0.4]).review
    (Decided(label='defect', review=True), False)
    """

    classes: tuple[str, ...]
    asked: str
    thresholds: dict[str, list[float]]
    several: bool = False
    name: ClassVar = "thresholds"

    def __post_init__(self) -> None:
        if unknown := [name for name in self.thresholds if name not in self.classes]:
            raise ValueError(f"decision.thresholds has {unknown[0]!r}: expected some of {', '.join(self.classes)}")
        if any(len(each) != len(Threshold._fields) for each in self.thresholds.values()):
            raise ValueError("decision.thresholds: expected three numbers each, a threshold and the ends of its band")
        if not self.several and len(self.thresholds) != 1:
            raise ValueError(f"decision.thresholds has {len(self.thresholds)}: expected that of one class")

    def of(self, name: str) -> Threshold:
        """The threshold of a class or label; one that nobody chose is a half."""
        return Threshold(*self.thresholds.get(name, (0.5, math.nan, math.nan)))

    def decide(self, shares: Sequence[float]) -> Decided:
        """What reaches its threshold."""
        share = dict(zip(self.classes, shares, strict=True))
        review = any(self.of(name).low <= share[name] <= self.of(name).high for name in self.thresholds)
        if self.several:
            return Decided(join_labels([name for name in self.classes if share[name] >= self.of(name).at]), review)
        (name,) = self.thresholds
        others = [other for other in self.classes if other != name]
        return Decided(name if share[name] >= self.of(name).at else max(others, key=share.__getitem__), review)

    def spec(self) -> dict[str, Any]:
        """As plain values."""
        return {"name": self.name, "asked": self.asked, "thresholds": self.thresholds}


@dataclass(frozen=True)
class Costs(DecisionRule):
    """By the least expected cost of what a class is taken for; a mistake that is not named costs 1.

    costs:  by `TRUTH:SAID`.
    powers: p ↦ p^power, made to sum to 1, is what other temperatures within their interval would have told.

    >>> rule = Costs(("clean", "dent", "crack"), "costs crack:clean=20", {"crack:clean": 20.0})
    >>> rule.decide([0.9, 0.04, 0.06])  # 0.04 + 20 · 0.06 for clean, 0.94 for crack
    Decided(label='crack', review=False)
    """

    classes: tuple[str, ...]
    asked: str
    costs: dict[str, float]
    powers: tuple[float, float] = (1.0, 1.0)
    several: bool = False
    name: ClassVar = "costs"
    matrix: tuple[tuple[float, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.several:
            raise ValueError("the decision is by costs, and there are several labels: expected thresholds")
        object.__setattr__(self, "matrix", cost_matrix(self.classes, self.costs))

    def decide(self, shares: Sequence[float]) -> Decided:
        """What costs least."""
        said, *others = (self._cheapest([share**power for share in shares]) for power in (1.0, *self.powers))
        return Decided(self.classes[said], any(other != said for other in others))

    def _cheapest(self, shares: Sequence[float]) -> int:
        expected = [sum(map(mul, shares, column)) for column in zip(*self.matrix, strict=True)]
        return expected.index(min(expected))

    def spec(self) -> dict[str, Any]:
        """As plain values."""
        return {"name": self.name, "asked": self.asked, "costs": self.costs, "powers": list(self.powers)}


def cost_matrix(classes: Sequence[str], costs: Mapping[str, float]) -> tuple[tuple[float, ...], ...]:
    """What it costs to take each class (row) for each (column): nothing if it is that, 1 if nobody said otherwise.

    >>> cost_matrix(("clean", "defect"), {"defect:clean": 20.0})
    ((0.0, 1.0), (20.0, 0.0))
    """
    pairs = {f"{true}:{said}": (true, said) for true in classes for said in classes if true != said}
    if unknown := [pair for pair in costs if pair not in pairs]:
        raise ValueError(
            f"the cost {unknown[0]!r} names no mistake: expected TRUTH:SAID, two of the classes {', '.join(classes)}"
        )
    named = {pairs[pair]: float(cost) for pair, cost in costs.items()}
    return tuple(tuple(0.0 if true == said else named.get((true, said), 1.0) for said in classes) for true in classes)


RULES: dict[str, Callable[..., DecisionRule]] = {rule.name: rule for rule in (Thresholds, Costs)}


def make_rule(spec: Mapping[str, Any] | None, classes: Sequence[str], *, several: bool) -> DecisionRule | None:
    """The rule that a model's config describes, for its classes; None where it has none."""
    if spec is None:
        return None
    name, options = spec.get("name"), {key: value for key, value in spec.items() if key != "name"}
    if name not in RULES:
        raise ValueError(f"unknown decision {name!r}: expected one of {', '.join(RULES)}")
    return make(f"the decision {name}", RULES[name], options, tuple(classes), several=several)
