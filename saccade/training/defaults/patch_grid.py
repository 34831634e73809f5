"""Images → patch size, K and view, so that they fit one another and what the user gave.

         a network with weights                       a network from nothing
patch    a fifth or a seventh of the shorter side,    a sixth of the shorter side, rounded down to 8 px, 32 to
         rounded up to 32 px, 64 to 192 px: the       64 px, what a thin network reads
         larger if it reads clearly better
K        5                                            10
view     50,000 px                                    36,000 px, at most a third as high and wide as the image

K is less where patches would show more than a quarter of the image. Neighboring candidates are at most half a patch
apart, so that nothing falls between them, and there are at least four for each patch that is chosen.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from saccade.data.typical_size import ODD_FACTOR
from saccade.extraction.extract import both_sides
from saccade.extraction.receptive_field import ReceptiveField
from saccade.images import view_size
from saccade.registry import build
from saccade.training.defaults.choices import Choice, Known, Size, percent, show


class Rule(NamedTuple):
    """How many patches, of which part of the shorter side (of several the largest patch first, between which the frozen
    start chooses), in which limits, `rounded` to multiples of what; pixels of the view.
    """

    k: int
    parts: tuple[int, ...]
    least_px: int
    most_px: int
    multiple_px: int
    rounded: Callable[[float], int]
    view_px: int


WITH_WEIGHTS = Rule(k=5, parts=(5, 7), least_px=64, most_px=192, multiple_px=32, rounded=math.ceil, view_px=50_000)
FROM_NOTHING = Rule(k=10, parts=(6,), least_px=32, most_px=64, multiple_px=8, rounded=math.floor, view_px=36_000)
MOST_SHARE = 0.25
SMALL_IMAGE_PX = 96
LEAST_SHRINK = 3
POOLS = (8, 4)  # of the scorer, the usual one first
# Of candidates of several sizes the scorer must see the largest whole, or it could not tell that a spot is as large. It
# sees at least this many view pixels; where it pools less, the smallest candidates lie close together all the same.
SEEN_PX, FINE_POOLS = 9, (8, 4, 2, 1)
BACKBONE_STRIDE = 8
CANDIDATES_PER_PATCH = 4


def choose_sizes(known: Known) -> Iterator[Choice]:
    """Whether images are resized: they never are unasked, but what becomes of different sizes must be known."""
    sizes = sorted({*known.images.ordinary, *known.images.odd}, key=math.prod)
    if len(sizes) == 1:
        return
    reason = (
        f"sizes differ, from {show(sizes[0])} to {show(sizes[-1])}: each image keeps its own, and zeros fill up the "
        "smaller ones of a batch"
    )
    times = math.prod(sizes[-1]) / math.prod(sizes[0])
    if times >= ODD_FACTOR:
        reason += (
            f"; the largest has {times:,.0f} times the pixels of the smallest, and a batch takes the memory of its "
            "largest: if what matters grows with the picture, resize all with --model.preparation.resize"
        )
    if known.images.odd:
        odd = ", ".join(map(show, [*dict.fromkeys(known.images.odd)][:3]))
        reason += f"; far from the rest, and without a say in patch, K and view: {odd}; leave out what is a mistake"
    yield Choice("model.preparation.resize", None, reason, "as they are")


def choose_patch(known: Known) -> Iterator[Choice]:
    """The size of a patch."""
    if not known.selects:
        return
    sizes = list(map(both_sides, known.values.get("model.extraction.sizes") or ()))
    if sizes and "model.extraction.patch" not in known.values:
        smallest = min(sizes, key=math.prod)
        reason = f"the smallest of the sizes of candidates: {', '.join(map(show, sizes))}; larger ones are shrunk to it"
        yield Choice("model.extraction.patch", list(smallest), reason)
    if "model.extraction.patch" in known.values:
        _refuse_too_large(known)
        return
    rule, shortest = _rule(known), known.images.shortest
    sides = list(dict.fromkeys(_side(rule, shortest, part) for part in rule.parts))
    reason = (
        f"{percent(sides[0] ** 2 / math.prod(known.images.typical))} of a typical image of "
        f"{show(known.images.typical)} px"
    )
    if shortest < SMALL_IMAGE_PX:
        reason += "; images this small need no selection, try --model.system cnn as well"
    others = [f"or {show((side, side))}" for side in sides[1:]]
    if others:
        reason += " or less: the frozen start takes the larger if it answers clearly better on images it never saw"
    said = " ".join([show((sides[0], sides[0])), *others])
    yield Choice("model.extraction.patch", [sides[0], sides[0]], reason, said)
    if others:
        yield Choice("training.patch_sizes", sides, reason)


def _side(rule: Rule, shortest: int, part: int) -> int:
    side = rule.rounded(shortest / part / rule.multiple_px) * rule.multiple_px
    side = min(max(side, rule.least_px), rule.most_px)
    # It must go twice into the shortest side of an image, and into that of a tiny one once.
    return min(side, shortest // 16 * 8 if shortest >= 16 else min(8, shortest))


def _rule(known: Known) -> Rule:
    return WITH_WEIGHTS if known.reads else FROM_NOTHING


def _refuse_too_large(known: Known) -> None:
    height, width = known.images.typical
    if too_large := [size for size in known.sizes if size[0] > height or size[1] > width]:
        raise ValueError(
            f"patch is {show(too_large[0])} px, larger than the images of {show((height, width))} px: pass --patch "
            f"with at most {min(height, width)}"
        )


def choose_k(known: Known) -> Iterator[Choice]:
    """The number of patches."""
    if not known.selects or known.options("selection").get("name") == "exhaustive":
        return
    largest = max(known.sizes, key=math.prod)
    share, most = math.prod(largest) / math.prod(known.images.typical), _rule(known).k
    k = max(1, min(most, int(MOST_SHARE / share)))
    reason = f"{show(largest)} px each, together {percent(k * share)} of a typical image"
    if k < most:
        reason += f"; {most} would be {percent(most * share)}"
    scale, pool = known.values.get("model.view.scale", 1.0), _pools(known)[-1]
    room = _fewest_candidates(known, scale, pool) // CANDIDATES_PER_PATCH
    if room < k:
        k, reason = max(room, 1), f"the grid has {CANDIDATES_PER_PATCH} candidates each for no more than that"
    yield Choice("model.selection.k", k, reason)


def choose_view(known: Known) -> Iterator[Choice]:
    """The scale of the view and, where the grid would be too coarse, the pooling of the scorer."""
    if known.selects and known.values.get("model.preparation.mpp"):
        yield Choice("model.view.tissue", True, "white glass is no candidate")
    if known.reads or not known.selects:
        yield Choice("model.view.scale", *_scale_for_weights(known))
        return
    scale, pool = _scale_and_pool(known)
    _refuse_too_many(known, scale, pool)
    size, candidates = view_size(known.images.typical, scale), _cells(known, pool)(known.images.typical, scale)
    apart = f"{pool / scale:.0f} px apart"
    yield Choice("model.view.scale", scale, f"a view of {show(size)} px gives {candidates:,} candidates {apart}")
    if pool != POOLS[0] and len(_pools(known)) > 1:
        yield Choice(
            "model.scorer.pool",
            pool,
            f"with the usual {POOLS[0]} candidates would be {POOLS[0] / scale:.0f} px apart, too far for patches of "
            f"{show(min(known.sizes, key=min))} px, or too few",
        )


def _scale_for_weights(known: Known) -> tuple[float, str]:
    """A view of the rule's pixels, or one in which candidates lie close enough together."""
    wanted = math.sqrt(WITH_WEIGHTS.view_px / math.prod(known.images.typical))
    least_px = min(*known.patch, *known.values.get("training.patch_sizes", ())) if known.selects else 0
    close = 2 * _pools(known)[0] / least_px if least_px else 0.0
    scale = min(max(wanted, close), 1.0)
    reason = f"a view of {show(view_size(known.images.typical, scale))} px"
    return scale, reason if scale > close else f"{reason}, in which candidates are half a patch apart"


