"""Applies Python's operators to scalar expressions: matches dtypes and folds cheap identities.

They fold constants (with wrap-around), ``x + 0``, ``x - 0``, ``x * 1``, integer ``x * 0``,
``x // 1``, ``x % 1``; everything else is left to ``arith``. Division by zero is never folded:
indices of empty tensors contain it, in loops that never run. Vectors divided by zero are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilesmith.ir import expr as ir
from tilesmith.ir.rounding import ROUNDED, held, is_exact
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import DivisionByZeroError, TypeMismatchError
from tilesmith.support.knobs import knobs

__all__ = [
    "add", "all_of", "ambiguous_division", "any_of", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "cast", "const", "divide", "equal", "floordiv", "floormod", "greater",
    "greater_equal", "held", "is_const", "is_signed", "less", "less_equal", "literal",
    "logical_and", "logical_not", "logical_or", "match_to_expression", "match_types", "maximum",
    "minimum", "moved", "multiply", "negate", "not_equal", "number_of_dtype", "shift_left",
    "shift_right", "subtract", "truncdiv", "truncmod", "truth_of_equality", "wrap",
]  # fmt: skip


def wrap(value: int, dtype: DataType) -> int:
    """Reduce an integer to the range of an integer dtype, modulo two to the number of its bits."""
    if dtype.is_bool:
        return int(value != 0)
    bits = dtype.bits
    value &= (1 << bits) - 1
    if dtype.is_int and value >> (bits - 1):
        value -= 1 << bits
    return value


_SMALL: dict[tuple[str, int], ir.IntImm] = {}


def const(value: Any, dtype: Any = None, span: Any = None) -> ir.PrimExpr:
    """Return a constant of a dtype; a ``Broadcast`` for a vector dtype. Small integers are
    interned.
    """
    if value.__class__ is int and isinstance(dtype, str):
        known = _SMALL.get((dtype, value))
        if known is not None:
            return known
    elif isinstance(value, ir.PrimExpr):
        value = value.value  # type: ignore[attr-defined]
    if dtype is None:
        return ir.as_prim_expr(value)
    dtype = DataType(dtype)
    if dtype.lanes > 1:
        return ir.Broadcast(const(value, dtype.element), dtype.lanes)
    if dtype.is_float:
        return ir.FloatImm(dtype, value)
    if dtype.is_handle:
        return ir.Call("handle", "tir.reinterpret", (ir.IntImm("uint64", int(value)),))
    value = wrap(int(value), dtype)
    if -16 <= value <= 1024:
        found = _SMALL.get((dtype, value))
        if found is None:
            found = _SMALL[(dtype, value)] = ir.IntImm(dtype, value)
        return found
    return ir.IntImm(dtype, value)


def literal(value: Any, dtype: Any = None, span: Any = None) -> ir.PrimExpr:
    """Return a constant that a user asks for (``tir.const``); it must fit into its dtype.

    Without ``dtype`` a numpy number keeps its own. Raises TypeMismatchError if it does not fit.
    """
    if dtype is None and not isinstance(value, ir.PrimExpr) and hasattr(value, "dtype"):
        dtype = str(value.dtype)
    if dtype is not None and isinstance(value, int):
        wanted = DataType(dtype)
        if wanted.is_integer and wrap(value, wanted.element) != value:
            raise TypeMismatchError(f"{value} does not fit into {wanted}")
    return const(value, dtype, span)


def is_const(expr: Any, value: Any = None) -> bool:
    """True if an expression is a constant, or a ``Broadcast`` of one (with that value, when one is
    given).
    """
    kind = expr.__class__  # ``isinstance`` of nodes takes several times as long
    if kind is ir.Broadcast:
        expr = expr.value
        kind = expr.__class__
    if kind is not ir.IntImm and kind is not ir.FloatImm:
        return False
    return value is None or expr.value == value


def cast(dtype: Any, value: Any) -> ir.PrimExpr:
    """Convert ``value`` to ``dtype``; constants fold, and a value that has the dtype is returned as
    it is.
    """
    target = DataType(dtype)
    given: ir.PrimExpr = value if isinstance(value, ir.PrimExpr) else ir.convert(value)
    if given.dtype is target:
        return given
    if target.lanes != given.dtype.lanes and given.dtype.lanes == 1:
        return ir.Broadcast(cast(target.element, given), target.lanes)
    if isinstance(given, ir.IntImm) and not target.is_handle:
        number = held(given.value, target) if target.is_float else given.value
        if number is not None:
            return const(number, target)
    elif isinstance(given, ir.FloatImm):
        folded = _cast_float(held(given.value, given.dtype), given.dtype, target)
        if folded is not None:
            return folded
    if isinstance(given, ir.Broadcast):
        return ir.Broadcast(cast(target.element, given.value), target.lanes)
    return ir.Cast(target, given)


def _cast_float(value: float | None, source: DataType, dtype: DataType) -> ir.PrimExpr | None:
    """Return the constant that a cast of a float results in, or None if it is not known now."""
    if value is None:
        return None
    if dtype.is_float:
        if source.bits <= dtype.bits:
            folded = held(value, dtype)
        else:
            folded = value if value == 0 or is_exact(value, dtype) else None
        return None if folded is None else ir.FloatImm(dtype, folded)
    if dtype.is_bool:
        return const(value != 0, dtype)
    if math.isfinite(value) and dtype.is_int and wrap(int(value), dtype) == int(value):
        return const(int(value), dtype)
    return None


def match_types(a: Any, b: Any) -> tuple[ir.PrimExpr, ir.PrimExpr]:
    """Convert both operands to one dtype: a Python number is an int32 (int64 where it needs one), a
    float32 or a bool, scalars are broadcast to vectors, an integer meets a float as that float, of
    two integers (two floats) the wider one wins.
    """
    if not isinstance(a, ir.PrimExpr):
        a = _number_beside(a, b)
    if not isinstance(b, ir.PrimExpr):
        b = _number_beside(b, a)
    if a.dtype is b.dtype:
        return a, b
    if a.dtype.lanes != b.dtype.lanes:
        if a.dtype.lanes == 1:
            a = ir.Broadcast(a, b.dtype.lanes)
        elif b.dtype.lanes == 1:
            b = ir.Broadcast(b, a.dtype.lanes)
        else:
            raise TypeMismatchError(
                f"vectors of {a.dtype.lanes} and {b.dtype.lanes} lanes do not match"
            )
        if a.dtype is b.dtype:
            return a, b
    target = _common_dtype(a.dtype, b.dtype)
    return cast(target, a), cast(target, b)


def _number_beside(value: Any, other: Any) -> ir.PrimExpr:
    """Return a Python number as a constant: with the dtype of the other operand where matching them
    leads there, else with its own.
    """
    if not isinstance(other, ir.PrimExpr) or not isinstance(value, (bool, int, float)):
        return ir.as_prim_expr(value)
    element = other.dtype.element
    if element.bits < 32 and not isinstance(value, bool):
        if isinstance(value, float) or not element.is_float:
            return ir.as_prim_expr(value)
    return number_of_dtype(value, element)


def number_of_dtype(value: Any, dtype: DataType) -> ir.PrimExpr:
    """Return a Python number as a constant of a dtype, with its own dtype if it does not fit."""
    if isinstance(value, float) and not dtype.is_float:
        return ir.FloatImm("float32", value)
    if dtype.is_bool and value not in (0, 1):
        return ir.as_prim_expr(value)
    if dtype.is_integer and wrap(int(value), dtype) != int(value):
        return ir.as_prim_expr(value)
    if dtype == "float16" and 65504.0 < abs(value) < math.inf:
        return ir.as_prim_expr(value)
    return const(value, dtype)


def match_to_expression(a: Any, b: Any) -> tuple[ir.PrimExpr, ir.PrimExpr]:
    """Match operands as ``match_types``, except that a Python number takes the dtype of the other
    one: what shifts, bitwise operators and comparisons in scripts do.
    """
    left, right = _operand(a), _operand(b)
    if isinstance(left, ir.PrimExpr) and not isinstance(right, ir.PrimExpr):
        right = number_of_dtype(right, left.dtype.element)
    elif isinstance(right, ir.PrimExpr) and not isinstance(left, ir.PrimExpr):
        left = number_of_dtype(left, right.dtype.element)
    return match_types(left, right)


def _operand(value: Any) -> Any:
    """Return a Python number as it is, anything else as an expression."""
    return value if isinstance(value, (bool, int, float)) else ir.as_prim_expr(value)


def _common_dtype(a: DataType, b: DataType) -> DataType:
    if a.is_float and not b.is_float:
        return a
    if b.is_float and not a.is_float:
        return b
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.is_handle or b.is_handle:
        raise TypeMismatchError(f"no common dtype of {a} and {b}")
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    if a.is_float:  # bfloat16 and float16: neither represents all values of the other
        return DataType("float32").with_lanes(a.lanes)
    return a if a.is_uint else b


def _fold(a: Any, b: Any, function: Callable[[Any, Any], Any]) -> ir.PrimExpr | None:
    """Return the constant that the operation on two constants results in, or None."""
    kind = a.__class__
    if kind is not b.__class__:
        return None
    if kind is ir.IntImm:
        return const(function(a.value, b.value), a.dtype)
    if kind is ir.FloatImm:
        if a.dtype == "float64":
            return ir.FloatImm(a.dtype, function(a.value, b.value))
        round_to = ROUNDED.get(a.dtype)
        value = None if round_to is None else _fold_rounded(function, round_to, a.value, b.value)
        return None if value is None else ir.FloatImm(a.dtype, value)
    return None


def _fold_rounded(
    function: Callable[[Any, Any], Any],
    round_to: Callable[[float], float | None],
    a: float,
    b: float,
) -> float | None:
    """Return the result of ``function`` on two floats, which are rounded as run time would.

    It computes in double, which has more than twice as many digits, so that rounding twice gives
    the same result as rounding once.
    """
    left, right = round_to(a), round_to(b)
    if left is None or right is None:
        return None
    try:
        return round_to(function(left, right))
    except ZeroDivisionError:  # the divisor is too small for the dtype
        return None


def add(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a + b``."""
    left, right = match_types(a, b)
    folded = _fold(left, right, lambda x, y: x + y)
    if folded is not None:
        return folded
    if is_const(right, 0) and _adds_nothing(right):
        return left
    return right if is_const(left, 0) and _adds_nothing(left) else ir.Add(left, right)


