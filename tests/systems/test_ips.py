"""IPS keeps what a search over all patches would keep, learns from those as if nothing else existed, and encodes few
patches at once.
"""

import copy
import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import make_spots, tiny_recipe
from torch import Tensor
from torch.testing import assert_close

from saccade import ModelConfig
from saccade.building import build_model, load_model
from saccade.data.dataset import collate
from saccade.data.sample import Sample
from saccade.evaluation import predict_batch
from saccade.images import add_positions
from saccade.report import write_report
from saccade.systems import IPS
from saccade.systems.ips import _corners, sinusoids
from saccade.training.phases import Training
from saccade.training.run import train

PATCH = 16


def make_model(image_size: tuple[int, int] = (64, 80), **options: Any) -> IPS:
    """In double precision, with running statistics and norms that are not those of a new network."""
    torch.manual_seed(0)
    config = ModelConfig(
        system="ips",
        num_classes=3,
        image_size=image_size,
        extraction={"patch": PATCH},
        features={"name": "ats", "width": 8},
        options={"memory": 5, "chunk": 4, "heads": 2, "dim": 12, "hidden": 20, "dropout": 0.0} | options,
    )
    model = IPS(config).double().eval()
    for name, value in model.state_dict().items():
        if value.is_floating_point() and "running_var" not in name:
            value.add_(0.1 * torch.randn_like(value))
    return model


def make_image(count: int = 2, size: tuple[int, int] = (64, 80)) -> Tensor:
    return torch.rand(count, 3, *size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def tiles(image: Tensor) -> Tensor:
    """All patches of an image whose sides are multiples of the patch: B N C P P."""
    cut = F.unfold(image, PATCH, stride=PATCH)
    return cut.mT.unflatten(2, (image.shape[1], PATCH, PATCH))


def head_logits(model: IPS, features: Tensor) -> Tensor:
    """Logits n G by definition, one patch and one head at a time."""
    query, width = model.attention.query, model.attention.query.shape[1]
    rows = [
        [query[g] @ (model.attention.keys.weight[g * width : (g + 1) * width] @ f) / math.sqrt(width) for g in (0, 1)]
        for f in features
    ]
    return torch.stack([torch.stack(row) for row in rows])


def answer(model: IPS, features: Tensor) -> Tensor:
    """Logits of one image from the features n D of its patches."""
    attention, width = model.attention, model.attention.query.shape[1]
    share = head_logits(model, features).exp()
    share = share / share.sum(dim=0)  # n G
    value = attention.values(features)  # n E
    read = torch.cat([(share[:, g, None] * value[:, g * width : (g + 1) * width]).sum(dim=0) for g in (0, 1)])
    z = F.layer_norm(attention.query.flatten() + attention.out(read), (12,), *attention.norm1.parameters())
    hidden = F.relu(F.linear(z, *list(attention.mlp.parameters())[:2]))
    z = F.layer_norm(z + F.linear(hidden, *list(attention.mlp.parameters())[2:]), (12,), *attention.norm2.parameters())
    return model.prediction(z)


@torch.no_grad()
@pytest.mark.parametrize("memory", [20, 99])
def test_with_room_for_all_patches_it_is_attention_over_all(memory):
    model, image = make_model(memory=memory), make_image()
    expected = torch.stack([answer(model, model.features(patches)) for patches in tiles(image)])
    assert_close(model(image).logits, expected)


@torch.no_grad()
def test_it_keeps_the_patches_with_the_best_logits_of_all():
    model, image = make_model(), make_image()
    output = model(image)
    for patches, scores, index, logits in zip(
        tiles(image), output.raw_scores, output.selection.index, output.logits, strict=True
    ):
        expected = head_logits(model, model.features(patches)).mean(dim=1)
        assert_close(scores, expected)
        kept = sorted(sorted(range(20), key=lambda n: -expected[n])[:5])
        assert index.tolist() == kept
        assert_close(logits, answer(model, model.features(patches[kept])))


@torch.no_grad()
def test_boxes_are_around_the_kept_patches():
    model, image = make_model(), make_image()
    output = model(image)
    for picture, index, boxes in zip(image, output.selection.index, output.boxes, strict=True):
        patches = tiles(picture[None])[0, index]
        for patch, (left, top, right, bottom) in zip(patches, boxes.tolist(), strict=True):
            assert torch.equal(patch, picture[:, top:bottom, left:right])


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"encode_positions": True}, {"stride": 9}])
@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
def test_the_chunk_changes_nothing(chunk, options):
    image = make_image()
    output, expected = (make_model(chunk=n, **options)(image) for n in (chunk, 4))
    assert torch.equal(output.selection.index, expected.selection.index)
    assert_close(output.raw_scores, expected.raw_scores)
    assert_close(output.logits, expected.logits)


