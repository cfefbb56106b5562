"""Views the memory behind pointers as numpy arrays: buffers, and regions of buffers.

A view is made when its buffer is first touched and kept in the buffer's slot; it is stale once the
pointer changes, and whoever sets a pointer clears the slots that ``stale_views`` names.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy

from tilesmith.ir import PrimExpr, Var
from tilesmith.ir.span import Span
from tilesmith.support.errors import ExecutionError, OutOfBoundsError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion
from tilesmith.tir.interpreter.frame import Frame
from tilesmith.tir.interpreter.values import CompileExpr, Environment, Evaluate, Place, Pointer
from tilesmith.tir.stmt import MatchBufferRegion

__all__ = ["BufferViews", "out_of_bounds", "vector_place"]


def out_of_bounds(
    buffer: Buffer, array: Any, indices: Place, span: Span | None, what: str
) -> NoReturn:
    """Raise the error of an access outside of a buffer."""
    shown = ", ".join([str(index) for index in indices])
    shape = ", ".join([str(size) for size in array.shape[: len(buffer.shape)]])
    raise OutOfBoundsError(
        f"{what} of {buffer.name}[{shown}] is outside of the buffer of shape ({shape})", span=span
    )


def vector_place(
    buffer: Buffer, array: Any, place: Place, picked: Any, span: Span | None, what: str
) -> tuple[Any, Place]:
    """Return the array and the index for an access of the lanes ``picked`` along the last index.

    A vector may run over the end of its row into the next one where nothing lies between the rows,
    as in machine code. Raises OutOfBoundsError if a lane is outside of the buffer (numpy would
    count negative indices from the end).
    """
    if len(picked) == 0:
        return array, (*place, picked)
    axis, low, high = len(place), int(picked.min()), int(picked.max())
    if low >= 0 and all(0 <= index < size for index, size in zip(place, array.shape)):
        if high < array.shape[axis]:
            return array, (*place, picked)
        sizes = array.shape[: axis + 1]
        start = int(numpy.ravel_multi_index((*place, 0), sizes))
        if array.flags.c_contiguous and start + high < math.prod(sizes):
            return array.reshape(-1, *array.shape[axis + 1 :]), (start + picked,)
    lanes = "[" + ", ".join([str(index) for index in picked]) + "]"
    out_of_bounds(buffer, array, (*place, lanes), span, what)


class BufferViews:
    """Makes the closures that view memory as the array of a buffer."""

    def __init__(self, frame: Frame, compile_expr: CompileExpr) -> None:
        self.frame = frame
        self.compile_expr = compile_expr
        self.binders: dict[Buffer, Evaluate] = {}

    def binder(self, buffer: Buffer) -> Evaluate:
        """Return the closure that views the memory behind ``buffer.data`` and caches the view in
        the buffer's slot."""
        found = self.binders.get(buffer)
        if found is not None:
            return found
        slot, data_slot = self.frame.slot(buffer), self.frame.slot(buffer.data)
        # A shape that mentions variables is evaluated when the buffer is first touched.
        sizes = [self.compile_expr(size) for size in buffer.shape]
        strides = [self.compile_expr(stride) for stride in buffer.strides]
        offset = self.compile_expr(buffer.elem_offset)

        def bind(env: Environment) -> Any:
            pointer = env[data_slot]
            if not isinstance(pointer, Pointer):
                raise ExecutionError(f"buffer '{buffer.name}' is used before its memory exists")
            shape = tuple([size(env) for size in sizes])
            steps = tuple([stride(env) for stride in strides]) if strides else None
            try:
                array = pointer.view(buffer.dtype, shape, steps, offset(env))
            except ExecutionError as error:
                raise ExecutionError(f"buffer '{buffer.name}': {error.message}") from None
            env[slot] = array
            return array

        self.binders[buffer] = bind
        return bind

    def stale_views(self, pointer: Var) -> list[int]:
        """Return the slots of the buffers over a pointer, to be cleared when the pointer
        changes."""
        return [self.frame.slot(buffer) for buffer in self.binders if buffer.data is pointer]

    def element_count(self, buffer: Buffer) -> Evaluate:
        """Return the closure that counts the elements of memory that a buffer needs."""
        self.binder(buffer)
        sizes = [self.compile_expr(size) for size in buffer.shape]
        strides = [self.compile_expr(stride) for stride in buffer.strides]
        offset = self.compile_expr(buffer.elem_offset)

        def count(env: Environment) -> int:
            needed = 1
            if strides:
                for size, stride in zip(sizes, strides):
                    needed += (size(env) - 1) * stride(env)
            else:
                for size in sizes:
                    needed *= size(env)
            return int(needed + offset(env))

        return count

    def region(self, source: BufferRegion) -> Evaluate:
        """Return the closure that views a region of a buffer."""
        buffer = source.buffer
        slot, bind = self.frame.slot(buffer), self.binder(buffer)
        lows = [self.compile_expr(one.min) for one in source.region]
        extents = [self.compile_expr(one.extent) for one in source.region]

        def view(env: Environment) -> Any:
            array = env[slot]
            if array is None:
                array = bind(env)
            picked = []
            for low, extent, size in zip(lows, extents, array.shape):
                start, count = low(env), extent(env)
                if start < 0 or start + count > size:
                    shown = tuple(
                        [f"{lo(env)}:{lo(env) + ex(env)}" for lo, ex in zip(lows, extents)]
                    )
                    out_of_bounds(buffer, array, shown, None, "the matched region")
                picked.append(slice(start, start + count))
            return array[(*picked, ...)]  # a view, also of an array without dimensions

        return view

    def match(self, node: MatchBufferRegion) -> Evaluate:
        """Return the closure that makes a buffer of a region of another one: it binds its pointer,
        and the variables that are its offset, strides and sizes."""
        buffer, region = node.buffer, self.region(node.source)
        slot, data_slot = self.frame.slot(buffer), self.frame.slot(buffer.data)
        source_data = self.frame.slot(node.source.buffer.data)
        offset = self._variable_slot(buffer.elem_offset)
        strides = [self._variable_slot(stride) for stride in buffer.strides]
        sizes = [self._variable_slot(size) for size in buffer.shape]
        self.binders.setdefault(buffer, lambda env: env[slot])
        missing = len(node.source.region) - len(buffer.shape)

        def run(env: Environment) -> None:
            array = region(env)
            pointer: Pointer = env[source_data]
            place = pointer.address_of(array, ())
            if missing > 0:
                array = array[(*(0,) * missing, ...)]
            itemsize = array.itemsize
            env[data_slot] = pointer
            _bind(env, offset, (place.offset - pointer.offset) // itemsize)
            for target, stride in zip(strides, array.strides):
                _bind(env, target, stride // itemsize)
            for target, size in zip(sizes, array.shape):
                _bind(env, target, size)
            env[slot] = array

        return run

    def _variable_slot(self, expr: PrimExpr) -> int | None:
        """Return the slot of a variable that a matched buffer binds; None for any other
        expression."""
        return self.frame.slot(expr) if isinstance(expr, Var) else None


def _bind(env: Environment, slot: int | None, value: int) -> None:
    if slot is not None:
        env[slot] = value
