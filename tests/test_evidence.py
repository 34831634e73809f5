"""What each box adds to the logits adds up to them, and who adds most speaks."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from saccade import ModelConfig, build_model
from saccade.looking import look_at, who_speaks

SIZE = (48, 64)


def make(**stages):
    torch.manual_seed(0)
    config = {
        "num_classes": 3,
        "image_size": SIZE,
        "task": {"name": "multi"},
        "classes": ("open", "short", "spur"),
        "view": {"scale": 0.5},
        "extraction": {"patch": [16, 16]},
        "selection": {"name": "perturbed", "k": 4},
        "features": {"name": "thin"},
        "prediction": {"name": "linear"},
    }
    return build_model(ModelConfig(**{**config, **stages})).eval()


@pytest.mark.parametrize("aggregation", ["mean", "max", "attention", "concat", "placed"])
def test_boxes_add_up_to_the_logits(aggregation):
    model = make(aggregation={"name": aggregation})
    output = model(torch.rand(2, 3, *SIZE))
    evidence = model.evidence(output)
    assert evidence.shape == (2, 4, 3)
    assert_close(evidence.sum(dim=1) + model.prediction.bias, output.logits)


def test_a_soft_choice_shares_its_evidence_among_its_candidates():
    model = make(selection={"name": "perturbed", "k": 4, "discrete": False, "sigma": 0.2})
    output = model(torch.rand(2, 3, *SIZE))
    assert_close(model.evidence(output).sum(dim=1) + model.prediction.bias, output.logits)


def test_where_slots_know_each_other_each_is_asked_alone():
    transformer = {"name": "transformer", "dim": 32, "hidden": 32, "layers": 1, "heads": 2}
    model = make(aggregation=transformer, selection={"name": "perturbed", "k": 1})
    output = model(torch.rand(2, 3, *SIZE))
    assert_close(model.evidence(output)[:, 0], output.logits)  # the only slot is alone anyway


def test_evidence_comes_in_the_order_of_the_boxes_and_the_best_speaks():
    model = make(aggregation={"name": "mean"})
    image = torch.rand(1, 3, *SIZE)
    output = model(image)
    evidence = model.evidence(output)
    look = look_at(output, size=SIZE, evidence=evidence)
    places = {tuple(box): row for box, row in zip(output.boxes[0].tolist(), evidence[0].tolist(), strict=True)}
    for box, row in zip(look.boxes.tolist(), look.evidence.tolist(), strict=True):
        assert row == pytest.approx(places[tuple(box)])
    look = look._replace(evidence=np.array([[2.0, -1, 0.1], [1.1, -2, 0.0], [0.2, -1, 0.9], [-3, -1, 0.1]]))
    assert who_speaks(look, model.task, ("open", "short", "spur")) == (("open",), ("open",), ("spur",), ())
    assert who_speaks(look, model.task, ("spur",)) == ((), (), ("spur",), ())
