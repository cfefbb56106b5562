"""ConvertForLoopsToSerial: makes parallel loops serial, for targets with one thread."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Rewriter
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import For, ForKind, Stmt

__all__ = ["convert_for_loops_to_serial"]


class _Serializer(Rewriter):
    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_For(self, loop: For) -> Stmt:
        loop = self.children(loop)
        return loop.with_fields(kind=ForKind.SERIAL) if loop.kind is ForKind.PARALLEL else loop


@compiler_pass("tir.ConvertForLoopsToSerial")
def convert_for_loops_to_serial(func: PrimFunc) -> PrimFunc:
    """Makes parallel loops serial.

    Returns ``func`` with serial loops in place of parallel ones.
    """
    return func.with_body(_Serializer().visit(func.body))
