"""End to end from image labels: the scorer learns where to look although no one tells it."""

import pytest
import torch

from saccade import ModelConfig, PatchSelectionModel, linear_decay, selection_loss

SIDE, SPOT, STEPS = 96, 12, 300


def make_batch(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A gray spot on noise, finely striped along x or y: a view at 1/4 shows the spot and not its stripes."""
    images = 0.1 * torch.rand(count, 1, SIDE, SIDE, generator=generator)
    labels = torch.randint(2, (count,), generator=generator)
    corners = torch.randint(SIDE - SPOT, (count, 2), generator=generator)
    stripes = (torch.arange(SPOT) % 2).float().expand(SPOT, SPOT)
    for image, label, (x, y) in zip(images, labels, corners.tolist(), strict=True):
        image[0, y : y + SPOT, x : x + SPOT] = stripes.T if label else stripes
    return images, labels, corners + SPOT // 2


@pytest.mark.slow
def test_the_scorer_finds_the_evidence():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    config = ModelConfig(
        num_classes=2,
        image_size=(SIDE, SIDE),
        channels=1,
        view={"scale": 1 / 4},
        scorer={"name": "conv", "pool": 2},
        selection={"name": "perturbed", "k": 2, "num_samples": 100},
        extraction={"patch": 20},
        features={"name": "ats", "width": 16},
    )
    model = PatchSelectionModel.from_config(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(STEPS):
        model.selection.sigma = linear_decay(0.05, step=step, total_steps=STEPS)
        images, labels, _ = make_batch(32, generator)
        output = model(images)
        loss = selection_loss(output.logits, labels, output.raw_scores, entropy_coefficient=0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    images, labels, centers = make_batch(256, generator)
    with torch.no_grad():
        output = model(images)
    looked = ((output.boxes[..., :2] <= centers[:, None]) & (centers[:, None] < output.boxes[..., 2:])).all(-1).any(-1)
    assert looked.float().mean() > 0.95
    assert (output.logits.argmax(1) == labels).float().mean() > 0.95
