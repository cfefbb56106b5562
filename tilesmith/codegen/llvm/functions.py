"""Functions as LLVM text: parameters, returns, and the bodies of parallel loops.

Every PrimFunc without a return type becomes `i32 name(...)` that returns 0, or the code of an error
that is set in tvm-ffi; whoever calls it looks at the code. The body of a parallel loop becomes two
functions: `void f.parallel.1(i32 task, i32 num_tasks, ptr closure)`, which unpacks what the body
uses and takes its equal share of the iterations, and `f.parallel.1.body`, whose parameters tell
LLVM what it knew outside (no aliases, alignment).
"""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.facts import FailureFinder
from tilesmith.codegen.llvm.debug_info import annotate
from tilesmith.codegen.llvm.dtypes import element_bytes, local_name, register_type, symbol
from tilesmith.codegen.llvm.statements import StatementEmitter, is_on_stack
from tilesmith.ir import Call, PointerType, PrimType, Var, pre_order_visit
from tilesmith.ir.span import Span
from tilesmith.runtime.dtype import DataType
from tilesmith.tir import stmt as tir
from tilesmith.tir.function import PrimFunc

_SMALL_INTEGERS = {True: "signext ", False: "zeroext "}


def returned_dtype(function: PrimFunc, finder: FailureFinder) -> DataType | None:
    """The dtype that a function returns; None for a function that returns nothing. `finder` has
    seen the body: a function may leave out its return type."""
    if isinstance(function.ret_type, PrimType) and not function.ret_type.dtype.is_void:
        return function.ret_type.dtype
    if isinstance(function.ret_type, PointerType):
        return DataType("handle")
    found = finder.returned
    return None if found is None or found.is_void else found


