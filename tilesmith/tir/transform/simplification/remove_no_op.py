"""RemoveNoOp: removes statements without effect.

    for i in range(16):                         B[0] = A[0]
        T.evaluate(0)
    B[0] = A[0]
    A[3] = A[3]

Loops without body or without iterations, branches without cases, lets and allocations without
uses, evaluations without effect, and stores of a value to the element it was loaded from. What can
end the program with an error (``T.checked``) has an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import IntImm, PrimExpr, Rewriter, Var
from tilesmith.ir.operators import logical_not
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import can_fail, has_side_effect
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    is_no_op,
    stmt_seq,
)
from tilesmith.tir.transform.simplification.dead_stores import without_dead_stores
from tilesmith.tir.transform.simplification.repeated_stores import without_repeated_stores

__all__ = ["remove_no_op", "remove_no_op_as_configured"]


def _has_effect(expr: PrimExpr) -> bool:
    return has_side_effect(expr) or can_fail(expr)


class _Remover(Rewriter):
    """Removes bottom-up; ``used`` holds the variables and pointers met so far, so that a definition
    whose body has been visited knows whether it is used."""

    def __init__(self) -> None:
        self.used: set[Var] = set()

    def visit_Var(self, var: Var) -> Var:
        self.used.add(var)
        return var

    def visit_Buffer(self, buffer: Any) -> Any:
        self.used.add(buffer.data)
        return buffer

    def note_sizes(self, buffer: Buffer) -> None:
        """Record what a buffer that is declared here uses."""
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            self.visit(part)

    def visit_Block(self, block: Block) -> Block:
        for buffer in (*block.alloc_buffers, *[match.buffer for match in block.match_buffers]):
            self.note_sizes(buffer)
        return self.children(block)

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> Stmt:
        body = self.visit(declaration.body)
        if is_no_op(body):
            return body
        self.note_sizes(declaration.buffer)
        if declaration.buffer.data not in self.used:
            return body
        return declaration if body is declaration.body else declaration.with_fields(body=body)

    def visit_For(self, loop: For) -> Stmt:
        if isinstance(loop.extent, IntImm) and loop.extent.value <= 0:
            return stmt_seq()
        loop = self.children(loop)
        if not is_no_op(loop.body):
            return loop
        effects = [Evaluate(part) for part in (loop.min, loop.extent) if _has_effect(part)]
        return stmt_seq(*effects)

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        branch = self.children(branch)
        condition, then_case, else_case = branch.condition, branch.then_case, branch.else_case
        if isinstance(condition, IntImm):
            return then_case if condition.value else else_case or stmt_seq()
        if else_case is not None and is_no_op(else_case):
            else_case = None
        if is_no_op(then_case):
            if else_case is not None:
                return IfThenElse(logical_not(condition), else_case, None, branch.span)
            return Evaluate(condition) if _has_effect(condition) else stmt_seq()
        if else_case is branch.else_case:
            return branch
        return IfThenElse(condition, then_case, else_case, branch.span)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        body = self.visit(let.body)
        if let.var not in self.used:
            if not _has_effect(let.value):
                return body
        elif is_no_op(body) and not _has_effect(let.value):
            return body
        value = self.visit(let.value)
        return let if body is let.body and value is let.value else let.with_fields(
            value=value, body=body
        )  # fmt: skip

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        body = self.visit(allocation.body)
        if is_no_op(body) or allocation.buffer_var not in self.used:
            return body
        for extent in allocation.extents:
            self.visit(extent)
        return allocation if body is allocation.body else allocation.with_fields(body=body)

    def visit_AllocateConst(self, allocation: AllocateConst) -> Stmt:
        body = self.visit(allocation.body)
        if is_no_op(body) or allocation.buffer_var not in self.used:
            return body
        return allocation if body is allocation.body else allocation.with_fields(body=body)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        attribute = self.children(attribute)
        counts = attribute.attr_key == "async_commit_queue_scope"  # an empty group counts in waits
        return attribute.body if is_no_op(attribute.body) and not counts else attribute

    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        kept = [self.visit(stmt) for stmt in sequence.seq]
        kept_same = all(a is b and not is_no_op(a) for a, b in zip(kept, sequence.seq))
        return sequence if kept_same else stmt_seq(*kept, span=sequence.span)

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        if not _has_effect(evaluation.value):
            return evaluation if is_no_op(evaluation) else stmt_seq()
        return self.children(evaluation)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        value = store.value
        if (
            isinstance(value, BufferLoad)
            and value.buffer is store.buffer
            and store.predicate is None
            and all(structural_equal(a, b) for a, b in zip(value.indices, store.indices))
            and not can_fail(store)
            and not has_side_effect(store.indices)
        ):
            return stmt_seq()
        return self.children(store)


def remove_no_op(func: PrimFunc, use_dataflow_analysis: bool = False) -> PrimFunc:
    """Return ``func`` without statements that have no effect.

    ``use_dataflow_analysis``: also remove stores that later ones overwrite, or that store what is
    there already.
    """
    if use_dataflow_analysis:
        func = without_repeated_stores(without_dead_stores(func))
    return func.with_body(_Remover().visit(func.body))


@compiler_pass(
    "tir.RemoveNoOp",
    options={"use_dataflow_analysis": False},
)
def remove_no_op_as_configured(func: PrimFunc, options: Mapping[str, Any]) -> PrimFunc:
    """Removes statements without effect."""
    return remove_no_op(func, bool(options["use_dataflow_analysis"]))
