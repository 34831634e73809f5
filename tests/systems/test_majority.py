from typing import Any

import torch
from torch.testing import assert_close

from saccade import ModelConfig
from saccade.building import build_model, load_model

CONFIG = ModelConfig(system="majority", num_classes=3, image_size=(8, 8))
LABEL = torch.tensor([0, 2, 2, 1, 2, 0, 2, 2])


def train(class_weight=None):
    model: Any = build_model(CONFIG)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=100, tolerance_grad=1e-9, tolerance_change=1e-12)

    def closure():
        optimizer.zero_grad()
        loss = model.loss(model(torch.rand(8, 3, 8, 8)), LABEL, class_weight=class_weight)
        loss.backward()
        return loss

    optimizer.step(closure)
    return model


def test_it_learns_the_frequencies_and_answers_the_majority():
    logits = train()(torch.rand(2, 3, 8, 8)).logits
    assert_close(logits.softmax(dim=1), torch.tensor([[2, 1, 5]]).expand(2, 3) / 8, atol=1e-4, rtol=0)
    assert logits.argmax(dim=1).tolist() == [2, 2]


def test_class_weights_weigh_the_frequencies():
    logits = train(torch.tensor([4.0, 1.0, 0.2]))(torch.rand(1, 3, 8, 8)).logits
    assert_close(logits.softmax(dim=1), torch.tensor([[8.0, 1.0, 1.0]]) / 10, atol=1e-4, rtol=0)


def test_the_image_does_not_count(tmp_path):
    model = train()
    same = model(torch.zeros(1, 3, 8, 8)).logits
    assert torch.equal(model(torch.rand(1, 3, 20, 30)).logits, same)
    model.save_pretrained(tmp_path)
    assert torch.equal(load_model(tmp_path)(torch.rand(1, 3, 8, 8)).logits, same)
