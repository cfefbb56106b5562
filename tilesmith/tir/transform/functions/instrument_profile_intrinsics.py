"""InstrumentProfileIntrinsics: marks functions and loops as profiled regions, whose time is taken.

    for i in range(16):                         T.start_profile_intrinsic(1)
        ...                                     for i in range(16):
                                                    ...
                                                T.end_profile_intrinsic(1)

The options: ``tir.instrument_lwp`` switches it on, ``tir.lwp_disable_func_prof`` leaves whole
functions out, ``tir.lwp_max_depth`` says how deep marked loops are nested at most (0: no limit),
``tir.lwp_min_height`` how many loops have to be inside of a marked one, counting itself,
``tir.instr_siblings`` that only loops with a neighbour are marked, and ``tir.reset_start_id`` lets
each module count from zero instead of going on.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.call_intrinsics import end_profile_intrinsic, start_profile_intrinsic
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import PassContext
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import BlockRealize, Evaluate, For, SeqStmt, Stmt, stmt_seq
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["instrument_profile_intrinsics"]


class _Numbers:
    """The numbers of profiled regions; they continue from module to module."""

    def __init__(self) -> None:
        self.next = 0

    def take(self) -> int:
        """Return the next number."""
        self.next += 1
        return self.next - 1


_NUMBERS = _Numbers()


def _height(stmt: Any) -> int:
    """Return the depth of the loop nest in a statement."""
    deepest = 0
    for child in stmt.children():
        if isinstance(child, Stmt):
            deepest = max(deepest, _height(child))
    return deepest + isinstance(stmt, For)


class _Instrumenter(StatementRewriter):
    def __init__(self, numbers: _Numbers, max_depth: int, min_height: int, siblings: bool) -> None:
        self.numbers = numbers
        self.max_depth = max_depth
        self.min_height = min_height
        self.only_siblings = siblings
        self.depth = 0
        self.has_sibling = False

    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        loops = sum([isinstance(stmt, For) for stmt in sequence.seq])
        outer = self.has_sibling
        parts = []
        for stmt in sequence.seq:
            self.has_sibling = loops > 1
            parts.append(self.visit(stmt))
        self.has_sibling = outer
        return stmt_seq(*parts, span=sequence.span)

    def visit_For(self, loop: For) -> Stmt:
        wanted = (
            (not self.max_depth or self.depth < self.max_depth)
            and _height(loop) >= self.min_height
            and (self.has_sibling or not self.only_siblings)
        )
        number = self.numbers.take() if wanted else -1
        self.depth += 1
        self.has_sibling = False
        new = self.children(loop)
        self.depth -= 1
        return marked(new, number) if wanted else new


def marked(stmt: Stmt, number: int) -> Stmt:
    """Return a statement between the start and end marks of a profiled region."""
    start, end = start_profile_intrinsic(number), end_profile_intrinsic(number)
    return stmt_seq(Evaluate(start), stmt, Evaluate(end))


@compiler_pass("tir.InstrumentProfileIntrinsics")
def instrument_profile_intrinsics(mod: IRModule) -> IRModule:
    """Marks functions and loops as profiled regions, as the options say."""
    context = PassContext.current()
    if not context.get_config("tir.instrument_lwp", False):
        return mod
    numbers = _Numbers() if context.get_config("tir.reset_start_id", False) else _NUMBERS
    for variable, func in list(mod.functions.items()):
        if not isinstance(func, PrimFunc) or isinstance(func.body, BlockRealize):
            continue
        whole = not context.get_config("tir.lwp_disable_func_prof", False)
        number = numbers.take() if whole else -1
        instrumenter = _Instrumenter(
            numbers,
            int(context.get_config("tir.lwp_max_depth", 0)),
            int(context.get_config("tir.lwp_min_height", 1)),
            bool(context.config.get("tir.instr_siblings", True)),
        )
        body = instrumenter.visit(func.body)
        mod[variable] = func.with_body(marked(body, number) if whole else body)
    return mod
