import pytest
import torch
from torch import nn

from saccade.extraction import receptive_field
from saccade.scorer import ConvScorer


def measured(layers, side):
    """First and last input pixel that each output depends on, by differentiating it."""
    net = nn.Sequential(*layers).double()
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.weight, 1.0)
    view = torch.rand(1, 1, side, side, dtype=torch.float64, requires_grad=True)
    outputs = net(view)[0, 0, 0]
    spans = []
    for output in outputs:
        (grad,) = torch.autograd.grad(output, view, retain_graph=True)
        seen = grad[0, 0].abs().sum(dim=0).nonzero().flatten()
        spans.append((int(seen[0]), int(seen[-1])))
    return spans


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(1, 2, 3), nn.Conv2d(2, 1, 3), nn.AvgPool2d(4)],
        [nn.Conv2d(1, 2, 5, stride=2), nn.ReLU(), nn.Conv2d(2, 1, 3, stride=2)],
        [nn.Conv2d(1, 1, 3, stride=3), nn.AvgPool2d(2, stride=1)],
        [nn.Conv2d(1, 1, 3, dilation=4), nn.AvgPool2d(2)],
        [nn.Conv2d(1, 1, 3, padding=1), nn.Conv2d(1, 1, 3, stride=2, padding=1)],
    ],
)
def test_spans_are_what_a_gradient_sees(layers):
    field = receptive_field(layers, tiles=False)
    spans = measured(layers, 40)
    assert field.cells(40) == len(spans)
    for i, (first, last) in enumerate(spans):
        center = field.offset + i * field.stride
        expected = max(0, center - field.size / 2), min(39, center + field.size / 2 - 1)
        assert (first, last) == expected


def test_the_papers_scorer():
    field = ConvScorer(tiles=False).field
    assert (field.size, field.stride, field.offset) == (16, 8, 8.0)
    assert [field.cells(side) for side in (320, 426, 250)] == [39, 52, 30]


def test_tiling_puts_the_first_center_in_the_middle_of_the_first_cell():
    field = ConvScorer(tiles=True).field
    assert field.offset == field.stride / 2
    for side in range(1, 40):
        before, after = field.padding(side)
        assert (side + before + after - field.size) % field.stride == 0
        assert field.stride * field.cells(side) - field.stride < side <= field.stride * field.cells(side)


def test_a_view_smaller_than_the_field_is_refused_with_the_fix():
    with pytest.raises(ValueError, match="raise the view scale"):
        ConvScorer(tiles=False).field.cells(15)
