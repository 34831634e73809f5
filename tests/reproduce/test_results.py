"""Numbers of runs that nobody trained, against what one gets by hand."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_table import pretend, pretend_evaluation

from saccade.reproduce.aids import name_aids
from saccade.reproduce.collect import collect, outdated
from saccade.reproduce.jobs import Request, essence, make_job
from saccade.reproduce.paper_tables import TABLES
from saccade.reproduce.results import markdown, values_of, write_results
from saccade.reproduce.summaries import mean_and_deviation, median_and_deviation, show
from saccade.reproduce.table_types import ACCURACY, TRAIN_ACCURACY, Measure
from saccade.runs import RunFolder
from saccade.runs.prediction_tables import PredictionTable
from saccade.training.recipe import load_recipe


def test_mean_and_standard_deviation_of_the_sample():
    center, spread = mean_and_deviation([90.0, 92.0, 97.0])
    assert center == pytest.approx(93.0)
    assert spread == pytest.approx(math.sqrt((9 + 1 + 16) / 2))


def test_the_median_absolute_deviation_shrugs_at_one_failed_run():
    # Of 94 93 21 95 92 the median is 93; deviations are 1 0 72 2 1, their median is 1.
    assert median_and_deviation([94.0, 93.0, 21.0, 95.0, 92.0]) == (93.0, 1.0)
    # Of an even number it is the mean of the middle two: median 2.5, deviations 1.5 0.5 0.5 7.5.
    assert median_and_deviation([1.0, 2.0, 3.0, 10.0]) == (2.5, 1.0)


COMMITTED = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", [path.stem for path in COMMITTED.glob("*.csv") if path.stem in TABLES])
def test_no_committed_line_is_of_other_settings(name):
    """A key that is taken away or a recipe that is changed would make the next writing of the table drop its runs."""
    request = Request(TABLES[name], out=COMMITTED, data=Path("data"), weights=Path("weights.safetensors"))
    assert outdated(request) == []


def test_one_run_has_no_spread_and_no_run_no_number():
    for statistic in ("mean ± s.d.", "median ± MAD"):
        assert show([93.84], ACCURACY, statistic, runs=1) == "93.8"
        assert show([], ACCURACY, statistic, runs=2) == "–"


def test_a_number_that_some_runs_never_reached_says_so():
    assert show([800.0, 1000.0], Measure("steps", "steps", 1.0, 0), "median ± MAD", runs=3) == "900 ± 100 (2 of 3)"


def test_the_table_has_every_row_with_the_papers_number_beside_ours(request_):
    one, *_ = request_.table.rows
    for seed, accuracy in enumerate((0.90, 0.92, 0.97)):
        pretend(request_, one, seed, accuracy)
    text = markdown(request_, collect(request_))
    assert "| paper | ours: accuracy [%], mean ± s.d. | ours: accuracy [%], median ± MAD | runs |" in text
    # Of 90 92 97 the median is 92, deviations are 2 0 5.
    assert "| 90.0 ± 1.0 | 93.0 ± 3.6 | 92.0 ± 2.0 | 3 | 1.5 |" in text
    assert "| 91.0 | – | – | 0 | – |" in text
    assert "| Only at full size | – | 99.0 | – | – | 0 | – |" in text
    assert "a core, 1 thread a run; 2026-11-16" in text


def test_the_table_counts_the_runs_that_failed(request_):
    one, two, *_ = request_.table.rows
    for row, accuracies in ((one, (0.90, 0.46, 0.44)), (two, (0.2,))):  # the best is 0.90, and half of it 0.45
        for seed, accuracy in enumerate(accuracies):
            pretend(request_, row, seed, accuracy)
    lines = markdown(request_, collect(request_)).splitlines()
    assert [line.split(" | ")[-2] for line in lines if line.startswith(("| One", "| Two"))] == [
        "3, 1 failed",
        "1, 1 failed",
    ]


def test_train_accuracy_is_that_of_the_last_tenth_of_the_steps(request_):
    request = request_._replace(table=request_.table._replace(measures=(ACCURACY, TRAIN_ACCURACY)))
    job = pretend(request, request.table.rows[0], 0, 0.5)
    metrics = RunFolder(job.folder).open_metrics()
    for step, accuracy in ((0, 0.1), (80, 0.2), (89, 0.3), (90, 0.75), (100, 1.0)):  # from step 90 on
        metrics.add(step, {"train/accuracy": accuracy})
    metrics.save()
    pretend(request, request.table.rows[1], 0, 0.5)
    results = collect(request)
    assert [each.numbers.get("train_accuracy") for each in results] == [0.875, None]
    text = markdown(request, results)
    assert "| 50.0 | 50.0 | 87.5 | 1 |" in text
    assert "Train accuracy is that of the last tenth" in text
    write_results(request, results)
    assert [result.numbers for result in collect(request)] == [result.numbers for result in results]


def test_an_order_is_told_where_mean_and_median_agree_beyond_their_spreads(request_):
    one, two, *_ = request_.table.rows
    for seed, (good, bad) in enumerate(((0.90, 0.5), (0.92, 0.6), (0.97, 0.7))):
        pretend(request_, one, seed, good)
        if seed < 2:
            pretend(request_, two, seed, bad)
    assert "is above" not in markdown(request_, collect(request_))  # two runs have no spread to speak of
    pretend(request_, two, 2, 0.7)
    assert "\n- One patch is above Two patches\n" in markdown(request_, collect(request_))
    pretend(request_, one, 3, 0.2)  # now the mean says otherwise than the median
    assert "is above" not in markdown(request_, collect(request_))


@pytest.mark.parametrize(
    ("recipe", "flags", "aids"),
    [
        ("traffic/perturbed", (), ()),
        ("billiard_small/majority", (), ()),
        ("billiard_small/cnn", ("--model.positions=true",), ("classes dealt evenly", "positions")),
        ("billiard_small/cnn", ("--training.scorer.rate=0.5", "--training.evenly=0"), ("slow scorer",)),
        (
            "billiard_small/placed",
            (),
            (
                "label-free steps",
                "guided start",
                "mixture loss",
                "classes dealt evenly",
                "slow scorer",
                "gradient scaled by σ",
                "positions",
            ),
        ),
        ("cub/nts_topk", ("--training.scorer.rate=10.0",), ("fast scorer",)),
    ],
)
def test_aids_are_told_from_the_recipe(recipe, flags, aids):
    assert name_aids(load_recipe(recipe, flags)) == aids


def test_rows_as_in_the_paper_have_no_aid_and_the_papers_training():
    rows = [(table, row) for table in TABLES.values() for row in table.rows if row.name.endswith("_unaided")]
    assert len(rows) == 11
    for table, row in rows:
        recipe = make_job(Request(table), row, 0).recipe
        (phase,) = (span.phase for span in recipe.plan.spans)
        assert (name_aids(recipe), phase.choose, phase.sigma) == ((), "model", "to_zero")
        assert {name for name, value in phase.loss.items() if value} == {"entropy_coefficient"}


def test_the_table_says_of_which_class_its_average_precision_is(request_):
    one, two, _ = request_.table.rows
    measured = Measure("average_precision", "average precision", 1.0, 3)
    request = request_._replace(table=request_.table._replace(measures=(ACCURACY, measured)))
    for seed in range(2):
        pretend(request, one, seed, 0.5)
    job = pretend(request, two, 0, 0.5)
    summary = {"accuracy": 0.5, "average_precision": 0.25, "positive": "along"}
    RunFolder(job.folder).write_evaluation("test", PredictionTable((), ()), summary)
    results = collect(request)
    assert "Average precision: of the class along in Two patches, mean over classes in all other rows." in markdown(
        request, results
    )
    write_results(request, results)
    assert "Average precision" not in markdown(request_, results)
    assert {each.positive for each in collect(request)} == {"along", "mean over classes"}
    with (request.out / "spots.csv").open(newline="") as file:
        assert [row["positive"] for row in csv.DictReader(file)] == ["mean over classes"] * 2 + ["along"]


def test_the_csv_has_one_line_per_run_with_its_provenance(request_):
    one, two, _ = request_.table.rows
    pretend(request_, one, 0, 0.5)
    pretend(request_, two, 0, 0.75)
    paths = write_results(request_, collect(request_))
    assert [path.name for path in paths] == ["spots.csv", "spots.md"]
    with paths[0].open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["row"], first["seed"], float(first["accuracy"])) == ("one", "0", 0.5)
    assert (second["row"], float(second["accuracy"]), float(second["minutes"])) == ("two", 0.75, 1.5)
    assert (second["commit"], second["versions"], second["hardware"]) == ("abc", "torch==2", "a core")


def test_a_run_with_other_settings_or_unfinished_does_not_count(request_):
    one, two, _ = request_.table.rows
    pretend(request_, one, 0, 0.5)
    other = pretend(request_, one, 1, 0.9)
    text = (other.folder / "recipe.yaml").read_text()
    (other.folder / "recipe.yaml").write_text(text.replace("steps: 6", "steps: 7"))
    (pretend(request_, two, 0, 0.9).folder / "run.json").write_text("{}")
    assert [(each.row.name, each.seed) for each in collect(request_)] == [("one", 0)]


def test_rows_that_share_a_run_have_its_minutes_and_their_own_numbers(shared):
    _, two = shared.table.rows
    job = pretend(shared, two, 0, 0.9)
    assert [each.row.name for each in collect(shared)] == ["two"]  # the other is not evaluated yet
    pretend_evaluation(job, "test-soft", 0.8)
    results = collect(shared)
    assert [(each.row.name, each.numbers["accuracy"]) for each in results] == [("soft", 0.8), ("two", 0.9)]
    text = markdown(shared, results)
    assert "| 89.0 | 80.0 | 80.0 | 1 | 1.5 |" in text
    assert "| 91.0 | 90.0 | 90.0 | 1 | 1.5 |" in text


def test_where_the_data_lies_does_not_matter(request_, tmp_path):
    one, _, _ = request_.table.rows
    pretend(request_, one, 0, 0.5)
    assert len(collect(request_._replace(data=tmp_path / "elsewhere"))) == 1


def test_steps_to_a_share_of_the_best_and_failed_runs(request_):
    one, two, _ = request_.table.rows
    table = request_.table._replace(measures=(ACCURACY, Measure("steps_to_90", "", 1.0)))
    request_ = request_._replace(table=table)
    pretend(request_, one, 0, 0.8, curve=(0.2, 0.41, 0.6, 0.75, 0.8))
    pretend(request_, two, 0, 0.3, curve=(0.2, 0.3, 0.3, 0.45, 0.3))
    fast, slow = collect(request_)
    # The best has 0.8: half of it is 0.4, nine tenths 0.72.
    assert (fast.numbers["steps_to_50"], fast.numbers["steps_to_90"], fast.numbers["failed"]) == (200, 400, 0)
    assert (slow.numbers["steps_to_50"], slow.numbers["failed"]) == (400, 1)
    assert math.isnan(slow.numbers["steps_to_90"])
    assert values_of([fast, slow], two, Measure("steps_to_90", "", 1.0)) == []


def test_runs_made_elsewhere_stay_in_the_table_until_their_settings_change(request_, tmp_path):
    one, two, _ = request_.table.rows
    for seed, accuracy in enumerate((0.5, 0.75)):
        pretend(request_, one, seed, accuracy)
    pretend(request_, two, 0, 0.25)
    here = collect(request_)
    write_results(request_, here)
    (request_.out / "runs").rename(tmp_path / "elsewhere")
    there = collect(request_)
    assert there == [each._replace(run=None) for each in here]
    pretend(request_, one, 1, 0.875)  # done again, here
    assert [each.numbers["accuracy"] for each in collect(request_)] == [0.5, 0.875, 0.25]
    text = (request_.out / "spots.csv").read_text()
    (request_.out / "spots.csv").write_text(text.replace(there[0].settings, "0" * 12))
    assert [(each.row.name, each.seed) for each in collect(request_)] == [("one", 1), ("two", 0)]
    # Seed 1 is here anew, with the same settings: its line is replaced, not lost.
    assert outdated(request_) == ["one, seed 0"]


def test_a_default_that_a_later_version_adds_changes_no_settings(request_):
    job = make_job(request_, request_.table.rows[0], 0)
    settings = essence(job.recipe)
    assert settings["model"]["selection"]["k"] == 1
    assert "nodes" not in settings  # as by default
    assert {"optimizer", "schedule"}.isdisjoint(settings)
    slower = replace(job.recipe, optimizer=replace(job.recipe.optimizer, lr=1e-4))
    assert essence(slower) == settings | {"optimizer": {"lr": 1e-4}}
    assert "path" not in settings["data"]  # where things lie
    assert essence(replace(job.recipe, nodes=2)) == settings | {"nodes": 2}
    read_otherwise = replace(job.recipe.data, workers=3, cache_gb=2.0)
    assert essence(replace(job.recipe, data=read_otherwise)) == settings


def test_a_broken_table_is_named(request_):
    request_.out.mkdir()
    (request_.out / "spots.csv").write_text("<<<<<<< ours\nrow,seed,settings\n")
    with pytest.raises(ValueError, match=r"spots\.csv is not a table of runs"):
        collect(request_)
