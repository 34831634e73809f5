"""What a run needs to resume: written whole or not at all, the last two kept, a damaged one passed over.

A checkpoint is what `torch.save` makes of it, and the SHA-256 of that: torch itself takes most damage for weights.
"""

import io
import logging
import math
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.evaluation.sureness import Gain
from saccade.files import shown, told, whole_file
from saccade.runs import RunFolder
from saccade.system import System

log = logging.getLogger("saccade")

KEPT = 2
DIGEST = sha256().digest_size
SMALLER_IS_BETTER = {"loss", "mean_absolute_error"}


@runtime_checkable
class Stateful(Protocol):
    """What can be put into a checkpoint and back."""

    def state_dict(self) -> Mapping[str, Any]: ...  # noqa: D102

    def load_state_dict(self, state_dict: Any) -> Any: ...  # noqa: D102


def save_checkpoint(folder: Path, step: int, parts: Mapping[str, Stateful]) -> None:
    """Write what the parts were after `step` steps; older checkpoints than the last two go."""
    folder.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    torch.save({name: part.state_dict() for name, part in parts.items()}, content)
    with whole_file(folder / f"{step:08d}.ckpt") as part, part.open("wb") as file:
        file.write(content.getbuffer())
        file.write(sha256(content.getbuffer()).digest())
        file.flush()
        os.fsync(file.fileno())
    for old in sorted(folder.glob("*.ckpt"))[:-KEPT]:
        old.unlink()


def resume(folder: Path, parts: Mapping[str, Stateful]) -> int:
    """Make the parts what they were at the newest checkpoint that can be read, and say after how many steps that was.

    A damaged checkpoint is told of, and the one before it is taken; without any, the parts stay as they are.
    """
    for path in sorted(folder.glob("*.ckpt"), reverse=True):
        try:
            step, state = int(path.stem), _read(path)
        except Exception as error:  # whatever a damaged file makes its readers do
            log.warning("%s cannot be read (%s): taking the one before it, if there is one", shown(path), told(error))
            continue
        try:
            for name, part in parts.items():
                part.load_state_dict(state[name])
        except Exception as error:
            raise ValueError(
                f"{path} is not damaged, but of another model or version ({told(error)}): give another folder with "
                "--out, or delete the checkpoints to train this run from its first step"
            ) from error
        return step
    return 0


def _read(path: Path) -> Mapping[str, Any]:
    content = memoryview(path.read_bytes())
    if sha256(content[:-DIGEST]).digest() != content[-DIGEST:]:
        raise ValueError("it is damaged: its checksum is another")
    return torch.load(io.BytesIO(content[:-DIGEST]), map_location="cpu", weights_only=True)


class BestModel:
    """Keeps the best model and the last one.

    best_by: the number of the validation that says which is the best; None takes the last one.

    A model that answered before its first step stays until a later one loses less on the same images, by more than a
    standard error of the differences: less may be chance.
    """

    def __init__(self, files: RunFolder, best_by: str | None):
        self.files = files
        self.best_by = best_by
        self.best: float | None = None
        self.step = 0
        self.to_beat: Tensor | None = None

    def state_dict(self) -> dict[str, Any]:
        """The best value so far, after how many labeled steps it was reached, and the losses that must be beaten."""
        return {"best": self.best, "step": self.step, "to_beat": self.to_beat}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Those of the run that is resumed."""
        self.best, self.step, self.to_beat = (state_dict[name] for name in ("best", "step", "to_beat"))

    def begin(self, model: System, measures: Mapping[str, float], losses: Float[Tensor, " n"]) -> None:
        """Keep a model that answers before its first step; `losses` are those of the validation images."""
        self.best, self.to_beat = self._value(0, measures), losses
        self._write(model, self.files.best)
        self._write(model, self.files.last)

    def keep(
        self, model: System, labeled_step: int, measures: Mapping[str, float], losses: Float[Tensor, " n"]
    ) -> None:
        """Write the model of a validation as the last one, and as the best one if it is."""
        value = self._value(labeled_step, measures)
        # Weights that are lost still answer something, and may be right by chance.
        sound = math.isfinite(value) and math.isfinite(measures["loss"])
        if labeled_step > 0 and sound and self._is_better(value, losses):
            self.best, self.step, self.to_beat = value, labeled_step, None
            self._write(model, self.files.best)
        self._write(model, self.files.last)

    def _is_better(self, value: float, losses: Float[Tensor, " n"]) -> bool:
        if self.to_beat is not None and self.best_by is not None:
            return Gain.of(self.to_beat, losses).is_clear
        # Of equals the later one: a few validation images are soon all answered right, long before training has ended.
        return self.best is None or value >= self.best

    def _value(self, labeled_step: int, measures: Mapping[str, float]) -> float:
        """How good the model is, the higher the better."""
        if self.best_by is None:
            return float(labeled_step)
        # A number may not apply: no area can be told of labels that all validation images have, or none.
        by = self.best_by if self.best_by in measures else "loss"
        return measures[by] * (-1 if by in SMALLER_IS_BETTER else 1)

    def _write(self, model: System, folder: Path) -> None:
        if self.files.writes:
            model.save_pretrained(folder)
