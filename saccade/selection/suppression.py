"""Greedy non-maximum suppression over many draws at once: K passes, each takes the best candidate and bars its likes.

Candidates whose boxes have an IoU above `max_overlap` bar one another. Where every candidate that is left is barred
before K are taken, the best of the barred ones follow, so that there are always K.

`leave_one_out` says what each pick is worth. Let d be a pick and Q the K picks without d. If x, the value of d, falls
while all other values stay, the picks change only

    at τ = max(u, w)    u: the best value in Q of those that d bars (−∞ if none), w: the last value in Q.

Proof. Above both u and w, d comes before whatever of Q bars it, and before K are taken: d is picked. Let x rise past
the value of another, e. If e is picked it does not bar d, else d were not picked; if e is not, a better pick bars it.
Either way e fares the same before or after d, and so does all that follows: for all x > τ the picks are the same.
Below τ, d is barred or comes too late, and the picks are Q. ∎

Only where Q had to take barred candidates is there more to say: then d is picked anyway if u = −∞, and otherwise it
falls among the barred at u, and out at w if that is lower.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from saccade.selection.noise import Noise
from saccade.selection.support import highest

# What one square pixel too much costs: more than any number of candidates.
BARRED = 1e25

# Candidates looked at first, for each of K passes: about as many as one pick bars on a dense grid.
FIRST_LOOK = 16


class Field(NamedTuple):
    """Where the U candidates of each row lie.

    sides:   left, top, right, bottom and area.
    outside: whether a candidate lies outside the picture and so is barred from the start.
    """

    sides: Float[Tensor, "5 R U"]
    outside: Bool[Tensor, "R U"]


class Picks(NamedTuple):
    """What the passes took, in their order; `free` is False for barred candidates taken for want of others."""

    index: Int[Tensor, "R K"]
    value: Float[Tensor, "R K"]
    free: Bool[Tensor, "R K"]


class LeaveOneOut(NamedTuple):
    """K+1 picks as in `Picks`, and what would be there without each of the first K, d.

    free:    as in `Picks`, and of all the picks without d.
    without: the K picks without d.
    cross:   the candidate whose value d falls below at `level`, the threshold τ.
    demoted: whether d then is still there as a barred one, in the place of the last of `without`, down to `last_level`.
    """

    index: Int[Tensor, "R K1"]
    value: Float[Tensor, "R K1"]
    free: Bool[Tensor, "R K1K"]
    without: Int[Tensor, "R K K"]
    cross: Int[Tensor, "R K"]
    level: Float[Tensor, "R K"]
    last_level: Float[Tensor, "R K"]
    demoted: Bool[Tensor, "R K"]


Run = TypeVar("Run", Picks, LeaveOneOut)


def make_field(boxes: Float[Tensor, "B U 4"], inside: Bool[Tensor, "B U"] | None = None) -> Field:
    """The field of candidates with these boxes, all of them `inside` the picture if that is not given."""
    area = (boxes[..., 2:] - boxes[..., :2]).prod(dim=-1, keepdim=True)
    outside = torch.zeros_like(boxes[..., 0], dtype=torch.bool) if inside is None else ~inside
    return Field(torch.cat([boxes, area], dim=-1).movedim(-1, 0), outside)


def among_the_best(
    solve: Callable[..., Run],
    values: Float[Tensor, "R U"],
    field: Field,
    image: Int[Tensor, " R"],
    *,
    passes: int,
    max_overlap: float,
    look: int = FIRST_LOOK,
) -> Run:
    """`pick_apart` or `leave_one_out` of every row of values; `image` says which row of `field` each belongs to.

    Only the best `look` candidates a pass are looked at. If no barred one had to be taken, the picks are those of all
    candidates, whose values are lower. Rows for which it was not enough look at more.
    """
    size = min(look * passes, values.shape[1])
    value, index = values.topk(size, dim=1)
    near = Field(field.sides[:, image[:, None], index], field.outside[image[:, None], index])
    result = solve(value, near, passes=passes, max_overlap=max_overlap)
    columns = [look_up(index, column) if column.dtype == torch.long else column for column in result]
    more = ~result.free.all(dim=1)
    if size < values.shape[1] and more.any():
        options = {"passes": passes, "max_overlap": max_overlap, "look": 4 * look}
        again = among_the_best(solve, values[more], field, image[more], **options)
        columns = [column.index_put((more,), new) for column, new in zip(columns, again, strict=True)]
    return type(result)(*columns)


def look_up(table: Shaped[Tensor, "R U"], index: Tensor) -> Tensor:
    """table[r, index[r, …]] for an index R …"""
    return table.gather(1, index.flatten(1)).view(index.shape)


def overlap_excess(pick: Int[Tensor, "R 1"], sides: Float[Tensor, "5 R U"], max_overlap: float) -> Float[Tensor, "R U"]:
    """(1 + t) · common area − t · both areas, or 0 if that is more: positive where the IoU exceeds t = max_overlap.

    The row's pick is too much for itself whatever t is.

    >>> boxes = torch.tensor([[[0, 0, 4, 4], [0, 2, 4, 6], [0, 3, 4, 7]]]).float()
    >>> overlap_excess(torch.tensor([[0]]), make_field(boxes).sides, 0.25) > 0
    tensor([[ True,  True, False]])
    """
    left, top, right, bottom, area = sides
    left1, top1, right1, bottom1, area1 = sides.gather(2, pick.expand(5, -1, -1))
    width = torch.minimum(right, right1).sub_(torch.maximum(left, left1)).clamp_(min=0)
    height = torch.minimum(bottom, bottom1).sub_(torch.maximum(top, top1))
    common = height.mul_(width).mul_(1 + max_overlap)
    return common.sub_((area + area1).mul_(max_overlap)).clamp_(min=0).scatter_(1, pick, 1.0)


def pick_apart(values: Float[Tensor, "R U"], field: Field, *, passes: int, max_overlap: float) -> Picks:
    """Greedy non-maximum suppression of every row of values, which must be in descending order."""
    place = _places(values)
    nothing = torch.empty(values.shape[0], 0, dtype=torch.long, device=values.device)
    picks = _greedy(place, _free(place, field), nothing, field.sides, passes, max_overlap)
    return picks._replace(value=values.gather(1, picks.index))


def best_apart(
    scores: Float[Tensor, "B N"],
    k: int,
    boxes: Int[Tensor, "N 4"],
    *,
    max_overlap: float,
    inside: Bool[Tensor, "B N"] | None = None,
) -> Int[Tensor, "B K"]:
    """The K picks of each row in their order: best first, then what had to fill up, then what is not `inside`.

    Of equals the lower index wins.
    """
    scores = scores.detach() if inside is None else scores.detach().masked_fill(~inside, -torch.inf)
    values, order = scores.sort(dim=1, descending=True, stable=True)
    exact = boxes.to(torch.promote_types(scores.dtype, torch.float32))
    field = make_field(exact[order], inside if inside is None else inside.gather(1, order))
    picks = pick_apart(values.to(exact.dtype), field, passes=k, max_overlap=max_overlap)
    return order.gather(1, picks.index)


def _places(values: Tensor) -> Tensor:
    """0, −1, −2 …: in their place values need no search for the index of the highest, and any number bars them."""
    return torch.arange(0, -values.shape[1], -1, dtype=values.dtype, device=values.device).expand_as(values)


def _free(place: Tensor, field: Field) -> Tensor:
    return place.masked_fill(field.outside, -torch.inf)


def _greedy(place: Tensor, free: Tensor, taken: Tensor, sides: Tensor, passes: int, max_overlap: float) -> Picks:
    """More picks after those `taken`; `free` holds the places, far lower for all that is barred, and is overwritten.

    Arithmetic rather than masks, which take ten times as long on a CPU. The picks' values are their places.
    """
    picks = []
    for _ in range(passes):
        best = free.amax(dim=1, keepdim=True)
        is_free = best >= -place.shape[1]
        if torch.compiler.is_compiling() or not is_free.all():  # a graph has no values to look at
            best = torch.where(is_free, best, place.scatter(1, taken, -torch.inf).amax(dim=1, keepdim=True))
        index = best.neg().long()
        picks.append((index, best, is_free))
        taken = torch.cat([taken, index], dim=1)
        free.sub_(overlap_excess(index, sides, max_overlap).mul_(BARRED))
    return Picks(*(torch.cat(column, dim=1) for column in zip(*picks, strict=True)))


def leave_one_out(values: Float[Tensor, "R U"], field: Field, *, passes: int, max_overlap: float) -> LeaveOneOut:
    """The same with K+1 passes, and again without each of the first K picks."""
    picks = pick_apart(values, field, passes=passes, max_overlap=max_overlap)
    place, k = _places(values), passes - 1
    free = _free(place, field)
    found, all_free = [], [picks.free]
    for nth in range(k):  # the passes before the n-th need no repetition
        own = picks.index[:, nth : nth + 1]
        others = free.scatter(1, own, -torch.inf)
        after = _greedy(place, others, picks.index[:, : nth + 1], field.sides, k - nth, max_overlap)
        after = after._replace(value=values.gather(1, after.index))
        excess = overlap_excess(own, field.sides, max_overlap)
        without = torch.cat([picks.index[:, :nth], after.index], dim=1)
        found.append((without, *_crossing(picks.free[:, nth], after, excess.gather(1, after.index) > 0)))
        all_free.append(after.free[:, -1:])
        free.sub_(excess.mul_(BARRED))
    columns = (torch.stack(column, dim=1) for column in zip(*found, strict=True))
    return LeaveOneOut(picks.index, picks.value, torch.cat(all_free, dim=1), *columns)


def _crossing(own_free: Tensor, after: Picks, barred: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cross, level, last level and demoted of one pick, from the picks `after` it that are there without it."""
    rivals = torch.where(barred & after.free, after.value, -torch.inf)
    rival, at = rivals.max(dim=1)  # u, and where it is
    last = after.value[:, -1]  # w
    short = ~after.free[:, -1]
    by_rival = torch.where(short, own_free, rival >= last)
    place = torch.where(by_rival, at, after.index.shape[1] - 1)
    cross = after.index.gather(1, place[:, None])[:, 0]
    return cross, torch.where(by_rival, rival, last), last, short & own_free & (rival > last)


