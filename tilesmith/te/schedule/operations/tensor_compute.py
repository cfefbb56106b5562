"""Computations of tensor intrinsics in a schedule: ``te.compute`` whose function calls one.

B = te.compute((4, 16), lambda i: copy16(A[i, 0:16]))

for i in range(4):
    b is B[i, 0:16], a is A[i, 0:16]: the statement of copy16
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilesmith.arith import Analyzer, IntervalSet, IntSet, eval_set
from tilesmith.arith import union as united
from tilesmith.ir import Range, Var, const
from tilesmith.te.schedule.loop_nest import LoopNest
from tilesmith.te.schedule.operations.compute import box_domains, read_boxes, realize_outputs
from tilesmith.te.schedule.operations.rules import (
    OPERATIONS,
    Bounds,
    OperationRules,
    Placement,
    Regions,
)
from tilesmith.te.schedule.operations.tensor_matching import Part
from tilesmith.te.schedule.operations.tensorize import IntrinsicCalls, bound_parts
from tilesmith.te.schedule.stage import Stage
from tilesmith.te.tensor import TensorComputeOp
from tilesmith.te.tensor_intrin import TensorIntrin
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import LetStmt, Stmt

__all__: list[str] = []


class _Applied(IntrinsicCalls):
    """The calls of ``te.compute`` with a tensor intrinsic."""

    def __init__(self, stage: Stage, bounds: Bounds, placement: Placement) -> None:
        super().__init__(stage, bounds, placement, len(stage.leaf_iter_vars))

    def outputs(self, nest: LoopNest) -> list[Part]:
        op, values = self.stage.op, nest.substitution()
        ranges = []
        for number, axis in enumerate(op.axis):
            if number < op.schedulable_ndim:
                value = values.get(axis.var, axis.var)
                ranges.append(Range.from_min_extent(value, const(1, value.dtype)))
            else:
                ranges.append(axis.domain)
        return [(op.output(k), ranges) for k in range(op.num_outputs)]

    def parts(self) -> list[Part]:
        op, values = self.stage.op, self.nest.substitution()
        inputs = [
            (tensor, list(substitute(list(region), values)))
            for tensor, region in zip(op.inputs, op.input_regions)
        ]
        return [*inputs, *self.outputs(self.nest)]

    def statement(self, intrin: TensorIntrin, statement: Stmt, parts: Sequence[Part]) -> Stmt:
        body = bound_parts(intrin, statement, parts)
        values = self.nest.substitution()
        given = zip(intrin.scalar_params, self.stage.op.scalar_inputs)
        for parameter, value in reversed(list(given)):
            body = LetStmt(parameter, substitute(value, values).astype(parameter.dtype), body)
        return body


def _reads(op: TensorComputeOp, sets: Mapping[Var, IntervalSet], analyzer: Analyzer) -> Regions:
    boxes = dict(read_boxes(op.scalar_inputs, sets, analyzer)) if op.scalar_inputs else {}
    for tensor, region in zip(op.inputs, op.input_regions):
        box = []
        for one in region:
            low = eval_set(one.min, sets, analyzer)
            high = eval_set(one.min + one.extent - 1, sets, analyzer)
            box.append(IntSet.interval(low.min_value, high.max_value))
        if tensor in boxes:
            box = [united(both, analyzer) for both in zip(boxes[tensor], box)]
        boxes[tensor] = box
    return boxes


def _domains(op: TensorComputeOp, needed: Regions, analyzer: Analyzer) -> Bounds:
    found = box_domains(op.axis, needed, analyzer)
    inner = op.axis[op.schedulable_ndim :]
    found.update({axis: axis.domain for axis in (*inner, *op.reduce_axis)})
    return found


def _provide(stage: Stage, bounds: Bounds, placement: Placement) -> Stmt:
    return _Applied(stage, bounds, placement).write(stage.op.intrin)


OPERATIONS.handles(TensorComputeOp)(OperationRules(_reads, _domains, realize_outputs, _provide))
