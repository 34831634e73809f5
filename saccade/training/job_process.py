"""A job's command in a process of its own, on this machine; and what such a process is wherever it runs."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from filelock import lock_descriptor


class Order(NamedTuple):
    """What is to be run.

    lock: a file that is locked as long as the process lives, and no other process of the same job can start.
    log:  where its output goes, after what is there if it is `resumed`.
    cwd:  the folder that names in the command are relative to.
    env:  what is different from the variables of whoever starts it.
    """

    command: tuple[str, ...]
    lock: Path
    log: Path
    resumed: bool
    cwd: str
    env: Mapping[str, str]


class Lost(NamedTuple):
    """Why a job is to be started again: its process is gone, or never began since another one has the lock."""

    reason: str
    gone: bool


class Process(Protocol):
    """A job at work."""

    def poll(self) -> int | Lost | None:
        """Its exit code; None as long as it runs."""
        ...

    def terminate(self) -> None:
        """Ask it to save and leave."""
        ...

    def kill(self) -> None:
        """End it, and all that it has started."""
        ...

    def close(self) -> None:
        """It has ended: another process of the same job may start."""
        ...


Start = Callable[[Order], Process | None]


class ProcessHere(NamedTuple):
    """On this machine, and the lock that it shares."""

    process: "subprocess.Popen[bytes]"
    lock: IO[str]

    def poll(self) -> int | None:
        """Its exit code; None as long as it runs."""
        return self.process.poll()

    def terminate(self) -> None:
        """Ask it to save and leave."""
        self.process.terminate()

    def kill(self) -> None:
        """End it, and all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Let go of the lock; the process has done so when it ended."""
        self.lock.close()


def start_here(order: Order) -> ProcessHere | None:
    """Start it on this machine, or return None if another process holds the lock."""
    lock = lock_file(order.lock)
    if lock is None:
        return None
    with order.log.open("ab" if order.resumed else "wb") as log:
        process = subprocess.Popen(
            order.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=order.cwd,
            env={**os.environ, **order.env},
            pass_fds=(lock.fileno(),),  # it inherits the lock, which ends with the last of both
            start_new_session=True,  # Ctrl-C is for the runner, which asks its runs one by one
        )
    return ProcessHere(process, lock)


def lock_file(path: Path) -> IO[str] | None:
    """The lock on `path`, or None if a process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.open("w")
    if not lock_descriptor(lock.fileno(), blocking=False):
        lock.close()
        return None
    return lock
