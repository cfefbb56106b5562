"""``relay.op.tensor``: operators of one or two tensors, element by element, and those that make,
join and describe tensors.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import REQUIRED, Schema, dtype, integer, ints, scalar, text
from tilesmith.relax.expr import Constant, Tuple, as_expr, get_shape_of, known_struct_info
from tilesmith.relax.spec import topi
from tilesmith.relay.op.view import computed, define, function, functions, make_call, same

_LEVEL_1 = (
    "log tan cos cosh sin sinh acos acosh asin asinh atan atanh exp erf sqrt rsqrt sigmoid tanh"
)
_LEVEL_3 = "floor ceil trunc round abs sign negative isnan isfinite isinf"
_LEVEL_4 = "logical_not bitwise_not"
_BINARY_1 = "add subtract multiply divide floor_divide mod floor_mod"
_BINARY_4 = (
    "power logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor equal not_equal "
    "less less_equal greater greater_equal maximum minimum right_shift left_shift"
)

for _level, _names in ((1, _LEVEL_1), (3, _LEVEL_3), (4, _LEVEL_4)):
    for _name in _names.split():
        same(_name, "data", level=_level)
for _level, _names in ((1, _BINARY_1), (4, _BINARY_4)):
    for _name in _names.split():
        same(_name, "lhs:number rhs:number", level=_level)
same("trunc_mod", "lhs:number rhs:number", record="mod", level=1)  # both round towards zero


def dtype_of(expr: Any) -> Any:
    """Return the dtype of a tensor (void if it is not known)."""
    return getattr(known_struct_info(expr), "dtype", None)


def constant_like(value: float, like: Any) -> Constant:
    """Return a number in the dtype of a tensor."""
    return Constant(numpy.asarray(value, dtype_of(like).numpy()))


def _trunc_divide(attrs: Any, lhs: Any, rhs: Any) -> Any:
    quotient = relax.divide(lhs, rhs)
    return relax.trunc(quotient) if dtype_of(lhs).is_float else quotient


define(
    "trunc_divide",
    "lhs:number rhs:number",
    _trunc_divide,
    level=1,
    description="The quotient, rounded towards zero.",
)


def _define_logarithm(name: str, base: float) -> None:
    factor = 1.0 / float(numpy.log(base))

    def translate(attrs: Any, data: Any) -> Any:
        return relax.multiply(relax.log(data), constant_like(factor, data))

    define(name, "data", translate, level=1, description=f"The logarithm with base {base:g}.")


_define_logarithm("log2", 2.0)
_define_logarithm("log10", 10.0)

for _name, _what in (("exp", "e to the power x"), ("tanh", "tanh(x)"), ("erf", "erf(x)")):
    computed(
        "fast_" + _name,
        "data",
        f"topi.fast_{_name}",
        level=1,
        description=f"An approximation of {_what} that needs no library function.",
    )

define(
    "clip",
    "a",
    lambda attrs, a: relax.clip(a, attrs.a_min, attrs.a_max),
    level=3,
    schema=Schema(a_min=scalar(), a_max=scalar()),
    description="The elements; those outside the limits are replaced by the nearer limit.",
)
define("copy", "data", lambda attrs, data: data, level=3, description="The same tensor.")
computed(
    "fixed_point_multiply",
    "data",
    "topi.fixed_point_multiply",
    level=10,
    schema=Schema(multiplier=integer(), shift=integer()),
    description="Multiply integers by ``multiplier * 2 ** (shift - 31)``, rounded to the nearest.",
)
same(
    "fixed_point_requantize",
    "data multiplier:number shift:number in_zero_point:number out_zero_point:number",
    level=10,
    schema=Schema(rounding=text("UPWARD"), out_dtype=dtype("int8")),
)


# Tensors of one value


def _define_filled(name: str, value: int) -> None:
    def translate(attrs: Any) -> Any:
        return relax.full(attrs.shape, Constant(numpy.asarray(value, attrs.dtype.numpy())))

    schema = Schema(shape=ints(), dtype=dtype(REQUIRED))
    define(name, "", translate, level=3, schema=schema, description=f"A tensor of {name}.")
    same(name + "_like", "data", level=4)


_define_filled("zeros", 0)
_define_filled("ones", 1)


# Several tensors


def tuple_of(data: Any) -> Any:
    """Return the operand of an operator of several tensors: a list or tuple of them, or an
    expression that gives a tuple.
    """
    return Tuple(data) if isinstance(data, (list, tuple)) else as_expr(data)


same("concatenate", "data", record="concat", level=1, schema=Schema(axis=integer()))
same("stack", "data", level=3, schema=Schema(axis=integer(0)))
same(
    "einsum",
    "data",
    level=11,
    schema=Schema(equation=text()),
    attributes=lambda attrs: {"subscripts": attrs.equation},
)


@function("concatenate")
def concatenate(data: Any, axis: int) -> Any:
    """Join tensors along an axis; ``data`` is a list or tuple of them, or gives a tuple."""
    return make_call("concatenate", [tuple_of(data)], {"axis": axis})


@function("stack")
def stack(data: Any, axis: int) -> Any:
    """Join tensors along a new axis."""
    return make_call("stack", [tuple_of(data)], {"axis": axis})


@function("einsum")
def einsum(data: Any, equation: str) -> Any:
    """Return Einstein's sum: ``einsum((a, b), "ij,jk->ik")``."""
    return make_call("einsum", [tuple_of(data)], {"equation": equation})


# Sizes


def _shape_of(attrs: Any, data: Any) -> Any:
    return relax.astype(relax.shape_to_tensor(relax.shape_of(data)), attrs.dtype)


define(
    "shape_of",
    "data",
    _shape_of,
    level=10,
    schema=Schema(dtype=dtype("int32")),
    description="The sizes of a tensor, as a vector.",
)
computed(
    "ndarray_size",
    "data",
    "topi.ndarray_size",
    level=10,
    schema=Schema(dtype=dtype("int32")),
    description="The number of elements of a tensor.",
)
same("collapse_sum_like", "data collapse_type", level=10)
define(
    "collapse_sum_to",
    "data",
    lambda attrs, data: relax.collapse_sum_to(data, attrs.shape),
    level=4,
    schema=Schema(shape=ints()),
    description="Sum over axes until the shape is the given one.",
)
define(
    "broadcast_to",
    "data",
    lambda attrs, data: relax.broadcast_to(data, attrs.shape),
    level=4,
    schema=Schema(shape=ints()),
    description="Repeat elements along axes until the shape is the given one.",
)
define(
    "broadcast_to_like",
    "data broadcast_type",
    lambda attrs, data, like: relax.broadcast_to(data, get_shape_of(like)),
    level=10,
    description="Repeat elements along axes until the shape is that of the second tensor.",
)


def copy_shape_func(attrs: Any, inputs: Any, _: Any) -> list[Any]:
    """Return the shape of the first operand, as the shape function of operators that keep it."""
    return [topi.identity(inputs[0])]


globals().update(functions())
