"""image, Selection → patches: X̃ = Yᵀ P without ever building P, the tensor of all N patches.

Slot k is Σ_s weight[k, s] · patch(index[s]). Patches are read in chunks, mixed and forgotten; the backward reads them
again instead of storing them: ∂weight[k, s] = ⟨∂X̃_k, patch_s⟩ needs the support only.
"""

from collections.abc import Sequence
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from saccade.extraction.grid import Geometry, Grid, make_grid
from saccade.extraction.grids import Grids
from saccade.extraction.receptive_field import ReceptiveField
from saccade.images import Sources
from saccade.selection.candidates import Readable
from saccade.selection.selection import Selection

# Bytes of patches in flight: a CPU mixes them while they are in its cache; an accelerator wants large launches.
CHUNK_BYTES = {"cpu": 4 * 2**20, "cuda": 256 * 2**20}


def extract(
    image: Float[Tensor, "B C H W"] | Sources, selection: Selection, candidates: Readable
) -> Float[Tensor, "B K C P Q"]:
    """The K patches of every image: read as they are if the selection is hard, mixed by its weights if it is soft.

    Differentiable with respect to the weights and, if it is a tensor that asks for it, the image. A channels-last image
    gives channels-last patches.
    """
    if not image.is_floating_point():
        raise ValueError(
            f"the image has dtype {image.dtype}, expected floating point: make floats of bytes with "
            "saccade.images.unit_range(image)"
        )
    if image.shape[0] != selection.index.shape[0]:  # not len: a traced batch has no number
        raise ValueError(f"{len(image)} images and a selection for {len(selection.index)}: expected one for each image")
    if selection.hard:
        return candidates.read(image, selection.index)
    return _Mix.apply(image, selection.weight, selection.index, candidates)


class Extraction(nn.Module):
    """`extract` from a grid of patches of `patch` pixels (one side, or height and width), placed by `geometry`.

    sizes: of the candidates at each cell of the grid, in pixels of the image, each a side or [height, width]; they are
           all resized to `patch`, and the scorer scores each (default: `patch` alone).
    """

    def __init__(
        self,
        patch: int | tuple[int, int] = 100,
        geometry: Geometry = "aligned",
        sizes: Sequence[int | Sequence[int]] | None = None,
    ):
        super().__init__()
        self.patch = both_sides(patch)
        self.sizes = (self.patch,) if sizes is None else tuple(map(both_sides, sizes))
        if min(self.patch) < 1:
            raise ValueError(f"patch is {patch}, expected a side of at least 1 px, or [height, width]")
        if not self.sizes or min(map(min, self.sizes)) < 1 or len({*self.sizes}) < len(self.sizes):
            raise ValueError(f"sizes is {sizes}, expected different sides of at least 1 px, or [height, width] of each")
        self.geometry: Geometry = geometry

    @property
    def tiles(self) -> bool:
        """Whether the scorer must pad the view until its cells cover it, as the aligned geometry needs."""
        return self.geometry == "aligned"

    def grid(
        self,
        image_size: tuple[int, int],
        view_size: tuple[int, int],
        field: ReceptiveField,
        device: torch.device | str = "cpu",
    ) -> Grid | Grids:
        """The candidates of an image."""
        where = {"image_size": image_size, "view_size": view_size, "field": field, "device": device}
        grids = tuple(make_grid(self.geometry, patch=size, **where) for size in self.sizes)
        return grids[0] if self.sizes == (self.patch,) else Grids(grids, self.patch)

    def refuse_sizes(self, system: str) -> None:
        """Of a system that cuts patches of one size."""
        if self.sizes != (self.patch,):
            raise ValueError(
                f"extraction.sizes is given, and the system {system} cuts patches of one size: leave it out, or use "
                "the system patch_selection"
            )

    def forward(
        self, image: Float[Tensor, "B C H W"] | Sources, selection: Selection, candidates: Readable
    ) -> Float[Tensor, "B K C P Q"]:
        """The K patches of every image."""
        return extract(image, selection, candidates)


