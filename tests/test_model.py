"""The whole path: configuration, training and evaluation mode, saving, and that learning moves the right way."""

import inspect
import json
from typing import Any

import pytest
import torch
from sealing import seal
from torch import nn
from torch.testing import assert_close

from saccade import HardTopK, ModelConfig, PatchSelectionModel, PerturbedTopK, hard_topk, selection_loss
from saccade.aggregation import Mean
from saccade.extraction import Extraction
from saccade.features import ATSNet
from saccade.images import View
from saccade.prediction import MLPHead, mixture_loss
from saccade.registry import parts
from saccade.scorer import ConvScorer

SELECTIONS, AGGREGATIONS = list(parts("selection")), list(parts("aggregation"))
# Samples estimate a mean, and slots in score order must not be told apart.
MAKES_NO_SENSE = {("ats", other) for other in AGGREGATIONS if other != "mean"} | {
    (selection, "concat") for selection in ("sinkhorn", "gumbel", "softsort")
}


class Sharp(nn.Module):
    """A scorer that is sure of itself."""

    def __init__(self, scorer):
        super().__init__()
        self.scorer, self.field, self.width = scorer, scorer.field, scorer.width

    def forward(self, view):
        scored = self.scorer(view)
        return scored._replace(scores=scored.scores * 1e6)


def config(**stages):
    stages = {"selection": {"name": "perturbed", "k": 4, "num_samples": 50}, "extraction": {"patch": 24}, **stages}
    return ModelConfig(num_classes=3, image_size=(90, 120), **stages)


def make(**stages):
    torch.manual_seed(0)
    return PatchSelectionModel.from_config(config(**stages))


