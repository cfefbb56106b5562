"""Rules that bring quantised products to the dtypes that an instruction set wants.

They are for programs that register them (``register_qnn_legalize``). ``relay.build`` needs none:
its kernels take all dtypes, and what dot products of the CPU want is done when weights are packed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relay.expr import const
from tilesmith.relay.op.view import find_function, rank_of
from tilesmith.relay.qnn.op.canonicalizations import create_integer_lookup_op
from tilesmith.relay.qnn.op.elementwise import FUNCTIONS
from tilesmith.relay.qnn.op.op import register_qnn_legalize
from tilesmith.relay.qnn.op.parameters import along, constant_of
from tilesmith.support.errors import TypeMismatchError
from tilesmith.target import Target
from tilesmith.target.codegen import target_has_features

__all__ = [
    "get_scalar_from_constant", "hardswish_func", "helper_align_up",
    "helper_change_dtypes_to_be_same", "helper_change_dtypes_to_int8",
    "helper_change_dtypes_to_uint8", "helper_change_dtypes_to_uint8_int8",
    "helper_no_fast_int8_hw_legalization", "is_fast_int8_on_intel", "legalize_qnn_conv2d",
    "legalize_qnn_conv2d_transpose", "legalize_qnn_dense", "qnn_conv2d_legalize",
    "qnn_conv2d_transpose_legalize", "qnn_dense_legalize", "register_qnn_unary_op_legalize",
]  # fmt: skip

OUT_CHANNEL_VECTOR_LENGTH, IN_CHANNEL_VECTOR_LENGTH = 16, 4
"""Sums and products that one dot product instruction of 512 bits works on."""


def hardswish_func(x: numpy.ndarray) -> numpy.ndarray:
    """Return ``x * clip(x + 3, 0, 6) / 6`` of an array."""
    found: numpy.ndarray = FUNCTIONS["hardswish"][0](numpy.asarray(x))
    return found


def register_qnn_unary_op_legalize(
    op_name: str, floating_point_func: Callable[[numpy.ndarray], numpy.ndarray]
) -> Any:
    """Register a look-up in a table of a function of arrays in place of an operator."""

    def rule(attrs: Any, inputs: Any, types: Any) -> Any:
        dtype = str(types[0].dtype)
        return create_integer_lookup_op(
            inputs[0], floating_point_func, inputs[1], inputs[2], inputs[3], inputs[4],
            in_dtype=dtype, out_dtype=str(types[-1].dtype),
        )  # fmt: skip

    return register_qnn_legalize(op_name, rule)


def get_scalar_from_constant(expr: Any) -> int | float:
    """Return the number that a constant of one element holds."""
    value = constant_of(expr)
    if value is None or value.size != 1:
        raise TypeMismatchError(f"a constant of one element is wanted, got {expr!r}")
    found: int | float = value.reshape(()).item()
    return found


def helper_align_up(value: int, aligner: int) -> int:
    """Return the least multiple of ``aligner`` that is not less than a number."""
    return -(-value // aligner) * aligner


def is_fast_int8_on_intel() -> bool:
    """Return whether the current target has 512-bit instructions for bytes."""
    target = Target.current(allow_none=True) or Target("llvm")
    return any(target_has_features(one, target) for one in ("avx512bw", "avx512vnni"))


def helper_no_fast_int8_hw_legalization(
    attrs: Any, inputs: Any, types: Any, relay_op: Callable[..., Any]
) -> Any:
    """Return a product of 16-bit integers without their zero points: ``relay_op(data, kernel,
    **attributes)`` is a convolution or a dense product.
    """
    data, kernel, in_point, kernel_point = inputs[:4]
    layout = attrs.get("kernel_layout")
    channel = layout.index("O") if layout else 0
    cast, subtract = find_function("cast"), find_function("subtract")

    def moved(expr: Any, point: Any, axis: int) -> Any:
        value = constant_of(point)
        if value is None:
            raise TypeMismatchError("the zero points have to be constants here")
        spread = along(value.astype("int16"), rank_of(expr), axis)
        return subtract(cast(expr, "int16"), const(spread, "int16"))

    known = {key: value for key, value in dict(attrs.items()).items() if value is not None}
    return relay_op(moved(data, in_point, -1), moved(kernel, kernel_point, channel), **known)


def _shifted(expr: Any, point: Any, dtype: str, wanted: str) -> tuple[Any, Any]:
    """Return a tensor and its zero point in the other 8-bit dtype, for the same numbers."""
    if dtype == wanted:
        return expr, point
    offset = 128 if wanted == "uint8" else -128
    wide = find_function("add")(find_function("cast")(expr, "int32"), const(offset, "int32"))
    value = constant_of(point)
    moved = (
        const((value + offset).astype("int32"))
        if value is not None
        else find_function("add")(point, const(offset, "int32"))
    )
    return find_function("cast")(wide, wanted), moved


def _with_dtypes(attrs: Any, inputs: Any, types: Any, wanted: tuple[str, str], op: Any) -> Any:
    found = [str(one.dtype) for one in types[:2]]
    if tuple(found) == wanted:
        return None
    data, in_point = _shifted(inputs[0], inputs[2], found[0], wanted[0])
    kernel, kernel_point = _shifted(inputs[1], inputs[3], found[1], wanted[1])
    known = {key: value for key, value in dict(attrs.items()).items() if value is not None}
    return op(data, kernel, in_point, kernel_point, *inputs[4:6], **known)


def helper_change_dtypes_to_uint8_int8(
    attrs: Any, inputs: Any, types: Any, relay_op: Callable[..., Any]
) -> Any:
    """Return the same product of uint8 data and an int8 kernel; None if it is that already."""
    return _with_dtypes(attrs, inputs, types, ("uint8", "int8"), relay_op)


def helper_change_dtypes_to_int8(
    attrs: Any, inputs: Any, types: Any, relay_op: Callable[..., Any]
) -> Any:
    """Return the same product with both in int8; None if they are that already."""
    return _with_dtypes(attrs, inputs, types, ("int8", "int8"), relay_op)


def helper_change_dtypes_to_uint8(
    attrs: Any, inputs: Any, types: Any, relay_op: Callable[..., Any]
) -> Any:
    """Return the same product with both in uint8; None if they are that already."""
    return _with_dtypes(attrs, inputs, types, ("uint8", "uint8"), relay_op)


def helper_change_dtypes_to_be_same(
    attrs: Any, inputs: Any, types: Any, relay_op: Callable[..., Any]
) -> Any:
    """Return the same product with the data in the kernel's dtype; None if it is that already."""
    kernel = str(types[1].dtype)
    return _with_dtypes(attrs, inputs, types, (kernel, kernel), relay_op)


def _no_change(attrs: Any, inputs: Any, types: Any) -> None:
    """Keep the call: kernels take all dtypes here."""


qnn_conv2d_legalize = legalize_qnn_conv2d = _no_change
qnn_conv2d_transpose_legalize = legalize_qnn_conv2d_transpose = _no_change
qnn_dense_legalize = legalize_qnn_dense = _no_change