class FunctionEmitter(StatementEmitter):
    """Writes one function. `returns` is the LLVM type of its value, `"status"`, or `"void"`."""

    def __init__(self, module: Any, name: str, returns: str) -> None:
        super().__init__(module, name)
        self.returns = returns
        self.outlined = 0
        self.symbol = name

    # -- the whole function

    def emit(self, function: PrimFunc, linkage: str) -> str:
        """The text of a PrimFunc."""
        if self.module.debug is not None:
            self.debug = self.module.debug.function(self.symbol, _place_of(function))
        is_noalias = bool(function.attrs.get("tir.noalias", False))
        alignments = function.attrs.get("tir.param_alignment", ())
        parameters = []
        for number, var in enumerate(function.params):
            stated = alignments[number] if number < len(alignments) else 0
            is_pointer = isinstance(var.type_annotation, PointerType)
            parameters.append(self.parameter(var, is_noalias and is_pointer, int(stated or 0)))
        self.statement(function.body)
        result = "i32" if self.returns == "status" else self.returns
        self.write("ret i32 0" if self.returns == "status" else f"ret {result} undef")
        head = f"define {linkage}{result} {symbol(self.symbol)}({', '.join(parameters)}) nounwind"
        return self.finished(head + self.module.lengths_of_vectors())

    def parameter(self, var: Var, is_noalias: bool, alignment: int = 0) -> str:
        """Bind a parameter; its text in the function's head."""
        self._count += 1
        name = f"%{local_name(var.name)}.{self._count}"
        self.variables[var] = name
        kind = register_type(var.dtype)
        if not var.dtype.is_handle:
            extension = ""
            if var.dtype.lanes == 1 and not var.dtype.is_float and var.dtype.bits < 32:
                extension = _SMALL_INTEGERS[var.dtype.is_int]
            return f"{kind} {extension}noundef {name}"
        known = alignment or self._natural(var)
        self.pointer_alignment[var] = known
        words = "noalias " if is_noalias else ""
        if words:
            self.independent.add(var)
        return f"ptr {words}{f'align {known} ' if known > 1 else ''}noundef {name}"

    def finished(self, head: str) -> str:
        """The function with its head, the space on its stack and its rare blocks."""
        if self.debug is not None:
            head += f" !dbg {self.debug.scope}"
            for lines in (self.lines, self.tail):
                annotate(lines, 0, self.debug.location(None))
        return "\n".join([head + " {", "entry:", *self.allocas, *self.lines, *self.tail, "}", ""])

    # -- ends

    def needs_status(self, what: str) -> None:
        if self.returns not in ("status", "i32"):
            raise self.unsupported(
                f"it {what}, but returns {self.returns}, so that an error could not be told",
                "let it return nothing and store its result in a buffer",
            )

    def leave(self, status: str, lines: list[str]) -> None:
        lines.append(f"  ret i32 {status}")

    def visit_return(self, call: Call) -> None:
        if self.in_parallel:
            raise self.unsupported("a parallel loop cannot be left by a return")
        value = self.typed(call.args[0]) if call.args else ""
        self.write_releases()
        if self.returns == "status":
            self.write("ret i32 0")
        else:
            self.write(f"ret {value}")
        self.begin_block(self.label("unreached"))
        self.forget()

    # -- parallel loops

    def parallel(self, loop: tir.For) -> None:
        self.outlined += 1
        name = f"{self.symbol}.parallel.{self.outlined}"
        captured = self.captured(loop)
        values = [(register_type(var.dtype), self.variables[var]) for var in captured]
        kind = register_type(loop.loop_var.dtype)
        values += [(kind, self.index(loop.min)), (kind, self.index(loop.extent))]
        finder = FailureFinder(is_on_stack)
        finder.visit(loop.body)
        can_fail = finder.can_fail or any(self.module.may_fail(f) for f in finder.callees)
        if can_fail:
            self.needs_status("can fail inside a parallel loop")
            self.module.helper("__tilesmith_keep_error")
            values += [("ptr", "null"), ("i32", "0")]  # the first error, and its code
        closure = self._closure([kind for kind, _ in values], name)
        for number, (kind_, value) in enumerate(values):
            place = self._closure_place(name, closure, number)
            self.write(f"store {kind_} {value}, ptr {place}")
        body = _ParallelBody(self, name, loop, captured, can_fail)
        self.module.add_function(body.text())
        self.module.add_function(_share_function(name, captured, loop, can_fail))
        launch = self.define("load ptr, ptr @__tilesmith_parallel_launch, align 8")
        self.module.needs_threads = True
        self.write(f"call void {launch}(ptr {symbol(name)}, ptr {closure})")
        self.forget()
        if can_fail:
            self._propagate(name, closure, len(values))

    def _closure(self, kinds: list[str], name: str) -> str:
        self.module.add_type(f"{_struct(name)} = type {{ {', '.join(kinds)} }}")
        self._count += 1
        closure = f"%closure.{self._count}"
        self.allocas.append(f"  {closure} = alloca {_struct(name)}, align 64")
        return closure

    def _closure_place(self, name: str, closure: str, number: int) -> str:
        return self.define(
            f"getelementptr inbounds {_struct(name)}, ptr {closure}, i32 0, i32 {number}"
        )

    def _propagate(self, name: str, closure: str, fields: int) -> None:
        """An error of a task, taken from the thread where it happened, is raised here."""
        place = self._closure_place(name, closure, fields - 1)
        status = self.define(f"load i32, ptr {place}")
        good = self.define(f"icmp eq i32 {status}, 0")

        def raise_again() -> str:
            helper = self.module.helper("__tilesmith_raise_again")
            error = self._closure_place(name, closure, fields - 2)
            self.write(f"call void {helper}(ptr {error})")
            return status

        self.leave_unless(good, raise_again)


def _place_of(function: PrimFunc) -> Span | None:
    """Where a function stands: its span, or the first of a statement of it."""
    found = [function.span] if function.span is not None else []

    def look(node: Any) -> bool:
        span = getattr(node, "span", None)
        if span is not None and not found:
            found.append(span)
        return not found

    if not found:
        pre_order_visit(function.body, look)
    return found[0] if found else None


def _struct(name: str) -> str:
    return "%" + symbol(name + ".closure")[1:]


