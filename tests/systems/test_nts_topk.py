"""NTS-Top-K: the gradient through the mixed parts against dense autograd, and what each loss teaches."""

import pytest
import torch
import torch.nn.functional as F
from teaching import make_batch, taught
from torch import nn
from torch.testing import assert_close
from torchvision.ops import box_iou

from saccade import ModelConfig, hard_topk, normalize_scores
from saccade.building import build_model, load_model
from saccade.extraction.anchors import resize_regions
from saccade.systems.nts import NTSTopK
from saccade.systems.nts.trunk import cross_entropies
from saccade.training.optimizers import make_optimizer
from saccade.training.recipe import Recipe


def make_config(**changes) -> ModelConfig:
    stages = {
        "view": {"scale": 1},
        "scorer": {"name": "proposals", "hidden": 16, "squeeze_excitation": 4},
        "selection": {"name": "perturbed", "k": 2, "num_samples": 20},
        "extraction": {"patch": 32},
        "features": {"name": "backbone", "model": "test_resnet"},
        "aggregation": {"name": "mean"},
    }
    return ModelConfig(**{"system": "nts_topk", "num_classes": 3, "image_size": (128, 160), **stages, **changes})


def softly(model: NTSTopK) -> NTSTopK:
    """In evaluation mode, so that batch norm and dropout hold still, but with soft selection."""
    model.eval().selection.train()
    return model


@pytest.mark.parametrize("aggregation", ["mean", "concat"])
def test_values_and_gradients_are_those_of_all_anchors_mixed(aggregation):
    torch.manual_seed(0)
    model = softly(NTSTopK(make_config(aggregation={"name": aggregation})).double())
    image, label = make_batch(2)
    image = image.double()
    out = model(image)
    weight, index = out.selection.weight, out.selection.index
    (got,) = torch.autograd.grad(model.loss(out, label), weight)

    n, grid = out.raw_scores.shape[1], model.grid((128, 160))
    dense = out.selection.dense(n).detach().requires_grad_()
    pixels = (image - model.features.mean) / model.features.std
    everything = grid.read(pixels, torch.arange(n).expand(2, n))
    parts = torch.einsum("bkn,bncpq->bkcpq", dense, everything).flatten(0, 1)
    whole, parts = model.features(image), model.features.net(parts).unflatten(0, (2, 2))
    pooled = {"mean": whole + parts.mean(dim=1), "concat": torch.cat([whole, parts.flatten(1)], dim=1)}[aggregation]
    logits = model.prediction(pooled)
    assert_close(out.logits, logits)
    loss = F.cross_entropy(logits, label) + F.cross_entropy(model.image_prediction(whole), label)
    loss = loss + F.cross_entropy(model.part_prediction(parts).flatten(0, 1), label.repeat_interleave(2))
    (slow,) = torch.autograd.grad(loss, dense)
    assert_close(got, slow.gather(2, index[:, None].expand_as(weight)))


def test_the_loss_has_three_cross_entropies_and_an_entropy():
    torch.manual_seed(0)
    model, (image, label) = NTSTopK(make_config()).train(), make_batch()
    weight, out = torch.tensor([1.0, 2.0, 0.5]), model(image)
    parts = [F.cross_entropy(model.part_prediction(out.features)[:, k], label, weight=weight) for k in range(2)]
    p = out.raw_scores.softmax(dim=1)
    entropy = -(p * p.log()).sum(dim=1).mean()
    expected = F.cross_entropy(model.image_prediction(out.context), label, weight=weight)
    expected = expected + F.cross_entropy(out.logits, label, weight=weight) + sum(parts) / 2
    assert_close(model.loss(out, label, class_weight=weight), expected - 0.05 * entropy)
    assert_close(model.loss(out, label, class_weight=weight, entropy_coefficient=0.0), expected)


def test_a_score_rises_if_its_part_explains_the_label_better():
    torch.manual_seed(0)
    model, (image, label) = NTSTopK(make_config()).eval(), make_batch()  # hard: a slot is one anchor
    out = model(image)
    plain = {"entropy_coefficient": 0.0}
    mixture = model.loss(out, label, **plain, mixture_coefficient=0.5) - model.loss(out, label, **plain)
    (got,) = torch.autograd.grad(mixture, out.raw_scores)
    # The closed form: a prior share of each part against its share once the label is known.
    prior = out.raw_scores.gather(1, out.selection.index).softmax(dim=1)
    explained = prior * model.part_prediction(out.features).softmax(dim=2)[torch.arange(3), :, label]
    posterior = explained / explained.sum(dim=1, keepdim=True)
    assert_close(mixture, -0.5 * explained.sum(dim=1).log().mean())
    expected = torch.zeros_like(got).scatter(1, out.selection.index, 0.5 * (prior - posterior) / 3)
    assert_close(got, expected)


