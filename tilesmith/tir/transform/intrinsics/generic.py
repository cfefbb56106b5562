"""Rules for all targets: powers with small constant exponents, rounding to tf32."""

from __future__ import annotations

from tilesmith.ir import Broadcast, Call, FloatImm, IntImm, PrimExpr, Select
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import reinterpret
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.transform.intrinsics.lets import Formula

__all__ = ["GENERIC_RULES", "ROUNDING_RULES"]

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


def _round_to_tf32(call: Call) -> PrimExpr:
    """Lower the rounding to arithmetic on bits: half of the last bit that stays is added to the
    magnitude."""
    f = Formula(call.dtype)
    x = f.name(call.args[0], "x")
    whole = DataType("uint32").with_lanes(call.dtype.lanes)
    bits = reinterpret(whole, x)
    rounded = (bits + ops.const(0x1000, whole)) & ops.const(0xFFFFE000, whole)
    return f.result(Select(x.equal(x), reinterpret(call.dtype, rounded), x))


GENERIC_RULES = {"tir.pow": _pow}
"""Rules by operator name."""

ROUNDING_RULES = {"tir.round_to_tf32": _round_to_tf32}
"""Those of all targets but CUDA, which has an instruction."""