IMAGES = torch.rand(2, 3, 90, 120, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_every_selection_with_every_aggregation_that_makes_sense(selection, aggregation):
    spec = {"name": selection} if selection == "exhaustive" else {"name": selection, "k": 4}
    if (selection, aggregation) in MAKES_NO_SENSE:
        with pytest.raises(ValueError, match="does not go with the aggregation"):
            make(selection=spec, aggregation={"name": aggregation})
        return
    model = make(selection=spec, aggregation={"name": aggregation})
    assert model.eval()(IMAGES).logits.shape == (2, 3)
    output = model.train()(IMAGES)
    selection_loss(output.logits, torch.tensor([0, 2]), output.raw_scores).backward()
    assert output.logits.shape == (2, 3)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_evaluation_answers_from_exactly_the_k_boxes():
    """Painting over everything outside the chosen boxes does not change the features, so not the answer."""
    model = make().eval()
    output = model(IMAGES)
    assert output.boxes.shape == (2, 4, 4)
    shown = torch.zeros_like(IMAGES)
    for b, boxes in enumerate(output.boxes.tolist()):
        for left, top, right, bottom in boxes:
            area = (slice(max(top, 0), bottom), slice(max(left, 0), right))
            shown[b, :, area[0], area[1]] = IMAGES[b, :, area[0], area[1]]
    grid = model.grid((90, 120))
    features = model.features(model.extraction(shown, output.selection, grid).flatten(0, 1)).unflatten(0, (2, 4))
    assert_close(model.prediction(model.aggregation(features, output.selection, grid)), output.logits)


def test_evaluation_is_deterministic_and_training_is_soft():
    model = make()
    assert model(IMAGES).selection.index.shape[1] > 4
    model.eval()
    assert_close(model(IMAGES).logits, model(IMAGES).logits, atol=0, rtol=0)


def test_gradient_descent_raises_the_score_of_the_patch_that_helps():
    """One bright square decides the class; the scorer's gradient must push its score up from the first step."""
    torch.manual_seed(0)
    image = torch.zeros(1, 3, 90, 120)
    image[..., 48:72, 72:96] = 1.0
    model = make(selection={"name": "perturbed", "k": 1, "num_samples": 300, "sigma": 0.3}, extraction={"patch": 24})
    grid = model.grid((90, 120))
    boxes = grid.boxes(torch.arange(grid.num_candidates))
    target = int((boxes - torch.tensor([72, 48, 96, 72])).abs().sum(dim=1).argmin())
    scores = torch.full((1, grid.num_candidates), 0.5, requires_grad=True)
    patches = model.extraction(image, model.selection(scores), grid)
    (-patches.mean()).backward()  # brighter is better
    assert int((-scores.grad).argmax()) == target


def test_another_image_size_than_in_training():
    model = make(aggregation={"name": "transformer"}).eval()
    output = model(torch.rand(1, 3, 150, 77))
    assert output.logits.isfinite().all()
    assert output.raw_scores.shape[1] == model.grid((150, 77)).num_candidates


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_model_gives_the_same_numbers(backend):
    """In float64: the compiler may reorder sums, and float32 would hide a real difference in their rounding."""
    model = make(aggregation={"name": "transformer", "dropout": 0.0}).double()
    compiled = torch.compile(model, backend=backend)
    images = IMAGES.double()
    results = []
    for run in (model, compiled):
        model.zero_grad()
        torch.manual_seed(5)
        output = run(images)
        selection_loss(output.logits, torch.tensor([0, 2]), output.raw_scores).backward()
        results.append((output.logits.detach(), [p.grad.clone() for p in model.parameters()]))
    assert_close(results[1], results[0], atol=1e-9, rtol=1e-7)
    model.eval()
    assert_close(compiled(images).logits, model(images).logits, atol=1e-9, rtol=1e-7)
    torch.compiler.reset()


def test_bfloat16_autocast_trains():
    model = make()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(IMAGES)
        loss = selection_loss(output.logits, torch.tensor([0, 2]), output.raw_scores)
    loss.backward()
    assert output.raw_scores.dtype == torch.float32  # with bfloat16 scores, ties would decide
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_channels_last_gives_the_same_numbers():
    model = make().eval()
    expected = model(IMAGES).logits
    model.to(memory_format=torch.channels_last)
    assert_close(model(IMAGES.contiguous(memory_format=torch.channels_last)).logits, expected, atol=1e-5, rtol=1e-5)


def test_saved_and_loaded_again(tmp_path):
    model = make(aggregation={"name": "transformer"}).eval()
    model.save_pretrained(tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["README.md", "config.json", "model.safetensors"]
    loaded = PatchSelectionModel.from_pretrained(tmp_path / "run")
    assert loaded.config == model.config
    assert_close(loaded(IMAGES).logits, model(IMAGES).logits, atol=0, rtol=0)


def test_loading_does_not_ask_for_the_initial_weights_again(tmp_path):
    import timm
    from safetensors.torch import save_file

    start = tmp_path / "start.safetensors"
    save_file(timm.create_model("resnet10t").state_dict(), start)
    model = make(features={"name": "backbone", "model": "resnet10t", "weights": str(start)}, extraction={"patch": 32})
    model.save_pretrained(tmp_path / "run")
    start.unlink()
    loaded = PatchSelectionModel.from_pretrained(tmp_path / "run")
    assert_close(loaded(IMAGES).logits, model.eval()(IMAGES).logits, atol=0, rtol=0)


def test_a_damaged_file_of_weights_is_named(tmp_path):
    make().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"model.safetensors or the config.json beside it is damaged .* train again"):
        PatchSelectionModel.from_pretrained(tmp_path)


def test_loading_from_nowhere_says_what_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no config.json in .*save_pretrained"):
        PatchSelectionModel.from_pretrained(tmp_path)


def test_config_survives_json_and_refuses_unknown_keys():
    original = config(aggregation={"name": "transformer", "layers": 2})
    assert ModelConfig.from_json(original.to_json()) == original
    broken = json.dumps({**json.loads(original.to_json()), "scorrer": {}})
    with pytest.raises(ValueError, match="the config has no option 'scorrer'"):
        ModelConfig.from_json(broken)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ({"selection": {"name": "pertrubed", "k": 4}}, "unknown selection 'pertrubed': expected one of .*perturbed"),
        ({"selection": {"name": "perturbed", "k": 4, "sgima": 1}}, "no option 'sgima': it takes k, sigma"),
        ({"selection": {"name": "perturbed", "k": 500}}, "k is 500 and there are 20 candidates"),
        ({"scorer": {"name": "conv", "depth": 3}}, "it takes widths, kernel, pool, squeeze_excitation"),
        ({"extraction": {"patch": 24, "geometry": "crooked"}}, "expected aligned or stretched"),
        ({"extraction": {"patch": 0}}, "patch is 0, expected a side of at least 1 px"),
        ({"extraction": {"patches": 24}}, "extraction has no option 'patches': it takes patch, geometry"),
        ({"view": {"scael": 0.5}}, "view has no option 'scael': it takes scale"),
        ({"selection": {"name": "hard"}}, "selection 'hard' needs the option 'k'"),
        ({"view": {"scale": 3.0}}, "pass 1 / 3"),
    ],
)
def test_mistakes_in_a_config_name_the_fix(stages, message):
    with pytest.raises(ValueError, match=message):
        make(**stages)


