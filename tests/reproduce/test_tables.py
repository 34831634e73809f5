"""Every row of every table can be run: its recipe exists, its flags are understood, and no two runs share a folder."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.recipes import list_recipes
from saccade.registry import build
from saccade.reproduce.collect import fingerprint, job_of
from saccade.reproduce.jobs import Request, list_jobs, make_job, run_name
from saccade.reproduce.paper_tables import TABLES
from saccade.reproduce.summaries import STATISTICS
from saccade.reproduce.table_types import SCALES, Plan, choose
from saccade.training.recipe import load_recipe

EVERY = [
    plan for table in TABLES.values() for row in table.rows for scale in SCALES if (plan := row.plan(scale)) is not None
]
ROWS = [plan for plan in EVERY if not plan.own]
OWN = [plan for plan in EVERY if plan.own]
TUNED = ("sigma_0.01", "sigma_0.05", "sigma_0.5")  # which the paper tunes without a row of their own
PLANS = sorted({plan._replace(selection=None) for plan in ROWS})  # what is trained


@pytest.mark.parametrize("plan", PLANS, ids=run_name)
def test_every_plan_is_a_recipe_that_ships_with_flags_that_parse(plan: Plan):
    assert plan.recipe in [recipe.name for recipe in list_recipes()]
    recipe = load_recipe(plan.recipe, plan.flags)
    recipe.check_together()
    # No flag is idle, but for Sinkhorn's rows, which all say both K and how they choose at inference.
    assert not plan.flags or recipe != load_recipe(plan.recipe) or plan.recipe.endswith("/sinkhorn")


def test_different_plans_have_different_folders():
    assert len({run_name(plan) for plan in PLANS}) == len(PLANS)


@pytest.mark.parametrize("name", ["default", "tasks"])
def test_every_plan_for_own_images_is_told_by_its_folder_and_its_command_alone(name):
    table = TABLES[name]
    assert len({run_name(plan) for plan in OWN}) == len(OWN) == len(TABLES["default"].rows) + len(TABLES["tasks"].rows)
    request = Request(table, data=Path("/sets"), weights=Path("/w.safetensors"))
    for job in (make_job(request, row, 2) for row in table.rows):
        job.recipe.check_together()  # as a user's own words are checked
        source, *flags = job.command[4:]
        place = "data" if job.recipe.data.generate else "/sets"
        assert source == job.recipe.data.path == f"{place}/{job.row.group}"
        assert {"--seed=2", f"--out={job.folder}"} <= {*flags}
        assert ("--model.features.weights=/w.safetensors" in flags) == (job.recipe.data.generate is None)


def test_a_run_that_chooses_for_itself_is_another_one_with_other_words():
    table = TABLES["default"]
    rows = {row.name: row for row in table.rows}
    one, other = rows["signs_default"], rows["signs_cnn"]
    job = partial(job_of, Request(table))
    assert fingerprint(job(one, 0)) == fingerprint(job(one, 0))
    assert len({fingerprint(job(row, seed)) for row in (one, other) for seed in (0, 1)}) == 4


def test_nothing_is_trained_twice_for_another_choice_at_inference():
    trainings = []
    for plan in PLANS:
        recipe = load_recipe(plan.recipe, plan.flags)
        stages = replace(recipe.model, selection={**recipe.model.selection, "discrete": None})
        trainings.append((plan.pretrained, replace(recipe, model=stages)))
    assert all(training not in trainings[:place] for place, training in enumerate(trainings))


@pytest.mark.parametrize("plan", [plan for plan in ROWS if plan.selection], ids=run_name)
def test_a_row_read_from_another_evaluation_is_not_what_training_measures(plan: Plan):
    selection = load_recipe(plan.recipe, plan.flags).model.selection
    chosen = build("selection", selection)
    assert chosen.discrete == (plan.selection == "soft")
    assert plan._replace(selection=None) in ROWS  # whose run it is


def test_rows_that_share_a_run():
    request = Request(TABLES["sinkhorn"])
    soft, discrete = (make_job(request, row, 1) for row in request.table.rows[:2])
    assert (
        soft.folder
        == discrete.folder
        == Path("results/runs/signs-sinkhorn-k=5-discrete=false-solver=released-epsilon=1e-4-name=mean-seed1")
    )
    assert soft.command == discrete.command
    assert (soft.evaluation, soft.evaluate, discrete.evaluation) == ("test", (), "test-discrete")
    assert discrete.evaluate[3:] == ("evaluate", str(discrete.folder), "--selection=discrete")
    request = Request(TABLES["sigma"])
    soft, hard = (make_job(request, row, 0) for row in request.table.rows[:2])
    assert soft.folder == hard.folder == Path("results/runs/billiard_small-perturbed-sigma=constant-seed0")
    assert (soft.evaluation, hard.evaluation) == ("test-soft", "test")


def test_runs_that_several_tables_need_are_shared():
    home = {name: Request(TABLES[name]) for name in ("billiard", "sigma")}
    rows = {"billiard": "transformer", "sigma": "decay_hard"}
    folders = {
        make_job(home[name], next(row for row in TABLES[name].rows if row.name == rows[name]), 1).folder
        for name in rows
    }
    assert folders == {Path("results/runs/billiard_small-perturbed-seed1")}


def test_gradients_are_compared_where_nothing_else_teaches_the_scorer():
    request = Request(TABLES["gradients"])
    recipes = [make_job(request, row, 0).recipe for row in request.table.rows]
    assert {recipe.model.selection["gradient"] for recipe in recipes} == {"conditional", "score", "diagonal"}
    phases = [span.phase for recipe in recipes for span in recipe.plan.spans if span.phase.labeled]
    assert not any(phase.guided or phase.loss["mixture_coefficient"] for phase in phases)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_a_table_is_sound(table):
    names = [row.name for row in table.rows]
    assert len(set(names)) == len(names)
    assert set(table.shown) <= set(names)
    assert table.statistic in STATISTICS
    assert all(row.small or row.full for row in table.rows)
    # A shown row must select patches, or there is nothing to see.
    for row in table.rows:
        if row.name in table.shown:
            assert load_recipe(row.small.recipe).model.system in ("patch_selection", "nts_topk")
            assert row.small.selection is None  # pictures are of the run as it was trained


@pytest.mark.parametrize(
    ("name", "batch", "lr", "decay", "steps", "schedule", "optimizer", "entropy", "clip"),
    [  # torch's AdamW multiplies its decay by the learning rate, the paper's does not: 1e-4 = 1e-4 · 1.0
        ("traffic/perturbed", 32, 1e-4, 1.0, 100_000, ("cosine", 0.0), "adamw", 0.01, 0.1),
        ("billiard/perturbed", 64, 1e-4, 1.0, 30_000, ("cosine", 0.05), "adamw", 0.01, 1.0),
        ("cub/nts_topk", 16, 1e-3, 1e-4, 31_300, ("piecewise", 0.05), "sgd", 0.05, None),
    ],
)
def test_the_papers_table_of_settings(name, batch, lr, decay, steps, schedule, optimizer, entropy, clip):
    recipe = load_recipe(name)
    (phase,) = (span.phase for span in recipe.plan.spans)  # nothing of ours before it or beside it
    assert (recipe.batch, recipe.steps, phase.loss) == (batch, steps, {"entropy_coefficient": entropy})
    assert (recipe.schedule.name, recipe.schedule.warm_up) == schedule
    chosen = recipe.optimizer
    assert (chosen.name, chosen.lr, chosen.weight_decay, chosen.clip_value) == (optimizer, lr, decay, clip)
    assert (recipe.model.selection["sigma"], recipe.model.selection["num_samples"]) == (0.05, 500)
    assert (phase.sigma, phase.choose, phase.learn, phase.scorer.rate) == ("to_zero", "model", "labels", 1.0)


@pytest.mark.parametrize(
    ("name", "size", "candidates"),
    [
        ("traffic/perturbed", (960, 1280), 2028),
        ("billiard/perturbed", (1000, 1000), 900),
        ("cub/nts_topk", (448,) * 2, 1614),
    ],
)
def test_the_papers_candidates(name, size, candidates):
    config = ModelConfig(**vars(load_recipe(name).model), num_classes=4, image_size=size)
    model: Any = build_model(config)
    assert model.grid(size).num_candidates == candidates


def test_jobs_are_a_whole_table_first_and_claims_have_more_seeds():
    table = TABLES["billiard"]
    jobs = list_jobs(Request(table), table.rows)
    rows, claims = len(table.rows), sum(row.seeds == 3 for row in table.rows)
    assert 0 < claims < rows
    assert [job.seed for job in jobs] == [0] * rows + [1] * claims + [2] * claims
    assert jobs[rows].row.name == "transformer"


def test_full_rows_are_run_as_often_as_in_the_paper():
    runs = {name: {row.name: row.runs("full") for row in TABLES[name].rows if row.full} for name in TABLES}
    assert {name for name, count in runs["traffic"].items() if count != 9} == {"cnn"}
    assert runs["traffic"]["cnn"] == 5
    assert [runs["billiard"][name] for name in ("transformer", "max", "mean", "ats", "cnn", "majority")] == [
        *(9, 9, 9),
        *(4, 5, 1),
    ]
    assert {count for name, count in runs["sigma"].items() if name not in TUNED} == {9}
    assert {*runs["sinkhorn"].values()} == {*runs["cub"].values()} == {5}
    table = TABLES["traffic"]
    assert len(list_jobs(Request(table, "full"), choose(table, ("cnn",), "full"))) == 5


def test_as_many_seeds_as_asked_for_of_every_row():
    table = TABLES["billiard"]
    jobs = list_jobs(Request(table), table.rows, seeds=2)
    assert [job.seed for job in jobs] == [0] * len(table.rows) + [1] * len(table.rows)


def test_where_data_and_weights_lie_goes_into_the_command():
    request = Request(TABLES["real"], data=Path("/sets"), weights=Path("/w.safetensors"))
    job = make_job(request, request.table.rows[0], 0)
    assert "--data.path=/sets/kolektor" in job.command
    assert job.recipe.model.features["weights"] == "/w.safetensors"
    mnist = Request(TABLES["mnist"], data=Path("/sets"))
    job = make_job(mnist, mnist.table.rows[0], 0)
    assert job.recipe.data.generate["source"] == "/sets/mnist"
    assert job.recipe.data.path == "data/megapixel_mnist_small"  # generated: where the recipe says


def test_what_is_not_there_is_told():
    with pytest.raises(ValueError, match="no row nothing at scale small; it has transformer, transformer_unaided, max"):
        choose(TABLES["billiard"], ("nothing",), "small")
    with pytest.raises(ValueError, match="does not exist at scale full"):
        choose(TABLES["mnist"], (), "full")
    with pytest.raises(ValueError, match="starts from ImageNet weights: give their file with --weights"):
        make_job(Request(TABLES["cub"]), TABLES["cub"].rows[0], 0)


def test_listing_the_tables_does_not_wait_for_torch():
    code = "import sys; from saccade.cli import main; main(['reproduce', '--list']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in TABLES)


def test_the_sigma_that_the_recipe_has_is_no_other_run():
    request = Request(TABLES["sigma"], "full")
    folders = [make_job(request, row, 0).folder for row in choose(request.table, (*TUNED, "decay_hard"), "full")]
    assert folders[0] == folders[2]
    assert len({*folders}) == 3
    small = Request(TABLES["sigma"])
    sigmas = [make_job(small, row, 0).recipe.model.selection["sigma"] for row in choose(small.table, TUNED, "small")]
    assert sigmas == [0.01, 0.05, 0.5]
    of_billiard = next(row for row in TABLES["billiard"].rows if row.name == "transformer_unaided")
    (unaided,) = choose(small.table, ("sigma_0.05_unaided",), "small")
    assert make_job(small, unaided, 0).folder == make_job(Request(TABLES["billiard"]), of_billiard, 0).folder
