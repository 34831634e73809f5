"""Jobs → the data they train on, made before the first of them starts: two runs must not make the same set at once."""

import fcntl
from collections.abc import Callable, Sequence
from pathlib import Path

from saccade.reproduce.jobs import Job, state
from saccade.reproduce.runner import Failure


def make_data(jobs: Sequence[Job], say: Callable[[str], None]) -> tuple[list[Job], list[Failure]]:
    """Generate what unfinished jobs ask for; returns the jobs that have their data, and those that cannot."""
    errors: dict[str, str] = {}
    wanted = {str(job.recipe.data.path): job for job in jobs if job.recipe.data.generate and state(job) != "finished"}
    for path, job in wanted.items():
        try:
            _make(Path(path), job)
        except (ValueError, OSError) as error:
            errors[path] = str(error)
            say(f"no data in {path}: {error}")
    able = [job for job in jobs if str(job.recipe.data.path) not in errors or state(job) == "finished"]
    return able, [Failure(job, errors[str(job.recipe.data.path)]) for job in jobs if job not in able]


def _make(path: Path, job: Job) -> None:
    from saccade.training.data import open_records

    path.parent.mkdir(parents=True, exist_ok=True)
    # Another runner, of these results or of others, may be making it.
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        open_records(job.recipe.data, seed=job.seed)