@pytest.mark.parametrize("images", [IMAGES[0], IMAGES[:, :1], (IMAGES * 255).byte()])
def test_what_is_not_a_batch_of_float_images_is_refused(images):
    with pytest.raises(ValueError, match=r"expected \(batch, 3, height, width\) in floating point"):
        inspect.unwrap(PatchSelectionModel.forward)(make().eval(), images)


@pytest.mark.parametrize("name", ["perturbed", "ats"])
def test_half_precision_model_runs(name):
    model = make(selection={"name": name, "k": 4}).eval().bfloat16()
    assert model(IMAGES.bfloat16()).logits.isfinite().all()


def test_stretched_geometry_scores_the_view_unpadded():
    model = PatchSelectionModel.from_config(
        ModelConfig(num_classes=4, image_size=(960, 1280), extraction={"patch": 100, "geometry": "stretched"})
    )
    assert model.grid((960, 1280)).num_candidates == 2028
    assert sum(p.numel() for p in model.scorer.parameters()) == 6_321


@pytest.mark.parametrize("name", [name for name in SELECTIONS if name != "exhaustive"])
def test_padding_is_never_chosen(name):
    model = make(selection={"name": name, "k": 4})
    model.scorer = Sharp(model.scorer)
    image, size = torch.rand(2, 3, 90, 120), torch.tensor([[90, 120], [60, 70]])
    image[1, :, 60:] = image[1, :, :, 70:] = 5.0  # the scorer would love it
    for mode in (True, False):
        output = model.train(mode)(image, size)
        centers = (output.boxes[..., :2] + output.boxes[..., 2:]) / 2  # B S x y
        chosen = output.selection.weight.sum(dim=1) > 0
        assert (centers[chosen][:, 0] < size[:, 1][:, None].expand_as(chosen)[chosen]).all()
        assert (centers[chosen][:, 1] < size[:, 0][:, None].expand_as(chosen)[chosen]).all()


def test_patches_can_be_chosen_otherwise_for_one_call():
    model = make().train()
    output = model(IMAGES, select=lambda scores: hard_topk(-scores, 4))
    assert torch.equal(output.selection.index, hard_topk(-output.scores, 4).index)


def test_mixture_loss_needs_patches_that_answer_alone():
    label = torch.tensor([0, 1])
    for name in ("mean", "max"):
        model = make(aggregation={"name": name})
        output = model(IMAGES)
        plain, mixed = (model.loss(output, label, mixture_coefficient=c) for c in (0.0, 0.5))
        slots = model.prediction(output.features)
        scores = (output.selection.weight * output.raw_scores.gather(1, output.selection.index)[:, None]).sum(2)
        assert_close(mixed, plain + 0.5 * mixture_loss(slots, scores, label))
    model = make(aggregation={"name": "concat"})
    with pytest.raises(ValueError, match="concat knows all slots only together"):
        model.loss(model(IMAGES), label, mixture_coefficient=0.5)


def test_the_mixture_asks_a_transformer_about_one_patch_at_a_time():
    model = make(aggregation={"name": "transformer", "dropout": 0.0})
    output, label = model(IMAGES), torch.tensor([0, 1])
    plain, mixed = (model.loss(output, label, mixture_coefficient=c) for c in (0.0, 1.0))
    slots = []
    for k in range(output.features.shape[1]):
        one = output.selection._replace(weight=output.selection.weight[:, k : k + 1])
        slots.append(model.prediction(model.aggregation(output.features[:, k : k + 1], one, output.grid)))
    scores = (output.selection.weight * output.raw_scores.gather(1, output.selection.index)[:, None]).sum(2)
    assert_close(mixed - plain, mixture_loss(torch.stack(slots, dim=1), scores, label))


