"""A GPU answers, selects and trains as the processor does."""

import csv
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from tiny import make_spots, tiny_recipe
from torch.testing import assert_close

from saccade.doctor import answer, make_images, make_model, step_time
from saccade.registry import build, parts
from saccade.selection import hard_topk, normalize_scores
from saccade.training.recipe import dump_recipe

pytestmark = pytest.mark.gpu

N, K, REPEATS = 60, 4, 40
SELECTORS = sorted(set(parts("selection")) - {"diverse", "exhaustive"})  # one needs boxes, one takes all
DRAWS = {"perturbed": {"num_samples": 2000}}


def scores() -> torch.Tensor:
    return normalize_scores(torch.randn(2, N, generator=torch.Generator().manual_seed(0)))


def mean_choice(name: str, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean indicators (B K N) over repeated calls, and the standard errors of that mean."""
    selector = build("selection", {"name": name, "k": K, **DRAWS.get(name, {})}).train().to(device)
    torch.manual_seed(0)
    calls = torch.stack([selector(scores().to(device)).dense(N).detach().cpu().double() for _ in range(REPEATS)])
    return calls.mean(dim=0), calls.std(dim=0) / REPEATS**0.5


@pytest.mark.parametrize("name", SELECTORS)
def test_a_selector_chooses_the_same_in_evaluation(name, cuda):
    selector = build("selection", {"name": name, "k": K}).eval()
    torch.manual_seed(0)
    there = selector(scores().to(cuda))
    assert there.index.device.type == "cuda"
    if name in ("random", "ats"):  # which draw in evaluation, too
        assert (there.index.diff(dim=1) >= 0).all()
    else:
        assert_close(there.dense(N).cpu(), selector(scores()).dense(N), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", SELECTORS)
def test_a_selector_chooses_alike_in_training(name, cuda):
    (here, spread), (there, spread_there) = mean_choice(name, torch.device("cpu")), mean_choice(name, cuda)
    bound = 6 * (spread**2 + spread_there**2).sqrt() + 6 / REPEATS  # a slot that none of the draws took has no spread
    assert ((here - there).abs() <= bound.clamp(min=1e-3)).all()


def test_gradients_agree(cuda):
    def gradient(device: torch.device) -> torch.Tensor:
        leaf = scores().to(device).requires_grad_()
        selector = build("selection", {"name": "perturbed", "k": K, "num_samples": 20_000}).train()
        weight = torch.randn(K, N, generator=torch.Generator().manual_seed(1)).to(device)
        (selector(leaf).dense(N) * weight).sum().backward()
        assert leaf.grad is not None
        return leaf.grad.cpu()

    torch.manual_seed(0)
    cosine = torch.cosine_similarity(gradient(torch.device("cpu")), gradient(cuda), dim=1)
    assert (cosine > 0.98).all()


def test_a_model_answers_alike(cuda):
    model, images = make_model(), make_images()
    expected = answer(model, images)
    given = answer(deepcopy(model).to(cuda), images.to(cuda))
    assert torch.equal(given.boxes, expected.boxes)
    assert_close(given.logits, expected.logits, atol=1e-3, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_precision_answers_nearly_alike(dtype, cuda):
    model, images = make_model().eval().to(cuda), make_images().to(cuda)
    with torch.no_grad():
        exact = model(images).logits
        with torch.autocast("cuda", dtype=dtype):
            mixed = model(images).logits
    assert not torch.equal(mixed.float(), exact)  # it was mixed
    assert_close(mixed.float(), exact, atol=0.1, rtol=0.1)


def test_compiled_features_answer_alike(cuda):
    model, images = make_model().eval().to(cuda), make_images().to(cuda)
    with torch.no_grad():
        expected = model(images).logits
        model.features = torch.compile(model.features)
        assert_close(model(images).logits, expected, atol=1e-3, rtol=1e-3)


def test_extraction_of_a_gpu_is_that_of_the_processor(cuda):
    model, images = make_model().eval(), make_images()
    with torch.no_grad():
        chosen = model(images)
        picks = hard_topk(chosen.scores, K)
        here = model.extraction(images, picks, model.grid(*images.shape[-2:]))
        there = model.extraction(images.to(cuda), hard_topk(chosen.scores.to(cuda), K), model.grid(*images.shape[-2:]))
    assert_close(there.cpu(), here, atol=1e-6, rtol=0)


def train(folder: Path, recipe: Path, *words: str) -> list[dict[str, str]]:
    command = [sys.executable, "-m", "saccade.cli", "train", str(recipe), "--out", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader((folder / "evaluation" / "test.csv").open()))


def test_two_gpus_train_as_one_does(two_gpus, tmp_path, cuda):
    torch.ones(1, device=cuda)  # what trains is other processes
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(dump_recipe(tiny_recipe(make_spots(tmp_path / "spots", 70), accelerator="cuda")))
    one = train(tmp_path / "one", recipe, "--devices", "1")
    two = train(tmp_path / "two", recipe, "--devices", "2")
    assert [row["image"] for row in one] == [row["image"] for row in two]


def test_speed(cuda, capsys):
    model, images = make_model(), make_images()
    here, there = step_time(model, images), step_time(deepcopy(model).to(cuda), images.to(cuda))
    with capsys.disabled():
        print(f"\n{torch.cuda.get_device_name()}: {there:.1f} ms a step, the processor {here:.1f} ms")
