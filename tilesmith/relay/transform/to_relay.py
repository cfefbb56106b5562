"""Writes expressions of relax's operators as expressions of relay's alone.

    as_relay(relax.astype(x, "int32"))      →      cast(x, dtype="int32")

For the operators that the dialects (`relay.qnn`) consist of. Each call is written by the rules of
`from_relax`; here are those for what has to become several calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy

from tilesmith.ir import Op
from tilesmith.relax.expr import Call, Constant, known_struct_info
from tilesmith.relay import from_relax
from tilesmith.relay.op.view import View, make_call, rank_of
from tilesmith.relay.walks import parts, post_order, with_parts
from tilesmith.support.errors import UnsupportedError

__all__ = ["as_relay"]


def _along(value: Any, axis: int, like: Any) -> Any:
    rank = rank_of(like)
    after = rank - 1 - axis % rank if rank else 0
    if rank_of(value) == 0 or not after:
        return value
    return make_call("expand_dims", [value], {"axis": 1, "num_newaxis": after})


def _quantize(call: Call) -> Any:
    data, scale, point = call.args
    attrs: Any = call.attrs
    info: Any = known_struct_info(data)
    dtype = str(info.dtype)
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
    "relax.quantize": _quantize,
    "relax.dequantize": _dequantize,
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
    if rule is not None:
        return rule(node)
    made = from_relax.as_relay(node, list(node.args))
    if isinstance(made, Call) and not isinstance(made.op.spec, View):
        raise UnsupportedError(f"{node.op.name} has no form in relay")
    return made
