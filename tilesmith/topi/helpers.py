"""Helpers that users' own computes call: constants, layouts, sizes, slices by expressions."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any

import numpy

from tilesmith import tir
from tilesmith.ir import FloatImm, PrimExpr, convert
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError
from tilesmith.target import Target
from tilesmith.te import Tensor
from tilesmith.tir.analysis import undefined_vars
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import Shape, equal_const_int, get_const_tuple, product, simplify

__all__ = [
    "InvalidShapeError", "ceil_div", "const_matrix", "const_vector", "get_const_float",
    "get_float_tuple", "get_max_power2_factor", "get_shape", "is_dynamic_shape", "is_empty_shape",
    "is_target", "make_idx", "nchw_pack_layout", "nchw_xc_layout", "ncw_pack_layout",
    "ncw_xc_layout", "prod", "swap", "within_index",
]  # fmt: skip

InvalidShapeError = ShapeError


def _is_packed(layout_info: str, plain: str) -> bool:
    return layout_info.startswith(plain) and {"n", "c"} <= set(layout_info)


def _is_blocked(layout_info: str, plain: str) -> bool:
    rest = layout_info.removeprefix(plain)
    return layout_info.startswith(plain) and rest.endswith("c") and rest[:-1].isnumeric()


def nchw_pack_layout(layout_info: str) -> bool:
    """Return whether a layout is NCHW with blocks of both the batch and the channels: NCHW4n16c."""
    return _is_packed(layout_info, "NCHW")


def nchw_xc_layout(layout_info: str) -> bool:
    """Return whether a layout is NCHW with blocks of channels: NCHW16c."""
    return _is_blocked(layout_info, "NCHW")


def ncw_pack_layout(layout_info: str) -> bool:
    """Return whether a layout is NCW with blocks of both the batch and the channels: NCW4n16c."""
    return _is_packed(layout_info, "NCW")


def ncw_xc_layout(layout_info: str) -> bool:
    """Return whether a layout is NCW with blocks of channels: NCW16c."""
    return _is_blocked(layout_info, "NCW")


def prod(x: Shape) -> PrimExpr:
    """Return the product of sizes, 1 of none."""
    return product(x)


def get_const_float(expr: Any) -> float:
    """Return the value of a constant floating-point expression."""
    simple = simplify(expr)
    if isinstance(simple, (float, FloatImm)):
        return float(simple if isinstance(simple, float) else simple.value)
    raise OpAttributeInvalid(f"a constant float is needed, got {expr}")


def get_float_tuple(in_tuple: Sequence[Any]) -> tuple[float, ...]:
    """Return the values of constant floating-point expressions."""
    return tuple([get_const_float(value) for value in in_tuple])


def _table(
    values: numpy.ndarray[Any, Any], rank: int, name: str, attrs: dict[str, Any] | None = None
) -> Tensor:
    """Return a small array of constants, from which comparisons choose."""
    if values.ndim != rank or values.size == 0:
        raise ShapeError(f"{name}: an array of {rank} dimensions, not empty, is needed")
    dtype = DataType(str(values.dtype))
    flat = [op.cast(dtype, convert(value)) for value in values.reshape(-1).tolist()]

    def element(*i: Any) -> PrimExpr:
        place = op.cast("int32", i[0])
        for index, size in zip(i[1:], values.shape[1:]):
            place = place * size + op.cast("int32", index)
        chosen = flat[-1]
        for number in range(len(flat) - 2, -1, -1):
            chosen = tir.Select(op.equal(place, convert(number)), flat[number], chosen)
        return chosen

    return compute(values.shape, element, name, attrs=attrs)


def const_vector(vector: Any, name: str = "const_vector") -> Tensor:
    """Return a vector of constants, given as a numpy array or a list."""
    return _table(numpy.asarray(vector), 1, name)


def const_matrix(
    matrix: Any, name: str = "const_matrix", attrs: dict[str, Any] | None = None
) -> Tensor:
    """Return a matrix of constants, given as a numpy array or lists."""
    return _table(numpy.asarray(matrix), 2, name, attrs)


def get_max_power2_factor(n: int, max_value: int | None = None) -> int:
    """Return the largest power of two that divides a number, and is not above ``max_value``."""
    factor = n & -n
    while max_value is not None and factor > max_value:
        factor //= 2
    return factor


def get_shape(src_shape: Shape, src_layout: Any, dst_layout: Any) -> tuple[Any, ...]:
    """Return the shape that an array has in another layout."""
    if str(src_layout) == str(dst_layout):
        return get_const_tuple(src_shape)
    way = tir.bijective_layout(src_layout, dst_layout)
    if way is None:
        raise UnsupportedError(f"'{src_layout}' cannot be turned into '{dst_layout}'")
    return get_const_tuple(way.forward_shape(list(src_shape)))


def within_index(b: Any, e: Any, s: Any, i: Any) -> PrimExpr:
    """Return whether an index is one of those of a slice: from ``b`` to before ``e`` by ``s``."""
    b, e, s, i = [convert(value) for value in (b, e, s, i)]
    forward = tir.all(op.greater_equal(i, b), op.less(i, e))
    backward = tir.all(op.less_equal(i, b), op.greater(i, e))
    inside = tir.Select(op.less(s, 0), backward, forward)
    return tir.And(inside, op.equal(op.floormod(i - b, s), 0))


def make_idx(b: Any, e: Any, s: Any, z: Any, i: Any) -> PrimExpr:
    """Return the place in a slice (from ``b`` to before ``e`` by ``s``) of an index of an axis of
    ``z`` elements; outside of the slice it is that of the nearer end.
    """
    b, e, s, z, i = [convert(value) for value in (b, e, s, z, i)]
    last = z - 1
    place = op.floordiv(i - b, s)
    before = tir.Select(op.less(s, 0), op.greater(i, b), op.less(i, b))
    after = tir.Select(op.less(s, 0), op.less_equal(i, e), op.greater_equal(i, e))
    return tir.Select(before, convert(0), tir.Select(after, last, place))


def is_empty_shape(shape: Shape) -> bool:
    """Return whether a size is known to be 0."""
    return any(equal_const_int(size, 0) for size in shape)


def is_dynamic_shape(shape: Shape) -> bool:
    """Return whether a size is not a constant."""
    given = [size for size in shape if isinstance(size, PrimExpr)]
    return bool(undefined_vars(given))


def ceil_div(a: Any, b: Any) -> Any:
    """Return the quotient, rounded up."""
    return op.floordiv(convert(a) + (convert(b) - 1), convert(b))


def swap(arr: MutableSequence[Any], axis: int) -> list[Any]:
    """Return a list with an element and the last one exchanged."""
    result = list(arr)
    result[axis], result[-1] = result[-1], result[axis]
    return result


def is_target(names: str | Sequence[str]) -> bool:
    """Return whether the current target has one of these keys."""
    target = Target.current(allow_none=True)
    wanted = {names} if isinstance(names, str) else set(names)
    return target is not None and bool(wanted & set(target.keys))
