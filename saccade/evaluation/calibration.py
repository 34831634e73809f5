"""Are probabilities what they say? A temperature fitted on images the model did not learn from, and how well it fits.

    p = softmax(logits / T)    T = argmin Σ −log p(label) + 2 (log T)²

(Guo et al. 2017; sigmoid for labels and levels.) The last term is what is known beforehand, that log T is 0 ± 1/2:
where all of a few answers are right, the sum alone would make them infinitely sure. T is taken if the sum falls by more
than it would by chance if the probabilities were right as they are: 2 · (fall) > 3.84, the likelihood-ratio test at 5%.
Images of one group count as one.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize_scalar
from scipy.stats import chi2
from torch import Tensor

from saccade.evaluation.predictions import Predictions
from saccade.tasks.questions import Questions
from saccade.tasks.task import Task, Tempered

CHANCE = float(chi2.ppf(0.95, df=1))
FARTHEST = math.log(20.0)  # of log T
BINS = 10
DRAWS = 200


class Fitted(NamedTuple):
    """A temperature, and the mean loss before and with it.

    question: of several the one it is for, else empty.
    helps:    the loss falls by more than chance would make it.
    low, high: the middle 95% of what images drawn again lead to.
    """

    question: str
    temperature: float
    before: float
    after: float
    images: int
    helps: bool
    low: float = math.nan
    high: float = math.nan

    def say(self) -> str:
        """In a line."""
        of = f" of {self.question}" if self.question else ""
        fall = f"validation log-loss {self.before:.3g} → {self.after:.3g} on {self.images:,} images"
        if self.helps:
            return f"probabilities{of} are told at temperature {self.temperature:.3g} ({fall})"
        return (
            f"probabilities{of} stay as they are: temperature {self.temperature:.3g} would help no more than by chance "
            f"({fall})"
        )


class Bin(NamedTuple):
    """Answers of about one confidence: how many, their mean confidence, and how many of them were right."""

    count: int
    confidence: float
    right: int


def fit_temperature(
    task: Tempered, logits: Float[Tensor, "n L"], target: Tensor, *, question: str = "", independent: int | None = None
) -> Fitted:
    """The temperature of a task whose own is 1.

    independent: how many of the images are, if some belong together.

    >>> import torch
    >>> from saccade.tasks.single import Single
    >>> logits, target = torch.tensor([[4.0, 0.0]] * 10_000), torch.tensor([0] * 7311 + [1] * 2689)
    >>> fitted = fit_temperature(Single(("a", "b")), logits, target)  # 73.11% are right: 1 / (1 + exp(-4 / 4))
    >>> round(fitted.temperature, 1), fitted.helps
    (4.0, True)
    """
    logits, plain = logits.double(), replace(task, temperature=1.0)
    if not len(logits):
        return Fitted(question, 1.0, math.nan, math.nan, 0, helps=False)

    def loss(temperature: float) -> float:
        return float(plain.losses(logits / temperature, target).sum(dim=1).mean())

    temperature = _minimize(lambda log: len(logits) * loss(math.exp(log)) + 2 * log**2)
    before, after = loss(1.0), loss(temperature)
    fall = (before - after) * min(independent or len(logits), len(logits))
    return Fitted(question, temperature, before, after, len(logits), helps=2 * fall > CHANCE)


def _minimize(objective: Any) -> float:
    """exp of where it is least: the best of a coarse grid, made finer between its neighbors."""
    grid = np.linspace(-FARTHEST, FARTHEST, 13)
    best = grid[int(np.argmin([objective(log) for log in grid]))]
    step = grid[1] - grid[0]
    found: Any = minimize_scalar(objective, bounds=(best - step, best + step), method="bounded")
    return float(math.exp(found.x))


def temperature_band(task: Tempered, logits: Float[Tensor, "n L"], target: Tensor, groups: list[str]) -> Fitted:
    """`fit_temperature` with its interval: groups of images, or images, are drawn again."""
    fitted, rng = fit_temperature(task, logits, target, independent=len(set(groups))), np.random.default_rng(0)
    members = [np.flatnonzero(row) for row in _same(groups)]
    found = []
    for _ in range(DRAWS):
        rows = np.concatenate([members[place] for place in rng.integers(len(members), size=len(members))])
        found.append(fit_temperature(task, logits[rows], target[rows]).temperature)
    low, high = np.quantile(found, (0.025, 0.975))
    return fitted._replace(low=float(low), high=float(high))


def _same(groups: list[str]) -> Bool[np.ndarray, "groups n"]:
    names = np.array(groups)
    return np.unique(names)[:, None] == names


def fit_temperatures(task: Task, predictions: Predictions, groups: list[str]) -> list[Fitted]:
    """A temperature for each question whose answer is a probability; of one question just one."""
    parts = _parts(task, predictions.logits, predictions.label)
    return [
        fit_temperature(each, logits, target, question=question, independent=len(set(groups)))
        for question, (each, logits, target) in parts.items()
    ]


def with_temperatures(spec: Mapping[str, Any], fitted: list[Fitted]) -> dict[str, Any]:
    """The task of a model's config with those temperatures that help, and without any other."""
    taken = {each.question: each.temperature for each in fitted if each.helps}
    if spec["name"] != "questions":
        return _with(spec, taken.get(""))
    return {
        **spec,
        "questions": [{**each, "task": _with(each["task"], taken.get(each["name"]))} for each in spec["questions"]],
    }


def _with(spec: Mapping[str, Any], temperature: float | None) -> dict[str, Any]:
    rest = {key: value for key, value in spec.items() if key != "temperature"}
    return rest if temperature is None else {**rest, "temperature": temperature}


def reliability(task: Task, predictions: Predictions) -> dict[str, dict[str, list[Bin]]]:
    """By question: answers in bins of confidence as the model tells them (`told`) and without temperature (`raw`).

    The confidence is that of the likeliest class or level and right is whether it is that one; of several labels it is
    the probability of each of them, and right is whether the label is there.
    """
    return {
        question: {
            "raw": _bins(replace(each, temperature=1.0), logits, target),
            "told": _bins(each, logits, target),
        }
        for question, (each, logits, target) in _parts(task, predictions.logits, predictions.label).items()
    }


def _parts(task: Task, logits: Tensor, target: Tensor) -> dict[str, tuple[Tempered, Tensor, Tensor]]:
    if isinstance(task, Questions):
        each = {question: (part, mine, asked) for question, part, mine, asked in task.each(logits, target)}
    else:
        each = {"": (task, logits, target)}
    return {name: (part, mine, asked) for name, (part, mine, asked) in each.items() if isinstance(part, Tempered)}


def _bins(task: Tempered, logits: Float[Tensor, "n L"], target: Tensor) -> list[Bin]:
    shares = task.tell(logits.double())
    if task.names_several:
        confidence, right = shares.flatten(), (target > 0.5).flatten()
    else:
        confidence, said = shares.max(dim=1)
        right = said == target
    place = (confidence * BINS).long().clamp(max=BINS - 1)
    return [
        Bin(int(mine.sum()), float(confidence[mine].mean()), int(right[mine].sum()))
        for mine in (place == number for number in range(BINS))
        if mine.any()
    ]
