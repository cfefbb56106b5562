"""What PackForVectors asks about products of small integers: bytes behind their wide operands.

    a = R.subtract(R.astype(x, "int32"), zero_point)        x: bytes
    y = R.nn.conv2d(a, w)                                   w: constant, fits int8

An instruction multiplies four unsigned bytes with four signed ones and adds the products to an
int32. What it leaves out is the same for all pixels: the sum of the weights of an output channel,
times the zero point (and 128 for signed data, which become unsigned).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, Constant, known_struct_info
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.runtime.dtype import DataType
from tilesmith.target import Target
from tilesmith.target.features import target_features
from tilesmith.target.machine import MachineModel

__all__ = ["Bytes", "bytes_behind", "has_dot_products", "in_words"]

_BYTES = 4


class Bytes(NamedTuple):
    """A tensor of bytes and the zero point that is subtracted from it."""

    data: Any
    zero_point: int

    @property
    def offset(self) -> int:
        """What is subtracted from the data as unsigned bytes."""
        return self.zero_point + (128 if _dtype(self.data).is_int else 0)


def has_dot_products(target: Target, machine: MachineModel) -> bool:
    """Return whether a target adds four products of bytes to each lane of its vectors."""
    features = target_features(target)
    if machine.lanes(32) == 16:
        return "avx512vnni" in features
    has_vectors = "avx512vnni" in features and "avx512vl" in features
    return machine.lanes(32) == 8 and ("avxvnni" in features or has_vectors)


def _dtype(expr: Any) -> DataType:
    info = known_struct_info(expr)
    return info.dtype if isinstance(info, TensorStructInfo) else DataType("void")


def _widened(expr: Any) -> Any:
    """Return the bytes that a conversion to int32 takes."""
    if isinstance(expr, Call) and expr.op is operators.astype.op and _dtype(expr) == "int32":
        dtype = _dtype(expr.args[0])
        if dtype.is_integer and dtype.bits == 8:
            return expr.args[0]
    return None


def bytes_behind(lookup: Callable[[Any], Any], expr: Any) -> Bytes | None:
    """Return the bytes of which an operand consists; ``lookup`` gives the value of a variable."""
    value = lookup(expr)
    data = _widened(value)
    if data is not None:
        return Bytes(data, 0)
    if not isinstance(value, Call) or value.op is not operators.subtract.op:
        return None
    wide, point = value.args
    data = _widened(lookup(wide))
    if data is None or not isinstance(point, Constant):
        return None
    number = numpy.asarray(point.data)
    if number.size != 1:
        return None
    found = int(number.reshape(()))
    limits = numpy.iinfo(_dtype(data).numpy())
    return Bytes(data, found) if limits.min <= found <= limits.max else None


def in_words(weights: numpy.ndarray) -> numpy.ndarray | None:
    """Return integer weights ``(…, inputs, outputs)`` as words of four bytes along the inputs; None
    if they are no signed bytes.
    """
    if weights.dtype.kind != "i" or weights.size == 0:
        return None
    if weights.min() < -128 or weights.max() > 127:
        return None
    inputs, outputs = weights.shape[-2:]
    padded = numpy.zeros((*weights.shape[:-2], -(-inputs // _BYTES) * _BYTES, outputs), "int8")
    padded[..., :inputs, :] = weights
    groups = padded.reshape(*weights.shape[:-2], -1, _BYTES, outputs)
    packed = numpy.ascontiguousarray(numpy.moveaxis(groups, -2, -1))
    words: numpy.ndarray = packed.view("int32")[..., 0]
    return words
