"""Rules for all targets: powers with small constant exponents."""

from __future__ import annotations

from tilesmith.ir import Broadcast, Call, FloatImm, IntImm, PrimExpr
from tilesmith.ir import operators as ops
from tilesmith.tir.transform.intrinsics.lets import Formula

__all__ = ["GENERIC_RULES"]

MAX_MULTIPLIED = 16  # larger exponents lose more digits by multiplying than a library would


def _pow(call: Call) -> PrimExpr | None:
    """Lower ``x ** 3`` to multiplications. ``x ** 0.5`` does not become a square root: the two
    differ for minus infinity and minus zero."""
    exponent = call.args[1]
    if isinstance(exponent, Broadcast):
        exponent = exponent.value
    if not isinstance(exponent, (IntImm, FloatImm)):
        return None
    power, dtype = exponent.value, call.dtype
    if not 0 <= power <= MAX_MULTIPLIED or power != int(power):  # NaN is not in the range
        return None
    f = Formula(dtype)
    if power == 0:
        return ops.const(1, dtype)
    square, left = f.name(call.args[0], "x"), int(power)
    result: PrimExpr | None = None
    while left:
        if left & 1:
            result = square if result is None else f.name(result * square, "power")
        left >>= 1
        if left:
            square = f.name(square * square, "square")
    assert result is not None
    return f.result(result)


GENERIC_RULES = {"tir.pow": _pow}
"""Rules by operator name."""
