"""The collapse watch: silent on healthy runs, clear on broken ones, each thing told once."""

import csv
import logging
import math
from unittest.mock import Mock

import pytest
import torch

from saccade import ModelConfig, PatchSelectionModel
from saccade.config import Stages
from saccade.data.dataset import ImageDataset
from saccade.evaluation import Predictions
from saccade.runs import RunFolder
from saccade.tasks.single import Single
from saccade.training.learner import Learned, Learner
from saccade.training.observers.collapse import NOT_FINITE, RULES, CollapseWatch, examine
from saccade.training.observers.snapshot import Snapshot
from saccade.training.phases import LabelFreeOptions, Training
from saccade.training.recipe import Recipe

CLASSES = ("EMPTY", "50", "70", "80")
NAN = math.nan

# A run as it should be: guessing and looking around at first, right and sure in the end, noise and gradient fading.
HEALTHY = [
    Snapshot(
        progress=t,
        images=400,
        favorite="70",
        favorite_share=max(0.26, 1 - 5 * t),
        skill=min(0.98, max(0.0, 3 * t - 0.3)),
        luck=0.06,
        loss=1.39 * math.exp(-4 * max(0, t - 0.1)),
        prior_loss=math.log(4),
        hit_rate=min(0.97, 0.2 + 2 * t),
        entropy=0.999 - 0.9 * t,
        agreement=0.3,
        by_chance=0.03,
        at_edge=0.2,
        edge_by_chance=0.25,
        gradient=math.exp(-12 * t),
        sigma=1 - t,
    )
    for t in [n / 20 for n in range(1, 21)]
]
GUESSING = {"skill": 0.02, "loss": 1.40, "hit_rate": 0.1}
BROKEN = {
    "one class": {"favorite_share": 1.0, "skill": 0.0},
    "one place": {"entropy": 0.03, **GUESSING},
    "no opinion": {"entropy": 0.9995, **GUESSING},
    "guesses": {"gradient": 0.05, **GUESSING},
    "same place": {"agreement": 0.99, "skill": 0.3, "hit_rate": 0.1},
    "edge": {"at_edge": 0.9, "skill": 0.3, "hit_rate": 0.1},
    "no gradient": {"gradient": 1e-5, "sigma": 0.8, "skill": 0.3, "hit_rate": 0.1},
}


def findings_over(snapshots):
    """What is said at each validation of a run."""
    return [{finding.kind for finding in examine(snapshots[: n + 1])} for n in range(len(snapshots))]


def changed(**values):
    return [snapshot._replace(**values) for snapshot in HEALTHY]


def test_a_healthy_run_is_silent():
    assert findings_over(HEALTHY) == [set()] * 20


def test_every_rule_has_a_broken_run():
    assert set(BROKEN) == set(RULES)


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("boxes", [True, False])
def test_a_broken_run_is_told_of_and_not_at_once(kind, boxes):
    values = BROKEN[kind] if boxes else {**BROKEN[kind], "hit_rate": NAN}
    found = findings_over(changed(**values))
    assert not found[0]
    assert kind in found[-1]
    told = next(n for n, kinds in enumerate(found) if kind in kinds)
    assert HEALTHY[told].progress <= max(0.35, RULES[kind].after)
    assert all(kind in kinds for kinds in found[told:])


@pytest.mark.parametrize("kind", RULES)
def test_the_message_says_what_to_try(kind):
    message = next(f.message for f in examine(changed(**BROKEN[kind])) if f.kind == kind)
    assert "Try" in message
    assert "%" in message or "e-" in message  # how bad it is


@pytest.mark.parametrize("kind", RULES)
def test_one_bad_validation_is_not_enough(kind):
    history = [*HEALTHY[:10], HEALTHY[10]._replace(**BROKEN[kind])]
    assert not examine(history)


@pytest.mark.parametrize(
    ("why", "values"),
    [
        ("scores stay nearly equal under an entropy bonus, in the right order", {"entropy": 0.999}),
        ("scores of a large scale, in the right order", {"entropy": 0.01}),
        ("the evidence is always in one place", {"agreement": 1.0}),
        ("the evidence is at the edge", {"at_edge": 1.0}),
    ],
)
@pytest.mark.parametrize("known", [{"hit_rate": NAN}, {"skill": 0.05}])
def test_what_looks_like_collapse_and_works_is_silent(why, values, known):
    """Shown by the answers where nobody drew boxes, or by hits while answers are still to come."""
    late = [s._replace(**values, **known) for s in HEALTHY if s.progress > 0.4]
    kinds = set().union(*findings_over(late))
    assert not kinds, why


