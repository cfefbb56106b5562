"""RemapThreadAxis: renames thread axes.

RemapThreadAxis({"threadIdx.x": "threadIdx.y"})
"""

from __future__ import annotations

from collections.abc import Mapping

from tilesmith.ir import Var
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import AttrStmt, For, Stmt
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["remap_thread_axis"]


class _Remapper(StatementRewriter):
    def __init__(self, axes: Mapping[str, str]) -> None:
        self.axes = axes

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        new = self.children(attribute)
        axis = attribute.node
        if attribute.attr_key != "thread_extent" or axis.thread_tag not in self.axes:
            return new
        tag = self.axes[axis.thread_tag]
        var = Var(tag, axis.var.dtype)
        body = substitute(new.body, {axis.var: var})
        return new.with_fields(node=axis.with_fields(var=var, thread_tag=tag), body=body)

    def visit_For(self, loop: For) -> Stmt:
        new = self.children(loop)
        axis = loop.thread_binding
        if axis is None or axis.thread_tag not in self.axes:
            return new
        return new.with_fields(
            thread_binding=axis.with_fields(thread_tag=self.axes[axis.thread_tag])
        )


@compiler_pass("tir.RemapThreadAxis")
def remap_thread_axis(func: PrimFunc, axis_map: Mapping[str, str | IterVar]) -> PrimFunc:
    """Renames thread axes.

    Returns ``func`` with the threads of the axes ``axis_map`` (tag → tag or iterator) renamed.
    """
    axes = {
        old: new.thread_tag if isinstance(new, IterVar) else str(new)
        for old, new in axis_map.items()
    }
    return func.with_body(_Remapper(axes).visit(func.body))
