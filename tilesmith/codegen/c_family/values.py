"""Writes expressions as text; lines that have to precede an expression are written at its first
use.

A vector expression is written for one lane, ``lane``: how a back end counts lanes is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tilesmith.codegen.c_family.dialect import (
    FLOAT32,
    Dialect,
    is_narrow,
    rounded_to,
    short,
)
from tilesmith.codegen.c_family.file_text import CommonFileText
from tilesmith.codegen.c_family.lines import CommonLines
from tilesmith.codegen.c_family.pieces import ATOM, CHOICE, OR, UNARY, Piece, bracketed
from tilesmith.codegen.c_family.rules import Rule
from tilesmith.codegen.c_family.shared_expressions import shared_expressions
from tilesmith.codegen.facts import Facts, may_fault
from tilesmith.ir import Call, FloatImm, IntImm, PrimExpr, StringImm, Var
from tilesmith.ir.rules import NodeRules
from tilesmith.runtime.dtype import DataType

__all__ = ["CommonValues"]

Lane = TypeVar("Lane")


class CommonValues(Generic[Lane]):
    """Returns the text of each expression of one function; rules say how it is written.

    Rules use its parts: ``out`` writes lines, ``file`` the file's other parts, ``dialect`` is the
    table of words, ``facts`` describes the values of variables, ``names`` their names.
    ``pointer_types`` has the element types of pointers, ``spaces`` their address spaces,
    ``read_only`` those declared const. ``guarded`` is the number of enclosing branches that may not
    be taken.
    """

    def __init__(self, out: CommonLines, node_rules: NodeRules[Rule]) -> None:
        self.out = out
        self.file: CommonFileText = out.file
        self.dialect: Dialect = out.file.dialect
        self.node_rules = node_rules
        self.facts = Facts()
        self.names: dict[Var, str] = {}
        self.pointer_types: dict[Var, DataType | None] = {}
        self.spaces: dict[Var, str] = {}
        self.read_only: set[Var] = set()
        self.volatile: set[Var] = set()  # pointers to memory that others may change at any time
        self.lane: Lane | None = None
        self.guarded = 0
        self._shared: dict[int, int] = {}
        self._known: dict[tuple[int, Lane | None], tuple[PrimExpr, str]] = {}

    # -- what a back end adds

    def operator_rule(self, name: str) -> Rule | None:
        """Return the rule of an operator by its full name; None without one."""
        raise NotImplementedError

    def call_function(self, call: Call) -> Piece:
        """Write the call of a function of the module."""
        raise NotImplementedError

    def lane_of_element(self, lane: Lane, unit: int) -> tuple[Lane, str]:
        """Return which element of ``unit`` lanes a lane lies in, and the place within it."""
        raise NotImplementedError

    # -- texts

    def type(self, dtype: DataType) -> str:
        """Return the type of one lane; include the header that it needs."""
        self.file.use(dtype)
        return self.dialect.type(dtype)

    def piece(self, expr: PrimExpr) -> Piece:
        """Write an expression anew; return its text and how strongly it binds."""
        return self.node_rules[expr.__class__](self, expr)

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
            return self.once(expr, least)
        known = self._known.get(self._key(expr)) if self._known else None
        if known is not None:
            return known[1]
        written, precedence = self.node_rules[expr.__class__](self, expr)
        return f"({written})" if precedence < least else written

    def _key(self, expr: PrimExpr) -> tuple[int, Lane | None]:
        return id(expr), None if expr.dtype.lanes == 1 else self.lane

    def once(self, expr: PrimExpr, least: int, hint: str = "common") -> str:
        """Return an expression as a variable that is computed where it was first used."""
        known = self._known.get(self._key(expr))
        if known is not None:
            return known[1]
        written, precedence = self.piece(expr)
        is_plain = precedence == ATOM and len(written) < 12
        is_value = not (expr.dtype.is_handle or expr.dtype.is_void)
        if is_plain or not is_value or self.guarded and may_fault(expr):
            return bracketed((written, precedence), least)
        name = self.out.fresh(hint)
        self.out.write(f"const {self.type(expr.dtype)} {name} = {written};")
        self._known[self._key(expr)] = (expr, name)
        return name

    def scalar(self, expr: PrimExpr, least: int = 0, hint: str = "common") -> str:
        """Return a scalar that all lanes of a vector share."""
        return self.text(expr, least)

    def define(self, var: Var, value: str) -> None:
        """Declare a variable with a value; for a vector, with the lane that is being written."""
        self.names[var] = self.out.fresh(var.name)
        self.out.write(f"const {self.type(var.dtype)} {self.names[var]} = {value};")

    def learn(self, var: Var, value: PrimExpr) -> None:
        """Keep what the value of a variable tells about it."""
        if var.dtype.lanes == 1:
            self.facts.multiple[var] = self.facts.multiple_of(value)
        if self.facts.is_non_negative(value):
            self.facts.non_negative.add(var)

    def in_branch(self, write: Callable[[], str]) -> tuple[list[str], str]:
        """Write something in a branch that may not be taken; return the lines that have to precede
        it there, and its text.
        """
        outer, self.out.lines = self.out.lines, []
        known = dict(self._known)
        self.guarded += 1
        with self.out.deeper():
            value = write()
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

    def at_lane(self, expr: PrimExpr, lane: Lane, least: int = 0) -> str:
        """Return one lane of a vector expression; scalars stay as they are."""
        outer, self.lane = self.lane, lane
        written = self.text(expr, least)
        self.lane = outer
        return written

    # -- small types

    def narrowed(self, written: Piece, dtype: DataType) -> Piece:
        """Convert the result of integer arithmetic to its own type: C computes small types as
        int.
        """
        if dtype.is_integer and dtype.bits < 8:
            return f"{self.file.helper('wrap_' + short(dtype))}({written[0]})", ATOM
        if dtype.is_integer and dtype.bits < 32:
            return f"({self.type(dtype)})({written[0]})", UNARY
        return written

    def to_float(self, written: str, dtype: DataType) -> str:
        """Convert a value of a narrow float dtype to float."""
        name = self.dialect.to_float.get(short(dtype))
        if name is None:
            name = self.file.helper(short(dtype) + "_to_f32")
        self.file.use(dtype)
        return f"{name}({written})"

    def widened(self, expr: PrimExpr, least: int = 0) -> str:
        """Convert a float operand to the type in which it is computed: below 32 bits to float."""
        if not is_narrow(expr.dtype):
            return self.text(expr, least)
        if isinstance(expr, FloatImm):
            return self.dialect.float_text(rounded_to(expr.value, expr.dtype), FLOAT32)
        return self.to_float(self.text(expr), expr.dtype)

    def shortened(self, written: str, dtype: DataType) -> Piece:
        """Convert a float result to its own type."""
        if not is_narrow(dtype):
            return written, ATOM
        name = self.dialect.from_float.get(short(dtype))
        if name is None:
            name = self.file.helper("f32_to_" + short(dtype))
        self.file.use(dtype)
        return f"{name}({written})", ATOM

    def product_alone(self, a: str, b: str, dtype: DataType) -> str:
        """Return a product of floats that is rounded before anything is added."""
        return f"{a} * {b}"

    # -- functions

    def math_name(self, name: str, dtype: DataType) -> str:
        """Return the dialect's function of a mathematical operator for floats."""
        found = self.dialect.math_names.get(name, name)
        return found if dtype.bits == 64 else found + self.dialect.math_suffix
