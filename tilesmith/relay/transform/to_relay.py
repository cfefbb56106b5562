"""Writes calls of relax's operators as calls of relay's: what a view says, back in relay's words.

    as_relay(relax.astype(x, "int32"))      →      cast(x, dtype="int32")

For the operators that the dialects (`relay.qnn`) consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy

from tilesmith.ir import IntImm, Op
from tilesmith.relax.expr import Call, Constant, PrimValue
from tilesmith.relax.struct_info import ShapeExpr
from tilesmith.relay.op.view import View, make_call, rank_of
from tilesmith.relay.qnn.op.parameters import info_of
from tilesmith.relay.walks import parts, post_order, with_parts
from tilesmith.support.errors import UnsupportedError

__all__ = ["as_relay"]

_SAME = (
    "add subtract multiply divide maximum minimum floor ceil round abs sign negative exp log tanh "
    "sqrt rsqrt erf sigmoid fixed_point_requantize nn.softmax nn.avg_pool2d nn.conv2d "
    "nn.conv2d_transpose nn.relu take"
).split()
_NAMES = {"nn.leakyrelu": "nn.leaky_relu", "permute_dims": "transpose", "concat": "concatenate"}


def _plain(value: Any) -> Any:
    if isinstance(value, PrimValue):
        value = value.value
    return getattr(value, "value", value)


def _attributes(call: Call, target: Op) -> dict[str, Any]:
    known = target.spec.schema.fields if target.spec.schema is not None else {}
    given = dict(call.attrs.items()) if call.attrs is not None else {}
    return {key: given[key] for key in known if given.get(key) is not None}


def _renamed(name: str) -> Callable[[Call], Any]:
    def change(call: Call) -> Any:
        target = Op.get(name)
        return make_call(target, call.args, _attributes(call, target))

    return change


def _astype(call: Any) -> Any:
    return make_call("cast", call.args, {"dtype": call.attrs.dtype})


def _clip(call: Any) -> Any:
    low, high = [float(_plain(one)) for one in (call.attrs.min, call.attrs.max)]
    return make_call("clip", call.args[:1], {"a_min": low, "a_max": high})


def _reshape(call: Call) -> Any:
    shape: Any = call.args[1]
    if not isinstance(shape, ShapeExpr):
        raise UnsupportedError("a reshape to sizes that are computed has no form here")
    sizes = [size.value if isinstance(size, IntImm) else size for size in shape.values]
    return make_call("reshape", call.args[:1], {"newshape": sizes})


def _expand_dims(call: Any) -> Any:
    axes = [int(axis) for axis in call.attrs.axis]
    return make_call("expand_dims", call.args, {"axis": axes[0], "num_newaxis": len(axes)})


def _matmul(call: Call) -> Any:
    a, b = call.args
    out = {"out_dtype": str(info_of(call).dtype)}
    if rank_of(a) == 3 and rank_of(b) == 3:
        return make_call("nn.batch_matmul", [a, b], {**out, "transpose_b": False})
    if isinstance(b, Call) and b.op is Op.get("transpose") and rank_of(b) == 2:
        return make_call("nn.dense", [a, b.args[0]], out)
    return make_call("nn.matmul", [a, b], out)


def _along(value: Any, axis: int, like: Any) -> Any:
    rank = rank_of(like)
    after = rank - 1 - axis % rank if rank else 0
    if rank_of(value) == 0 or not after:
        return value
    return make_call("expand_dims", [value], {"axis": 1, "num_newaxis": after})


def _quantize(call: Call) -> Any:
    data, scale, point = call.args
    attrs: Any = call.attrs
    dtype = str(info_of(data).dtype)
    made = make_call("divide", [data, _along(scale, attrs.axis, data)])
    wide = make_call("cast", [_along(point, attrs.axis, data)], {"dtype": dtype})
    made = make_call("add", [make_call("round", [made]), wide])
    limits = numpy.iinfo(attrs.out_dtype.numpy())
    made = make_call("clip", [made], {"a_min": float(limits.min), "a_max": float(limits.max)})
    return make_call("cast", [made], {"dtype": attrs.out_dtype})


def _dequantize(call: Call) -> Any:
    data, scale, point = call.args
    attrs: Any = call.attrs
    wide = make_call("cast", [data], {"dtype": "int32"})
    point = make_call("cast", [_along(point, attrs.axis, data)], {"dtype": "int32"})
    centred = make_call("cast", [make_call("subtract", [wide, point])], {"dtype": attrs.out_dtype})
    return make_call("multiply", [centred, _along(scale, attrs.axis, data)])


_RULES: dict[str, Callable[[Call], Any]] = {
    **{"relax." + name: _renamed(name) for name in _SAME},
    **{"relax." + name: _renamed(other) for name, other in _NAMES.items()},
    "relax.astype": _astype,
    "relax.clip": _clip,
    "relax.expand_dims": _expand_dims,
    "relax.matmul": _matmul,
    "relax.quantize": _quantize,
    "relax.dequantize": _dequantize,
    "relax.reshape": _reshape,
}


def as_relay(expr: Any, known: Iterable[Any] = ()) -> Any:
    """Return an expression in which calls of relax's operators are calls of relay's; what is
    ``known`` to be relay's already stays, with all below it.

    Raises UnsupportedError for an operator that has no form here.
    """
    done: dict[int, Any] = {id(one): one for one in known}
    for node in post_order(expr, lambda one: id(one) not in done):
        if id(node) not in done:
            done[id(node)] = _changed(with_parts(node, [done[id(part)] for part in parts(node)]))
    return done[id(expr)]


def _changed(node: Any) -> Any:
    if isinstance(node, Constant) and node.dialect != "relay":
        return Constant(node.data, dialect="relay")
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return node
    if isinstance(node.op.spec, View) or not node.op.name.startswith("relax."):
        return node
    rule = _RULES.get(node.op.name)
    if rule is None:
        raise UnsupportedError(f"{node.op.name} has no form in relay")
    return rule(node)
