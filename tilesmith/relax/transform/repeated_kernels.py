"""Calls of kernels that a pass makes from functions of topi: equal ones are made once.

Networks repeat their layers. To make the PrimFunc of a layer and find that the module has an equal
one takes longer than to see that the same function gets operands of the same shapes and dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Call, RelaxExpr, Tuple, known_struct_info
from tilesmith.relax.relations import sizes_of
from tilesmith.relax.struct_info import TensorStructInfo

__all__ = ["RepeatedKernels"]


class RepeatedKernels:
    """Makes calls as `BlockBuilder.call_te` does, of functions whose results depend on their
    arguments alone.
    """

    def __init__(self, builder: BlockBuilder) -> None:
        self._builder = builder
        self._made: dict[Any, Call] = {}

    def call_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
        """Return a call of the PrimFunc of ``func`` for graph arguments."""
        tensors: list[RelaxExpr] = []
        try:
            key = (func, _key([args, kwargs], tensors))
        except _NotKnownError:
            return self._builder.call_te(func, *args, **kwargs)
        equal = self._made.get(key)
        if equal is not None:
            return Call(equal.op, [equal.args[0], Tuple(tensors)], None, equal.sinfo_args)
        made = self._made[key] = self._builder.call_te(func, *args, **kwargs)
        return made


class _NotKnownError(Exception):
    """An argument cannot be part of a key: a symbolic size, something else than a tensor."""


def _key(value: Any, tensors: list[RelaxExpr]) -> Any:
    """Return what decides which PrimFunc is made for arguments; ``tensors`` gets their tensors, in
    the order in which the PrimFunc takes them.
    """
    if isinstance(value, (list, tuple)):
        return (type(value), tuple([_key(item, tensors) for item in value]))
    if isinstance(value, dict):
        return tuple([(name, _key(item, tensors)) for name, item in value.items()])
    if value is None or isinstance(value, (str, int, float)):
        return (type(value), repr(value))
    info = known_struct_info(value) if isinstance(value, RelaxExpr) else None
    sizes = sizes_of(info) if isinstance(info, TensorStructInfo) else None
    known = [(str(size.dtype), size.value) for size in sizes or () if isinstance(size, IntImm)]
    if not isinstance(info, TensorStructInfo) or sizes is None or len(known) != len(sizes):
        raise _NotKnownError
    tensors.append(value)
    return (tuple(known), str(info.dtype))
