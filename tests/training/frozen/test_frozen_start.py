"""The model that is made of heads says what the heads said, of images they never saw; a run begins with it and ends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_model
from tiny_fit import at_step
from torch.testing import assert_close
from torch.utils.data import DataLoader

from saccade.building import load_model
from saccade.cli import main
from saccade.config import ModelConfig
from saccade.data.dataset import Batch, ImageDataset, collate
from saccade.data.loading import load
from saccade.evaluation.sureness import Gain
from saccade.images import unit_range
from saccade.tasks.single import Single
from saccade.tasks.task import describe_task
from saccade.training.frozen import FrozenStart, fit_frozen, heads, teacher
from saccade.training.frozen.judge import Answer, Judge
from saccade.training.frozen.trial import part_from

COUNT = 28


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Noise; of the class `spot` with a bright spot somewhere, as wide as a patch."""
    folder, draw = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(COUNT):
        label = ("plain", "spot")[number % 2]
        image = draw.integers(0, 90, (96, 128, 3), np.uint8)
        if label == "spot":
            top, left = draw.integers(0, 64), draw.integers(0, 96)
            image[top : top + 32, left : left + 32] = draw.integers(150, 255, (32, 32, 3), np.uint8)
        (folder / label).mkdir(exist_ok=True)
        Image.fromarray(image).save(folder / label / f"{number:02}.png")
    return folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "resnet10t.safetensors"
    save_model(timm.create_model("resnet10t"), str(path))
    return path


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(heads, "FEWEST_STEPS", 6)
    monkeypatch.setattr(heads, "PASSES", 2)
    monkeypatch.setattr(teacher, "LABEL_FREE_PASSES", 2)


def start_on(
    photos: Path, weights: Path, table: str = "", patch_sizes: list[int] | None = None
) -> tuple[FrozenStart, dict[str, ImageDataset]]:
    records = load(photos / table, seed=0)
    labels = [record.label for record in records.split("train").records]
    data = {split: ImageDataset(records.split(split)) for split in ("val", "train", "test")}
    config = ModelConfig(
        num_classes=len(records.classes),
        classes=records.classes,
        task=describe_task(records.task, labels, records.questions),
        image_size=(96, 128),
        view={"scale": 0.5},
        scorer={"name": "backbone", "glance": True, "heads": 2, "width": 8},
        selection={"name": "diverse", "k": 2},
        extraction={"patch": 32},
        features={"name": "cells", "model": "resnet10t", "weights": str(weights), "heads": 2, "width": 8},
        aggregation={"name": "max"},
        prediction={"name": "linear"},
    )

    def batches(_: str) -> Iterator[Batch]:
        for split in ("val", "train"):
            yield from DataLoader(data[split], collate_fn=collate)

    of_splits = records.split("val"), records.split("train")
    return fit_frozen(config, *of_splits, patch_sizes, seed=0, batches=batches, watch=lambda heads, _: heads), data


def test_heads_answer_any_question_and_the_model_says_what_they_said(photos, weights, monkeypatch):
    """One label, several labels and a number at once: of each its own loss, logits and answer."""
    monkeypatch.setattr(Judge, "judge", _prefer_patches(Judge.judge))
    with (photos / "questions.csv").open("w") as table:
        table.write("image,label:kind,label:seen,label:amount\n")
        for number, path in enumerate(sorted(photos.glob("*/*.png"))):
            seen = (";", "dark", "dark;bright")[number % 3]
            table.write(f"{path.relative_to(photos)},{path.parent.name},{seen},{number * 0.37:.2f}\n")
    start, data = start_on(photos, weights, "questions.csv")
    task = start.blind.task
    assert [each.name for _, each in task.parts] == ["single", "multi", "regression"]
    said = start.taken.logits[: len(data["val"])]
    assert said.shape[1] == task.outputs == 2 + 2 + 1
    assert_close(answers(start.blind, data["val"]), said, atol=2e-2, rtol=1e-2)


def _prefer_patches(judge: Any) -> Any:
    def prefer(self: Any, name: str, logits: torch.Tensor, parts: dict[str, float]) -> Answer:
        answer = judge(self, name, logits, parts)
        return answer._replace(losses=answer.losses - 100 * name.endswith("and patches"))

    return prefer


def answers(model: Any, dataset: ImageDataset) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat(
            [model.eval()(unit_range(batch.image)).logits for batch in DataLoader(dataset, collate_fn=collate)]
        )


