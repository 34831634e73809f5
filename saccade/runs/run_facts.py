"""`run.json`: what a run was made with, so that its numbers can be believed and made again.

schema               version of the run folder's files
seed, command        of the run, and `saccade`, `python`, `versions` of the packages
commit, hardware, threads    "a then b" if the run was resumed with other code or on another machine
parameters           how many the model has
frozen               what the heads of a frozen start answer on images they never saw, and what was taken of it
tracked_by           the name of the run in MLflow or W&B, where it was asked for
phases               [{"name": …, "from": step, "to": step}, …], the parts of the training one after the other
began, finished      points in time; a run without the second one can be resumed
seconds_of_training  over all the times the run was resumed
"""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import saccade
from saccade.plain_trees import check_types, read_json, write_json

SCHEMA = 2
TYPES = {
    **dict.fromkeys(("command", "began", "finished", "saccade", "python", "hardware"), str),
    **{"seed": int, "parameters": int, "commit": str | None, "threads": int | str, "seconds_of_training": float},
    **{"versions": dict[str, str], "phases": list[dict[str, Any]]},
    "tracked_by": dict[str, str],
}
OF_PHASE = {"name": str, "from": int, "to": int}
REMEDY = "restore it from a copy, or train again in another folder"
PACKAGES = ("torch", "torchvision", "timm", "lightning", "numpy", "pillow")


def read_facts(path: Path) -> dict[str, Any]:
    """The facts in a file, if this version reads the files of the run they are of."""
    facts = read_json(path, REMEDY)
    _check_schema(path, facts)
    check_types(path, facts, TYPES, REMEDY)
    for phase in facts.get("phases", ()):
        check_types(path, dict.fromkeys(OF_PHASE) | phase, OF_PHASE, REMEDY)
    return facts


def _check_schema(path: Path, facts: dict[str, Any]) -> None:
    schema = facts.get("schema", 1)
    if schema == SCHEMA:
        return
    if isinstance(schema, int) and schema < SCHEMA:
        raise ValueError(
            f"{path}: the run is of an earlier version of Saccade ({facts.get('saccade', 'unknown')}, files of version "
            f"{schema}, expected {SCHEMA}); train again in another folder, or use that version"
        )
    raise ValueError(
        f"{path}: the run is of a later version of Saccade ({facts.get('saccade', 'unknown')}, files of version "
        f"{schema}, expected {SCHEMA}); update Saccade to read it"
    )


class Facts:
    """The facts in a file; what is added is on disk at once."""

    def __init__(self, path: Path, known: Mapping[str, Any], *, writes: bool = True):
        self.path = path
        self.known = dict(known)
        self.writes = writes

    def begin(self, *, seed: int, parameters: int, phases: Iterable[Mapping[str, Any]], accelerator: str) -> None:
        """Note who, what and on what; a run that is resumed keeps what was noted when it began.

        If it is resumed with other code or on another machine, both are kept.
        """
        made = made_with(accelerator)
        for name in ("commit", "hardware", "threads"):
            if name in self.known and str(made[name]) not in str(self.known[name]).split(" then "):
                self.known[name] = f"{self.known[name]} then {made[name]}"
        self._add(
            {
                "schema": SCHEMA,
                "seed": seed,
                "command": " ".join(sys.argv),
                "began": now(),
                **made,
                "parameters": parameters,
                "phases": [dict(phase) for phase in phases],
                "seconds_of_training": 0.0,
                **self.known,
            }
        )

    def note(self, **facts: Any) -> None:
        """What became known on the way."""
        self._add(facts)

    def start_clock(self) -> None:
        """Training begins, or is resumed."""
        self._counted, self._began = self.known["seconds_of_training"], time.monotonic()

    def count_seconds(self) -> None:
        """Note the training time so far."""
        self._add({"seconds_of_training": self._counted + time.monotonic() - self._began})

    def finish(self) -> None:
        """The run needs nothing more."""
        self._add({"finished": now()})

    def _add(self, facts: dict[str, Any]) -> None:
        self.known |= facts
        if self.writes:
            write_json(self.path, self.known)


def made_with(accelerator: str) -> dict[str, Any]:
    """The code, the packages and the machine that numbers come from."""
    import torch

    return {
        "saccade": saccade.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "hardware": hardware(accelerator),
        "threads": torch.get_num_threads(),
    }


def commit() -> str | None:
    """The commit of this package's source, with "+" if it was changed since; None where it is installed without git."""
    package = Path(saccade.__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(package), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", str(package / "__init__.py"))
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", str(package)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def hardware(accelerator: str) -> str:
    """The GPU if there is one to use, else the processor and the number of its cores."""
    import torch

    if accelerator != "cpu" and torch.cuda.is_available():
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name()}"
    return f"{os.cpu_count()} cores of {_processor()}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
