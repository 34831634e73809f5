"""Did the model look where the evidence is? Chosen patches against boxes that somebody drew.

A patch may be smaller than a box (a crack longer than any patch) or larger (a sign in a patch with room to spare).
Either way it shows the box as well as a patch of its size can when their common part is as wide and as high as the
narrower and the lower of the two:

    overlap(patch, box) = |patch ∩ box| / (min(widths) · min(heights))    in [0, 1]

A box is hit if one chosen patch overlaps it by at least `HIT`.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Not 1: boxes are drawn by hand, and candidates lie some pixels apart.
HIT = 0.9


def best_overlap(patches: Int[Tensor, "K 4"], boxes: Int[Tensor, "R 4"]) -> Float[Tensor, " R"]:
    """The overlap of each box with the patch that shows it best.

    >>> patches, sign = torch.tensor([[0, 0, 40, 40], [100, 0, 140, 40]]), torch.tensor([[120, 10, 150, 30]])
    >>> best_overlap(patches, sign)  # the second patch shows 20 of 30 columns
    tensor([0.6667])
    """
    corner = torch.maximum(patches[:, None, :2], boxes[None, :, :2])  # K R 2
    common = (torch.minimum(patches[:, None, 2:], boxes[None, :, 2:]) - corner).clamp(min=0)
    possible = torch.minimum((patches[:, 2:] - patches[:, :2])[:, None], (boxes[:, 2:] - boxes[:, :2])[None])
    return (common / possible.clamp(min=1)).prod(dim=-1).amax(dim=0)


def mutual_overlap(patches: Int[Tensor, "*batch K 4"]) -> Float[Tensor, "*batch"]:
    """The mean IoU (common area / area of the union) of two patches of an image: 1 if all are one, 0 if none meet.

    A single patch has none: NaN.

    >>> mutual_overlap(torch.tensor([[0, 0, 40, 40], [20, 0, 60, 40], [100, 0, 140, 40]]))  # 1/3, 0, 0
    tensor(0.1111)
    """
    one, other = torch.combinations(torch.arange(patches.shape[-2], device=patches.device)).unbind(-1)
    one, other = patches[..., one, :], patches[..., other, :]  # … pairs 4
    sides = (torch.minimum(one[..., 2:], other[..., 2:]) - torch.maximum(one[..., :2], other[..., :2])).clamp(min=0)
    common = sides.prod(dim=-1)
    areas = sum((box[..., 2:] - box[..., :2]).prod(dim=-1) for box in (one, other))
    return (common / (areas - common)).mean(dim=-1)
