"""Divides a reduction into partial results and the reduction of these: ``rfactor``.

B[i] = sum(A[i, k], k in 0..64)      with k split by 16, rfactor(B, k.inner):

B.rf[k.inner, i] = sum(A[i, k.outer * 16 + k.inner], k.outer in 0..4)
B[ax0] = sum(B.rf[k.inner.v, ax0], k.inner.v in 0..16)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of, cast, is_const
from tilesmith.te.schedule.caches import check_rewritable, check_tensor, position_of, restart
from tilesmith.te.schedule.message_passing import (
    guards,
    pass_down_domains,
    pass_down_marks,
    pass_up_marks,
    pass_up_values,
)
from tilesmith.te.schedule.refusals import describe, position, refuse
from tilesmith.te.schedule.replacement import insert_stage, replace_operations
from tilesmith.te.schedule.stage import Stage
from tilesmith.te.tensor import ComputeOp, Tensor
from tilesmith.tir.expr import IterVar, ProducerLoad, Reduce
from tilesmith.tir.functor import substitute
from tilesmith.tir.op import if_then_else

if TYPE_CHECKING:
    from tilesmith.te.schedule.schedule import Schedule

__all__ = ["rfactor"]


def rfactor(schedule: Schedule, tensor: Tensor, axis: IterVar, factor_axis: int) -> Any:
    """Compute partial results along a loop of a reduction; see ``Schedule.rfactor``."""
    check_tensor("rfactor", tensor)
    stage = schedule[tensor]
    check_rewritable("rfactor", schedule, stage)
    op: ComputeOp = stage.op
    place = _factor_place(stage, axis, factor_axis)
    factored = _Parts(stage, axis).partial_results(place)
    whole = _whole_result(op, factored, place)
    insert_stage(schedule, position_of(schedule, stage), factored, stage)
    replace_operations(schedule, {op: whole})
    restart(stage)
    outputs = [factored.output(k) for k in range(factored.num_outputs)]
    return outputs[0] if len(outputs) == 1 else outputs


def _factor_place(stage: Stage, axis: Any, factor_axis: int) -> int:
    """Check the arguments; return the position of the factored axis in the partial results."""
    op = stage.op
    if not op.reduce_axis:
        raise refuse("rfactor", stage, "it is not a reduction")
    if not isinstance(axis, IterVar):
        raise refuse("rfactor", stage, f"a reduction axis is needed, got {axis!r}")
    if axis.iter_type != IterVar.CommReduce:
        raise refuse(
            "rfactor", stage, f"{describe(axis)} is not reduced over", axis,
            "give a loop over a reduction axis, such as one of s[B].split(k, factor=16)",
        )  # fmt: skip
    if position(stage.leaf_iter_vars, axis) is None:
        raise refuse("rfactor", stage, f"{describe(axis)} is not a loop of the stage", axis)
    rank = len(op.axis)
    place = factor_axis if factor_axis >= 0 else rank + 1 + factor_axis
    if not 0 <= place <= rank:
        raise refuse(
            "rfactor", stage, f"factor_axis {factor_axis} does not fit", None,
            f"the partial results have {rank + 1} dimensions: 0 to {rank}, or -1 for the last",
        )  # fmt: skip
    return place


class _Parts:
    """The reduction of a stage, taken apart along one of its loops.

    ``axis`` becomes a data-parallel axis. The reduction axes that are connected with it by splits
    and fusions are replaced by the other loops that they have become.
    """

    def __init__(self, stage: Stage, axis: IterVar) -> None:
        self.op: ComputeOp = stage.op
        first = self.op.body[0]
        assert isinstance(first, Reduce)
        self.reduce = first
        marks = {axis: 1}
        pass_up_marks(stage, marks)
        pass_down_marks(stage, marks)
        of_results = dict.fromkeys(self.op.axis, 1)
        pass_down_marks(stage, of_results)
        mixed = [one for one in stage.leaf_iter_vars if marks.get(one) and of_results.get(one)]
        if mixed:
            raise refuse(
                "rfactor", stage,
                f"'{mixed[0].var.name}' runs over results and over values that are reduced",
                mixed[0], "fuse axes of one kind only, or call rfactor before",
            )  # fmt: skip
        roots = self.op.root_iter_vars
        touched = [loop for loop in stage.leaf_iter_vars if marks.get(loop)]
        domains: dict[IterVar, Range] = {one: one.domain for one in roots}
        analyzer = Analyzer()
        pass_down_domains(stage, domains, analyzer)
        loops = {loop: _counted(loop, domains[loop], loop is axis) for loop in touched}
        for loop in loops.values():
            analyzer.bind(loop.var, loop.domain)
        values: dict[IterVar, PrimExpr] = {}
        for old, loop in loops.items():
            first_value = domains[old].min
            values[old] = loop.var if is_const(first_value, 0) else loop.var + first_value
        pass_up_values(stage, domains, values)
        untouched = {one for one in roots if not marks.get(one)}
        self.conditions = guards(stage, domains, values, analyzer, untouched)
        self.factor = loops.pop(axis)
        changed = [one for one in self.op.reduce_axis if marks.get(one)]
        self.values = {one.var: cast(one.var.dtype, values[one]) for one in changed}
        kept = [one for one in self.op.reduce_axis if not marks.get(one)]
        self.reduced = (*kept, *loops.values())

    def partial_results(self, place: int) -> ComputeOp:
        """Return the operation that computes the partial results."""
        reduce, axis = self.reduce, list(self.op.axis)
        axis.insert(place, self.factor)
        source, condition = substitute((reduce.source, reduce.condition), self.values)
        condition = all_of(condition, *self.conditions)
        body: list[PrimExpr]
        if self.reduced:
            body = [
                Reduce(reduce.combiner, source, self.reduced, condition, k)
                for k in range(len(source))
            ]
        else:  # each partial result is one value
            identity = reduce.combiner.identity_element
            body = [if_then_else(condition, *pair) for pair in zip(source, identity)]
        name = f"{self.op.name}.rf"
        return ComputeOp(name, self.op.tag, self.op.attrs, axis, body, self.op.place)


def _counted(loop: IterVar, domain: Range, is_factor: bool) -> IterVar:
    """Return an iterator over a loop of the reduction that counts from 0."""
    dtype = loop.var.dtype
    counted = Range.from_min_extent(const(0, dtype), cast(dtype, domain.extent))
    kind = IterVar.DataPar if is_factor else IterVar.CommReduce
    return IterVar(counted, Var(loop.var.name, dtype), kind)


def _whole_result(op: ComputeOp, partial: ComputeOp, place: int) -> ComputeOp:
    """Return the reduction of the partial results; a first value of the user's is added here."""
    reduce = op.body[0]
    assert isinstance(reduce, Reduce)
    factor = partial.axis[place]
    reduced = IterVar(factor.domain, f"{factor.var.name}.v", IterVar.CommReduce)
    axis = [
        IterVar(one.domain, Var(f"ax{number}", one.var.dtype), one.iter_type)
        for number, one in enumerate(op.axis)
    ]
    indices: list[PrimExpr] = [one.var for one in axis]
    init = substitute(reduce.init, dict(zip([one.var for one in op.axis], indices)))
    indices.insert(place, reduced.var)
    source = [ProducerLoad(partial.output(k), indices) for k in range(len(reduce.source))]
    body = [
        Reduce(reduce.combiner, source, [reduced], const(True, "bool"), k, init)
        for k in range(len(source))
    ]
    return ComputeOp(f"{op.name}.repl", op.tag, op.attrs, axis, body, op.place)
