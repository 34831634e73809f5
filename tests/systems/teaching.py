"""A batch for both NTS systems, and which of their parts a loss teaches."""

import torch
from oracles import seeded
from torch import Tensor, nn


def make_batch(count: int = 3) -> tuple[Tensor, Tensor]:
    image = torch.rand(count, 3, 128, 160, generator=seeded(0))
    return image, torch.arange(count) % 3


def taught(model: nn.Module, loss: Tensor) -> set[str]:
    """The parts of the model that a loss has a gradient for."""
    model.zero_grad()
    loss.backward(retain_graph=True)
    changed = [name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0]
    return {name.split(".")[0] for name in changed}
