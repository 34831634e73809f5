"""NTS-Net: suppression and ranking against brute force, and which loss teaches which part."""

import pytest
import torch
import torch.nn.functional as F
from oracles import seeded
from teaching import make_batch, taught
from torch.testing import assert_close

from saccade import ModelConfig
from saccade.building import build_model, load_model
from saccade.extraction.anchors import make_anchors
from saccade.systems.nts import NTSNet
from saccade.systems.nts.nms import NonMaximumTopK, nms_topk
from saccade.systems.nts.nts_net import ranking_loss
from saccade.systems.nts.trunk import cross_entropies


def make_config(**changes) -> ModelConfig:
    stages = {
        "view": {"scale": 1},
        "scorer": {"name": "proposals", "hidden": 16},
        "selection": {"name": "nms", "k": 2, "proposals": 4},
        "extraction": {"patch": 32},
        "features": {"name": "backbone", "model": "test_resnet"},
        "aggregation": {"name": "concat"},
    }
    return ModelConfig(**{"system": "nts_net", "num_classes": 3, "image_size": (128, 160), **stages, **changes})


def overlap(a: list[int], b: list[int]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return common / (areas - common)


@pytest.mark.parametrize("iou", [0.0, 0.25, 0.7])
def test_suppression_is_that_of_brute_force(iou):
    table = make_anchors((448, 448)).table
    scores = torch.randn(3, len(table), generator=seeded(0))
    got = nms_topk(scores, table, 6, iou=iou)
    boxes = table.tolist()
    for row, chosen in zip(scores.tolist(), got.tolist(), strict=True):
        expected: list[int] = []
        for candidate in sorted(range(len(row)), key=lambda i: -row[i]):
            if len(expected) < 6 and all(overlap(boxes[candidate], boxes[taken]) <= iou for taken in expected):
                expected.append(candidate)
        assert chosen == expected


def test_where_too_few_are_left_the_best_of_the_dropped_fill_up():
    boxes = torch.tensor([[0, 0, 10, 10], [1, 0, 11, 10], [2, 0, 12, 10], [50, 0, 60, 10]])
    assert nms_topk(torch.tensor([[0.4, 0.9, 0.6, 0.1]]), boxes, 4, iou=0.25).tolist() == [[1, 3, 2, 0]]


@pytest.mark.parametrize("margin", [1.0, 0.3])
def test_ranking_is_a_double_loop(margin):
    scores = torch.randn(4, 6, dtype=torch.float64, generator=seeded(0), requires_grad=True)
    losses = torch.rand(4, 6, dtype=torch.float64, generator=seeded(1), requires_grad=True)
    expected = torch.zeros((), dtype=torch.float64)
    for b in range(4):
        for i in range(6):
            for j in range(6):
                if losses[b, i] > losses[b, j]:  # j is the better part: its score should lead
                    expected = expected + (margin - scores[b, j] + scores[b, i]).clamp(min=0) / 4
    got = ranking_loss(scores, losses, margin=margin)
    assert_close(got, expected)
    assert_close(torch.autograd.grad(got, scores)[0], torch.autograd.grad(expected, scores)[0])
    assert not ranking_loss(scores.detach(), losses).requires_grad  # the losses only say who is better


def test_scores_in_the_order_of_the_losses_and_far_enough_apart_cost_nothing():
    losses = torch.tensor([[0.1, 0.5, 0.3]])
    assert float(ranking_loss(torch.tensor([[4.0, 0.0, 2.0]]), losses)) == 0
    assert float(ranking_loss(torch.tensor([[0.0, 4.0, 2.0]]), losses)) == (1 + 4) + (1 + 2) + (1 + 2)
    assert float(ranking_loss(torch.randn(1, 3), torch.ones(1, 3))) == 0  # equal parts are in no order


def test_the_loss_has_four_terms():
    torch.manual_seed(0)
    model, (image, label) = NTSNet(make_config()).train(), make_batch()
    weight = torch.tensor([1.0, 2.0, 0.5])
    out = model(image)
    parts = torch.stack(
        [F.cross_entropy(model.part_prediction(out.features)[:, m], label, reduction="none") for m in range(4)], dim=1
    )
    proposed = out.raw_scores.gather(1, out.selection.index)
    expected = (
        F.cross_entropy(model.image_prediction(out.context), label, weight=weight)
        + F.cross_entropy(out.logits, label, weight=weight)
        + (parts * weight[label][:, None]).sum() / (4 * weight[label].sum())
        + ranking_loss(proposed, parts)
    )
    assert_close(model.loss(out, label, class_weight=weight), expected)


def test_each_loss_teaches_its_own_parts():
    torch.manual_seed(0)
    model, (image, label) = NTSNet(make_config()).train(), make_batch()
    out = model(image)
    proposed = out.raw_scores.gather(1, out.selection.index)
    part_losses = F.cross_entropy(
        model.part_prediction(out.features).movedim(2, 1), label[:, None].expand(-1, 4), reduction="none"
    )
    assert taught(model, ranking_loss(proposed, part_losses)) == {"scorer"}
    assert taught(model, F.cross_entropy(model.image_prediction(out.context), label)) == {
        "features",
        "image_prediction",
    }
    assert taught(model, F.cross_entropy(out.logits, label)) == {"features", "prediction"}
    assert taught(model, part_losses.mean()) == {"features", "part_prediction"}
    answers = out.logits, model.image_prediction(out.context), model.part_prediction(out.features)
    everything = {"features", "prediction", "image_prediction", "part_prediction"}
    assert taught(model, cross_entropies(*answers, label)) == everything


def test_a_gradient_step_lets_the_better_part_lead():
    torch.manual_seed(0)
    model, (image, _) = NTSNet(make_config()).train(), make_batch(1)
    out = model(image)
    losses = torch.tensor([[0.9, 0.1, 0.8, 0.7]])
    before = out.raw_scores.gather(1, out.selection.index)
    model.zero_grad()
    ranking_loss(before, losses).backward()
    with torch.no_grad():
        for parameter in model.scorer.parameters():
            parameter.sub_(parameter.grad, alpha=1e-2)
        after = model.eval()(image).raw_scores.gather(1, out.selection.index)
    lead = [values[0, 1] - values[0, [0, 2, 3]].mean() for values in (before.detach(), after)]
    assert lead[1] > lead[0]


def test_in_evaluation_it_looks_at_the_k_best_proposals_only():
    torch.manual_seed(0)
    model, (image, _) = NTSNet(make_config()).eval(), make_batch()
    out = model(image)
    grid = model.grid((128, 160))
    assert torch.equal(out.selection.index, nms_topk(out.raw_scores, grid.table, 2, iou=0.25))
    assert torch.equal(out.boxes, grid.boxes(out.selection.index))
    assert model.part_prediction(out.features).shape == (3, 2, 3)
    model.selection.train()
    wider = model(image)  # the other proposals do not change the answer
    assert model.part_prediction(wider.features).shape == (3, 4, 3)
    assert_close(wider.logits, out.logits)


def test_the_answer_is_that_of_the_backbone_on_image_and_parts():
    """Whole image and parts, cut from the standardized image, go through one backbone; its mean color lies outside."""
    torch.manual_seed(0)
    model, (image, _) = NTSNet(make_config()).eval(), make_batch()
    out = model(image)
    pixels = F.pad((image - model.features.mean) / model.features.std, (200,) * 4)
    whole = model.features(image)
    for b in range(3):
        vectors = [whole[b]]
        for left, top, right, bottom in (out.boxes[b] + 200).tolist():
            part = F.interpolate(pixels[b : b + 1, :, top:bottom, left:right], (32, 32), mode="bilinear")
            vectors.append(model.features.net(part)[0])
        assert_close(out.logits[b], model.prediction(torch.cat(vectors)), atol=1e-4, rtol=1e-4)
    assert_close(model.image_prediction(out.context), model.image_prediction(whole))


@pytest.mark.parametrize("scale", [1, 0.5])
def test_a_model_comes_back_as_it_was(tmp_path, scale):
    model = build_model(make_config(view={"scale": scale})).eval()
    model.save_pretrained(tmp_path)
    again, (image, _) = load_model(tmp_path), make_batch()
    assert type(again) is NTSNet
    assert again.config == model.config
    assert torch.equal(again(image).logits, model(image).logits)


def test_padding_is_never_proposed():
    torch.manual_seed(0)
    model, (image, _) = NTSNet(make_config()).train(), make_batch()
    out = model(image, torch.tensor([[128, 160], [64, 160], [96, 64]]))
    boxes = model.grid((128, 160)).boxes(out.selection.index)
    x, y = ((boxes[..., :2] + boxes[..., 2:]) / 2).unbind(-1)
    assert (y[1] < 64).all()
    assert (y[2] < 96).all()
    assert (x[2] < 64).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"selection": {"name": "nms", "k": 7}}, "k is 7 and proposals 6, expected 1 ≤ k ≤ proposals"),
        ({"selection": {"name": "nms", "iou": 2.0}}, "iou is 2.0, expected a share"),
        ({"selection": {"name": "perturbed", "k": 4}}, "unknown selection 'perturbed': expected one of nms"),
        ({"features": {"name": "ats"}}, "unknown features 'ats': expected one of backbone"),
        ({"features": {"name": "backbone", "model": "test_vit"}}, "use a convolutional net such as resnet50"),
        ({"options": {"droput": 0.1}}, "the system nts_net has no option 'droput': it takes dropout"),
        ({"extraction": {"patch": 32, "geometry": "aligned"}}, "has no option 'geometry': it takes patch, sizes"),
        ({"scorer": {"name": "conv"}}, "unknown scorer 'conv': expected one of proposals"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        NTSNet(make_config(**changes))


def test_the_paper_numbers_are_the_defaults():
    selection = NonMaximumTopK()
    assert (selection.k, selection.proposals, selection.iou) == (4, 6, 0.25)
