"""Rules of calls for one thread: control flow, functions of other languages, packed functions."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import Call, IntImm, StringImm
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ExecutionError, UnknownFunctionError, UnsupportedError
from tilesmith.tir.interpreter.call_rules import SHUFFLE_FUNCTIONS, handles
from tilesmith.tir.interpreter.exchanges import active_mask, shuffle_function
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT
from tilesmith.tir.interpreter.operators import Make, c_function, llvm_function
from tilesmith.tir.interpreter.raised import raised_error
from tilesmith.tir.interpreter.values import Environment, Evaluate, scalar

__all__ = ["Return"]


class Return(Exception):
    """Raised to leave the function with a value."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


# Control.


@handles("if_then_else")
def _if_then_else(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    condition, yes, no = [compiler.visit(arg) for arg in call.args]
    return lambda env: yes(env) if condition(env) else no(env)


@handles("checked")
def _checked(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    value, condition, *parts = [compiler.visit(arg) for arg in call.args]

    def compute(env: Environment) -> Any:
        holds = numpy.atleast_1d(condition(env))
        if not holds.all():
            lane = int(numpy.argmin(holds))
            values = [part(env) for part in parts]
            raise raised_error([v[lane] if isinstance(v, numpy.ndarray) else v for v in values])
        return value(env)

    return compute


@handles("ret")
def _ret(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    if compiler.scope.in_threads:
        raise UnsupportedError(
            "a thread of a kernel cannot leave the function with a value",
            notes=("put what follows into a branch instead",),
        )
    value = compiler.visit(call.args[0])

    def leave(env: Environment) -> None:
        raise Return(value(env))

    return leave


@handles("assume")
def _assume(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    condition = compiler.visit(call.args[0])

    def check(env: Environment) -> bool:
        if not condition(env):
            raise ExecutionError("a condition that the program assumes does not hold")
        return True

    return check


@handles("tvm_throw_last_error")
def _throw_last_error(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    def leave(env: Environment) -> None:
        raise ExecutionError("the program leaves with the error that was set last")

    return leave


@handles("parallel_tasks", "parallel_barrier")
def _alone(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    return lambda env: 1  # one task, which waits for nobody


@handles("tvm_storage_sync")
def _storage_sync(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    raise UnsupportedError(
        "the interpreter runs threads one after the other, so they cannot wait for each other",
        notes=("run the program before barriers are inserted (ThreadSync)",),
    )


# Numbers, hints.


@handles("get_active_lane_mask")
def _active_lane_mask(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    base, limit = [compiler.visit(arg) for arg in call.args]
    lanes = numpy.arange(compiler.lane_count(call.dtype.lanes))
    return lambda env: base(env) + lanes < limit(env)


@handles("vscale")
def _vscale(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    scale = int(compiler.options.vscale)
    return lambda env: scale


@handles("large_uint_imm")
def _large_uint_imm(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    low, high = [compiler.visit(arg) for arg in call.args]
    return lambda env: high(env) << 32 | (low(env) & 0xFFFFFFFF)


@handles("tvm_context_id")
def _context_id(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    return lambda env: 0


@handles("prefetch")
def _prefetch(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    return lambda env: None


@handles("type_annotation")
def _type_annotation(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    dtype = call.dtype
    return lambda env: dtype


# Functions of other languages.


@handles("call_extern", "call_pure_extern")
def _call_extern(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    name = _function_name(call)
    if name.startswith(SHUFFLE_FUNCTIONS):
        return _shuffle_function(compiler, name, call)
    return _external(compiler, call, c_function)


@handles("call_llvm_intrin", "call_llvm_pure_intrin")
def _call_llvm(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    return _external(compiler, call, llvm_function)


def _function_name(call: Call) -> Any:
    """Return the name that a call gives as its first argument (LLVM's intrinsics may have a
    number)."""
    return call.args[0].value  # type: ignore[attr-defined]


def _shuffle_function(compiler: ExpressionCompiler, name: str, call: Call) -> Evaluate:
    """Return one of CUDA's functions that exchange values within a warp."""
    if name.startswith("__activemask"):
        return active_mask
    args = list(call.args[1:])
    if not name.endswith("_sync"):
        args.insert(0, IntImm("uint32", 0xFFFFFFFF))
    if len(args) == 3:
        args.append(IntImm("int32", 32))
    return shuffle_function(name, *[compiler.visit(arg) for arg in args[:4]])


def _external(
    compiler: ExpressionCompiler, call: Call, find: Callable[[str], Make | None]
) -> Evaluate:
    name = _function_name(call)
    arguments = call.args[1:]
    if name == "llvm.prefetch":
        return lambda env: None
    make = find(name)
    if make is not None:
        return compiler.operation(make, call.dtype, arguments)
    parts = [compiler.visit(argument) for argument in arguments]

    def run(env: Environment) -> Any:
        values = [part(env) for part in parts]
        found = env[CONTEXT_SLOT].external(name)
        if found is None:
            raise UnknownFunctionError(
                f"the program calls the external function '{name}'",
                notes=("give it to the interpreter: run(func, ..., externs={name: function})",),
            )
        return found(*values)

    return run


# Packed functions.


def _returned(result: Any, dtype: DataType) -> Any:
    """Return what a packed function returned: a number in the dtype of the call, else as it is,
    since statements ignore it.
    """
    if dtype.is_handle or not isinstance(result, (numbers.Number, numpy.generic)):
        return result
    return scalar(result, dtype)


@handles("tvm_call_packed", "tvm_call_cpacked")
def _call_packed(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    name = call.args[0]
    if not isinstance(name, StringImm):
        raise UnsupportedError("a packed call begins with the name of the function")
    function = name.value
    parts = [compiler.visit(argument) for argument in call.args[1:]]
    dtype = call.dtype

    def run(env: Environment) -> Any:
        result = env[CONTEXT_SLOT].call_packed(function, [part(env) for part in parts])
        return _returned(result, dtype)

    return run


@handles("tvm_call_trace_packed")
def _call_trace_packed(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    name = _function_name(call)
    parts = [compiler.visit(argument) for argument in call.args[1:]]

    def run(env: Environment) -> Any:
        values = [part(env) for part in parts]
        env[CONTEXT_SLOT].call_packed(name, values)
        return values[-1]

    return run


@handles("tvm_call_packed_lowered", "tvm_call_cpacked_lowered")
def _call_packed_lowered(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    name = _function_name(call)
    parts = [compiler.visit(argument) for argument in call.args[1:]]
    dtype = call.dtype

    def run(env: Environment) -> Any:
        stack, begin, end = [part(env) for part in parts]
        result = env[CONTEXT_SLOT].call_packed(name, stack[begin:end])
        stack[end] = result
        return _returned(result, dtype)

    return run


@handles("tvm_call_trace_packed_lowered")
def _call_trace_packed_lowered(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    inner = _call_packed_lowered(compiler, call)
    stack, end = compiler.visit(call.args[1]), compiler.visit(call.args[3])

    def run(env: Environment) -> Any:
        inner(env)
        return stack(env)[end(env) - 1]

    return run


# Lists of values of the virtual machine.


@handles("anylist_getitem")
def _list_get(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    items, index = [compiler.visit(arg) for arg in call.args]
    return lambda env: items(env)[index(env)]


@handles("anylist_resetitem")
def _list_reset(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    items, index = [compiler.visit(arg) for arg in call.args]

    def reset(env: Environment) -> int:
        items(env)[index(env)] = None
        return 0

    return reset


@handles("anylist_setitem_call_packed", "anylist_setitem_call_cpacked")
def _list_set_call(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    items, index = [compiler.visit(arg) for arg in call.args[:2]]
    name = call.args[2]
    if not isinstance(name, StringImm):
        raise ExecutionError("anylist_setitem_call_packed needs the name of a function")
    function = name.value
    parts = [compiler.visit(arg) for arg in call.args[3:]]

    def run(env: Environment) -> int:
        result = env[CONTEXT_SLOT].call_packed(function, [part(env) for part in parts])
        items(env)[index(env)] = result
        return 0

    return run
