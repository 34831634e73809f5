"""Learning rates against closed forms, steps against arithmetic by hand in double precision, and resuming."""

import copy
import math
import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from saccade.training.optimizers import clip_gradients, forget, learning_rate, make_optimizer, prepare_step
from saccade.training.phases import LabelFreeOptions, ScorerOptions, Training
from saccade.training.recipe import Optimizer, Recipe, Schedule, load_recipe


class Toy(nn.Module):
    """A scorer and something else, in double precision."""

    def __init__(self, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        self.scorer = nn.Linear(3, 1).double()
        self.features = nn.Linear(3, 2).double()

    def loss(self, seed: int) -> torch.Tensor:
        inputs = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return (self.features(inputs) * self.scorer(inputs).sigmoid()).square().mean()

    def flat(self) -> torch.Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters()])


def recipe_with(
    steps: int = 100,
    *,
    label_free: int = 0,
    scorer: ScorerOptions | None = None,
    schedule: Schedule | None = None,
    **optimizer,
) -> Recipe:
    constant = Schedule(name="constant", warm_up=0.0)
    return Recipe(
        steps=steps,
        training=Training(label_free=LabelFreeOptions(label_free), scorer=scorer or ScorerOptions()),
        schedule=schedule or constant,
        optimizer=Optimizer(**optimizer),
    )


def train(model: Toy, recipe: Recipe, steps: range, saved: dict | None = None) -> dict:
    """Train as a loop would, from `saved` if there is one; the state afterwards."""
    optimizer = make_optimizer(model, recipe)
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    for step in steps:
        prepare_step(optimizer, recipe, step)
        optimizer.zero_grad()
        model.loss(step).backward()
        optimizer.step()
    parts = {"model": model, "optimizer": optimizer}
    return pickle.loads(pickle.dumps({name: part.state_dict() for name, part in parts.items()}))


def gradients(model: Toy, step: int, value: torch.Tensor) -> torch.Tensor:
    """The gradient of the toy's loss at other weights, in the order of its parameters."""
    other = copy.deepcopy(model)
    nn.utils.vector_to_parameters(value, other.parameters())
    return torch.cat([g.flatten() for g in torch.autograd.grad(other.loss(step), list(other.parameters()))])


# ---- learning rates


def test_cosine_is_the_closed_form_after_a_linear_warm_up():
    recipe = recipe_with(steps=200, schedule=Schedule(name="cosine", warm_up=0.1), lr=3e-4)
    for step in range(201):
        expected = step / 20 if step < 20 else 0.5 * (1 + math.cos(math.pi * (step - 20) / 180))
        assert learning_rate(recipe, "rest", step) == pytest.approx(3e-4 * expected, rel=1e-12, abs=1e-18)
    assert learning_rate(recipe, "rest", 20) == 3e-4
    assert learning_rate(recipe, "rest", 200) == 0.0


def test_cosine_without_warm_up_starts_at_its_highest():
    recipe = recipe_with(schedule=Schedule(name="cosine", warm_up=0.0), lr=1e-4)
    assert learning_rate(recipe, "rest", 0) == 1e-4


@pytest.mark.parametrize("steps", [10, 70, 313, 1000])
def test_piecewise_falls_at_its_milestones(steps):
    """The paper's CUB schedule: ×0.1 at 60% and 80%, after 5% of warm-up."""
    recipe = recipe_with(steps=steps, schedule=Schedule(name="piecewise"), lr=1e-3)
    for step in range(steps):
        falls = (10 * step >= 6 * steps) + (10 * step >= 8 * steps)
        expected = min(1.0, 20 * step / steps) * 0.1**falls
        assert learning_rate(recipe, "rest", step) == pytest.approx(1e-3 * expected, rel=1e-12)


