"""Type relations that operators of a program's own can name: ``op.add_type_rel("Identity")``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import IntImm, const
from tilesmith.relax.relations import prove_equal
from tilesmith.relay.ty import TensorType
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import ShapeError

__all__ = ["broadcast", "broadcast_comp", "identity"]


@register_func("tvm.relay.type_relation.Identity")
def identity(types: Sequence[Any], attrs: Any) -> Any:
    """Return the type of the first argument."""
    return types[0]


@register_func("tvm.relay.type_relation.Broadcast")
def broadcast(types: Sequence[Any], attrs: Any) -> TensorType:
    """Return the type of an operator that repeats elements of two tensors to a common shape."""
    first, second = types
    long, short = list(first.shape), list(second.shape)
    if len(long) < len(short):
        long, short = short, long
    short = [const(1, "int32")] * (len(long) - len(short)) + short
    return TensorType([_common(a, b) for a, b in zip(long, short)], first.dtype)


@register_func("tvm.relay.type_relation.BroadcastComp")
def broadcast_comp(types: Sequence[Any], attrs: Any) -> TensorType:
    """Return the type of an operator that compares two tensors, repeated to a common shape."""
    return TensorType(broadcast(types, attrs).shape, "bool")


def _common(a: Any, b: Any) -> Any:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, IntImm) and one.value == 1:
            return other
    if not prove_equal(a, b):
        raise ShapeError(f"sizes {a} and {b} have no common shape")
    return a
