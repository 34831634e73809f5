"""Finished runs that nobody trained."""

from saccade.reproduce.jobs import Job, Request, make_job
from saccade.reproduce.table_types import Row
from saccade.runs import RunFolder
from saccade.runs.prediction_tables import PredictionTable
from saccade.training.recipe import dump_recipe


def pretend_evaluation(job: Job, name: str, accuracy: float) -> None:
    """What `saccade evaluate` adds to the job's folder."""
    summary = {"split": name, "images": 12, "accuracy": accuracy, "multiply_adds": {"total": 5e6}}
    RunFolder(job.folder).write_evaluation(name, PredictionTable((), ()), summary)


def pretend(request: Request, row: Row, seed: int, accuracy: float, *, curve: tuple[float, ...] = ()) -> Job:
    """A run folder as training leaves it, with these numbers."""
    job = make_job(request, row, seed)
    folder = RunFolder(job.folder)
    folder.claim(dump_recipe(job.recipe))
    metrics = folder.open_metrics()
    for place, value in enumerate(curve):
        metrics.add(100 * (place + 1), {"val/accuracy": value})
    metrics.save()
    facts = folder.begin(seed=seed, parameters=1, phases=[], accelerator="cpu")
    facts.finish()
    made = {"finished": "2026-11-16T05:00:00+00:00", "seconds_of_training": 90.0, "hardware": "a core", "threads": 1}
    facts._add({**made, "commit": "abc", "versions": {"torch": "2"}})
    pretend_evaluation(job, "test", accuracy)
    return job