def test_the_scorer_has_its_own_rate_and_rises_in_a_line():
    recipe = recipe_with(lr=1e-3, scorer=ScorerOptions(rate=0.5, start=0.2))
    rates = [learning_rate(recipe, "scorer", step) for step in (0, 5, 10, 20, 99)]
    assert rates == pytest.approx([1e-4, 2e-4, 3e-4, 5e-4, 5e-4])
    at_once = recipe_with(lr=1e-3, scorer=ScorerOptions(rate=0.5))
    assert learning_rate(at_once, "scorer", 0) == pytest.approx(5e-4)


def test_before_the_first_label_only_the_scorer_learns():
    recipe = recipe_with(label_free=7, schedule=Schedule(name="cosine", warm_up=0.1), lr=1e-4)
    without = replace(recipe, training=Training())
    assert [learning_rate(recipe, "scorer", step) for step in range(7)] == [3e-3] * 7
    assert [learning_rate(recipe, "rest", step) for step in range(7)] == [0.0] * 7
    for group in ("scorer", "rest"):
        later = [learning_rate(recipe, group, 7 + step) for step in range(101)]
        assert later == [learning_rate(without, group, step) for step in range(101)]


def test_the_optimizer_gets_exactly_these_rates():
    rising = ScorerOptions(start=0.1)
    recipe = recipe_with(steps=20, label_free=5, schedule=Schedule(warm_up=0.2), lr=3e-4, scorer=rising)
    optimizer = make_optimizer(Toy(), recipe)
    before = {group["name"]: group["lr"] for group in optimizer.param_groups}
    assert before == {"scorer": 3e-3, "rest": 0.0}
    for step in range(26):
        prepare_step(optimizer, recipe, step)
        for group in optimizer.param_groups:
            assert group["lr"] == learning_rate(recipe, group["name"], step)


# ---- groups


def test_groups_part_the_trainable_parameters():
    model = Toy()
    model.features.bias.requires_grad_(False)
    groups = {group["name"]: group["params"] for group in make_optimizer(model, Recipe()).param_groups}
    assert [id(p) for p in groups["scorer"]] == [id(p) for p in model.scorer.parameters()]
    assert [id(p) for p in groups["rest"]] == [id(model.features.weight)]


def test_a_system_without_a_scorer_has_one_group():
    assert [group["name"] for group in make_optimizer(nn.Linear(3, 2), Recipe()).param_groups] == ["rest"]


def test_a_frozen_model_is_refused():
    with pytest.raises(ValueError, match="unfreeze"):
        make_optimizer(nn.Linear(3, 2).requires_grad_(False), Recipe())


# ---- steps and weight decay


@pytest.mark.parametrize("name", ["traffic/perturbed", "billiard/perturbed"])
def test_the_papers_adamw_takes_1e_4_of_a_weight_away_times_the_schedule(name):
    recipe = load_recipe(name, ["--steps=40"])
    model = Toy()
    optimizer = make_optimizer(model, recipe)
    expected = model.flat()
    for step in range(40):
        prepare_step(optimizer, recipe, step)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)  # nothing but the decay moves a weight
        optimizer.step()
        warm_up = recipe.schedule.warm_up
        x = step / 40
        shape = x / warm_up if x < warm_up else (1 + math.cos(math.pi * (x - warm_up) / (1 - warm_up))) / 2
        expected = expected * (1 - 1e-4 * shape)
    assert_close(model.flat(), expected, rtol=1e-12, atol=1e-14)


