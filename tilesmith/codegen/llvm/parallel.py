"""Writes parallel loops: their bodies become functions, whose calls are divided among threads.

The body of a parallel loop becomes two functions: `void f.parallel.1(i32 task, i32 num_tasks, ptr
closure)`, which unpacks the captured variables and takes its equal share of the iterations, and
`f.parallel.1.body`, whose parameters carry the facts known outside (no aliases, alignment).

The loop over the tasks of a region (``LowerParallelRegions``) is called once with each number of a
task. Its closure has room for a barrier; what the region writes may be written by other tasks
before a barrier and read after it, so its pointers are not those of memory without aliases.
"""

from __future__ import annotations

from tilesmith.codegen.llvm.builder import Builder
from tilesmith.codegen.llvm.dtypes import register_type, symbol
from tilesmith.codegen.llvm.functions import FunctionEmitter, ModuleContext
from tilesmith.codegen.llvm.statements import StatementEmitter
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import IntImm, Var
from tilesmith.tir.queries import free_variables, stores
from tilesmith.tir.stmt import For
from tilesmith.tir.transform.threads.lower_parallel_regions import REGION

__all__ = ["ParallelLoops"]


class ParallelLoops:
    """Writes the parallel loops of one function."""

    def __init__(self, module: ModuleContext) -> None:
        self.module = module
        self.count = 0

    def divide(self, statements: StatementEmitter, loop: For) -> None:
        """Write the functions of a loop's body, and the call that launches them."""
        emit, text = statements.emit, self.module.text
        self.count += 1
        name = f"{statements.symbol}.parallel.{self.count}"
        captured = [
            var
            for var in free_variables(loop.body, sizes=False)
            if var is not loop.loop_var and var in emit.variables
        ]
        values = [(register_type(var.dtype), emit.variables[var]) for var in captured]
        kind = register_type(loop.loop_var.dtype)
        values += [(kind, emit.index(loop.min)), (kind, emit.index(loop.extent))]
        is_region = REGION in loop.annotations
        can_fail = self.module.symbols.outcomes.can_fail(loop.body)
        if is_region:
            values += [("i32", "0")] * 3  # a barrier, and a code for it that stays 0
        if can_fail:
            emit.exits.needs_status("can fail inside a parallel loop")
            text.helper("__tilesmith_keep_error")
            values += [("ptr", "null"), ("i32", "0")]  # the first error, and its code
        text.types.append(f"{_struct(name)} = type {{ {', '.join([k for k, _ in values])} }}")
        closure = emit.out.stack_array("closure", _struct(name), 64)
        for number, (kind_, value) in enumerate(values):
            place = _closure_place(emit.out, name, closure, number)
            emit.write(f"store {kind_} {value}, ptr {place}")
        text.functions.append(self._body(statements, name, loop, captured, can_fail))
        shares = _region_function if is_region else _share_function
        text.functions.append(shares(name, captured, loop, can_fail))
        launch = emit.define("load ptr, ptr @__tilesmith_parallel_launch, align 8")
        if not isinstance(loop.extent, IntImm):  # nothing to divide if there is one iteration
            kind_, extent = values[len(captured) + 1]
            several = emit.define(f"icmp sgt {kind_} {extent}, 1")
            serial = text.declare("__tilesmith_launch_serial", "void", ["ptr", "ptr"])
            launch = emit.define(f"select i1 {several}, ptr {launch}, ptr {serial}")
        text.needs_threads = True
        emit.write(f"call void {launch}(ptr {symbol(name)}, ptr {closure})")
        emit.forget()
        if can_fail:
            _propagate(emit, name, closure, len(values))

    def _body(
        self,
        statements: StatementEmitter,
        name: str,
        loop: For,
        captured: list[Var],
        can_fail: bool,
    ) -> str:
        """Write the iterations of one task: `f.parallel.1.body(captured..., begin, end)`."""
        outer = statements.emit
        returns = "status" if can_fail else "void"
        function = FunctionEmitter(self.module, outer.out.name, name, returns, self.divide)
        emit = function.emit
        emit.scope.in_parallel = True
        emit.scope.device = outer.scope.device
        emit.scope.unrolls_on_request = outer.scope.unrolls_on_request
        is_region = REGION in loop.annotations
        written = {store.buffer.data for store in stores(loop.body)} if is_region else set()
        emit.facts = outer.facts.copy()
        emit.pointers.volatile = set(outer.pointers.volatile)
        parameters = []
        for var in captured:
            known = outer.pointers.alignment.get(var, 0)
            is_noalias = var in outer.pointers.independent and var not in written
            parameters.append(function.parameter(var, is_noalias, known))
        function.begin_debug(name + ".body", loop.span)
        kind = register_type(loop.loop_var.dtype)
        if emit.facts.is_non_negative(loop.min):
            emit.facts.non_negative.add(loop.loop_var)
        if is_region:
            emit.variables[loop.loop_var] = "%begin"
            emit.scope.tasks = "%end"
            emit.scope.barrier = "ptr %barrier, ptr %code, i32 %end"
            function.statements.statement(loop.body)
        else:
            function.statements.loop(loop, "%begin", "%end", runs_once=False)
        emit.write("ret i32 0" if can_fail else "ret void")
        parameters += [f"{kind} noundef %begin", f"{kind} noundef %end"]
        if is_region:
            parameters += ["ptr %barrier", "ptr %code"]
        head = f"define internal {emit.exits.returned_type} {symbol(name + '.body')}"
        lengths = self.module.machine.vector_lengths
        return function.finished(f"{head}({', '.join(parameters)}) noinline nounwind{lengths}")


