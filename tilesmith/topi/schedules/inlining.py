"""Chooses which stages are written where they are read, and which are computed before.

Inlining saves memory traffic and costs work where an element is read several times. So a stage is
inlined unless it is

- an output, a reduction, or read by what is no expression (an extern operation, a scan),
- expensive (``exp``, …) and each element read more than once,
- read by a product: each element ``REUSED`` times or more,
- padding (``if_then_else``) of a window that reads elements several times: conditions in the
  innermost loop keep it from vectors,
- so large that the expressions of its readers would explode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilesmith.ir import Node
from tilesmith.ir.queries import nodes
from tilesmith.te import ComputeOp, Operation
from tilesmith.tir.expr import ProducerLoad
from tilesmith.topi.schedules.program import (
    Program,
    is_expensive,
    is_guarded,
    is_plain,
    is_reduction,
    size,
)

__all__ = ["REUSED", "Policy", "inline_where_useful"]

REUSED = 4
"""So many reads of each element pay for computing it before."""

_LARGEST = 400
_DEEPEST = 64


@dataclass(frozen=True)
class Policy:
    """When elements that are read several times are computed before they are read."""

    reused: float = REUSED
    padding: float = 1.0
    """Reads of each padded element from which on padding is a stage of its own."""
    expensive: float = 1.0


@dataclass
class _Use:
    """How often a stage is read, what inlining costs."""

    evaluations: float = 0.0
    """How many elements are computed if it is inlined."""
    occurrences: int = 0
    """How often its expression would be written."""
    depth: int = 0


def inline_where_useful(program: Program, policy: Policy = Policy()) -> None:
    """Inline the stages for which that saves time; the readers of each are decided before it."""
    uses: dict[Operation, _Use] = {}
    for op in reversed(program.ops):
        if not is_plain(op) or op in program.outputs or op in program.inlined:
            continue
        readers = program.readers[op]
        if not readers or not all(isinstance(reader, ComputeOp) for reader in readers):
            continue
        use = _use(program, op, uses)
        if _pays(program, op, use, policy):
            uses[op] = use
            program.inline(op)


def _use(program: Program, op: ComputeOp, uses: dict[Operation, _Use]) -> _Use:
    use = _Use()
    for reader in program.readers[op]:
        if not isinstance(reader, ComputeOp):
            continue
        producers: list[Any] = [load.producer for load in nodes(reader.body, ProducerLoad)]
        count = sum(producer.op is op for producer in producers)
        outer = uses.get(reader)
        if outer is None:
            use.evaluations += size(reader.root_iter_vars) * count
            use.occurrences += count
        else:
            use.evaluations += outer.evaluations * count
            use.occurrences += outer.occurrences * count
            use.depth = max(use.depth, outer.depth)
    use.depth += 1
    return use


def _pays(program: Program, op: ComputeOp, use: _Use, policy: Policy) -> bool:
    length = sum(1 for _ in nodes(op.body, Node))
    if use.occurrences * length > _LARGEST and use.occurrences > 1 or use.depth > _DEEPEST:
        return False
    reads = use.evaluations / max(size(op.axis), 1)
    into_reduction = any(is_reduction(reader) for reader in program.final_readers(op))
    if is_expensive(op) and reads > policy.expensive:
        return False
    if into_reduction and is_guarded(op) and reads > policy.padding:
        return False
    return not (into_reduction and reads >= policy.reused)
