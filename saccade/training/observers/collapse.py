"""Is the run still learning, or has it collapsed? Said in plain words, with what to try.

    validation ─ Predictions ─▶ `take_snapshot` ─ Snapshot ─▶ history ─ `examine` ─▶ findings

A young model does most of what a collapsed one does: it names one class, looks anywhere, at all images alike. So a
finding needs several validations in a row, some way into training, and an answer that is no better for it. What a model
does while its answers are good, or while its patches hit the boxes, is its own business.

Messages name keys of the recipe, which are also flags: `optimizer.lr` is `--optimizer.lr`.
"""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from saccade.evaluation import Predictions
from saccade.runs import RunFolder
from saccade.runs.step_tables import TrainingWarning
from saccade.tasks.task import Task
from saccade.training.learner import Learned, Learner
from saccade.training.observers.snapshot import Snapshot, find_places, take_snapshot

log = logging.getLogger("saccade")

KEPT = 5  # snapshots that are looked back at
EARLY = 5  # validations after which the scorer's gradient is not "early" any more


class Finding(NamedTuple):
    """One thing that is wrong; `kind` is its short name."""

    kind: str
    message: str


class Rule(NamedTuple):
    """Something is wrong if it `holds` for the last `count` validations and a share `after` of the steps is done."""

    count: int
    after: float
    holds: Callable[[Snapshot], bool]
    message: Callable[[Snapshot], str]


def examine(history: Sequence[Snapshot]) -> list[Finding]:
    """What is wrong now, given the latest snapshots, the newest last; empty for a healthy run."""
    if not history:
        return []
    now = history[-1]
    findings = [] if now.finite else [NOT_FINITE]
    if now.images < 8:  # too few to tell anything from
        return findings
    broken = {kind: rule for kind, rule in RULES.items() if _breaks(history, rule)}
    if len(broken) > 1:
        broken.pop("guesses", None)  # the others say why
    return findings + [Finding(kind, rule.message(now)) for kind, rule in broken.items()]


def _breaks(history: Sequence[Snapshot], rule: Rule) -> bool:
    late_enough = len(history) >= rule.count and history[-1].progress >= rule.after
    return late_enough and all(map(rule.holds, history[-rule.count :]))


def _hits(snapshot: Snapshot) -> str:
    return "" if math.isnan(snapshot.hit_rate) else f"; {snapshot.hit_rate:.0%} of the boxes are hit"


NOT_FINITE = Finding(
    "not finite",
    "the loss is not a number any more, so the weights are probably lost. Start again from a checkpoint before this "
    "step. Try a lower optimizer.lr, a longer schedule.warm_up, optimizer.clip_norm 1, or precision 32-true.",
)

RULES = {
    # Skill, because where most images are of one class a good model names it often too.
    "one class": Rule(
        3,
        0.15,
        lambda s: s.favorite_share >= 0.98 and s.skill < 0.1,
        lambda s: (
            f"{s.favorite_share:.0%} of the validation images are said to be {s.favorite!r}, although their labels "
            "differ. Try a lower optimizer.lr or a longer schedule.warm_up; if one class is much more frequent than "
            "the others, class_weights true and best_by balanced_accuracy."
        ),
    ),
    # A good scorer may be as sure: only the order of scores matters, not their scale.
    "one place": Rule(
        2,
        0.1,
        lambda s: s.entropy < 0.1 and s.fails and (s.guesses or s.hit_rate < 0.5),
        lambda s: (
            f"the scorer is sure of one place in each image (relative entropy {s.entropy:.2f}), and it is the wrong "
            f"one{_hits(s)}. Other places get no gradient any more. Try a larger "
            "training.loss.entropy_coefficient, a lower training.scorer.rate or start, training.label_free.steps 300, "
            "or more noise where the selection has any (model.selection.sigma)."
        ),
    ),
    # Equal scores prove nothing either: an entropy bonus pulls those of a good scorer together as well. A scorer has
    # not learnt if its scores are equal and nothing came of its choices: a third into the run answers are guesses, and
    # boxes, if there are any, are missed. That choices change between validations would prove less: they do while a
    # scorer learns, and stay when it gets no gradient at all.
    "no opinion": Rule(
        5,
        0.3,
        lambda s: s.entropy > 0.99 and s.guesses and s.fails,
        lambda s: (
            f"after {s.progress:.0%} of the steps all places still score the same (relative entropy {s.entropy:.3f}) "
            f"and answers are guesses{_hits(s)}. The scorer has not learned where to look. Try "
            "training.label_free.steps 300, a smaller training.loss.entropy_coefficient, a higher "
            "training.scorer.rate, or a larger model.view.scale if the view is too small to show what matters."
        ),
    ),
    # Reading may start late, so this waits longest. It also finds a scorer that went astray in a way that no other rule
    # knows, such as to the pockets of all billiard tables.
    "guesses": Rule(
        3,
        0.6,
        lambda s: s.guesses and s.fails and not math.isnan(s.entropy),
        lambda s: (
            f"after {s.progress:.0%} of the steps answers are still, or again, no better than guesses{_hits(s)}. The "
            "report shows where the model looks. Try training.name guided_by_detail or a lower "
            "training.scorer.rate if that is the wrong place; training.evenly true, a higher optimizer.lr or more "
            "steps if it is the right one."
        ),
    ),
    # If evidence always lies in one place, looking there is right, and answers or hits show it.
    "same place": Rule(
        3,
        0.15,
        lambda s: s.agreement > 0.95 and s.by_chance < 0.5 and s.fails,
        lambda s: (
            f"the chosen patches are the same for every image: on average {s.agreement:.0%} of the images share a "
            f"place{_hits(s)}. Try training.label_free.steps 300, a lower training.scorer.rate, a data.augmentation "
            "that shifts, or more noise where the selection has any (model.selection.sigma)."
        ),
    ),
    # Large patches are near a border wherever they are, so the share is compared with that of all candidates.
    "edge": Rule(
        3,
        0.15,
        lambda s: s.at_edge > 0.75 and s.edge_by_chance < s.at_edge / 2 and s.fails,
        lambda s: (
            f"{s.at_edge:.0%} of the chosen patches hug an edge of the image, where {s.edge_by_chance:.0%} of the "
            f"candidates are{_hits(s)}. Try training.label_free.steps 300, a data.augmentation that shifts, "
            "model.extraction.geometry aligned, and see whether the images have a frame that could be cropped."
        ),
    ),
    # Gradients also end with the noise, which is as planned, and with the loss, which is as hoped.
    "no gradient": Rule(
        2,
        0.1,
        lambda s: s.gradient < 1e-3 and s.sigma > 0.25 and s.fails,
        lambda s: (
            f"the scorer's gradient has vanished ({s.gradient:.1e} of what it was at first) before it learned where to "
            f"look{_hits(s)}. Try a larger model.selection.sigma, a larger training.loss.entropy_coefficient, or a "
            "lower training.scorer.rate."
        ),
    ),
}