def test_sgd_has_torchs_l2():
    """The paper's CUB setting: the decay goes through the momentum."""
    model, lr, decay = Toy(), 1e-1, 0.03
    expected, momentum = model.flat(), 0
    for step in range(2):
        momentum = 0.9 * momentum + gradients(model, step, expected) + decay * expected
        expected = expected - lr * momentum
    train(model, recipe_with(name="sgd", lr=lr, weight_decay=decay), range(2))
    assert_close(model.flat(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_weights_without_a_gradient_keep_their_size(name):
    """In label-free steps the rest has no gradients, and must not decay meanwhile."""
    model = Toy()
    rest, scorer = model.features.weight.detach().clone(), model.scorer.weight.detach().clone()
    optimizer = make_optimizer(model, recipe_with(name=name, label_free=3, weight_decay=0.1))
    model.scorer(torch.ones(1, 3, dtype=torch.float64)).sum().backward()
    optimizer.step()
    assert torch.equal(model.features.weight, rest)
    assert not torch.equal(model.scorer.weight, scorer)


# ---- resuming


@pytest.mark.parametrize("name", ["adamw", "sgd"])
@pytest.mark.parametrize("stop", [3, 8])  # without labels and with them
def test_a_run_in_two_parts_ends_like_one(name, stop):
    rising = ScorerOptions(start=0.2)
    recipe = recipe_with(steps=10, label_free=5, schedule=Schedule(warm_up=0.1), name=name, scorer=rising)
    whole, parts = Toy(), Toy()
    expected = train(whole, recipe, range(15))
    saved = train(parts, recipe, range(stop))
    end = train(Toy(seed=1), recipe, range(stop, 15), saved)
    assert all(torch.equal(end["model"][key], value) for key, value in expected["model"].items())
    assert end["optimizer"]["param_groups"] == expected["optimizer"]["param_groups"]


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_forgetting_makes_the_scorer_start_afresh_and_leaves_the_rest(name):
    model, recipe = Toy(), recipe_with(name=name, lr=1e-2)
    optimizer = make_optimizer(model, recipe)
    for step in range(3):
        optimizer.zero_grad()
        model.loss(step).backward()
        optimizer.step()
    kept = {p: copy.deepcopy(optimizer.state[p]) for p in model.features.parameters()}
    forget(optimizer, "scorer")
    assert not any(p in optimizer.state for p in model.scorer.parameters())
    assert all(str(optimizer.state[p]) == str(state) for p, state in kept.items())

    fresh = copy.deepcopy(model)
    fresh_optimizer = make_optimizer(fresh, recipe)
    for each, its_optimizer in ((model, optimizer), (fresh, fresh_optimizer)):
        its_optimizer.zero_grad()
        each.loss(9).backward()
        its_optimizer.step()
    assert torch.equal(model.scorer.weight, fresh.scorer.weight)
    assert not torch.equal(model.features.weight, fresh.features.weight)


def test_the_first_label_finds_the_scorer_without_moments():
    model, recipe = Toy(), recipe_with(label_free=3)
    optimizer = make_optimizer(model, recipe)
    for step in range(4):
        prepare_step(optimizer, recipe, step)
        known = [p in optimizer.state for p in model.scorer.parameters()]
        assert known == [step in (1, 2)] * 2
        model.loss(step).backward()
        optimizer.step()


# ---- clipping


def test_the_scorer_s_gradient_is_clipped_apart_from_the_rest():
    model, recipe = Toy(), recipe_with(clip_norm=1.0)
    optimizer = make_optimizer(model, recipe)
    for parameter in model.scorer.parameters():
        parameter.grad = torch.full_like(parameter, 100.0)
    for parameter in model.features.parameters():
        parameter.grad = torch.full_like(parameter, 1e-3)
    clip_gradients(optimizer, recipe)
    assert_close(nn.utils.get_total_norm([p.grad for p in model.scorer.parameters()]).item(), 1.0, rtol=1e-5, atol=0)
    assert all((p.grad == 1e-3).all() for p in model.features.parameters())


def test_values_are_clipped_to_the_range():
    model, recipe = Toy(), recipe_with(clip_value=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.linspace(-1, 1, parameter.numel(), dtype=parameter.dtype).reshape(parameter.shape)
    expected = [p.grad.clamp(-0.1, 0.1) for p in model.parameters()]
    clip_gradients(make_optimizer(model, recipe), recipe)
    assert all(torch.equal(p.grad, clipped) for p, clipped in zip(model.parameters(), expected, strict=True))