def _adds_nothing(zero: Any) -> bool:
    """True if adding this value never changes the other: for floats ``x + -0.0`` is x for each x,
    while ``-0.0 + 0.0`` is 0.0.
    """
    number: Any = zero.value if isinstance(zero, ir.Broadcast) else zero
    value = number.value
    return not isinstance(value, float) or math.copysign(1.0, value) < 0


def moved(value: Any, distance: int) -> Any:
    """Return ``value + distance`` in the dtype of an index: no wider, as ``index + 1`` would be."""
    if not isinstance(value, ir.PrimExpr):
        return value + distance
    if distance < 0:
        return subtract(value, const(-distance, value.dtype))
    return add(value, const(distance, value.dtype))


def subtract(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a - b``."""
    left, right = match_types(a, b)
    folded = _fold(left, right, lambda x, y: x - y)
    if folded is not None:
        return folded
    if is_const(right, 0) and (not left.dtype.is_float or not _adds_nothing(right)):
        return left
    return ir.Sub(left, right)


def multiply(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a * b``."""
    left, right = match_types(a, b)
    folded = _fold(left, right, lambda x, y: x * y)
    if folded is not None:
        return folded
    if is_const(right, 1) or (is_const(left, 0) and not left.dtype.is_float):
        return left
    if is_const(left, 1) or (is_const(right, 0) and not right.dtype.is_float):
        return right
    return ir.Mul(left, right)


def negate(a: Any) -> ir.PrimExpr:
    """``-a``; for floats this keeps the sign of zero."""
    a = ir.convert(a)
    if isinstance(a, ir.IntImm):
        return const(-a.value, a.dtype)
    if isinstance(a, ir.FloatImm):
        return ir.FloatImm(a.dtype, -a.value)
    return multiply(a, const(-1, a.dtype))


def divide(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """Return ``a / b``. Signed integers have several divisions: they have to be named."""
    a, b = _operand(a), _operand(b)
    left, right = match_types(a, b)
    if is_signed(a) and is_signed(b):
        raise ambiguous_division(left.dtype)
    if left.dtype.is_integer:
        return truncdiv(left, right)
    if isinstance(right, ir.FloatImm) and right.value != 0.0:
        folded = _fold(left, right, lambda x, y: x / y)
        if folded is not None:
            return folded
    return left if is_const(right, 1) else ir.Div(left, right)


def is_signed(value: Any) -> bool:
    """True for a Python integer and for what has a signed integer dtype."""
    dtype = getattr(value, "dtype", None)
    return isinstance(value, int) if dtype is None else DataType(dtype).is_int


def ambiguous_division(dtype: Any = None) -> TypeMismatchError:
    """Return the error that ``/`` of signed integers raises."""
    of_what = "integers" if dtype is None else f"integers ({dtype})"
    return TypeMismatchError(
        f"`/` of {of_what} is ambiguous; write `//` (rounds down), truncdiv (rounds toward zero) or"
        " indexdiv (of numbers that are not negative)"
    )


def _trunc_divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _integer_division(
    kind: type[ir.BinaryOp], function: Callable[[int, int], int], a: Any, b: Any
) -> ir.PrimExpr:
    left, right = match_types(a, b)
    if not left.dtype.is_integer and not left.dtype.is_bool:
        if kind is ir.FloorDiv:
            return floor_of(ir.Div(left, right))
        raise TypeMismatchError(f"{kind.__name__} needs integers, got {left.dtype}")
    if isinstance(right, ir.Broadcast) and is_const(right, 0):
        raise DivisionByZeroError(
            f"all lanes of {left} are divided by zero",
            notes=("divide by a value that is not zero, or leave the division out",),
        )
    if isinstance(right, ir.IntImm) and right.value != 0:
        folded = _fold(left, right, function)
        if folded is not None:
            return folded
    if is_const(right, 1):
        return left if kind in (ir.FloorDiv, ir.Div) else const(0, left.dtype)
    if is_const(left, 0) and is_const(right) and not is_const(right, 0):
        return left
    return kind(left, right)


def floor_of(value: ir.PrimExpr) -> ir.PrimExpr:
    """Return the largest integer not above a float, as a float."""
    return ir.Call(value.dtype, "tir.floor", (value,))


def floordiv(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a // b``, rounded toward minus infinity."""
    return _integer_division(ir.FloorDiv, lambda x, y: x // y, a, b)


def floormod(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """Return the remainder that goes with ``floordiv``."""
    return _integer_division(ir.FloorMod, lambda x, y: x % y, a, b)


def truncdiv(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a / b`` of integers, rounded toward zero, as in C."""
    return _integer_division(ir.Div, _trunc_divide, a, b)


def truncmod(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """Return the remainder that goes with ``truncdiv``, as in C."""
    return _integer_division(ir.Mod, lambda x, y: x - y * _trunc_divide(x, y), a, b)


def _min_max(
    kind: type[ir.BinaryOp], function: Callable[[Any, Any], Any], a: Any, b: Any
) -> ir.PrimExpr:
    left, right = match_types(a, b)
    if left is right:
        return left
    if isinstance(left, ir.IntImm) and isinstance(right, ir.IntImm):
        return const(function(left.value, right.value), left.dtype)
    if isinstance(left, ir.FloatImm) and isinstance(right, ir.FloatImm):
        if not (math.isnan(left.value) or math.isnan(right.value)):
            return ir.FloatImm(left.dtype, function(left.value, right.value))
    return kind(left, right)


def minimum(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """Return the smaller of two values."""
    return _min_max(ir.Min, min, a, b)


def maximum(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """Return the larger of two values."""
    return _min_max(ir.Max, max, a, b)


def _compare(
    kind: type[ir.CompareOp], function: Callable[[Any, Any], bool], a: Any, b: Any
) -> ir.PrimExpr:
    left, right = match_types(a, b)
    if isinstance(left, ir.IntImm) and isinstance(right, ir.IntImm):
        return const(function(left.value, right.value), "bool")
    if isinstance(left, ir.FloatImm) and isinstance(right, ir.FloatImm):
        a, b = held(left.value, left.dtype), held(right.value, right.dtype)
        if a is not None and b is not None:
            return const(function(a, b), "bool")
    return kind(left, right)


def equal(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a == b``."""
    return _compare(ir.EQ, lambda x, y: x == y, a, b)


def not_equal(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a != b``."""
    return _compare(ir.NE, lambda x, y: x != y, a, b)


def less(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a < b``."""
    return _compare(ir.LT, lambda x, y: x < y, a, b)


def less_equal(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a <= b``."""
    return _compare(ir.LE, lambda x, y: x <= y, a, b)


def greater(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a > b``."""
    return _compare(ir.GT, lambda x, y: x > y, a, b)


def greater_equal(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a >= b``."""
    return _compare(ir.GE, lambda x, y: x >= y, a, b)


def truth_of_equality(comparison: ir.CompareOp) -> bool:
    """True if both sides of an EQ or NE that did not fold are one object.

    With TILESMITH_CHECK_INSIDE this is an error when it is called from inside Tilesmith: library
    code uses ``is``, ``structural_equal`` or ``is_const``.
    """
    if knobs.check_inside:
        _refuse_from_inside()
    return comparison.a is comparison.b


def _refuse_from_inside() -> None:
    import sys

    from tilesmith.support.errors import InternalError

    frame = sys._getframe(3)
    caller = frame.f_globals.get("__name__", "")
    if caller.startswith("tilesmith."):
        raise InternalError(
            f"{caller}:{frame.f_lineno} asks for the truth of an `==` between expressions",
            notes=("say `is`, structural_equal or is_const",),
        )


def logical_and(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a and b`` as an expression."""
    left, right = match_types(a, b)
    for this, other in ((left, right), (right, left)):
        if is_const(this):
            return other if is_const(this, 1) else this
    return ir.And(left, right)


def logical_or(a: Any, b: Any, span: Any = None) -> ir.PrimExpr:
    """``a or b`` as an expression."""
    left, right = match_types(a, b)
    for this, other in ((left, right), (right, left)):
        if is_const(this):
            return this if is_const(this, 1) else other
    return ir.Or(left, right)


def logical_not(a: Any, span: Any = None) -> ir.PrimExpr:
    """``not a`` as an expression."""
    a = ir.convert(a)
    return const(not a.value, "bool") if isinstance(a, ir.IntImm) else ir.Not(a)


def all_of(*conditions: Any, span: Any = None) -> ir.PrimExpr:
    """Return whether all conditions hold, as an expression (``tir.all``)."""
    result = ir.convert(conditions[0]) if conditions else const(True, "bool")
    for condition in conditions[1:]:
        result = logical_and(result, condition)
    return result


def any_of(*conditions: Any, span: Any = None) -> ir.PrimExpr:
    """Return whether some condition holds, as an expression (``tir.any``)."""
    result = ir.convert(conditions[0]) if conditions else const(False, "bool")
    for condition in conditions[1:]:
        result = logical_or(result, condition)
    return result


def _bitwise(name: str, function: Callable[[int, int], int], a: Any, b: Any) -> ir.PrimExpr:
    left, right = match_to_expression(a, b)
    if not (left.dtype.is_integer or left.dtype.is_bool):
        raise TypeMismatchError(f"{name} needs integers, got {left.dtype}")
    if isinstance(left, ir.IntImm) and isinstance(right, ir.IntImm):
        return const(function(left.value, right.value), left.dtype)
    return ir.Call(left.dtype, "tir." + name, (left, right))


def bitwise_and(x: Any, y: Any, span: Any = None) -> ir.PrimExpr:
    """``x & y``."""
    return _bitwise("bitwise_and", lambda a, b: a & b, x, y)


def bitwise_or(x: Any, y: Any, span: Any = None) -> ir.PrimExpr:
    """``x | y``."""
    return _bitwise("bitwise_or", lambda a, b: a | b, x, y)


def bitwise_xor(x: Any, y: Any, span: Any = None) -> ir.PrimExpr:
    """``x ^ y``."""
    return _bitwise("bitwise_xor", lambda a, b: a ^ b, x, y)


def bitwise_not(x: Any, span: Any = None) -> ir.PrimExpr:
    """``~x``."""
    x = ir.convert(x)
    if not (x.dtype.is_integer or x.dtype.is_bool):
        raise TypeMismatchError(f"bitwise_not needs integers, got {x.dtype}")
    if isinstance(x, ir.IntImm):
        return const(~x.value if not x.dtype.is_bool else not x.value, x.dtype)
    return ir.Call(x.dtype, "tir.bitwise_not", (x,))


def _shift(name: str, function: Callable[[int, int], int], a: Any, b: Any) -> ir.PrimExpr:
    left, right = match_to_expression(a, b)
    if not left.dtype.is_integer:
        raise TypeMismatchError(f"{name} needs integers, got {left.dtype}")
    if isinstance(right, ir.IntImm) and not 0 <= right.value < left.dtype.bits:
        raise TypeMismatchError(
            f"{name} of {left.dtype} by {right.value}: it has {left.dtype.bits} bits"
        )
    if is_const(right, 0):
        return left
    if isinstance(left, ir.IntImm) and isinstance(right, ir.IntImm):
        return const(function(left.value, right.value), left.dtype)
    return ir.Call(left.dtype, "tir." + name, (left, right))


def shift_left(x: Any, y: Any, span: Any = None) -> ir.PrimExpr:
    """``x << y``."""
    return _shift("shift_left", lambda a, b: a << b, x, y)


def shift_right(x: Any, y: Any, span: Any = None) -> ir.PrimExpr:
    """``x >> y``; for a signed integer the sign is shifted in."""
    return _shift("shift_right", lambda a, b: a >> b, x, y)