def _wanted(known: Known) -> int:
    """How many times smaller than the image the view should be, if nothing stands against it."""
    whole = math.ceil(max(map(max, known.sizes)) / SEEN_PX) if len(known.sizes) > 1 else 1
    return max(LEAST_SHRINK, whole, math.ceil(math.sqrt(math.prod(known.images.typical) / FROM_NOTHING.view_px)))


def _pools(known: Known) -> tuple[int, ...]:
    """View pixels from one candidate to the next: what was given, or what is to be chosen from."""
    given = known.options("scorer")
    if known.reads or given.get("name") == "backbone":
        return (given.get("stride", BACKBONE_STRIDE),)
    if "pool" in given:
        return (given["pool"],)
    return FINE_POOLS if len(known.sizes) > 1 else POOLS


def _scale_and_pool(known: Known) -> tuple[float, int]:
    """The coarsest view that leaves enough candidates, close enough together."""
    pools = _pools(known)
    if "model.view.scale" in known.values:
        scale = known.values["model.view.scale"]
        return scale, next((pool for pool in pools if _fits(known, scale, pool)), pools[-1])
    wanted = _wanted(known)
    coarsest = {pool: max((n for n in range(1, wanted + 1) if _fits(known, 1 / n, pool)), default=0) for pool in pools}
    # A scorer with finer pooling costs less than one that looks at more than twice the pixels.
    near_enough = (pool for pool in pools if 2 * coarsest[pool] ** 2 >= wanted**2)
    pool = next(near_enough, max(pools, key=lambda pool: (coarsest[pool], -pool)))
    return 1 / max(coarsest[pool], 1), pool


