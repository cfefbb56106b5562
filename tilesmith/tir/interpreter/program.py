"""Prepares functions to run: binds parameters to arguments, and connects calls between
functions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.support.errors import (
    DivisionByZeroError,
    ExecutionError,
    TilesmithError,
    TypeMismatchError,
    UnknownNameError,
)  # fmt: skip
from tilesmith.tir.analysis import undefined_vars
from tilesmith.tir.empty_reductions import complete_reductions
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.interpreter import (  # noqa: F401 - rules
    collectives,
    matrix_units,
    memory_calls,
    tensor_copies,
    warpgroup_units,
)
from tilesmith.tir.interpreter.async_copies import Copies
from tilesmith.tir.interpreter.calls import Return
from tilesmith.tir.interpreter.cooperation import Cooperation, needs_groups
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.groups import GroupCompiler
from tilesmith.tir.interpreter.options import DEFAULT_OPTIONS, Options
from tilesmith.tir.interpreter.parameters import bind_parameter
from tilesmith.tir.interpreter.shared_barriers import SharedBarrier
from tilesmith.tir.interpreter.statements import StatementCompiler
from tilesmith.tir.interpreter.threads import Thread
from tilesmith.tir.interpreter.values import (
    Environment,
    Evaluate,
    as_array,
)  # fmt: skip
from tilesmith.tir.interpreter.watch import Watch

PACKED_PREFIX = "__tvm_ffi_"
LAUNCH_PARAMS = "tir.kernel_launch_params"


class Context:
    """The state that the functions of one run share: each other, constants, external functions."""

    def __init__(
        self,
        programs: Mapping[str, Program],
        constants: Sequence[Any] | None,
        externs: Mapping[str, Callable[..., Any]],
        options: Options = DEFAULT_OPTIONS,
    ) -> None:
        self.programs = programs
        self.constants = constants
        self.externs = externs
        self.options = options
        self.watch = Watch(options) if options.watched else None
        self.active: list[Environment] = []  # the threads that carry out the present statement
        # Shared memory of the present kernel and who has it, by allocation and owner.
        self.shared_memory: dict[Any, Any] = {}
        self.fragments: dict[int, tuple[int, ...]] = {}  # m, n, k by id of the memory
        self.arrivals: dict[Any, SharedBarrier] = {}  # by block and number
        self.copies = Copies()  # transfers of functions without threads
        self.launch: dict[str, int] | None = None  # the extents that the host has given

    def call(self, name: str, arguments: list[Any]) -> Any:
        """Call a function of the module."""
        program = self.programs.get(name)
        if program is None:
            found = self.external(name)
            if found is None:
                raise UnknownNameError(f"the program calls '{name}', which it does not have")
            return found(*arguments)
        return program.run(self, arguments)

    def external(self, name: str) -> Callable[..., Any] | None:
        """Return a function given by the user under a symbol."""
        return self.externs.get(name)

    def check_launch(self, tag: str, extent: int, node: Any) -> None:
        """Raise ExecutionError if the host launched another number of threads."""
        if self.launch is not None and self.launch.get(tag, extent) != extent:
            raise ExecutionError(
                f"the host launches {self.launch[tag]} threads of {tag}, the kernel has {extent}",
                span=getattr(node, "span", None),
            )

    def launch_ended(self, tag: str) -> None:
        """Handle the end of all threads of an axis."""
        if tag.startswith("blockIdx"):
            self.shared_memory.clear()
        if self.watch is not None:
            self.watch.launch_ended()

    def call_packed(self, name: str, arguments: list[Any]) -> Any:
        """Call a function by its registered name: the user's, one of the module, a global one."""
        found = self.externs.get(name)
        if found is not None:
            return found(*arguments)
        program = self.programs.get(name)
        if program is not None:
            return program.run(self, arguments)
        from tilesmith.runtime.ndarray import from_numpy
        from tilesmith.runtime.registry import get_global_func

        function = get_global_func(name)
        given = [from_numpy(a) if isinstance(a, numpy.ndarray) else a for a in arguments]
        return function(*given)


