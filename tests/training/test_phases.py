"""Phases of the named trainings, what recipes change in them, and which step is in which."""

import subprocess
import sys

import pytest

from saccade.recipes import list_recipes
from saccade.training.phases import TRAININGS, LabelFreeOptions, Phase, Plan, ScorerOptions, Training, lay_out
from saccade.training.recipe import load_recipe


def spans(training: Training, steps: int) -> list[tuple[str, int, int]]:
    return [(span.phase.name, span.begin, span.end) for span in Plan(training, steps).spans]


def test_the_paper_s_training_is_one_phase_exactly():
    (only,) = lay_out(Training("paper"))[1:]  # after no label-free steps
    assert spans(Training("paper"), 100) == [("labels", 0, 100)]
    assert (only.choose, only.loss, only.sigma) == ("model", {"entropy_coefficient": 0.01}, "to_zero")
    assert (only.scorer.rate, only.scorer.start, only.deal) == (1.0, 1.0, "as_they_come")


@pytest.mark.parametrize("name", TRAININGS)
@pytest.mark.parametrize("steps", [1, 7, 12, 1080])
def test_every_step_is_in_one_phase(name, steps):
    plan = Plan(Training(name), steps)
    assert [span.begin for span in plan.spans] == [0, *(span.end for span in plan.spans[:-1])]
    assert plan.spans[-1].end == plan.total == plan.label_free + steps
    for span in plan.spans:
        assert all(plan.at(step) is span.phase for step in range(span.begin, span.end))


def test_guided_steps_are_a_share_of_the_labeled_ones_and_a_third_of_them_is_by_detail_alone():
    training = Training("guided_by_detail", LabelFreeOptions(60))
    assert spans(training, 1080) == [
        ("label_free", 0, 60),
        ("by_detail", 60, 312),
        ("half_by_detail", 312, 816),
        ("soft", 816, 1140),
    ]
    more = Training("guided_by_detail", LabelFreeOptions(0), guided=0.9)
    assert spans(more, 1000) == [("by_detail", 0, 300), ("half_by_detail", 300, 900), ("soft", 900, 1000)]
    assert spans(Training("guided_by_scores", LabelFreeOptions(0), guided=0.0), 10) == [("soft", 0, 10)]


@pytest.mark.parametrize(("share", "steps", "guided"), [(0.7, 10, 7), (0.7, 24, 17), (0.75, 12, 9), (0.1, 30, 3)])
def test_a_share_of_the_steps_is_rounded_up(share, steps, guided):
    training = Training("guided_by_scores", LabelFreeOptions(0), guided=share)
    assert spans(training, steps)[0] == ("by_scores", 0, guided)


@pytest.mark.parametrize("evenly", [0.0, 0.3, 0.5, 0.75, 0.9, True])
def test_classes_are_dealt_evenly_for_the_first_share_of_the_steps(evenly):
    plan = Plan(Training("guided_by_scores", LabelFreeOptions(4), evenly=evenly), 100)
    dealt = [plan.at(step).deal == "evenly" for step in range(plan.total)]
    assert dealt == [bool(evenly) and step < 4 + 100 * evenly for step in range(104)]
    assert {plan.at(step).choose for step in range(4, 79)} == {"scores"}


def test_what_a_recipe_overrides_holds_in_every_labeled_phase():
    scorer = ScorerOptions(rate=2.0)
    training = Training("guided_by_detail", loss={"mixture_coefficient": 0.5}, scorer=scorer, sigma="constant")
    label_free, *labeled = lay_out(training)
    assert label_free.loss == {}
    for phase in labeled:
        assert phase.loss == {"entropy_coefficient": 0.0, "mixture_coefficient": 0.5}
        assert (phase.scorer.rate, phase.scorer.start, phase.sigma) == (2.0, 0.1, "constant")


def test_any_training_can_begin_without_labels():
    training = Training("paper", LabelFreeOptions(5, focus=2.0))
    first, second = Plan(training, 10).spans
    assert (first.phase.name, first.end, first.phase.lr, first.phase.loss) == ("label_free", 5, 3e-3, {"focus": 2.0})
    assert second.phase.loss == {"entropy_coefficient": 0.01}


def test_a_training_without_guided_steps_cannot_have_more_of_them():
    with pytest.raises(ValueError, match=r"paper has no guided steps: set training\.name to guided_by_detail"):
        lay_out(Training("paper", guided=0.5))


def test_phases_can_be_written_out():
    phases = [Phase("detail", steps=5, learn="missing_detail"), Phase("a", share=0.25), Phase("b", share=0.75)]
    assert spans(Training(phases=phases), 8) == [("detail", 0, 5), ("a", 5, 7), ("b", 7, 13)]
    with pytest.raises(ValueError, match="shares that add up to 1"):
        lay_out(Training(phases=phases[:2]))
    with pytest.raises(ValueError, match="those without labels first"):
        lay_out(Training(phases=[*phases[1:], phases[0]]))


