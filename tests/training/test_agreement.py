"""What has no meaning for what labels mean is refused in one line, before anything is chosen or written."""

from dataclasses import replace
from pathlib import Path

import pytest

from saccade.config import Stages
from saccade.data.records import DataError, Record, Records
from saccade.tasks.labels import TASK_NAMES, Question
from saccade.tasks.task import task_of
from saccade.training.agreement import BEST_BY, check_labels, check_recipe
from saccade.training.phases import Training
from saccade.training.recipe import BestBy, DataOptions, Recipe

QUESTIONS = (Question("kind", "single", ("a", "b")), Question("age", "regression", ()))


def records(task):
    classes = () if task == "regression" else ("0", "1")
    return Records(Path("parts"), classes, (Record(Path("1.png"), "0", "train"),), (), task, QUESTIONS)


@pytest.mark.parametrize(
    ("recipe", "task", "told"),
    [
        (
            Recipe(class_weights=True),
            "regression",
            "class_weights is true, and labels are numbers, which are of no class",
        ),
        (
            Recipe(class_weights=True),
            "questions",
            "class_weights is true, and what is rare for one question is frequent",
        ),
        (Recipe(training=Training(evenly=0.5)), "questions", "training.evenly is given, and what is rare"),
        (
            Recipe(model=Stages(system="nts_net")),
            "multi",
            "for the task multi, and the system nts_net knows single alone",
        ),
        (
            Recipe(best_by="kappa"),
            "single",
            "best_by is kappa, which the task single does not have: expected one of acc",
        ),
        (Recipe(positive="2"), "single", "positive is '2': no such class; there are '0', '1'"),
    ],
)
def test_what_has_no_meaning_is_refused(recipe, task, told):
    check_labels(replace(recipe, positive=None), records("single" if task != "single" else "ordinal"))
    with pytest.raises(DataError, match=told):
        check_labels(recipe, records(task))


def test_a_frozen_start_knows_patches_of_one_size():
    several = Stages(extraction={"patch": 32, "sizes": [32, 64]})
    check_recipe(Recipe(model=several))
    with pytest.raises(ValueError, match=r"extraction\.sizes is given, and a frozen start .* of training\.patch_sizes"):
        check_recipe(Recipe(model=several, training=Training("tuned", frozen=True)))


def test_classes_that_are_numbers_may_be_judged_by_kappa():
    check_labels(Recipe(best_by="kappa"), records("single")._replace(classes=("20", "50", "70")))


def test_an_augmentation_that_there_is_not_is_refused_without_any_data():
    with pytest.raises(ValueError, match="unknown augmentation 'WRONG'"):
        check_recipe(Recipe(data=DataOptions(augmentation={"name": "flip,WRONG"})))


@pytest.mark.parametrize("task", [*TASK_NAMES, "questions"])
def test_each_task_can_be_kept_by_the_number_it_is_kept_by(task):
    made = task_of(task, ("0", "1"), QUESTIONS)
    assert made.best_by in BEST_BY[task]
    assert {*BEST_BY[task]} <= {*BestBy.__args__}
