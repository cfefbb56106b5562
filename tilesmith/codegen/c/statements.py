"""Statements and functions as C99 text.

A store of a vector is a loop over its lanes. Parallel loops carry OpenMP's pragma where nothing in
them can fail. Functions return 0, or the code of an error that is set in tvm-ffi.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy

from tilesmith.codegen.c.expressions import ExpressionWriter, Piece
from tilesmith.codegen.c.helpers import c_string, c_type, constant, identifier, is_narrow, short
from tilesmith.codegen.c.intrinsics import INTRINSICS
from tilesmith.codegen.c.parallel import captured_variables, write_parallel
from tilesmith.codegen.facts import FailureFinder, constant_bytes, effect_of
from tilesmith.ir import (
    Call,
    CallEffectKind,
    GlobalVar,
    IntImm,
    PointerType,
    PrimType,
    StringImm,
    Var,
)
from tilesmith.ir.queries import is_call
from tilesmith.ir.structural import structural_equal
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir import stmt as tir
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import loads, stores
from tilesmith.tir.struct_fields import TYPE_MARK

STACK_BYTES = 4096
"""Memory of at most so many bytes is a local array."""
LOCAL_BYTES = 64 * 1024
"""The same for memory in scope "local": threads have small stacks."""
_HARMLESS = (CallEffectKind.Pure, CallEffectKind.ExprAnnotation, CallEffectKind.ReadState)
_KIND = re.compile(r"([A-Z][A-Za-z]*(?:Error|Exception|Interrupt)): ?(.*)\Z", re.DOTALL)
_WORD = re.compile(r"\w+")
_DECLARED = re.compile(r"\s+(?:const )?\w+\*? (\w+)(?:\[\w+\])?(?: = .*)?;\Z")
_FORBIDDEN = ("thread_extent", "virtual_thread", "coproc_scope")


def is_on_stack(allocation: tir.Allocate) -> bool:
    """Whether an allocation becomes a local array."""
    size = constant_bytes(allocation)
    scope = allocation.buffer_var.storage_scope
    return size is not None and size <= (LOCAL_BYTES if scope == "local" else STACK_BYTES)


class FunctionWriter(ExpressionWriter):
    """Writes one function. `returns` is the C type of its value, or `"status"`."""

    def __init__(self, module: Any, name: str, returns: str) -> None:
        super().__init__(module, name)
        self.returns = returns
        self.releases: list[str] = []
        self.in_parallel = False

    # -- the function

    def function_text(self, function: PrimFunc, head: str) -> str:
        """The text of a function with the given beginning (linkage and type)."""
        restrict = "restrict " if function.attrs.get("tir.noalias") else ""
        parameters = [self.parameter(var, restrict) for var in function.params]
        self.visit(function.body)
        if self.returns == "status":
            self.write("return 0;")
        self.mention_unused([self.names[var] for var in function.params])
        return f"{head}({', '.join(parameters) or 'void'}) {{\n" + "\n".join(self.lines) + "\n}\n"

    def mention_unused(self, parameters: list[str]) -> None:
        """Compilers warn about names that are declared and not used, unless they are told so."""
        counts = Counter(_WORD.findall("\n".join(self.lines)))
        for number, line in enumerate(self.lines):
            declared = _DECLARED.match(line)
            if declared is not None and counts[declared.group(1)] == 1:
                self.lines[number] = f"{line} (void){declared.group(1)};"
        unused = [f"(void){name};" for name in parameters if not counts[name]]
        if unused:
            self.lines.insert(0, "  " + " ".join(unused))

    def parameter(self, var: Var, restrict: str) -> str:
        """Bind a parameter; its declaration."""
        if var.dtype.lanes > 1:
            raise self.unsupported(f"parameter '{var.name}' is a vector")
        name = self.names[var] = self.fresh(var.name)
        if not var.dtype.is_handle:
            return f"{c_type(var.dtype)} {name}"
        element = self.pointer_types[var] = _pointed(var)
        if element is None:
            return f"void* {name}"
        return f"{c_type(element)}* {restrict}{name}"

    def needs_status(self, what: str) -> None:
        """An error must be able to leave the function."""
        if self.returns not in ("status", "int32_t"):
            raise self.unsupported(f"it {what}, but returns {self.returns}: no error can be told")

    def check_status(self, call: str) -> None:
        """Leave with the same code unless a call gives 0."""
        name = self.fresh("status")
        self.write(f"const int32_t {name} = {call};")
        self.leave_if(f"{name} != 0", name)

    def leave_if(self, condition: str, status: str, *before: str) -> None:
        """Give memory back and return a status where a condition holds."""
        lines = [*before, *[f"free({name});" for name in reversed(self.releases)]]
        if not lines:
            self.write(f"if ({condition}) return {status};")
            return
        self.write(f"if ({condition}) {{")
        for line in [*lines, f"return {status};"]:
            self.write("  " + line)
        self.write("}")

    # -- calls

    def visit_Call(self, call: Call) -> Piece:
        if isinstance(call.op, GlobalVar):
            return self._call_function(call)
        handler = INTRINSICS.get(call.op.name)
        if handler is None:
            raise self.unsupported(f"operator '{call.op.name}' has no translation into C")
        return handler(self, call)

    def _call_function(self, call: Call) -> Piece:
        name = call.op.name_hint
        arguments = ", ".join([self.text(arg) for arg in call.args])
        symbol, returned = self.module.callee(name, call)
        written = f"{symbol}({arguments})"
        if returned != "status":
            return written, 15
        if self.module.may_fail(name):
            self.needs_status(f"calls '{name}', which can fail")
            self.check_status(written)
            return "0", 15
        return written, 15

    # -- statements

    def visit_SeqStmt(self, stmt: tir.SeqStmt) -> Piece:
        for part in stmt.seq:
            self.visit(part)
        return "", 0

    def visit_Evaluate(self, stmt: tir.Evaluate) -> Piece:
        value = stmt.value
        self.begin_statement(value)
        if is_call(value, "tir.ret"):
            result = self.text(value.args[0]) if value.args else ""
            if self.releases and self.returns != "status":  # it may read what is given back
                kept = self.fresh("kept")
                self.write(f"{self.returns} {kept} = {result};")
                result = kept
            for name in reversed(self.releases):
                self.write(f"free({name});")
            self.write(f"return {'0' if self.returns == 'status' else result};")
        elif isinstance(value, Call) and effect_of(value) not in _HARMLESS:
            written = self.text(value)
            if " = " not in written and (written.startswith("(") or written.isidentifier()):
                self.write(f"(void){written};")  # a value that nobody wants
            elif written not in ("0", "", "NULL"):
                self.write(f"{written};")
        return "", 0

    def visit_BufferStore(self, stmt: tir.BufferStore) -> Piece:
        roots = [stmt.value, *stmt.indices]
        self.begin_statement(*roots, *([stmt.predicate] if stmt.predicate is not None else []))
        lanes = stmt.value.dtype.lanes
        if lanes == 1:
            value = self.text(stmt.value)
            self._store(stmt, value)
        elif _overlaps(stmt):
            self._in_two_steps(stmt, lanes)
        else:
            self.open_lanes(lanes)
            self._store(stmt, self.text(stmt.value))
            self.close_lanes()
        return "", 0

    def _store(self, stmt: tir.BufferStore, value: str) -> None:
        condition = f"if ({self.text(stmt.predicate)}) " if stmt.predicate is not None else ""
        if is_packed(stmt.buffer.dtype):
            base, place = self.place(stmt)
            helper = self.module.helper("store_" + short(stmt.buffer.dtype))
            self.write(f"{condition}{helper}({base}, {place}, {value});")
        else:
            self.write(f"{condition}{self.element(stmt)} = {value};")

    def _in_two_steps(self, stmt: tir.BufferStore, lanes: int) -> None:
        """All lanes are read before one is written."""
        values = self.fresh("values")
        self.write(f"{c_type(stmt.value.dtype)} {values}[{lanes}];")
        self.open_lanes(lanes)
        self.write(f"{values}[lane] = {self.text(stmt.value)};")
        self.close_lanes()
        self.begin_statement(*stmt.indices)
        self.open_lanes(lanes)
        self._store(stmt, f"{values}[lane]")
        self.close_lanes()

    def open_lanes(self, lanes: int) -> None:
        """Begin a loop over the lanes of a vector."""
        self.write(f"for (int lane = 0; lane < {lanes}; ++lane) {{")
        self.indent += 1
        self.lane = "lane"
        self.taken.add("lane")

    def close_lanes(self) -> None:
        """End it."""
        self.lane = None
        self.indent -= 1
        self.write("}")

    def visit_LetStmt(self, stmt: tir.LetStmt) -> Piece:
        self.begin_statement(stmt.value)
        var = stmt.var
        if var.dtype.lanes > 1:
            name = self.fresh(var.name)
            self.write(f"{c_type(var.dtype)} {name}[{var.dtype.lanes}];")
            self.open_lanes(var.dtype.lanes)
            self.write(f"{name}[lane] = {self.text(stmt.value)};")
            self.close_lanes()
            self.names[var] = name
            self.arrays.add(var)
        elif var.dtype.is_handle:
            self._let_pointer(var, self.text(stmt.value, 14))
        else:
            self.define(var, self.text(stmt.value))
            if self.facts.is_non_negative(stmt.value):
                self.facts.non_negative.add(var)
        return self.visit(stmt.body)

    def _let_pointer(self, var: Var, value: str) -> None:
        element = self.pointer_types[var] = _pointed(var)
        name = self.names[var] = self.fresh(var.name)
        kind = "void*" if element is None else c_type(element) + "*"
        self.write(f"{kind} {name} = ({kind}){value};")

    def visit_AttrStmt(self, stmt: tir.AttrStmt) -> Piece:
        if stmt.attr_key in _FORBIDDEN:
            raise self.unsupported(f"'{stmt.attr_key}' has no meaning on a CPU")
        self._import(stmt.attr_key, stmt.value)
        return self.visit(stmt.body)

    def _import(self, key: str, value: Any) -> None:
        """Remember code that a pragma brings with it."""
        if key in ("pragma_import_c", "import_c"):
            self.module.imported.append(str(getattr(value, "value", value)))
        elif key in ("pragma_import_llvm", "import_llvm"):
            raise self.unsupported("LLVM text cannot become part of C code")

    def visit_AssertStmt(self, stmt: tir.AssertStmt) -> Piece:
        self.needs_status("contains an assertion")
        self.begin_statement(stmt.condition)
        failed = f"!({self.text(stmt.condition)})"
        self.module.uses_ffi = True
        message = stmt.message
        is_joined = is_call(message, "tir.tvm_tuple")
        parts = list(message.args) if is_joined else [message]  # type: ignore[attr-defined]
        kind = "ExecutionError"
        named = _KIND.match(parts[0].value) if isinstance(parts[0], StringImm) else None
        if named is not None:
            kind, text = named.groups()
            parts[0] = StringImm(text)
        if len(parts) == 1:
            text = c_string(parts[0].value)
            call = f"TVMFFIErrorSetRaisedFromCStr({c_string(kind)}, {text});"
            self.leave_if(failed, "-1", call)
        else:
            self._leave_with_parts(failed, kind, parts)
        return self.visit(stmt.body)

    def _leave_with_parts(self, failed: str, kind: str, parts: list[Any]) -> None:
        """An error whose message has numbers in it."""
        texts: list[str] = []
        digits = []
        names_type = False
        for number, part in enumerate(parts):
            if isinstance(part, StringImm):
                names_type = part.value.endswith(TYPE_MARK)
                texts.append(c_string(part.value.removesuffix(TYPE_MARK)))
            elif names_type:
                texts.append(f"{self.module.helper('type_name')}({self.text(part)})")
                names_type = False
            else:
                self.module.helper("decimal")
                digits = [f"char digits[{len(parts)}][24];"]
                texts.append(f"decimal({self.text(part)}, digits[{number}])")
        before = (
            *digits,
            f"const char* parts[{len(parts)}] = {{{', '.join(texts)}}};",
            f"TVMFFIErrorSetRaisedFromCStrParts({c_string(kind)}, parts, {len(parts)});",
        )
        self.leave_if(failed, "-1", *before)

    def visit_IfThenElse(self, stmt: tir.IfThenElse) -> Piece:
        self.begin_statement(stmt.condition)
        self.write(f"if ({self.text(stmt.condition)}) {{")
        self._indented(stmt.then_case)
        if stmt.else_case is not None:
            self.write("} else {")
            self._indented(stmt.else_case)
        self.write("}")
        return "", 0

    def _indented(self, stmt: tir.Stmt) -> None:
        self.indent += 1
        self.visit(stmt)
        self.indent -= 1

    def visit_While(self, stmt: tir.While) -> Piece:
        self.begin_statement(stmt.condition)
        self.write("while (1) {")
        self.indent += 1
        self.write(f"if (!({self.text(stmt.condition)})) break;")
        self.visit(stmt.body)
        self.indent -= 1
        self.write("}")
        return "", 0

    def visit_For(self, loop: tir.For) -> Piece:
        if loop.kind in (tir.ForKind.VECTORIZED, tir.ForKind.THREAD_BINDING):
            raise self.unsupported(f"loop '{loop.loop_var.name}' is of kind {loop.kind.name}")
        for key, value in loop.annotations.items():
            self._import(key, value)
        self.begin_statement(loop.min, loop.extent)
        var, kind = loop.loop_var, c_type(loop.loop_var.dtype)
        name = self.names[var] = self.fresh(var.name)
        start = self.text(loop.min)
        if isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm):
            stop = constant(loop.min.value + loop.extent.value, var.dtype)
        elif isinstance(loop.min, IntImm) and loop.min.value == 0:
            stop = self.text(loop.extent, 11)
        else:
            stop = f"{self.text(loop.min, 12)} + {self.text(loop.extent, 13)}"
        if not isinstance(loop.extent, (IntImm, Var)):
            end = self.fresh(var.name + "_end")
            self.write(f"const {kind} {end} = {stop};")
            stop = end
        if self.facts.is_non_negative(loop.min):
            self.facts.non_negative.add(var)
        if self._runs_in_parallel(loop):
            captured = captured_variables(self, loop)
            if not any(captured_var in self.arrays for captured_var in captured):
                if isinstance(loop.min, IntImm) and loop.min.value == 0:
                    extent = stop
                else:
                    extent = f"({kind})({stop} - {self.text(loop.min, 13)})"
                write_parallel(self, loop, captured, start, extent, self._can_fail(loop.body))
                return "", 0
        self._loop_pragma(loop)
        self.write(f"for ({kind} {name} = {start}; {name} < {stop}; ++{name}) {{")
        self._indented(loop.body)
        self.write("}")
        return "", 0

    def _loop_pragma(self, loop: tir.For) -> None:
        if loop.kind is tir.ForKind.UNROLLED and isinstance(loop.extent, IntImm):
            self.write(f"TS_UNROLL({loop.extent.value})")
            self.module.uses_unroll = True

    def _runs_in_parallel(self, loop: tir.For) -> bool:
        """Whether the iterations are divided among threads: nothing in them may change a part of a
        byte; loops inside are run by the task that meets them."""
        if loop.kind is not tir.ForKind.PARALLEL or self.in_parallel:
            return False
        if isinstance(loop.extent, IntImm) and loop.extent.value <= 1:
            return False
        if self.returns not in ("status", "int32_t") and self._can_fail(loop.body):
            return False  # no error could be told
        return not _stores_packed_elements(loop.body)

    def _can_fail(self, body: tir.Stmt) -> bool:
        finder = FailureFinder(is_on_stack)
        finder.visit(body)
        return finder.can_fail or any(self.module.may_fail(name) for name in finder.callees)

    # -- memory

    def visit_Allocate(self, stmt: tir.Allocate) -> Piece:
        var, element = stmt.buffer_var, stmt.dtype.element
        name = self.names[var] = self.fresh(var.name)
        self.pointer_types[var] = element
        kind = c_type(element)
        self.begin_statement(*stmt.extents)
        if is_on_stack(stmt):
            size = constant_bytes(stmt) or 0
            count = max(1, size // (8 if element.is_handle else element.nbytes))
            self.write(f"{kind} {name}[{count}];")
            return self.visit(stmt.body)
        self.needs_status("allocates memory")
        factors = [self.text(extent, 14) for extent in stmt.extents]
        size_text = " * ".join([f"sizeof({kind})", *[f"(size_t){f}" for f in factors]])
        if stmt.dtype.lanes > 1:
            size_text += f" * {stmt.dtype.lanes}"
        self.module.uses_ffi = True
        self.write(f"{kind}* {name} = ({kind}*)malloc({size_text} + 1);")
        text = c_string(f"no memory for '{var.name}' in function '{self.name}'")
        self.leave_if(
            f"{name} == NULL", "-1", f'TVMFFIErrorSetRaisedFromCStr("MemoryError", {text});'
        )
        self.releases.append(name)
        self.visit(stmt.body)
        self.releases.pop()
        self.write(f"free({name});")
        return "", 0

    def visit_AllocateConst(self, stmt: tir.AllocateConst) -> Piece:
        var, element = stmt.buffer_var, stmt.dtype.element
        given = stmt.data_or_idx
        if isinstance(given, int):
            given = self.module.constants[given]
        array = given.numpy() if hasattr(given, "numpy") else numpy.asarray(given)
        if array.dtype != element.numpy():
            raise self.unsupported(f"constant of {array.dtype} where {stmt.dtype} is declared")
        self.names[var] = self.module.constant_array(identifier(var.name), array, element)
        self.pointer_types[var] = element
        return self.visit(stmt.body)

    def visit_DeclBuffer(self, stmt: tir.DeclBuffer) -> Piece:
        return self.visit(stmt.body)


def _stores_packed_elements(body: tir.Stmt) -> bool:
    return any(is_packed(store.buffer.dtype) for store in stores(body))


def _pointed(var: Var) -> DataType | None:
    """The element type that a pointer variable tells; None for `void*`."""
    annotation = var.type_annotation
    if isinstance(annotation, PointerType) and isinstance(annotation.element_type, PrimType):
        dtype = annotation.element_type.dtype.element
        return None if dtype.is_void else dtype
    return None


def _overlaps(stmt: tir.BufferStore) -> bool:
    """Whether a vector store reads its own buffer at other places than those it writes."""
    index = stmt.indices[0] if stmt.indices else None
    return any(
        load.buffer is not stmt.buffer or not structural_equal(load.indices[0], index)
        for load in loads(stmt.value)
        if load.buffer.data is stmt.buffer.data
    )


def array_text(array: numpy.ndarray, dtype: DataType) -> str:
    """The elements of an array as C constants, twelve to a line."""
    flat = array.reshape(-1)
    if is_narrow(dtype):
        width = 2 * flat.itemsize
        texts = [f"0x{bits:0{width}x}" for bits in flat.view(f"u{flat.itemsize}").tolist()]
    else:
        texts = [constant(value, dtype) for value in flat.tolist()]
    rows = [", ".join(texts[start : start + 12]) for start in range(0, len(texts), 12)]
    return "{\n  " + ",\n  ".join(rows or ["0"]) + "\n}"
