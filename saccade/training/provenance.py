"""`run.json`: what a run was made with, so that its numbers can be believed and made again."""

import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import nn

import saccade
from saccade.files import write_whole
from saccade.training.recipe import Recipe

PACKAGES = ("torch", "torchvision", "timm", "lightning", "numpy", "pillow")


class Facts:
    """The facts in a file; what is added is on disk at once."""

    def __init__(self, path: Path):
        self.path = path
        self.known: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}

    def get(self, name: str) -> Any:
        """A fact, or None."""
        return self.known.get(name)

    def begin(self, recipe: Recipe, model: nn.Module) -> None:
        """Write down who, what and on what; a run that goes on keeps what was written when it began.

        If it goes on with other code or on another machine, both are kept.
        """
        made = made_with(recipe.accelerator)
        for name in ("commit", "hardware", "threads"):
            if self.known and str(made[name]) not in str(self.known[name]).split(" then "):
                self.known[name] = f"{self.known[name]} then {made[name]}"
        self._add(
            {
                "seed": recipe.seed,
                "command": " ".join(sys.argv),
                "began": now(),
                **made,
                "parameters": sum(p.numel() for p in model.parameters()),
                "seconds_of_training": 0.0,
                **self.known,
            }
        )

    def start_clock(self) -> None:
        """Training begins, or goes on."""
        self._counted, self._began = self.known["seconds_of_training"], time.monotonic()

    def count_seconds(self) -> None:
        """Training time so far, over all the times the run went on."""
        self._add({"seconds_of_training": self._counted + time.monotonic() - self._began})

    def finish(self) -> None:
        """The run needs nothing more."""
        self._add({"finished": now()})

    def _add(self, facts: dict[str, Any]) -> None:
        self.known |= facts
        rank_zero_only(write_whole)(self.path, json.dumps(self.known, indent=1))


def made_with(accelerator: str) -> dict[str, Any]:
    """The code, the packages and the machine that numbers come from."""
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
    here = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", str(here / "recipe.py"))
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", str(here.parent)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def hardware(accelerator: str) -> str:
    """The GPU if there is one to use, else the processor and the number of its cores."""
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
