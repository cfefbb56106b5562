"""The rules of branches: conditions that differ between lanes become masks."""

from __future__ import annotations

from tilesmith.ir import LT, And, Broadcast, Not, PrimExpr, Ramp, Var
from tilesmith.ir import operators as ops
from tilesmith.ir.call_intrinsics import get_active_lane_mask
from tilesmith.ir.queries import conjuncts
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.queries import reads_memory
from tilesmith.tir.stmt import IfThenElse, LetStmt, Stmt, stmt_seq
from tilesmith.tir.transform.loops.vectorizer.lanes import NeedsLanes
from tilesmith.tir.transform.loops.vectorizer.rules import STATEMENT_RULES
from tilesmith.tir.transform.loops.vectorizer.vectorizer import Vectorizer


@STATEMENT_RULES.handles(IfThenElse)
def _branch(vectorizer: Vectorizer, branch: IfThenElse) -> Stmt:
    values, lanes = vectorizer.values, vectorizer.lanes
    if not lanes.freely:
        return _guarded_branch(vectorizer, branch)
    uniform: list[PrimExpr] = []  # a condition that is equal in all lanes stays a branch
    varying: list[PrimExpr] = []
    own: list[PrimExpr] = []
    for part in conjuncts(branch.condition, through_likely=True):
        condition = values.visit(part)
        if condition.dtype.lanes == 1:
            uniform.append(condition)
        else:
            varying.append(condition)
            own.append(part)
    if not varying:
        return _shared_branch(vectorizer, branch, values.visit(branch.condition))
    if branch.else_case is not None or not uniform:
        return _masked_branch(vectorizer, branch, values.visit(branch.condition))
    inner = IfThenElse(ops.all_of(*own), branch.then_case, None, branch.span)
    mask = varying[0]
    for condition in varying[1:]:
        mask = And(mask, condition)
    outer = ops.all_of(*uniform)
    with lanes.analyzer.constraint_scope(outer):
        return IfThenElse(outer, _masked_branch(vectorizer, inner, mask), None, branch.span)


def _shared_branch(vectorizer: Vectorizer, branch: IfThenElse, condition: PrimExpr) -> Stmt:
    """Rewrite a branch that all lanes take, or none."""
    with vectorizer.lanes.analyzer.constraint_scope(condition):
        then_case = vectorizer.statement(branch.then_case)
    else_case = branch.else_case and vectorizer.statement(branch.else_case)
    return IfThenElse(condition, then_case, else_case, branch.span)


def _masked_branch(vectorizer: Vectorizer, branch: IfThenElse, condition: PrimExpr) -> Stmt:
    """Rewrite a branch that some lanes take."""
    if reads_memory(condition):
        # Writes of the branch must not change its own mask.
        mask = Var("mask", condition.dtype)
        with vectorizer.bound():
            return LetStmt(mask, condition, _both_cases(vectorizer, branch, mask))
    return _both_cases(vectorizer, branch, condition)


def _both_cases(vectorizer: Vectorizer, branch: IfThenElse, mask: PrimExpr) -> Stmt:
    with vectorizer.masks.under(mask, branch.condition):
        then_case = vectorizer.statement(branch.then_case)
    if branch.else_case is None:
        return then_case
    with vectorizer.masks.under(Not(mask), Not(branch.condition)):
        return stmt_seq(then_case, vectorizer.statement(branch.else_case))


def _guarded_branch(vectorizer: Vectorizer, branch: IfThenElse) -> Stmt:
    """Rewrite a branch on ``index < limit`` whose accesses all have that index."""
    condition, masks = vectorizer.values.visit(branch.condition), vectorizer.masks
    if condition.dtype.lanes == 1:
        return _shared_branch(vectorizer, branch, condition)
    if not (masks.allowed and isinstance(condition, LT) and masks.present is None):
        raise NeedsLanes("only some lanes are active, and masks are not allowed")
    index, limit = condition.a, condition.b
    if branch.else_case is not None or not isinstance(index, Ramp):
        raise NeedsLanes("its condition is not of the form index < limit")
    is_even = ops.is_const(index.stride, 1) and vectorizer.lanes.stays_even(index)
    if not (is_even and isinstance(limit, Broadcast)):
        raise NeedsLanes("its condition is not of the form index < limit")
    mask_dtype = DataType("uint1").with_lanes(vectorizer.lanes.count)
    mask = get_active_lane_mask(mask_dtype, index.base, limit.value)
    with vectorizer.bound(), masks.guarding(index, mask):
        return vectorizer.visit(branch.then_case)
