"""Losses are the log-likelihoods they say they are, and measures those of formulas by hand."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from oracles import seeded
from scipy import stats
from torch.testing import assert_close

from saccade.prediction import mixture_of_answers
from saccade.tasks.labels import Question
from saccade.tasks.multi import Multi
from saccade.tasks.ordinal import Ordinal
from saccade.tasks.regression import Regression
from saccade.tasks.single import Single
from saccade.tasks.task import Task, describe_task, make_task, task_of

NAMES = ("open", "short", "spur")
QUESTIONS = (
    Question("kind", "single", ("a", "b")),
    Question("spots", "multi", NAMES),
    Question("age", "regression", ()),
)
TASKS: dict[str, tuple[Task, list[str]]] = {
    "single": (Single(NAMES), ["open", "spur", "short", "spur"]),
    "multi": (Multi(NAMES), ["open;spur", ";", "short", "open;short;spur"]),
    "ordinal": (Ordinal(("0", "0.5", "1")), ["0", "1", "0.5", "1"]),
    "regression": (Regression(mean=3.0, std=2.0), ["1.5", "3", "9", "-2"]),
    "questions": (
        task_of("questions", (), QUESTIONS),
        ["a | open | 3", "b | ; | 1", "a | spur;short | 0", "b | spur | 2"],
    ),
}


def targets_of(name):
    task, labels = TASKS[name]
    return task, torch.tensor([task.target(label) for label in labels])


@pytest.mark.parametrize("name", TASKS)
def test_the_loss_is_the_sum_over_parts_and_the_mean_over_images(name):
    task, target = targets_of(name)
    logits = torch.randn(4, task.outputs, generator=seeded(0))
    assert_close(task.loss(logits, target), task.losses(logits, target).sum(dim=1).mean())


@pytest.mark.parametrize("name", TASKS)
def test_slots_answer_one_by_one_as_images_do(name):
    task, target = targets_of(name)
    logits = torch.randn(4, 5, task.outputs, generator=seeded(0))
    each = torch.stack([task.losses(logits[:, slot], target) for slot in range(5)], dim=1)
    assert_close(task.losses(logits, target[:, None]), each)


@pytest.mark.parametrize("name", ["single", "multi", "ordinal"])
def test_the_loss_is_minus_the_log_of_what_is_told(name):
    task, target = targets_of(name)
    logits = torch.randn(4, task.outputs, generator=seeded(0)).double().cummin(dim=1).values
    told, losses = task.tell(logits), task.losses(logits, target)
    if name == "multi":
        expected = torch.where(target > 0.5, told, 1 - told).log()
    elif name == "ordinal":
        above = 1 - told.cumsum(dim=1)[:, :-1]
        expected = torch.where(target[:, None] > torch.arange(2), above, 1 - above).log()
    else:
        expected = told.log().gather(1, target[:, None])
    assert_close(losses, -expected)


@pytest.mark.parametrize("name", ["single", "multi", "ordinal"])
def test_labels_are_said_by_answers_that_are_sure_of_them(name):
    task, target = targets_of(name)
    sure = {
        "single": lambda: 20.0 * F.one_hot(target, 3),
        "multi": lambda: 40 * target - 20,
        "ordinal": lambda: torch.where(target[:, None] > torch.arange(2), 20.0, -20.0),
    }[name]()
    assert [task.say(told).text for told in task.tell(sure)] == TASKS[name][1]
    assert task.right(sure, target).tolist() == [1.0] * 4


def test_one_label_is_what_cross_entropy_says_bit_by_bit():
    generator = seeded(1)
    logits, label = torch.randn(64, 7, generator=generator), torch.randint(7, (64,), generator=generator)
    task, weight = Single(tuple("abcdefg")), torch.rand(7, generator=generator)
    assert torch.equal(task.loss(logits, label), F.cross_entropy(logits, label))
    assert torch.equal(task.loss(logits, label, weight), F.cross_entropy(logits, label, weight=weight))
    assert torch.equal(task.losses(logits, label)[:, 0], F.cross_entropy(logits, label, reduction="none"))


def test_each_label_is_a_mixture_of_its_own():
    """One patch shows the first label and another the second: each is explained by its patch."""
    task, target = Multi(("open", "short")), torch.tensor([[1.0, 1.0]])
    logits, scores = torch.tensor([[[9.0, -9.0], [-9.0, 9.0]]]).double(), torch.zeros(1, 2).double()
    expected = -2 * math.log(0.5 * (1 / (1 + math.exp(-9)) + 1 / (1 + math.exp(9))))
    mixed = mixture_of_answers(task.losses(logits, target[:, None]), scores)
    assert float(mixed) == pytest.approx(expected)


def test_weights_make_images_with_and_without_a_label_count_alike():
    task, target = Multi(("rare",)), torch.tensor([[1.0]] + [[0.0]] * 9)
    weight = task.weigh(target, task.class_weight(target))
    assert float(weight[0].sum()) == pytest.approx(float(weight[1:].sum()))
    assert float(weight.mean()) == pytest.approx(1)


def roc_area(truth, score):
    """The share of pairs in which the one that has the label scores higher."""
    area = stats.mannwhitneyu(score[truth == 1], score[truth == 0]).statistic
    return area / (truth == 1).sum() / (truth == 0).sum()


def average_precision(truth, score):
    """The mean precision at each image that has the label, from the highest score on; no two scores are equal."""
    hit = truth[np.argsort(-score)] == 1
    return (hit.cumsum() / np.arange(1, len(hit) + 1))[hit].mean()


def test_the_measures_of_several_labels_are_means_over_those_that_vary():
    generator = seeded(2)
    target = (torch.rand(50, 4, generator=generator) > 0.6).float()
    target[:, 3] = 1.0  # every image has it: nothing to tell apart
    logits = torch.randn(50, 4, generator=generator) + target
    values = Multi(("a", "b", "c", "d")).measure(logits, target)
    truth, score, said = target[:, :3].numpy(), logits[:, :3].numpy(), logits[:, :3].numpy() > 0
    areas = [roc_area(truth[:, k], score[:, k]) for k in range(3)]
    assert float(values["auroc"]) == pytest.approx(np.mean(areas))
    precision = [average_precision(truth[:, k], score[:, k]) for k in range(3)]
    assert float(values["average_precision"]) == pytest.approx(np.mean(precision), abs=1e-6)
    f1 = [2 * (truth[:, k] * said[:, k]).sum() / (truth[:, k].sum() + said[:, k].sum()) for k in range(3)]
    assert float(values["f1"]) == pytest.approx(np.mean(f1))
    assert float(values["exact_match"]) == pytest.approx(((logits > 0) == (target > 0.5)).all(dim=1).float().mean())
    assert float(values["auroc:b"]) == pytest.approx(areas[1])
    assert "auroc:d" not in values


def test_the_kappa_is_that_of_quadratic_weights():
    generator = seeded(3)
    target = torch.randint(4, (60,), generator=generator)
    logits = (target[:, None] - torch.tensor([0.5, 1.5, 2.5])) + torch.randn(60, 3, generator=generator)
    task = Ordinal(("0", "1", "2", "5"))
    said = [int(float(task.say(told).text) if task.say(told).text != "5" else 3) for told in task.tell(logits)]
    apart = np.square(target.numpy()[:, None] - np.array(said)[None])  # of all pairs: by chance
    expected = 1 - apart.diagonal().mean() / apart.mean()
    assert float(task.measure(logits, target)["kappa"]) == pytest.approx(expected, abs=1e-6)


def test_classes_that_are_numbers_have_the_kappa_of_levels_whatever_their_order():
    target, said = torch.tensor([0, 1, 2, 2, 1]), torch.tensor([0, 2, 2, 1, 1])
    single = Single(("20", "100", "50")).measure(F.one_hot(said, 3).float(), target)
    order = torch.tensor([0, 2, 1])  # of 20, 100 and 50
    above = (order[said][:, None] > torch.arange(2)).float() - 0.5
    levels = Ordinal(("20", "50", "100")).measure(above, order[target])
    assert single["kappa"] == levels["kappa"] == pytest.approx(1 - 0.4 / 1.12)  # squared distances, by chance 1.12
    assert "kappa" not in Single(("a", "b", "3")).measure(F.one_hot(said, 3).float(), target)


def test_a_number_is_measured_in_its_own_unit():
    generator = seeded(4)
    target = 100 + 20 * torch.randn(40, generator=generator)
    task = Regression(mean=100.0, std=20.0)
    logits = ((target - 100) / 20)[:, None] + 0.5 * torch.randn(40, 1, generator=generator)
    values = task.measure(logits, target)
    said = 100 + 20 * logits[:, 0]
    assert float(values["mean_absolute_error"]) == pytest.approx(float((said - target).abs().mean()), rel=1e-5)
    assert float(values["r2"]) == pytest.approx(
        float(1 - (said - target).square().mean() / target.var(unbiased=False)), rel=1e-4
    )


def test_the_best_constant_answer_has_the_prior_loss():
    """No answer that is the same for all images has a smaller one."""
    for name in TASKS:
        task, target = targets_of(name)
        bias = torch.zeros(task.outputs, dtype=torch.float64, requires_grad=True)
        solver = torch.optim.LBFGS([bias], max_iter=200, line_search_fn="strong_wolfe")

        def loss(task=task, target=target, bias=bias, solver=solver):
            solver.zero_grad()
            value = task.loss(bias.expand(len(target), -1), target)
            value.backward()
            return value

        solver.step(loss)
        assert float(loss().detach()) == pytest.approx(task.prior_loss(target), abs=1e-3), name


def test_questions_are_their_tasks_side_by_side():
    task, target = targets_of("questions")
    logits = torch.randn(4, task.outputs, generator=seeded(5))
    assert task.outputs == 2 + 3 + 1
    assert task.classes == ("kind: a", "kind: b", "spots: open", "spots: short", "spots: spur")
    kind, spots, age = Single(("a", "b")), Multi(NAMES), Regression()
    answers = [label.split(" | ") for label in TASKS["questions"][1]]
    expected = [
        each.loss(mine, torch.tensor([each.target(row[place]) for row in answers]))
        for place, (each, mine) in enumerate(zip((kind, spots, age), logits.split([2, 3, 1], dim=1), strict=True))
    ]
    assert_close(task.loss(logits, target), sum(expected))
    said = task.say(task.tell(logits)[0])
    assert said.text == " | ".join(each.text for each in said.answers.values())
    assert task.logit_of("spots: short") == 3
    assert float(task.measure(logits, target)["mean_absolute_error:age"]) > 0


def test_a_task_comes_back_from_plain_values():
    labels = TASKS["questions"][1]
    spec = describe_task("questions", labels, QUESTIONS)
    task = make_task(spec, (), 1)
    mean, std = np.mean([3, 1, 0, 2]), np.std([3, 1, 0, 2])
    assert dict(task.parts)["age"] == Regression(mean=mean, std=std)
    with pytest.raises(ValueError, match="unknown task 'ranking': expected one of single"):
        make_task({"name": "ranking"}, ("a",), 1)


def test_ranks_do_not_depend_on_probabilities_that_round_to_one():
    logits, target = torch.tensor([[30.0], [31.0], [32.0], [33.0]]), torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    area = stats.mannwhitneyu([31.0, 33.0], [30.0, 32.0]).statistic / 4
    assert float(Multi(("a",)).measure(logits, target)["auroc"]) == pytest.approx(area)
