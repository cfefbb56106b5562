"""Operators of neural networks: activations, softmax, padding.

The other families (``attention.py``, ``convolution.py``, ``normalization.py``, ``pooling.py``) are
found here too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from tilesmith.relax.attrs import (
    Schema,
    integer,
    ints,
    number,
    scalar,
    text,
)
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import (
    check_axis,
    check_float,
    check_ndim,
    result,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.elementwise import infer_float, infer_same, unary
from tilesmith.relax.op.spec import FusionKind, call, define, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

_erf = numpy.vectorize(math.erf, otypes=["float64"])


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)).astype(x.dtype))


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _silu(x: Any) -> Any:
    return x / (1 + numpy.exp(-x))


relu = unary("nn.relu", lambda x: numpy.maximum(x, 0), "topi.nn.relu", "max(x, 0)")
gelu = unary("nn.gelu", _gelu, "topi.nn.gelu", "x times the normal distribution at x", infer_float)
gelu_tanh = unary(
    "nn.gelu_tanh",
    _gelu_tanh,
    lambda attrs, x: topi.nn.gelu(x, True),
    "gelu approximated with tanh",
    infer_float,
)
silu = unary("nn.silu", _silu, "topi.nn.silu", "x * sigmoid(x)", infer_float)

_LEAKYRELU = define(
    "nn.leakyrelu",
    "data",
    infer_same,
    schema=Schema(alpha=number(0.01)),
    compute="topi.nn.leaky_relu",
    kind=FusionKind.ELEMWISE,
    evaluate=lambda attrs, x: numpy.where(x > 0, x, x * x.dtype.type(attrs.alpha)),
)


def leakyrelu(data: Any, alpha: float = 0.01) -> Call:
    """``data`` where positive, else ``alpha * data``."""
    return call(_LEAKYRELU, data, alpha=alpha)


def _infer_prelu(call: Call) -> Any:
    data, alpha = tensor(call, 0), tensor(call, 1)
    check_ndim(call, 1, alpha, 1)
    check_axis(call, call.attrs.axis, data.ndim)
    return data


def _prelu(attrs: Any, data: Any, alpha: Any) -> Any:
    shape = [1] * data.ndim
    shape[attrs.axis] = -1
    return numpy.where(data > 0, data, data * alpha.reshape(shape))


_PRELU = define(
    "nn.prelu",
    "data alpha",
    _infer_prelu,
    schema=Schema(axis=integer(1)),
    compute="topi.nn.prelu",
    kind=FusionKind.BROADCAST,
    evaluate=_prelu,
)


def prelu(data: Any, alpha: Any, axis: int = 1) -> Call:
    """``data`` where positive, else times ``alpha``, a vector along ``axis``."""
    return call(_PRELU, data, alpha, axis=axis)


# Softmax


def _infer_softmax(call: Call) -> Any:
    info = tensor(call, 0)
    check_float(call, 0, info)
    check_axis(call, call.attrs.axis, info.ndim)
    return info


def _softmax(attrs: Any, x: Any) -> Any:
    exponentials = numpy.exp(x - x.max(axis=attrs.axis, keepdims=True))
    return exponentials / exponentials.sum(axis=attrs.axis, keepdims=True)


def _log_softmax(attrs: Any, x: Any) -> Any:
    shifted = x - x.max(axis=attrs.axis, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=attrs.axis, keepdims=True))


_SOFTMAX = define(
    "nn.softmax",
    "data",
    _infer_softmax,
    schema=Schema(axis=integer(-1)),
    compute="topi.nn.softmax",
    evaluate=_softmax,
)
_LOG_SOFTMAX = define(
    "nn.log_softmax",
    "data",
    _infer_softmax,
    schema=Schema(axis=integer(-1)),
    compute="topi.nn.log_softmax",
    evaluate=_log_softmax,
)


def softmax(data: Any, axis: int = -1) -> Call:
    """``exp(data)`` divided by its sum along ``axis``."""
    return call(_SOFTMAX, data, axis=axis)


def log_softmax(data: Any, axis: int = -1) -> Call:
    """The logarithm of ``softmax``."""
    return call(_LOG_SOFTMAX, data, axis=axis)


# Padding


def _infer_pad(call: Call) -> Any:
    info = tensor(call, 0)
    width = call.attrs.pad_width
    if info.ndim != -1 and len(width) != 2 * info.ndim:
        raise ShapeError(
            f"nn.pad needs two widths for each of {info.ndim} dimensions, got {len(width)} numbers"
        )
    if call.attrs.pad_mode not in ("constant", "reflect", "replicate", "circular", "edge"):
        raise OpAttributeInvalid(f"nn.pad has no mode '{call.attrs.pad_mode}'")
    sizes = sizes_of(info)
    if sizes is None:
        return result(None, info.dtype, info.ndim)
    padded = [size + (width[2 * i] + width[2 * i + 1]) for i, size in enumerate(sizes)]
    return result(padded, info.dtype)


def _pad(attrs: Any, x: Any) -> Any:
    mode = {"replicate": "edge", "circular": "wrap"}.get(attrs.pad_mode, attrs.pad_mode)
    width = [(attrs.pad_width[2 * i], attrs.pad_width[2 * i + 1]) for i in range(x.ndim)]
    cut = [slice(max(0, -a), n - max(0, -b)) for (a, b), n in zip(width, x.shape)]
    width = [(max(0, a), max(0, b)) for a, b in width]
    extra = {"constant_values": attrs.pad_value} if mode == "constant" else {}
    return numpy.pad(x[tuple(cut)], width, mode, **extra)


def _pad_expression(attrs: Any, x: Any) -> Any:
    before, after = attrs.pad_width[::2], attrs.pad_width[1::2]
    if attrs.pad_mode == "constant":
        return topi.nn.pad(x, before, after, attrs.pad_value)
    mode = "replicate" if attrs.pad_mode == "edge" else attrs.pad_mode
    return getattr(topi.nn, mode + "_pad")(x, before, after)


_PAD = define(
    "nn.pad",
    "data",
    _infer_pad,
    schema=Schema(pad_width=ints(), pad_value=scalar(0), pad_mode=text("constant")),
    compute=_pad_expression,
    kind=FusionKind.INJECTIVE,
    evaluate=_pad,
)


def pad(data: Any, pad_width: Any, pad_value: Any = 0, pad_mode: str = "constant") -> Call:
    """``data`` with more (negative: fewer) elements at both ends of each axis.

    ``pad_width``: before and after for each axis, flat or as pairs. ``pad_mode``: "constant",
    "reflect", "replicate" (the last element again) or "circular".
    """
    flat = []
    for item in pad_width:
        flat += list(item) if isinstance(item, (list, tuple)) else [item]
    value = getattr(pad_value, "value", pad_value)
    return call(_PAD, data, pad_width=flat, pad_value=value, pad_mode=pad_mode)


# `relax.op.nn` has the other families of networks too.
from tilesmith.relax.op.attention import *  # noqa: E402, F403
from tilesmith.relax.op.convolution import *  # noqa: E402, F403
from tilesmith.relax.op.normalization import *  # noqa: E402, F403
from tilesmith.relax.op.pooling import *  # noqa: E402, F403
