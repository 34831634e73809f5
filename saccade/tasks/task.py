"""What every task brings: everything that depends on what labels mean.

    label ─ target ─▶ target                   what a label asks of a model
    logits, target ─ losses ─▶ losses          −log p of each part of the answer
    logits ─ temper ─ tell ─▶ told ─ say ─▶ Said   shares or a number; what is said of the image

An answer has parts that are right or wrong on their own: one class; each of several labels; each step between levels;
a number; each question. `losses` gives −log p of each part, so that losses can be added, and answers of several patches
mixed part by part. Training asks for these of the logits as they are; everything that is told divides the logits by the
task's temperature first, which is 1 until validation images have said otherwise (`saccade.evaluation.calibration`).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.options import POSITIVE, check_ranges, make
from saccade.tasks.labels import Question, split_answers

Target = Any  # a number, or a tuple of numbers


class Said(NamedTuple):
    """What is said of one image.

    text:       as a label is written.
    confidence: the share of what is surest of it; NaN for a number.
    names:      which of the task's classes it names.
    value:      the number, where it is one.
    answers:    what is said to each of several questions, where there are.
    """

    text: str
    confidence: float
    names: tuple[str, ...]
    value: float | None = None
    answers: Mapping[str, "Said"] | None = None


class Health(NamedTuple):
    """Whether answers to validation images are any better than guesses.

    favorite:   the answer that most images get; favorite_share the share of them.
    skill:      from guessing (0) to all right (1); luck is how far guesses get, twice their deviation.
    prior_loss: the loss of an answer that knows how frequent everything is and nothing else.
    """

    favorite: str
    favorite_share: float
    skill: float
    luck: float
    loss: Float[Tensor, ""]
    prior_loss: float


@runtime_checkable
class Task(Protocol):
    """What labels mean.

    name:    of the task, as in a model's config.
    has_areas: whether its numbers have average precision and AUROC, of a positive class or in the mean.
    names_several: whether several names may be said of an image, so that it matters which box speaks for which.
    counts_alike: whether rare answers count like frequent ones in a frozen start.
    best_by: the validation number by which the best model is kept, if nobody says otherwise.
    classes: the names of which a share is told, in the order of what is told; empty for a number.
    """

    name: ClassVar[str]
    best_by: ClassVar[str]
    counts_alike: ClassVar[bool] = False
    names_several: ClassVar[bool] = False
    has_areas: ClassVar[bool] = False
    classes: tuple[str, ...]

    @property
    def outputs(self) -> int:
        """How many logits a model has for it: one for each class, unless it says otherwise."""
        return len(self.classes)

    def target(self, label: str) -> Target:
        """What a label asks of a model."""
        ...

    def losses(self, logits: Float[Tensor, "*#shape L"], target: Tensor) -> Float[Tensor, "*shape parts"]:
        """−log p of each part of the answer."""
        ...

    def loss(self, logits: Float[Tensor, "B L"], target: Tensor, class_weight: Tensor | None = None) -> Tensor:
        """The mean over images of the sum over parts; with `class_weight` a mean that is weighted by `weigh`."""
        return weighted(self.losses(logits, target), self.weigh(target, class_weight))

    def weigh(self, target: Tensor, class_weight: Tensor | None) -> Float[Tensor, "*shape parts"] | None:
        """What each part of an image counts."""
        ...

    def class_weight(self, target: Tensor) -> Tensor | None:
        """What makes rare answers count like frequent ones: for `weigh`; None where there is no such thing."""
        ...

    def deal(self, target: Tensor) -> list[list[int]]:
        """Places of images to be dealt in turn, so that rare answers are seen as often as frequent ones."""
        ...

    def temper(self, logits: Float[Tensor, "*shape L"]) -> Float[Tensor, "*shape L"]:
        """The logits of what is told: divided by the temperature, where the task has one."""
        return logits

    def tell(self, logits: Float[Tensor, "*shape L"]) -> Float[Tensor, "*shape told"]:
        """What is told of an image, and averaged over models: a share for each class, or the number."""
        ...

    def shares(self, told: Float[Tensor, "*shape told"]) -> Float[Tensor, "*shape classes"]:
        """What of it are shares: one for each of the `classes`."""
        return told

    def say(self, told: Float[Tensor, " told"]) -> Said:
        """What that says."""
        ...

    def surest(self, told: Float[Tensor, "models told"], mean: Float[Tensor, " told"]) -> int:
        """Which of several models to show for their mean: the one that is nearest to it."""
        return int((told - mean).abs().sum(dim=1).argmin())

    def right(self, logits: Float[Tensor, "B L"], target: Tensor) -> Float[Tensor, " B"] | None:
        """In [0, 1], how right an answer is, to be shown while a model learns; None where that is no share."""
        ...

    def measure(
        self, logits: Float[Tensor, "n L"], target: Tensor, positive: int | None = None
    ) -> Mapping[str, float | Tensor]:
        """Numbers over all images; those that do not apply are NaN."""
        ...

    def prior_loss(self, target: Tensor) -> float:
        """The loss of the best answer that is the same for all images."""
        ...

    def health(self, logits: Float[Tensor, "n L"], target: Tensor) -> Health:
        """How much better than guesses; skill is the share of the prior's loss that is gone."""
        loss, prior_loss = self.losses(logits, target).sum(dim=1).mean(), self.prior_loss(target)
        ((favorite, count),) = Counter(self.say(told).text for told in self.tell(logits)).most_common(1)
        skill = float(1 - loss / prior_loss) if prior_loss > 0 else math.nan
        return Health(favorite, count / len(target), skill, 0.0, loss, prior_loss)

    def logit_of(self, name: str) -> int | None:
        """The logit that rises with the evidence for a class: where a patch speaks for it."""
        ...


