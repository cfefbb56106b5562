"""Scans in a schedule: a loop over the time around the stages that compute a row.

state[0, i] = X[0, i]                          the initial stages
for t in range(m - 1):
    state[t + 1, i] = state[t, i] + X[t + 1, i]

The initial rows, the updates and the states live in the memory of the scan's results. Threads of
``env_threads`` are launched around all of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilesmith.arith import Analyzer, IntervalSet, IntSet
from tilesmith.ir import Var, const
from tilesmith.te.schedule.loop_nest import LoopNest
from tilesmith.te.schedule.message_passing import pass_down_marks, thread_of
from tilesmith.te.schedule.operations.extern import whole_ranges
from tilesmith.te.schedule.operations.rules import (
    OPERATIONS,
    Bounds,
    OperationRules,
    Placement,
    Regions,
)
from tilesmith.te.schedule.refusals import describe, refuse
from tilesmith.te.schedule.stage import Stage
from tilesmith.te.tensor import ScanOp, Tensor
from tilesmith.tir.expr import IterVar
from tilesmith.tir.stmt import ProducerRealize, Stmt, stmt_seq

__all__: list[str] = []


def _rows(op: ScanOp) -> list[tuple[Tensor, Tensor, tuple[IterVar, ...]]]:
    """Return for each state its initial tensor, its update and the axes of one row."""
    found = []
    first = 0
    for init, update in zip(op.init, op.update):
        count = update.ndim - 1
        found.append((init, update, op.spatial_axis_[first : first + count]))
        first += count
    return found


def _reads(op: ScanOp, sets: Mapping[Var, IntervalSet], analyzer: Analyzer) -> Regions:
    boxes: Regions = {}
    time = op.scan_axis.var
    for init, update, axes in _rows(op):
        row = [sets.get(axis.var, IntSet.from_range(axis.domain)) for axis in axes]
        boxes[init] = [IntSet.from_range(one) for one in whole_ranges(init)]
        boxes[update] = [sets.get(time, IntSet.single_point(time)), *row]
    return boxes


def _domains(op: ScanOp, needed: Regions, analyzer: Analyzer) -> Bounds:
    return {axis: axis.domain for axis in op.root_iter_vars}


def _realize(stage: Stage, bounds: Bounds, body: Stmt, scope: str) -> Stmt:
    for number in reversed(range(stage.op.num_outputs)):
        tensor = stage.op.output(number)
        ranges = whole_ranges(tensor)
        body = ProducerRealize(tensor, ranges, const(True, "bool"), body, scope)
    return body


def _provide(stage: Stage, bounds: Bounds, placement: Placement) -> Stmt:
    _check_order(stage)
    threads = len(stage.env_thread_axes)  # the outermost leaves
    nest = LoopNest(stage, bounds, placement.keep_trivial_loops)
    steps = nest.wrap(stmt_seq(), placement.at, start=threads)
    body = stmt_seq(placement.before_scan(stmt_seq()), steps)
    return nest.wrap(body, placement.at, end=threads)


def _check_order(stage: Stage) -> None:
    """Refuse a schedule that does not keep the order of the rows."""
    marks = {stage.op.scan_axis: 1}
    pass_down_marks(stage, marks)
    for axis in stage.leaf_iter_vars:
        found = stage.iter_var_attrs.get(axis)
        if not marks.get(axis):
            continue
        kind = None if found is None else found.iter_type
        if kind in (IterVar.Vectorized, IterVar.Parallelized) or thread_of(stage, axis):
            raise refuse(
                "scan", stage, f"{describe(axis)} runs in the order of the time: each row needs "
                "the one before it",
                axis, "schedule the loops of the update stage instead",
            )  # fmt: skip


def _aliases(op: ScanOp) -> dict[Tensor, Tensor]:
    found: dict[Tensor, Tensor] = {}
    for number, (init, update, _) in enumerate(_rows(op)):
        for tensor in (init, update, op.state_placeholder[number]):
            found[tensor] = op.output(number)
    return found


OPERATIONS.handles(ScanOp)(OperationRules(_reads, _domains, _realize, _provide, _aliases))