def _fits(known: Known, scale: float, pool: int) -> bool:
    # A view has whole pixels, so that candidates may lie a pixel further apart: of tiny patches that is a tenth.
    apart = [math.ceil(pool * side / max(int(side * scale), 1)) for size in known.images.ordinary for side in size]
    least = min(map(min, known.sizes))
    close = pool / scale <= least / 2 and max(apart) <= 1.1 * least / 2
    return close and _fewest_candidates(known, scale, pool) >= CANDIDATES_PER_PATCH * known.k


def _fewest_candidates(known: Known, scale: float, pool: int) -> int:
    """N of the ordinary image that has the fewest."""
    return min(map(partial(_cells(known, pool), scale=scale), known.images.ordinary))


def _cells(known: Known, pool: int):
    """N as a function of an image's size and the view's scale."""
    given = known.options("scorer")
    if known.reads or given.get("name") == "backbone":  # its cells cover the view, wherever in them it looks
        return partial(_count, ReceptiveField(pool, pool, pool / 2, tiles=True, before=0))
    tiles = known.values.get("model.extraction.geometry", "aligned") == "aligned"
    scorer = build("scorer", {"name": "conv", **given, "pool": pool}, 3, tiles=tiles)
    return partial(_count, scorer.field)


def _count(field: ReceptiveField, size: Size, scale: float) -> int:
    try:
        return math.prod(field.cells(side) for side in view_size(size, scale))
    except ValueError:  # the view is smaller than what a score looks at
        return 0


def _refuse_too_many(known: Known, scale: float, pool: int) -> None:
    number = _fewest_candidates(known, scale, pool)
    if known.k > number:
        fix = f"pass --k {number} or less" if number else "pass a larger --model.view.scale"
        raise ValueError(
            f"k is {known.k} and images of {show(known.images.typical)} px have only {number} candidates at view scale "
            f"{scale:.3g}: {fix}"
        )
