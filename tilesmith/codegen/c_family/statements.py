"""Writes the statements that all dialects have: sequences, branches, loops, constant arrays."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.codegen.c_family.expressions import no_translation
from tilesmith.codegen.c_family.pieces import PRODUCT, SHIFT, SUM
from tilesmith.codegen.c_family.values import CommonValues
from tilesmith.codegen.facts import volatile_pointer
from tilesmith.ir import Call, CallEffectKind, Dispatcher, IntImm, PrimExpr, Var
from tilesmith.ir.intrinsics import effect_of
from tilesmith.tir import stmt as tir
from tilesmith.tir.queries import can_fail

__all__ = ["CommonStatements", "has_effect"]

_HARMLESS = (CallEffectKind.Pure, CallEffectKind.ExprAnnotation, CallEffectKind.ReadState)


def has_effect(value: PrimExpr) -> bool:
    """True if evaluating an expression does more than find its value."""
    return isinstance(value, Call) and (effect_of(value) not in _HARMLESS or can_fail(value))


class CommonStatements(Dispatcher[None]):
    """Writes statements of one function."""

    def __init__(self, emit: CommonValues[Any]) -> None:
        self.emit = emit
        self.out = emit.out

    def visit_default(self, node: Any) -> None:
        raise no_translation(self.emit, node)

    def visit_SeqStmt(self, stmt: tir.SeqStmt) -> None:
        for part in stmt.seq:
            self.visit(part)

    def visit_IfThenElse(self, stmt: tir.IfThenElse) -> None:
        self.emit.begin_statement(stmt.condition)
        self.out.write(f"if ({self.emit.text(stmt.condition)}) {{")
        self.indented(stmt.then_case)
        if stmt.else_case is not None:
            self.out.write("} else {")
            self.indented(stmt.else_case)
        self.out.write("}")

    def indented(self, stmt: tir.Stmt) -> None:
        """Write a statement one step deeper."""
        with self.out.deeper():
            self.visit(stmt)

    def visit_While(self, stmt: tir.While) -> None:
        self.emit.begin_statement(stmt.condition)
        self.out.write("while (true) {")
        with self.out.deeper():
            self.out.write(f"if (!({self.emit.text(stmt.condition)})) break;")
            self.visit(stmt.body)
        self.out.write("}")

    def loop(self, loop: tir.For, kind: str, name: str, start: str, stop: str) -> None:
        """Write a serial loop from ``start`` to ``stop`` of a variable of a type."""
        self.out.write(f"for ({kind} {name} = {start}; {name} < {stop}; ++{name}) {{")
        self.indented(loop.body)
        self.out.write("}")

    def loop_end(self, loop: tir.For, kind: str) -> str:
        """Return the bound of a loop's variable, as the condition of the loop needs it."""
        emit = self.emit
        if isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm):
            stop = loop.min.value + loop.extent.value
            return emit.dialect.constant_text(stop, loop.loop_var.dtype)
        if isinstance(loop.min, IntImm) and loop.min.value == 0:
            stop_text = emit.text(loop.extent, SHIFT)
        else:
            stop_text = f"{emit.text(loop.min, SUM)} + {emit.text(loop.extent, PRODUCT)}"
        if isinstance(loop.extent, (IntImm, Var)):
            return stop_text
        end = self.out.fresh(loop.loop_var.name + "_end")
        self.out.write(f"const {kind} {end} = {stop_text};")
        return end

    def note_attribute(self, stmt: tir.AttrStmt) -> None:
        """Keep what an attribute says of memory, and the code that a pragma imports."""
        if (pointer := volatile_pointer(stmt)) is not None:
            self.emit.volatile.add(pointer)
        self.import_source(stmt.attr_key, stmt.value)

    def import_source(self, key: str, value: Any) -> None:
        """Record code that a pragma imports."""
        if key in ("pragma_import_c", "import_c"):
            self.emit.file.import_source(str(getattr(value, "value", value)))
        elif key in ("pragma_import_llvm", "import_llvm"):
            raise self.out.unsupported(
                f"LLVM text (import_llvm) cannot be included in {self.emit.dialect.title} code",
                "include source: the pragma import_c",
            )

    def visit_AllocateConst(self, stmt: tir.AllocateConst) -> None:
        var, element, emit = stmt.buffer_var, stmt.dtype.element, self.emit
        given = stmt.data_or_idx
        if isinstance(given, int):
            given = emit.file.constants[given]
        array = given.numpy() if hasattr(given, "numpy") else numpy.asarray(given)
        if array.dtype != element.numpy():
            raise self.out.unsupported(f"constant of {array.dtype} where {stmt.dtype} is declared")
        hint = emit.dialect.identifier(var.name)
        emit.names[var], emit.pointer_types[var] = emit.file.constant_array(hint, array, element)
        self.visit(stmt.body)

    def visit_DeclBuffer(self, stmt: tir.DeclBuffer) -> None:
        self.visit(stmt.body)
