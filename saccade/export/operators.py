"""torch operator → ONNX operators, where torch's own exporter has none, knows constants only, or computes too coarsely.

Numbers made of the image's size, such as where the grid lies, are Python's and so of double precision. The exporter
would have them in single precision, and now and then a patch would be a pixel off.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from onnxscript import ir, opset18

op: Any = opset18  # whose signatures know neither traced values nor Python's numbers
DOUBLE, WHOLE = ir.DataType.DOUBLE, ir.DataType.INT64


def sort(self: Any, *, stable: bool = False, dim: int = -1, descending: bool = False) -> Any:
    """TopK of all: it puts the lower index first among equals, so it is a stable sort."""
    size = op.Gather(op.Shape(self), op.Constant(value_ints=[dim]))
    return op.TopK(self, size, axis=dim, largest=int(descending), sorted=1)


def remainder(self: Any, other: Any) -> Any:
    """Of whole numbers."""
    return op.Mod(self, op.CastLike(other, self))


def double(self: Any) -> Any:
    """A number, traced or not, in double precision."""
    if isinstance(self, int | float):
        return op.Constant(value=ir.tensor(float(self), dtype=DOUBLE))
    return op.Cast(self, to=DOUBLE)


def floor(self: Any) -> Any:
    """The whole number below."""
    return op.Cast(op.Floor(double(self)), to=WHOLE)


def divide(self: Any, other: Any) -> Any:
    """Of sizes."""
    return op.Div(double(self), double(other))


def floor_divide(self: Any, other: Any) -> Any:
    """Rounded down, where ONNX rounds towards zero."""
    return floor(divide(self, other))


def whole_or_double(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Whole numbers stay whole; with anything else they are in double precision."""

    def apply(self: Any, other: Any) -> Any:
        if all(isinstance(value, int) or getattr(value, "dtype", None) == WHOLE for value in (self, other)):
            return combine(self, other)
        return combine(double(self), double(other))

    return apply


TRANSLATIONS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.sort.stable: sort,
    torch.ops.aten.remainder.Scalar: remainder,
    torch.sym_float: double,
    math.floor: floor,
    operator.truediv: divide,
    operator.floordiv: floor_divide,
    operator.add: whole_or_double(op.Add),
    operator.mul: whole_or_double(op.Mul),
}
