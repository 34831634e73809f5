"""The runner, with commands that pretend to train: what is done is skipped, failures and kills harm nobody else."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import lock_descriptor
from ray_nodes import three_nodes
from tiny_table import pretend

from saccade.reproduce.jobs import Job, list_jobs
from saccade.runs.run_facts import SCHEMA
from saccade.training.jobs_on_ray import jobs_on_ray
from saccade.training.recipe import dump_recipe
from saccade.training.side_by_side import beside, run_jobs

# A run that writes what training writes: it begins, works, counts how often it was started, and finishes.
SCRIPT = (
    f"SCHEMA = {SCHEMA}"
    + """
import json, os, pathlib, signal, sys, time
folder, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
with (folder / "starts").open("a") as file: file.write(os.environ["OMP_NUM_THREADS"])
(folder / "recipe.yaml").write_text(sys.argv[3])
def leave(*_):
    (folder / "saved").touch()
    sys.exit(130)
signal.signal(signal.SIGTERM, leave)
time.sleep(seconds)
(folder / "run.json").write_text(json.dumps({"schema": SCHEMA, "finished": "now"}))
"""
)


def fake(job: Job, seconds: float = 0.0) -> Job:
    command = (
        sys.executable,
        "-c",
        SCRIPT,
        str(job.folder),
        str(seconds),
        dump_recipe(job.recipe),
    )
    return job._replace(command=command)


# What evaluation writes, if it is given the name of a file; it counts its starts in a file of its own.
EVALUATE = """
import pathlib, sys
folder, name = map(pathlib.Path, sys.argv[1:])
with (folder / "evaluations").open("a") as file: file.write("1")
(folder / "evaluation").mkdir(exist_ok=True)
(folder / "evaluation" / name).write_text("{}")
"""


def fake_both(job: Job, seconds: float = 0.0, *, wrote: str = "test-soft.json") -> Job:
    evaluate = (sys.executable, "-c", EVALUATE, str(job.folder), wrote) if job.evaluate else ()
    return fake(job, seconds)._replace(evaluate=evaluate)


def evaluations(job: Job) -> int:
    path = job.folder / "evaluations"
    return len(path.read_text()) if path.is_file() else 0


def starts(job: Job) -> int:
    path = job.folder / "starts"
    return len(path.read_text()) if path.is_file() else 0


@pytest.fixture
def jobs(request_) -> list[Job]:
    """one and two with seed 0, then one with seeds 1 and 2."""
    rows = [row for row in request_.table.rows if row.small]
    return list_jobs(request_, rows)


def test_what_is_missing_is_run_and_what_is_done_is_skipped(jobs, request_):
    pretend(request_, jobs[0].row, 0, 0.5)
    said = []
    assert run_jobs([fake(job) for job in jobs], at_once=2, say=said.append) == []
    assert [starts(job) for job in jobs] == [0, 1, 1, 1]
    assert all(job.state() == "finished" for job in jobs)
    assert said[0] == "1 of 4 runs are finished already"
    assert sum("done in" in line for line in said) == 3
    run_jobs([fake(job) for job in jobs], at_once=2, say=said.append)
    assert [starts(job) for job in jobs] == [0, 1, 1, 1]


def test_a_failing_run_is_told_and_the_others_go_on(jobs):
    broken = jobs[0]._replace(command=(sys.executable, "-c", "import sys; print('out of cheese'); sys.exit(3)"))
    failures = run_jobs([broken, *(fake(job) for job in jobs[1:])], at_once=1, say=lambda text: None)
    assert [failure.job.name for failure in failures] == ["one, seed 0"]
    assert "exit code 3" in failures[0].reason
    assert "out of cheese" in failures[0].reason
    assert [job.state() for job in jobs] == ["missing", "finished", "finished", "finished"]


def test_what_is_told_of_a_failure_is_not_of_an_earlier_one(jobs):
    for what in ("no cheese", "no crackers"):
        broken = jobs[0]._replace(command=(sys.executable, "-c", f"import sys; sys.exit('{what}')"))
        (failure,) = run_jobs([broken], at_once=1, say=lambda text: None)
    assert "no crackers" in failure.reason
    assert "no cheese" not in failure.reason


def test_the_table_is_kept_after_every_run(jobs):
    finished = []

    def keep():
        finished.append(sum(job.state() == "finished" for job in jobs))

    run_jobs([fake(job) for job in jobs], at_once=1, say=lambda text: None, keep=keep)
    assert finished == [1, 2, 3, 4]


def test_the_table_is_kept_when_another_runner_has_finished_a_run(jobs, request_):
    held = beside(jobs[0], "lock")
    held.parent.mkdir(parents=True)
    kept = []
    with held.open("w") as lock:
        lock_descriptor(lock.fileno())

        def finish_elsewhere(text: str) -> None:
            if "waits for the process at work" in text:
                pretend(request_, jobs[0].row, 0, 0.5)
                lock.close()

        run_jobs(jobs[:1], at_once=1, say=finish_elsewhere, keep=lambda: kept.append(jobs[0].state()))
    assert kept == ["finished"]


def test_runs_left_behind_take_their_place_among_those_at_once(jobs):
    held = beside(jobs[0], "lock")
    held.parent.mkdir(parents=True)
    behind = subprocess.Popen(["flock", str(held), "sleep", "2"])
    time.sleep(0.5)
    began = time.monotonic()
    run_jobs([fake(job) for job in jobs[:2]], at_once=1, say=lambda text: None)
    assert time.monotonic() - began > 1.0  # the other one waited for it, too
    assert [starts(job) for job in jobs[:2]] == [1, 1]
    behind.wait()


def test_a_command_that_ends_well_without_a_finished_run_is_a_failure(jobs):
    idle = jobs[0]._replace(command=(sys.executable, "-c", ""))
    assert len(run_jobs([idle], at_once=1, say=lambda text: None)) == 1


@pytest.mark.parametrize("settings", ["steps: 7", "steps: 6\nof_a_later_version: 1"])
def test_a_folder_of_another_run_is_left_alone(jobs, request_, settings):
    other = pretend(request_, jobs[0].row, 0, 0.5)
    text = (other.folder / "recipe.yaml").read_text()
    (other.folder / "recipe.yaml").write_text(text.replace("steps: 6", settings))
    said = []
    (failure,) = run_jobs([fake(job) for job in jobs[:2]], at_once=1, say=said.append)
    assert "holds a run with other settings" in failure.reason
    assert said[0] == failure.reason  # before hours of the other runs, and again at the end
    assert said[-1] == f"failed: one, seed 0: {failure.reason}"
    assert [starts(job) for job in jobs[:2]] == [0, 1]


def test_two_run_side_by_side_and_no_more(jobs, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    began = time.monotonic()
    run_jobs([fake(job, 2.0) for job in jobs], at_once=4, say=lambda text: None)
    assert time.monotonic() - began < 8.0  # one after the other would take longer
    assert all((job.folder / "starts").read_text() == str(max(1, (os.cpu_count() or 1) // 4)) for job in jobs)


def test_who_says_how_many_threads_a_run_has_is_obeyed(jobs, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    run_jobs([fake(jobs[0], 0.0)], at_once=1, say=lambda text: None)
    assert (jobs[0].folder / "starts").read_text() == "3"


@pytest.fixture
def pair(shared) -> list[Job]:
    """soft, which needs an evaluation, and two, which is the same run without."""
    return list_jobs(shared, shared.table.rows)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("at_once", [1, 2])
def test_rows_that_share_a_run_train_it_once(pair, at_once, order):
    said = []
    assert run_jobs([fake_both(job, 0.5) for job in pair[::order]], at_once=at_once, say=said.append) == []
    assert [job.state() for job in pair] == ["finished", "finished"]
    assert (starts(pair[0]), evaluations(pair[0])) == (1, 1)
    assert sum("done in" in line for line in said) + sum("finished meanwhile" in line for line in said) == 2
    run_jobs([fake_both(job) for job in pair], at_once=at_once, say=said.append)
    assert said[-1] == "2 of 2 runs are finished already"


def test_after_a_kill_between_training_and_evaluation_only_the_evaluation_is_made(pair, shared):
    pretend(shared, pair[1].row, 0, 0.5)
    assert [job.state() for job in pair] == ["trained", "finished"]
    said = []
    assert run_jobs([fake_both(job) for job in pair], at_once=2, say=said.append) == []
    assert (starts(pair[0]), evaluations(pair[0])) == (0, 1)
    assert "soft, seed 0: is evaluated" in said


def test_an_evaluation_that_ends_well_and_writes_nothing_is_a_failure_not_a_loop(pair):
    (failure,) = run_jobs([fake_both(job, wrote="elsewhere.json") for job in pair], at_once=2, say=lambda text: None)
    assert failure.job.name == "soft, seed 0"
    assert (starts(pair[0]), evaluations(pair[0])) == (1, 1)
    assert [job.state() for job in pair] == ["trained", "finished"]


def test_a_shared_training_that_fails_is_not_tried_again_by_the_other_row(pair):
    code = f"import sys; open({str(beside(pair[0], 'starts'))!r}, 'a').write('1'); sys.exit(3)"
    broken = [fake_both(job)._replace(command=(sys.executable, "-c", code)) for job in pair]
    failures = run_jobs(broken, at_once=2, say=lambda text: None)
    assert [failure.job.name for failure in failures] == ["soft, seed 0", "two, seed 0"]
    assert failures[1].reason == "it shares the run of soft, seed 0, which failed"
    assert beside(pair[0], "starts").read_text() == "1"


RUNNER = """
import pickle, sys
from contextlib import nullcontext
from pathlib import Path
from saccade.training.job_process import start_here
from saccade.training.jobs_on_ray import jobs_on_ray
from saccade.training.side_by_side import run_jobs
jobs = pickle.loads(Path(sys.argv[1]).read_bytes())
try:
    with jobs_on_ray(sys.argv[2], len(jobs), gpus=1) if sys.argv[2:] else nullcontext() as share:
        start = share.start if share else start_here
        run_jobs(jobs, at_once=share.at_once if share else 2, say=lambda text: print(text, flush=True), start=start)
