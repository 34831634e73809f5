"""What a run is doing: a live bar on a terminal, a plain line after every validation elsewhere.

training ━━━━━━━━━━━━━━━━━━━━━━━━╸──────────────── 1200/2000 2 min left
loss 0.412  accuracy 86.1%  σ 0.020  val accuracy 84.0%  val hit rate 91.2%
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from rich.console import Console
from torch import Tensor

from saccade.training.learner import Learned, Learner
from saccade.training.observers.live_bar import LiveBar

REFRESH_SECONDS = 0.25
HALF_LIFE_STEPS = 15


class Smooth:
    """A running mean in which a value loses half of its weight every `HALF_LIFE_STEPS` values; exact from the first.

    It is fed at every step and read seldom, so values stay on their device until then.

    >>> mean = Smooth()
    >>> mean.add(torch.tensor(3.0))
    >>> float(mean)
    3.0
    """

    def __init__(self) -> None:
        self.total = torch.zeros(())
        self.weight = 0.0

    def add(self, value: Tensor) -> None:
        """The newest value."""
        keep = 0.5 ** (1 / HALF_LIFE_STEPS)
        self.total = keep * self.total.to(value.device) + value.detach()
        self.weight = keep * self.weight + 1

    def __float__(self) -> float:
        return float(self.total) / self.weight


@runtime_checkable
class Watched(Protocol):
    """Things of which it is known how many there are: batches, for instance."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


class Clock(NamedTuple):
    """When counting began, and at which step."""

    began: float
    step: int

    def left(self, step: int, total: int) -> str:
        """How long the rest takes if it goes on as so far, validations included; nothing before a step is done."""
        done = step - self.step
        return f"{say_seconds((time.monotonic() - self.began) / done * (total - step))} left" if done else ""


def say_seconds(seconds: float) -> str:
    """A length of time, as exact as anybody wants to know it.

    >>> [say_seconds(seconds) for seconds in (8.2, 200, 4000)]
    ['8 s', '3 min', '1 h 7 min']
    """
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Progress:
    """Shows how far a training or an evaluation is; give the processes that should be silent a quiet console."""

    def __init__(self, console: Console):
        self.console = console
        self.smooth: dict[str, Smooth] = {}
        self.measures: Mapping[str, float] = {}
        self._bar: LiveBar | None = None
        self._clock: Clock | None = None
        self._began, self._drawn = 0.0, 0.0

    @contextmanager
    def _showing(self, what: str, total: float, step: int = 0) -> Iterator[None]:
        """A bar while this lasts, where there is a terminal to draw on."""
        terminal = self.console.is_terminal and not self.console.is_dumb_terminal and not self.console.quiet
        self._bar = LiveBar(self.console, what, total, step) if terminal else None
        try:
            yield
        finally:
            if self._bar:
                self._bar.close()
            self._bar = None

    # ---- training

    @contextmanager
    def training(self, learner: Learner, step: int) -> Iterator[None]:
        """From the step at which the run begins, or resumes; the full bar stays."""
        self.learner, self._began = learner, time.monotonic()
        with self._showing(self._phase(step), learner.plan.total, step):
            yield
            self._draw(learner.plan.total)

    def before(self, step: int) -> None:
        """Label-free steps are quick and their loss is another: all means begin again with the first label."""
        if self._clock is None and self.learner.plan.at(step).labeled:
            self._clock, self.smooth = Clock(time.monotonic(), step), {}

    def after(self, step: int, learned: Learned) -> None:
        """Numbers are fetched from their device only as often as they are drawn."""
        for name, value in learned._asdict().items():
            if value is not None:
                self.smooth.setdefault(name, Smooth()).add(value)
        if time.monotonic() - self._drawn > REFRESH_SECONDS:
            self._draw(step)

    def begin_validation(self) -> None:
        """Say so."""
        if self._bar:
            self._bar.update(description="validation", refresh=True)

    def validated(self, step: int, measures: Mapping[str, float]) -> None:
        """The new numbers, in the bar or in a line."""
        self.measures = measures
        if self._bar:
            self._draw(step)
            return
        where = f"{self._phase(step)} {step}/{self.learner.plan.total}"
        seconds = say_seconds(time.monotonic() - self._began)
        self._print(_join([where, *self._facts(step), seconds, self._time_left(step)]))

    def _draw(self, step: int) -> None:
        if self._bar is None:
            return
        self._drawn = time.monotonic()
        where = {"description": self._phase(step), "completed": step}
        self._bar.update(**where, left=self._time_left(step), facts=_join(self._facts(step)))

    def _phase(self, step: int) -> str:
        plan = self.learner.plan
        return "training" if len(plan.spans) == 1 else f"training ({plan.at(step).name.replace('_', ' ')})"

    def _facts(self, step: int) -> Iterator[str]:
        """Means of the latest steps, σ, and the last validation; before the first label answers mean nothing yet."""
        yield from (_say(name, float(mean)) for name, mean in self.smooth.items())
        if not self.learner.plan.at(step).labeled:
            return
        if (sigma := self.learner.sigma(step)) is not None:
            yield f"σ {sigma:.3f}"
        for name in ("accuracy", "hit_rate"):
            if name in self.measures:
                yield _say(f"val {name.replace('_', ' ')}", self.measures[name])

    def _time_left(self, step: int) -> str:
        return self._clock.left(step, self.learner.plan.total) if self._clock else ""

    # ---- evaluation, and what comes before training

    def going_through(self, things: Watched, what: str = "testing", *, of: str = "batches") -> Iterator[Any]:
        """The things, one after the other, with a bar of their own that says `what` is done to them."""
        with self._showing(what, len(things)):
            if self._bar is None:
                self._print(f"{what}: {len(things)} {of}")
            for thing in things:
                yield thing
                if self._bar:
                    self._bar.update(advance=1)

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, highlight=False, markup=False)
        self.console.file.flush()


def _say(name: str, value: float) -> str:
    return f"{name} {value:.3f}" if name.endswith("loss") else f"{name} {value:.1%}"


def _join(words: Iterable[str]) -> str:
    return "  ".join(filter(None, words))
