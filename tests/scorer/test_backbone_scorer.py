"""Cells of the stages of a timm network look where the geometry says, and what they saw teaches them."""

import pickle
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_model
from torch import nn
from torch.testing import assert_close

from saccade import ModelConfig, PatchSelectionModel
from saccade.inference import for_inference
from saccade.scorer import BackboneScorer, backbone_scorer

TINY: dict[str, Any] = {
    "num_classes": 2,
    "image_size": (96, 96),
    "view": {"scale": 0.5},
    "scorer": {"name": "backbone", "model": "resnet18", "stride": 8, "width": 4},
    "selection": {"name": "hard", "k": 2},
    "extraction": {"patch": 32},
}


def test_the_center_of_a_cell_is_where_its_weights_look():
    """Convolutions that each look at one pixel only: moved by one in those that halve the view, all cells move by what
    these add up to. Fine, middle and coarse stages move by 1 + 2, 1 + 2 + 4 and 1 + 2 + 4 + 8 pixels."""
    centers = []
    for tap in (0, 1):
        torch.manual_seed(0)
        scorer = BackboneScorer(model="tf_efficientnet_lite0", stride=8, width=4).eval()
        net = scorer.stages.backbone.net
        small = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d) and max(layer.stride) == 2]
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d):
                middle = layer.kernel_size[0] // 2
                put = middle + tap if layer in small else middle
                nn.init.zeros_(layer.weight)
                layer.weight.data[:, :, put, put] = torch.rand(layer.weight.shape[:2]) / layer.weight.shape[1]
        centers.append(backbone_scorer._find_center(scorer, 3, 8))
    assert 3 <= centers[1] - centers[0] <= 15


def test_it_can_be_sent_to_another_process():
    scorer = BackboneScorer(model="tf_efficientnet_lite0", stride=8, width=4).eval()
    again, view = pickle.loads(pickle.dumps(scorer)), torch.rand(1, 3, 16, 24)
    assert_close(again(view).context, scorer(view).context)
    again.load_state_dict(scorer.state_dict() | {"center": torch.tensor(2.5)})
    assert again.field != scorer.field  # what is loaded is obeyed there, too


def test_its_batch_norms_fold():
    scorer = BackboneScorer(model="tf_efficientnet_lite0", stride=8, width=4).eval()
    folded, view = for_inference(scorer), torch.rand(1, 3, 40, 40)
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in folded.modules())
    assert_close(folded(view).context, scorer(view).context, rtol=1e-3, atol=1e-4)


def test_the_center_is_saved_with_the_weights(tmp_path):
    model = PatchSelectionModel.from_config(ModelConfig(**TINY))
    model.scorer.center.fill_(3.0)
    model.save_pretrained(tmp_path)
    again = PatchSelectionModel.from_pretrained(tmp_path)
    assert again.scorer.field.offset == 3.0 != model.scorer.field.offset
    assert again.grid((96, 96)).boxes(torch.tensor(0)).tolist() == [-10, -10, 22, 22]  # around pixel 6 of the image


def test_a_center_that_is_loaded_is_not_looked_for(tmp_path, monkeypatch):
    """At a stride of 32 the search takes many seconds, and what it finds would be overwritten."""
    model = PatchSelectionModel.from_config(ModelConfig(**TINY))
    model.save_pretrained(tmp_path)
    monkeypatch.setattr(backbone_scorer, "_find_center", lambda *_: pytest.fail("looked for"))
    for mode in (False, True):
        with torch.inference_mode(mode):
            again = PatchSelectionModel.from_pretrained(tmp_path)
        assert again.scorer.field == model.scorer.field


def test_it_is_built_in_inference_mode_as_it_is_elsewhere():
    centers = []
    for mode in (False, True):
        torch.manual_seed(0)
        with torch.inference_mode(mode):
            model = PatchSelectionModel.from_config(ModelConfig(**TINY)).eval()
            assert model(torch.rand(1, 3, 96, 96)).logits.isfinite().all()
        centers.append(float(model.scorer.center))
    assert centers[0] == centers[1] != 2.0  # where it looks, not the middle of a cell


def test_a_saved_model_needs_the_weights_it_started_from_no_more(tmp_path):
    start = tmp_path / "start.safetensors"
    save_model(timm.create_model("resnet18"), str(start))
    config = ModelConfig(
        num_classes=2,
        image_size=(96, 96),
        scorer={"name": "backbone", "model": "resnet18", "weights": str(start)},
        selection={"name": "hard", "k": 2},
        extraction={"patch": 32},
    )
    model = PatchSelectionModel.from_config(config)
    model.save_pretrained(tmp_path / "saved")
    start.unlink()
    again = PatchSelectionModel.from_pretrained(tmp_path / "saved")
    assert torch.equal(again.scorer.stages.backbone.net.conv1.weight, model.scorer.stages.backbone.net.conv1.weight)


def test_weights_of_its_own_need_a_model_of_its_own():
    with pytest.raises(ValueError, match="give model too"):
        BackboneScorer(features={"name": "backbone", "model": "resnet18"}, weights="some.safetensors")


@pytest.mark.parametrize("glance", [False, True])
def test_cells_cover_a_view_of_any_size(glance):
    scorer = BackboneScorer(model="resnet18", stride=8, heads=2, width=6, glance=glance).eval()
    scores, context = scorer(torch.rand(2, 3, 33, 50))
    assert scores.shape == (2, 5 * 7)
    assert context.shape == (2, scorer.width) == (2, 12 + 512 * glance)


def test_the_feature_network_is_the_default_and_must_be_one_of_timms():
    config = {"num_classes": 2, "image_size": (96, 96), "view": {"scale": 0.5}, "selection": {"name": "hard", "k": 2}}
    model = PatchSelectionModel.from_config(
        ModelConfig(
            **config,
            scorer={"name": "backbone"},
            features={"name": "backbone", "model": "resnet18"},
            extraction={"patch": 32},
        )
    )
    assert type(model.scorer.stages.backbone.net) is type(model.features.net)
    with pytest.raises(ValueError, match="none of timm's here"):
        PatchSelectionModel.from_config(ModelConfig(**config, scorer={"name": "backbone"}, extraction={"patch": 32}))


def test_labels_teach_the_scorer_through_the_context():
    torch.manual_seed(0)
    model: Any = PatchSelectionModel.from_config(ModelConfig(**TINY))  # hard patches: nothing comes through them
    output = model(torch.rand(2, 3, 96, 96))
    model.loss(output, torch.tensor([0, 1]), entropy_coefficient=0.0).backward()
    assert model.scorer.attention.score.weight.grad.abs().sum() > 0


def test_a_mirrored_view_has_its_own_scores_and_the_mean_of_both_contexts():
    torch.manual_seed(0)
    scorer = BackboneScorer(model="resnet18", width=4, glance=True, mirrored=True).eval()
    torch.nn.init.normal_(scorer.attention.score.weight)
    view = torch.rand(2, 3, 32, 48)
    both = scorer(view)
    scorer.mirrored = False
    alone, other = scorer(view), scorer(view.flip(-1))
    assert_close(both.scores, alone.scores)
    assert_close(both.context, (alone.context + other.context) / 2)
