"""Reductions in a schedule: first values, updates, reductions by the threads of a block.

[i, k]               for i: { C[i] = 0; for k: C[i] += A[i, k] }
[ko, i, ki]          for i: C[i] = 0
                     for ko: for i: for ki: C[i] += …
[i, k on threads]    for i: launch k: { total = allreduce(A[i, k]); C[i] = total }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PrimExpr, Var, const
from tilesmith.ir.intrinsics import reinterpret, tvm_thread_allreduce
from tilesmith.ir.operators import all_of, cast, is_const
from tilesmith.ir.queries import mentions
from tilesmith.support.caller import CallerPlace
from tilesmith.te.schedule.loop_nest import LoopNest, with_conditions
from tilesmith.te.schedule.message_passing import is_virtual_thread, pass_down_marks, thread_of
from tilesmith.te.schedule.operations.rules import Bounds, Placement
from tilesmith.te.schedule.refusals import describe, refuse
from tilesmith.te.schedule.single_writers import updating
from tilesmith.te.schedule.stage import Stage
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import IterVar, ProducerLoad, Reduce
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    LetStmt,
    ProducerStore,
    Stmt,
    stmt_seq,
)
from tilesmith.tir.transform.blocks.reducers import combine

__all__ = ["provide_reduction", "reduction_marks", "stored_together"]

DATA, REDUCTION = 1, 2


def reduction_marks(stage: Stage) -> dict[IterVar, int]:
    """Return for each iterator whether it comes from data-parallel axes (1), from axes of the
    reduction (2), or from both (3).
    """
    marks = dict.fromkeys(stage.op.axis, DATA)
    marks.update(dict.fromkeys(stage.op.reduce_axis, REDUCTION))
    pass_down_marks(stage, marks)
    return marks


def stored_together(outputs: Sequence[Any], values: Sequence[PrimExpr], indices: Any) -> Stmt:
    """Return the stores of several results that are all computed before the first store."""
    if len(outputs) == 1:
        return ProducerStore(outputs[0], values[0], indices)
    names = [Var(f"v_{tensor.op.name}", value.dtype) for tensor, value in zip(outputs, values)]
    body = stmt_seq(*[ProducerStore(out, name, indices) for out, name in zip(outputs, names)])
    for name, value in reversed(list(zip(names, values))):
        body = LetStmt(name, value, body)
    return body


class _Reduction:
    """The expressions of a reduction, inside of a nest of loops."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.op = stage.op
        self.reduce: Reduce = stage.op.body[0]
        self.outputs = [stage.op.output(number) for number in range(stage.op.num_outputs)]

    def indices(self, nest: LoopNest) -> list[PrimExpr]:
        values = nest.substitution()
        return [values.get(axis.var, axis.var) for axis in self.op.axis]

    def sources(self, nest: LoopNest) -> list[PrimExpr]:
        found = substitute(list(self.reduce.source), nest.substitution())
        return [cast(var.dtype, value) for var, value in zip(self.reduce.combiner.rhs, found)]

    def condition(self, nest: LoopNest) -> list[PrimExpr]:
        """Return the condition under which a value counts, if there is one."""
        if is_const(self.reduce.condition, 1):
            return []
        return [substitute(self.reduce.condition, nest.substitution())]

    def first_values(self, nest: LoopNest) -> list[PrimExpr]:
        given = self.reduce.init or self.reduce.combiner.identity_element
        return list(substitute(list(given), nest.substitution()))

    def init(self, nest: LoopNest) -> Stmt:
        indices = self.indices(nest)
        stores = zip(self.outputs, self.first_values(nest))
        return stmt_seq(*[ProducerStore(tensor, value, indices) for tensor, value in stores])

    def update(self, nest: LoopNest) -> Stmt:
        indices = self.indices(nest)
        before = [ProducerLoad(tensor, indices) for tensor in self.outputs]
        values = combine(self.reduce.combiner, before, self.sources(nest))
        body = stored_together(self.outputs, values, indices)
        return with_conditions(self.condition(nest), body, are_likely=False)


def provide_reduction(stage: Stage, bounds: Bounds, placement: Placement) -> Stmt:
    """Return the loops of a reduction."""
    marks = reduction_marks(stage)
    reduced = [axis for axis in stage.leaf_iter_vars if marks.get(axis, 0) & REDUCTION]
    if any(thread_of(stage, axis) is not None for axis in reduced):
        return _CrossThread(stage, bounds, placement, marks).provide()
    return _serial(stage, bounds, placement, marks)


def _serial(stage: Stage, bounds: Bounds, placement: Placement, marks: dict[IterVar, int]) -> Stmt:
    leaves, trivial = stage.leaf_iter_vars, placement.keep_trivial_loops
    found = _Reduction(stage)
    nest = LoopNest(stage, bounds, trivial)
    begin = next(n for n, axis in enumerate(leaves) if marks.get(axis, 0) & REDUCTION)
    alone = {axis for axis in leaves[begin:] if not marks.get(axis, 0) & DATA}
    outer = {axis: nest.values[axis] for axis in leaves[:begin]}
    first = LoopNest(
        stage, bounds, trivial, begin, True, {*alone, *stage.op.reduce_axis}, outer
    )  # fmt: skip
    stored = [] if stage.store_predicate is None else [stage.store_predicate]
    init = updating(stage, with_conditions(stored, found.init(first), are_likely=False))
    init = first.wrap(with_conditions(first.guards(), init))
    update = updating(stage, with_conditions(stored, found.update(nest), are_likely=False))
    update = nest.wrap(with_conditions(nest.guards(), update), placement.at, begin)
    return nest.wrap(stmt_seq(init, update), placement.at, 0, begin)