class CollapseWatch:
    """Looks at every validation, says what is wrong once until it has gone away, and notes it in the run folder."""

    def __init__(self, files: RunFolder, learner: Learner):
        self.files, self.learner = files, learner
        self.history: list[Snapshot] = []
        self.active: set[str] = set()
        self._early: list[float] = []  # the scorer's mean gradient norms at the first validations
        self._norms, self._finite = [0.0, 0], True  # sum and number of those norms since the last validation

    def state_dict(self) -> dict[str, Any]:
        """Plain numbers and words."""
        history = [snapshot._asdict() for snapshot in self.history]
        return {
            "history": history,
            "active": sorted(self.active),
            "early": self._early,
            "norms": [float(self._norms[0]), int(self._norms[1])],
            "finite": self._finite,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As it was when the checkpoint was written."""
        self.history = [Snapshot(**values) for values in state_dict["history"]]
        self.active = set(state_dict["active"])
        self._early = list(state_dict["early"])
        self._norms, self._finite = list(state_dict["norms"]), state_dict["finite"]

    def begin(self, step: int) -> None:
        """What was noted after the step from which the run resumes will be found again."""
        self.warnings = self.files.open_warnings(step=step)

    def before_clipping(self, step: int) -> None:
        """The scorer's gradient, as it came; not in steps whose loss does not reach it, as planned."""
        phase = self.learner.plan.at(step)
        out_of_reach = phase.guided and not phase.loss.get("mixture_coefficient")
        if self.learner.full_sigma is None or not phase.labeled or out_of_reach:
            return
        gradients = [p.grad.detach() for p in self.learner.model.scorer.parameters() if p.grad is not None]
        if gradients:
            norm = torch.nn.utils.get_total_norm(gradients)
            # 16-mixed tries scales that overflow, and leaves such steps out. A tensor: nothing waits for a GPU here.
            counts = norm.isfinite()
            self._norms[0] = self._norms[0] + torch.where(counts, norm, 0.0)
            self._norms[1] = self._norms[1] + counts

    def after(self, step: int, learned: Learned) -> None:
        """A loss that is not finite is told at once: the next step may fail on the scores."""
        if not bool(torch.isfinite(learned.loss).all()):
            self._finite = False
            self._tell(step, [NOT_FINITE])

    def validated(self, step: int, predictions: Predictions, task: Task) -> None:
        """Add a snapshot and look at all of them. Not before the first label."""
        if self.learner.plan.labeled_step(step) <= 0:
            return
        self.history.append(self._snapshot(step, predictions, task))
        del self.history[:-KEPT]
        self._norms, self._finite = [0.0, 0], True
        findings = examine(self.history)
        self.active &= {finding.kind for finding in findings}
        self._tell(step, findings)

    def _snapshot(self, step: int, predictions: Predictions, task: Task) -> Snapshot:
        learner, facts = self.learner, {}
        if learner.chooses:
            size = learner.model.config.image_size  # images of other sizes are taken to be like it
            facts["places"] = find_places(learner.model.grid(size), size)
        if (sigma := learner.sigma(step)) is not None and learner.full_sigma:
            facts |= {"gradient": self._relative_gradient(), "sigma": sigma / learner.full_sigma}
        return take_snapshot(predictions, task=task, progress=learner.plan.progress(step), finite=self._finite, **facts)

    def _relative_gradient(self) -> float:
        total, count = map(float, self._norms)
        if not count:
            return math.nan
        norm = total / count
        if len(self._early) < EARLY:
            self._early.append(norm)
        return norm / max(self._early) if max(self._early) > 0 else 0.0

    def _tell(self, step: int, findings: Sequence[Finding]) -> None:
        news = [finding for finding in findings if finding.kind not in self.active]
        self.active |= {finding.kind for finding in news}
        for finding in news if self.files.writes else ():
            log.warning("step %d, %s: %s", step, finding.kind, finding.message)
            self.warnings.add(TrainingWarning(step, *finding))
