"""Images → patch size, K and view, so that they fit one another and what the user gave.

patch   K patches show about a tenth of the image, as in the paper; a multiple of 8 from 32 to 224 px
K       10, fewer where they would show more than a quarter of the image
view    about 320×240 px, at most half as high and wide as the image; neighboring candidates at most half a patch
        apart, so that nothing falls between them; at least four candidates for each patch that is chosen
"""

import math
from collections.abc import Iterator
from functools import partial

from saccade.extraction.receptive_field import ReceptiveField
from saccade.images import view_size
from saccade.registry import build
from saccade.training.defaults.choices import ODD_FACTOR, Choice, Known, Size, percent, show

K = 10
SHARE, MOST_SHARE = 0.1, 0.25
LEAST_PX, MOST_PX = 32, 224
SMALL_IMAGE_PX = 96
VIEW_PX = 320 * 240
POOLS = (8, 4)  # of the scorer, the usual one first
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
        odd = ", ".join(map(show, known.images.odd[:3]))
        reason += f"; far from the rest, and without a say in patch, K and view: {odd}; leave out what is a mistake"
    yield Choice("model.preparation.resize", None, reason)


def choose_patch(known: Known) -> Iterator[Choice]:
    """The size of a patch."""
    if not known.selects:
        return
    if "model.extraction.patch" in known.values:
        _refuse_too_large(known)
        return
    k, pixels = known.values.get("model.selection.k", K), math.prod(known.images.typical)
    wanted = math.sqrt(SHARE * pixels / k)
    least, most = _limits(known.images.shortest)
    side = min(max(8 * round(wanted / 8), least), most)
    reason = f"{k} of them show {percent(k * side**2 / pixels)} of a typical image, {show(known.images.typical)} px"
    if side > wanted + 4:
        reason = f"the least that shows enough; a tenth of a {show(known.images.typical)} px image would be less"
    elif side < wanted - 4:
        reason += f"; {MOST_PX} px is the most" if side == MOST_PX else "; the smallest image has room for no more"
    if known.images.shortest < SMALL_IMAGE_PX:
        reason += "; images this small need no selection, try --model.system cnn as well"
    yield Choice("model.extraction.patch", [side, side], reason)


def _limits(shortest: int) -> Size:
    """The smallest and largest patch: multiples of 8 that go twice and once into the shortest side."""
    if shortest < 16:
        return min(8, shortest), min(8, shortest)
    return min(LEAST_PX, shortest // 16 * 8), min(MOST_PX, shortest // 8 * 8)


def _refuse_too_large(known: Known) -> None:
    height, width = known.images.typical
    if known.patch[0] > height or known.patch[1] > width:
        raise ValueError(
            f"patch is {show(known.patch)} px, larger than the images of {show((height, width))} px: pass --patch with "
            f"at most {min(height, width)}"
        )


def choose_k(known: Known) -> Iterator[Choice]:
    """The number of patches."""
    if not known.selects or known.options("selection").get("name") == "exhaustive":
        return
    share = math.prod(known.patch) / math.prod(known.images.typical)
    k = max(1, min(K, int(MOST_SHARE / share)))
    reason = f"{show(known.patch)} px each, together {percent(k * share)} of a typical image"
    if k < K:
        reason += f"; {K} would be {percent(K * share)}"
    scale, pool = known.values.get("model.view.scale", 1.0), _pools(known)[-1]
    room = _fewest_candidates(known, scale, pool) // CANDIDATES_PER_PATCH
    if room < k:
        k, reason = max(room, 1), f"the grid has {CANDIDATES_PER_PATCH} candidates each for no more than that"
    yield Choice("model.selection.k", k, reason)


def choose_view(known: Known) -> Iterator[Choice]:
    """The scale of the view and, where the grid would be too coarse, the pooling of the scorer."""
    if not known.selects:
        scale = 1 / _wanted(known)
        yield Choice("model.view.scale", scale, f"a view of {show(view_size(known.images.typical, scale))} px")
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
            f"{show(known.patch)} px, or too few",
        )


def _wanted(known: Known) -> int:
    """How many times smaller than the image the view should be, if nothing stands against it."""
    return max(2, round(math.sqrt(math.prod(known.images.typical) / VIEW_PX)))


def _pools(known: Known) -> tuple[int, ...]:
    """View pixels from one candidate to the next: what was given, or what is to be chosen from."""
    given = known.options("scorer")
    if given.get("name") == "backbone":
        return (given.get("stride", BACKBONE_STRIDE),)
    return (given["pool"],) if "pool" in given else POOLS


def _scale_and_pool(known: Known) -> tuple[float, int]:
    """The coarsest view that leaves enough candidates, close enough together."""
    pools = _pools(known)
    if "model.view.scale" in known.values:
        scale = known.values["model.view.scale"]
        return scale, next((pool for pool in pools if _fits(known, scale, pool)), pools[-1])
    wanted = _wanted(known)
    coarsest = {pool: max((n for n in range(1, wanted + 1) if _fits(known, 1 / n, pool)), default=0) for pool in pools}
    # A scorer with finer pooling costs less than one that looks at more than four times the pixels.
    near_enough = (pool for pool in pools if 2 * coarsest[pool] >= wanted)
    pool = next(near_enough, max(pools, key=lambda pool: (coarsest[pool], -pool)))
    return 1 / max(coarsest[pool], 1), pool


def _fits(known: Known, scale: float, pool: int) -> bool:
    close = pool / scale <= min(known.patch) / 2
    return close and _fewest_candidates(known, scale, pool) >= CANDIDATES_PER_PATCH * known.k


def _fewest_candidates(known: Known, scale: float, pool: int) -> int:
    """N of the ordinary image that has the fewest."""
    return min(map(partial(_cells(known, pool), scale=scale), known.images.ordinary))


def _cells(known: Known, pool: int):
    """N as a function of an image's size and the view's scale."""
    given = known.options("scorer")
    if given.get("name") == "backbone":  # its cells cover the view, wherever in them it looks
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
