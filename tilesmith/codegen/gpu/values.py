"""Writes expressions as text; lines that have to precede an expression are written at its first
use.

A vector expression is written for one lane (`emit.lane`), whose number is known: the statement
around it asks for each lane in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tilesmith.codegen.facts import Facts, may_fault
from tilesmith.codegen.gpu.dialect import FLOAT32, Dialect, short
from tilesmith.codegen.gpu.file_text import FileText
from tilesmith.codegen.gpu.lines import Lines
from tilesmith.codegen.gpu.rules import ATOM, CHOICE, NODE_RULES, OR, UNARY, Piece
from tilesmith.codegen.shared_expressions import shared_expressions
from tilesmith.ir import And, Call, FloatImm, IntImm, PrimExpr, StringImm, Var
from tilesmith.ir.queries import is_call
from tilesmith.ir.structural import structural_equal
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.tensor_maps import TensorMap
from tilesmith.tir.function import PrimFunc

__all__ = ["LoadedVector", "Values", "whole_choice"]

_LONGEST_LIST = 70


class LoadedVector(NamedTuple):
    """A vector that was loaded as a whole: the texts of its lanes, and the variable that holds them
    all, "" where there are several.
    """

    parts: list[str]
    name: str = ""


def whole_choice(call: Call) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return condition and arms of a choice; choices within its first arm that give the same
    otherwise, as padding of padding does, become part of the condition.
    """
    condition, true, false = call.args
    while (
        is_call(true, "tir.if_then_else") and structural_equal(true.args[2], false)
        and true.args[0].dtype.lanes == condition.dtype.lanes
    ):  # fmt: skip
        condition, true = And(condition, true.args[0]), true.args[1]
    return condition, true, false


