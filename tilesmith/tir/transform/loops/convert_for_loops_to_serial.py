"""ConvertForLoopsToSerial: parallel loops become serial, for targets with one thread."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Rewriter
from tilesmith.ir.transform import Pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import For, ForKind, Stmt
from tilesmith.tir.transform.registration import function_pass, register_pass

__all__ = ["ConvertForLoopsToSerial", "convert_for_loops_to_serial"]


class _Serializer(Rewriter):
    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_For(self, loop: For) -> Stmt:
        loop = self.children(loop)
        return loop.with_fields(kind=ForKind.SERIAL) if loop.kind is ForKind.PARALLEL else loop


def convert_for_loops_to_serial(func: PrimFunc) -> PrimFunc:
    """``func`` with serial loops in place of parallel ones."""
    return func.with_body(_Serializer().visit(func.body))


@register_pass("tir.ConvertForLoopsToSerial")
def ConvertForLoopsToSerial() -> Pass:  # noqa: N802
    """The pass that makes parallel loops serial."""
    return function_pass(convert_for_loops_to_serial, "tir.ConvertForLoopsToSerial")