@pytest.mark.parametrize(
    ("best", "reads", "mirrored"),
    [
        ("glance", True, False),
        ("search", True, True),
        ("glance and search", False, True),
        ("glance and search", True, False),
        ("glance", False, False),
        ("glance at a larger view", False, False),
    ],
)
def test_the_blind_model_says_of_validation_images_what_the_heads_said(
    photos, weights, best, reads, mirrored, monkeypatch
):
    """Validation images are the first part, and the blind model is made of the heads that never saw it."""
    judge, searches = Judge.judge, []

    def prefer(self, name: str, logits: torch.Tensor, parts: dict[str, float]) -> Answer:
        """Whatever was learnt, this answer of the view is the best, and patches help or do not."""
        answer = judge(self, name, logits, parts)
        if name.endswith("and patches"):
            return answer._replace(losses=torch.full_like(answer.losses, -2.0 if reads else 9.0))
        if name == "search":
            searches.append(name)
        worse = 0.5 if name == "search" and mirrored and len(searches) == 1 else 0.0  # without mirror images
        return answer._replace(losses=torch.full_like(answer.losses, (-1.0 if name == best else 9.0) + worse))

    monkeypatch.setattr(Judge, "judge", prefer)
    start, data = start_on(photos, weights)
    assert start.taken.name == (f"{best} and patches" if reads else best)
    assert start.patches == ("search" if "search" in best else "detail" if reads else None)
    assert start.mirrored == mirrored
    assert start.blind.config.system == ("cnn" if start.patches is None else "patch_selection")
    with_patches = (0.5**2 + 2 * 32**2 / (96 * 128)) ** 0.5
    larger = best == "glance at a larger view"
    assert start.blind.config.view["scale"] == pytest.approx(with_patches if larger else 0.5, abs=1e-3)
    said = start.taken.logits[: len(data["val"])]
    assert_close(answers(start.blind, data["val"]), said, atol=2e-2, rtol=1e-2)  # cells are kept in half precision
    assert not torch.equal(answers(start.seeing, data["val"]), answers(start.blind, data["val"]))
    # The first part of the training images is what a trial is judged by.
    _, judges = part_from(data["train"], seed=0)
    of_judges = Judge(data["val"].records, data["train"].records, start.blind.task, 0).part == 1
    assert len(judges) == of_judges.sum() < len(data["train"])
    assert_close(answers(start.on_trial, judges), start.taken.logits[of_judges], atol=2e-2, rtol=1e-2)


@pytest.mark.parametrize(("best", "other", "clearly"), [(24, 32, True), (32, 24, True), (24, 32, False)])
def test_of_several_sizes_the_smallest_is_taken_unless_a_larger_one_is_clearly_better(
    photos, weights, best, other, clearly, monkeypatch
):
    """Where nothing is clear, the larger one is right by a little in the mean, and by chance."""
    judge = Judge.judge

    def prefer(self, name: str, logits: torch.Tensor, parts: dict[str, float]) -> Answer:
        answer = judge(self, name, logits, parts)
        if not name.endswith(" px") or " and " not in name:
            return answer
        if clearly:
            return answer._replace(losses=torch.full_like(answer.losses, -100.0 * name.endswith(f" {best} px") - 1))
        losses = torch.full_like(answer.losses, -2.0)
        if name.endswith(f" {other} px"):
            losses[::2], losses[1::2] = -8.0, 3.0
        return answer._replace(losses=losses)

    monkeypatch.setattr(Judge, "judge", prefer)
    start, data = start_on(photos, weights, patch_sizes=[32, 24])
    names = [answer.name for answer in start.answers]
    assert f"patches of {other} px" in names  # it is told how the other one did
    assert start.taken.name.endswith(f"patches of {best} px")
    assert start.blind.config.extraction["patch"] == start.seeing.config.extraction["patch"] == best
    said = start.taken.logits[: len(data["val"])]
    assert_close(answers(start.blind, data["val"]), said, atol=2e-2, rtol=1e-2)


def test_an_answer_is_as_sure_as_it_has_reason_to_be(photos):
    """Logits that are right three times of four and sure of it: the least log-loss is at log-odds of log 3."""
    records = load(photos, seed=0)
    judge = Judge(records.split("val"), records.split("train"), Single(records.classes), seed=0)
    right = torch.ones(len(judge.label))
    right[::4] = -1
    sure = 8.0 * right[:, None] * torch.nn.functional.one_hot(judge.label, 2)
    answer = judge.judge("glance", sure, {"glance": 1.0})
    assert answer.parts["glance"] == 2.0**-3  # log-odds of 1, the nearest to log 3 of its steps of √2
    assert_close(answer.logits, sure / 8)
    assert answer.accuracy == pytest.approx(0.75, abs=0.02)
    doubled = judge.add(answer, answer._replace(name="search", parts={"search": 1.0}))
    assert doubled.parts == {"glance": 2.0**-4, "search": 0.5}  # the same twice is no surer