@dataclass(frozen=True)
class Tempered(Task):
    """A task whose shares come from logits.

    temperature: what the logits are divided by before anything is told: above 1 it makes shares less sure.
    """

    classes: tuple[str, ...]
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_ranges(f"the task {self.name}", self, temperature=POSITIVE)

    def temper(self, logits: Float[Tensor, "*shape L"]) -> Float[Tensor, "*shape L"]:
        """The logits divided by the temperature."""
        return logits if self.temperature == 1 else logits / self.temperature


def weighted(losses: Float[Tensor, "*shape parts"], weight: Float[Tensor, "*shape parts"] | None) -> Float[Tensor, ""]:
    """The sum over parts of their mean over images, each weighing what it does."""
    losses = losses.flatten(0, -2)  # n parts
    if weight is None:
        return losses.sum(dim=1).mean()
    weight = weight.flatten(0, -2)
    return ((weight * losses).sum(dim=0) / weight.sum(dim=0).clamp(min=torch.finfo(losses.dtype).tiny)).sum()


def in_turn(groups: Sequence[Sequence[int]]) -> list[list[int]]:
    """Those that have anything."""
    return [list(group) for group in groups if len(group)]


def make_task(spec: Mapping[str, Any], classes: Sequence[str], count: int) -> Task:
    """The task that `spec` names, for `count` classes with these names (numbers, where nobody named them).

    >>> make_task({"name": "multi"}, ("open", "short"), 2).target("short")
    (0.0, 1.0)
    """
    from saccade.tasks.multi import Multi
    from saccade.tasks.ordinal import Ordinal
    from saccade.tasks.questions import Questions
    from saccade.tasks.regression import Regression
    from saccade.tasks.single import Single

    makers = {"single": Single, "multi": Multi, "ordinal": Ordinal, "regression": Regression}
    name, options = spec.get("name"), {key: value for key, value in spec.items() if key != "name"}
    if name == "questions":
        each = options.get("questions", ())
        return Questions(tuple((one["name"], make_task(one["task"], one["classes"], 1)) for one in each))
    if name not in makers:
        raise ValueError(f"unknown task {name!r}: expected one of {', '.join(makers)}, questions")
    if name == "regression":
        return make("the task regression", Regression, options)
    return make(f"the task {name}", makers[name], options, tuple(classes) or tuple(map(str, range(count))))


def describe_task(task: str, labels: Sequence[str], questions: Sequence[Question] = ()) -> dict[str, Any]:
    """The task of a data set as plain values, for a model's config; `labels` are those of the training images."""
    if task == "questions":
        answers = zip(*(split_answers(label, len(questions)) for label in labels), strict=True)
        columns = list(answers) or [()] * len(questions)
        each = [
            {"name": question.name, "task": describe_task(question.task, column), "classes": [*question.classes]}
            for question, column in zip(questions, columns, strict=True)
        ]
        return {"name": task, "questions": each}
    if task == "regression" and labels:
        values = torch.tensor([float(label) for label in labels], dtype=torch.float64)
        return {"name": task, "mean": float(values.mean()), "std": float(values.std(unbiased=False)) or 1.0}
    return {"name": task}


def task_of(task: str, classes: Sequence[str], questions: Sequence[Question] = ()) -> Task:
    """The task of labels that were read."""
    return make_task(describe_task(task, (), questions), classes, len(classes))