def test_a_patch_larger_than_the_image_is_refused():
    with pytest.raises(ValueError, match="a patch of 100×24 px is larger than the image of 90×120 px"):
        make(extraction={"patch": [100, 24]})


GLANCING = {"scorer": {"name": "backbone", "model": "resnet18", "glance": True, "width": 4}, "view": {"scale": 0.5}}


def test_what_the_scorer_saw_goes_to_the_head_beside_the_patches():
    model: Any = make(**GLANCING, extraction={"patch": 16}, aggregation={"name": "max"}).eval()
    images = torch.rand(2, 3, *model.config.image_size)
    output = model(images)
    seen = model.scorer.stages(model.view(images))
    assert_close(output.context, torch.cat([model.scorer.attention(seen.cells).context, seen.whole], dim=1))
    pooled = torch.cat([output.features.amax(dim=1), output.context], dim=1)
    assert_close(output.logits, model.prediction(pooled))


def test_beside_a_context_the_mixture_asks_what_each_patch_says_alone():
    model: Any = make(**GLANCING, extraction={"patch": 16}, aggregation={"name": "max"}).eval()
    output, label = model(torch.rand(2, 3, *model.config.image_size)), torch.tensor([0, 1])
    options = {"entropy_coefficient": 0.0}
    added = model.loss(output, label, mixture_coefficient=1.0, **options) - model.loss(output, label, **options)
    slots = [
        model.prediction(torch.cat([output.features[:, k], torch.zeros_like(output.context)], dim=1))
        for k in range(output.features.shape[1])
    ]
    scores = output.raw_scores.gather(1, output.selection.index)
    assert_close(added, mixture_loss(torch.stack(slots, dim=1), scores, label))


def test_what_attention_sampling_estimates_goes_with_the_mean_only():
    with pytest.raises(ValueError, match=r"does not go with the aggregation transformer.*use mean"):
        make(selection={"name": "ats", "k": 3}, aggregation={"name": "transformer"})


def test_weights_that_do_not_fit_the_config_are_one_error(tmp_path):
    make().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["num_classes"] += 1
    (tmp_path / "config.json").write_text(json.dumps(config))
    seal(tmp_path)
    with pytest.raises(ValueError, match="do not fit the config beside it"):
        PatchSelectionModel.from_pretrained(tmp_path)


def parts_by_hand() -> dict:
    torch.manual_seed(0)
    return {
        "view": View(1 / 3),
        "scorer": ConvScorer(3),
        "selection": PerturbedTopK(4, num_samples=50),
        "extraction": Extraction(24),
        "features": ATSNet(3),
        "aggregation": Mean(32),
        "prediction": MLPHead(32, 3),
    }


def test_a_model_of_modules_is_the_model_of_their_names():
    by_hand = PatchSelectionModel(**parts_by_hand()).eval()
    by_name = make().eval()
    by_name.load_state_dict(by_hand.state_dict())
    with torch.no_grad():
        ours, theirs = by_hand(IMAGES), by_name(IMAGES)
    assert_close(ours.logits, theirs.logits, atol=0, rtol=0)
    assert torch.equal(ours.boxes, theirs.boxes)


def test_a_model_that_its_config_does_not_describe_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="has no config that describes it"):
        PatchSelectionModel(**parts_by_hand()).save_pretrained(tmp_path)
    for stage, other in (("selection", HardTopK(4)), ("features", ATSNet(3)), ("view", View(1 / 3))):
        model = make()
        setattr(model, stage, other)
        with pytest.raises(ValueError, match=f"the {stage} of this model is not the one in its config"):
            model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="the scorer of this model is not the one in its config"):
        PatchSelectionModel(**parts_by_hand() | {"view": make().view}, config=config()).save_pretrained(tmp_path)
    assert not list(tmp_path.iterdir())
