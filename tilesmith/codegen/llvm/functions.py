"""Writes functions as LLVM text: parameters, head, and the parts that write the body.

Every PrimFunc without a return type becomes `i32 name(...)` that returns 0, or the code of an error
that is set in tvm-ffi; its callers check the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from tilesmith.codegen.llvm.builder import Builder
from tilesmith.codegen.llvm.debug_info import FunctionDebug, ModuleDebug, annotate
from tilesmith.codegen.llvm.dtypes import extension, local_name, register_type, symbol
from tilesmith.codegen.llvm.loops import says_what_to_unroll
from tilesmith.codegen.llvm.machine import Machine
from tilesmith.codegen.llvm.module_text import ModuleText
from tilesmith.codegen.llvm.pointers import natural_alignment
from tilesmith.codegen.llvm.rules import Processor
from tilesmith.codegen.llvm.statements import Divide, StatementEmitter
from tilesmith.codegen.llvm.streaming import function_attributes
from tilesmith.codegen.llvm.symbols import Symbols
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import PointerType, Var
from tilesmith.ir.queries import walk
from tilesmith.ir.span import Span
from tilesmith.support.fallbacks import fallbacks_within
from tilesmith.tir.function import PrimFunc

__all__ = ["ATTRIBUTES", "FunctionEmitter", "ModuleContext"]

ATTRIBUTES = "#0"
"""The group of attributes that all functions of a module have: `Machine.attributes`."""


@dataclass(frozen=True)
class ModuleContext:
    """What the functions of one module share."""

    machine: Machine
    text: ModuleText
    symbols: Symbols
    processor: Processor
    debug: ModuleDebug | None = None


class FunctionEmitter:
    """Writes one function. ``name`` is for messages, ``returns`` the LLVM type of its value,
    `"status"`, or `"void"`; ``divide`` writes its parallel loops, ``statements`` its statements.
    """

    def __init__(
        self,
        module: ModuleContext,
        name: str,
        symbol: str,
        returns: str,
        divide: Divide,
        statements: type[StatementEmitter] = StatementEmitter,
    ) -> None:
        self.module = module
        self.name = name
        self.symbol = symbol
        self.out = Builder(name, module.machine)
        self.emit = Values(self.out, module.text, module.symbols, module.processor, returns)
        self.statements = statements(self.emit, symbol, divide)

    def write(self, function: PrimFunc, linkage: str) -> str:
        """Return the text of a PrimFunc."""
        if self.module.debug is not None:
            self.begin_debug(self.symbol, _place_of(function))
        is_noalias = bool(function.attrs.get("tir.noalias", False))
        alignments = function.attrs.get("tir.param_alignment", ())
        parameters = []
        for number, var in enumerate(function.params):
            stated = alignments[number] if number < len(alignments) else 0
            is_pointer = isinstance(var.type_annotation, PointerType)
            parameters.append(self.parameter(var, is_noalias and is_pointer, int(stated or 0)))
        self.emit.scope.unrolls_on_request = says_what_to_unroll(function.body)
        with fallbacks_within(self.name):
            self.statements.statement(function.body)
        exits = self.emit.exits
        result = exits.returned_type
        self.out.write("ret i32 0" if exits.returns == "status" else f"ret {result} undef")
        head = f"define {linkage}{result} {symbol(self.symbol)}({', '.join(parameters)}) nounwind"
        return self.finished(head + self.module.machine.vector_lengths)

    def begin_debug(self, name: str, place: Span | None) -> None:
        """Record the function's location, if debug information is requested."""
        if self.module.debug is not None:
            self.statements.debug = self.module.debug.function(name, place)

    @property
    def debug(self) -> FunctionDebug | None:
        """The locations in this function, if debug information is written."""
        return self.statements.debug

    def parameter(self, var: Var, is_noalias: bool, alignment: int = 0) -> str:
        """Bind a parameter; return its text in the function's head."""
        name = f"%{local_name(var.name)}.{self.out.number()}"
        self.emit.variables[var] = name
        if not var.dtype.is_handle:
            return f"{register_type(var.dtype)} {extension(var.dtype)}noundef {name}"
        known = alignment or natural_alignment(var)
        self.emit.pointers.alignment[var] = known
        words = "noalias " if is_noalias else ""
        if words:
            self.emit.pointers.independent.add(var)
        return f"ptr {words}{f'align {known} ' if known > 1 else ''}noundef {name}"

    def finished(self, head: str) -> str:
        """Return the function with its head, its stack space and its rare blocks."""
        out = self.out
        if self.module.machine.uses_streaming_mode:
            head += function_attributes((*out.allocas, *out.lines, *out.tail))
        if self.emit.scope.copies_rows:
            head += ' "no-builtin-memcpy"'  # LLVM keeps the loop
        if self.module.machine.attributes:
            head += f" {ATTRIBUTES}"
        if self.debug is not None:
            head += f" !dbg {self.debug.scope}"
            for lines in (out.lines, out.tail):
                annotate(lines, 0, self.debug.location(None))
        return "\n".join([head + " {", "entry:", *out.allocas, *out.lines, *out.tail, "}", ""])


def _place_of(function: PrimFunc) -> Span | None:
    """Return the location of a function: its span, or the first span of a statement in it."""
    if function.span is not None:
        return cast(Span, function.span)
    for node in walk(function.body):
        span = getattr(node, "span", None)
        if isinstance(span, Span):
            return span
    return None
