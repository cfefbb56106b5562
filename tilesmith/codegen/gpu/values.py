"""Writes expressions as text of a dialect for devices.

A vector expression is written for one lane (`emit.lane`), whose number is known: the statement
around it asks for each lane in turn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.codegen.c_family.pieces import ATOM, Piece
from tilesmith.codegen.c_family.rules import Rule
from tilesmith.codegen.c_family.values import CommonValues
from tilesmith.codegen.gpu.dialect import DeviceDialect
from tilesmith.codegen.gpu.file_text import FileText
from tilesmith.codegen.gpu.lines import Lines
from tilesmith.codegen.gpu.proxy_fences import ProxyFences
from tilesmith.codegen.gpu.rules import NODE_RULES, operator_rule
from tilesmith.ir import And, Call, FloatImm, IntImm, PrimExpr, Var
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


class Values(CommonValues[int]):
    """Returns the text of each expression of one function; rules say how it is written.

    Beside the common parts: ``loaded`` are the vectors that the statement has loaded as a whole.
    """

    def __init__(self, out: Lines, functions: dict[str, PrimFunc], fast_math: bool = False) -> None:
        super().__init__(out, NODE_RULES)
        self.out: Lines = out
        self.file: FileText = out.file
        self.dialect: DeviceDialect = out.file.dialect
        self.functions = functions
        self.fast_math = fast_math
        self.arch = ""
        self.warp_size = 0  # of the target
        self.fragments: dict[Var, Any] = {}  # memory of matrix units
        self.queues: set[int] = set()  # of copies in the background
        self.barriers = self.phases = ""  # barriers in shared memory, and their phases
        self.parameters: dict[Var, int] = {}  # of a kernel, and their numbers
        self.tensor_maps: dict[TensorMap, str] = {}  # that launches make for it, and their names
        self.fences = ProxyFences()  # that the kernel needs
        self.product_registers: dict[Var, int] = {}  # of ``wgmma``: bytes, 0 outside of their block
        self.orders_global = False  # whether barriers order global memory, too
        self.loaded: dict[int, LoadedVector] = {}
        self.regrouped: dict[int, str] = {}  # vectors read as others: pointers to lanes
        self.alignments: dict[Var, int] = {}  # bytes to which memory has to be aligned

    def operator_rule(self, name: str) -> Rule | None:
        return operator_rule(name, self.dialect.name)

    def call_function(self, call: Call) -> Piece:
        name = call.op.name_hint
        if name not in self.functions:
            raise self.out.unsupported(
                f"it calls '{name}', which is not a function of the device",
                "inline it, or call source of your own: T.call_extern with the pragma import_c",
            )
        arguments = ", ".join([self.text(arg) for arg in call.args])
        return f"{self.dialect.identifier(name)}({arguments})", ATOM

    def lane_of_element(self, lane: int, unit: int) -> tuple[int, str]:
        return lane // unit, str(lane % unit)

    def begin_statement(self, *roots: PrimExpr) -> None:
        super().begin_statement(*roots)
        self.loaded, self.regrouped = {}, {}

    def scalar(self, expr: PrimExpr, least: int = 0, hint: str = "common") -> str:
        """Return a scalar that all lanes of a vector share: computed once."""
        outer, self.lane = self.lane, None
        if isinstance(expr, (Var, IntImm, FloatImm)):
            written = self.text(expr, least)
        else:
            written = self.once(expr, least, hint)
        self.lane = outer
        return written

    def rely_on_alignment(self, var: Var, size: int) -> None:
        """Note that an access relies on the alignment of the memory that a variable points to."""
        self.alignments[var] = max(self.alignments.get(var, 0), size)

    # -- lanes

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

    # -- functions

    def math_name(self, name: str, dtype: DataType) -> str:
        if self.fast_math and dtype.bits <= 32 and name in self.dialect.fast_names:
            return self.dialect.fast_names[name]
        return super().math_name(name, dtype)

    def product_alone(self, a: str, b: str, dtype: DataType) -> str:
        in_double = dtype.bits == 64 and self.dialect.name == "opencl"
        helper = self.file.helper("mul_alone_f64" if in_double else "mul_alone")
        return f"{helper}({a}, {b})"
