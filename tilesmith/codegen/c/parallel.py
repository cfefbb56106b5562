"""Writes parallel loops as C99 text: the body becomes a function, tasks take contiguous shares of
it.

    struct f_parallel_1 { float* A; int32_t n; int32_t first; int32_t extent; };
    static void f_parallel_1(int32_t task, int32_t num_tasks, void* data) { ... }

The loop over the tasks of a region (``LowerParallelRegions``) is called once with each number of a
task; the structure has room for its barrier.

If the body can fail, the structure also holds the first error, which the launching thread raises
again.

The function is passed to OpenMP if the file is compiled with it, else to the pointer
`__tilesmith_parallel_launch`, which the runtime sets to its threads; by default it runs one task.
"""

from __future__ import annotations

from tilesmith.codegen.c.dialect import c_type
from tilesmith.codegen.c.file_text import FileText
from tilesmith.codegen.c.functions import FunctionWriter
from tilesmith.codegen.c.statements import StatementWriter
from tilesmith.codegen.c.symbols import Symbols
from tilesmith.codegen.c.values import Values
from tilesmith.ir import Var
from tilesmith.tir.stmt import For
from tilesmith.tir.transform.threads.lower_parallel_regions import REGION

__all__ = ["ParallelLoops"]

_CATCHING = """static void {symbol}(int32_t task, int32_t num_tasks, void* data) {{
  struct {symbol}* own = (struct {symbol}*)data;
  const int32_t status = {symbol}_share(task, num_tasks, data);
  if (status != 0) ts_keep_error(&own->error_, &own->code_, status);
}}
"""


class ParallelLoops:
    """Writes the parallel loops of a file."""

    def __init__(self, file: FileText, symbols: Symbols) -> None:
        self.file = file
        self.symbols = symbols

    def divide(
        self, statements: StatementWriter, loop: For, captured: list[Var], first: str, extent: str
    ) -> None:
        """Write the launch of a parallel loop, and its body as a function of the file."""
        emit, file = statements.emit, self.file
        can_fail = self.symbols.outcomes.can_fail(loop.body)
        file.uses_parallel = True
        if can_fail:
            emit.exits.needs_status("has a parallel loop that can fail")
            file.uses_ffi = file.keeps_errors = True
        number = len(file.structures) + 1
        symbol = f"{self.symbols.symbol_of(emit.out.name)}_parallel_{number}"
        kind = c_type(loop.loop_var.dtype)
        fields = [(_declared(emit, var), emit.names[var]) for var in captured]
        members = "".join([f"  {_member(declared, name)};\n" for declared, name in fields])
        errors = "  void* error_;\n  int32_t code_;\n" if can_fail else ""
        places = f"  {kind} first_;\n  {kind} extent_;\n"
        if REGION in loop.annotations:
            places += "  int32_t barrier_[3];\n"
        file.structures.append(f"struct {symbol} {{\n{members}{places}{errors}}};")
        none = ["NULL", "0"] if can_fail else []
        barrier = ["{0, 0, 0}"] if REGION in loop.annotations else []
        values = ", ".join([*[name for _, name in fields], first, extent, *barrier, *none])
        data = emit.out.fresh("data")
        emit.out.write(f"struct {symbol} {data} = {{{values}}};")
        emit.out.write(f"ts_launch({symbol}, &{data});")
        if can_fail:
            raised = f"ts_raise_kept({data}.error_);"
            emit.exits.leave_if(f"{data}.code_ != 0", f"{data}.code_", raised)
        file.tasks.append(self._task(emit, loop, captured, symbol, can_fail))

    def _task(
        self, outer: Values, loop: For, captured: list[Var], symbol: str, can_fail: bool
    ) -> str:
        """Write the function of a task: it executes its share of the iterations."""
        returns = "status" if can_fail else "void"
        inner = FunctionWriter(self.file, self.symbols, outer.out.name, returns, self.divide)
        emit, out = inner.emit, inner.out
        emit.in_parallel = True
        out.taken = {"task", "num_tasks", "data", "own"}
        emit.facts = outer.facts.copy()
        kind = c_type(loop.loop_var.dtype)
        out.write(f"const struct {symbol}* own = (const struct {symbol}*)data;")
        for var in captured:
            field = outer.names[var]
            name = emit.names[var] = out.fresh(var.name)
            if var in outer.pointer_types:
                emit.pointer_types[var] = outer.pointer_types[var]
            if var in outer.volatile:
                emit.volatile.add(var)
            out.write(f"{_member(_declared(outer, var), name)} = own->{field};")
        if REGION in loop.annotations:
            self._whole(inner, loop, symbol, can_fail)
        else:
            self._share(inner, loop, kind)
        if can_fail:
            out.write("return 0;")
        inner.mention_unused(["task"])
        head = "(int32_t task, int32_t num_tasks, void* data)"
        if not can_fail:
            return inner.finished(f"static void {symbol}{head}")
        return inner.finished(f"static int32_t {symbol}_share{head}") + _CATCHING.format(
            symbol=symbol
        )

    def _whole(self, inner: FunctionWriter, loop: For, symbol: str, can_fail: bool) -> None:
        """Write the body for the one task of a region."""
        emit, out = inner.emit, inner.out
        name = emit.names[loop.loop_var] = out.fresh(loop.loop_var.name)
        emit.tasks = "num_tasks"
        place = f"((struct {symbol}*)data)"
        code = f"{place}->code_" if can_fail else f"{place}->barrier_[2]"
        emit.barrier = f"ts_barrier({place}->barrier_, &{code}, num_tasks)"
        out.write(f"const int32_t {name} = task;")
        inner.statements.visit(loop.body)

    def _share(self, inner: FunctionWriter, loop: For, kind: str) -> None:
        """Write the loop over a task's share of the iterations."""
        emit, out = inner.emit, inner.out
        share, begin, end = out.fresh("share"), out.fresh("begin"), out.fresh("end")
        rest = out.fresh("rest")
        out.write(f"const {kind} {share} = own->extent_ / ({kind})num_tasks;")
        out.write(f"const {kind} {rest} = own->extent_ % ({kind})num_tasks;")
        # the first tasks take one more iteration each, until the remainder is used up
        before = f"({kind})task * {share} + (({kind})task < {rest} ? ({kind})task : {rest})"
        out.write(f"const {kind} {begin} = own->first_ + {before};")
        out.write(f"const {kind} {end} = {begin} + {share} + (({kind})task < {rest});")
        name = emit.names[loop.loop_var] = out.fresh(loop.loop_var.name)
        out.write(f"for ({kind} {name} = {begin}; {name} < {end}; ++{name}) {{")
        inner.statements.indented(loop.body)
        out.write("}")


def _declared(emit: Values, var: Var) -> str:
    """Return the C type of a variable of a function."""
    if not var.dtype.is_handle:
        return c_type(var.dtype)
    element = emit.pointer_types.get(var)
    return "void*" if element is None else c_type(element) + "*"


def _member(declared: str, name: str) -> str:
    return f"{declared} {name}"