def near_the_top_apart(
    scores: Float[Tensor, "B N"],
    k: int,
    boxes: Float[Tensor, "N 4"],
    *,
    sigma: float,
    max_overlap: float,
    noise: Noise,
    inside: Bool[Tensor, "B N"] | None = None,
) -> Int[Tensor, "B U"]:
    """Candidates that noise can bring among the K picks, or among those without one of them, ascending.

    Take K+1 candidates so far apart that nothing bars two of them. K picks, or K−1 and one taken away, leave one of
    them free. So whatever is picked has overtaken one of them, and nothing does from `pair_reach` σ below the lowest,
    except in about K+1 of 1e9 draws; nor are barred candidates ever needed. Best first gives a high lowest one. Where
    there are no K+1 such candidates all N are kept.

    Boxes bar one another only if their centers differ by at most ρ · (w + w′)/2 in x, ρ = (1 − max_overlap) /
    (1 + max_overlap), because IoU is at most the same ratio of the sides alone; and likewise in y.
    """
    free = scores if inside is None else scores.masked_fill(~inside, -torch.inf)
    size = boxes[:, 2:] - boxes[:, :2]
    between = size.amax(dim=0)
    center, ratio = (boxes[:, :2] + boxes[:, 2:]) / 2, (1 - max_overlap) / (1 + max_overlap)
    lowest = scores[:, 0]
    for _ in range(k + 1):
        lowest, index = free.max(dim=1)
        reach = ratio * ((size[index, None] + size) / 2 + between)  # B N 2
        free = free.masked_fill(((center[index, None] - center).abs() <= reach).all(dim=-1), -torch.inf)
    return highest(scores, lowest - noise.pair_reach * sigma, at_least=k + 1)
