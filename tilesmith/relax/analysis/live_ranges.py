"""Computes live ranges of a graph function: which variables own memory, and when it is needed.

    lv = R.add(x, x)              0     lv is alive from 0 to 2, through its view v
    v = R.reshape(lv, (4, 1))     1
    gv = R.exp(v)                 2     gv outlives the function
    return gv

A step is the number of a binding at the top level of the function.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilesmith.ir import GlobalVar, Op
from tilesmith.relax import op as operators
from tilesmith.relax.analysis.variables import used_vars
from tilesmith.relax.expr import (
    Binding,
    Call,
    ExternFunc,
    Function,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import FuncStructInfo, ObjectStructInfo
from tilesmith.support.memory_planner import LiveRanges

__all__ = ["GraphRanges", "Origin", "live_ranges", "origin_of"]

_CALL_TIR_INPLACE = operators.call_tir_inplace.op


@dataclass(slots=True)
class Origin:
    """Whose memory the value of a binding may use.

    ``is_new``: new memory; ``views``: the memory of these variables. ``kept`` are variables passed
    to a function that may hold on to them.
    """

    is_new: bool
    views: list[Var] = field(default_factory=list)
    kept: list[Var] = field(default_factory=list)


def origin_of(value: Any) -> Origin:
    """Return whose memory a value may use, judged from the expression alone."""
    if isinstance(value, (Var, Tuple, TupleGetItem, If, SeqExpr, Function)):
        return Origin(False, used_vars(value))
    if not isinstance(value, Call):
        return Origin(True)
    if value.op is _CALL_TIR_INPLACE:
        places = [int(place) for place in value.attrs["inplace_indices"]]
        given = value.args[1]
        fields = given.fields if isinstance(given, Tuple) else [given] * (max(places) + 1)
        views = [var for place in places if place >= 0 for var in used_vars(fields[place])]
        return Origin(any(place < 0 for place in places), views)
    spec = value.op.spec if isinstance(value.op, Op) else None
    if spec is not None and (spec.view_of is not None or spec.is_identity):
        return Origin(False, used_vars(value.args[spec.view_of or 0]))
    reached = [var for arg in value.args for var in used_vars(arg)]
    if isinstance(value.op, Op):
        if spec is not None and spec.execution is Execution.CALL_DPS_PACKED:
            return Origin(True)  # the called function gets tensors of its own
        if not any(_is_opaque(part) for part in (value, *value.args)):
            return Origin(True)
    # An opaque callee may return one of its arguments; a registered function may
    # also keep a reference to it.
    is_registered = any(isinstance(part, ExternFunc) for part in (value.op, *value.args))
    return Origin(True, reached, reached if is_registered else [])


def _is_opaque(expr: Any) -> bool:
    if isinstance(expr, GlobalVar):
        return False
    info = getattr(expr, "struct_info", None)
    return isinstance(expr, ExternFunc) or isinstance(info, (FuncStructInfo, ObjectStructInfo))


@dataclass(slots=True)
class GraphRanges:
    """The steps of a function, the live ranges of its variables, and the values that outlive it."""

    bindings: list[Binding]
    ranges: LiveRanges[Var]
    escaping: set[Var]  # roots that are results, or that a callee may keep

    def steps_of(self, var: Var) -> tuple[int, int]:
        """Return the first and last step in which the memory of a root is needed."""
        ((first, last),) = self.ranges.of(var)
        return first, last


def live_ranges(function: Function) -> GraphRanges:
    """Compute the live ranges of all variables that a function binds outside branches."""
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    ranges: LiveRanges[Var] = LiveRanges()
    kept: list[Var] = []
    for step, binding in enumerate(bindings):
        for var in used_vars(binding.value):
            ranges.use(var, step)
        origin = origin_of(binding.value)
        if origin.views:
            ranges.view(binding.var, [*origin.views, *([binding.var] if origin.is_new else ())])
        ranges.use(binding.var, step)
        kept += origin.kept
    results = used_vars(function.body.body)
    for var in results:
        ranges.use(var, len(bindings))
    return GraphRanges(bindings, ranges, set(ranges.roots([*kept, *results])))
