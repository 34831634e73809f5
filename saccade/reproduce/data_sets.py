"""Jobs → the data they train on, made before the first of them starts, with all cores and errors told once."""

from collections.abc import Callable, Sequence

from saccade.reproduce.jobs import Job
from saccade.training.side_by_side import Failure


def make_data(jobs: Sequence[Job], say: Callable[[str], None]) -> tuple[list[Job], list[Failure]]:
    """Generate what unfinished jobs ask for; returns the jobs that have their data, and those that cannot."""
    from saccade.training.batches import open_records

    errors: dict[str, str] = {}
    wanted = {str(job.recipe.data.path): job for job in jobs if job.recipe.data.generate and job.state() != "finished"}
    for path, job in wanted.items():
        try:
            open_records(job.recipe.data, seed=job.seed)
        except (ValueError, OSError) as error:
            errors[path] = str(error)
            say(f"no data in {path}: {error}")
    able = [job for job in jobs if str(job.recipe.data.path) not in errors or job.state() == "finished"]
    return able, [Failure(job, errors[str(job.recipe.data.path)]) for job in jobs if job not in able]
