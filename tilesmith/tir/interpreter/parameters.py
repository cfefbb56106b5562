"""Binds the arguments of a run to the parameters of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import PrimExpr, Var
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.values import (
    Environment,
    Evaluate,
    Pointer,
    as_array,
    element_type,
    pointer_to,
    scalar,
)  # fmt: skip

__all__ = ["Bind", "bind_parameter"]

Copied = list[tuple[numpy.ndarray, numpy.ndarray]]
Checks = list[Callable[[], None]]
Size = tuple[int | None, Evaluate]
"""The slot of a variable (None for another expression), and what the size is."""
Bind = Callable[[Environment, Any, Copied, Checks], None]
"""``bind(env, argument, copies, checks)``. ``copies`` collects pairs of an argument and the copy
that is used in its place, ``checks`` functions to call once all parameters are bound."""


def bind_parameter(
    compiler: ExpressionCompiler, param: Var, buffer: Buffer | None, function: str
) -> Bind:
    """Return the function that binds an argument to a parameter, or to its buffer."""
    slot = compiler.frame.slot(param)
    if buffer is not None:
        return _BufferParameter(compiler, buffer, function).bind
    if not param.dtype.is_handle:
        dtype = param.dtype

        def bind_scalar(env: Environment, argument: Any, copies: Copied, checks: Checks) -> None:
            env[slot] = scalar(getattr(argument, "item", lambda: argument)(), dtype)

        return bind_scalar

    def bind_pointer(env: Environment, argument: Any, copies: Copied, checks: Checks) -> None:
        if hasattr(argument, "shape"):
            array = as_array(argument)
            if not array.flags.c_contiguous:
                copy = numpy.ascontiguousarray(array)
                copies.append((array, copy))
                array = copy
            argument = pointer_to(array)
        env[slot] = argument

    return bind_pointer


class _BufferParameter:
    """Binds a buffer of a parameter: checks rank, dtype and sizes, and binds symbolic ones."""

    def __init__(self, compiler: ExpressionCompiler, buffer: Buffer, function: str) -> None:
        self.buffer = buffer
        self.function = function
        self.slot = compiler.frame.slot(buffer)
        self.data_slot = compiler.frame.slot(buffer.data)
        compiler.views.binder(buffer)
        self.sizes = [self._part(compiler, size) for size in buffer.shape]
        self.strides = [self._part(compiler, stride) for stride in buffer.strides]
        self.offset = self._part(compiler, buffer.elem_offset)

    @staticmethod
    def _part(compiler: ExpressionCompiler, expr: PrimExpr) -> Size:
        """Return the slot of a variable (None for another expression), and the closure of its
        value."""
        slot = compiler.frame.slot(expr) if isinstance(expr, Var) else None
        return slot, compiler.visit(expr)

    def bind(self, env: Environment, argument: Any, copies: Copied, checks: Checks) -> None:
        """Store a pointer to the argument and the values of the symbolic sizes in ``env``."""
        if isinstance(argument, Pointer):
            env[self.data_slot] = argument
            if self.offset[0] is not None:
                env[self.offset[0]] = 0
            return
        buffer = self.buffer
        array = self._checked_array(argument)
        if not buffer.strides and not array.flags.c_contiguous:
            copy = numpy.ascontiguousarray(array)
            copies.append((array, copy))
            array = copy
        self._bind_numbers(env, self.sizes, array.shape[: len(buffer.shape)], "size", checks)
        steps = tuple([stride // array.itemsize for stride in array.strides])
        self._bind_numbers(env, self.strides, steps, "stride", checks)
        slot, evaluate = self.offset
        if slot is not None and env[slot] is None:
            env[slot] = 0
        pointer = pointer_to(array)
        size = element_type(buffer.dtype).itemsize * buffer.dtype.lanes

        def place() -> None:
            # The array is the buffer: its first element lies at the buffer's own offset.
            env[self.data_slot] = pointer.moved(-evaluate(env) * size)

        checks.append(place)

    def _checked_array(self, argument: Any) -> numpy.ndarray:
        buffer = self.buffer
        array = as_array(argument)
        rank = len(buffer.shape) + (buffer.dtype.lanes > 1)
        if array.ndim != rank:
            raise ShapeError(
                f"'{self.function}': buffer '{buffer.name}' has {rank} dimensions, "
                f"the argument has {array.ndim}"
            )
        wanted = element_type(buffer.dtype)
        if array.dtype != wanted:
            as_bytes = buffer.dtype.is_bool and array.dtype in (numpy.int8, numpy.uint8)
            if not as_bytes:
                raise TypeMismatchError(
                    f"'{self.function}': buffer '{buffer.name}' holds {buffer.dtype}, "
                    f"the argument {DataType(array.dtype)}"
                )
        return array

    def _bind_numbers(
        self,
        env: Environment,
        parts: list[Size],
        values: tuple[int, ...],
        what: str,
        checks: Checks,
    ) -> None:
        for axis, ((slot, evaluate), value) in enumerate(zip(parts, values)):
            if slot is not None and env[slot] is None:
                env[slot] = value
                continue

            def check(axis: int = axis, evaluate: Any = evaluate, value: int = value) -> None:
                wanted = evaluate(env)
                if wanted != value:
                    raise ShapeError(
                        f"'{self.function}': {what} {axis} of buffer '{self.buffer.name}' is "
                        f"{wanted}, that of the argument {value}"
                    )

            checks.append(check)
