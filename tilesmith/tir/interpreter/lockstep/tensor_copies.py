"""Rule of bulk copies of boxes of tensors in lockstep: ``ptx_cp_async_bulk_tensor``.

The unit that copies is none of the threads, so its accesses are checked, but not counted among
those of a warp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import Call
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep.accesses import checked_read, pointed
from tilesmith.tir.interpreter.lockstep.barriers import actors_of, barrier_at
from tilesmith.tir.interpreter.lockstep.rules import STATEMENT_RULES
from tilesmith.tir.interpreter.lockstep.state import Group, State
from tilesmith.tir.interpreter.values import Environment
from tilesmith.tir.tensor_copies import (
    BARRIER,
    NAME,
    PLACE,
    TensorCopy,
    box_places,
    pointer_base,
    tensor_copy,
    tile_alignment,
)

_BYTE = numpy.dtype("u1")


@STATEMENT_RULES.handles(NAME)
def _copy_tensor(compiler: Any, call: Call, span: Any) -> Callable[[Environment], None]:
    try:
        copy = tensor_copy(call)
    except ValueError as error:
        raise UnsupportedError(str(error), span=span) from None
    target, tensor = [compiler.accesses.pointer(call.args[at]) for at in (0, 2)]
    offset, number = compiler.array(call.args[1]), compiler.number(call.args[BARRIER])
    place = [compiler.array(one) for one in call.args[PLACE].args]  # type: ignore[attr-defined]
    unit, places = pointed(call, 0, call.dtype), box_places(copy)
    write, read = [
        compiler.site(kind, str(getattr(pointer_base(call.args[at]), "name", NAME)), space, span)
        for kind, at, space in (("write", 0, "shared"), ("read", 2, "global"))
    ]

    def begin(env: Environment) -> None:
        group: Group = env[THREAD_SLOT]
        state: State = env[CONTEXT_SLOT]
        which = int(number(env))
        barrier = barrier_at(env, which, write)
        into, source = target(env), tensor(env)
        begins = into.offset + offset(env) * unit
        starts = numpy.stack([one(env) for one in place], -1)
        observers, state.observers = state.observers, ()
        for thread in range(group.count):
            own = group.part(numpy.array([thread]))
            at = int(numpy.broadcast_to(begins, (group.count,))[thread])
            if not _fits(state, write, copy, into.memory, at):
                continue
            inside, positions = _elements(copy, starts[thread])
            positions = int(numpy.max(source.offset)) + positions
            if positions.size and positions.max() >= source.memory.nbytes:
                message = f"a tensor of {copy.sizes} elements is larger than {source.memory.name}"
                state.find("out of bounds", message, read)
                continue
            data = numpy.zeros(copy.nbytes, numpy.uint8)
            data[inside] = source.memory.elements(_BYTE)[positions]
            actors = actors_of(barrier, own)
            if positions.size:
                checked_read(
                    env, read, source.memory, own, positions[None], 1, is_async=True, actors=actors
                )  # fmt: skip
            inner = [*env[:THREAD_SLOT], own, *env[THREAD_SLOT + 1 :]]
            state.copies.begin(
                inner, write, into.memory, own.ids, at + places[None], data[None], _BYTE,
                actors=actors,
            )  # fmt: skip
            if barrier is not None:
                state.copies.attach(state, own.ids, which, barrier)
                barrier.bind([], copy.nbytes)
        state.observers = observers

    return begin


def _fits(state: State, site: Any, copy: TensorCopy, memory: Any, at: int) -> bool:
    """Return whether a box may lie at a byte of shared memory; record it where it may not."""
    wanted = tile_alignment(copy.swizzle)
    if at % wanted or not 0 <= at <= memory.nbytes - copy.nbytes:
        message = (
            f"a box of {copy.nbytes} bytes comes to byte {at} of {memory.name}, which has "
            f"{memory.nbytes}; it has to be a multiple of {wanted}"
        )
        state.find("out of bounds", message, site)
        return False
    return True


def _elements(copy: TensorCopy, place: Any) -> tuple[Any, Any]:
    """Return which bytes of the box are inside of the tensor, and where they are there."""
    indices = numpy.indices(copy.box).reshape(len(copy.box), -1) + place[:, None]
    sizes, strides = numpy.array(copy.sizes)[:, None], numpy.array(copy.strides)[:, None]
    is_inside = ((indices >= 0) & (indices < sizes)).all(0)
    first = (indices * strides).sum(0)[is_inside] * copy.element
    lanes = numpy.arange(copy.element)
    return numpy.repeat(is_inside, copy.element), (first[:, None] + lanes).reshape(-1)
