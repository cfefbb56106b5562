"""Static operators whose results have sizes that the program computes: a reshaped tensor of unknown
sizes, a range between computed bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import Op
from tilesmith.relax import op as relax
from tilesmith.relax.expr import Constant, PrimValue, known_struct_info
from tilesmith.relax.struct_info import ShapeExpr, TensorStructInfo
from tilesmith.relay.op.dyn.declaration import Place
from tilesmith.relay.op.dyn.shapes import numbers, reshaped
from tilesmith.relay.op.view import SizesAtRunTime, static_info
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.unknown import Any as AnySize


class _Reshape:
    """`reshape` of a tensor whose sizes depend on data: what -1 and 0 stand for is computed."""

    places: tuple[int, ...] | None = None

    def is_static(self, args: Sequence[Any]) -> bool:
        """Return whether the sizes of the tensor are known, if only as variables."""
        return isinstance(getattr(known_struct_info(args[0]), "shape", None), ShapeExpr)

    def infer(self, call: Any) -> Any:
        """Return what is known about the result."""
        return static_info(call)

    def emit(self, builder: Any, attrs: Any, args: Sequence[Any]) -> Any:
        """Return relax's expression; what it is made of is added to the builder."""
        codes = list(attrs.newshape)
        if not all(isinstance(code, int) and code >= -1 for code in codes):
            raise UnsupportedError(
                f"reshape to {tuple(codes)} needs a tensor of known shape",
                notes=("0 and -1 are understood: give the other sizes as numbers",),
            )
        return reshaped(Place(builder), attrs, args[0], numbers(*codes))


class _Range:
    """`arange` between bounds that the program computes."""

    places: tuple[int, ...] | None = None

    def is_static(self, args: Sequence[Any]) -> bool:
        """Return whether the bounds are constants."""
        return all(isinstance(one, Constant) for one in args)

    def infer(self, call: Any) -> Any:
        """Return what is known about the result."""
        if self.is_static(call.args):
            return static_info(call)
        return TensorStructInfo([AnySize("size", "int64")], call.attrs.dtype)

    def emit(self, builder: Any, attrs: Any, args: Sequence[Any]) -> Any:
        """Return relax's expression; what it is made of is added to the builder."""
        start, stop, step = [relax.astype(one, "float64") for one in args]
        count = relax.ceil(relax.divide(relax.subtract(stop, start), step))
        count = relax.reshape(relax.maximum(relax.astype(count, "int64"), numbers(0)), [1])
        (size,) = Place(builder).sizes(count, "size")
        places = relax.arange(0, PrimValue(size), 1, attrs.dtype)
        first, distance = [relax.astype(args[place], attrs.dtype) for place in (0, 2)]
        return relax.add(relax.multiply(places, distance), first)


def _open(name: str, at: SizesAtRunTime) -> None:
    view: Any = Op.get(name).spec
    view.at_run_time = at
    view.infer = at.infer


_open("reshape", _Reshape())
_open("arange", _Range())
