"""Rules of calls that make pointers, allocate memory, use runtime structures, or change memory at
once."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import Call, PrimExpr
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.call_rules import handles
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.structures import get_field, set_field
from tilesmith.tir.interpreter.values import (
    Environment,
    Evaluate,
    Pointer,
    allocate,
    scalar,
    wrap_int,
)  # fmt: skip

__all__ = ["pointed_bytes", "pointed_dtype"]


def pointed_dtype(arg: PrimExpr) -> DataType | None:
    """Return the dtype of the elements behind a pointer variable; None for other pointers."""
    element = getattr(getattr(arg, "type_annotation", None), "element_type", None)
    return getattr(element, "dtype", None)


def pointed_bytes(arg: PrimExpr, fallback: int) -> int:
    """Return the bytes of an element behind a pointer; ``fallback`` if its type is unknown."""
    dtype = pointed_dtype(arg)
    return dtype.nbytes if dtype is not None and not dtype.is_void else fallback


# Pointers.


@handles("address_of")
def _address_of(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    load = call.args[0]
    if not isinstance(load, BufferLoad):
        raise UnsupportedError("address_of needs an element of a buffer")
    slot, bind = compiler.frame.slot(load.buffer), compiler.views.binder(load.buffer)
    data_slot = compiler.frame.slot(load.buffer.data)
    indices = [compiler.visit(index) for index in load.indices]

    def compute(env: Environment) -> Pointer:
        array = env[slot]
        if array is None:
            array = bind(env)
        place = []
        for index in indices:
            value = index(env)
            place.append(int(value[0]) if isinstance(value, numpy.ndarray) else value)
        pointer: Pointer = env[data_slot]
        return pointer.address_of(array, tuple(place))

    return compute


@handles("tvm_access_ptr")
def _access_pointer(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    annotation, data, offset, _, _ = call.args
    size = annotation.dtype.nbytes
    pointer, start = compiler.visit(data), compiler.visit(offset)
    return lambda env: pointer(env).moved(start(env) * size)


@handles("atomic_add")
def _atomic_add(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    """Compile an addition to the element behind a pointer; the call returns the old value."""
    pointer, value = [compiler.visit(arg) for arg in call.args]
    dtype, span = call.args[1].dtype, compiler.scope.span

    def add(env: Environment) -> Any:
        behind = pointer(env)
        place = behind.view(dtype, (1,), None, 0)
        watch = env[CONTEXT_SLOT].watch
        if watch is not None and env[THREAD_SLOT] is not None:
            watch.atomic(env, behind, dtype.nbytes, "memory behind a pointer", span)
        before = scalar(place[0].item() if dtype.is_integer else place[0], dtype)
        after = before + value(env)
        place[0] = wrap_int(after, dtype) if dtype.is_integer else after
        return before

    return add


# Space, and structures of the runtime in it.


@handles("tvm_stack_alloca")
def _stack_alloca(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    kind = call.args[0].value  # type: ignore[attr-defined]
    count = compiler.visit(call.args[1])
    if kind == "shape":
        return lambda env: allocate(DataType("int64"), count(env))
    return lambda env: [None] * count(env)


@handles("tvm_stack_make_array")
def _stack_make_array(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    data, shape, strides, ndim, zero, offset = call.args
    parts = [compiler.visit(part) for part in (data, shape, strides, ndim, offset)]
    dtype = zero.dtype

    def make(env: Environment) -> numpy.ndarray:
        place, sizes, steps, count, start = [part(env) for part in parts]
        pointer: Pointer = place
        if isinstance(sizes, Pointer):
            sizes = tuple(sizes.view(DataType("int64"), (count,), None, 0).tolist())
        steps = tuple(steps) if isinstance(steps, tuple) and steps else None
        return pointer.view(dtype, tuple(sizes), steps, start)

    return make


@handles("tvm_struct_get")
def _struct_get(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    handle, index, field = [compiler.visit(arg) for arg in call.args]
    dtype = call.dtype
    return lambda env: get_field(handle(env), index(env), field(env), dtype)


@handles("tvm_struct_set")
def _struct_set(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    handle, index, field, value = [compiler.visit(arg) for arg in call.args]
    return lambda env: set_field(handle(env), index(env), field(env), value(env))


@handles("TVMBackendAllocWorkspace")
def _alloc_workspace(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    size = compiler.visit(call.args[2])
    return lambda env: allocate(DataType("uint8"), int(size(env)))


@handles("TVMBackendFreeWorkspace")
def _free_workspace(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    return lambda env: 0