except KeyboardInterrupt:
    sys.exit(130)
"""


def run_apart(jobs: list[Job], folder: Path, *address: str) -> subprocess.Popen[str]:
    """A runner in a process of its own, on a cluster if there is an address, once its first runs have started."""
    import pickle

    (folder / "jobs").write_bytes(pickle.dumps(jobs))
    command = [sys.executable, "-c", RUNNER, str(folder / "jobs"), *address]
    runner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not all((job.folder / "recipe.yaml").is_file() for job in jobs[:2]):
        assert time.monotonic() < deadline, "the runs did not start"
        time.sleep(0.02)
    return runner


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_stopping_lets_every_run_save(jobs, tmp_path, kind):
    runner = run_apart([fake(job, 60) for job in jobs], tmp_path)
    time.sleep(0.1)  # its first runs are there, but have they set up their own handler?
    runner.send_signal(kind)
    assert runner.wait(20) == 130
    assert [(job.folder / "saved").exists() for job in jobs] == [True, True, False, False]
    assert [job.state() for job in jobs[:2]] == ["begun", "begun"]


def test_after_a_killed_runner_the_next_waits_for_what_still_runs(jobs, tmp_path):
    runner = run_apart([fake(job, 2.0) for job in jobs], tmp_path)
    runner.kill()
    runner.wait()
    assert [job.state() for job in jobs[:2]] == ["begun", "begun"]  # left behind, still at work
    assert run_jobs([fake(job) for job in jobs], at_once=2, say=lambda text: None) == []
    assert all(job.state() == "finished" for job in jobs)
    assert [starts(job) for job in jobs] == [1, 1, 1, 1]  # nobody was started twice


@pytest.mark.slow
def test_jobs_on_a_cluster_end_like_those_here_though_a_node_is_killed_and_the_runner_is_stopped(jobs, tmp_path):
    began = [job.folder / "recipe.yaml" for job in jobs]
    with three_nodes() as nodes:
        runner = run_apart([fake(job, 60) for job in jobs], tmp_path, nodes.address)
        while sum(path.is_file() for path in began) < 3:
            time.sleep(0.1)
        time.sleep(1)  # for its handler
        runner.send_signal(signal.SIGINT)
        assert runner.wait(60) == 130
        assert sorted((job.folder / "saved").exists() for job in jobs) == [False, True, True, True]
        assert sorted(job.state() for job in jobs) == ["begun", "begun", "begun", "missing"]
        said: list[str] = []
        with jobs_on_ray(nodes.address, 3, gpus=1) as share:
            assert share == (1, 0, 3)

            def say(text: str) -> None:
                said.append(text)
                if sum(line.endswith(("is resumed", "starts")) for line in said) == 3 and nodes.others[1:]:
                    wait_for_starts(jobs[:3], 2)  # three runs on three nodes
                    nodes.kill_one()

            assert run_jobs([fake(job, 15) for job in jobs], at_once=share.at_once, say=say, start=share.start) == []
    assert [job.state() for job in jobs] == ["finished"] * 4
    assert sum("its machine is gone" in line for line in said) == 1, said
    assert sum(starts(job) for job in jobs) in (7, 8)  # three twice, one once; the lost one again if it died


def wait_for_starts(jobs: list[Job], count: int) -> None:
    deadline = time.monotonic() + 120
    while not all(starts(job) >= count for job in jobs):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_a_job_that_fails_on_a_cluster_is_told_with_the_end_of_its_log(jobs):
    broken = jobs[0]._replace(command=(sys.executable, "-c", "import sys; print('out of cheese'); sys.exit(3)"))
    with jobs_on_ray("local", 1, gpus=0) as share:
        (failure,) = run_jobs([broken], at_once=1, say=lambda text: None, start=share.start)
    assert "exit code 3" in failure.reason
    assert "out of cheese" in failure.reason