class _ParallelBody(FunctionEmitter):
    """The iterations of one task: `f.parallel.1.body(captured..., begin, end)`."""

    def __init__(
        self, outer: FunctionEmitter, name: str, loop: tir.For, captured: list[Var], can_fail: bool
    ) -> None:
        super().__init__(outer.module, outer.name, "status" if can_fail else "void")
        self.in_parallel = True
        self.symbol = name
        self.loop = loop
        self.facts = outer.facts.copy()
        self.device = outer.device
        self._parameters = []
        for var in captured:
            known = outer.pointer_alignment.get(var, 0)
            is_noalias = var in outer.independent
            self._parameters.append(self.parameter(var, is_noalias, known))

    def text(self) -> str:
        """The function's text."""
        if self.module.debug is not None:
            self.debug = self.module.debug.function(self.symbol + ".body", self.loop.span)
        kind = register_type(self.loop.loop_var.dtype)
        if self.facts.is_non_negative(self.loop.min):
            self.facts.non_negative.add(self.loop.loop_var)
        self.write_loop(self.loop, "%begin", "%end", runs_once=False)
        result = "i32" if self.returns == "status" else "void"
        self.write("ret i32 0" if self.returns == "status" else "ret void")
        parameters = ", ".join(
            [*self._parameters, f"{kind} noundef %begin", f"{kind} noundef %end"]
        )
        name = symbol(self.symbol + ".body")
        lengths = self.module.lengths_of_vectors()
        return self.finished(
            f"define internal {result} {name}({parameters}) noinline nounwind{lengths}"
        )


def _share_function(name: str, captured: list[Var], loop: tir.For, can_fail: bool) -> str:
    """`name(task, num_tasks, closure)`: this task's contiguous share, as equal as possible."""
    struct, kind = _struct(name), register_type(loop.loop_var.dtype)
    kinds = [register_type(var.dtype) for var in captured] + [kind, kind]
    lines = [
        f"define internal void {symbol(name)}(i32 %task, i32 %num_tasks, ptr %closure) nounwind {{",
        "entry:",
    ]
    for number, field in enumerate(kinds):
        lines.append(
            f"  %place.{number} = getelementptr inbounds {struct}, ptr %closure, "
            f"i32 0, i32 {number}"
        )
        lines.append(f"  %field.{number} = load {field}, ptr %place.{number}")
    count = len(captured)
    minimum, extent = f"%field.{count}", f"%field.{count + 1}"
    if kind == "i32":
        task, tasks = "%task", "%num_tasks"
    else:
        lines += [f"  %task.wide = zext i32 %task to {kind}",
                  f"  %tasks.wide = zext i32 %num_tasks to {kind}"] if kind == "i64" else [
                  f"  %task.wide = trunc i32 %task to {kind}",
                  f"  %tasks.wide = trunc i32 %num_tasks to {kind}"]  # fmt: skip
        task, tasks = "%task.wide", "%tasks.wide"
    arguments = [f"{field} %field.{number}" for number, field in enumerate(kinds[:-2])]
    arguments += [f"{kind} %begin", f"{kind} %end"]
    body = symbol(name + ".body")
    lines += [
        f"  %extent = call {kind} @llvm.smax({kind} {extent}, {kind} 0)",
        f"  %share = udiv {kind} %extent, {tasks}",
        f"  %rest = urem {kind} %extent, {tasks}",
        f"  %extra = call {kind} @llvm.umin({kind} {task}, {kind} %rest)",
        f"  %before = mul {kind} {task}, %share",
        f"  %offset = add {kind} %before, %extra",
        f"  %has_more = icmp ult {kind} {task}, %rest",
        f"  %more = zext i1 %has_more to {kind}",
        f"  %size = add {kind} %share, %more",
        f"  %begin = add {kind} {minimum}, %offset",
        f"  %end = add {kind} %begin, %size",
    ]
    if not can_fail:
        lines += [f"  call void {body}({', '.join(arguments)})", "  ret void", "}", ""]
        return "\n".join(lines)
    lines += [
        f"  %status = call i32 {body}({', '.join(arguments)})",
        "  %good = icmp eq i32 %status, 0",
        "  br i1 %good, label %done, label %failed",
        "failed:",
        f"  %error = getelementptr inbounds {struct}, ptr %closure, i32 0, i32 {count + 2}",
        f"  %code = getelementptr inbounds {struct}, ptr %closure, i32 0, i32 {count + 3}",
        "  call void @__tilesmith_keep_error(ptr %error, ptr %code, i32 %status)",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
        "",
    ]
    return "\n".join(lines)


__all__ = ["FunctionEmitter", "element_bytes", "returned_dtype"]