def test_phases_are_told_as_plain_values():
    told = Plan(Training("guided_by_scores", LabelFreeOptions(4)), 12).describe()
    assert [(each["name"], each["from"], each["to"]) for each in told] == [
        ("label_free", 0, 4), ("by_scores", 4, 13), ("soft", 13, 16),
    ]  # fmt: skip
    assert told[1]["choose"] == "scores"


# What the recipes' keys of before said: label-free steps and their rate, guided steps of them by detail alone, guided
# steps, the scorer's rate and what it starts with, the loss, steps with classes dealt evenly.
BEFORE = {
    "signs/perturbed": (60, 3e-3, 252, 756, 1.5, 0.1, (0.0, 1.0, None), 0),
    "signs/ats": (60, 3e-3, 252, 756, 1.5, 0.1, (0.01, 1.0, None), 0),
    "signs/gumbel": (60, 3e-3, 324, 972, 1.5, 0.1, (0.0, 1.0, None), 0),
    "signs/cnn": (0, None, 0, 0, 1.0, 1.0, (None, None, None), 0),
    "signs/exhaustive": (0, None, 0, 0, 1.0, 1.0, (0.0, None, None), 0),
    "kolektor/cnn": (0, None, 0, 0, 1.0, 1.0, (None, None, None), 150),
    "billiard_small/perturbed": (200, 3e-3, 0, 1350, 0.1, 1.0, (0.0, 0.0, None), 900),
    "billiard_small/ats": (200, 3e-3, 0, 1650, 0.1, 1.0, (0.01, 1.0, None), 1100),
    "billiard_small/placed": (200, 3e-3, 0, 1650, 0.1, 1.0, (0.0, 1.0, None), 1100),
    "billiard_small/cnn": (0, None, 0, 0, 1.0, 1.0, (None, None, None), 1500),
    "megapixel_mnist/perturbed": (200, 3e-3, 0, 1125, 1.0, 0.1, (0.0, 1.0, None), 0),
    "megapixel_mnist/ats": (200, 3e-3, 0, 600, 0.1, 1.0, (1e-4, 1.0, None), 0),
    "cub_sparrows/nts_topk": (0, None, 0, 0, 10.0, 1.0, (0.05, None, None), 0),
    "cub_sparrows/nts_diverse": (0, None, 0, 0, 10.0, 1.0, (0.05, 1.0, None), 0),
    "cub_sparrows/nts_net": (0, None, 0, 0, 10.0, 1.0, (None, None, None), 0),
    "traffic/perturbed": (0, None, 0, 0, 1.0, 1.0, (0.01, None, None), 0),
    "traffic/ats": (0, None, 0, 0, 1.0, 1.0, (0.05, None, None), 0),
}


@pytest.mark.parametrize("name", BEFORE)
def test_shipped_recipes_train_as_their_results_were_made(name):
    plan = load_recipe(name).plan
    label_free = [span.phase.lr for span in plan.spans if not span.phase.labeled]
    labeled = [(plan.at(plan.label_free + step)) for step in range(plan.labeled)]
    last = labeled[-1]
    terms = tuple(last.loss.get(f"{term}_coefficient") for term in ("entropy", "mixture", "context"))
    assert (
        plan.label_free,
        label_free[0] if label_free else None,
        sum(phase.choose == "detail" for phase in labeled),
        sum(phase.guided for phase in labeled),
        last.scorer.rate,
        last.scorer.start,
        terms,
        sum(phase.deal == "evenly" for phase in labeled),
    ) == BEFORE[name]
    assert {(phase.scorer.rate, phase.scorer.start, phase.sigma) for phase in labeled} == {
        (last.scorer.rate, last.scorer.start, "to_zero")
    }


def test_every_shipped_recipe_has_a_plan():
    for recipe in list_recipes():
        plan = load_recipe(recipe.name).plan
        assert plan.spans[-1].end == plan.total


def test_recipes_override_what_they_must_in_yaml_and_by_flags(tmp_path):
    path = tmp_path / "mine.yaml"
    training = "{name: guided_by_scores, label_free: {steps: 5}, loss: {entropy_coefficient: 1}}"
    path.write_text(f"steps: 10\ntraining: {training}\n")
    flags = ["--training.guided=0.5", "--training.loss.mixture_coefficient=0.5", "--training.scorer.rate=1"]
    plan = load_recipe(path, flags).plan
    assert [(span.phase.name, span.end) for span in plan.spans] == [("label_free", 5), ("by_scores", 10), ("soft", 15)]
    assert plan.at(5).loss == {"entropy_coefficient": 1, "mixture_coefficient": 0.5}
    assert plan.at(5).scorer.rate == 1


def test_phases_do_not_wait_for_torch():
    code = "import sys, saccade.training.phases; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
