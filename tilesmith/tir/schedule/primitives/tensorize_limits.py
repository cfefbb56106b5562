"""Narrows the sizes that an implementation of a tensor intrinsic handles to what is in the buffers.

A loop over tiles may go beyond the end of a buffer (``split(..., disable_predication=True)``). An
implementation that can handle a part of its tile binds sizes to variables, and its attribute
`LIMITS` says which axes of its buffers limit each. ``tensorize`` knows where the tile begins:

    T.func_attr({LIMITS: {"rows": (("A", 0),)}})
    with T.block("root"):
        rows: T.int32 = 8
  tensorized, where A is X[i * 8 : i * 8 + 8] and X has 30 elements:
    with T.block():
        A = T.match_buffer(X[i * 8 : i * 8 + 8], ...)
        rows: T.int32 = T.max(T.min(8, 30 - i * 8), 0)

A size that provably is inside stays as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr, const
from tilesmith.ir.operators import maximum, minimum
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import LetStmt, Stmt

__all__ = ["LIMITS", "narrowed"]

LIMITS = "tensorize.limits"
"""The attribute: for each variable the pairs (name of a buffer, axis) that limit it."""


def narrowed(
    impl: PrimFunc, body: Stmt, left: Mapping[str, list[PrimExpr]], analyzer: Analyzer
) -> Stmt:
    """Narrow the variables that begin ``body``. ``left``: for each buffer of the implementation the
    number of elements from the start of its region to the end of the buffer, by axis.
    """
    limits: dict[str, Any] = dict(impl.attrs.get(LIMITS, {}))
    return _narrowed(body, limits, left, analyzer) if limits else body


def _narrowed(
    body: Stmt,
    limits: dict[str, Any],
    left: Mapping[str, list[PrimExpr]],
    analyzer: Analyzer,
) -> Stmt:
    if not limits:
        return body
    if not isinstance(body, LetStmt):
        raise ScheduleError(
            f"the implementation of a tensor intrinsic limits {', '.join(sorted(limits))}, which "
            "its root block does not bind at its beginning"
        )
    value, dtype = body.value, body.var.dtype
    for name, axis in limits.pop(body.var.name, ()):
        if name not in left or not 0 <= int(axis) < len(left[name]):
            raise ScheduleError(
                f"axis {axis} of '{name}' limits '{body.var.name}' in the implementation of a "
                "tensor intrinsic, which has no such buffer or axis"
            )
        rest = analyzer.simplify(left[name][int(axis)].astype(dtype))
        if not analyzer.can_prove(value <= rest):
            value = minimum(value, rest)
    if value is not body.value:
        value = maximum(value, const(0, dtype))
    inner = _narrowed(body.body, limits, left, analyzer)
    return body.with_fields(value=value, body=inner)
