"""What PackForVectors asks about products of small integers: bytes behind their wide operands.

    a = R.subtract(R.astype(x, "int32"), zero_point)        x: bytes
    y = R.nn.conv2d(a, w)                                   w: constant

An instruction multiplies four bytes of data (unsigned or signed, as the target has it) with four
signed ones and adds the products to an int32. What it leaves out is the same for all pixels: the
sum of the weights of an output channel, times the zero point (and 128 for data of the other sign).
Older CPUs multiply two int16 at once, with which the zero point is subtracted first.

Weights that are no signed bytes, as those with a zero point of their own, become such by taking a
number from all of an output channel: ``w = v + c``. Then ``c`` times the sum of the data is added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from tilesmith.ir import IntImm
from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, Constant, known_struct_info
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.runtime.dtype import DataType
from tilesmith.target import Target
from tilesmith.target.features import target_features
from tilesmith.target.machine import MachineModel

__all__ = [
    "Bytes", "DotProducts", "bytes_behind", "centred_bytes", "dot_products", "in_words",
    "joined_groups",
]  # fmt: skip

_BYTES = 4
_MOST_JOINED = 64
"""What 16 lanes of four products do while one product is done without vectors."""


class DotProducts(NamedTuple):
    """The instruction of a target that adds products of small integers to each lane of a vector."""

    products: str
    """Of what: "u8i8" or "i8i8", four of bytes; "i16i16", two of int16."""

    @property
    def is_of_bytes(self) -> bool:
        """Whether it takes four bytes of a word."""
        return self.products != "i16i16"


class Bytes(NamedTuple):
    """A tensor of bytes and the zero point that is subtracted from it."""

    data: Any
    zero_point: Any
    """A number, or an expression of one element of int32."""

    @property
    def is_fixed(self) -> bool:
        """Whether the zero point is known."""
        return isinstance(self.zero_point, int)

    def moved(self, instruction: DotProducts) -> int:
        """Return by how much what an instruction takes exceeds the data without a zero point."""
        point = self.zero_point if self.is_fixed else 0
        if not instruction.is_of_bytes:
            return 0
        is_signed = _dtype(self.data).is_int
        if is_signed == (instruction.products == "i8i8"):
            return point
        return point + (128 if is_signed else -128)


def dot_products(target: Target, machine: MachineModel) -> DotProducts | None:
    """Return the instruction with which a target adds products of small integers to each lane of
    its vectors; None if it has none. x86 without VNNI has one for two products of int16, in half
    the time of products of float32.
    """
    features = target_features(target)
    lanes = machine.lanes(32)
    if lanes == 4 and {"i8mm", "dotprod"}.intersection(features):
        return DotProducts("u8i8" if "i8mm" in features else "i8i8")
    if lanes == 4 and "sse2" in features:
        return DotProducts("i16i16")
    if lanes == 8 and "avx2" in features:
        has_bytes = "avxvnni" in features or {"avx512vnni", "avx512vl"}.issubset(features)
    elif lanes == 16 and "avx512bw" in features:
        has_bytes = "avx512vnni" in features
    else:
        return None
    return DotProducts("u8i8" if has_bytes else "i16i16")


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


def _is_one(expr: Any) -> bool:
    """Return whether a value of int32 has one element and no axis that could widen others."""
    info = known_struct_info(expr)
    values = getattr(getattr(info, "shape", None), "values", None)
    if values is None or _dtype(expr) != "int32":
        return False
    return all(isinstance(value, IntImm) and value.value == 1 for value in values)


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
    if data is None or not _is_one(point):
        return None
    if known_struct_info(point).ndim > known_struct_info(data).ndim:
        return None
    if not isinstance(point, Constant):
        return Bytes(data, point)
    found = int(numpy.asarray(point.data).reshape(()))
    limits = numpy.iinfo(_dtype(data).numpy())
    return Bytes(data, found) if limits.min <= found <= limits.max else None


def centred_bytes(weights: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray] | None:
    """Return integer weights ``(outputs, …)`` as signed bytes and what was taken from those of each
    output; None if the weights of an output are further apart than bytes.
    """
    if weights.dtype.kind not in "iu" or weights.size == 0:
        return None
    axes = tuple(range(1, weights.ndim))
    low, high = weights.min(axes).astype("int64"), weights.max(axes).astype("int64")
    if (high - low > 255).any() or max(-low.min(), high.max()) > 1 << 16:
        return None
    if high.max() - low.min() <= 255:  # one number for all: its sums of the data are fewer
        low, high = numpy.full_like(low, low.min()), numpy.full_like(high, high.max())
    taken = numpy.where((low < -128) | (high > 127), (low + high + 1) // 2, 0)
    spread = taken.reshape(-1, *[1] * len(axes))
    return (weights - spread).astype("int8"), taken


def joined_groups(
    weights: numpy.ndarray, groups: int, lanes: int
) -> tuple[numpy.ndarray, int] | None:
    """Join groups of a convolution until the outputs of one fill vectors.

    Returns the weights (outputs, inputs of a joined group, ky, kx), which are 0 between groups that
    were joined, and the number of groups that are left. If none fit, all become one; None if these
    are so many that the products with 0 would take longest.
    """
    outputs, inputs = len(weights) // groups, weights.shape[1]
    fitting = [n for n in range(1, groups + 1) if groups % n == 0 and outputs * n % lanes == 0]
    if not fitting and groups > _MOST_JOINED:
        return None
    count = fitting[0] if fitting else groups
    joined = numpy.zeros((len(weights), count * inputs, *weights.shape[2:]), weights.dtype)
    own = numpy.arange(len(weights)) // outputs % count
    for number in range(count):
        joined[own == number, number * inputs : (number + 1) * inputs] = weights[own == number]
    return joined, groups // count


def in_words(weights: numpy.ndarray, dtype: str = "int8") -> numpy.ndarray:
    """Return integers ``(…, inputs, outputs)`` that fit into ``dtype``, of 8 or 16 bits, as words
    of four bytes along the inputs, the last one filled with 0.
    """
    small = numpy.dtype(dtype)
    inputs, outputs = weights.shape[-2:]
    count = _BYTES // small.itemsize
    padded = numpy.zeros((*weights.shape[:-2], -(-inputs // count) * count, outputs), small)
    padded[..., :inputs, :] = weights
    groups = padded.reshape(*weights.shape[:-2], -1, count, outputs)
    packed = numpy.ascontiguousarray(numpy.moveaxis(groups, -2, -1))
    words: numpy.ndarray = packed.view(f"{small.kind}{_BYTES}")[..., 0]
    return words
