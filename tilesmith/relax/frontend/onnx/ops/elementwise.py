"""Arithmetic, comparison, logic and bits, element by element; conversion of dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IntImm, is_const
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax import op
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.registry import add_converter, converter
from tilesmith.relax.frontend.onnx.tensors import dtype_name
from tilesmith.relax.frontend.onnx.values import dtype_of, rank_of, scalar, tensor_info
from tilesmith.relax.relations import prove_equal, sizes_of
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.runtime.dtype import DataType

# One operator of the graph each

_UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": op.abs,
    "Acos": op.acos,
    "Acosh": op.acosh,
    "Asin": op.asin,
    "Asinh": op.asinh,
    "Atan": op.atan,
    "Atanh": op.atanh,
    "BitwiseNot": op.bitwise_not,
    "Ceil": op.ceil,
    "Cos": op.cos,
    "Cosh": op.cosh,
    "Erf": op.erf,
    "Exp": op.exp,
    "Floor": op.floor,
    "IsNaN": op.isnan,
    "Log": op.log,
    "Neg": op.negative,
    "Not": op.logical_not,
    "Round": op.round,
    "Sign": op.sign,
    "Sin": op.sin,
    "Sinh": op.sinh,
    "Sqrt": op.sqrt,
    "Tan": op.tan,
    "Tanh": op.tanh,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": op.add,
    "And": op.logical_and,
    "BitwiseAnd": op.bitwise_and,
    "BitwiseOr": op.bitwise_or,
    "BitwiseXor": op.bitwise_xor,
    "Div": op.divide,
    "Equal": op.equal,
    "Greater": op.greater,
    "GreaterOrEqual": op.greater_equal,
    "Less": op.less,
    "LessOrEqual": op.less_equal,
    "Mul": op.multiply,
    "Or": op.logical_or,
    "Sub": op.subtract,
    "Xor": op.logical_xor,
}
_LEGACY_BROADCAST = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "And",
    "Or",
    "Xor",
    "Less",
    "Greater",
    "Equal",
)


def _unary(function: Callable[[Any], Any]) -> Callable[[OnnxNode], Any]:
    return lambda node: function(node[0])


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[OnnxNode], Any]:
    return lambda node: function(*with_common_sizes(node, node[0], node[1]))


def with_common_sizes(node: OnnxNode, *tensors: Any) -> list[Any]:
    """Return the tensors with sizes that decide how they broadcast.

    A symbolic size beside another one may be equal to it or be 1. It is taken as equal, which the
    compiled function checks when it is called: else the shape of the result would be unknown.
    """
    infos = [tensor_info(tensor) for tensor in tensors]
    shapes = [sizes_of(info) for info in infos]
    if any(shape is None for shape in shapes):
        return list(tensors)
    chosen: dict[int, Any] = {}  # axis from the end → the common size of all that are not 1
    for shape in shapes:
        for place, size in enumerate(reversed(shape)):
            if is_const(size, 1):
                continue
            if place not in chosen or _tells_more(size, chosen[place]):
                chosen[place] = size
    return [
        _with_sizes(node, tensor, info, shape, chosen)
        for tensor, info, shape in zip(tensors, infos, shapes)
    ]


def _tells_more(size: Any, other: Any) -> bool:
    """Return whether a size is the better name for what two sizes have in common: a number, else a
    variable, which later operators know too.
    """
    kinds = (IntImm, SymbolicVar)
    ranks = [
        next((k for k, kind in enumerate(kinds) if isinstance(one, kind)), len(kinds))
        for one in (size, other)
    ]
    return ranks[0] < ranks[1]


def _with_sizes(node: OnnxNode, tensor: Any, info: Any, shape: Any, chosen: dict[int, Any]) -> Any:
    count = len(shape)
    wanted = [
        size
        if isinstance(size, IntImm) or prove_equal(size, chosen[count - 1 - axis])
        else chosen[count - 1 - axis]
        for axis, size in enumerate(shape)
    ]
    if all(a is b for a, b in zip(shape, wanted)):
        return tensor
    return node.importer.builder.match_cast(tensor, TensorStructInfo(wanted, info.dtype))


for _name, _function in _UNARY.items():
    add_converter(_name, _unary(_function))
for _name, _function in _BINARY.items():
    add_converter(_name, _binary(_function), since=7 if _name in _LEGACY_BROADCAST else 1)


def _broadcast_from_axis(function: Callable[[Any, Any], Any]) -> Callable[[OnnxNode], Any]:
    """Broadcast the second operand from an axis on, as before opset 7."""

    def convert(node: OnnxNode) -> Any:
        a, b = node[0], node[1]
        axis = node.attribute("axis")
        if node.flag("broadcast") and axis is not None:
            missing = rank_of(a) - rank_of(b) - int(axis) % max(rank_of(a), 1)
            for _ in range(missing):
                b = op.expand_dims(b, -1)
        return function(a, b)

    return convert


for _name in _LEGACY_BROADCAST:
    if _name in _BINARY:
        add_converter(_name, _broadcast_from_axis(_BINARY[_name]), since=1)


@converter("Reciprocal")
def _reciprocal(node: OnnxNode) -> Any:
    return op.divide(scalar(1, dtype_of(node[0])), node[0])


@converter("IsInf")
def _is_inf(node: OnnxNode) -> Any:
    x = node[0]
    zero = scalar(0, dtype_of(x))
    found = op.isinf(x)
    if not node.flag("detect_negative", True):
        found = op.logical_and(found, op.greater(x, zero))
    if not node.flag("detect_positive", True):
        found = op.logical_and(found, op.less(x, zero))
    return found


@converter("Mod")
def _mod(node: OnnxNode) -> Any:
    x, y = node[0], node[1]
    if node.flag("fmod"):
        return op.mod(x, y)
    if not dtype_of(x).is_float:
        return op.floor_mod(x, y)
    # With the sign of the divisor, which may be infinite.
    rest = node.emit(op.mod(x, y))
    zero = scalar(0, dtype_of(x))
    is_other = op.not_equal(op.less(rest, zero), op.less(y, zero))
    is_other = op.logical_and(is_other, op.not_equal(rest, zero))
    return op.where(is_other, op.add(rest, y), rest)


@converter("BitShift")
def _bit_shift(node: OnnxNode) -> Any:
    x, shift = node[0], node[1]
    is_left = node.choice("direction", "", "LEFT", "RIGHT") == "LEFT"
    function = op.left_shift if is_left else op.right_shift
    dtype, known = dtype_of(x), node.known(1)
    if known is not None and known.dtype != object and ((known >= 0) & (known < dtype.bits)).all():
        return function(x, shift)
    # Machines take a distance by its lowest bits; here nothing is left, or the sign alone.
    is_far = op.greater_equal(shift, scalar(dtype.bits, dtype))
    if dtype.is_int:
        is_far = op.logical_or(is_far, op.less(shift, scalar(0, dtype)))
    is_far = node.emit(is_far)
    found = function(x, op.where(is_far, scalar(dtype.bits - 1, dtype), shift))
    if dtype.is_int and not is_left:
        return found
    return op.where(is_far, scalar(0, dtype), found)


def power(node: OnnxNode, base: Any, exponent: Any, known: Any) -> Any:
    """Return ``base`` to the power ``exponent``; small constant exponents become products and
    roots.
    """
    dtype = dtype_of(base)
    if known is not None and known.size == 1 and known.ndim <= rank_of(base):
        value = float(known.reshape(()))
        if value == 1:
            return base
        if value in (2, 3):
            base = node.emit(base)
            square = op.multiply(base, base)
            return square if value == 2 else op.multiply(square, base)
        if value == 0.5 and dtype.is_float:
            return op.sqrt(base)
    other = dtype_of(exponent)
    if dtype == other:
        return op.power(base, exponent)
    if dtype.is_float:
        return op.power(base, op.astype(exponent, dtype))
    wide = other if other.is_float else DataType("float64")
    return op.astype(op.power(op.astype(base, wide), op.astype(exponent, wide)), dtype)


@converter("Pow", since=7)
def _pow(node: OnnxNode) -> Any:
    return power(node, node[0], node[1], node.known(1))


@converter("Pow", since=1)
def _pow_from_axis(node: OnnxNode) -> Any:
    return _broadcast_from_axis(op.power)(node)


def _variadic(function: Callable[[Any, Any], Any]) -> Callable[[OnnxNode], Any]:
    def convert(node: OnnxNode) -> Any:
        first, *rest = with_common_sizes(node, *node.tensors())
        for tensor in rest:
            first = function(first, tensor)
        return first

    return convert


def _mean(node: OnnxNode) -> Any:
    total = _variadic(op.add)(node)
    return op.divide(total, scalar(len(node), dtype_of(total)))


add_converter("Max", _variadic(op.maximum))
add_converter("Min", _variadic(op.minimum))
add_converter("Sum", _variadic(op.add))
add_converter("Mean", _mean)


# Limits


def _limit(x: Any, low: Any, high: Any) -> Any:
    """Clip ``x`` between tensors of rank 0 that may be missing."""
    if low is not None:
        x = op.maximum(x, low)
    return x if high is None else op.minimum(x, high)


@converter("Clip", since=11)
def _clip(node: OnnxNode) -> Any:
    x = node[0]
    low, high = node.known(1), node.known(2)
    dtype = dtype_of(x)
    if dtype.is_float and low is not None and high is not None:
        bounds = [node.number(1, "min"), node.number(2, "max")]
        if bounds[0] <= bounds[1]:
            return op.clip(x, *bounds)
    return _limit(x, node.get(1), node.get(2))


@converter("Clip", since=1)
def _clip_by_attributes(node: OnnxNode) -> Any:
    low, high = node.attribute("min"), node.attribute("max")
    if low is not None and high is not None:
        return op.clip(node[0], float(low), float(high))
    dtype = dtype_of(node[0])
    return _limit(
        node[0],
        None if low is None else scalar(low, dtype),
        None if high is None else scalar(high, dtype),
    )


# Dtypes


def cast(x: Any, dtype: Any, saturate: bool = True) -> Any:
    """Convert ``x`` by ONNX's rules: nonzero is true, small floats saturate."""
    source, dtype = dtype_of(x), DataType(dtype)
    if source == dtype:
        return x
    if dtype.is_bool:
        return op.not_equal(x, scalar(0, source))
    if dtype.is_integer and dtype.bits < 8 and not source.is_integer:
        x = op.astype(x, "int32")  # of which the lowest bits remain
    if dtype.code.startswith("float8") and saturate and source.is_float and source.bits > 8:
        import ml_dtypes

        limit = float(ml_dtypes.finfo(dtype.numpy()).max)
        if limit < float(ml_dtypes.finfo(source.numpy()).max):
            x = op.clip(x, -limit, limit)
    return op.astype(x, dtype)


