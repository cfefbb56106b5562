"""UnrollLoop: unrolls loops that are marked for it.

    for i in T.unroll(2):                       B[0] = A[0]
        B[i] = A[i]                             B[1] = A[1]

``pragma_auto_unroll_max_step`` on a loop asks for the same for constant serial loops in it, as long
as they give no more statements than it says. With ``pragma_unroll_explicit`` 0 loops are not
written out but stay loops that the back end is asked to unroll.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import Cast, IntImm, Let, PrimExpr, Rewriter, Var, const
from tilesmith.ir.operators import cast
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node
from tilesmith.ir.transform import PassContext
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.queries import accesses, uses_variable
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    SeqStmt,
    Stmt,
    stmt_seq,
)

__all__ = ["unroll_loop", "unroll_loop_as_configured"]

MAX_STEP = "pragma_auto_unroll_max_step"
EXPLICIT = "pragma_unroll_explicit"
LIMITS = {
    "auto_max_step": 0,
    "auto_max_depth": 8,
    "auto_max_extent": 0,
    "explicit_unroll": True,
    "unroll_local_access": False,
}


def _defines(stmt: Any) -> bool:
    """Return whether a statement or expression contains definitions, which must be renamed in
    copies.
    """
    if isinstance(stmt, (For, LetStmt, Let, Allocate, AllocateConst, IterVar)):
        return True
    for child in stmt.children():
        if _defines(child):
            return True
    return False


def _indexes_local(body: Stmt, var: Var) -> bool:
    """Return whether a loop variable indexes registers (memory in scope "local")."""
    return any(
        uses_variable(access.indices, {var})
        for access in accesses(body)
        if access.buffer.scope().startswith("local")
    )


class _Unroller(Rewriter):
    """Unrolls loops bottom-up. ``steps``, ``loops`` and ``unrolled`` describe the statement that
    was visited last: the number of its statements, the depth of remaining loops, and of unrolled
    ones."""

    def __init__(self, limits: Mapping[str, Any]) -> None:
        self.limits = limits
        self.max_step = limits["auto_max_step"]
        self.explicit = limits["explicit_unroll"]
        self.steps = self.loops = self.unrolled = 0

    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        self.steps += 1
        return store

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        self.steps += 1
        return evaluation

    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        loops, unrolled = self.loops, self.unrolled
        deepest, deepest_unrolled = loops, unrolled
        new = []
        for stmt in sequence.seq:
            self.loops, self.unrolled = loops, unrolled
            new.append(self.visit(stmt))
            deepest = max(deepest, self.loops)
            deepest_unrolled = max(deepest_unrolled, self.unrolled)
        self.loops, self.unrolled = deepest, deepest_unrolled
        if all(a is b for a, b in zip(new, sequence.seq)):
            return sequence
        return stmt_seq(*new, span=sequence.span)

    def read_pragmas(self, annotations: Mapping[str, Any]) -> tuple[int, bool]:
        """Apply the pragmas of a loop; returns the former settings."""
        saved = self.max_step, self.explicit
        if MAX_STEP in annotations:
            self.max_step = int(annotations[MAX_STEP])
        if EXPLICIT in annotations:
            self.explicit = bool(annotations[EXPLICIT])
        return saved

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key not in (MAX_STEP, EXPLICIT):
            return self.children(attribute)
        value: Any = attribute.value
        saved = self.read_pragmas({attribute.attr_key: value.value})
        body = self.visit(attribute.body)
        self.max_step, self.explicit = saved
        return body

    def visit_For(self, loop: For) -> Stmt:
        saved = self.read_pragmas(loop.annotations)
        outer_steps = self.steps
        self.steps = 0
        body = self.visit(loop.body)
        result = self.finish(loop, body)
        self.steps += outer_steps
        self.max_step, self.explicit = saved
        return result

    def finish(self, loop: For, body: Stmt) -> Stmt:
        """Unroll a loop whose body has been visited, or keep it."""
        extent = loop.extent.value if isinstance(loop.extent, IntImm) else None
        marked = loop.kind is ForKind.UNROLLED and extent is not None
        single = extent == 1 and self.limits["auto_max_extent"] >= 1  # nothing is written twice
        automatic = (
            extent is not None
            and loop.kind is ForKind.SERIAL
            and (self.loops == 0 or single)
            and self.unrolled <= self.limits["auto_max_depth"]
            and (
                self.steps * extent <= self.max_step
                or 0 < extent <= self.limits["auto_max_extent"]
                or (self.limits["unroll_local_access"] and _indexes_local(body, loop.loop_var))
            )
        )  # fmt: skip
        if not marked and not automatic:
            self.loops += 1
            kind = ForKind.SERIAL if loop.kind is ForKind.UNROLLED else loop.kind
            dropped = {k: v for k, v in loop.annotations.items() if k not in (MAX_STEP, EXPLICIT)}
            return _rebuilt(loop, body, kind, dropped)
        assert extent is not None
        self.steps *= extent
        self.unrolled += 1
        if self.explicit:
            return self.written_out(loop, body, extent)
        kept = {key: value for key, value in loop.annotations.items() if key != MAX_STEP}
        return _rebuilt(loop, body, ForKind.UNROLLED, kept)

    def written_out(self, loop: For, body: Stmt, extent: int) -> Stmt:
        binds = extent > 1 and _defines(body)
        casts = any_node(
            body, lambda node: isinstance(node, Cast) and uses_variable(node, {loop.loop_var})
        )
        copies = []
        for number in range(extent):
            value = loop.min + const(number, loop.loop_var.dtype)
            copy = renew_defs(body) if binds and number else body
            copy = substitute(copy, {loop.loop_var: value})
            copies.append(_CastFolder().visit(copy) if casts else copy)
        return stmt_seq(*copies)


class _CastFolder(Rewriter):
    """Folds casts of constants."""

    def visit_Cast(self, node: Cast) -> PrimExpr:
        value = self.visit(node.value)
        if isinstance(value, IntImm):
            return cast(node.dtype, value)
        return node if value is node.value else Cast(node.dtype, value)


def _rebuilt(loop: For, body: Stmt, kind: ForKind, annotations: Mapping[str, Any]) -> For:
    if body is loop.body and kind is loop.kind and len(annotations) == len(loop.annotations):
        return loop
    return loop.with_fields(body=body, kind=kind, annotations=annotations)


def unroll_loop(func: PrimFunc, limits: Mapping[str, Any] | None = None) -> PrimFunc:
    """Unrolls marked loops, within ``limits`` (names as in LIMITS)."""
    return func.with_body(_Unroller({**LIMITS, **(limits or {})}).visit(func.body))


@compiler_pass("tir.UnrollLoop", options=LIMITS)
def unroll_loop_as_configured(
    func: PrimFunc, options: Mapping[str, Any], context: PassContext
) -> PrimFunc:
    """Unrolls marked loops."""
    if context.get_config("tir.disable_unroll", False):
        return func
    return unroll_loop(func, options)
