"""What runs on the machines of a cluster for `predict --ray`: a model, asked for lines about lists of names."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from saccade.images import Guard
from saccade.images.guarded import SUPPORTED
from saccade.places import is_url
from saccade.predict.line_formats import Format
from saccade.predict.outcomes import Failure
from saccade.predict.predictor import Predictor
from saccade.predict.shard_queue import Line

SEND_EVERY_S = 0.5


class Question(NamedTuple):
    """What every worker must know; `saccade predict` has it from its command line.

    folder:  the one that names are relative to, by its path on all machines.
    begin:   called before anything else, in the process of the worker.
    workers: processes that read ahead for it.
    """

    run: str
    form: type[Format]
    folder: str
    fold: str | None = None
    device: str | None = None
    compile: bool = False
    max_pixels: int | None = None
    batch: int = 8
    workers: int = 1
    begin: Callable[[], object] = bool


class Answers(NamedTuple):
    """What the lines of a model are about."""

    classes: list[str]
    decides: bool


class Worker:
    """A model in a process of its own."""

    def __init__(self, question: Question):
        self.question = question

    @cached_property
    def _predictor(self) -> Predictor:
        asked = self.question
        asked.begin()
        options = {"fold": asked.fold, "device": asked.device, "compile": asked.compile, "max_pixels": asked.max_pixels}
        return Predictor(self._here(asked.run), guard=Guard().start() if SUPPORTED else None, **options)

    def load(self) -> Answers:
        """Be ready; whatever is wrong with the run says on which machine it is wrong."""
        try:
            return Answers(list(self._predictor.classes), self._predictor.rule is not None)
        except (OSError, ValueError) as error:
            error.add_note(f"on {socket.gethostname()}: all machines need the run under this name")
            raise

    def answer(self, names: Sequence[str]) -> Iterator[list[Line]]:
        """A line for each, in order, some at a time."""
        answers = self.load()
        form = self.question.form(answers.classes, decides=answers.decides)
        outcomes = self._predictor.stream(
            map(self._here, names), batch=self.question.batch, workers=self.question.workers
        )
        lines, sent = [], time.monotonic()
        for name, (_, outcome) in zip(names, outcomes, strict=True):
            lines.append(Line(form.line(name, outcome), name, outcome.error if isinstance(outcome, Failure) else None))
            if time.monotonic() - sent > SEND_EVERY_S:
                yield lines
                lines, sent = [], time.monotonic()
        yield lines

    def _here(self, name: str) -> str:
        return name if is_url(name) else os.path.join(self.question.folder, name)