class Values:
    """Returns the text of each expression of one function; rules say how it is written.

    Rules use its parts: ``out`` writes lines, ``file`` the file's other parts, ``dialect`` is the
    table of words, ``facts`` describes the values of variables, ``names`` their names.
    ``pointer_types`` has the element types of pointers, ``spaces`` their address spaces,
    ``read_only`` those declared const. ``guarded`` is the number of enclosing branches that may not
    be taken.
    """

    def __init__(self, out: Lines, functions: dict[str, PrimFunc], fast_math: bool = False) -> None:
        self.out = out
        self.file: FileText = out.file
        self.dialect: Dialect = out.file.dialect
        self.functions = functions
        self.fast_math = fast_math
        self.arch = ""
        self.facts = Facts()
        self.names: dict[Var, str] = {}
        self.pointer_types: dict[Var, DataType | None] = {}
        self.spaces: dict[Var, str] = {}
        self.read_only: set[Var] = set()
        self.volatile: set[Var] = set()  # pointers to memory that others may change at any time
        self.warp_size = 0  # of the target
        self.fragments: dict[Var, Any] = {}  # memory of matrix units
        self.queues: set[int] = set()  # of copies in the background
        self.barriers = self.phases = ""  # barriers in shared memory, and their phases
        self.parameters: dict[Var, int] = {}  # of a kernel, and their numbers
        self.tensor_maps: dict[TensorMap, str] = {}  # that launches make for it, and their names
        self.multiplies_shared = False  # whether tensor cores read shared memory by themselves
        self.orders_global = False  # whether barriers order global memory, too
        self.lane: int | None = None
        self.guarded = 0
        self.loaded: dict[int, LoadedVector] = {}
        self.regrouped: dict[int, str] = {}  # vectors read as others: pointers to lanes
        self.alignments: dict[Var, int] = {}  # bytes to which memory has to be aligned
        self._shared: dict[int, int] = {}
        self._known: dict[tuple[int, int | None], tuple[PrimExpr, str]] = {}

    # -- texts

    def type(self, dtype: DataType) -> str:
        """Return the type of one lane; include the header that it needs."""
        self.file.use(dtype)
        return self.dialect.type(dtype)

    def piece(self, expr: PrimExpr) -> Piece:
        """Write an expression anew; return its text and how strongly it binds."""
        return NODE_RULES[expr.__class__](self, expr)

    def begin_statement(self, *roots: PrimExpr) -> None:
        """Find the expressions that occur more than once in a statement: they are computed once."""
        self._shared = shared_expressions(*roots)
        self._known = {}
        self.loaded, self.regrouped = {}, {}
        self.facts.forget()

    def text(self, expr: PrimExpr, least: int = 0) -> str:
        """Return an expression as text, in parentheses if it binds weaker than `least`."""
        if id(expr) in self._shared and not isinstance(expr, (Var, IntImm, FloatImm, StringImm)):
            return self._once(expr, least)
        known = self._known.get(self._key(expr))
        if known is not None:
            return known[1]
        written, precedence = self.piece(expr)
        return f"({written})" if precedence < least else written

    def _key(self, expr: PrimExpr) -> tuple[int, int | None]:
        return id(expr), None if expr.dtype.lanes == 1 else self.lane

    def _once(self, expr: PrimExpr, least: int, hint: str = "common") -> str:
        known = self._known.get(self._key(expr))
        if known is not None:
            return known[1]
        written, precedence = self.piece(expr)
        is_plain = precedence == ATOM and len(written) < 12
        is_value = not (expr.dtype.is_handle or expr.dtype.is_void)
        if is_plain or not is_value or self.guarded and may_fault(expr):
            return f"({written})" if precedence < least else written
        name = self.out.fresh(hint)
        self.out.write(f"const {self.type(expr.dtype)} {name} = {written};")
        self._known[self._key(expr)] = (expr, name)
        return name

    def scalar(self, expr: PrimExpr, least: int = 0, hint: str = "common") -> str:
        """Return a scalar that all lanes of a vector share: computed once."""
        outer, self.lane = self.lane, None
        if isinstance(expr, (Var, IntImm, FloatImm)):
            written = self.text(expr, least)
        else:
            written = self._once(expr, least, hint)
        self.lane = outer
        return written

    def define(self, var: Var, value: str) -> None:
        """Declare a scalar variable with a value."""
        self.names[var] = self.out.fresh(var.name)
        self.out.write(f"const {self.type(var.dtype)} {self.names[var]} = {value};")

    def arm(self, expr: PrimExpr) -> tuple[list[str], str]:
        """Write an expression of a branch that may not be taken; return the lines that have to
        precede it in the branch, and its text.
        """
        return self.in_branch(lambda: self.text(expr))

    def in_branch(self, write: Callable[[], str]) -> tuple[list[str], str]:
        """Return the lines that ``write`` adds in a branch that may not be taken, and its text."""
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

    def rely_on_alignment(self, var: Var, size: int) -> None:
        """Note that an access relies on the alignment of the memory that a variable points to."""
        self.alignments[var] = max(self.alignments.get(var, 0), size)

    # -- lanes

    def at_lane(self, expr: PrimExpr, lane: int, least: int = 0) -> str:
        """Return one lane of a vector expression; scalars stay as they are."""
        outer, self.lane = self.lane, lane
        written = self.text(expr, least)
        self.lane = outer
        return written

    def part(self, name: str, dtype: DataType, lane: int) -> str:
        """Return one lane of a vector variable: `a.x`, or `a[5]` where vectors are arrays."""
        return name + (self.dialect.component(lane) if self.dialect.vector_type(dtype)
                       else f"[{lane}]")  # fmt: skip

    def define_vector(self, hint: str, expr: PrimExpr) -> str:
        """Declare a variable with all lanes of a vector expression; return its name."""
        parts = [self.at_lane(expr, lane) for lane in range(expr.dtype.lanes)]
        kind, name = self.dialect.vector_type(expr.dtype), self.out.fresh(hint)
        if kind:
            self.out.write(f"const {kind} {name} = {self.built(kind, parts)};")
        else:
            self.define_array(name, expr.dtype, parts)
        return name

    def define_array(self, name: str, dtype: DataType, parts: list[str]) -> None:
        """Declare an array with the lanes of a vector, which can be copied as a whole."""
        head = f"{self.aligned(dtype)}{self.type(dtype.element)} {name}[{dtype.lanes}]"
        self.out.write(f"{head} = {{{self.listed(parts)}}};")

    def built(self, kind: str, parts: list[str]) -> str:
        """Return a vector of a type with the given lanes."""
        return self.dialect.build_vector.format(type=kind, parts=self.listed(parts))

    def listed(self, parts: list[str]) -> str:
        """Return texts with commas between them, each on its own line where they are long."""
        line = ", ".join(parts)
        if len(line) <= _LONGEST_LIST:
            return line
        start = "\n" + "  " * (self.out.indent + 2)
        return start + ("," + start).join(parts)

    def aligned(self, dtype: DataType) -> str:
        """Return what an array of lanes is declared with, so that it can be copied as a whole."""
        size = min(16, dtype.element.nbytes * dtype.lanes)
        is_of_cuda = self.dialect.name == "cuda"
        return f"__align__({size}) " if is_of_cuda and size in (2, 4, 8, 16) else ""

    # -- small types

    def is_narrow(self, dtype: DataType) -> bool:
        """True if a float dtype is computed in float32."""
        return dtype.is_float and dtype.bits < 32

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
        if not self.is_narrow(expr.dtype):
            return self.text(expr, least)
        if isinstance(expr, FloatImm):
            value = float(expr.dtype.element.numpy().type(expr.value))
            return self.dialect.float_text(value, FLOAT32)
        return self.to_float(self.text(expr), expr.dtype)

    def shortened(self, written: str, dtype: DataType) -> Piece:
        """Convert a float result to its own type."""
        if not self.is_narrow(dtype):
            return written, ATOM
        name = self.dialect.from_float.get(short(dtype))
        if name is None:
            name = self.file.helper("f32_to_" + short(dtype))
        self.file.use(dtype)
        return f"{name}({written})", ATOM

    # -- functions

    def math_name(self, name: str, dtype: DataType) -> str:
        """Return the dialect's function of a mathematical operator for floats."""
        if self.fast_math and dtype.bits <= 32 and name in self.dialect.fast_names:
            return self.dialect.fast_names[name]
        found = self.dialect.math_names.get(name, name)
        return found if dtype.bits == 64 else found + self.dialect.math_suffix

    def function(self, name: str, args: list[PrimExpr], dtype: DataType) -> Piece:
        """Call a mathematical function on floats."""
        arguments = ", ".join([self.widened(arg) for arg in args])
        return self.shortened(f"{self.math_name(name, dtype)}({arguments})", dtype)
