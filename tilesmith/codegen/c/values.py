"""Writes expressions as text; lines that have to precede an expression are written at its first
use.

A vector expression is written for one lane: the statement around it loops over `lane`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.codegen.c.exits import Exits
from tilesmith.codegen.c.file_text import FileText
from tilesmith.codegen.c.helpers import FLOAT32, c_type, float_text, is_narrow, rounded_to, short
from tilesmith.codegen.c.lines import Lines
from tilesmith.codegen.c.rules import ATOM, CHOICE, NODE_RULES, OR, UNARY, Piece
from tilesmith.codegen.c.symbols import Symbols
from tilesmith.codegen.facts import Facts, may_fault
from tilesmith.codegen.shared_expressions import shared_expressions
from tilesmith.ir import FloatImm, IntImm, PrimExpr, StringImm, Var
from tilesmith.runtime.dtype import DataType

__all__ = ["Values"]


class Values:
    """Returns the text of each expression of one function; rules say how it is written.

    Rules use its parts: ``out`` writes lines, ``file`` the file's other parts, ``exits`` the exits
    of the function; ``symbols`` describes the functions of the module, ``facts`` the values of
    variables, ``names`` their names. ``lane`` is the lane that is being written, ``guarded`` the
    number of enclosing branches that may not be taken.
    """

    def __init__(self, out: Lines, file: FileText, symbols: Symbols, returns: str) -> None:
        self.out = out
        self.file = file
        self.symbols = symbols
        self.exits = Exits(out, returns)
        self.facts = Facts()
        self.names: dict[Var, str] = {}
        self.arrays: set[Var] = set()  # vector variables, kept as arrays
        self.pointer_types: dict[Var, DataType | None] = {}
        self.volatile: set[Var] = set()  # pointers to memory that devices may change at any time
        self.lane: str | None = None
        self.guarded = 0
        self.in_parallel = False
        self.tasks = "1"  # the number of tasks of the parallel region around
        self.barrier = ""  # a call that waits for all of them
        self.operator = ""  # the operators of a graph that the called kernel computes
        self.device = ("1", "0")  # type and number of the device of tensors that are made here
        self._shared: dict[int, int] = {}
        self._known: dict[int, tuple[PrimExpr, str]] = {}

    def piece(self, expr: PrimExpr) -> Piece:
        """Write an expression anew; return its text and how strongly it binds."""
        return NODE_RULES[expr.__class__](self, expr)

    def is_shared(self, expr: PrimExpr) -> bool:
        """True if an expression occurs more than once in the statement."""
        return id(expr) in self._shared

    def begin_statement(self, *roots: PrimExpr) -> None:
        """Find the expressions that occur more than once in a statement: they are computed once."""
        self._shared = shared_expressions(*roots)
        self._known = {}
        self.facts.forget()

    def text(self, expr: PrimExpr, least: int = 0) -> str:
        """Return an expression as text, in parentheses if it binds weaker than `least`."""
        if id(expr) in self._shared and not isinstance(expr, (Var, IntImm, FloatImm, StringImm)):
            return self._once(expr, least)
        written, precedence = self.piece(expr)
        return f"({written})" if precedence < least else written

    def _once(self, expr: PrimExpr, least: int) -> str:
        known = self._known.get(id(expr))
        if known is not None:
            return known[1]
        written, precedence = self.piece(expr)
        if precedence == ATOM and len(written) < 12 or self.guarded and may_fault(expr):
            return f"({written})" if precedence < least else written
        if expr.dtype.is_handle or expr.dtype.is_void:
            return f"({written})" if precedence < least else written
        name = self.out.fresh("common")
        self.out.write(f"const {c_type(expr.dtype)} {name} = {written};")
        self._known[id(expr)] = (expr, name)
        return name

    def define(self, var: Var, value: str) -> None:
        """Declare a variable with a value; for a vector, with the lane that is being written."""
        self.names[var] = self.out.fresh(var.name)
        self.out.write(f"const {c_type(var.dtype)} {self.names[var]} = {value};")

    def arm(self, expr: PrimExpr) -> tuple[list[str], str]:
        """Write an expression of a branch that may not be taken; return the lines that have to
        precede it in the branch, and its text.
        """
        outer, self.out.lines = self.out.lines, []
        known = dict(self._known)
        self.guarded += 1
        with self.out.deeper():
            value = self.text(expr)
        self.guarded -= 1
        self._known = known
        lines, self.out.lines = self.out.lines, outer
        return lines, value

    def choice(self, condition: PrimExpr, true: PrimExpr, false: PrimExpr) -> Piece:
        """Return `condition ? true : false`."""
        chosen = self.text(condition, OR)
        self.guarded += 1
        written = f"{chosen} ? {self.text(true, OR)} : {self.text(false, CHOICE)}"
        self.guarded -= 1
        return written, CHOICE

    # -- lanes

    def at_lane(self, expr: PrimExpr, lane: str, least: int = 0) -> str:
        """Return one lane of a vector expression; scalars stay as they are."""
        outer, self.lane = self.lane, lane
        written = self.text(expr, least)
        self.lane = outer
        return written

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

    # -- small types

    def narrowed(self, written: Piece, dtype: DataType) -> Piece:
        """Convert the result of integer arithmetic to its own type: C computes small types as
        int.
        """
        if dtype.is_integer and dtype.bits < 8:
            return f"{self.file.helper('wrap_' + short(dtype))}({written[0]})", ATOM
        if dtype.is_integer and dtype.bits < 32:
            return f"({c_type(dtype)})({written[0]})", UNARY
        return written

    def widened(self, expr: PrimExpr, least: int = 0) -> str:
        """Convert a float operand to the type in which C computes it: float16 and bfloat16 to
        float.
        """
        if not is_narrow(expr.dtype):
            return self.text(expr, least)
        if isinstance(expr, FloatImm):
            return float_text(rounded_to(expr.value, expr.dtype), FLOAT32)
        return f"{self.file.helper(short(expr.dtype) + '_to_f32')}({self.text(expr)})"

    def shortened(self, written: str, dtype: DataType) -> Piece:
        """Convert a float result to its own type."""
        if not is_narrow(dtype):
            return written, ATOM
        return f"{self.file.helper('f32_to_' + short(dtype))}({written})", ATOM

    # -- functions of math.h

    def suffix(self, dtype: DataType) -> str:
        """Return `f` for functions of float."""
        return "" if dtype.bits == 64 else "f"

    def function(self, name: str, args: list[PrimExpr], dtype: DataType) -> Piece:
        """Call a function of `math.h` on floats."""
        arguments = ", ".join([self.widened(arg) for arg in args])
        return self.shortened(f"{name}{self.suffix(dtype)}({arguments})", dtype)
