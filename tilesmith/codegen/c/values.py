"""Writes expressions as C99 text.

A vector expression is written for one lane: the statement around it loops over `lane`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.codegen.c.exits import Exits
from tilesmith.codegen.c.file_text import FileText
from tilesmith.codegen.c.rules import INTRINSICS, NODE_RULES
from tilesmith.codegen.c.symbols import Symbols
from tilesmith.codegen.c_family.dialect import c_string
from tilesmith.codegen.c_family.lines import CommonLines
from tilesmith.codegen.c_family.pieces import ATOM, Piece
from tilesmith.codegen.c_family.rules import Rule
from tilesmith.codegen.c_family.values import CommonValues
from tilesmith.ir import Call, Var
from tilesmith.runtime.dtype import DataType

__all__ = ["Values"]


class Values(CommonValues[str]):
    """Returns the text of each expression of one function.

    Beside the common parts: ``exits`` are the exits of the function; ``symbols`` describes the
    functions of the module.
    """

    def __init__(self, out: CommonLines, file: FileText, symbols: Symbols, returns: str) -> None:
        super().__init__(out, NODE_RULES)
        self.file: FileText = file
        self.symbols = symbols
        self.exits = Exits(out, returns)
        self.arrays: set[Var] = set()  # vector variables, kept as arrays
        self.in_parallel = False
        self.tasks = "1"  # the number of tasks of the parallel region around
        self.barrier = ""  # a call that waits for all of them
        self.operator = ""  # the operators of a graph that the called kernel computes
        self.device = ("1", "0")  # type and number of the device of tensors that are made here

    def operator_rule(self, name: str) -> Rule | None:
        return INTRINSICS.get(name)

    def call_function(self, call: Call) -> Piece:
        name = call.op.name_hint
        arguments = ", ".join([self.text(arg) for arg in call.args])
        symbol, returned = self.symbols.callee(name, call)
        written = f"{symbol}({arguments})"
        if returned != "status":
            return written, ATOM
        if self.symbols.outcomes.may_fail(name):
            self.exits.needs_status(f"calls '{name}', which can fail")
            before = []
            if self.operator:
                self.file.uses_ffi = self.file.names_operators = True
                words = c_string(f"\n  in {self.operator}")
                before = [f"ts_name_operator({words});"]
            self.exits.check_status(written, *before)
            return "0", ATOM
        return written, ATOM

    def lane_of_element(self, lane: str, unit: int) -> tuple[str, str]:
        return f"({lane} / {unit})", f"{lane} % {unit}"

    @contextmanager
    def lanes(self, count: int) -> Iterator[None]:
        """Write a loop over the lanes of a vector."""
        self.out.write(f"for (int lane = 0; lane < {count}; ++lane) {{")
        self.lane = "lane"
        self.out.taken.add("lane")
        with self.out.deeper():
            yield
        self.lane = None
        self.out.write("}")

    def suffix(self, dtype: DataType) -> str:
        """Return `f` for functions of float."""
        return "" if dtype.bits == 64 else "f"
