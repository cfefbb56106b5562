"""Statements as LLVM text: loops, choices, memory, assertions, parallel regions.

Loops with at least one iteration are written as do-while loops, the form that LLVM keeps. Loops
over finished vector code are not vectorised again. Memory of constant size lies on the stack up to
a bound, other memory comes from an aligned allocation and is given back on every way out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import gcd
from typing import Any

from tilesmith.codegen.facts import constant_bytes, effect_of, free_variables, has_load
from tilesmith.codegen.llvm import intrinsics, packed
from tilesmith.codegen.llvm.debug_info import FunctionDebug, annotate
from tilesmith.codegen.llvm.dtypes import element_bytes, local_name, memory_type, register_type
from tilesmith.codegen.llvm.expressions import constant_value
from tilesmith.codegen.llvm.memory import MemoryEmitter
from tilesmith.ir import Call, CallEffectKind, GlobalVar, IntImm, PrimExpr, StringImm, Var
from tilesmith.ir.queries import called_name, is_call
from tilesmith.runtime.dtype import DataType
from tilesmith.tir import stmt as tir

ALIGNMENT = 64
STACK_BYTES = 16 * 1024
"""Memory of at most so many bytes lies on the stack."""
LOCAL_BYTES = 256 * 1024
"""The same for memory in scope "local", which mostly becomes registers."""

INT64 = DataType("int64")
_HARMLESS = (CallEffectKind.Pure, CallEffectKind.ExprAnnotation, CallEffectKind.ReadState)
_KIND = re.compile(r"([A-Z][A-Za-z]*(?:Error|Exception|Interrupt)): ?(.*)\Z", re.DOTALL)
_FORBIDDEN = {
    "thread_extent": "threads of a GPU",
    "virtual_thread": "virtual threads",
    "coproc_scope": "coprocessor scopes",
}


def is_on_stack(allocation: tir.Allocate) -> bool:
    """Whether an allocation lies on the stack."""
    size = constant_bytes(allocation)
    scope = allocation.buffer_var.storage_scope
    return size is not None and size <= (LOCAL_BYTES if scope == "local" else STACK_BYTES)


class StatementEmitter(MemoryEmitter):
    """Adds statements. Subclasses say how a function ends (`leave`) and how loops are divided."""

    def __init__(self, module: Any, name: str) -> None:
        super().__init__(module, name)
        self.allocas: list[str] = []  # for the entry block
        self.tail: list[str] = []  # blocks that are rarely reached
        self.releases: list[str] = []  # pointers to give back on the way out
        self.independent: set[Var] = set()  # pointers to memory that no other pointer reaches
        self.in_parallel = False
        self.device = (1, 0)  # of tensors made here: DLPack's CPU
        self._error_values = ""
        self.debug: FunctionDebug | None = None
        self.location = ""  # of the present statement, where debug information is written

    # -- small helpers

    @contextmanager
    def own_memo(self) -> Iterator[None]:
        """What is computed inside is not known outside (a branch)."""
        saved, kept, epoch = self._memo, self._kept, self._epoch
        self._memo, self._kept = dict(saved), list(kept)
        yield
        # a call with effects inside spoils what was loaded before
        self._memo, self._kept = (saved, kept) if epoch == self._epoch else ({}, [])

    def stack_space(self, size: int, alignment: int) -> str:
        """Memory in the function's frame."""
        self._count += 1
        name = f"%stack.{self._count}"
        self.allocas.append(f"  {name} = alloca [{size} x i8], align {alignment}")
        return name

    def statement(self, stmt: tir.Stmt) -> None:
        """Write a statement."""
        self.forget()
        if self.debug is None:
            self.visit(stmt)
        else:
            self._located(stmt)

    def _located(self, stmt: tir.Stmt) -> None:
        """Write a statement whose instructions know its place."""
        span = getattr(stmt, "span", None)
        if span is None or self.debug is None:
            self.visit(stmt)
            return
        outer, self.location = self.location, self.debug.location(span)
        start = len(self.lines)
        self.visit(stmt)
        annotate(self.lines, start, self.location)
        self.location = outer

    def needs_status(self, what: str) -> None:
        """An error must be able to leave the function. Raises CodegenError where it cannot."""
        raise NotImplementedError

    def leave(self, status: str, lines: list[str]) -> None:
        """Write into `lines` how the function ends with an error."""
        raise NotImplementedError

    def leave_unless(self, condition: str, status: Callable[[], str]) -> None:
        """Go on where `condition` (an i1) holds; else end the function with an error code."""
        failed, passed = self.label("failed"), self.label("passed")
        weights = self.module.likely_weights()
        self.write(f"br i1 {condition}, label %{passed}, label %{failed}, !prof {weights}")
        saved, self.lines = self.lines, []
        self.begin_block(failed)
        with self.own_memo():
            code = status()
        self.write_releases()
        self.leave(code, self.lines)
        if self.location:
            annotate(self.lines, 0, self.location)
        self.tail += self.lines
        self.lines = saved
        self.begin_block(passed)

    def check_status(self, status: str) -> None:
        """End the function with the same code unless a call returned 0."""
        good = self.define(f"icmp eq i32 {status}, 0")
        self.leave_unless(good, lambda: status)

    def write_releases(self) -> None:
        """Give back all memory that is live here."""
        for pointer in reversed(self.releases):
            self.module.release(self, pointer)

    # -- calls

    def visit_Call(self, call: Call) -> str:
        if isinstance(call.op, GlobalVar):
            return self._call_function(call)
        handler = intrinsics.INTRINSICS.get(call.op.name)
        if handler is None:
            raise self.unsupported(
                f"operator '{call.op.name}' has no translation for a CPU",
                "is it one of another target, or should a pass have replaced it?",
            )
        result = handler(self, call)
        if effect_of(call) not in _HARMLESS:
            self.forget()
        return result

    def _call_function(self, call: Call) -> str:
        """A call of a function of the module: a status is checked, a value is given back."""
        name = call.op.name_hint
        arguments = [self.typed(arg) for arg in call.args]
        kinds = [register_type(arg.dtype) for arg in call.args]
        returned = self.module.returned_type(name, call.dtype)
        target = self.module.function_symbol(name, returned, kinds)
        self.forget()
        if returned != "status":
            result = self.define(f"call {returned} {target}({', '.join(arguments)})")
            return result if not call.dtype.is_void else "0"
        if not self.module.may_fail(name):
            self.define(f"call i32 {target}({', '.join(arguments)})", "status")
            return "0"
        self.needs_status(f"calls '{name}', which can fail")
        self.check_status(self.define(f"call i32 {target}({', '.join(arguments)})", "status"))
        return "0"

    # -- plain statements

    def visit_SeqStmt(self, stmt: tir.SeqStmt) -> str:
        for part in stmt.seq:
            self.statement(part)
        return ""

    def visit_Evaluate(self, stmt: tir.Evaluate) -> str:
        value = stmt.value
        if is_call(value, "tir.ret"):
            self.visit_return(value)
        elif not isinstance(value, (IntImm, StringImm)):
            self.value(value)
            self.forget()
        return ""

    def visit_return(self, call: Call) -> None:
        """`tir.ret`: leave the function with a value."""
        raise NotImplementedError

    def bind(self, var: Var, value: PrimExpr) -> None:
        """Bind a variable to the value of an expression, with what is known of it."""
        is_index = var.dtype in ("int32", "int64") and not has_load(value)
        self.variables[var] = self.index(value) if is_index else self.value(value)
        if var.dtype.is_integer:
            if self.facts.is_non_negative(value):
                self.facts.non_negative.add(var)
            if var.dtype.lanes == 1:
                self.facts.multiple[var] = self.facts.multiple_of(value) or 1 << 30
        elif var.dtype.is_handle:
            self.pointer_alignment[var] = self._alignment_of(value, var)
            # the new pointer may reach the memory of the old ones
            self.independent.difference_update(free_variables(value))

    def _alignment_of(self, value: PrimExpr, var: Var) -> int:
        """What is known of the alignment of a pointer expression."""
        if isinstance(value, Var):
            return self.pointer_alignment.get(value, self._natural(var))
        name = called_name(value)
        if name == "tir.handle_add_byte_offset" and isinstance(value.args[0], Var):  # type: ignore[attr-defined]
            base, offset = value.args  # type: ignore[attr-defined]
            known = self.pointer_alignment.get(base, 1)
            return gcd(known, self.facts.multiple_of(offset)) or known
        return self._natural(var)

    def _natural(self, var: Var) -> int:
        """The alignment that the type of a pointer variable promises."""
        element = getattr(getattr(var, "type_annotation", None), "element_type", None)
        dtype = getattr(element, "dtype", None)
        return element_bytes(dtype) if dtype is not None and not dtype.is_void else 1

    def visit_LetStmt(self, stmt: tir.LetStmt) -> str:
        self.bind(stmt.var, stmt.value)
        self.statement(stmt.body)
        return ""

    def visit_AttrStmt(self, stmt: tir.AttrStmt) -> str:
        key = stmt.attr_key
        if key in _FORBIDDEN:
            raise self.unsupported(
                f"'{key}' means {_FORBIDDEN[key]}, which a CPU does not have",
                "is the function scheduled for another target?",
            )
        saved = self.device
        if key == "storage_alignment" and isinstance(stmt.node, Var):
            self.pointer_alignment[stmt.node] = constant_value(stmt.value) or 1
        elif key == "device_type":
            self.device = (constant_value(stmt.value) or 1, self.device[1])
        elif key == "device_id":
            self.device = (self.device[0], constant_value(stmt.value) or 0)
        else:
            self._import(key, stmt.value)
        self.statement(stmt.body)
        self.device = saved
        return ""

    def _import(self, key: str, value: Any) -> None:
        """Remember code that a pragma brings with it."""
        if key in ("pragma_import_llvm", "import_llvm"):
            self.module.imported.append(str(getattr(value, "value", value)))
        elif key in ("pragma_import_c", "import_c"):
            self.module.imported_c.append(str(getattr(value, "value", value)))

    def visit_AssertStmt(self, stmt: tir.AssertStmt) -> str:
        self.needs_status("contains an assertion")
        condition = self.value(stmt.condition)
        if condition != "true":
            self.leave_unless(condition, lambda: self.raise_error(stmt.message))
        self.statement(stmt.body)
        return ""

    def raise_error(self, message: Any) -> str:
        """Set the error of an assertion: a text, or a `tvm_tuple` of texts and integers.

        A text that begins like `TypeError: ` names the kind of the error.
        """
        is_joined = is_call(message, "tir.tvm_tuple")
        parts = list(message.args) if is_joined else [message]
        kind = "ExecutionError"
        if isinstance(parts[0], StringImm):
            named = _KIND.match(parts[0].value)
            if named is not None:
                kind, text = named.groups()
                parts[0] = StringImm(text)
        if len(parts) == 1 and isinstance(parts[0], StringImm):
            self.module.set_error(self, kind, parts[0].value)
            return "-1"
        texts = packed.message_text(parts)
        numbers = [part for part in parts if not isinstance(part, StringImm)]
        values = self.error_values(len(numbers))
        with self.own_memo():
            for number, part in enumerate(numbers):
                value = self.convert(self.value(part), part.dtype, INT64)
                place = self.define(f"getelementptr i64, ptr {values}, i64 {number}")
                self.write(f"store i64 {value}, ptr {place}, align 8")
        size = len(texts.encode()) + 24 * len(numbers) + 1
        words = f"ptr {self.module.text_constant(kind)}, ptr {self.module.text_constant(texts)}"
        helper = self.module.helper("__tilesmith_raise")
        self.write(f"call void {helper}({words}, ptr {values}, i64 {size})")
        return "-1"

    def error_values(self, count: int) -> str:
        """Space for the numbers in a message; all messages of a function share it."""
        if count > 4:
            return self.stack_space(8 * count, 8)
        if not self._error_values:
            self._error_values = self.stack_space(32, 8)
        return self._error_values

    def visit_IfThenElse(self, stmt: tir.IfThenElse) -> str:
        condition = stmt.condition
        is_likely = is_call(condition, "tir.likely")
        value = self.index(condition) if not has_load(condition) else self.value(condition)
        then, after = self.label("then"), self.label("after")
        other = self.label("else") if stmt.else_case is not None else after
        weights = f", !prof {self.module.likely_weights()}" if is_likely else ""
        self.write(f"br i1 {value}, label %{then}, label %{other}{weights}")
        for label, case in ((then, stmt.then_case), (other, stmt.else_case)):
            if case is not None:
                self.begin_block(label)
                self.statement(case)
                self.write(f"br label %{after}")
        self.begin_block(after)
        self.forget()
        return ""

    def visit_While(self, stmt: tir.While) -> str:
        head, body, after = self.label("while"), self.label("body"), self.label("after")
        self.write(f"br label %{head}")
        self.begin_block(head)
        self.forget()
        self.write(f"br i1 {self.value(stmt.condition)}, label %{body}, label %{after}")
        self.begin_block(body)
        self.statement(stmt.body)
        self.write(f"br label %{head}")
        self.begin_block(after)
        self.forget()
        return ""

    # -- loops

    def visit_For(self, loop: tir.For) -> str:
        for key, value in loop.annotations.items():
            self._import(key, value)
        if loop.kind is tir.ForKind.PARALLEL and not self.in_parallel:
            if constant_value(loop.extent) not in (0, 1):
                self.parallel(loop)
                return ""
        elif loop.kind in (tir.ForKind.VECTORIZED, tir.ForKind.THREAD_BINDING):
            raise self.unsupported(
                f"loop '{loop.loop_var.name}' is of kind {loop.kind.name}",
                "VectorizeLoop and the passes for threads have to run before code is generated",
            )
        extent = constant_value(loop.extent)
        if extent is not None and extent <= 0:
            return ""
        if extent == 1:
            self.bind(loop.loop_var, loop.min)
            self.statement(loop.body)
            return ""
        start = self.index(loop.min)
        kind = register_type(loop.loop_var.dtype)
        if isinstance(loop.min, IntImm) and extent is not None:
            stop = str(loop.min.value + extent)
        elif constant_value(loop.min) == 0:
            stop = self.index(loop.extent)
        else:
            stop = self.define(f"add nsw {kind} {start}, {self.index(loop.extent)}")
        if self.facts.is_non_negative(loop.min):
            self.facts.non_negative.add(loop.loop_var)
        self.write_loop(loop, start, stop, runs_once=extent is not None)
        return ""

    def write_loop(self, loop: tir.For, start: str, stop: str, runs_once: bool) -> None:
        """The loop over `[start, stop)`; `runs_once`: there is at least one iteration."""
        var, kind = loop.loop_var, register_type(loop.loop_var.dtype)
        hint = local_name(var.name)
        head, after = self.label("loop_" + hint), self.label("after_" + hint)
        less = "slt" if var.dtype.is_int else "ult"
        if not runs_once:
            enter = self.label("enter_" + hint)
            some = self.define(f"icmp {less} {kind} {start}, {stop}")
            self.write(f"br i1 {some}, label %{enter}, label %{after}")
            self.begin_block(enter)
        before = self.block
        self.write(f"br label %{head}")
        self.begin_block(head)
        place = len(self.lines)
        self.lines.append("")
        self._count += 1
        name, following = f"%{hint}.{self._count}", f"%{hint}.next.{self._count}"
        self.variables[var] = name
        outer_vectors, self.uses_vectors = self.uses_vectors, False
        self.loop_vars.append(var)
        self.statement(loop.body)
        self.loop_vars.pop()
        no_wrap = " nuw nsw" if var in self.facts.non_negative else " nsw"
        self.write(f"{following} = add{no_wrap if var.dtype.is_int else ''} {kind} {name}, 1")
        again = self.define(f"icmp {less} {kind} {following}, {stop}")
        advice = self._loop_advice(loop)
        self.write(f"br i1 {again}, label %{head}, label %{after}{advice}")
        self.lines[place] = (
            f"  {name} = phi {kind} [ {start}, %{before} ], [ {following}, %{self.block} ]"
        )
        self.uses_vectors = outer_vectors or self.uses_vectors
        self.begin_block(after)
        self.forget()

    def _loop_advice(self, loop: tir.For) -> str:
        """LLVM's metadata for a loop, from its kind, its annotations and its body."""
        advice = []
        notes = loop.annotations
        if loop.kind is tir.ForKind.UNROLLED:
            constant = isinstance(loop.extent, IntImm)
            advice.append('!"llvm.loop.unroll.full"' if constant else '!"llvm.loop.unroll.enable"')
        elif notes.get("pragma_unroll_disable"):
            advice.append('!"llvm.loop.unroll.disable"')
        for key, value in notes.items():
            if key.startswith("llvm.loop."):
                if isinstance(value, bool) and key.endswith(".enable"):
                    advice.append(f'!"{key}", i1 {str(value).lower()}')
                elif isinstance(value, int) and not isinstance(value, bool):
                    advice.append(f'!"{key}", i32 {value}')
                elif value:
                    advice.append(f'!"{key}"')
        stays_scalar = self.uses_vectors or loop.loop_var in self.wrapping
        if stays_scalar and not any("llvm.loop.vectorize" in line for line in advice):
            advice.append('!"llvm.loop.vectorize.enable", i1 false')
        if not advice:
            return ""
        return f", !llvm.loop {self.module.loop_metadata(advice)}"

    # -- memory

    def visit_Allocate(self, stmt: tir.Allocate) -> str:
        var = stmt.buffer_var
        if constant_value(stmt.condition) == 0:
            self.variables[var] = "null"
            self.statement(stmt.body)
            return ""
        self.pointer_alignment[var] = ALIGNMENT
        self.independent.add(var)
        size = constant_bytes(stmt)
        if is_on_stack(stmt):
            self._allocate_on_stack(stmt, size or 0)
            self.statement(stmt.body)
            return ""
        self.needs_status("allocates memory")
        amount = str(size) if size is not None else self._dynamic_bytes(stmt)
        pointer = self.module.allocate(self, amount)
        exists = self.define(f"icmp ne ptr {pointer}, null")

        def out_of_memory() -> str:
            text = f"no memory for '{var.name}' in function '{self.name}'"
            self.module.set_error(self, "MemoryError", text)
            return "-1"

        self.leave_unless(exists, out_of_memory)
        self.variables[var] = pointer
        self.releases.append(pointer)
        self.statement(stmt.body)
        self.releases.pop()
        self.module.release(self, pointer)
        return ""

    def _allocate_on_stack(self, stmt: tir.Allocate, size: int) -> None:
        element = stmt.dtype.element
        count = max(1, size // element_bytes(element))
        self._count += 1
        name = f"%{local_name(stmt.buffer_var.name)}.{self._count}"
        alignment = ALIGNMENT if size >= ALIGNMENT else 16
        self.pointer_alignment[stmt.buffer_var] = alignment
        kind = memory_type(element)
        self.allocas.append(f"  {name} = alloca [{count} x {kind}], align {alignment}")
        self.variables[stmt.buffer_var] = name

    def _dynamic_bytes(self, stmt: tir.Allocate) -> str:
        size = str(element_bytes(stmt.dtype) * stmt.dtype.lanes)
        for extent in stmt.extents:
            size = self.define(f"mul nsw i64 {size}, {self.index64(extent)}")
        return size

    def visit_AllocateConst(self, stmt: tir.AllocateConst) -> str:
        self.variables[stmt.buffer_var] = self.module.constant_array(stmt, self)
        self.pointer_alignment[stmt.buffer_var] = ALIGNMENT
        self.statement(stmt.body)
        return ""

    def visit_DeclBuffer(self, stmt: tir.DeclBuffer) -> str:
        self.statement(stmt.body)
        return ""

    # -- parallel loops

    def parallel(self, loop: tir.For) -> None:
        """Divide a loop among threads."""
        raise NotImplementedError

    def captured(self, loop: tir.For) -> list[Var]:
        """Variables of this function that the body of a loop uses."""
        return [
            var
            for var in free_variables(loop.body)
            if var is not loop.loop_var and var in self.variables
        ]

    def visit_default(self, node: Any) -> str:
        raise self.unsupported(
            f"{type(node).__name__} has no translation into LLVM code",
            "lowering removes blocks and tensor expressions before code is generated",
        )
