"""Tensorized loops in a schedule: calls of a tensor intrinsic in their place.

for x, yo: for yi: for k: C[x, yo*16 + yi] += …      tensorize(yi, gemv)
→
for x, yo: c is C[x, yo*16:+16], a is A[x, 0:64], …: gemv(c, a, b)

An intrinsic has up to three statements. Where all of a reduction is inside, the one for the whole
is used; where loops around reduce too, one sets the start before them, one adds a part each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.arith import IntervalSet, IntSet
from tilesmith.ir import PrimExpr, Range, const
from tilesmith.ir.operators import all_of, equal, is_const
from tilesmith.ir.queries import mentions
from tilesmith.te.schedule.loop_nest import LoopNest, with_conditions, with_pragmas
from tilesmith.te.schedule.message_passing import pass_up_sets, thread_of
from tilesmith.te.schedule.operations.extern import bound_to_region
from tilesmith.te.schedule.operations.reductions import DATA, REDUCTION, reduction_marks
from tilesmith.te.schedule.operations.rules import Bounds, Placement
from tilesmith.te.schedule.operations.tensor_matching import (
    Mismatch,
    Part,
    match_intrinsic,
    shown_side,
)
from tilesmith.te.schedule.refusals import describe, refuse
from tilesmith.te.schedule.stage import Stage
from tilesmith.te.tensor_intrin import TensorIntrin
from tilesmith.tir.expr import IterVar
from tilesmith.tir.stmt import IfThenElse, Stmt, stmt_seq

__all__ = ["IntrinsicCalls", "bound_parts", "provide_tensorized", "tensorized_leaf"]


def tensorized_leaf(stage: Stage) -> int | None:
    """Return the position of the loop that a tensor intrinsic takes the place of, if any."""
    for number, axis in enumerate(stage.leaf_iter_vars):
        found = stage.iter_var_attrs.get(axis)
        if found is not None and found.iter_type == IterVar.Tensorized:
            return number
    return None


def bound_parts(intrin: TensorIntrin, statement: Stmt, parts: Sequence[Part]) -> Stmt:
    """Return a statement of an intrinsic with its buffers bound to parts of tensors."""
    for buffer, (tensor, ranges) in reversed(list(zip(intrin.buffers, parts))):
        statement = bound_to_region(buffer, tensor, ranges, statement)
    return statement


class IntrinsicCalls:
    """The calls of an intrinsic inside of the loops of a stage: those of ``inner`` it computes
    itself, the leaves from ``begin`` on are the first that reduce (None if none does).
    """

    def __init__(self, stage: Stage, bounds: Bounds, placement: Placement, end: int) -> None:
        self.stage, self.bounds, self.placement, self.end = stage, bounds, placement, end
        self.inner = stage.leaf_iter_vars[end:]
        self.marks = reduction_marks(stage)
        around = stage.leaf_iter_vars[:end]
        self.reducing = [
            axis
            for axis in around
            if self.marks.get(axis, 0) & REDUCTION and not is_const(bounds[axis].extent, 1)
        ]
        self.nest = LoopNest(stage, bounds, placement.keep_trivial_loops)

    def outputs(self, nest: LoopNest) -> list[Part]:
        """Return the parts of the results that a call makes."""
        raise NotImplementedError

    def parts(self) -> list[Part]:
        """Return the parts of the inputs and of the results of a call."""
        raise NotImplementedError

    def statement(self, intrin: TensorIntrin, statement: Stmt, parts: Sequence[Part]) -> Stmt:
        """Return a statement of the intrinsic for some parts."""
        return bound_parts(intrin, statement, parts)

    def guards(self) -> list[PrimExpr]:
        """Return the conditions around a call; those inside of it cannot be checked."""
        found = self.nest.guards()
        inside = {axis.var for axis in self.inner}
        for condition in found:
            if mentions(condition, inside):
                raise refuse(
                    "tensorize", self.stage,
                    f"some iterations of the loops from '{self.inner[0].var.name}' on do not "
                    f"count: `{condition}`",
                    self.inner[0], "split by factors that divide the loops",
                    self.stage.tensorized_at,
                )  # fmt: skip
        return found

    def write(self, intrin: TensorIntrin) -> Stmt:
        """Return the loops of the stage with calls of an intrinsic inside."""
        parts = self.parts()
        conditions = self.guards()
        at, nest, end = self.placement.at, self.nest, self.end
        predicate = self.stage.store_predicate
        if predicate is not None:
            conditions = [*conditions, predicate]
        if not self.reducing:
            if intrin.body is None:
                body = stmt_seq(
                    self.init(intrin, self.nest),
                    self.statement(intrin, self.needed(intrin.reduce_update, "update"), parts),
                )
            else:
                body = self.statement(intrin, intrin.body, parts)
            return nest.wrap(with_conditions(conditions, body), at, 0, end)
        update = self.statement(intrin, self.needed(intrin.reduce_update, "update"), parts)
        if intrin.reduce_init is None:
            whole = self.needed(intrin.body, "whole")
            first = [equal(nest.values[axis], self.bounds[axis].min) for axis in self.reducing]
            whole = self.statement(intrin, whole, parts)
            update = IfThenElse(all_of(*first), whole, update)
            return nest.wrap(with_conditions(conditions, update), at, 0, end)
        leaves = self.stage.leaf_iter_vars
        begin = next(n for n, one in enumerate(leaves) if one is self.reducing[0])
        update = nest.wrap(with_conditions(conditions, update), at, begin, end)
        return nest.wrap(stmt_seq(self.init_loops(intrin, begin), update), at, 0, begin)

    def needed(self, statement: Stmt | None, what: str) -> Stmt:
        """Return a statement of the intrinsic that is needed; refuse if it has none."""
        if statement is None:
            raise refuse(
                "tensorize", self.stage,
                f"a loop around reduces too, for which the intrinsic has no {what}",
                None, "let fcompute return three statements: the whole, the start, an update",
                self.stage.tensorized_at,
            )  # fmt: skip
        return statement

    def init(self, intrin: TensorIntrin, nest: LoopNest) -> Stmt:
        """Return the statement that sets the start of the reduction."""
        outputs = self.outputs(nest)
        unused: list[Any] = [None] * (len(intrin.buffers) - len(outputs))
        body = self.needed(intrin.reduce_init, "start")
        buffers = list(zip(intrin.buffers, [*unused, *outputs]))[len(unused) :]
        for buffer, (tensor, ranges) in reversed(buffers):
            body = bound_to_region(buffer, tensor, ranges, body)
        return body

    def init_loops(self, intrin: TensorIntrin, begin: int) -> Stmt:
        """Return the start of the reduction for all that the loops from ``begin`` on make."""
        leaves = self.stage.leaf_iter_vars
        alone = {axis for axis in leaves[begin:] if not self.marks.get(axis, 0) & DATA}
        left_out = {*alone, *self.inner, *self.stage.op.reduce_axis}
        outer = {axis: self.nest.values[axis] for axis in leaves[:begin]}
        trivial = self.placement.keep_trivial_loops
        nest = LoopNest(self.stage, self.bounds, trivial, begin, True, left_out, outer)
        conditions = nest.guards()
        if self.stage.store_predicate is not None:
            conditions = [*conditions, self.stage.store_predicate]
        return nest.wrap(with_conditions(conditions, self.init(intrin, nest)))


# Tensorized loops of a computation


class _Tensorized(IntrinsicCalls):
    def __init__(
        self, stage: Stage, bounds: Bounds, placement: Placement, end: int, intrin: TensorIntrin
    ) -> None:
        super().__init__(stage, bounds, placement, end)
        self.intrin = intrin
        for axis in self.inner:
            if thread_of(stage, axis) is not None:
                raise self.refusal(f"{describe(axis)} inside of it runs on threads", axis, "")

    def refusal(self, reason: str, axis: IterVar | None, advice: str) -> Exception:
        return refuse("tensorize", self.stage, reason, axis, advice, self.stage.tensorized_at)

    def regions(self, nest: LoopNest) -> dict[IterVar, Range]:
        """Return what the axes of the operation run over inside of the tensorized loops."""
        sets: dict[IterVar, IntervalSet] = {}
        for axis in self.stage.leaf_iter_vars:
            if any(axis is one for one in self.inner):
                sets[axis] = IntSet.from_range(self.bounds[axis])
            elif axis in nest.values:
                sets[axis] = IntSet.single_point(nest.values[axis])
        pass_up_sets(self.stage, self.bounds, sets, nest.analyzer)
        regions = {}
        for axis in self.stage.op.root_iter_vars:
            if axis in sets:
                low = nest.analyzer.simplify(sets[axis].min_value)
                extent = nest.analyzer.simplify(sets[axis].max_value - low + 1)
                regions[axis] = Range.from_min_extent(low, extent)
        return regions

    def outputs(self, nest: LoopNest) -> list[Part]:
        regions = self.regions(nest)
        ranges = [regions[axis] for axis in self.stage.op.axis]
        return [(self.stage.op.output(k), ranges) for k in range(self.stage.op.num_outputs)]

    def parts(self) -> list[Part]:
        regions = self.regions(self.nest)
        self.check_box(regions)
        op, intrin = self.stage.op, self.intrin
        try:
            inputs = match_intrinsic(op, regions, intrin)
        except Mismatch as mismatch:
            theirs: Any = intrin.op
            domains = {axis: axis.domain for axis in theirs.root_iter_vars}
            raise self.refusal(
                f"the computation inside of '{self.inner[0].var.name}' is not that of "
                f"'{intrin.name}': {mismatch}",
                self.inner[0],
                f"the loops:     {shown_side(op, regions)}\n"
                f"the intrinsic: {shown_side(theirs, domains)}",
            ) from None
        return [*inputs, *self.outputs(self.nest)]

    def check_box(self, regions: Mapping[IterVar, Range]) -> None:
        """Refuse loops that do not run over whole ranges of the axes."""
        ours = _product([self.bounds[axis].extent for axis in self.inner])
        boxes = _product([one.extent for one in regions.values()])
        if not self.nest.analyzer.can_prove_equal(ours, boxes):
            raise self.refusal(
                f"the loops from '{self.inner[0].var.name}' on do not run over neighbouring "
                "elements",
                self.inner[0],
                "tensorize the inner loops of splits, in the order of the axes",
            )


def _product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    total: PrimExpr = const(1, sizes[0].dtype) if sizes else const(1, "int32")
    for size in sizes:
        total = total * size
    return total


def provide_tensorized(stage: Stage, bounds: Bounds, placement: Placement, end: int) -> Stmt:
    """Return the loops of a computation up to the one that an intrinsic takes the place of, with
    calls of the intrinsic.
    """
    axis = stage.leaf_iter_vars[end]
    found = stage.attributes(axis)
    intrin = found.tensor_intrin
    if not isinstance(intrin, TensorIntrin):
        raise refuse(
            "tensorize", stage, f"a tensor intrinsic is needed, got {intrin!r}", axis,
            "te.decl_tensor_intrin declares one", stage.tensorized_at,
        )  # fmt: skip
    if intrin.scalar_params:
        raise refuse(
            "tensorize", stage, f"the intrinsic '{intrin.name}' takes scalars", axis,
            "call it by te.compute: lambda i: intrin(A[i, 0:16], scalar)", stage.tensorized_at,
        )  # fmt: skip
    written = _Tensorized(stage, bounds, placement, end, intrin).write(intrin)
    return with_pragmas(found, written)