def bound_at(stage: Stage, axis: IterVar) -> CallerPlace | None:
    """Return where the user's program bound a loop to threads."""
    found = stage.iter_var_attrs.get(axis)
    return None if found is None else found.bound_at


class _CrossThread:
    """A reduction by the threads of a block: each combines the values of its own loops, then the
    threads combine their results.
    """

    def __init__(
        self, stage: Stage, bounds: Bounds, placement: Placement, marks: dict[IterVar, int]
    ) -> None:
        self.stage, self.bounds, self.placement = stage, bounds, placement
        self.parts = _Reduction(stage)
        self.combiner = self.parts.reduce.combiner
        self.threads: list[Var] = []
        self.serial: list[IterVar] = []
        for axis in stage.leaf_iter_vars:
            mark = marks.get(axis, 0)
            if not mark & REDUCTION:
                continue
            if mark & DATA:
                raise refuse(
                    "bind", stage,
                    f"'{axis.var.name}' runs over results and over values that are reduced, and "
                    "the reduction is one of threads",
                    axis, "fuse axes of one kind only", bound_at(stage, axis),
                )  # fmt: skip
            thread = thread_of(stage, axis)
            if thread is None:
                self.serial.append(axis)
                continue
            if is_virtual_thread(thread):
                raise refuse(
                    "bind", stage, f"{describe(axis)} cannot run on virtual threads", axis,
                    'bind it to threads of a block: te.thread_axis("threadIdx.x")',
                    bound_at(stage, axis),
                )  # fmt: skip
            self.threads.append(thread.var)

    def provide(self) -> Stmt:
        stage, trivial = self.stage, self.placement.keep_trivial_loops
        order = [
            axis for axis in stage.leaf_iter_vars if not any(axis is one for one in self.serial)
        ]
        nest = LoopNest(stage, self.bounds, trivial)
        layers = dict(nest.layers)
        guards = nest.guards()
        of_values = [one for one in guards if self.depends_on_reduction(one)]
        of_results = [one for one in guards if not self.depends_on_reduction(one)]
        total = self.buffers("reduce_temp")
        steps: list[Stmt] = []
        condition = all_of(*of_values, *of_results, *self.parts.condition(nest))
        values = self.parts.sources(nest)
        partial: list[Buffer] = []
        if self.serial:
            partial = self.buffers("normal_reduce_temp")
            steps += self.accumulate(nest, layers, partial, values, condition)
            values, condition = [buffer[0] for buffer in partial], const(True, "bool")
        steps.append(self.exchange(values, condition, total))
        steps.append(with_conditions(of_results, self.store(nest, total)))
        body = stmt_seq(*steps)
        for buffer in reversed([*total, *partial]):
            body = DeclBuffer(buffer, body)
            body = Allocate(buffer.data, buffer.dtype, buffer.shape, True, body)
        for axis in reversed(order):
            body = layers[axis](self.placement.at(axis, body))
        return body

    def depends_on_reduction(self, condition: PrimExpr) -> bool:
        """Return whether a guard is one of the values that are reduced, not of the results."""
        variables = {axis.var for axis in self.serial} | set(self.threads)
        return mentions(condition, variables)

    def buffers(self, name: str) -> list[Buffer]:
        return [
            decl_buffer((1,), value.dtype, name, scope="local")
            for value in self.parts.reduce.source
        ]

    def accumulate(
        self,
        nest: LoopNest,
        layers: dict[IterVar, Any],
        partial: list[Buffer],
        values: list[PrimExpr],
        condition: PrimExpr,
    ) -> list[Stmt]:
        """Return the reduction of one thread over its own loops."""
        identity = self.combiner.identity_element
        first = [BufferStore(buffer, value, [0]) for buffer, value in zip(partial, identity)]
        combined = combine(self.combiner, [buffer[0] for buffer in partial], values)
        names = [Var("value", value.dtype) for value in combined]
        stored = combined if len(combined) == 1 else names
        body = stmt_seq(*[BufferStore(b, value, [0]) for b, value in zip(partial, stored)])
        if len(combined) > 1:
            for name, value in reversed(list(zip(names, combined))):
                body = LetStmt(name, value, body)
        if not is_const(condition, 1):
            body = with_conditions([condition], body, are_likely=False)
        for axis in reversed(self.serial):
            body = layers[axis](self.placement.at(axis, body))
        return [*first, body]

    def exchange(
        self, values: Sequence[PrimExpr], condition: PrimExpr, total: list[Buffer]
    ) -> Stmt:
        results = [buffer[0] for buffer in total]
        count = const(len(values), "uint32")
        call = tvm_thread_allreduce(count, *values, condition, *results, *self.threads)
        null = reinterpret("handle", const(0, "uint64"))
        return AttrStmt(self.combiner, "reduce_scope", null, Evaluate(call))

    def store(self, nest: LoopNest, total: list[Buffer]) -> Stmt:
        """Return the stores of the results, from the threads for which the predicate holds."""
        values: Sequence[PrimExpr] = [buffer[0] for buffer in total]
        if self.parts.reduce.init:
            values = combine(self.combiner, self.parts.first_values(nest), values)
        body = stored_together(self.parts.outputs, values, self.parts.indices(nest))
        if self.stage.store_predicate is None:
            return body
        return with_conditions([self.stage.store_predicate], body, are_likely=False)
