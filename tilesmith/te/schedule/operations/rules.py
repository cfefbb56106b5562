"""The interface between schedules and kinds of operations: what each kind tells of itself.

    OPERATIONS.handles(ComputeOp)(OperationRules(reads, domains, realize, provide))

Bound inference asks, from the consumers up, which parts of its inputs an operation reads (`reads`)
and over which domains its axes run when some parts of its outputs are needed (`domains`). Writing
the loops asks for the memory of the outputs (`realize`) and the statement that computes them
(`provide`). A kind of operation is a file with these functions and one entry in the table.

Values and counters. The variable of a root axis (``op.root_iter_vars``) stands for its value, from
``bounds[axis].min`` on. The variable of a leaf, a loop, counts from 0; only a root axis that is a
leaf may begin elsewhere, and is then counted by a variable of its own (``Schedule.normalize``
leaves no such axes). ``message_passing`` goes from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tilesmith.arith import Analyzer, IntervalSet
from tilesmith.ir import Range, Var
from tilesmith.ir.rules import NodeRules
from tilesmith.te.schedule.stage import Stage
from tilesmith.te.tensor import Operation, Tensor
from tilesmith.tir.expr import IterVar
from tilesmith.tir.stmt import Stmt

__all__ = [
    "OPERATIONS", "Bounds", "OperationRules", "Placement", "Regions", "no_aliases",
]  # fmt: skip

Bounds = dict[IterVar, Range]
"""The ranges of all axes of a schedule: roots, what became of them, threads."""

Regions = dict[Tensor, list[IntervalSet]]
"""A box of some tensors: an interval for each dimension."""


class Placement(Protocol):
    """Where other stages are computed inside of the statement of a stage."""

    keep_trivial_loops: bool
    """True if loops of one iteration are written as loops."""

    def at(self, axis: IterVar, body: Stmt) -> Stmt:
        """Return the body of the loop of a leaf, with the stages that are computed there before
        it. `provide` calls this once for each leaf, from the innermost one outwards.
        """
        ...

    def before_scan(self, body: Stmt) -> Stmt:
        """Return a statement with the initial stages of the scan before it (scans only)."""
        ...


def no_aliases(op: Operation) -> dict[Tensor, Tensor]:
    """Return that each tensor of an operation has memory of its own."""
    return {}


@dataclass(frozen=True)
class OperationRules:
    """What a kind of operation tells of itself."""

    reads: Callable[[Any, Mapping[Var, IntervalSet], Analyzer], Regions]
    """``reads(op, sets, analyzer)``: the boxes of the input tensors that are read while the
    variables of the root axes take the values of their sets (a variable without one is fixed)."""

    domains: Callable[[Any, Regions, Analyzer], Bounds]
    """``domains(op, needed, analyzer)``: the ranges of the root axes from the boxes of the outputs
    that are needed (none for an output that nobody reads)."""

    realize: Callable[[Stage, Bounds, Stmt, str], Stmt]
    """``realize(stage, bounds, body, scope)``: ``body`` with memory for the outputs around it."""

    provide: Callable[[Stage, Bounds, Placement], Stmt]
    """``provide(stage, bounds, placement)``: the loops that compute the outputs."""

    aliases: Callable[[Any], dict[Tensor, Tensor]] = no_aliases
    """``aliases(op)``: tensors that live in the memory of an output of the operation, as the
    states of a scan do. Stages that make such tensors get no memory."""


OPERATIONS: NodeRules[OperationRules] = NodeRules("classic schedules of operations")
