"""Parallel loops as C99 text: the body becomes a function, tasks take contiguous shares of it.

    struct f_parallel_1 { float* A; int32_t n; int32_t first; int32_t extent; };
    static void f_parallel_1(int32_t task, int32_t num_tasks, void* data) { ... }

Where something in the body can fail, the structure also has room for the first error, which the
thread of the launch raises anew.

The function is given to whatever runs tasks: OpenMP where the file is compiled with it, else the
pointer `__tilesmith_parallel_launch`, behind which the runtime puts its threads; by itself it runs
one task.
"""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.c.helpers import c_type
from tilesmith.ir import Var
from tilesmith.tir import stmt as tir
from tilesmith.tir.queries import free_variables

LAUNCH = """
/* Runs a task as often as there are threads, each time with another number. */
typedef void (*TsTask)(int32_t task, int32_t num_tasks, void* data);
#if defined(_OPENMP)
#include <omp.h>
static void ts_launch(TsTask task, void* data) {
#pragma omp parallel
  task((int32_t)omp_get_thread_num(), (int32_t)omp_get_num_threads(), data);
}
#else
static void ts_run_alone(TsTask task, void* data) { task(0, 1, data); }
#if defined(__GNUC__)
__attribute__((weak))
#endif
void (*__tilesmith_parallel_launch)(TsTask, void*) = ts_run_alone;
#define ts_launch __tilesmith_parallel_launch
#endif
"""


KEEP_ERROR = """
/* Carries the first error of a task to the thread that launched it. */
extern void TVMFFIErrorMoveFromRaised(void** error);
extern void TVMFFIErrorSetRaised(void* error);
static void ts_keep_error(void** place, int32_t* code, int32_t status) {
  void* error = NULL;
  int is_first = 0;
  TVMFFIErrorMoveFromRaised(&error);
#if defined(__GNUC__)
  is_first = __sync_bool_compare_and_swap(code, 0, status);
#else
#if defined(_OPENMP)
#pragma omp critical
#endif
  if (*code == 0) { *code = status; is_first = 1; }
#endif
  if (is_first) *place = error;
  else if (error != NULL) TVMFFIObjectDecRef(error);
}
static void ts_raise_kept(void* error) {
  if (error == NULL) return;
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
}
"""


def captured_variables(write: Any, loop: tir.For) -> list[Var]:
    """Variables of the function that the body of a loop uses."""
    return [
        var
        for var in free_variables(loop.body, sizes=False)
        if var is not loop.loop_var and var in write.names
    ]


def write_parallel(
    write: Any, loop: tir.For, captured: list[Var], first: str, extent: str, can_fail: bool
) -> None:
    """Write the launch of a parallel loop, and its body as a function of the module."""
    module = write.module
    module.uses_parallel = True
    if can_fail:
        write.needs_status("has a parallel loop that can fail")
        module.uses_ffi = module.keeps_errors = True
    symbol = module.fresh_function(f"{module.symbol_of(write.name)}_parallel")
    kind = c_type(loop.loop_var.dtype)
    fields = [(_declared(write, var), write.names[var]) for var in captured]
    members = "".join([f"  {_member(declared, name)};\n" for declared, name in fields])
    errors = "  void* error_;\n  int32_t code_;\n" if can_fail else ""
    places = f"  {kind} first_;\n  {kind} extent_;\n"
    module.add_structure(f"struct {symbol} {{\n{members}{places}{errors}}};")
    none = ["NULL", "0"] if can_fail else []
    values = ", ".join([*[name for _, name in fields], first, extent, *none])
    data = write.fresh("data")
    write.write(f"struct {symbol} {data} = {{{values}}};")
    write.write(f"ts_launch({symbol}, &{data});")
    if can_fail:
        raised = f"ts_raise_kept({data}.error_);"
        write.leave_if(f"{data}.code_ != 0", f"{data}.code_", raised)
    module.add_task(_task_text(write, loop, captured, symbol, can_fail))


_CATCHING = """static void {symbol}(int32_t task, int32_t num_tasks, void* data) {{
  struct {symbol}* own = (struct {symbol}*)data;
  const int32_t status = {symbol}_share(task, num_tasks, data);
  if (status != 0) ts_keep_error(&own->error_, &own->code_, status);
}}
"""


def _task_text(write: Any, loop: tir.For, captured: list[Var], symbol: str, can_fail: bool) -> str:
    inner = type(write)(write.module, write.name, "status" if can_fail else "void")
    inner.in_parallel = True
    inner.taken = {"task", "num_tasks", "data", "own"}
    inner.facts = write.facts.copy()
    kind = c_type(loop.loop_var.dtype)
    inner.write(f"const struct {symbol}* own = (const struct {symbol}*)data;")
    for var in captured:
        field = write.names[var]
        name = inner.names[var] = inner.fresh(var.name)
        if var in write.pointer_types:
            inner.pointer_types[var] = write.pointer_types[var]
        inner.write(f"{_member(_declared(write, var), name)} = own->{field};")
    share, begin, end = inner.fresh("share"), inner.fresh("begin"), inner.fresh("end")
    rest = inner.fresh("rest")
    inner.write(f"const {kind} {share} = own->extent_ / ({kind})num_tasks;")
    inner.write(f"const {kind} {rest} = own->extent_ % ({kind})num_tasks;")
    # the first tasks take one more iteration each, until the rest is used up
    before = f"({kind})task * {share} + (({kind})task < {rest} ? ({kind})task : {rest})"
    inner.write(f"const {kind} {begin} = own->first_ + {before};")
    inner.write(f"const {kind} {end} = {begin} + {share} + (({kind})task < {rest});")
    name = inner.names[loop.loop_var] = inner.fresh(loop.loop_var.name)
    inner.write(f"for ({kind} {name} = {begin}; {name} < {end}; ++{name}) {{")
    inner._indented(loop.body)
    inner.write("}")
    if can_fail:
        inner.write("return 0;")
    inner.mention_unused(["task"])
    head = "(int32_t task, int32_t num_tasks, void* data)"
    head = f"static int32_t {symbol}_share{head}" if can_fail else f"static void {symbol}{head}"
    text = f"{head} {{\n" + "\n".join(inner.lines) + "\n}\n"
    return text + _CATCHING.format(symbol=symbol) if can_fail else text


def _declared(write: Any, var: Var) -> str:
    """The C type of a variable of a function."""
    if not var.dtype.is_handle:
        return c_type(var.dtype)
    element = write.pointer_types.get(var)
    return "void*" if element is None else c_type(element) + "*"


def _member(declared: str, name: str) -> str:
    return f"{declared} {name}"