def test_most_images_of_one_class_is_no_collapse():
    """97% are fine, 3% defective, and half of the defects are found."""
    assert findings_over(changed(favorite_share=0.985, skill=0.5, loss=0.1, prior_loss=0.13))[-1] == set()


def test_large_patches_are_always_near_an_edge():
    assert "edge" not in findings_over(changed(at_edge=1.0, edge_by_chance=0.9, skill=0.3, hit_rate=0.1))[-1]


def test_choosing_nearly_all_candidates_is_not_the_same_place():
    assert "same place" not in findings_over(changed(agreement=1.0, by_chance=0.9, skill=0.3, hit_rate=0.1))[-1]


def test_gradients_may_end_with_the_noise_or_with_the_loss():
    tiny = {"gradient": 1e-6}
    assert "no gradient" not in findings_over(changed(**tiny, sigma=0.1, skill=0.3, hit_rate=0.1))[-1]
    assert "no gradient" not in findings_over(changed(**tiny, sigma=1.0, skill=0.95))[-1]


def test_with_few_images_guesses_may_be_lucky():
    lucky = {**BROKEN["no opinion"], "skill": 0.15}
    assert "no opinion" in findings_over(changed(**lucky, luck=0.2))[-1]
    assert "no opinion" not in findings_over(changed(**lucky, luck=0.06))[-1]


def test_a_scorer_that_goes_astray_after_a_good_start_is_told_of():
    """It looked at the balls for half of the run, and then at the pockets."""
    astray = [*HEALTHY[:10], *changed(**BROKEN["guesses"], entropy=0.7)[10:]]
    assert findings_over(astray)[9:14] == [set(), set(), set(), {"guesses"}, {"guesses"}]


def test_an_answer_without_a_scorer_may_be_a_guess():
    """Nothing here helps a CNN whose view shows too little."""
    assert "guesses" not in findings_over(changed(**GUESSING, entropy=NAN))[-1]


def test_a_loss_that_is_no_number_is_told_at_once():
    assert examine([HEALTHY[0]._replace(finite=False)]) == [NOT_FINITE]


def test_a_system_without_a_scorer_is_only_asked_about_its_answers():
    blank = dict.fromkeys(("hit_rate", "entropy", "agreement", "at_edge", "gradient", "sigma"), NAN)
    assert findings_over(changed(**blank)) == [set()] * 20
    assert findings_over(changed(**blank, **BROKEN["one class"]))[-1] == {"one class"}


def test_a_handful_of_images_proves_nothing():
    assert findings_over(changed(images=4, **BROKEN["one class"]))[-1] == set()


# ---- the watch


def make_predictions(label, said):
    label, said = torch.tensor(label), torch.tensor(said)
    n = len(label)
    centers = torch.rand(n, 3, 2, generator=torch.Generator().manual_seed(0))
    logits = 3.0 * torch.nn.functional.one_hot(said, 4).float()
    unknown = torch.full((n,), math.nan)
    return Predictions(
        torch.arange(n), label, logits, unknown, unknown, unknown, torch.full((n,), 0.5), centers, torch.zeros(n, 0)
    )


def make_watch(folder, selection="perturbed", training=None, *, writes=True, step=0):
    """The watch of a run with 10 label-free steps and 100 with labels."""
    stages = Stages(
        view={"scale": 0.25},
        scorer={"name": "conv", "pool": 2},
        selection={"name": selection, "k": 2},
        extraction={"patch": 20},
    )
    recipe = Recipe(model=stages, steps=100, training=training or Training(label_free=LabelFreeOptions(10)))
    model = PatchSelectionModel.from_config(ModelConfig(**vars(stages), num_classes=4, image_size=(64, 64)))
    watch = CollapseWatch(RunFolder(folder, writes=writes), Learner(model, recipe, Mock(spec=ImageDataset)))
    watch.begin(step)
    return watch


def set_gradients(watch, size):
    for parameter in watch.learner.model.scorer.parameters():
        parameter.grad = torch.full_like(parameter, size)


GOOD = make_predictions([0, 1, 2, 3] * 5, [0, 1, 2, 3] * 5)
ONE_CLASS = make_predictions([0, 1, 2, 3] * 5, [1] * 20)


def validate(watch, step, predictions):
    watch.validated(step, predictions, Single(CLASSES))


def rows(folder):
    path = folder / "warnings.csv"
    return list(csv.reader(path.open(newline=""))) if path.exists() else []


def told(folder):
    return [(int(step), kind) for step, kind, _ in rows(folder)[1:]]


