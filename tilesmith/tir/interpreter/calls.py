"""Calls as closures: operators on values, memory, functions of the module, registered functions."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import Call, GlobalVar, StringImm
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ExecutionError, UnknownFunctionError, UnsupportedError
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.operators import OPERATORS, c_function, llvm_function
from tilesmith.tir.interpreter.structures import get_field, set_field
from tilesmith.tir.interpreter.values import (
    Environment,
    Evaluate,
    Pointer,
    allocate,
    scalar,
)  # fmt: skip


class Return(Exception):
    """Leaves the function with a value."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class CallCompiler(ExpressionCompiler):
    """Makes closures of calls."""

    def visit_Call(self, node: Call) -> Evaluate:
        if isinstance(node.op, GlobalVar):
            return self.function_call(node)
        name = node.op.name
        special = getattr(self, "call_" + name.removeprefix("tir."), None)
        if special is not None:
            return special(node)
        make = OPERATORS.get(name)
        if make is None:
            raise UnsupportedError(
                f"the interpreter does not know the operator '{name}'",
                notes=("run the program before it is lowered for its target",),
            )
        return self.apply(make(node.dtype, tuple([_dtype(arg) for arg in node.args])), node.args)

    def apply(self, function: Any, args: tuple) -> Evaluate:
        parts = [self.visit(arg) for arg in args]
        if len(parts) == 1:
            (only,) = parts
            return lambda env: function(only(env))
        if len(parts) == 2:
            first, second = parts
            return lambda env: function(first(env), second(env))
        return lambda env: function(*[part(env) for part in parts])

    # Control.

    def call_if_then_else(self, node: Call) -> Evaluate:
        condition, yes, no = [self.visit(arg) for arg in node.args]
        return lambda env: yes(env) if condition(env) else no(env)

    def call_ret(self, node: Call) -> Evaluate:
        value = self.visit(node.args[0])

        def leave(env: Environment) -> None:
            raise Return(value(env))

        return leave

    def call_assume(self, node: Call) -> Evaluate:
        condition = self.visit(node.args[0])

        def check(env: Environment) -> bool:
            if not condition(env):
                raise ExecutionError("a condition that the program assumes does not hold")
            return True

        return check

    def call_get_active_lane_mask(self, node: Call) -> Evaluate:
        base, limit = [self.visit(arg) for arg in node.args]
        lanes = numpy.arange(self.lane_count(node.dtype.lanes))
        return lambda env: base(env) + lanes < limit(env)

    def call_prefetch(self, node: Call) -> Evaluate:
        return lambda env: None

    def call_type_annotation(self, node: Call) -> Evaluate:
        dtype = node.dtype
        return lambda env: dtype

    def call_tvm_storage_sync(self, node: Call) -> Evaluate:
        raise UnsupportedError(
            "the interpreter runs threads one after the other, so they cannot wait for each other",
            notes=("run the program before barriers are inserted (ThreadSync)",),
        )

    # Memory.

    def call_address_of(self, node: Call) -> Evaluate:
        load = node.args[0]
        if not isinstance(load, BufferLoad):
            raise UnsupportedError("address_of needs an element of a buffer")
        slot, bind = self.slot(load.buffer), self.binder(load.buffer)
        data_slot = self.slot(load.buffer.data)
        indices = [self.visit(index) for index in load.indices]

        def compute(env: Environment) -> Pointer:
            array = env[slot]
            if array is None:
                array = bind(env)
            place = []
            for index in indices:
                value = index(env)
                place.append(int(value[0]) if isinstance(value, numpy.ndarray) else value)
            return env[data_slot].address_of(array, tuple(place))

        return compute

    def call_tvm_access_ptr(self, node: Call) -> Evaluate:
        annotation, data, offset, _, _ = node.args
        size = annotation.dtype.nbytes
        pointer, start = self.visit(data), self.visit(offset)
        return lambda env: pointer(env).moved(start(env) * size)

    def call_tvm_stack_alloca(self, node: Call) -> Evaluate:
        kind = node.args[0].value
        count = self.visit(node.args[1])
        if kind == "shape":
            return lambda env: allocate(DataType("int64"), count(env))
        return lambda env: [None] * count(env)

    def call_tvm_stack_make_array(self, node: Call) -> Evaluate:
        data, shape, strides, ndim, zero, offset = node.args
        parts = [self.visit(part) for part in (data, shape, strides, ndim, offset)]
        dtype = zero.dtype

        def make(env: Environment) -> numpy.ndarray:
            pointer, sizes, steps, count, start = [part(env) for part in parts]
            if isinstance(sizes, Pointer):
                sizes = tuple(sizes.view(DataType("int64"), (count,), None, 0).tolist())
            steps = tuple(steps) if isinstance(steps, tuple) and steps else None
            return pointer.view(dtype, tuple(sizes), steps, start)

        return make

    def call_tvm_struct_get(self, node: Call) -> Evaluate:
        handle, index, field = [self.visit(arg) for arg in node.args]
        dtype = node.dtype
        return lambda env: get_field(handle(env), index(env), field(env), dtype)

    def call_tvm_struct_set(self, node: Call) -> Evaluate:
        handle, index, field, value = [self.visit(arg) for arg in node.args]
        return lambda env: set_field(handle(env), index(env), field(env), value(env))

    # Functions.

    def function_call(self, node: Call) -> Evaluate:
        name = node.op.name_hint
        parts = [self.visit(arg) for arg in node.args]
        return lambda env: env[0].call(name, [part(env) for part in parts])

    def call_call_extern(self, node: Call) -> Evaluate:
        return self.external(node, c_function)

    def call_call_pure_extern(self, node: Call) -> Evaluate:
        return self.external(node, c_function)

    def call_call_llvm_intrin(self, node: Call) -> Evaluate:
        return self.external(node, llvm_function)

    def call_call_llvm_pure_intrin(self, node: Call) -> Evaluate:
        return self.external(node, llvm_function)

    def external(self, node: Call, find: Any) -> Evaluate:
        name = node.args[0].value
        arguments = node.args[1:]
        if name == "llvm.prefetch":
            return lambda env: None
        make = find(name)
        if make is not None:
            return self.apply(make(node.dtype, tuple([_dtype(a) for a in arguments])), arguments)
        parts = [self.visit(argument) for argument in arguments]

        def call(env: Environment) -> Any:
            values = [part(env) for part in parts]
            found = env[0].external(name)
            if found is None:
                raise UnknownFunctionError(
                    f"the program calls the external function '{name}'",
                    notes=("give it to the interpreter: run(func, ..., externs={name: function})",),
                )
            return found(*values)

        return call

    def call_tvm_call_packed(self, node: Call) -> Evaluate:
        name = node.args[0]
        if not isinstance(name, StringImm):
            raise UnsupportedError("a packed call begins with the name of the function")
        parts = [self.visit(argument) for argument in node.args[1:]]
        dtype = node.dtype

        def call(env: Environment) -> Any:
            result = env[0].call_packed(name.value, [part(env) for part in parts])
            return result if result is None or dtype.is_handle else scalar(result, dtype)

        return call

    call_tvm_call_cpacked = call_tvm_call_packed

    def call_tvm_call_packed_lowered(self, node: Call) -> Evaluate:
        name = node.args[0].value
        parts = [self.visit(argument) for argument in node.args[1:]]
        dtype = node.dtype

        def call(env: Environment) -> Any:
            stack, begin, end = [part(env) for part in parts]
            result = env[0].call_packed(name, stack[begin:end])
            stack[end] = result
            return result if result is None or dtype.is_handle else scalar(result, dtype)

        return call

    call_tvm_call_cpacked_lowered = call_tvm_call_packed_lowered

    def call_tvm_call_trace_packed_lowered(self, node: Call) -> Evaluate:
        inner = self.call_tvm_call_packed_lowered(node)
        stack, end = self.visit(node.args[1]), self.visit(node.args[3])

        def call(env: Environment) -> Any:
            inner(env)
            return stack(env)[end(env) - 1]

        return call

    def call_TVMBackendAllocWorkspace(self, node: Call) -> Evaluate:  # noqa: N802
        size = self.visit(node.args[2])
        return lambda env: allocate(DataType("uint8"), int(size(env)))

    def call_TVMBackendFreeWorkspace(self, node: Call) -> Evaluate:  # noqa: N802
        return lambda env: 0

    def call_tvm_call_trace_packed(self, node: Call) -> Evaluate:
        parts = [self.visit(argument) for argument in node.args[1:]]

        def call(env: Environment) -> Any:
            values = [part(env) for part in parts]
            env[0].call_packed(node.args[0].value, values)
            return values[-1]

        return call


def _dtype(arg: Any) -> DataType:
    return getattr(arg, "dtype", DataType("handle"))
