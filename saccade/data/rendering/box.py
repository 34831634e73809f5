"""A rectangle of whole pixels."""

from typing import NamedTuple


class Box(NamedTuple):
    """Pixels left, top, right, bottom; right and bottom exclusive."""

    left: int
    top: int
    right: int
    bottom: int

    def near(self, other: "Box", margin_px: int) -> bool:
        """Whether less than `margin_px` lie between two boxes, or they overlap."""
        across = self.left < other.right + margin_px and other.left < self.right + margin_px
        return across and self.top < other.bottom + margin_px and other.top < self.bottom + margin_px
