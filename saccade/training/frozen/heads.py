"""Features that are held still → heads, and for every image the answer of a head that never saw it.

A network knows a few hundred pictures by heart within fifty steps, and then everything in them explains their labels.
So heads are judged on images they were not fitted to: the images lie in parts, and head k learns from all but part k.

    glance   W x + b of the features of the whole view: convex, so it is simply solved
    bag      W pooled + b, pooled from cells by gated attention (`CellAttention`): a few hundred steps of Adam

Classes count alike, however many images they have, where they exclude each other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from saccade.features.cells import DROPOUT, CellAttention
from saccade.tasks.task import Task
from saccade.training.batches import StepSampler

Head = TypeVar("Head", bound=nn.Module)

DECAY = 3e-2  # of the glance: λ ‖W‖² on features of unit variance
LR, WEIGHT_DECAY, BATCH = 3e-3, 1e-2, 8
PASSES, FEWEST_STEPS, MOST_STEPS = 6, 200, 1000
LABEL_FREE_PASSES = 18  # nothing is learnt by heart without labels


@dataclass(frozen=True)
class CrossFitted(Generic[Head]):
    """Heads that each never saw one part of the images, in the order of the parts, and one that saw everything."""

    blind: list[Head]
    seeing: Head

    @property
    def kept(self) -> tuple[Head, Head, Head]:
        """Those that models are made of: blind to the first part, blind to the second, and seeing everything."""
        return self.blind[0], self.blind[1], self.seeing


def cross_fit(
    fit: Callable[[Int[Tensor, " m"]], Head],
    part: Int[Tensor, " n"],
    watch: Callable[[range], Iterable[int]] = iter,
) -> CrossFitted[Head]:
    """`fit` a head to the images outside of each part, and one to all; images are given by their places."""
    places, parts = torch.arange(len(part)), int(part.max()) + 1
    *blind, seeing = (fit(places[part != k]) for k in watch(range(parts + 1)))  # no image is in the part after the last
    return CrossFitted(blind, seeing)


class Standard(NamedTuple):
    """Mean and standard deviation of each feature over the training images."""

    mean: Float[Tensor, " D"]
    std: Float[Tensor, " D"]

    @classmethod
    def of(cls, values: Float[Tensor, "n D"]) -> "Standard":
        """What `values` have."""
        std, mean = torch.std_mean(values, dim=0)
        return cls(mean, std + 1e-3)

    def fold(self, layer: nn.Linear | nn.Conv2d) -> None:
        """Make a layer for standardized features one for the features as they come."""
        shape = (1, -1, *(1,) * (layer.weight.ndim - 2))
        with torch.no_grad():
            layer.weight.div_(self.std.view(shape))
            assert layer.bias is not None
            layer.bias.sub_((layer.weight * self.mean.view(shape)).flatten(1).sum(dim=1))


def fit_glance(features: Float[Tensor, "n D"], label: Shaped[Tensor, "n ..."], task: Task) -> nn.Linear:
    """Logistic regression, or whatever the task's loss makes of it, with a quadratic penalty."""
    standard = Standard.of(features)
    x, weight = (features - standard.mean) / standard.std, task.class_weight(label) if task.counts_alike else None
    head = nn.Linear(x.shape[1], task.outputs)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    solver = torch.optim.LBFGS(head.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        penalized = task.loss(head(x), label, weight) + DECAY * head.weight.square().sum()
        penalized.backward()
        return penalized

    with torch.enable_grad():
        solver.step(loss)  # pyright: ignore[reportArgumentType]
    standard.fold(head)
    return head.requires_grad_(False)


class BagHead(nn.Module):
    """Cells of the K pictures of an image → logits of every head of the attention; of K pictures the largest count.

    Each picture is seen in V ways, as it is and mirrored, of which the mean counts.
    """

    def __init__(self, attention: CellAttention, classes: int):
        super().__init__()
        self.attention, self.classes = attention, classes
        self.answer = nn.Conv1d(attention.width, attention.heads * classes, 1, groups=attention.heads)

    def forward(self, cells: Float[Tensor, "B V K D rows cols"]) -> Float[Tensor, "B L H"]:
        """What each head answers."""
        context = self.attention(rearrange(cells, "b v k d r c -> (b v k) d r c")).context
        seen = reduce(context, "(b v k) e -> b k e", "mean", b=cells.shape[0], v=cells.shape[1])
        pooled = seen.amax(dim=1)  # B E
        answers = self.answer(F.dropout(pooled, DROPOUT, self.training)[..., None])  # B HL 1
        return rearrange(answers, "b (h l) 1 -> b l h", l=self.classes)

    def linear(self) -> tuple[Float[Tensor, "L E"], Float[Tensor, " L"]]:
        """Weight and bias of the mean of the heads' answers as one linear layer over what all of them attended to."""
        heads = self.attention.heads
        weight = rearrange(self.answer.weight, "(h l) e 1 -> l (h e)", h=heads) / heads
        assert self.answer.bias is not None
        return weight, rearrange(self.answer.bias, "(h l) -> l h", h=heads).mean(dim=1)


Bags = Sequence[Tensor]  # each V K D rows cols, of sizes of its own


def fit_bag(
    head: BagHead,
    bags: Bags,
    standard: Standard,
    loss: Callable[[BagHead, Float[Tensor, "B V K D r c"], Int[Tensor, " B"]], Tensor],
    groups: Sequence[Sequence[int]],
    *,
    passes: int = PASSES,
    seed: int,
) -> BagHead:
    """Teach a head by `loss` of bags and their places; `groups` (places, a class each) are dealt evenly.

    Where pictures are seen in several ways, steps take turns.
    """
    count = sum(map(len, groups))
    steps = min(max(passes * count // BATCH, FEWEST_STEPS * passes // PASSES), MOST_STEPS)
    optimizer = torch.optim.AdamW(head.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=steps, pct_start=0.1)
    head.train()
    with torch.enable_grad():
        for step, places in enumerate(StepSampler(0, batch=BATCH, steps=steps, seed=seed, groups=groups)):
            way = step % len(bags[0])
            alike = _by_shape(places, bags)
            seen = ([bags[place][way, None] for place in some] for some in alike)
            total = sum(
                len(some) * loss(head, standardize(cells, standard), torch.tensor(some))
                for some, cells in zip(alike, seen, strict=True)
            )
            optimizer.zero_grad()
            (total / len(places)).backward()  # pyright: ignore[reportAttributeAccessIssue]
            optimizer.step()
            rate.step()
    return head.eval().requires_grad_(False)


def standardize(bags: Bags, standard: Standard) -> Float[Tensor, "B V K D rows cols"]:
    """Bags of one shape as a batch of unit variance."""
    stacked = torch.stack([bag.float() for bag in bags])
    return (stacked - standard.mean[:, None, None]) / standard.std[:, None, None]


def _by_shape(places: Sequence[int], bags: Bags) -> list[list[int]]:
    """Images of one size together: cells of padding would be looked at, too."""
    alike: dict[torch.Size, list[int]] = {}
    for place in places:
        alike.setdefault(bags[place].shape, []).append(place)
    return list(alike.values())
