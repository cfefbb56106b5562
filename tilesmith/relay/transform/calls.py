"""What rules of passes ask about calls of operators, and make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IRModule, Op
from tilesmith.relay.expr import Call, Constant, const
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.view import make_call
from tilesmith.relay.rewriting import rewrite_typed
from tilesmith.relay.ty import TensorType, is_dynamic
from tilesmith.relay.walks import functions_of, is_closed

__all__ = [
    "attrs_of", "constant_array", "dtype_of", "is_call", "make", "rewrite_functions", "scalar",
    "shape_of", "uniform_value",
]  # fmt: skip

_LARGEST = 4096


def make(name: str, *args: Any, **attrs: Any) -> Call:
    """Make a call of a relay operator."""
    return make_call(name, args, attrs)


def is_call(node: Any, *names: str) -> bool:
    """Return whether a node is a call of one of some operators (of any, without names)."""
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return False
    return not names or node.op.name in names


def attrs_of(call: Call) -> dict[str, Any]:
    """Return the attributes of a call."""
    return {} if call.attrs is None else dict(call.attrs.items())


def shape_of(node: Any) -> tuple[int, ...] | None:
    """Return the sizes of a tensor, if all are known."""
    type_ = node.checked_type
    if not isinstance(type_, TensorType) or is_dynamic(type_):
        return None
    return tuple(type_.concrete_shape)


def dtype_of(node: Any) -> Any:
    """Return the dtype of a tensor, None for anything else."""
    type_ = node.checked_type
    return type_.dtype if isinstance(type_, TensorType) else None


def constant_array(node: Any) -> Any:
    """Return the elements of a constant, None for anything else."""
    return node.data.numpy_view() if isinstance(node, Constant) else None


def uniform_value(node: Any) -> Any:
    """Return the one value that all elements of a tensor have, if that is known."""
    if isinstance(node, Constant) and 0 < node.data.size <= _LARGEST:
        array = node.data.numpy()
        return array.flat[0] if bool((array == array.flat[0]).all()) else None
    if is_call(node, "zeros", "zeros_like"):
        return 0
    if is_call(node, "ones", "ones_like"):
        return 1
    if is_call(node, "full", "full_like"):
        return uniform_value(node.args[-1])
    return None


def scalar(value: Any, like: Any) -> Constant:
    """Return a number as a constant in the dtype of a tensor."""
    return const(numpy.asarray(value), str(dtype_of(like)))


def rewrite_functions(mod: IRModule, change: Callable[[Any], Any]) -> IRModule:
    """Return a module with ``change``, which keeps types, applied to each expression; the types of
    operands are known. Functions for code generators are left alone.
    """
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        if not is_closed(function):
            mod[variable] = rewrite_typed(function, change)
    return mod
