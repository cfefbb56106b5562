"""Padding: adds or removes elements at the ends of axes."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, ints, scalar, text
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import result, sizes_of, tensor
from tilesmith.relax.op.declaration import call, define, function_of
from tilesmith.relax.spec import Precision, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError


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


_pad_call = define(
    "nn.pad",
    "data",
    _infer_pad,
    schema=Schema(pad_width=ints(), pad_value=scalar(0), pad_mode=text("constant")),
    compute=_pad_expression,
    precision=Precision.FOLLOW,
    evaluate=_pad,
)


@function_of(_pad_call)
def pad(data: Any, pad_width: Any, pad_value: Any = 0, pad_mode: str = "constant") -> Call:
    """Pad ``data`` at both ends of each axis; negative widths remove elements.

    ``pad_width``: before and after for each axis, flat or as pairs. ``pad_mode``: "constant",
    "reflect", "replicate" (the last element again) or "circular".
    """
    flat = []
    for item in pad_width:
        flat += list(item) if isinstance(item, (list, tuple)) else [item]
    return call(_pad_call.op, data, pad_width=flat, pad_value=pad_value, pad_mode=pad_mode)
