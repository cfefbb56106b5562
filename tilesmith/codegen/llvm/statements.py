"""Writes statements as LLVM text: loops, choices, memory, assertions.

Memory of constant size is on the stack up to a bound; other memory comes from an aligned allocation
and is freed at every exit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.codegen.facts import constant_bytes, constant_value, has_load, volatile_pointer
from tilesmith.codegen.llvm import memory
from tilesmith.codegen.llvm.constants import constant_array
from tilesmith.codegen.llvm.debug_info import FunctionDebug, annotate
from tilesmith.codegen.llvm.dtypes import element_bytes, local_name, memory_type, register_type
from tilesmith.codegen.llvm.heap import ALIGNMENT, allocate, is_on_stack, release
from tilesmith.codegen.llvm.loops import write_loop
from tilesmith.codegen.llvm.messages import raise_error
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import Call, Dispatcher, IntImm, PrimExpr, StringImm, Var
from tilesmith.ir.queries import is_call
from tilesmith.tir import stmt as tir
from tilesmith.tir.queries import free_variables

__all__ = ["Divide", "StatementEmitter"]

_FORBIDDEN = {
    "thread_extent": "threads of a GPU",
    "virtual_thread": "virtual threads",
    "coproc_scope": "coprocessor scopes",
}

Divide = Callable[["StatementEmitter", tir.For], None]
"""Divides a parallel loop among threads."""


class StatementEmitter(Dispatcher[None]):
    """Writes the statements of one function. ``symbol`` is the function's; ``debug`` has the
    locations of statements, if debug information is written.
    """

    def __init__(
        self, emit: Values, symbol: str, divide: Divide, debug: FunctionDebug | None = None
    ) -> None:
        self.emit = emit
        self.out = emit.out
        self.symbol = symbol
        self.divide = divide
        self.debug = debug

    def statement(self, stmt: tir.Stmt) -> None:
        """Write a statement, with its location if debug information is written."""
        self.emit.forget()
        span = None if self.debug is None else getattr(stmt, "span", None)
        if span is None or self.debug is None:
            self.visit(stmt)
            return
        scope = self.emit.scope
        outer, scope.location = scope.location, self.debug.location(span)
        start = len(self.out.lines)
        self.visit(stmt)
        annotate(self.out.lines, start, scope.location)
        scope.location = outer

    def visit_default(self, node: Any) -> None:
        raise self.out.unsupported(
            f"{type(node).__name__} has no translation into LLVM code",
            "lowering removes blocks and tensor expressions before code is generated",
        )

    # -- plain statements

    def visit_SeqStmt(self, stmt: tir.SeqStmt) -> None:
        for part in stmt.seq:
            self.statement(part)

    def visit_Evaluate(self, stmt: tir.Evaluate) -> None:
        value = stmt.value
        if is_call(value, "tir.ret"):
            self._return(value)
        elif not isinstance(value, (IntImm, StringImm)):
            self.emit.value(value)
            self.emit.forget()

    def _return(self, call: Call) -> None:
        """Write `tir.ret`: leave the function with a value."""
        if self.emit.scope.in_parallel:
            raise self.out.unsupported("a parallel loop cannot be left by a return")
        self.emit.exits.leave(self.emit.typed(call.args[0]) if call.args else "")
        self.emit.forget()

    def visit_BufferStore(self, stmt: tir.BufferStore) -> None:
        memory.store(self.emit, stmt)

    def bind(self, var: Var, value: PrimExpr) -> None:
        """Bind a variable to the value of an expression, with the facts known about it."""
        emit = self.emit
        is_index = var.dtype in ("int32", "int64") and not has_load(value)
        emit.variables[var] = emit.index(value) if is_index else emit.value(value)
        if var.dtype.is_integer:
            if emit.facts.is_non_negative(value):
                emit.facts.non_negative.add(var)
            if var.dtype.lanes == 1:
                emit.facts.multiple[var] = emit.facts.multiple_of(value) or 1 << 30
        elif var.dtype.is_handle:
            pointers = emit.pointers
            pointers.alignment[var] = pointers.alignment_of(value, var, emit.facts)
            # the new pointer may alias the old ones
            pointers.independent.difference_update(free_variables(value, sizes=False))

    def visit_LetStmt(self, stmt: tir.LetStmt) -> None:
        self.bind(stmt.var, stmt.value)
        self.statement(stmt.body)

    def visit_AttrStmt(self, stmt: tir.AttrStmt) -> None:
        key = stmt.attr_key
        if key in _FORBIDDEN:
            raise self.out.unsupported(
                f"'{key}' means {_FORBIDDEN[key]}, which a CPU does not have",
                "is the function scheduled for another target?",
            )
        scope = self.emit.scope
        outer = scope.device, scope.operator
        if key == "storage_alignment" and isinstance(stmt.node, Var):
            self.emit.pointers.alignment[stmt.node] = constant_value(stmt.value) or 1
        elif (pointer := volatile_pointer(stmt)) is not None:
            self.emit.pointers.volatile.add(pointer)
        elif key == "device_type":
            scope.device = (constant_value(stmt.value) or 1, scope.device[1])
        elif key == "device_id":
            number = constant_value(stmt.value)
            scope.device = (
                scope.device[0], self.emit.value(stmt.value) if number is None else number
            )  # fmt: skip
        elif key == "operator" and isinstance(stmt.value, StringImm):
            scope.operator = stmt.value.value
        else:
            self._import(key, stmt.value)
        self.statement(stmt.body)
        scope.device, scope.operator = outer

    def _import(self, key: str, value: Any) -> None:
        """Record code that a pragma imports."""
        text = self.emit.text
        if key in ("pragma_import_llvm", "import_llvm"):
            text.imported.append(str(getattr(value, "value", value)))
        elif key in ("pragma_import_c", "import_c"):
            text.imported_c.append(str(getattr(value, "value", value)))

    def visit_AssertStmt(self, stmt: tir.AssertStmt) -> None:
        exits = self.emit.exits
        exits.needs_status("contains an assertion")
        condition = self.emit.value(stmt.condition)
        if condition != "true":
            exits.leave_unless(condition, lambda: raise_error(self.emit, stmt.message))
        self.statement(stmt.body)

    def visit_IfThenElse(self, stmt: tir.IfThenElse) -> None:
        emit, out, condition = self.emit, self.out, stmt.condition
        is_likely = is_call(condition, "tir.likely")
        value = emit.index(condition) if not has_load(condition) else emit.value(condition)
        then, after = out.label("then"), out.label("after")
        other = out.label("else") if stmt.else_case is not None else after
        weights = f", !prof {emit.text.metadata.likely()}" if is_likely else ""
        out.write(f"br i1 {value}, label %{then}, label %{other}{weights}")
        for label, case in ((then, stmt.then_case), (other, stmt.else_case)):
            if case is not None:
                out.begin_block(label)
                self.statement(case)
                out.write(f"br label %{after}")
        out.begin_block(after)
        emit.forget()

    # -- loops

    def visit_While(self, stmt: tir.While) -> None:
        emit, out = self.emit, self.out
        head, body, after = out.label("while"), out.label("body"), out.label("after")
        out.write(f"br label %{head}")
        out.begin_block(head)
        emit.forget()
        out.write(f"br i1 {emit.value(stmt.condition)}, label %{body}, label %{after}")
        out.begin_block(body)
        self.statement(stmt.body)
        out.write(f"br label %{head}")
        out.begin_block(after)
        emit.forget()

    def visit_For(self, loop: tir.For) -> None:
        for key, value in loop.annotations.items():
            self._import(key, value)
        extent = constant_value(loop.extent)
        if loop.kind is tir.ForKind.PARALLEL and not self.emit.scope.in_parallel:
            if extent not in (0, 1):
                self.divide(self, loop)
                return
        elif loop.kind in (tir.ForKind.VECTORIZED, tir.ForKind.THREAD_BINDING):
            raise self.out.unsupported(
                f"loop '{loop.loop_var.name}' is of kind {loop.kind.name}",
                "VectorizeLoop and the passes for threads have to run before code is generated",
            )
        if extent == 1:
            self.bind(loop.loop_var, loop.min)
            self.statement(loop.body)
        elif extent is None or extent > 0:
            start, stop = self._range(loop, extent)
            self.loop(loop, start, stop, runs_once=extent is not None)

    def _range(self, loop: tir.For, extent: int | None) -> tuple[str, str]:
        """Return the operands of the first value of a loop's variable, and of its bound."""
        emit = self.emit
        start = emit.index(loop.min)
        if isinstance(loop.min, IntImm) and extent is not None:
            stop = str(loop.min.value + extent)
        elif constant_value(loop.min) == 0:
            stop = emit.index(loop.extent)
        else:
            kind = register_type(loop.loop_var.dtype)
            stop = emit.define(f"add nsw {kind} {start}, {emit.index(loop.extent)}")
        emit.facts.below.pop(loop.loop_var, None)  # of an earlier loop over the same variable
        if emit.facts.is_non_negative(loop.min):
            emit.facts.non_negative.add(loop.loop_var)
            if extent is not None and isinstance(loop.min, IntImm):
                emit.facts.below[loop.loop_var] = loop.min.value + extent
        return start, stop

    def loop(self, loop: tir.For, start: str, stop: str, runs_once: bool) -> None:
        """Write the loop over `[start, stop)`; `runs_once`: there is at least one iteration."""
        write_loop(self.emit, loop, start, stop, runs_once, self.statement)

    # -- memory

    def visit_Allocate(self, stmt: tir.Allocate) -> None:
        emit, var = self.emit, stmt.buffer_var
        if constant_value(stmt.condition) == 0:
            emit.variables[var] = "null"
            self.statement(stmt.body)
            return
        emit.pointers.alignment[var] = ALIGNMENT
        emit.pointers.independent.add(var)
        if is_on_stack(stmt):
            self._allocate_on_stack(stmt, constant_bytes(stmt) or 0)
            self.statement(stmt.body)
            return
        pointer = emit.variables[var] = self._allocate_on_heap(stmt)
        emit.exits.releases.append(pointer)
        self.statement(stmt.body)
        emit.exits.releases.pop()
        release(self.out, emit.text, pointer)

    def _allocate_on_stack(self, stmt: tir.Allocate, size: int) -> None:
        element, var = stmt.dtype.element, stmt.buffer_var
        count = max(1, size // element_bytes(element))
        alignment = ALIGNMENT if size >= ALIGNMENT else 16
        kind = f"[{count} x {memory_type(element)}]"
        self.emit.pointers.alignment[var] = alignment
        self.emit.variables[var] = self.out.stack_array(local_name(var.name), kind, alignment)

    def _allocate_on_heap(self, stmt: tir.Allocate) -> str:
        emit = self.emit
        emit.exits.needs_status("allocates memory")
        size = constant_bytes(stmt)
        amount = str(size) if size is not None else self._dynamic_bytes(stmt)
        pointer = allocate(self.out, emit.text, amount)
        exists = emit.define(f"icmp ne ptr {pointer}, null")

        def out_of_memory() -> str:
            text = f"no memory for '{stmt.buffer_var.name}' in function '{self.out.name}'"
            emit.exits.set_error("MemoryError", text)
            return "-1"

        emit.exits.leave_unless(exists, out_of_memory)
        return pointer

    def _dynamic_bytes(self, stmt: tir.Allocate) -> str:
        size = str(element_bytes(stmt.dtype) * stmt.dtype.lanes)
        for extent in stmt.extents:
            size = self.emit.define(f"mul nsw i64 {size}, {self.emit.index64(extent)}")
        return size

    def visit_AllocateConst(self, stmt: tir.AllocateConst) -> None:
        self.emit.variables[stmt.buffer_var] = constant_array(self.emit, stmt)
        self.emit.pointers.alignment[stmt.buffer_var] = ALIGNMENT
        self.statement(stmt.body)

    def visit_DeclBuffer(self, stmt: tir.DeclBuffer) -> None:
        self.statement(stmt.body)
