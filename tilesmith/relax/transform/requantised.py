"""Quantises what products of integers give without a division: a part of ComputeInIntegers.

    y = R.multiply(n, f)                              y = R.multiply(n, f / s)
    z = R.add(y, R.dequantize(q, t, q0))      →       z = R.add(y, R.dequantize(q, t / s, q0))
    b = R.quantize(z, s, b0)                          b = bytes of R.round(limited z), + b0

The scale of the result is part of the scales that are there already, so that a value is rounded
once less before it becomes an integer. It is limited before it is rounded, and converted to an
integer as it is rounded, which is one instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from tilesmith.relax import op as operators
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Call, Constant, const, known_struct_info

__all__ = ["Requantisation"]

_DEEPEST = 8
_SMALL = ("int8", "uint8")


class Requantisation(NamedTuple):
    """Emits values of another scale.

    ``value`` gives what a variable is bound to, ``data`` the bytes that it was dequantised from.
    ``is_sum`` says whether a value is a converted sum of products, with its bias or without, and
    ``is_shared`` whether there are several readers of it.
    """

    builder: BlockBuilder
    value: Callable[[Any], Any]
    data: Callable[[Any], Any]
    is_sum: Callable[[Any], bool]
    is_shared: Callable[[Any], bool]

    def quantised(self, expr: Any, scale: Any, point: int, dtype: str) -> Any:
        """Return ``quantize(expr, scale, point)``; None if no scale of ``expr`` can take in the
        division.
        """
        if dtype not in _SMALL or not 0 < float(scale) < numpy.inf:
            return None
        if isinstance(self.value(expr), Call) and self.data(expr) is not None:
            return None  # bytes of another scale: there are no products
        divided = self._divided(expr, float(scale), 0)
        if divided is None:
            return None
        # arguments of one element, not attributes: so layers that differ in them share a kernel
        low, high = [const(numpy.array([one - point], "float32")) for one in _limits(dtype)]
        limited = self.builder.emit(operators.minimum(self.builder.emit(divided), high))
        limited = self.builder.emit(operators.maximum(limited, low))
        rounded = self.builder.emit(operators.round(limited))
        whole = self.builder.emit(operators.astype(rounded, "int32"))
        moved = operators.add(whole, const(numpy.array([point], "int32")))
        return operators.astype(self.builder.emit(moved), dtype)

    def _divided(self, expr: Any, scale: float, depth: int) -> Any:
        """Return ``expr / scale`` as a call, None if that needs a division."""
        call = self.value(expr)
        if not isinstance(call, Call) or depth > _DEEPEST:
            return None
        found = self.data(expr)
        if found is not None:
            divided = const(numpy.float32(float(found.scale) / scale))
            info: Any = known_struct_info(call.args[2])
            kind = str(info.dtype)
            return operators.dequantize(
                found.data, divided, const(found.point, kind), -1, "float32"
            )
        if self.is_shared(expr):
            return None  # whoever else reads it needs its own scale
        if call.op is operators.multiply.op:
            real, factor = call.args
            if not isinstance(factor, Constant) or not self.is_sum(self.value(real)):
                return None
            values = numpy.asarray(factor.data).astype("float64") / scale
            return operators.multiply(real, const(values.astype("float32")))
        parts = call.args
        if call.op not in (operators.nn.relu.op, operators.add.op):
            return None
        made = [self._divided(one, scale, depth + 1) for one in parts]
        if any(one is None for one in made):
            return None
        return Call(call.op, [self.builder.emit(one) for one in made], call.attrs)


def _limits(dtype: str) -> tuple[int, int]:
    limits = numpy.iinfo(dtype)
    return limits.min, limits.max
