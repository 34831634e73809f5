"""The numbers of a run where people keep those of theirs: MLflow or Weights & Biases, through Lightning's own loggers.

`--logger mlflow` sends them to MLFLOW_TRACKING_URI, `--logger wandb` to where W&B is logged in (WANDB_MODE=offline
keeps them here); `metrics.csv` and TensorBoard are written all the same. A run that is resumed goes on in the same
MLflow or W&B run, whose name is in `run.json`. Neither package is imported unless it was asked for.
"""

import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from saccade.extras import require
from saccade.files import told
from saccade.runs import RunFolder
from saccade.runs.run_facts import Facts
from saccade.training.interrupts import Stopped

if TYPE_CHECKING:
    from lightning.pytorch.loggers import Logger

log = logging.getLogger("saccade")

PROJECT = "saccade"  # where neither MLFLOW_EXPERIMENT_NAME nor WANDB_PROJECT says another


class Tracker:
    """Takes the numbers of a run; without a logger, nowhere. What fails on the way there does not stop the training."""

    def __init__(self, logger: "Logger | None" = None):
        self.logger = logger

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step."""
        if self.logger is None:
            return
        try:
            self.logger.log_metrics(dict(values), step)
        except Exception as error:
            log.warning(
                "numbers go no longer to %s (%s); metrics.csv has all of them", type(self.logger).__name__, told(error)
            )
            self.logger = None


@contextmanager
def tracking(logger: str | None, files: RunFolder, facts: Facts) -> Iterator[Tracker]:
    """The tracker of a run while the block lasts: a new run there, or the one that it began with."""
    if logger is None or not files.writes:
        yield Tracker()
        return
    known = facts.known.get("tracked_by", {})
    kind = LOGGERS[logger]
    made, name = _begin(logger, kind, files, known.get(logger))
    facts.note(tracked_by={**known, logger: name})
    tracker, state = Tracker(made), "FAILED"
    try:
        yield tracker
        state = "FINISHED"
    except (Stopped, KeyboardInterrupt):
        state = "KILLED"
        raise
    finally:
        _end(kind, made, state)


def check_logger(logger: str | None) -> None:
    """Refuse a logger whose package is not installed, before anything is read."""
    if logger is not None:
        require(logger, f"--logger {logger}")


class Kind(NamedTuple):
    """How a logger begins, what it is told at the end, and what is missing where it cannot begin."""

    begin: Callable[[RunFolder, str | None], tuple[Any, str]]
    end: Callable[[Any, str], None]
    remedy: str


def _begin(logger: str, kind: Kind, files: RunFolder, known: str | None) -> tuple[Any, str]:
    try:
        made, name = kind.begin(files, known)
        if known is None:
            made.log_hyperparams(yaml.safe_load(files.recipe_text()))
    except Exception as error:
        raise ValueError(
            f"--logger {logger} cannot begin ({told(error)[:160]} …): {kind.remedy}, or train without --logger, which "
            "writes metrics.csv and TensorBoard all the same"
        ) from error
    return made, name


def _end(kind: Kind, made: Any, state: str) -> None:
    try:
        kind.end(made, state)
    except Exception as error:
        log.warning("the run could not be ended there (%s)", told(error))


def _begin_mlflow(files: RunFolder, known: str | None) -> tuple[Any, str]:
    import mlflow
    from lightning.pytorch.loggers.mlflow import MLFlowLogger

    experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    # The variable first: Lightning sets MLflow's own notion of it for the whole process.
    where = os.environ.get("MLFLOW_TRACKING_URI") or mlflow.get_tracking_uri()
    logger = MLFlowLogger(experiment, run_name=files.name, tracking_uri=where, run_id=known)
    name = str(logger.run_id)
    if known is not None:
        logger.experiment.update_run(name, status="RUNNING")
    return logger, name


def _end_mlflow(logger: Any, state: str) -> None:
    logger.finalize(state)


def _begin_wandb(files: RunFolder, known: str | None) -> tuple[Any, str]:
    from lightning.pytorch.loggers.wandb import WandbLogger

    name = known or secrets.token_hex(4)  # not of the run's own randomness
    project = os.environ.get("WANDB_PROJECT", PROJECT)
    logger = WandbLogger(name=files.name, project=project, save_dir=files.path, id=name)
    logger.experiment  # noqa: B018 (begins it: what cannot begin is told now)
    return logger, name


def _end_wandb(logger: Any, state: str) -> None:
    logger.experiment.finish(exit_code=0 if state == "FINISHED" else 1)


SERVER = "set MLFLOW_TRACKING_URI to a server that answers, or keep runs in a file here, with pip install mlflow"
ACCOUNT = "give `wandb login`, or set WANDB_MODE=offline"
LOGGERS = {"mlflow": Kind(_begin_mlflow, _end_mlflow, SERVER), "wandb": Kind(_begin_wandb, _end_wandb, ACCOUNT)}