def test_answers_teach_the_scorer_through_the_parts():
    torch.manual_seed(0)
    model, (image, label) = NTSTopK(make_config()).train(), make_batch()
    out = model(image)
    part_loss = F.cross_entropy(model.part_prediction(out.features).flatten(0, 1), label.repeat_interleave(2))
    assert taught(model, F.cross_entropy(model.image_prediction(out.context), label)) == {
        "features",
        "image_prediction",
    }
    assert taught(model, F.cross_entropy(out.logits, label)) == {"features", "prediction", "scorer"}
    assert taught(model, part_loss) == {"features", "part_prediction", "scorer"}
    assert taught(model, out.raw_scores.logsumexp(dim=1).sum()) == {"scorer"}  # the backbone is not trained to score


def test_diverse_selection_keeps_the_parts_apart():
    torch.manual_seed(0)
    model, (image, label) = NTSTopK(make_config(selection={"name": "diverse", "k": 3, "num_samples": 20})), make_batch()
    assert "scorer" in taught(model, model.loss(model.train()(image), label))
    for boxes in model.eval()(image).boxes:
        assert float(box_iou(boxes.float(), boxes.float()).triu(1).max()) <= 0.25


def test_in_evaluation_it_looks_at_the_best_anchors():
    torch.manual_seed(0)
    model, (image, _) = NTSTopK(make_config()).eval(), make_batch()
    out = model(image)
    best = hard_topk(normalize_scores(out.raw_scores), 2)
    assert torch.equal(out.selection.index, best.index)
    assert torch.equal(out.boxes, model.grid((128, 160)).boxes(best.index))


def test_soft_without_noise_is_hard():
    torch.manual_seed(0)
    model, (image, _) = NTSTopK(make_config()).eval(), make_batch()
    hard = model(image).logits
    softly(model).selection.sigma = 0.0
    assert_close(model(image).logits, hard)


@pytest.mark.parametrize("name", ["sinkhorn", "gumbel", "softsort", "straight_through", "ats"])
def test_with_mean_any_selection_teaches_the_scorer(name):
    torch.manual_seed(0)
    model, (image, label) = NTSTopK(make_config(selection={"name": name, "k": 2})).train(), make_batch()
    out = model(image)
    no_entropy = model.loss(out, label, entropy_coefficient=0.0)
    assert "scorer" in taught(model, no_entropy)
    part_loss = cross_entropies(
        out.logits.detach(),
        model.image_prediction(out.context).detach(),
        model.part_prediction(out.features),
        label,
        share=out.selection.share,
    )
    assert taught(model, part_loss) == {"features", "part_prediction", "scorer"}


def test_samples_of_an_attention_count_for_their_share():
    torch.manual_seed(0)
    model, (image, label) = softly(NTSTopK(make_config(selection={"name": "ats", "k": 3}))), make_batch()
    out, weight = model(image), torch.tensor([1.0, 2.0, 0.5])
    share = out.selection.share
    loss = model.loss(out, label, class_weight=weight, entropy_coefficient=0.0)
    (got,) = torch.autograd.grad(loss, share, retain_graph=True)

    whole = model.features(image)
    pooled = whole + torch.einsum("bk,bkd->bd", share, out.features)
    logits = model.prediction(pooled)
    assert_close(out.logits, logits)
    parts = [F.cross_entropy(model.part_prediction(out.features)[:, k], label, reduction="none") for k in range(3)]
    parts = (share * torch.stack(parts, dim=1)).sum(dim=1)
    slow = F.cross_entropy(logits, label, weight=weight) + (weight[label] * parts).sum() / weight[label].sum()
    assert_close(loss, slow + F.cross_entropy(model.image_prediction(out.context), label, weight=weight))
    assert_close(got, torch.autograd.grad(slow, share)[0])


def test_dropout_is_on_in_training_only():
    torch.manual_seed(0)
    model, (image, _) = NTSTopK(make_config(options={"dropout": 0.9})), make_batch()
    assert float((model.train()(image).features == 0).float().mean()) > 0.8
    assert torch.equal(model.eval()(image).logits, model(image).logits)
    assert not NTSTopK(make_config(options={"dropout": 0.0})).dropout.p


