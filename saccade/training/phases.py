"""How a training proceeds: what a phase is, which trainings have a name, and which step is in which phase.

    TRAININGS[name] ─ what the recipe overrides ─▶ phases ─ how many labeled steps ─▶ Plan: which phase a step is in

`paper` is the paper's. The others are for scorers and networks that know nothing yet:

- **Label-free steps.** Candidates far below the K best get no gradient, so a scorer that starts out preferring the
  background may stay there. Before the first label it learns to tell where the image has detail that its view lacks.
- **Guided steps.** At first the scorer chooses badly, so the feature network sees background only, and what it says of
  background teaches the scorer nothing. Patches are therefore chosen hard, where detail is missing or by the scores as
  in evaluation; no gradient goes through the choice, and the scorer learns by the other terms of the loss.

This module imports no torch: the command line reads it for `--help`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple

from saccade.options import NOT_NEGATIVE, POSITIVE, SHARE, check_ranges

TINY = 1e-9  # a share that is none
Chooser = Literal["model", "scores", "detail", "detail_and_scores"]


@dataclass(frozen=True)
class ScorerRate:
    """The scorer's learning rate relative to that of the rest.

    Args:
        rate: what it is once it has risen
        start: the share of `rate` it has at the first label
        rise: the share of the labeled steps over which it rises to `rate`
    """

    rate: float = 1.0
    start: float = 1.0
    rise: float = 0.2

    def __post_init__(self) -> None:
        check_ranges("training.scorer", self, rate=POSITIVE, start=SHARE, rise=SHARE)


@dataclass(frozen=True)
class Phase:
    """A part of a training.

    Args:
        name: what people call it
        steps: how many steps it has, if it needs no labels
        share: its share of the labeled steps, if it needs them
        choose: who chooses the patches: the model's own selection, as in training; the scores, as in evaluation;
            detail, where the view lacks most of it; detail_and_scores, half of the patches by each
        learn: what the loss asks for: labels (the system's own loss), or missing_detail (of the scorer, without labels)
        loss: options of that loss, such as entropy_coefficient or focus; what is left out has its default
        lr: the scorer's learning rate while there are no labels; nothing else is trained then
        scorer: its learning rate afterwards
        sigma: to_zero: the selection's noise falls in a line, from all of it at the first label to none at the end
        deal: show images as_they_come, or evenly: those of each class as often as of any other
    """

    name: str
    steps: int = 0
    share: float = 0.0
    choose: Chooser = "model"
    learn: Literal["labels", "missing_detail"] = "labels"
    loss: dict[str, float] = field(default_factory=dict)
    lr: float = 1e-3
    scorer: ScorerRate = field(default_factory=ScorerRate)
    sigma: Literal["to_zero", "constant"] = "to_zero"
    deal: Literal["as_they_come", "evenly"] = "as_they_come"

    def __post_init__(self) -> None:
        check_ranges(f"the phase {self.name}", self, steps=NOT_NEGATIVE, share=SHARE, lr=POSITIVE)

    @property
    def labeled(self) -> bool:
        """Whether it needs labels."""
        return self.learn == "labels"

    @property
    def guided(self) -> bool:
        """Whether patches are chosen hard, so that no gradient goes through the choice."""
        return self.labeled and self.choose != "model"


LABEL_FREE = Phase("label_free", learn="missing_detail", lr=3e-3)
ANSWER = {"entropy_coefficient": 0.0}
EACH_PATCH = {"entropy_coefficient": 0.0, "mixture_coefficient": 1.0}  # each patch is asked for an answer of its own
RISING, SLOW = ScorerRate(start=0.1), ScorerRate(rate=0.1)

TRAININGS: dict[str, tuple[Phase, ...]] = {
    # The system's own loss, whatever it is; of patch selection it is the paper's.
    "plain": (Phase("labels", share=1.0),),
    # Cross-entropy and entropy bonus, softly chosen patches from the first step on, σ falling to zero.
    "paper": (Phase("labels", share=1.0, loss={"entropy_coefficient": 0.01}),),
    # For a network that cannot read yet, and evidence that the view does not show.
    "guided_by_detail": (
        replace(LABEL_FREE, steps=150),
        Phase("by_detail", share=0.7 / 3, choose="detail", loss=EACH_PATCH, scorer=RISING),
        Phase("half_by_detail", share=1.4 / 3, choose="detail_and_scores", loss=EACH_PATCH, scorer=RISING),
        Phase("soft", share=0.3, loss=EACH_PATCH, scorer=RISING),
    ),
    # For a scorer that knows where to look before the network can read: by label-free steps, or by its context.
    "guided_by_scores": (
        replace(LABEL_FREE, steps=200),
        Phase("by_scores", share=0.75, choose="scores", loss=EACH_PATCH, scorer=SLOW),
        Phase("soft", share=0.25, loss=EACH_PATCH, scorer=SLOW),
    ),
    # For a model that answers already, by heads on a network that was held still.
    "tuned": (
        Phase("by_scores", share=0.75, choose="scores", loss=ANSWER, scorer=SLOW),
        Phase("soft", share=0.25, loss=ANSWER, scorer=SLOW),
    ),
}


# ---- what a recipe says


@dataclass(frozen=True)
class LabelFreeOptions:
    """The steps before the first label, in which the scorer learns where the view lacks detail.

    Args:
        steps: how many there are; 0 leaves them out
        focus: 0 to learn the detail of every candidate; above it, only where most is missing, the more so the higher
    """

    steps: int | None = None
    focus: float | None = None

    def __post_init__(self) -> None:
        check_ranges("training.label_free", self, steps=NOT_NEGATIVE, focus=NOT_NEGATIVE)


@dataclass(frozen=True)
class ScorerOptions:
    """The scorer's learning rate relative to that of the rest, from the first label on.

    Args:
        rate: what it is once it has risen, over a fifth of the labeled steps
        start: the share of `rate` it has at the first label
    """

    rate: float | None = None
    start: float | None = None

    def __post_init__(self) -> None:
        check_ranges("training.scorer", self, rate=POSITIVE, start=SHARE)


@dataclass(frozen=True)
class Training:
    """A named training and what is different in this run; what is null is as the named training has it.

    Args:
        name: see saccade/training/phases.py
        label_free: the steps before the first label
        guided: the share of the labeled steps that are guided; 0 leaves them out
        loss: options of the system's loss, such as entropy_coefficient and mixture_coefficient
        scorer: the scorer's learning rate
        sigma: let the selection's noise fall linearly to_zero, or stay constant
        evenly: show images of each class as often as of any other: true, or the share of the labeled steps, at first
        frozen: begin with heads fitted to the features of a network that is held still, and with what they decide
        trial: after a frozen start, tune only if that helps in a trial, judged by a third of the training images: for
            validation images that are too few to tell
        patch_sizes: sides of square patches, of which a frozen start takes the smallest, unless a larger one answers
            clearly better (default: model.extraction.patch alone)
        phases: all phases, written out, instead of the above
    """

    name: Literal["plain", "paper", "guided_by_detail", "guided_by_scores", "tuned"] = "plain"
    label_free: LabelFreeOptions = field(default_factory=LabelFreeOptions)
    guided: float | None = None
    loss: dict[str, float] = field(default_factory=dict)
    scorer: ScorerOptions = field(default_factory=ScorerOptions)
    sigma: Literal["to_zero", "constant"] | None = None
    evenly: bool | float | None = None
    frozen: bool = False
    trial: bool = False
    patch_sizes: list[int] | None = None
    phases: list[Phase] | None = None

    def __post_init__(self) -> None:
        check_ranges("training", self, guided=SHARE, evenly=SHARE)
        if self.patch_sizes is not None and (not self.patch_sizes or min(self.patch_sizes) < 1):
            raise ValueError(f"training.patch_sizes is {self.patch_sizes}: expected sides in pixels, such as [128, 96]")


def lay_out(training: Training) -> tuple[Phase, ...]:
    """The phases of a recipe's training, those without any step too.

    >>> [(phase.name, phase.share) for phase in lay_out(Training(name="guided_by_scores", evenly=0.5))]
    [('label_free', 0.0), ('by_scores_evenly', 0.5), ('by_scores', 0.25), ('soft', 0.25)]
    """
    if training.phases is not None:
        return _check(training.phases)
    phases = TRAININGS[training.name]
    phases = [phases[0] if not phases[0].labeled else LABEL_FREE, *(phase for phase in phases if phase.labeled)]
    if training.guided is not None:
        phases = _share_guided(phases, training.guided, training.name)
    evenly = float(training.evenly or 0.0)
    return tuple(_deal_evenly([_override(phase, training) for phase in phases], evenly))


def _override(phase: Phase, training: Training) -> Phase:
    if not phase.labeled:
        given = _given(training.label_free)
        focus = {"focus": given.pop("focus")} if "focus" in given else {}
        return replace(phase, loss={**phase.loss, **focus}, **given)
    scorer = replace(phase.scorer, **_given(training.scorer))
    return replace(phase, loss={**phase.loss, **training.loss}, scorer=scorer, sigma=training.sigma or phase.sigma)


def _given(options: LabelFreeOptions | ScorerOptions) -> dict[str, Any]:
    return {name: value for name, value in asdict(options).items() if value is not None}


def _share_guided(phases: Sequence[Phase], share: float, name: str) -> list[Phase]:
    """The guided phases with `share` of the steps together, those after them with the rest."""
    now = sum(phase.share for phase in phases if phase.guided)
    if share and not now:
        raise ValueError(
            f"training.guided is {share} and the training {name} has no guided steps: set training.name to "
            "guided_by_detail or guided_by_scores"
        )
    times = {True: share / now if now else 0.0, False: (1 - share) / (1 - now)}
    return [replace(phase, share=phase.share * times[phase.guided]) for phase in phases]


def _deal_evenly(phases: Sequence[Phase], share: float) -> Iterator[Phase]:
    """The first `share` of the labeled steps, and all before them, deal classes evenly: a phase may become two."""
    left = share
    for phase in phases:
        even = min(phase.share, left)
        left -= even
        rest = phase.share - even
        if not phase.labeled:
            yield replace(phase, deal="evenly") if share else phase
        elif even > 0:
            yield replace(phase, name=f"{phase.name}_evenly" if rest > TINY else phase.name, share=even, deal="evenly")
        if phase.labeled and rest > TINY:
            yield replace(phase, share=rest)


def _check(phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """Phases that somebody wrote out: those without labels come first, and the others share all labeled steps."""
    shares = sum(phase.share for phase in phases if phase.labeled)
    if not math.isclose(shares, 1.0, abs_tol=1e-6):
        raise ValueError(f"the phases with labels have {shares:.6g} of the steps: expected shares that add up to 1")
    if [phase.labeled for phase in phases] != sorted(phase.labeled for phase in phases):
        raise ValueError("a phase without labels comes after one with labels: expected those without labels first")
    return tuple(phases)


# ---- which step is when


class Span(NamedTuple):
    """A phase from the step `begin` to the one before `end`."""

    phase: Phase
    begin: int
    end: int


class Plan:
    """The phases of a training and the steps they take, of which `labeled` need labels.

    >>> plan = Plan(Training(name="guided_by_scores", label_free=LabelFreeOptions(steps=4)), labeled=12)
    >>> [(span.phase.name, span.begin, span.end) for span in plan.spans]
    [('label_free', 0, 4), ('by_scores', 4, 13), ('soft', 13, 16)]
    >>> plan.at(12).name, plan.progress(10)
    ('by_scores', 0.5)
    """

    def __init__(self, training: Training, labeled: int):
        phases = lay_out(training)
        self.labeled = labeled
        self.label_free = sum(phase.steps for phase in phases if not phase.labeled)
        spans = tuple(self._measure(phases))
        self.spans = tuple(span for span in spans if span.begin < span.end) or spans  # a frozen start may be all

    def _measure(self, phases: Sequence[Phase]) -> Iterator[Span]:
        begin, share = 0, 0.0
        for phase in phases:
            share += phase.share
            # Shares are seldom exact in binary: 0.7 of 10 steps are 7.
            end = self.label_free + math.ceil(share * self.labeled - 1e-6) if phase.labeled else begin + phase.steps
            yield Span(phase, begin, end)
            begin = end

    @property
    def total(self) -> int:
        """Steps of all phases."""
        return self.label_free + self.labeled

    def at(self, step: int) -> Phase:
        """The phase of a step; after the last one, still the last phase."""
        return next((span.phase for span in self.spans if step < span.end), self.spans[-1].phase)

    def labeled_step(self, step: int) -> int:
        """How many labeled steps were taken before `step`; negative while there are no labels."""
        return step - self.label_free

    def progress(self, step: int) -> float:
        """The share of the labeled steps before `step`, from 0 to 1."""
        return min(max(self.labeled_step(step) / self.labeled, 0.0), 1.0)

    def describe(self) -> list[Mapping[str, Any]]:
        """Each phase and its steps, as plain values."""
        return [{"name": phase.name, "from": begin, "to": end} | _plain(phase) for phase, begin, end in self.spans]


def _plain(phase: Phase) -> dict[str, Any]:
    return {key: value for key, value in asdict(phase).items() if key not in ("name", "steps", "share")}