def both_sides(side: int | Sequence[int]) -> tuple[int, int]:
    """Height and width of what is given by one side, or by both.

    >>> both_sides(64), both_sides([64, 128])
    ((64, 64), (64, 128))
    """
    if isinstance(side, int):
        return side, side
    if len(side) != 2:
        raise ValueError(f"a size is {list(side)}, expected one side, or [height, width]")
    return side[0], side[1]


class _Mix(torch.autograd.Function):
    """Image by image, so that a chunk of patches and the slots it goes into stay in a processor's cache together."""

    @staticmethod
    def forward(ctx, image: Tensor | Sources, weight: Tensor, index: Tensor, candidates: Readable) -> Tensor:
        pixels, ctx.sources = (None, image) if isinstance(image, Sources) else (image, None)
        ctx.save_for_backward(pixels, weight, index)
        ctx.candidates = candidates
        height, width = candidates.patch
        used = Selection(index, weight).used
        parts = weight.to(image.dtype)
        mixed = parts.new_zeros(*weight.shape[:2], image.shape[1] * height * width)  # B K D
        with torch.autocast(image.device.type, enabled=False):
            for b in range(len(image)):
                for chunk in _chunks(used[b].nonzero().flatten(), image, candidates):
                    patches = candidates.read(image[b : b + 1], index[b : b + 1, chunk])
                    mixed[b].addmm_(parts[b, :, chunk], _flatten(patches, image)[0])
        pattern = f"b k ({_memory_order(image)}) -> b k c p q"
        return rearrange(mixed, pattern, c=image.shape[1], p=height, q=width)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        pixels, weight, index = ctx.saved_tensors
        image: Any = ctx.sources if pixels is None else pixels
        need_image, need_weight, *_ = ctx.needs_input_grad
        grad = _flatten(grad.to(image.dtype), image)  # B K D
        weight_grad = torch.empty_like(weight)
        image_grad = torch.zeros_like(image) if need_image else None
        support = torch.arange(index.shape[1], device=index.device)
        with torch.autocast(image.device.type, enabled=False):
            for b in range(len(image)):
                leaf = image[b : b + 1].detach().requires_grad_() if need_image else image[b : b + 1]
                for chunk in _chunks(support, image, ctx.candidates):
                    with torch.set_grad_enabled(need_image):
                        patches = _flatten(ctx.candidates.read(leaf, index[b : b + 1, chunk]), image)[0]  # c D
                    if need_weight:
                        weight_grad[b, :, chunk] = (grad[b] @ patches.detach().mT).to(weight.dtype)
                    if image_grad is not None:
                        patches_grad = weight[b, :, chunk].to(image.dtype).mT @ grad[b]
                        image_grad[b] += torch.autograd.grad(patches, leaf, patches_grad)[0][0]
        return image_grad, weight_grad if need_weight else None, None, None


def _memory_order(image: Tensor | Sources) -> str:
    """How pixels follow one another in memory, as an einops pattern: flattening in this order copies nothing."""
    if isinstance(image, Sources):
        return "c p q"
    channels_last = image.is_contiguous(memory_format=torch.channels_last) and not image.is_contiguous()
    return "p q c" if channels_last else "c p q"


def _flatten(patches: Tensor, image: Tensor | Sources) -> Tensor:
    return rearrange(patches, f"b s c p q -> b s ({_memory_order(image)})")


def _chunks(columns: Tensor, image: Tensor | Sources, candidates: Readable) -> tuple[Tensor, ...]:
    patch_bytes = image.shape[1] * candidates.patch[0] * candidates.patch[1] * image.dtype.itemsize
    budget = CHUNK_BYTES.get(image.device.type, CHUNK_BYTES["cuda"])
    return columns.split(max(1, budget // patch_bytes))