def _to_scale(node: OnnxNode, x: Any) -> Any:
    """Convert ``x`` to powers of two (float8_e8m0fnu), rounded as the node's attributes say: the
    bits of its exponent.
    """
    bits = op.reinterpret(x if dtype_of(x) == "float32" else op.astype(x, "float32"), "int32")
    bits = node.emit(bits)
    one = scalar(1, "int32")
    exponent = op.bitwise_and(op.right_shift(bits, scalar(23, "int32")), scalar(0xFF, "int32"))
    exponent = node.emit(exponent)
    mode = node.choice("round_mode", "up", "up", "down", "nearest")
    threshold = {"up": 1, "nearest": 0x400000, "down": 0x800000}[mode]
    fraction = op.bitwise_and(bits, scalar(0x7FFFFF, "int32"))
    is_up = op.greater_equal(fraction, scalar(threshold, "int32"))
    most = 0xFE if node.flag("saturate", True) else 0xFF
    is_up = op.logical_and(is_up, op.less(exponent, scalar(most, "int32")))
    if mode == "nearest":  # the smallest scale is not rounded up from exactly the middle
        is_more = op.greater(fraction, scalar(threshold, "int32"))
        is_up = op.logical_and(is_up, op.logical_or(is_more, op.greater_equal(exponent, one)))
    code = op.astype(op.where(is_up, op.add(exponent, one), exponent), "uint8")
    return op.reinterpret(node.emit(code), "float8_e8m0fnu")


