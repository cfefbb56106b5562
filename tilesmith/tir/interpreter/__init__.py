"""Runs TensorIR programs on numpy arrays.

    run(func, a, b, c)          # c changes in place
    run(module, a, b, c, entry="main")
    run(func, a, b, c, options=Options(check_races=True))

It runs programs at every level: blocks, loops, vectors, flat buffers, lowered host code. It is the
oracle of the tests: no pass or schedule may change the result.
Accesses outside of a buffer, failed assertions and reads of missing values are errors; fresh memory
holds NaN, so that reads of values that were never written are noticed.

A function is compiled once to closures over an environment, a list with one slot per variable and
buffer. The parts of the compiler, each using only those below it:

    program      functions made ready to run; parameters binds arguments
    groups       statements over groups of threads; placement allocates for them, cooperation finds
       |         where they are needed, strands runs threads apart that wait for each other
    statements   statements for one thread
       |
    calls, memory_calls, exchanges, collectives, async_copies, matrix_units,
    warpgroup_units
       |         rules of calls, entered into the tables of call_rules: one function per operator
    expressions  expressions; owns frame (slots), scope (what surrounds a statement), and the three
       |         parts below
    loads, stores ── views (arrays over memory) ── watch (checks of each access; happens_before:
       |         the order that barriers in shared memory give them)
    arithmetic   rules of operations of two operands; operators: what calls mean on values
    values, threads, structures, options

``lockstep`` runs kernels once more, with all threads of a block at once: for checks and counters
of large kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.support.errors import ExecutionError, TypeMismatchError, UnknownNameError
from tilesmith.support.knobs import knobs
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.interpreter.cooperation import is_kernel_program
from tilesmith.tir.interpreter.options import DEFAULT_OPTIONS, Options
from tilesmith.tir.interpreter.program import Context, LazyPrograms, Program, program_of

_CHECKED = Options(check_races=True, check_undefined=True)

__all__ = ["Options", "Program", "run"]


def run(
    func_or_module: PrimFunc | IRModule,
    *arguments: Any,
    entry: str | None = None,
    externs: Mapping[str, Callable[..., Any]] | None = None,
    options: Options | None = None,
) -> Any:
    """Run a function on arrays (numpy, or anything that shares its memory with numpy) and scalars.

    Arrays are changed in place. Returns what the function returns, mostly None. Of a module it runs
    the function ``entry``, by default "main" or the only one. ``externs`` gives Python functions
    for the symbols and registered names that the program calls; they get numbers, arrays and
    pointers (``Pointer``). ``options`` says what else to look for: races between threads, reads of
    memory that was never written; without them, programs of kernels are checked for both where
    ``TILESMITH_CHECK_GPU`` is set.

    Raises ShapeError and TypeMismatchError for arguments that do not fit, OutOfBoundsError and
    ExecutionError while running, UnsupportedError for what only a device can do.
    """
    if options is None:
        options = _CHECKED if knobs.check_gpu and _is_kernels(func_or_module) else DEFAULT_OPTIONS
    with deep_recursion(), numpy.errstate(all="ignore"):
        if isinstance(func_or_module, PrimFunc):
            name = str(func_or_module.attrs.get("global_symbol", "main"))
            program = program_of(func_or_module, name, options)
            context = Context({name: program}, None, dict(externs or {}), options)
        elif isinstance(func_or_module, IRModule):
            programs = LazyPrograms(func_or_module, options)
            program = programs[_entry(programs, entry)]
            constants = func_or_module.attrs.get("constants")
            context = Context(programs, constants, dict(externs or {}), options)
        else:
            raise TypeMismatchError(
                f"only a PrimFunc or an IRModule can be run, got {type(func_or_module).__name__}"
            )
        try:
            return program.run(context, arguments)
        except TypeError as error:
            if "NoneType" in str(error):
                raise ExecutionError(
                    f"the function '{program.name}' uses a value that was never set: {error}"
                ) from error
            raise


def _is_kernels(program: Any) -> bool:
    functions = program.functions.values() if isinstance(program, IRModule) else [program]
    return any(isinstance(one, PrimFunc) and is_kernel_program(one) for one in functions)


def _entry(programs: LazyPrograms, entry: str | None) -> str:
    if entry is not None:
        if entry not in programs.functions:
            names = ", ".join(programs.functions)
            raise UnknownNameError(
                f"the module has no PrimFunc '{entry}'", notes=(f"it has: {names}",)
            )
        return entry
    if "main" in programs.functions:
        return "main"
    different = set(map(id, programs.functions.values()))
    if len(different) == 1:
        return next(iter(programs.functions))
    names = ", ".join(programs.functions)
    raise UnknownNameError("which function of the module?", notes=(f"pass entry=...: {names}",))
