"""The words of hybrid script that are calls: loops, casts, sizes, limits.

Each function takes the name that was called and the arguments; a mistake in them is a
TypeMismatchError, to which the parser adds the place.
"""

from __future__ import annotations

import builtins
from typing import Any

from tilesmith.ir import IntImm, PrimExpr, convert, intrinsics
from tilesmith.ir.operators import cast
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TypeMismatchError
from tilesmith.target import Target
from tilesmith.target.gpu_machine import max_threads_per_block
from tilesmith.te.tensor import Tensor
from tilesmith.tir import op as tensor_ops
from tilesmith.tir.expr import IterVar
from tilesmith.tir.ranges import extent_between
from tilesmith.tir.stmt import ForKind

__all__ = [
    "CASTS", "LOOP_INTRIN", "MATH", "bind", "cast_to", "ceil_div", "inf", "len", "likely",
    "loop_range", "math", "max_num_threads", "ninf",
]  # fmt: skip

LOOP_INTRIN = {
    "range": ForKind.SERIAL,
    "serial": ForKind.SERIAL,
    "unroll": ForKind.UNROLLED,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
    "const_range": (ForKind.UNROLLED,),
}
"""The kind of each loop; one in a tuple is written out while the script is parsed."""

CASTS = frozenset(
    [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    + ["float16", "float32", "float64"]
)

MATH = frozenset(
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan "
    "asinh acosh atanh sigmoid erf floor ceil trunc round nearbyint abs fabs power pow popcount "
    "min max isnan isinf isfinite fmod atan2 hypot copysign".split()
)
"""Functions of scalars, under the names of ``tir``."""


def _count(func_id: str, args: Any, *counts: int) -> None:
    given = builtins.len(args)
    if given not in counts:
        wanted = " or ".join([str(count) for count in counts])
        raise TypeMismatchError(f"{func_id} takes {wanted} arguments, got {given}")


def loop_range(func_id: str, args: Any) -> tuple[Any, Any, Any]:
    """Return the first value, the number of iterations and the step of a loop."""
    _count(func_id, args, 1, 2, 3)
    low, stop = (0, args[0]) if builtins.len(args) == 1 else args[:2]
    step = _number(func_id, args[2]) if builtins.len(args) == 3 else 1
    if step == 0:
        raise TypeMismatchError(f"the step of {func_id} is 0")
    for end in (low, stop):
        if isinstance(end, float) or not convert(end).dtype.is_integer:
            raise TypeMismatchError(f"the ends of {func_id} are integers, got {end}")
    if isinstance(low, int) and isinstance(stop, int):
        return low, builtins.len(range(low, stop, step)), step
    extent: Any = extent_between(convert(low), convert(stop))
    if step != 1:
        size = -extent if step < 0 else extent
        extent = (size + (abs(step) - 1)) // abs(step)
    return low, extent, step


def _number(func_id: str, value: Any) -> int:
    if isinstance(value, IntImm):
        return value.value
    if not isinstance(value, int):
        raise TypeMismatchError(f"{func_id} needs a number that is known, got {value}")
    return value


def bind(func_id: str, args: Any) -> tuple[IterVar, Any, Any, None]:
    """Return a thread axis, the first value and the number of its threads: ``bind("threadIdx.x",
    32)``.
    """
    _count(func_id, args, 2)
    tag, extent = args
    if not isinstance(tag, str):
        raise TypeMismatchError(f"bind takes the tag of a thread axis, got {tag}")
    thread = IterVar((0, convert(extent)), tag, IterVar.ThreadIndex, tag)
    return thread, 0, extent, None


def math(func_id: str, args: Any) -> PrimExpr:
    """Return a function of scalars, such as ``exp``."""
    name = {"pow": "power"}.get(func_id, func_id)
    found: Any = getattr(intrinsics, name, None) or getattr(tensor_ops, name)
    return found(*[convert(one) for one in args])  # type: ignore[no-any-return]


def cast_to(func_id: str, args: Any) -> PrimExpr:
    """Return a value as another dtype: ``float32(x)``."""
    _count(func_id, args, 1)
    return cast(DataType(func_id), convert(args[0]))


def len(func_id: str, args: Any) -> Any:
    """Return the number of elements of a tuple, or the first size of a tensor."""
    _count(func_id, args, 1)
    if isinstance(args[0], Tensor):
        return args[0].shape[0]
    if not isinstance(args[0], (list, tuple)):
        raise TypeMismatchError(f"len takes a tensor or a tuple, got {args[0]}")
    return builtins.len(args[0])


def ceil_div(func_id: str, args: Any) -> Any:
    """Return the quotient of two integers, rounded up."""
    _count(func_id, args, 2)
    a, b = args
    return (a + b - 1) // b


def likely(func_id: str, args: Any) -> PrimExpr:
    """Return a condition that mostly holds."""
    _count(func_id, args, 1)
    return intrinsics.likely(convert(args[0]))


def max_num_threads(func_id: str, args: Any) -> int:
    """Return how many threads a block of the current target may have."""
    _count(func_id, args, 0, 1)
    allow_none = bool(_number(func_id, args[0])) if args else True
    target = Target.current(allow_none=True)
    if target is None:
        if not allow_none:
            raise TypeMismatchError(
                "max_num_threads needs a target", notes=("write: with target: …",)
            )
        return 1
    return max_threads_per_block(target) or 1


def inf(func_id: str, args: Any) -> PrimExpr:
    """Return the largest value of a dtype: infinity for floats."""
    return _limit(func_id, args, 1)


def ninf(func_id: str, args: Any) -> PrimExpr:
    """Return the smallest value of a dtype: minus infinity for floats."""
    return _limit(func_id, args, -1)


def _limit(func_id: str, args: Any, sign: int) -> PrimExpr:
    _count(func_id, args, 1)
    dtype = DataType(getattr(args[0], "value", args[0]))
    if dtype.is_float:
        return cast(dtype, convert(sign * float("inf")))
    return intrinsics.max_value(dtype) if sign > 0 else intrinsics.min_value(dtype)
