"""What a run is doing: a live bar on a terminal, a plain line after every validation elsewhere.

training ━━━━━━━━━━━━━━━━━━━━━━━━╸──────────────── 1200/2000 2 min left
loss 0.412  accuracy 86.1%  σ 0.020  val accuracy 84.0%  val hit rate 91.2%
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from rich.console import Console
from torch import Tensor

from saccade.training.callbacks.live_bar import LiveBar

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


class Progress(Callback):
    """Shows how far a run or an evaluation is, on the first process only."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(stderr=True)
        self.smooth: dict[str, Smooth] = {}
        self._bar: LiveBar | None = None
        self._clock: Clock | None = None
        self._began, self._drawn = 0.0, 0.0

    # ---- training

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """From the step at which the run begins, or goes on."""
        self._began, self._clock, self.smooth = time.monotonic(), None, {}
        if self._may_draw(trainer):
            self._bar = LiveBar(self.console, _phase(pl_module), trainer.max_steps, trainer.global_step)

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Steps of the warm-up are quick and their loss is another: all means begin again with the first label."""
        if self._clock is None and not pl_module.warming_up:
            self._clock, self.smooth = Clock(time.monotonic(), trainer.global_step), {}

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Numbers are fetched from their device only as often as they are drawn."""
        for name in ("loss", "accuracy"):
            if name in outputs:
                self.smooth.setdefault(name, Smooth()).add(outputs[name])
        if time.monotonic() - self._drawn > REFRESH_SECONDS or trainer.global_step >= trainer.max_steps:
            self._draw(trainer, pl_module)

    def _draw(self, trainer: Trainer, task: Any) -> None:
        if self._bar is None:
            return
        self._drawn = time.monotonic()
        where = {"description": _phase(task), "completed": trainer.global_step}
        self._bar.update(**where, left=self._time_left(trainer), facts=_join(self._facts(task)))

    def _facts(self, task: Any) -> Iterator[str]:
        """Means of the latest steps, σ, and the last validation; in the warm-up answers mean nothing yet."""
        yield from (_say(name, float(mean)) for name, mean in self.smooth.items())
        if task.warming_up:
            return
        if task.sigma is not None:
            yield f"σ {task.sigma:.3f}"
        for name in ("accuracy", "hit_rate"):
            if name in task.measures:
                yield _say(f"val {name.replace('_', ' ')}", task.measures[name])

    def _time_left(self, trainer: Trainer) -> str:
        return self._clock.left(trainer.global_step, trainer.max_steps) if self._clock else ""

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        """The full bar stays."""
        self._draw(trainer, pl_module)
        self._close()

    # ---- evaluation: within training the bar waits, alone it has one of its own

    def on_validation_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Say so."""
        self._begin_evaluation(trainer, "validation", trainer.num_val_batches)

    def on_test_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Say so."""
        self._begin_evaluation(trainer, "testing", trainer.num_test_batches)

    def _begin_evaluation(self, trainer: Trainer, phase: str, batches: list[int | float]) -> None:
        if trainer.state.fn == TrainerFn.FITTING:
            if self._bar:
                self._bar.update(description=phase, refresh=True)
        elif self._may_draw(trainer):
            self._bar = LiveBar(self.console, phase, sum(batches))
        elif trainer.is_global_zero:
            self._print(f"{phase}: {sum(batches)} batches")

    def on_validation_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        """One further."""
        self._advance(trainer)

    def on_test_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        """One further."""
        self._advance(trainer)

    def _advance(self, trainer: Trainer) -> None:
        if self._bar and trainer.state.fn != TrainerFn.FITTING:
            self._bar.update(advance=1)

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Within training: the new numbers, in the bar or in a line."""
        if trainer.state.fn != TrainerFn.FITTING:
            self._close()
        elif self._bar:
            self._draw(trainer, pl_module)
        elif trainer.is_global_zero and not trainer.sanity_checking:
            where = f"{_phase(pl_module)} {trainer.global_step}/{trainer.max_steps}"
            seconds = say_seconds(time.monotonic() - self._began)
            self._print(_join([where, *self._facts(pl_module), seconds, self._time_left(trainer)]))

    def on_test_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Done."""
        self._close()

    # ---- the terminal

    def _may_draw(self, trainer: Trainer) -> bool:
        return trainer.is_global_zero and self.console.is_terminal and not self.console.is_dumb_terminal

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, highlight=False, markup=False)
        self.console.file.flush()

    def on_exception(self, trainer: Trainer, pl_module: Any, exception: BaseException) -> None:
        """Give the terminal back."""
        self._close()

    def teardown(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        """Give the terminal back."""
        self._close()

    def _close(self) -> None:
        if self._bar:
            self._bar.close()
        self._bar = None


def _phase(task: Any) -> str:
    return "warm-up" if task.warming_up else "training"


def _say(name: str, value: float) -> str:
    return f"{name} {value:.3f}" if name.endswith("loss") else f"{name} {value:.1%}"


def _join(words: Iterable[str]) -> str:
    return "  ".join(filter(None, words))
