"""Finished runs that nobody trained."""

import csv
import json

from saccade.reproduce.jobs import Job, Request, make_job
from saccade.reproduce.table_types import Row
from saccade.training.recipe import dump_recipe


def pretend_evaluation(job: Job, name: str, accuracy: float) -> None:
    """What `saccade evaluate` adds to the job's folder."""
    summary = {"split": name, "images": 12, "accuracy": accuracy, "multiply_adds": {"total": 5e6}}
    (job.folder / "evaluation" / f"{name}.json").write_text(json.dumps(summary))


def pretend(request: Request, row: Row, seed: int, accuracy: float, *, curve: tuple[float, ...] = ()) -> Job:
    """A run folder as training leaves it, with these numbers."""
    job = make_job(request, row, seed)
    (job.folder / "evaluation").mkdir(parents=True)
    (job.folder / "recipe.yaml").write_text(dump_recipe(job.recipe))
    facts = {"finished": "2026-11-16T05:00:00+00:00", "seconds_of_training": 90.0, "hardware": "a core", "threads": 1}
    (job.folder / "run.json").write_text(json.dumps({**facts, "commit": "abc", "versions": {"torch": "2"}}))
    pretend_evaluation(job, "test", accuracy)
    with (job.folder / "metrics.csv").open("w", newline="") as file:
        rows = [(100 * (place + 1), value) for place, value in enumerate(curve)]
        csv.writer(file).writerows([("step", "val/accuracy"), *rows])
    return job