def _converted(node: OnnxNode, dtype: Any) -> Any:
    x = node[0]
    if dtype == "float8_e8m0fnu" and dtype_of(x) != dtype:
        return _to_scale(node, x)
    return cast(x, dtype, node.flag("saturate", True))


@converter("BitCast")
def _bit_cast(node: OnnxNode) -> Any:
    x, dtype = node[0], DataType(dtype_name(int(node.required("to")), "the result"))
    if dtype_of(x) == dtype:
        return x
    if dtype_of(x).is_bool:
        return op.astype(x, dtype)  # a byte with 0 or 1
    return op.reinterpret(x, dtype)


@converter("Cast")
def _cast(node: OnnxNode) -> Any:
    to = node.required("to")
    dtype = str(to).lower() if isinstance(to, str) else dtype_name(int(to), "the result")
    names = {"float": "float32", "double": "float64"}
    return _converted(node, names.get(dtype, dtype))


@converter("CastLike")
def _cast_like(node: OnnxNode) -> Any:
    return _converted(node, dtype_of(node[1]))


@converter("Where")
def _where(node: OnnxNode) -> Any:
    return op.where(*with_common_sizes(node, node[0], node[1], node[2]))


def _copy(node: OnnxNode) -> Any:
    return node.value(0)


add_converter("Identity", _copy)


@converter("Dropout", since=7)
def _dropout(node: OnnxNode) -> Any:
    if node.has(2):
        training = node.constant(2, "training_mode")
        ratio = node.number(1, "ratio", 0.5)
        if bool(training) and ratio != 0:
            raise node.unsupported("dropping at random (training_mode)")
    if not node.wants(1):
        return node[0]
    mask = op.ones_like(node[0], "bool" if node.version >= 10 else None)
    return node[0], mask


@converter("Dropout", since=1)
def _dropout_of_old(node: OnnxNode) -> Any:
    if not node.flag("is_test", True):
        raise node.unsupported("dropping at random (is_test=0)")
    return (node[0], op.ones_like(node[0])) if node.wants(1) else node[0]