class Program:
    """One function compiled to closures."""

    def __init__(self, func: PrimFunc, name: str, options: Options = DEFAULT_OPTIONS) -> None:
        # The function itself is not kept: programs live as long as their functions.
        self.name = name
        self.params = [param.name for param in func.params]
        free = undefined_vars(func)
        if free:
            names = ", ".join([f"'{variable.name}'" for variable in free])
            raise ExecutionError(f"the function '{name}' uses {names} without binding them")
        expressions = ExpressionCompiler(options)
        statements = StatementCompiler(expressions)
        body = complete_reductions(func.body)
        self.binders = [
            bind_parameter(expressions, param, func.buffer_map.get(param), name)
            for param in func.params
        ]
        self.has_threads = options.watched or needs_groups(func)
        if self.has_threads:
            groups = GroupCompiler(statements, Cooperation(func.with_body(body)), body)
            self.body: Evaluate = groups.program(body)
        else:
            self.body = statements.visit(body)
        self.size = expressions.frame.size
        self.warp_size = warp_size_of(func, options)
        self.launch_params = tuple(func.attrs.get(LAUNCH_PARAMS, ()))
        symbol = str(func.attrs.get("global_symbol", name))
        self.is_packed = symbol.startswith(PACKED_PREFIX) and len(func.params) == 4

    def run(self, context: Context, arguments: Sequence[Any]) -> Any:
        """Run on arguments; returns what the function returns."""
        if self.is_packed:
            return self._run_packed(context, arguments)
        if self.launch_params and len(arguments) == len(self.binders) + len(self.launch_params):
            return self._launched(context, arguments)
        if len(arguments) != len(self.binders):
            names = ", ".join(self.params)
            raise TypeMismatchError(
                f"the function '{self.name}' takes {len(self.binders)} arguments ({names}), "
                f"got {len(arguments)}"
            )
        return self._execute(self._environment(context), arguments)

    def _environment(self, context: Context) -> Environment:
        env: Environment = [None] * self.size
        env[CONTEXT_SLOT] = context
        if self.has_threads:
            env[THREAD_SLOT] = Thread({}, self.warp_size)
        return env

    def _launched(self, context: Context, arguments: Sequence[Any]) -> Any:
        """Run a kernel with the numbers of threads behind its arguments, as a host calls it."""
        count = len(self.binders)
        outer = context.launch
        context.launch = dict(zip(self.launch_params, [int(n) for n in arguments[count:]]))
        try:
            return self._execute(self._environment(context), arguments[:count])
        finally:
            context.launch = outer

    def _execute(self, env: Environment, arguments: Sequence[Any]) -> Any:
        copies: list[tuple[numpy.ndarray, numpy.ndarray]] = []
        checks: list[Callable[[], None]] = []
        for bind, argument in zip(self.binders, arguments):
            bind(env, argument, copies, checks)
        for check in checks:
            check()
        result = None
        try:
            self.body(env)
        except Return as leave:
            result = leave.value
        except DivisionByZeroError:
            raise
        except ZeroDivisionError:
            text = f"integer division by zero in the function '{self.name}'"
            raise DivisionByZeroError(text) from None
        for original, copy in copies:
            original[...] = copy
        return result

    def _run_packed(self, context: Context, arguments: Sequence[Any]) -> Any:
        """Run a function with the calling convention of the runtime: (self, args, count,
        result)."""
        env = self._environment(context)
        result: list[Any] = [None]
        given = [as_array(a) if hasattr(a, "shape") else a for a in arguments]
        code = self._execute(env, (None, given, len(given), result))
        if code not in (0, None):
            raise ExecutionError(f"the function '{self.name}' returned the error code {code}")
        return result[0]


_PROGRAMS: dict[Options, weakref.WeakKeyDictionary[PrimFunc, Program]] = {}


def program_of(func: PrimFunc, name: str, options: Options = DEFAULT_OPTIONS) -> Program:
    """Return the program of a function, compiled once for each set of options."""
    programs = _PROGRAMS.setdefault(options, weakref.WeakKeyDictionary())
    found = programs.get(func)
    if found is None:
        try:
            found = programs[func] = Program(func, name, options)
        except TilesmithError as error:
            if not any(note.startswith("in the function ") for note in error.notes):
                error.notes = (*error.notes, f"in the function '{name}'")
            raise
    return found


def warp_size_of(func: PrimFunc, options: Options = DEFAULT_OPTIONS) -> int:
    """Return the threads of a warp on the target of the function."""
    target = func.attrs.get("target")
    if target is not None and hasattr(target, "attrs"):
        found = int(target.attrs.get("thread_warp_size", 0) or 0)
        if found > 1:
            return found
    return options.warp_size


class LazyPrograms(Mapping[str, Program]):
    """The PrimFuncs of a module by name and by symbol, each compiled when it is first called."""

    def __init__(self, module: IRModule, options: Options = DEFAULT_OPTIONS) -> None:
        self.options = options
        self.functions: dict[str, PrimFunc] = {}
        for variable, function in module.functions.items():
            if isinstance(function, PrimFunc):
                self.functions[variable.name_hint] = function
                self.functions.setdefault(
                    str(function.attrs.get("global_symbol", variable.name_hint)), function
                )

    def __getitem__(self, name: str) -> Program:
        return program_of(self.functions[name], name, self.options)

    def __iter__(self) -> Any:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)
