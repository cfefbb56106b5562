"""Loads and stores of vectors under a predicate: each lane is an access of the threads whose
predicate has that lane, checked like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from tilesmith.ir import Broadcast, PrimExpr, Ramp, Shuffle
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep.observers import Site
from tilesmith.tir.interpreter.lockstep.state import State
from tilesmith.tir.interpreter.values import Environment, Evaluate, element_type
from tilesmith.tir.stmt import BufferStore

if TYPE_CHECKING:
    from tilesmith.tir.interpreter.lockstep.accesses import BufferAccesses

__all__ = ["masked_load", "masked_store"]


def masked_load(accesses: BufferAccesses, node: BufferLoad) -> Evaluate:
    """Return the closure of a load under a predicate: lanes without it are zero."""
    mask, lanes = _mask(accesses, node), node.dtype.lanes
    space = accesses.space(node.buffer.data)
    site = accesses.compiler.site("read", node.buffer.name, space, node.span)
    parts = []
    for lane in range(lanes):
        indices = [_lane(index, lane) for index in node.indices]
        parts.append(accesses.load(BufferLoad(node.buffer, indices, span=node.span), site=site))
    narrow, kind = accesses.compiler.narrowed(), element_type(node.buffer.dtype)

    def load(env: Environment) -> Any:
        found = numpy.zeros((env[THREAD_SLOT].count, lanes), kind)
        for lane, (part, wanted) in enumerate(zip(parts, mask(env).T)):
            if wanted.all():
                found[:, lane] = part(env)
            elif wanted.any():
                chosen = numpy.flatnonzero(wanted)
                found[chosen, lane] = part(narrow(env, chosen))
        return found if lanes > 1 else found[:, 0]

    return load


def masked_store(
    accesses: BufferAccesses, node: BufferStore, in_background: bool = False
) -> Callable[..., None]:
    """Return ``store(env, value, defined)`` of a store under a predicate. ``in_background``: it
    arrives when the program waits for it.

    A copy hands on lanes that were never written; to store what was computed from them is a fault.
    """
    is_copy = isinstance(node.value, BufferLoad)
    mask, lanes = _mask(accesses, node), node.value.dtype.lanes
    space = accesses.space(node.buffer.data)
    site = accesses.compiler.site("write", node.buffer.name, space, node.span)
    make = accesses.deferred if in_background else accesses.store
    parts = [
        make(node.buffer, [_lane(one, lane) for one in node.indices], node.span, site)
        for lane in range(lanes)
    ]
    narrow = accesses.compiler.narrowed()

    def store(env: Environment, value: Any, defined: Any = None) -> None:
        count = env[THREAD_SLOT].count
        value = numpy.asarray(value)
        if value.ndim == 1 and lanes == 1:
            value = value[:, None]
        value = numpy.broadcast_to(value, (count, lanes))
        known = None if defined is None else numpy.broadcast_to(defined, (count, lanes))
        stored = mask(env)
        if known is not None and not is_copy:
            _note_computed(env, site, node, stored & ~known)
            known = None
        for lane, (part, wanted) in enumerate(zip(parts, stored.T)):
            if wanted.all():
                part(env, value[:, lane], _missing(known, slice(None), lane))
            elif wanted.any():
                chosen = numpy.flatnonzero(wanted)
                given = _missing(known, chosen, lane)
                part(narrow(env, chosen), value[chosen, lane], given)

    return store


def _note_computed(env: Environment, site: Site, node: BufferStore, wrong: Any) -> None:
    """Record the first store of a value that was computed from memory that was never written."""
    if not wrong.any():
        return
    thread = int(env[THREAD_SLOT].ids[int(numpy.argmax(wrong.any(1)))])
    state: State = env[CONTEXT_SLOT]
    state.find(
        "undefined read",
        f"thread {state.thread_text(thread)} computes a lane that it writes to {node.buffer.name} "
        "from memory that was never written",
        site,
    )


def _missing(known: Any, chosen: Any, lane: int) -> Any:
    """Return which threads have a value in a lane; None: all."""
    flags = None if known is None else known[chosen, lane]
    return None if flags is None or flags.all() else flags


def _mask(accesses: BufferAccesses, node: BufferLoad | BufferStore) -> Evaluate:
    """Return the closure of a predicate, as an array with a row for each thread."""
    predicate = node.predicate
    assert predicate is not None
    if node.buffer.dtype.lanes > 1:
        raise UnsupportedError(
            "threads in lockstep do not run accesses of vectors of elements with predicates",
            span=node.span,
        )
    value, lanes = accesses.compiler.visit(predicate), predicate.dtype.lanes
    differs = accesses.compiler.differs(predicate)

    def mask(env: Environment) -> Any:
        found = numpy.asarray(value(env), numpy.bool_)
        if differs and lanes == 1:
            found = found[:, None]
        return numpy.broadcast_to(found, (env[THREAD_SLOT].count, lanes))

    return mask


def _lane(expr: PrimExpr, lane: int) -> PrimExpr:
    """Return a lane of an index."""
    if isinstance(expr, Ramp):
        return expr.base + expr.stride * lane
    if isinstance(expr, Broadcast):
        return expr.value
    return expr if expr.dtype.lanes == 1 else Shuffle([expr], [lane])
