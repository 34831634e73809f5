"""Sizes of the images of a set → the one that stands for all, those to fit, and those that are most likely a mistake.

Thumbnails and icons that lie among photographs must decide nothing. So the typical size is the median, and a minority
of another order of magnitude is set apart.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

Size = tuple[int, int]

# A minority with this many times fewer or more pixels than most is more likely a mistake than meant.
ODD_FACTOR, ODD_SHARE = 16, 0.25


class Images(NamedTuple):
    """What sizes say: one that stands for all, those to fit, and those few of another kind altogether."""

    typical: Size
    ordinary: tuple[Size, ...]
    odd: tuple[Size, ...]

    @property
    def shortest(self) -> int:
        """The shortest side of the ordinary images."""
        return min(min(size) for size in self.ordinary)

    @property
    def largest(self) -> Size:
        """The size with the most pixels."""
        return max((*self.ordinary, *self.odd), key=math.prod)


def look_at(seen: Sequence[Size]) -> Images:
    """Sort sizes (height, width) into the typical, the ordinary and the odd.

    >>> look_at([(100, 100)] * 98 + [(90, 100), (9, 9)])
    Images(typical=(100, 100), ordinary=((90, 100), (100, 100)), odd=((9, 9),))
    """
    typical = sorted(seen, key=math.prod)[len(seen) // 2]
    odd = [size for size in seen if not 1 / ODD_FACTOR <= math.prod(size) / math.prod(typical) <= ODD_FACTOR]
    if len(odd) > ODD_SHARE * len(seen):
        odd = []
    return Images(typical, tuple(sorted({*seen} - {*odd})), tuple(odd))