@pytest.mark.parametrize("training", [True, False])
def test_never_more_patches_at_once_than_a_chunk_or_the_memory(training):
    model = make_model().train(training)
    counts, with_gradient = [], []
    model.features.register_forward_pre_hook(lambda _, args: counts.append(len(args[0])))
    model.features.register_forward_hook(lambda _, __, out: with_gradient.append(out.requires_grad))
    for side in (64, 128):
        counts.clear()
        with_gradient.clear()
        model(make_image(2, (side, side)))
        patches = (side // PATCH) ** 2
        assert counts == [8] * (patches // 4) + [10]  # of two images
        assert with_gradient == [False] * (patches // 4) + [True]


def test_the_gradient_is_that_of_a_model_given_the_kept_patches():
    model, image, label = make_model().train(), make_image(), torch.tensor([2, 0])
    given_them = copy.deepcopy(model)
    output = model(image)
    model.loss(output, label).backward()
    patches = tiles(image).take_along_dim(output.selection.index[:, :, None, None, None], dim=1)
    features = given_them.features(patches.flatten(0, 1)).unflatten(0, (2, 5))  # as one batch: batch norm trains
    logits = torch.stack([answer(given_them, f) for f in features])
    F.cross_entropy(logits, label).backward()
    assert_close(output.logits, logits)
    for (name, one), other in zip(model.named_parameters(), given_them.parameters(), strict=True):
        assert one.grad is not None, name
        assert_close(one.grad, other.grad, msg=lambda text, name=name: f"{name}: {text}")
    # Batch norm has counted the kept patches once, and no other.
    for (name, one), other in zip(model.named_buffers(), given_them.buffers(), strict=True):
        assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")
    assert model.training
    assert all(module.training for module in model.modules())


def test_the_search_does_not_drop_out():
    model, image = make_model(dropout=0.5).train(), make_image()
    torch.manual_seed(0)
    first = model(image)
    second = model(image)
    assert not torch.equal(first.logits, second.logits)
    frozen = copy.deepcopy(model).eval()
    with torch.no_grad():
        assert torch.equal(model.search(image, model.grid((64, 80))), frozen(image).raw_scores)


def test_all_weights_learn_under_autocast_too():
    model = make_model().float().train()
    with torch.autocast("cpu", torch.bfloat16):
        output = model(make_image().float())
        loss = model.loss(output, torch.tensor([2, 0]))
    loss.backward()
    lost = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert not lost


@torch.no_grad()
def test_equal_patches_are_kept_from_the_first_on():
    output = make_model()(torch.ones(1, 3, 64, 80, dtype=torch.float64))
    assert output.selection.index.tolist() == [[0, 1, 2, 3, 4]]


@torch.no_grad()
def test_padding_plays_no_part():
    model, image = make_model(memory=30), make_image()
    padded = F.pad(image, (0, 32, 0, 48), value=0.5)
    output = model(padded, torch.tensor([[64, 80], [64, 80]]))
    assert_close(output.logits, model(image).logits)
    left, top = output.boxes[0, output.raw_scores[0, output.selection.index[0]] > -50, :2].T
    assert (left < 80).all()
    assert (top < 64).all()


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 60), st.integers(1, 60))
def test_patches_cover_the_image_and_stick_out_alike_at_both_ends(side, patch, stride):
    first_px = _corners(side, patch, stride)
    before, after = -int(first_px[0]), int(first_px[-1]) + patch - side
    assert 0 <= after - before <= 1
    assert before >= 0
    assert len(first_px) == 1 or after + before < stride  # one patch fewer would not do
    assert (first_px.diff() == stride).all()


@torch.no_grad()
def test_positions_tell_equal_patches_apart():
    same = torch.ones(1, 3, 64, 80, dtype=torch.float64)
    scores = make_model(encode_positions=True)(same).raw_scores
    assert len(scores.unique()) == 20
    assert_close(make_model()(same).raw_scores.std(), torch.zeros((), dtype=torch.float64))


def test_the_product_of_two_positions_depends_on_their_distance_alone():
    place = torch.tensor([[0, 0], [3, 1], [7, 20], [10, 21]])  # rows 1 and 3 lie as far apart as rows 0 and 1
    code = sinusoids(place, 32).double()
    frequency = 10_000.0 ** (-torch.arange(8) / 8)
    expected = (frequency * 3).cos().sum() + frequency.cos().sum()
    for one, other in ((0, 1), (2, 3)):
        assert_close(code[one] @ code[other], expected.double(), atol=1e-5, rtol=0)


@torch.no_grad()
def test_it_comes_back_from_a_folder(tmp_path):
    model = build_model(make_model().config).eval()
    model.save_pretrained(tmp_path)
    image = make_image().float()
    assert torch.equal(load_model(tmp_path)(image).logits, model(image).logits)


@torch.no_grad()
def test_position_channels_are_part_of_every_patch():
    config = replace(make_model(memory=20).config, positions=True)
    model, image = IPS(config).double().eval(), make_image()
    expected = torch.stack([answer(model, model.features(patches)) for patches in tiles(add_positions(image))])
    assert_close(model(image).logits, expected)


@torch.no_grad()
def test_images_with_fewer_patches_than_the_memory_are_evaluated_beside_others():
    model = make_model(memory=5).float()
    samples = [Sample(torch.zeros(3, side, side).byte(), 0, torch.zeros(0, 4).long(), side) for side in (64, 32, 80)]
    predictions = predict_batch(model, collate(samples))
    assert predictions.centers.isnan().all(dim=2).sum(dim=1).tolist() == [5, 0, 0]  # all patches are no choice


def test_a_run_from_training_to_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr("saccade.report.shown_images.EXAMPLES", 1)
    recipe = tiny_recipe(make_spots(tmp_path / "data"), steps=2)
    stages = replace(recipe.model, system="ips", options={"memory": 3, "stride": 10})
    run = train(replace(recipe, model=stages, training=Training()), tmp_path / "run")
    summary = json.loads((run / "evaluation" / "test.json").read_text())
    assert summary["pixels"] == {"image": 64 * 64, "patches": 36 * 20 * 20}  # all of them
    assert 0 <= summary["hit_rate"] <= 1
    page = write_report(run).read_text()
    assert "Brighter is a higher score. Boxes are the patches looked at. They are numbered" in page
    assert "The patch with the highest score" in page
    assert "memory 3, stride 10" in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memroy": 4}, "has no option 'memroy': it takes memory, chunk"),
        ({"memory": 0}, "options.memory is 0: expected at least 1"),
        ({"dim": 15, "heads": 2}, "options.dim is 15, expected a multiple of options.heads, 2"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_model(**options)