@pytest.mark.parametrize("backbone", ["tf_efficientnet_lite0", "test_convnext"])
def test_other_backbones_and_view_scales(backbone):
    """The image vector is what the backbone says of the view, filled up to whole cells."""
    torch.manual_seed(0)
    features = {"name": "backbone", "model": backbone}
    model, (image, _) = NTSTopK(make_config(features=features, view={"scale": 0.5})).eval(), make_batch(1)
    out = model(image)
    assert out.raw_scores.shape[1] == model.grid((128, 160)).num_candidates == 6 * 2 * 3 + 6 * 1 * 2 + 9
    view = (model.view(image) - model.features.mean) / model.features.std  # 64×80
    assert_close(model.image_prediction(out.context), model.image_prediction(model.features.net(F.pad(view, (0, 16)))))


def test_a_model_comes_back_as_it_was(tmp_path):
    model = build_model(make_config()).eval()
    model.save_pretrained(tmp_path)
    again, (image, _) = load_model(tmp_path), make_batch()
    assert type(again) is NTSTopK
    assert again.config == model.config
    assert torch.equal(again(image).logits, model(image).logits)


def test_the_scorer_is_a_group_of_its_own():
    model = NTSTopK(make_config())
    groups = {group["name"]: group["params"] for group in make_optimizer(model, Recipe()).param_groups}
    assert {id(p) for p in groups["scorer"]} == {id(p) for p in model.scorer.parameters()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"selection": {"name": "perturbed", "k": 4000}}, "k is 4000 and there are 174 candidates"),
        ({"selection": {"name": "exhaustive"}}, "exhaustive takes all anchors: use one with an option k"),
        ({"selection": {"name": "nms", "k": 4}}, "unknown selection 'nms': expected one of .*perturbed"),
        ({"aggregation": {"name": "max"}}, "unknown aggregation 'max': expected one of concat, mean"),
        (
            {"selection": {"name": "gumbel", "k": 2}, "aggregation": {"name": "concat"}},
            "gumbel does not go with the aggregation concat: its slots are in score order in training .* use mean",
        ),
        (
            {"selection": {"name": "ats", "k": 2}, "aggregation": {"name": "concat"}},
            "ats does not go with the aggregation concat: its samples estimate the mean .* use mean",
        ),
        ({"options": {"proposals": 6}}, "the system nts_topk has no option 'proposals': it takes dropout"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        NTSTopK(make_config(**changes))


def test_a_map_that_does_not_fit_the_anchors_is_refused(monkeypatch):
    """Some backbones round the size of their map down."""
    model = NTSTopK(make_config()).eval()
    net = model.features.net
    honest = net.forward_features
    monkeypatch.setattr(net, "forward_features", lambda view: honest(view)[..., :-1])
    with pytest.raises(ValueError, match=r"map has 4×4 cells and the anchors 4×5: use one that pads"):
        model(torch.rand(1, 3, 128, 150))


def test_positions_reach_the_backbone_and_the_parts():
    torch.manual_seed(0)
    model, (image, _) = NTSTopK(make_config(positions=True)).eval(), make_batch(1)
    gray = torch.full_like(image, 0.5)
    out = model(gray)
    assert model.part_prediction(out.features).isfinite().all()
    first = next(module for module in model.features.net.modules() if isinstance(module, nn.Conv2d))
    assert first.in_channels == 5
    with torch.no_grad():
        first.weight[:, 3:] = 0  # blind to positions
    assert not torch.equal(model(gray).logits, out.logits)


def test_padding_is_of_the_mean_color_that_lies_outside_of_images():
    """A picture alone and the same one padded show their parts the same, whatever they reach over the border."""
    model = NTSTopK(make_config()).eval()
    image, size = torch.rand(1, 3, 96, 128), torch.tensor([[96, 128]])
    padded = F.pad(image, (0, 32, 0, 32))
    index = torch.arange(model.grid((96, 128)).num_candidates)
    boxes = model.grid((96, 128)).boxes(index)[None]
    alone, beside = (
        resize_regions(model.standardize(pixels, of), boxes, (8, 8)) for pixels, of in ((image, None), (padded, size))
    )
    assert_close(beside, alone)


def test_half_precision_model_runs():
    model = NTSTopK(make_config()).eval().bfloat16()
    assert model(torch.rand(1, 3, 128, 160).bfloat16()).logits.isfinite().all()