def test_told_once_until_it_goes_away(tmp_path, caplog):
    watch = make_watch(tmp_path)
    with caplog.at_level(logging.WARNING, "saccade"):
        for step in range(20, 70, 10):
            validate(watch, step, ONE_CLASS)
        assert told(tmp_path) == [(40, "one class")]
        validate(watch, 70, GOOD)
        for step in range(80, 110, 10):
            validate(watch, step, ONE_CLASS)
    assert told(tmp_path) == [(40, "one class"), (100, "one class")]
    assert caplog.text.count("'50', although their labels differ") == 2


def test_steps_without_labels_are_not_judged(tmp_path):
    watch = make_watch(tmp_path)
    for step in (2, 5, 10):
        validate(watch, step, ONE_CLASS)
    assert watch.history == []


def test_only_the_first_process_speaks_and_all_keep_count(tmp_path, caplog):
    watch = make_watch(tmp_path, writes=False)
    for step in (30, 40, 50):
        validate(watch, step, ONE_CLASS)
    assert not caplog.text
    assert not rows(tmp_path)
    assert watch.active == {"one class"}


def test_a_loss_that_is_no_number_is_told_before_the_next_step(tmp_path):
    watch = make_watch(tmp_path)
    for loss in (1.0, NAN, NAN):
        watch.after(17, Learned(torch.tensor(loss)))
    assert told(tmp_path) == [(17, "not finite")]
    validate(watch, 20, GOOD)
    assert watch.active == {"not finite"}
    validate(watch, 30, GOOD)
    assert watch.active == set()


def test_gradients_are_relative_to_the_first(tmp_path):
    watch = make_watch(tmp_path)
    for step, size in ((20, 2.0), (30, 1.0), (40, 0.002)):
        set_gradients(watch, size)
        watch.before_clipping(step)
        watch.before_clipping(step)
        validate(watch, step, GOOD)
    assert [s.gradient for s in watch.history] == pytest.approx([1.0, 0.5, 0.001], rel=1e-4)
    assert [s.sigma for s in watch.history] == pytest.approx([0.9, 0.8, 0.7])


def test_steps_that_overflowed_are_left_out_of_the_gradients(tmp_path):
    watch = make_watch(tmp_path)
    for step, sizes in ((20, (math.inf, 2.0, 4.0)), (30, (1.0, NAN, 2.0)), (40, (math.inf,))):
        for size in sizes:
            set_gradients(watch, size)
            watch.before_clipping(step)
        watch.load_state_dict(watch.state_dict())
        validate(watch, step, GOOD)
    assert [s.gradient for s in watch.history] == pytest.approx([1.0, 0.5, NAN], rel=1e-4, nan_ok=True)


@pytest.mark.parametrize(("mixture", "seen"), [(0.0, NAN), (1.0, 1.0)])
def test_guided_steps_reach_the_scorer_through_the_mixture_loss_only(tmp_path, mixture, seen):
    training = Training("guided_by_scores", LabelFreeOptions(10), loss={"mixture_coefficient": mixture})
    watch = make_watch(tmp_path, training=training)
    set_gradients(watch, mixture)
    watch.before_clipping(20)
    validate(watch, 20, GOOD)
    assert watch.history[0].gradient == pytest.approx(seen, nan_ok=True)


@pytest.mark.parametrize("selection", ["ats", "sinkhorn", "softsort", "straight_through"])
def test_selections_without_noise_are_asked_where_they_look_too(tmp_path, selection):
    watch = make_watch(tmp_path, selection)
    label = [0, 1, 2, 3] * 5
    guesses = make_predictions(label, label[1:] + label[:1])
    sure = guesses._replace(entropy=torch.full((20,), 0.01), hit=torch.zeros(20))
    for step in (30, 40):
        validate(watch, step, sure)
    assert told(tmp_path) == [(40, "one place")]
    assert math.isnan(watch.history[0].gradient)


def test_state_survives_a_checkpoint_and_later_rows_are_dropped(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    plan = [(step, GOOD if step == 50 else ONE_CLASS) for step in range(20, 90, 10)]
    undisturbed = make_watch(whole)
    for step, predictions in plan:
        validate(undisturbed, step, predictions)
    first = make_watch(stopped)
    state = None
    for step, predictions in plan:
        validate(first, step, predictions)
        if step == 60:
            state = first.state_dict()
    torch.save(state, tmp_path / "state")
    second = make_watch(stopped, step=60)
    second.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    assert told(stopped) == [(40, "one class")]
    for step, predictions in plan[5:]:
        validate(second, step, predictions)
    assert rows(stopped) == rows(whole)
    assert repr(second.history) == repr(undisturbed.history)  # NaN is not equal to NaN