def _closure_place(out: Builder, name: str, closure: str, number: int) -> str:
    return out.define(f"getelementptr inbounds {_struct(name)}, ptr {closure}, i32 0, i32 {number}")


def _propagate(emit: Values, name: str, closure: str, fields: int) -> None:
    """Raise the error of a task in the launching thread."""
    place = _closure_place(emit.out, name, closure, fields - 1)
    status = emit.define(f"load i32, ptr {place}")
    good = emit.define(f"icmp eq i32 {status}, 0")

    def raise_again() -> str:
        helper = emit.text.helper("__tilesmith_raise_again")
        error = _closure_place(emit.out, name, closure, fields - 2)
        emit.write(f"call void {helper}(ptr {error})")
        return status

    emit.exits.leave_unless(good, raise_again)


def _struct(name: str) -> str:
    return "%" + symbol(name + ".closure")[1:]


def _share_function(name: str, captured: list[Var], loop: For, can_fail: bool) -> str:
    """Write `name(task, num_tasks, closure)`: this task's contiguous share, as equal as
    possible.
    """
    kind = register_type(loop.loop_var.dtype)
    kinds = [register_type(var.dtype) for var in captured] + [kind, kind]
    lines = _unpacked(name, kinds)
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
    return "\n".join(lines + _call(name, arguments, can_fail, count + 2))


def _region_function(name: str, captured: list[Var], loop: For, can_fail: bool) -> str:
    """Write `name(task, num_tasks, closure)` for the task of a region: it runs the body once."""
    kind = register_type(loop.loop_var.dtype)
    kinds = [register_type(var.dtype) for var in captured]
    count = len(kinds) + 2
    lines = _unpacked(name, kinds)
    for field, number in (("barrier", count), ("failure", count + (4 if can_fail else 2))):
        place = f"{_struct(name)}, ptr %closure, i32 0, i32 {number}"
        lines.append(f"  %{field} = getelementptr inbounds {place}")
    arguments = [f"{field} %field.{number}" for number, field in enumerate(kinds)]
    arguments += [f"{kind} %task", f"{kind} %num_tasks", "ptr %barrier", "ptr %failure"]
    return "\n".join(lines + _call(name, arguments, can_fail, count + 3))


def _unpacked(name: str, kinds: list[str]) -> list[str]:
    """Write the beginning of a function of tasks: it loads the first fields of the closure."""
    lines = [
        f"define internal void {symbol(name)}(i32 %task, i32 %num_tasks, ptr %closure) nounwind {{",
        "entry:",
    ]
    for number, field in enumerate(kinds):
        lines.append(
            f"  %place.{number} = getelementptr inbounds {_struct(name)}, ptr %closure, "
            f"i32 0, i32 {number}"
        )
        lines.append(f"  %field.{number} = load {field}, ptr %place.{number}")
    return lines


def _call(name: str, arguments: list[str], can_fail: bool, error: int) -> list[str]:
    """Write the call of a body, and the end of the function of tasks; `error` is the field of the
    closure for the first error, the next one that of its code.
    """
    body, struct = symbol(name + ".body"), _struct(name)
    if not can_fail:
        return [f"  call void {body}({', '.join(arguments)})", "  ret void", "}", ""]
    return [
        f"  %status = call i32 {body}({', '.join(arguments)})",
        "  %good = icmp eq i32 %status, 0",
        "  br i1 %good, label %done, label %failed",
        "failed:",
        f"  %error = getelementptr inbounds {struct}, ptr %closure, i32 0, i32 {error}",
        f"  %code = getelementptr inbounds {struct}, ptr %closure, i32 0, i32 {error + 1}",
        "  call void @__tilesmith_keep_error(ptr %error, ptr %code, i32 %status)",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
        "",
    ]
