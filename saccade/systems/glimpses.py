"""Numbers → transforms → glimpses: the grid sampler of the spatial transformer.

Glimpse k shows, at its pixel u (from the glimpse's center), the image at the pixel

    x = c_k + A_k u        free translation: A = I,    scale: A = exp(s_k) I,    affine: A = I + R_k

read by bilinear interpolation, zero outside the image. A = I is the natural scale, one glimpse pixel for one image
pixel. Centers are c = (W, H)/2 · (1 + tanh(t_k)): a glimpse that had left the image would see only zeros and get no
gradient to come back by.

The gradient to c_k comes from differences of neighboring pixels under the glimpse, so it knows nothing of evidence
further away: the paper's reason why these are hard to train on large images. At scales above one, glimpses skip pixels
and alias: grid_sample does not average over what a glimpse pixel covers.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor


class Free(NamedTuple):
    """What of a glimpse is free: `count` numbers n make A (2×2, in pixels); the center's two come before them."""

    count: int
    matrix: Callable[[Float[Tensor, "*shape n"]], Float[Tensor, "*shape 2 2"]]


FREE = {
    "translation": Free(0, lambda n: _eye(n)),
    "scale": Free(1, lambda n: n.exp()[..., None] * _eye(n)),
    "affine": Free(4, lambda n: n.unflatten(-1, (2, 2)) + _eye(n)),
}


def _eye(like: Tensor) -> Float[Tensor, "*shape 2 2"]:
    return torch.eye(2, dtype=like.dtype, device=like.device).expand(*like.shape[:-1], 2, 2)


class Transforms(NamedTuple):
    """Glimpse pixel → image pixel, both as places (a pixel's middle is at a half): x = center_px + matrix u."""

    center_px: Float[Tensor, "B K 2"]
    matrix: Float[Tensor, "B K 2 2"]

    def boxes(self, patch: tuple[int, int]) -> Int[Tensor, "B K 4"]:
        """Left, top, right, bottom of what glimpses of `patch` (height, width) pixels show, in whole image pixels."""
        half = self.matrix.new_tensor([patch[1], patch[0]]) / 2
        reach = (self.matrix.abs() * half).sum(dim=-1)  # the corner that reaches furthest, along x and along y
        return torch.cat([self.center_px - reach, self.center_px + reach], dim=-1).detach().round().long()


def make_transforms(numbers: Float[Tensor, "B K n"], size: Int[Tensor, "B 2"], *, free: str) -> Transforms:
    """The transforms that `numbers` mean in images of `size` (height, width): t, and what makes A.

    >>> make_transforms(torch.zeros(1, 1, 2), torch.tensor([[100, 200]]), free="translation").boxes((40, 60))
    tensor([[[ 70,  30, 130,  70]]])
    """
    width_height = size.flip(1)[:, None].to(numbers.dtype)  # B 1 2
    return Transforms(width_height / 2 * (1 + numbers[..., :2].tanh()), FREE[free].matrix(numbers[..., 2:]))


def glimpses(
    image: Float[Tensor, "B C H W"], transforms: Transforms, patch: tuple[int, int]
) -> Float[Tensor, "B K C P Q"]:
    """What each transform shows in `patch` (height, width) pixels; differentiable in the image and the transforms.

    >>> image, place = torch.rand(1, 3, 50, 60), torch.tensor([[[20.0, 30.0]]])
    >>> crop = glimpses(image, Transforms(place, torch.eye(2)[None, None]), (10, 8))
    >>> torch.allclose(crop[0, 0], image[0, :, 25:35, 16:24], atol=1e-5)
    True
    """
    # Half precision cannot tell the pixels of a large image apart, and autocast would make bfloat16 of the places.
    with torch.autocast(image.device.type, enabled=False):
        return _sample(image, transforms, patch)


def _sample(image: Tensor, transforms: Transforms, patch: tuple[int, int]) -> Tensor:
    height, width = image.shape[-2:]
    center, matrix = transforms
    # grid_sample has [−1, 1] for the image and affine_grid for the glimpse, from outer edge to outer edge.
    image_px, patch_px = center.new_tensor([width, height]), center.new_tensor([patch[1], patch[0]])
    theta = torch.cat([matrix * patch_px / image_px[:, None], (2 * center / image_px - 1)[..., None]], dim=-1)
    batch, count = theta.shape[:2]
    places = F.affine_grid(theta.flatten(0, 1), [batch * count, 1, *patch], align_corners=False)  # BK P Q 2
    # One tall glimpse per image: the image itself is not repeated K times.
    tall = rearrange(places, "(b k) p q xy -> b (k p) q xy", b=batch)
    pixels = F.grid_sample(image.to(tall.dtype), tall, padding_mode="zeros", align_corners=False)
    return rearrange(pixels, "b c (k p) q -> b k c p q", k=count).to(image.dtype)
