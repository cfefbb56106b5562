"""The rules of statements other than branches."""

from __future__ import annotations

from tilesmith.ir import Call, PrimExpr
from tilesmith.ir import operators as ops
from tilesmith.ir.queries import is_call
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from tilesmith.tir.transform.loops.vectorizer.accesses import vector_store
from tilesmith.tir.transform.loops.vectorizer.lanes import NeedsLanes
from tilesmith.tir.transform.loops.vectorizer.rules import STATEMENT_RULES
from tilesmith.tir.transform.loops.vectorizer.vectorizer import Vectorizer


@STATEMENT_RULES.handles(Stmt)
def _without_vector_form(vectorizer: Vectorizer, stmt: Stmt) -> Stmt:
    raise NeedsLanes(f"{type(stmt).__name__} has no vector form")


@STATEMENT_RULES.handles(BufferStore)
def _store(vectorizer: Vectorizer, store: BufferStore) -> Stmt:
    return vector_store(vectorizer.values, store)


@STATEMENT_RULES.handles(SeqStmt)
def _sequence(vectorizer: Vectorizer, sequence: SeqStmt) -> Stmt:
    return sequence.map_children(vectorizer.statement)


@STATEMENT_RULES.handles(For)
def _loop(vectorizer: Vectorizer, loop: For) -> Stmt:
    low, extent = vectorizer.values.same(loop.min), vectorizer.values.same(loop.extent)
    body = vectorizer.statement(loop.body)
    return loop.with_fields(min=low, extent=extent, body=body)


@STATEMENT_RULES.handles(While)
def _while(vectorizer: Vectorizer, loop: While) -> Stmt:
    if not vectorizer.lanes.freely:
        raise UnsupportedError(
            "A while loop inside a vectorized loop not supported.", span=loop.span
        )
    condition = vectorizer.values.visit(loop.condition)
    if condition is not loop.condition or vectorizer.masks.present is not None:
        raise NeedsLanes("the condition of a while loop differs between lanes")
    with vectorizer.bound():
        return While(condition, vectorizer.visit(loop.body), loop.span)


@STATEMENT_RULES.handles(LetStmt)
def _let(vectorizer: Vectorizer, let: LetStmt) -> Stmt:
    value = vectorizer.values.visit(let.value)
    var = vectorizer.values.bind(let.var, value.dtype)
    if var is let.var:
        return LetStmt(var, value, vectorizer.statement(let.body), let.span)
    with vectorizer.bound():
        return LetStmt(var, value, vectorizer.visit(let.body), let.span)


@STATEMENT_RULES.handles(Allocate)
def _allocation(vectorizer: Vectorizer, allocation: Allocate) -> Stmt:
    lanes, values = vectorizer.lanes, vectorizer.values
    if lanes.is_scalable:  # a copy for each lane would need memory of unknown size
        raise NeedsLanes("memory for lanes of unknown number")
    extents = tuple([values.same(extent) for extent in allocation.extents])
    values.same(allocation.condition)
    vectorizer.memory.pointers.add(allocation.buffer_var)
    with vectorizer.bound():
        body = vectorizer.visit(allocation.body)
    extents = (*extents[:-1], extents[-1] * lanes.count)
    return allocation.with_fields(extents=extents, body=body)


@STATEMENT_RULES.handles(DeclBuffer)
def _declaration(vectorizer: Vectorizer, declaration: DeclBuffer) -> Stmt:
    buffer = declaration.buffer
    for number in (*buffer.shape, *buffer.strides, buffer.elem_offset):
        vectorizer.values.same(number)
    body = vectorizer.statement(declaration.body)
    return DeclBuffer(vectorizer.memory.buffer(buffer), body, declaration.span)


@STATEMENT_RULES.handles(AttrStmt)
def _attribute(vectorizer: Vectorizer, attribute: AttrStmt) -> Stmt:
    value = vectorizer.values.same(attribute.value)
    return attribute.with_fields(value=value, body=vectorizer.statement(attribute.body))


@STATEMENT_RULES.handles(AssertStmt)
def _assertion(vectorizer: Vectorizer, check: AssertStmt) -> Stmt:
    condition = vectorizer.values.same(check.condition)
    if vectorizer.masks.present is not None:
        raise NeedsLanes("an assertion stands under a condition")
    return check.with_fields(condition=condition, body=vectorizer.statement(check.body))


def _check_of_lanes(vectorizer: Vectorizer, check: Call) -> PrimExpr:
    """Return a check whose value nobody uses; the value has as many lanes as the condition."""
    made: Call = vectorizer.values.visit(check)
    value, condition, *message = made.args
    if value.dtype.lanes == condition.dtype.lanes:
        return made
    value = vectorizer.lanes.wide(value)
    condition = vectorizer.lanes.wide(condition)
    return Call(value.dtype, check.op, (value, condition, *message))


@STATEMENT_RULES.handles(Evaluate)
def _evaluation(vectorizer: Vectorizer, evaluation: Evaluate) -> Stmt:
    value = evaluation.value
    if is_call(value, "tir.prefetch"):
        # One cache line holds all lanes: prefetch the first one.
        rewritten: Stmt = substitute(evaluation, {vectorizer.lanes.var: vectorizer.lanes.low})
        return rewritten
    if ops.is_const(value):
        return evaluation
    if is_call(value, "tir.checked"):
        return evaluation.with_fields(value=_check_of_lanes(vectorizer, value))
    raise NeedsLanes("a call has effects")
