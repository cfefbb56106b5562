"""CombineContextCall: computes each call of ``tvm_context_id`` once per thread.

    for i in range(8):                          context = T.tvm_context_id()
        f(T.tvm_context_id())                   for i in range(8):
                                                    f(context)

The variables stand at the beginning of the function, and again at the beginning of the bodies of
parallel loops and tasks, where other threads run.
"""

from __future__ import annotations

from tilesmith.ir import Call, PrimExpr, Rewriter, Var
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import called_name
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import free_variables
from tilesmith.tir.stmt import AttrStmt, For, ForKind, LetStmt, Stmt

__all__ = ["combine_context_call"]

CONTEXT_CALLS = ("tir.tvm_context_id", "tir.tvm_thread_context")


class _Combiner(Rewriter):
    def __init__(self) -> None:
        self.known: list[tuple[PrimExpr, Var]] = []
        self.bound: set[Var] = set()

    def visit_Call(self, call: Call) -> PrimExpr:
        call = self.children(call)
        if called_name(call) not in CONTEXT_CALLS:
            return call
        if not self.bound.isdisjoint(free_variables(call, sizes=False)):
            return call  # it depends on something that is known further in only
        for value, var in self.known:
            if structural_equal(value, call):
                return var
        var = Var("context_cache", call.dtype)
        self.known.append((call, var))
        return var

    def scope(self, body: Stmt) -> Stmt:
        """Return a region that one thread runs, preceded by its context calls."""
        outer, self.known = self.known, []
        body = self.visit(body)
        for value, var in reversed(self.known):
            body = LetStmt(var, value, body)
        self.known = outer
        return body

    def visit_For(self, loop: For) -> Stmt:
        low, extent = self.visit(loop.min), self.visit(loop.extent)
        if loop.kind is ForKind.PARALLEL:
            outer, self.bound = self.bound, set()
            body = self.scope(loop.body)
            self.bound = outer
        else:
            self.bound.add(loop.loop_var)
            body = self.visit(loop.body)
        if body is loop.body and low is loop.min and extent is loop.extent:
            return loop
        return loop.with_fields(min=low, extent=extent, body=body)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        self.bound.add(let.var)
        return self.children(let)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key not in ("thread_extent", "coproc_uop_scope", "coproc_scope"):
            return self.children(attribute)
        outer, self.bound = self.bound, set()
        body = self.scope(attribute.body)
        self.bound = outer
        return attribute if body is attribute.body else attribute.with_fields(body=body)


@compiler_pass("tir.CombineContextCall")
def combine_context_call(func: PrimFunc) -> PrimFunc:
    """Computes each context call once per thread.

    Returns ``func`` with each context call made once for each thread.
    """
    return func.with_body(_Combiner().scope(func.body))
