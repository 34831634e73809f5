"""image → all patches, without gradient → the M best → features → logits: iterative patch selection (IPS).

Bergner, Lippert, Mahendran: Iterative Patch Selection for High-Resolution Image Recognition, ICLR 2023. One learned
query with G heads reads the features f_n of patches by attention:

    a_gn = ⟨q_g, K_g f_n⟩ / √E                              logits of head g
    kept = the M patches with the largest mean_g a_gn        all N patches, `chunk` at a time, no gradient
    z    = LN(q + O [Σ_{n ∈ kept} softmax_n(a_gn) V_g f_n]_g),   pooled = LN(z + MLP(z))      kept ones, with gradient

So a gradient needs M patches in memory and the search `chunk` of them, however large the image is.

The paper keeps a buffer of M patches and lets the query attend to the buffer and the next chunk. Its code ranks by the
mean over heads of the softmax over buffer and chunk. With one head that is our order, whatever the chunk. With several
it depends on what else is there, and so on the size of the chunk: with four heads, N = 30 and M = 5, chunks of 3 keep
other patches than one pass does for 24% of random queries, and for half of them where attention is sharper. Here heads
are averaged before the softmax. Such a score is a patch's own, comparable between chunks: scores are collected (N
numbers, no features), and the best M are those of all N. A new network keeps 91% of what the paper's one pass would.

Besides, the released code shuffles the patches, so that equal ones are kept by chance (here: the first of them), takes
a patch's number as its position (here: row and column), drops out attention weights, and adds to what was read the
query before the heads' matrix (here: after it).

The search runs in evaluation mode: batch norm must not count patches that nothing is learnt from, and dropout must not
choose. The running statistics it uses are those of patches that were kept.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.config import ModelConfig
from saccade.extraction import Extraction, Grid
from saccade.images import Sources
from saccade.module_modes import evaluating
from saccade.options import AT_LEAST_ONE, check_ranges
from saccade.output import Output
from saccade.registry import build, build_one, register
from saccade.selection import hard_topk, ignore_outside, normalize_scores
from saccade.selection.normalize import OUT_OF_REACH
from saccade.system import System


@dataclass(frozen=True, kw_only=True)
class IPSOptions:
    """`config.options` of the system.

    memory:  M, how many patches are kept; all of an image that has fewer.
    chunk:   how many patches of each image are searched at once. Changes the memory and the speed, nothing else.
    stride:  pixels from one patch to the next; None: the patch's own side, so that patches tile the image.
    heads:   of the query; they share `dim` numbers. hidden: of its MLP. dropout: after both.
    encode_positions: add sines and cosines of a patch's row and column to its features.
    """

    memory: int = 16
    chunk: int = 64
    stride: int | None = None
    heads: int = 4
    dim: int = 128
    hidden: int = 256
    dropout: float = 0.1
    encode_positions: bool = False

    def __post_init__(self) -> None:
        counts = ("memory", "chunk", "stride", "heads", "dim", "hidden")
        check_ranges("options", self, **dict.fromkeys(counts, AT_LEAST_ONE))
        if self.dim % self.heads:
            raise ValueError(f"options.dim is {self.dim}, expected a multiple of options.heads, {self.heads}")


@register("system", "ips")
class IPS(System):
    """Iterative patch selection, a search of all patches without gradient: extraction.patch, features, prediction.

    Its raw scores are the query's logits of all patches, before any softmax, so those of different chunks can be
    compared; they have no gradient.

    >>> config = ModelConfig(system="ips", num_classes=4, image_size=(300, 400), options={"memory": 5})
    >>> output = IPS(config).eval()(torch.rand(2, 3, 300, 400))
    >>> output.raw_scores.shape, output.boxes.shape
    (torch.Size([2, 12]), torch.Size([2, 5, 4]))
    """

    configured = ("extraction", "features", "prediction")
    takes_sources = True
    own_options = IPSOptions
    options: IPSOptions

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.extraction = build_one("extraction", Extraction, config.extraction)
        self.extraction.refuse_sizes(config.system)
        self.features = build(
            "features",
            config.features,
            config.input_channels,
            patch=self.extraction.patch,
            image_channels=config.channels,
        )
        if self.options.encode_positions and self.features.width % 4:
            raise ValueError(f"features are {self.features.width} wide, expected a multiple of 4 to encode positions")
        self.attention = QueryAttention(
            self.features.width,
            dim=self.options.dim,
            heads=self.options.heads,
            hidden=self.options.hidden,
            dropout=self.options.dropout,
        )
        self.prediction = build("prediction", config.prediction, self.options.dim, self.task.outputs)

    def forward(self, image: Float[Tensor, "B C H W"] | Sources, size: Int[Tensor, "B 2"] | None = None) -> Output:
        """Logits of each image; with `size`, patches centered on the padding beyond it play no part."""
        self.check_images(image)
        image, grid = self.with_positions(image, size), self.grid(image.shape[-2:], image.device)
        raw_scores = self.search(image, grid)  # B N
        scores, outside = normalize_scores(raw_scores), None
        if size is not None:
            raw_scores, scores = ignore_outside(raw_scores, grid.centered_in(size))
        selection = hard_topk(raw_scores, min(self.options.memory, grid.num_candidates))  # index B M
        if size is not None:
            outside = ~grid.centered_in(size).gather(1, selection.index)
        features = self.encode(image, selection.index, grid)  # B M D
        logits = self.prediction(self.attention(features, outside))
        boxes, nothing = grid.boxes(selection.index), features.new_zeros(len(features), 0)
        return Output(logits, raw_scores, scores, selection, boxes, grid, features, context=nothing)

    @torch.no_grad()
    def search(self, image: Float[Tensor, "B C H W"] | Sources, grid: Grid) -> Float[Tensor, "B N"]:
        """The query's logits of all patches, a chunk at a time."""
        candidates = torch.arange(grid.num_candidates, device=image.device).expand(len(image), -1)
        with evaluating(self):
            scores = [
                self.attention.logits(self.encode(image, chunk, grid)).mean(dim=1)
                for chunk in candidates.split(self.options.chunk, dim=1)
            ]
        # Weights that autocast keeps from here have no gradient, and older versions of torch would learn with those.
        torch.clear_autocast_cache()
        return torch.cat(scores, dim=1)

    def encode(
        self, image: Float[Tensor, "B C H W"] | Sources, index: Int[Tensor, "B n"], grid: Grid
    ) -> Float[Tensor, "B n D"]:
        """Features of the patches `index`."""
        patches = rearrange(grid.read(image, index), "b n c p q -> (b n) c p q")
        features = rearrange(self.features(patches), "(b n) d -> b n d", b=len(image))
        if not self.options.encode_positions:
            return features
        row_col = torch.stack([index // grid.shape[1], index % grid.shape[1]], dim=-1)
        return features + sinusoids(row_col, features.shape[-1]).to(features.dtype)

    def grid(self, image_size: Sequence[int], device: torch.device | str = "cpu") -> Grid:
        """The patches of an image of `image_size` (height, width); what they cover beyond it is shared by both ends."""
        top_px, left_px = (
            _corners(side, patch, self.options.stride or patch).to(device)
            for side, patch in zip(image_size, self.extraction.patch, strict=True)
        )
        return Grid(top_px, left_px, self.extraction.patch)


class QueryAttention(nn.Module):
    """Features B n D → pooled B `dim`: attention of one learned query, then an MLP; both with residual and norm after.

    The query is learned per head as it meets the keys: a matrix between them would only be multiplied into it.
    """

    def __init__(self, width: int, *, dim: int, heads: int, hidden: int, dropout: float):
        super().__init__()
        # As in the paper: logits start out well below one, so attention starts out even.
        self.query = nn.Parameter(torch.empty(heads, dim // heads).uniform_(-1, 1) * (heads / dim) ** 0.5)
        self.keys, self.values = (nn.Linear(width, dim, bias=False) for _ in range(2))
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def logits(self, features: Float[Tensor, "B n D"]) -> Float[Tensor, "B G n"]:
        """⟨q_g, K_g f_n⟩ / √E for each head."""
        heads, width = self.query.shape
        # In bfloat16 hundreds of logits share a value, and ties would decide what is kept.
        with torch.autocast(features.device.type, enabled=False):
            keys = rearrange(self.keys(features.to(self.query.dtype)), "b n (g e) -> b n g e", g=heads)
            return einsum(self.query, keys, "g e, b n g e -> b g n") / width**0.5

    def forward(
        self, features: Float[Tensor, "B n D"], outside: Bool[Tensor, "B n"] | None = None
    ) -> Float[Tensor, "B E"]:
        """Pool the features that are not `outside`."""
        logits = self.logits(features)
        if outside is not None:
            logits = logits - OUT_OF_REACH * outside[:, None].to(logits.dtype)
        values = rearrange(self.values(features), "b n (g e) -> b n g e", g=len(self.query))
        read = rearrange(
            einsum(logits.softmax(dim=2).to(values.dtype), values, "b g n, b n g e -> b g e"), "b g e -> b (g e)"
        )
        pooled = self.norm1(self.query.flatten() + self.dropout(self.out(read)))
        return self.norm2(pooled + self.dropout(self.mlp(pooled)))


def sinusoids(place: Int[Tensor, "*shape axes"], width: int) -> Float[Tensor, "*shape width"]:
    """sin and cos of each coordinate at width / (2 · axes) frequencies, geometric from 1 to about 1/10,000.

    >>> sinusoids(torch.tensor([[0, 0]]), 4)  # sin and cos of the row, then of the column
    tensor([[0., 1., 0., 1.]])
    """
    count = width // (2 * place.shape[-1])
    frequency = 10_000.0 ** (-torch.arange(count, device=place.device) / count)
    angle = place[..., None] * frequency  # *shape axes count
    return torch.cat([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def _corners(image_px: int, patch_px: int, stride_px: int) -> Int[Tensor, " cells"]:
    cells = 1 + max(0, math.ceil((image_px - patch_px) / stride_px))
    covered_px = patch_px + (cells - 1) * stride_px
    return torch.arange(cells) * stride_px - (covered_px - image_px) // 2
