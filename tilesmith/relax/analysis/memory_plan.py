"""Where intermediate values live: offsets in one workspace, shared by values that never live
together.

The plan is the data that the executor's ``main`` and ``StaticPlanBlockMemory`` are made from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilesmith.relax.analysis.queries import tensor_bytes
from tilesmith.relax.analysis.variables import used_vars
from tilesmith.relax.expr import (
    Binding,
    Call,
    Function,
    If,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo

__all__ = ["MemoryPlan", "PlannedValue", "place", "plan_memory"]

ALIGNMENT = 64


@dataclass(slots=True)
class PlannedValue:
    """A tensor that the function computes: ``var`` (``field``: which one of a tuple), its bytes,
    the
    first and last binding at which it lives, and its place."""

    var: Var
    field: int
    info: Any
    nbytes: int
    first: int
    last: int
    offset: int = -1


@dataclass(slots=True)
class MemoryPlan:
    """The places of all intermediate tensors of known size of a function."""

    values: list[PlannedValue] = field(default_factory=list)
    workspace_bytes: int = 0
    dynamic: int = 0
    outputs: list[Var] = field(default_factory=list)

    @property
    def unshared_bytes(self) -> int:
        """The bytes that the values would need if none shared its place."""
        return sum([_aligned(value.nbytes) for value in self.values])

    def offset_of(self, var: Var, number: int = 0) -> int:
        """The offset of a value in the workspace."""
        for value in self.values:
            if value.var is var and value.field == number:
                return value.offset
        raise KeyError(var.name_hint)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def place(values: list[PlannedValue]) -> int:
    """Give each value an offset so that values that live together do not overlap; the bytes needed.

    The largest first, each in the smallest gap that is free during its life.
    """
    placed: list[PlannedValue] = []
    total = 0
    for value in sorted(values, key=lambda item: (-item.nbytes, item.first)):
        others = sorted(
            [other for other in placed if other.first <= value.last and value.first <= other.last],
            key=lambda item: item.offset,
        )
        best, best_gap, end = -1, 0, 0
        need = _aligned(value.nbytes)
        for other in others:
            gap = other.offset - end
            if gap >= need and (best == -1 or gap < best_gap):
                best, best_gap = end, gap
            end = max(end, other.offset + _aligned(other.nbytes))
        value.offset = end if best == -1 else best
        total = max(total, value.offset + need)
        placed.append(value)
    return total


def _allocates(value: Any) -> bool:
    """Whether a binding makes a new tensor (and does not only give another one a name)."""
    return isinstance(value, Call)


def _flat_bindings(function: Function) -> list[Binding]:
    return [binding for block in function.body.blocks for binding in block.bindings]


def plan_memory(function: Function) -> MemoryPlan:
    """The plan of a function without branches. Results of the function are not in the workspace."""
    plan = MemoryPlan()
    bindings = _flat_bindings(function)
    source: dict[Var, list[Var]] = {}  # the variables whose memory a variable may be
    last: dict[Var, int] = {}
    for index, binding in enumerate(bindings):
        value = binding.value
        reads = used_vars(value)
        roots = [root for var in reads for root in source.get(var, [var])]
        for root in roots:
            last[root] = index
        shares = isinstance(value, (Var, Tuple, TupleGetItem, If))
        source[binding.var] = roots if shares else [binding.var]
    escaping = {root for var in used_vars(function.body.body) for root in source.get(var, [var])}
    for index, binding in enumerate(bindings):
        if not _allocates(binding.value):
            continue
        if binding.var in escaping:
            plan.outputs.append(binding.var)
            continue
        info = known_struct_info(binding.var)
        fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
        for number, part in enumerate(fields):
            if not isinstance(part, TensorStructInfo):
                continue
            nbytes = tensor_bytes(part)
            if nbytes is None:
                plan.dynamic += 1
                continue
            end = last.get(binding.var, index)
            plan.values.append(PlannedValue(binding.var, number, part, nbytes, index, end))
    plan.workspace_bytes = place(plan.values)
    return plan
