"""Jobs → finished run folders: commands side by side, each in a process of its own, on this machine or on others.

A job is trained, and then evaluated where that is asked for. Jobs that share a folder take turns, so what one has
trained is there for the next.

A run that failed is reported and the others continue. Stopping (Ctrl-C or SIGTERM) asks every run to save and leave. A
runner that was killed leaves its runs behind, still training; each holds a lock on its folder as long as it lives, so
the next runner waits for it instead of training in the same folder twice.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from saccade.training.job_process import Lost, Order, Process, Start, start_here

Say = Callable[[str], None]
State = Literal["missing", "begun", "trained", "finished", "other"]
LOOK_EVERY_S, PATIENCE_S = 0.2, 120.0
LOSSES = 5  # of a job's process, with or without its machine
LAST_LINES = 12  # of a failed run's log


@runtime_checkable
class Job(Protocol):
    """A run: the command that trains it in its folder, and the one that evaluates it then, if any."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def folder(self) -> Path: ...  # noqa: D102

    @property
    def command(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def evaluate(self) -> tuple[str, ...]: ...  # noqa: D102

    def state(self) -> State:
        """How far it is: "trained" if only its evaluation is missing, "other" if the folder holds another run."""
        ...


def beside(job: Job, suffix: str) -> Path:
    """A file of the runner's own: not in the folder, which training must find empty."""
    return job.folder.with_name(f"{job.folder.name}.{suffix}")


class Failure(NamedTuple):
    """A job that did not finish, and why."""

    job: Job
    reason: str


class _Running(NamedTuple):
    job: Job
    before: State
    process: Process
    began: float
    gpu: str | None


def run_jobs(
    jobs: Sequence[Job],
    *,
    at_once: int,
    say: Say,
    keep: Callable[[], None] = lambda: None,
    gpus: Sequence[str] = (),
    start: Start = start_here,
) -> list[Failure]:
    """Run what is not finished, `at_once` at a time, and return what failed; `keep` is called when one has ended.

    gpus:  names of GPUs, one for each of those at once (default: each job sees whatever there is).
    start: where they run; all must see the folders under the same names.
    """
    states = [(job, job.state()) for job in jobs]
    waiting = [job for job, now in states if now in ("missing", "begun", "trained")]
    failures = [Failure(job, _told_apart(job)) for job, now in states if now == "other"]
    running: list[_Running] = []
    said: set[str] = set()
    losses = Counter[str]()
    total = len(waiting)
    if total + len(failures) < len(jobs):
        say(f"{len(jobs) - total - len(failures)} of {len(jobs)} runs are finished already")
    for reason in dict.fromkeys(failure.reason for failure in failures):  # now, not only after hours; rows may share it
        say(reason)
    with _terminable():
        try:
            while waiting or running:
                before = len(waiting) + len(running)
                _start_some(waiting, running, at_once, say, said, gpus, start)
                time.sleep(LOOK_EVERY_S)
                failures += _finish_some(waiting, running, total, say, said, losses)
                if len(waiting) + len(running) < before:
                    keep()
        except BaseException:
            _stop(running, say)
            raise
    for failure in failures:
        say(f"failed: {failure.job.name}: {failure.reason}")
    return failures


def _told_apart(job: Job) -> str:
    return f"{job.folder} holds a run with other settings: delete it, or give another --out"


def _start_some(
    waiting: list[Job],
    running: list[_Running],
    at_once: int,
    say: Say,
    said: set[str],
    gpus: Sequence[str],
    start: Start,
) -> None:
    elsewhere: set[Path] = set()
    for job in list(waiting):
        if len(running) + len(elsewhere) >= at_once:
            return
        now = job.state()  # should somebody else finish it before the lock is ours, training finds nothing to do
        if now == "finished":
            waiting.remove(job)
            say(f"{job.name} was finished meanwhile")
            continue
        free = [gpu for gpu in gpus if gpu not in [each.gpu for each in running]]
        gpu = free[0] if free else None
        process = None if job.folder in [each.job.folder for each in running] else start(_order(job, now, at_once, gpu))
        if process is None:  # an earlier runner left it behind at work, or it is another runner's, or one of ours
            _say_once(f"{job.name}: waits for the process at work in {job.folder.name}", said, say)
            if job.folder not in [each.job.folder for each in running]:
                elsewhere.add(job.folder)
            continue
        waiting.remove(job)
        say(f"{job.name}: {({'begun': 'is resumed', 'trained': 'is evaluated'}).get(now, 'starts')}")
        running.append(_Running(job, now, process, time.monotonic(), gpu))


def _order(job: Job, now: State, at_once: int, gpu: str | None) -> Order:
    # Threads of other processes that wait for one core slow all of them tenfold: who says how many knows why.
    env = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(max(1, (os.cpu_count() or 1) // at_once))}
    env |= {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}
    command = job.evaluate if now == "trained" else job.command
    return Order(command, beside(job, "lock"), beside(job, "log"), now != "missing", os.getcwd(), env)


def _say_once(text: str, said: set[str], say: Say) -> None:
    if text not in said:
        said.add(text)
        say(text)


def _finish_some(
    waiting: list[Job], running: list[_Running], total: int, say: Say, said: set[str], losses: Counter[str]
) -> list[Failure]:
    failures = []
    for done, code in [(each, each.process.poll()) for each in running]:
        if code is None:
            continue
        running.remove(done)
        done.process.close()
        if isinstance(code, Lost):
            losses[done.job.name] += code.gone
            if losses[done.job.name] == LOSSES:
                failures.append(Failure(done.job, f"its process was lost {LOSSES} times: {code.reason}"))
                continue
            _say_once(f"{done.job.name}: {code.reason}", said, say)
            waiting.append(done.job)
            continue
        job, now = done.job, done.job.state() if code == 0 else None
        minutes = f"{(time.monotonic() - done.began) / 60:.1f} min"
        if now == "trained" and done.before != "trained":
            say(f"{job.name}: trained in {minutes}")
            waiting.insert(0, job)
            continue
        if now != "finished":
            failures += _fail(done, code, waiting)
        place = f"{total - len(waiting) - len(running)}/{total}"
        say(f"{job.name}: {'done in' if now == 'finished' else 'failed after'} {minutes} ({place})")
    return failures


def _fail(done: _Running, code: int, waiting: list[Job]) -> list[Failure]:
    """Why it failed; those that wait for the same training fail with it, rather than start it again."""
    job, log = done.job, beside(done.job, "log")
    failures = [Failure(job, f"exit code {code}, the end of {log}:\n{_tail(log)}")]
    if done.before != "trained":
        for other in [other for other in waiting if other.folder == job.folder]:
            waiting.remove(other)
            failures.append(Failure(other, f"it shares the run of {job.name}, which failed"))
    return failures


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-LAST_LINES:])


def _stop(running: Sequence[_Running], say: Say) -> None:
    """Let every run finish its step and save; whoever does not in time, or at a second Ctrl-C, is killed."""
    if running:
        say(f"stopping {', '.join(each.job.name for each in running)}: each saves and can be resumed")
    for each in running:
        each.process.terminate()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and any(each.process.poll() is None for each in running):
            time.sleep(LOOK_EVERY_S)
    finally:
        for each in running:
            if each.process.poll() is None:
                each.process.kill()
            each.process.close()


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM is taken as Ctrl-C."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
