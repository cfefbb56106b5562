"""The rule of bulk copies of boxes of tensors: ``ptx_cp_async_bulk_tensor``."""

from __future__ import annotations

import numpy

from tilesmith.ir import Call
from tilesmith.ir.span import Span
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.interpreter.async_copies import UNKNOWN, in_background
from tilesmith.tir.interpreter.call_rules import handles
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.memory_calls import pointed_bytes
from tilesmith.tir.interpreter.shared_barriers import barrier_of
from tilesmith.tir.interpreter.values import Environment, Evaluate, Pointer
from tilesmith.tir.interpreter.watch import touch_bytes
from tilesmith.tir.tensor_copies import (
    BARRIER,
    NAME,
    PLACE,
    TensorCopy,
    box_places,
    tensor_copy,
    tile_alignment,
)


@handles(NAME, is_collective=True)
def _copy_tensor(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    """Compile a copy: (shared pointer, offset in elements, tensor, sizes, box, place, barrier,
    swizzle, strides).
    """
    try:
        copy = tensor_copy(call)
    except ValueError as error:
        raise UnsupportedError(str(error)) from None
    target, offset, tensor = [compiler.visit(arg) for arg in call.args[:3]]
    place, number = compiler.visit(call.args[PLACE]), compiler.visit(call.args[BARRIER])
    unit, span = pointed_bytes(call.args[0], copy.element), compiler.scope.span
    places, alignment = box_places(copy), tile_alignment(copy.swizzle)

    def begin(env: Environment) -> None:
        into = target(env).moved(offset(env) * unit)
        if into.offset % alignment:
            raise ExecutionError(
                f"{NAME} brings a box to byte {into.offset} of shared memory; with a swizzle of "
                f"{copy.swizzle} bytes it has to be a multiple of {alignment}"
            )
        which = number(env)
        barrier, window = barrier_of(env, which), into.window(copy.nbytes)
        data = numpy.empty(0, numpy.uint8)

        def start() -> None:
            nonlocal data
            data = _box(env, copy, tensor(env), place(env), span)
            window[places] = data
            touch_bytes(env, into, copy.nbytes, True, pending=True, span=span)
            window[...] = UNKNOWN

        def finish() -> None:
            window[places] = data
            touch_bytes(env, into, copy.nbytes, True, span=span)

        start, finish = in_background(env, which, [start, finish])
        start()
        barrier.bind([finish], copy.nbytes)

    return begin


def _box(
    env: Environment, copy: TensorCopy, tensor: Pointer, place: tuple[int, ...], span: Span | None
) -> numpy.ndarray:
    """Return the bytes of the box at a place: zeros where it is outside of the tensor."""
    element = DataType(f"uint{8 * copy.element}")
    box = numpy.zeros(copy.box, element.numpy())
    inside = [
        (max(start, 0), min(start + extent, size))
        for start, extent, size in zip(place, copy.box, copy.sizes)
    ]
    if all(begin < end for begin, end in inside):
        whole = tensor.view(element, copy.sizes, copy.strides, 0)
        part = whole[tuple([slice(begin, end) for begin, end in inside])]
        own = [
            slice(begin - start, end - start) for (begin, end), start in zip(inside, place)
        ]  # fmt: skip
        box[tuple(own)] = part
        _touch_rows(env, copy, tensor, inside, span)
    return box.reshape(-1).view(numpy.uint8)


def _touch_rows(
    env: Environment, copy: TensorCopy, tensor: Pointer, inside: list[tuple[int, int]],
    span: Span | None,
) -> None:  # fmt: skip
    """Report that the rows of a part of a tensor are read."""
    first, last = inside[-1]
    for outer in numpy.ndindex(*[end - begin for begin, end in inside[:-1]]):
        at = first + sum([
            (begin + index) * stride
            for (begin, _), index, stride in zip(inside, outer, copy.strides)
        ])  # fmt: skip
        row = tensor.moved(at * copy.element)
        touch_bytes(env, row, (last - first) * copy.element, False, span=span)
