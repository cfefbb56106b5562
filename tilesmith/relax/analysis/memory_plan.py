"""Plans offsets of intermediate values in one workspace, shared where live ranges do not overlap.

`plan_memory` plans a graph as users write it, for estimates; `assign_offsets` places the values of
any plan, for ``StaticPlanBlockMemory`` as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilesmith.ir import IRModule
from tilesmith.relax.analysis.live_ranges import live_ranges, origin_of
from tilesmith.relax.analysis.queries import tensor_bytes
from tilesmith.relax.expr import Call, Function, Var, known_struct_info
from tilesmith.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.support.memory_planner import Allocation, plan_offsets
from tilesmith.tir.transform.options import memory_algorithm

__all__ = [
    "ALIGNMENT",
    "MemoryPlan",
    "PlannedValue",
    "assign_offsets",
    "estimate_memory_usage",
    "plan_memory",
]

ALIGNMENT = 64


@dataclass(slots=True)
class PlannedValue:
    """A tensor that the function computes: its variable (``field`` selects one of a tuple), its
    bytes, its live range (first and last binding) and its offset.
    """

    var: Var
    field: int
    info: StructInfo
    nbytes: int
    first: int
    last: int
    offset: int = -1


@dataclass(slots=True)
class MemoryPlan:
    """The offsets of all intermediate tensors of known size of a function."""

    values: list[PlannedValue] = field(default_factory=list)
    workspace_bytes: int = 0
    dynamic: int = 0
    outputs: list[Var] = field(default_factory=list)

    @property
    def unshared_bytes(self) -> int:
        """The bytes needed if no two values shared memory."""
        return sum([-(-value.nbytes // ALIGNMENT) * ALIGNMENT for value in self.values])

    def offset_of(self, var: Var, number: int = 0) -> int:
        """Return the offset of a value in the workspace."""
        for value in self.values:
            if value.var is var and value.field == number:
                return value.offset
        raise KeyError(var.name_hint)


def assign_offsets(values: Sequence[PlannedValue]) -> int:
    """Give each value an offset so that values alive together do not overlap; return the bytes
    needed.
    """
    allocations = [Allocation(value.nbytes, ((value.first, value.last),)) for value in values]
    plan = plan_offsets(allocations, ALIGNMENT, memory_algorithm())
    for value, offset in zip(values, plan.offsets):
        value.offset = offset
    return plan.total


def plan_memory(function: Function) -> MemoryPlan:
    """Plan the memory of a function without branches. Its results are not in the workspace."""
    plan = MemoryPlan()
    graph = live_ranges(function)
    for binding in graph.bindings:
        if not isinstance(binding.value, Call) or not origin_of(binding.value).is_new:
            continue
        if binding.var in graph.escaping:
            plan.outputs.append(binding.var)
            continue
        info = known_struct_info(binding.var)
        fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
        first, last = graph.steps_of(binding.var)
        for number, part in enumerate(fields):
            if not isinstance(part, TensorStructInfo):
                continue
            nbytes = tensor_bytes(part)
            if nbytes is None:
                plan.dynamic += 1
                continue
            plan.values.append(PlannedValue(binding.var, number, part, nbytes, first, last))
    plan.workspace_bytes = assign_offsets(plan.values)
    return plan


def estimate_memory_usage(mod: IRModule) -> str:
    """Return a text with each function's bytes of intermediate values, without and with sharing."""
    lines = ["Memory usage estimation:"]
    for name, function in mod.functions.items():
        if not isinstance(function, Function) or function.body is None:
            continue
        plan = plan_memory(function)
        lines.append(
            f" * {name.name_hint}: {len(plan.values)} intermediate tensors of "
            f"{plan.unshared_bytes} bytes, "
            f"{plan.dynamic} of unknown size; with sharing {plan.workspace_bytes} bytes"
        )
    return "\n".join(lines)
