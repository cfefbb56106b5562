"""DynamicToStatic: operators of computed sizes become static ones where the sizes are known."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IRModule, Op
from tilesmith.relay.expr import Call, Constant, Tuple, TupleGetItem, const
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.dyn.declaration import static_form
from tilesmith.relay.rewriting import with_type_of
from tilesmith.relay.transform.calls import is_call, shape_of
from tilesmith.relay.transform.fold_constant import folded_call
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.ty import is_dynamic
from tilesmith.relay.walks import functions_of, is_closed, parts, post_order, with_parts

__all__ = ["DynamicToStatic"]


class _Values:
    """Finds out what expressions that state sizes are, each part once."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}
        self.seen: list[Any] = []  # keeps alive what is known by its identity

    def of(self, expr: Any) -> Any:
        """Return a constant for an expression whose value is known, else an expression."""
        for node in post_order(expr, self._is_open):
            if id(node) not in self.known:
                new = with_parts(node, [self.known.get(id(one), one) for one in parts(node)])
                self.known[id(node)] = self._value(node, with_type_of(node, new))
                self.seen.append(node)
        return self.known[id(expr)]

    def _is_open(self, node: Any) -> bool:
        return id(node) not in self.known and not is_call(node, *_OF_SHAPES)

    def _value(self, old: Any, node: Any) -> Any:
        if is_call(node, *_OF_SHAPES):
            shape = shape_of(old.args[0])
            if shape is None:
                return node
            found: Any = shape if node.op.name != "ndarray_size" else numpy.prod(shape, dtype=int)
            return const(numpy.asarray(found, node.attrs.dtype.numpy()))
        if isinstance(node, Call):
            return folded_call(node)
        if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple):
            return node.tuple_value.fields[node.index]
        return node


_OF_SHAPES = ("shape_of", "vm.shape_of", "ndarray_size")


def _is_dynamic(node: Any) -> bool:
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return False
    at: Any = getattr(node.op.spec, "at_run_time", None)
    return at is not None and bool(at.places)


def _static(call: Call, values: _Values) -> Any:
    """Return the static form of a call whose sizes are known, or the call."""
    at: Any = call.op.spec.at_run_time
    args = list(call.args)
    for place in at.places:
        args[place] = values.of(args[place])
        if not isinstance(args[place], Constant):
            return call
    return static_form(call.with_fields(args=args))


def _rewritten(function: Any) -> Any:
    """Return a function with static operators; types are found on the way, as those of operands
    decide what is known next.
    """
    values = _Values()
    done: dict[int, Any] = {}
    for node in post_order(function, lambda one: not is_closed(one)):
        if is_closed(node):
            done[id(node)] = node
            continue
        new = with_parts(node, [done[id(part)] for part in parts(node)])
        if _is_dynamic(new):
            new = _static(new, values)
        by_parts = isinstance(new, (Tuple, TupleGetItem))
        by_record = isinstance(new, Call) and isinstance(new.op, Op)
        done[id(node)] = new if by_parts or by_record else with_type_of(node, new)
    return done[id(function)]


@relay_pass("DynamicToStatic", 2, ["InferType"])
def DynamicToStatic(mod: IRModule) -> IRModule:
    """Let operators of ``relay.dyn`` whose sizes are constants, after folding and by the shapes
    that are known, be static ones: ``dyn.reshape(x, const)`` becomes ``reshape(x, newshape=...)``.
    """
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        if is_closed(function):
            continue
        changed = _rewritten(function)
        if changed is not function:
            known = changed.ret_type
            is_open = known is not None and is_dynamic(known)
            mod[variable] = changed.with_fields(ret_type=None) if is_open else changed
    return infer_module(mod)
