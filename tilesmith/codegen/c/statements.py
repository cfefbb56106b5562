"""Writes statements as C99 text. A store of a vector is a loop over its lanes."""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.codegen.c.dialect import c_type
from tilesmith.codegen.c.messages import raise_error
from tilesmith.codegen.c.symbols import is_on_stack
from tilesmith.codegen.c.values import Values
from tilesmith.codegen.c_family.dialect import c_string, short
from tilesmith.codegen.c_family.memory import element, overlaps, place, pointed_dtype
from tilesmith.codegen.c_family.pieces import PRODUCT, UNARY
from tilesmith.codegen.c_family.statements import CommonStatements, has_effect
from tilesmith.codegen.facts import constant_bytes
from tilesmith.ir import Call, IntImm, StringImm, Var
from tilesmith.ir.queries import is_call
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir import stmt as tir
from tilesmith.tir.queries import can_fail, free_variables, stores

__all__ = ["Divide", "StatementWriter"]

_FORBIDDEN = ("thread_extent", "virtual_thread", "coproc_scope")

Divide = Callable[["StatementWriter", tir.For, list[Var], str, str], None]
"""Divides a loop among threads: the variables that its body uses, its first value, its extent."""


class StatementWriter(CommonStatements):
    """Writes the statements of one function."""

    def __init__(self, emit: Values, divide: Divide) -> None:
        super().__init__(emit)
        self.emit: Values = emit
        self.divide = divide

    def visit_Evaluate(self, stmt: tir.Evaluate) -> None:
        value = stmt.value
        self.emit.begin_statement(value)
        if is_call(value, "tir.ret"):
            self.emit.exits.leave(self.emit.text(value.args[0]) if value.args else "")
        elif isinstance(value, Call) and value.dtype.lanes > 1 and can_fail(value):
            with self.emit.lanes(value.dtype.lanes):
                self.out.write(f"(void){self.emit.text(value)};")
        elif has_effect(value):
            written = self.emit.text(value)
            if " = " not in written and (written.startswith("(") or written.isidentifier()):
                self.out.write(f"(void){written};")  # the value is not used
            elif written not in ("0", "", "NULL"):
                self.out.write(f"{written};")

    def visit_BufferStore(self, stmt: tir.BufferStore) -> None:
        roots = [stmt.value, *stmt.indices]
        self.emit.begin_statement(*roots, *([stmt.predicate] if stmt.predicate is not None else []))
        lanes = stmt.value.dtype.lanes
        if lanes == 1:
            value = self.emit.text(stmt.value)
            self._store(stmt, value)
        elif overlaps(stmt):
            self._in_two_steps(stmt, lanes)
        else:
            with self.emit.lanes(lanes):
                self._store(stmt, self.emit.text(stmt.value))

    def _store(self, stmt: tir.BufferStore, value: str) -> None:
        condition = f"if ({self.emit.text(stmt.predicate)}) " if stmt.predicate is not None else ""
        if is_packed(stmt.buffer.dtype):
            base, index = place(self.emit, stmt)
            helper = self.emit.file.helper("store_" + short(stmt.buffer.dtype))
            self.out.write(f"{condition}{helper}({base}, {index}, {value});")
        else:
            self.out.write(f"{condition}{element(self.emit, stmt)} = {value};")

    def _in_two_steps(self, stmt: tir.BufferStore, lanes: int) -> None:
        """Read all lanes before one is written."""
        values = self.out.fresh("values")
        self.out.write(f"{c_type(stmt.value.dtype)} {values}[{lanes}];")
        with self.emit.lanes(lanes):
            self.out.write(f"{values}[lane] = {self.emit.text(stmt.value)};")
        self.emit.begin_statement(*stmt.indices)
        with self.emit.lanes(lanes):
            self._store(stmt, f"{values}[lane]")

    def visit_LetStmt(self, stmt: tir.LetStmt) -> None:
        self.emit.begin_statement(stmt.value)
        var = stmt.var
        if var.dtype.lanes > 1:
            name = self.out.fresh(var.name)
            self.out.write(f"{c_type(var.dtype)} {name}[{var.dtype.lanes}];")
            with self.emit.lanes(var.dtype.lanes):
                self.out.write(f"{name}[lane] = {self.emit.text(stmt.value)};")
            self.emit.names[var] = name
            self.emit.arrays.add(var)
        elif var.dtype.is_handle:
            self._let_pointer(var, self.emit.text(stmt.value, UNARY))
        else:
            self.emit.define(var, self.emit.text(stmt.value))
            self.emit.learn(var, stmt.value)
        self.visit(stmt.body)

    def _let_pointer(self, var: Var, value: str) -> None:
        element = self.emit.pointer_types[var] = pointed_dtype(var)
        name = self.emit.names[var] = self.out.fresh(var.name)
        kind = "void*" if element is None else c_type(element) + "*"
        self.out.write(f"{kind} {name} = ({kind}){value};")

    def visit_AttrStmt(self, stmt: tir.AttrStmt) -> None:
        if stmt.attr_key in _FORBIDDEN:
            raise self.out.unsupported(f"'{stmt.attr_key}' has no meaning on a CPU")
        outer = self.emit.operator, self.emit.device
        if stmt.attr_key == "operator" and isinstance(stmt.value, StringImm):
            self.emit.operator = stmt.value.value
        if stmt.attr_key == "device_type":
            self.emit.device = self.emit.text(stmt.value), self.emit.device[1]
        elif stmt.attr_key == "device_id":
            self.emit.device = self.emit.device[0], self.emit.text(stmt.value)
        self.note_attribute(stmt)
        self.visit(stmt.body)
        self.emit.operator, self.emit.device = outer

    def visit_AssertStmt(self, stmt: tir.AssertStmt) -> None:
        self.emit.exits.needs_status("contains an assertion")
        self.emit.begin_statement(stmt.condition)
        failed = f"!({self.emit.text(stmt.condition)})"
        raise_error(self.emit, failed, stmt.message)
        self.visit(stmt.body)

    def visit_For(self, loop: tir.For) -> None:
        if loop.kind in (tir.ForKind.VECTORIZED, tir.ForKind.THREAD_BINDING):
            raise self.out.unsupported(f"loop '{loop.loop_var.name}' is of kind {loop.kind.name}")
        for key, value in loop.annotations.items():
            self.import_source(key, value)
        emit = self.emit
        emit.begin_statement(loop.min, loop.extent)
        kind = c_type(loop.loop_var.dtype)
        name = emit.names[loop.loop_var] = self.out.fresh(loop.loop_var.name)
        start = emit.text(loop.min)
        stop = self.loop_end(loop, kind)
        if emit.facts.is_non_negative(loop.min):
            emit.facts.non_negative.add(loop.loop_var)
        if self._runs_in_parallel(loop):
            captured = self._captured(loop)
            if not any(variable in emit.arrays for variable in captured):
                extent = stop
                if not (isinstance(loop.min, IntImm) and loop.min.value == 0):
                    extent = f"({kind})({stop} - {emit.text(loop.min, PRODUCT)})"
                self.divide(self, loop, captured, start, extent)
                return
        if loop.kind is tir.ForKind.UNROLLED and isinstance(loop.extent, IntImm):
            self.out.write(f"TS_UNROLL({loop.extent.value})")
            emit.file.uses_unroll = True
        self.loop(loop, kind, name, start, stop)

    def _captured(self, loop: tir.For) -> list[Var]:
        """Return the variables of the function that the body of a loop uses."""
        return [
            var
            for var in free_variables(loop.body, sizes=False)
            if var is not loop.loop_var and var in self.emit.names
        ]

    def _runs_in_parallel(self, loop: tir.For) -> bool:
        """True if the iterations are divided among threads: they must not change parts of one byte.
        Loops inside a parallel loop are run by the task that reaches them.
        """
        if loop.kind is not tir.ForKind.PARALLEL or self.emit.in_parallel:
            return False
        if isinstance(loop.extent, IntImm) and loop.extent.value <= 1:
            return False
        emit = self.emit
        can_fail = emit.symbols.outcomes.can_fail(loop.body)
        if can_fail and emit.exits.returns not in ("status", "int32_t"):
            return False  # an error could not be reported
        return not _stores_packed_elements(loop.body)

    # -- memory

    def visit_Allocate(self, stmt: tir.Allocate) -> None:
        emit, var, element = self.emit, stmt.buffer_var, stmt.dtype.element
        name = emit.names[var] = self.out.fresh(var.name)
        emit.pointer_types[var] = element
        emit.begin_statement(*stmt.extents)
        if is_on_stack(stmt):
            size = constant_bytes(stmt) or 0
            count = max(1, size // (8 if element.is_handle else element.nbytes))
            self.out.write(f"{c_type(element)} {name}[{count}];")
            self.visit(stmt.body)
            return
        self._allocate_on_heap(stmt, name)
        emit.exits.releases.append(name)
        self.visit(stmt.body)
        emit.exits.releases.pop()
        self.out.write(f"free({name});")

    def _allocate_on_heap(self, stmt: tir.Allocate, name: str) -> None:
        emit, kind = self.emit, c_type(stmt.dtype.element)
        emit.exits.needs_status("allocates memory")
        factors = [emit.text(extent, UNARY) for extent in stmt.extents]
        size_text = " * ".join([f"sizeof({kind})", *[f"(size_t){f}" for f in factors]])
        if stmt.dtype.lanes > 1:
            size_text += f" * {stmt.dtype.lanes}"
        emit.file.uses_ffi = True
        self.out.write(f"{kind}* {name} = ({kind}*)malloc({size_text} + 1);")
        text = c_string(f"no memory for '{stmt.buffer_var.name}' in function '{self.out.name}'")
        emit.exits.leave_if(
            f"{name} == NULL", "-1", f'TVMFFIErrorSetRaisedFromCStr("MemoryError", {text});'
        )


def _stores_packed_elements(body: tir.Stmt) -> bool:
    return any(is_packed(store.buffer.dtype) for store in stores(body))
