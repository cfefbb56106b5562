"""Gradients of relay's operators.

An operator's gradient is that of its record: the call is translated to relax, the same functions
that relax's own pass asks walk back through it, and what they make is written as relay's. A program
may state another one (``FPrimalGradient``: ``(call, gradient of the result)`` → one for each
argument); operators that only relay has state theirs below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilesmith.ir import Op
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Call as GraphCall
from tilesmith.relax.expr import VarBinding, known_struct_info
from tilesmith.relax.op.backward import backward, evaluated
from tilesmith.relax.op.linear_maps import resized
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.relax.struct_info import Var as GraphVar
from tilesmith.relay.error_words import in_relays_words
from tilesmith.relay.expr import Call, Constant, Tuple, TupleGetItem, Var
from tilesmith.relay.from_relax import as_relay
from tilesmith.relay.op.tensor import constant_like
from tilesmith.relay.op.view import View, make_call
from tilesmith.support.errors import OpNotImplemented, TypeMismatchError

__all__ = ["operator_gradient"]

Gradient = Any
"""An expression, a list of the gradients of the fields of a tuple, or None for zero."""


def operator_gradient(call: Call, args: list[Any], result: Any, grad: Any) -> list[Gradient]:
    """Return the gradients of the arguments of an operator's call whose types are known.

    ``args`` and ``result`` are expressions of the values, ``grad`` of the result's gradient.
    """
    op: Any = call.op
    stated = op.get_attr("FPrimalGradient")
    if stated is not None:
        same = all(new is old for new, old in zip(args, call.args))
        asked = call if same else _typed_copy(call, args)
        found = list(stated(asked, grad))
        if len(found) != len(args):
            raise TypeMismatchError(
                f"the gradient of {op.name} gives {len(found)} gradients for {len(args)} arguments",
                span=call.span,
            )
        return found
    meaning = _MEANINGS.get(op.name)
    if meaning is not None:
        return _derived(call, lambda *operands: meaning(call.attrs, *operands), args, result, grad)
    if not isinstance(op.spec, View) or op.spec.translate is None:
        if not isinstance(op.spec, View) and op.spec is not None and op.spec.gradient is not None:
            return _derived(call, lambda *operands: GraphCall(op, operands, call.attrs), args,
                            result, grad)  # fmt: skip
        raise _missing(op, call)
    at_run_time = op.spec.at_run_time
    if at_run_time is not None and not at_run_time.is_static(call.args):
        raise OpNotImplemented(
            f"{op.name} has no gradient where its sizes are computed",
            span=call.span,
            notes=("let relay.transform.DynamicToStatic make the sizes constant, where it can",),
        )
    translate = op.spec.translate
    return _derived(call, lambda *operands: translate(call.attrs, *operands), args, result, grad)


def _typed_copy(call: Call, args: list[Any]) -> Call:
    """Return the call with arguments that know their types, as gradients may ask for them."""
    for new, old in zip(args, call.args):
        if getattr(new, "_struct_info", None) is None:
            object.__setattr__(new, "_struct_info", _info(old))
    made = Call(call.op, args, call.attrs, span=call.span)
    object.__setattr__(made, "_struct_info", _info(call))
    return made


def _info(expr: Any) -> Any:
    """Return what is known about a value; of a variable also what InferType found."""
    info = expr.struct_info
    return getattr(expr, "_struct_info", None) if info is None else info


def _missing(op: Op, call: Call) -> OpNotImplemented:
    return OpNotImplemented(
        f"{op.name} has no gradient",
        span=call.span,
        notes=("register one with relay.op.register_gradient",),
    )


def _derived(call: Call, function: Any, args: list[Any], result: Any, grad: Any) -> list[Gradient]:
    """Return the gradients by walking back through what a call means in relax."""
    leaves = {
        place: [_info(leaf) for leaf in _leaves(arg)]
        for place, arg in enumerate(call.args)
        if not _is_constant(arg)
    }
    given = [GraphVar(f"x{place}", info) for place, infos in leaves.items() for info in infos]

    def of_operands(*operands: Any) -> Any:
        rest, found = iter(operands), list(call.args)
        for place in leaves:
            found[place] = _with_leaves(call.args[place], rest)
        return function(*found)

    variables, bindings, output = evaluated(of_operands, given)
    values = [leaf for place in leaves for leaf in _leaves(args[place], call.args[place])]
    known: dict[Any, Any] = dict(zip(variables, values))
    forward = _Writer(known)
    for binding in bindings:
        forward.bind(binding)
    forward.known[output] = result
    builder = BlockBuilder()
    builder.begin_scope([*variables, output])
    builder.begin_dataflow_block()
    seed = GraphVar("g", known_struct_info(output))
    forward.known[seed] = grad
    try:
        with in_relays_words():
            found = backward(builder, bindings, output, seed, variables)
    except OpNotImplemented as error:
        raise OpNotImplemented(
            f"{call.op.name}: {error.message}", span=call.span, notes=error.notes
        ) from error
    for step in builder.end_block().bindings:
        forward.bind(step)
    gradients = iter([forward.gradient(one) for one in found])
    return [_gathered(arg, gradients) if n in leaves else None for n, arg in enumerate(call.args)]


def _is_constant(arg: Any) -> bool:
    if isinstance(arg, Tuple):
        return all(_is_constant(field) for field in arg.fields)
    info = _info(arg)
    return isinstance(arg, Constant) or not isinstance(info, (TensorStructInfo, TupleStructInfo))


def _leaves(value: Any, like: Any = None) -> list[Any]:
    """Return what varies in an argument: the value itself, or the fields of a written tuple, as
    operators look into one; ``like`` is the argument where its value is another expression.
    """
    like = value if like is None else like
    if not isinstance(like, Tuple):
        return [value]
    fields = (
        value.fields
        if isinstance(value, Tuple)
        else [TupleGetItem(value, place) for place in range(len(like.fields))]
    )
    return [
        leaf
        for field, own in zip(fields, like.fields)
        if not _is_constant(own)
        for leaf in _leaves(field, own)
    ]


def _with_leaves(arg: Any, leaves: Iterator[Any]) -> Any:
    """Return an argument with other leaves; constants stay."""
    if _is_constant(arg):
        return arg
    if not isinstance(arg, Tuple):
        return next(leaves)
    return Tuple([_with_leaves(field, leaves) for field in arg.fields])


def _gathered(arg: Any, gradients: Iterator[Any]) -> Any:
    """Return the gradient of an argument from those of its leaves."""
    if _is_constant(arg):
        return None
    if not isinstance(arg, Tuple):
        return next(gradients)
    return [_gathered(field, gradients) for field in arg.fields]


class _Writer:
    """Writes bindings of relax as expressions of relay; ``known`` are variables that stand for
    such.
    """

    def __init__(self, known: dict[Any, Any]) -> None:
        self.known = known

    def bind(self, binding: Any) -> None:
        """Write the value of a variable."""
        if isinstance(binding, VarBinding) and binding.var not in self.known:
            self.known[binding.var] = self.of(binding.value)

    def of(self, value: Any) -> Any:
        """Return the expression of a value."""
        if isinstance(value, Var):
            return self.known[value]
        if isinstance(value, GraphCall):
            return as_relay(value, [self.of(arg) for arg in value.args])
        if isinstance(value, TupleGetItem):
            whole = self.of(value.tuple_value)
            return (
                whole.fields[value.index]
                if isinstance(whole, Tuple)
                else TupleGetItem(whole, value.index)
            )
        if isinstance(value, Tuple):
            return Tuple([self.of(field) for field in value.fields])
        return Constant(value.data, dialect="relay") if isinstance(value, Constant) else value

    def gradient(self, found: Any) -> Gradient:
        """Return a gradient that was collected."""
        if found is None:
            return None
        if isinstance(found, list):
            return [self.gradient(part) for part in found]
        written = self.of(found)
        return list(written.fields) if isinstance(written, Tuple) else written


# Operators that only relay has

_MEANINGS: dict[str, Any] = {
    f"image.resize{len(spatial)}d": lambda attrs, x, spatial=spatial: resized(
        attrs, x, attrs.size, spatial
    )
    for spatial in ("W", "DHW")
}
"""Operators of a compute of their own → what they mean in relax, whose gradient is theirs."""


def _own(name: str, gradient: Any) -> None:
    Op.get(name).set_attr("FPrimalGradient", gradient, plevel=1)


def _layout_transform(call: Call, grad: Any) -> list[Gradient]:
    attrs: Any = call.attrs
    turned = {"src_layout": attrs.dst_layout, "dst_layout": attrs.src_layout}
    return [make_call("layout_transform", [grad], turned)]


def _same_again(call: Call, grad: Any) -> list[Gradient]:
    attrs: Any = call.attrs
    rest = [None] * (len(call.args) - 1)
    return [make_call(call.op, [grad, *call.args[1:]], dict(attrs.items())), *rest]


def _sequence_mask(call: Call, grad: Any) -> list[Gradient]:
    attrs: Any = call.attrs
    given = {**dict(attrs.items()), "mask_value": 0}
    return [make_call(call.op, [grad, call.args[1]], given), None]


def _fast_exp(call: Call, grad: Any) -> list[Gradient]:
    return [make_call("multiply", [grad, make_call("exp", call.args)])]


def _fast_tanh(call: Call, grad: Any) -> list[Gradient]:
    value = make_call("tanh", call.args)
    one = constant_like(1, call.args[0])
    rest = make_call("subtract", [one, make_call("multiply", [value, value])])
    return [make_call("multiply", [grad, rest])]


def _gather_nd(call: Call, grad: Any) -> list[Gradient]:
    attrs: Any = call.attrs
    data, indices = call.args
    if attrs.batch_dims:
        raise OpNotImplemented("gather_nd has a gradient for batch_dims of 0 only", span=call.span)
    nothing = make_call("zeros_like", [data])
    return [make_call("scatter_nd", [nothing, indices, grad], {"mode": "add"}), None]


def _scatter_nd(call: Call, grad: Any) -> list[Gradient]:
    attrs: Any = call.attrs
    _, indices, updates = call.args
    to_updates = make_call("gather_nd", [grad, indices], {})
    if attrs.mode == "add":
        return [grad, None, to_updates]
    if attrs.mode != "update":
        raise OpNotImplemented(f"scatter_nd has no gradient in the mode '{attrs.mode}'")
    nothing = make_call("zeros_like", [updates])
    kept = make_call("scatter_nd", [grad, indices, nothing], {"mode": "update"})
    return [kept, None, to_updates]


_own("layout_transform", _layout_transform)
_own("reverse_sequence", _same_again)
_own("sequence_mask", _sequence_mask)
_own("fast_exp", _fast_exp)
_own("fast_tanh", _fast_tanh)
_own("gather_nd", _gather_nd)
_own("scatter_nd", _scatter_nd)
for _name in ("unravel_index", "ndarray_size", "invert_permutation"):
    _own(_name, lambda call, grad: [None] * len(call.args))
