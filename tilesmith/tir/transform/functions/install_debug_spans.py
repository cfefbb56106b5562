"""InstallDebugSpans: sets the span of each statement to its own line in the printed program.

Afterwards the span of a statement names the line of ``func.script()`` that shows it, in a source
called ``NAME.tir``; a back end that writes debug information then leads to the lowered program.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.printing.entry import PrintedText, printed
from tilesmith.ir.span import Span
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Stmt
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["install_debug_spans"]


class _SpanInstaller(StatementRewriter):
    def __init__(self, text: PrintedText, source: str) -> None:
        self.text = text
        self.source = source
        self.starts = [0]
        for position, letter in enumerate(text.text):
            if letter == "\n":
                self.starts.append(position + 1)

    def visit(self, node: Any) -> Any:
        new = super().visit(node)
        if not isinstance(node, Stmt):
            return new
        ranges = self.text.ranges_of(node)
        if not ranges:
            return new
        return new.with_fields(span=self.span(*ranges[0]))

    def span(self, start: int, end: int) -> Span:
        line, column = self.place(start)
        end_line, end_column = self.place(end)
        return Span(self.source, line, end_line, column, end_column)

    def place(self, position: int) -> tuple[int, int]:
        line = bisect_right(self.starts, position)
        return line, position - self.starts[line - 1] + 1


@compiler_pass("tir.InstallDebugSpans")
def install_debug_spans(func: PrimFunc) -> PrimFunc:
    """Sets the span of each statement to its line in the printed program.

    Returns ``func`` whose statements have the lines of its own text as their places.
    """
    name = str(func.attrs.get("global_symbol", "main"))
    return func.with_body(_SpanInstaller(printed(func), f"{name}.tir").visit(func.body))