def test_the_same_seed_gives_the_same_model(photos, weights):
    once, data = start_on(photos, weights)
    again, _ = start_on(photos, weights)
    assert torch.equal(answers(once.seeing, data["test"]), answers(again.seeing, data["test"]))


def test_own_images_with_weights_begin_and_end_with_a_frozen_start(photos, weights, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", str(photos), f"--weights={weights}", f"--out={run}", "--data.workers=0"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "so few images cannot tell what tuning gains" in shown
    assert "Heads on the network held still" in shown
    assert "kept: the frozen start, with heads that saw the validation images too" in shown
    facts = json.loads((run / "run.json").read_text())
    assert {answer["name"] for answer in facts["frozen"]["answers"]} >= {"glance", "search", "patches"}
    assert (run / "report.html").is_file()
    kept, seeing = load_model(run / "best"), load_model(run / "frozen" / "seeing")
    for name, value in seeing.state_dict().items():
        assert torch.equal(kept.state_dict()[name], value)


def test_tuning_that_makes_nothing_better_leaves_the_frozen_start(photos, weights, tmp_path, capsys):
    """At a learning rate of next to nothing no step beats it by a standard error."""
    run = tmp_path / "run"
    words = ["train", str(photos), f"--weights={weights}", f"--out={run}", "--data.workers=0", "--steps=2"]
    assert main([*words, "--optimizer.lr=1e-9"]) == 0
    assert "kept: the frozen start" in capsys.readouterr().out
    assert load_model(run / "best").config == load_model(run / "frozen" / "seeing").config


def test_a_verdict_is_told_by_the_differences_of_single_images():
    before = torch.tensor([0.1, 5.0, 0.3, 2.0])
    verdict = Gain.of(before, before - torch.tensor([0.3, 0.1, 0.3, 0.1]))
    assert verdict.gain == pytest.approx(0.2)
    assert verdict.error == pytest.approx((0.04 / 3) ** 0.5 / 2)
    assert verdict.is_clear
    assert not Gain.of(before, before - torch.tensor([2.0, -1.0, 1.0, -1.0])).is_clear


def on_trial(photos: Path, weights: Path, run: Path) -> list[str]:
    flags = [f"--weights={weights}", f"--out={run}", "--data.workers=0", "--steps=2", "--training.trial=true"]
    return ["train", str(photos), *flags]


@pytest.mark.parametrize("helps", [True, False])
def test_a_trial_decides_whether_the_network_is_tuned(photos, weights, helps, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Gain, "is_clear", helps)
    monkeypatch.setattr(Single, "right", lambda self, logits, target: torch.zeros(len(target)))
    run = tmp_path / "run"
    assert main(on_trial(photos, weights, run)) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert ("so the network is tuned" if helps else "so the frozen start stays") in shown
    facts = json.loads((run / "run.json").read_text())
    assert facts["trial"]["helps"] == helps
    assert f"judged by the other {facts['trial']['images']}" in shown
    assert not (run / "frozen" / "trial").exists()
    kept, other = (load_model(run / each).state_dict() for each in ("best", "last" if helps else "frozen/seeing"))
    assert all(torch.equal(kept[name], value) for name, value in other.items())
    assert (run / "report.html").is_file()


def test_there_is_no_trial_where_nothing_is_to_be_gained(photos, weights, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Single, "right", lambda self, logits, target: torch.ones(len(target)))
    run = tmp_path / "run"
    assert main(on_trial(photos, weights, run)) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "no trial of tuning: the frozen start is right of all" in shown
    assert "kept: the frozen start" in shown
    assert "training (" not in shown


def test_a_run_that_is_killed_in_its_trial_goes_on_there(photos, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(Gain, "is_clear", True)
    monkeypatch.setattr(Single, "right", lambda self, logits, target: torch.zeros(len(target)))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main(on_trial(photos, weights, whole)) == 0

    def dies() -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        at_step(1, dies, patch)
        with pytest.raises(RuntimeError, match="killed"):
            main(on_trial(photos, weights, killed))
    assert [path.name for path in (killed / "frozen" / "trial" / "checkpoints").iterdir()] == ["00000001.ckpt"]
    assert main(on_trial(photos, weights, killed)) == 0
    one, other = (load_model(run / "best").state_dict() for run in (whole, killed))
    assert all(torch.equal(one[name], value) for name, value in other.items())
