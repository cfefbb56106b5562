"""Rules of calls in lockstep: exchanges, barriers, atomics, asynchronous copies.

``CALL_RULES``: calls with a value, ``rule(compiler, call)`` returns the closure;
``STATEMENT_RULES``: calls that are statements, ``rule(compiler, call, span)``. Matrix units enter
theirs in ``matrices``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import Call, IntImm
from tilesmith.ir.rules import OperatorRules
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep.accesses import (
    Place,
    checked_read,
    defined_at,
    note_undefined,
    pointed,
)
from tilesmith.tir.interpreter.lockstep.copies import PTX_QUEUE
from tilesmith.tir.interpreter.lockstep.state import Group, State
from tilesmith.tir.interpreter.strands import Left, Meeting, Step
from tilesmith.tir.interpreter.values import Environment, Evaluate, element_type

__all__ = ["CALL_RULES", "STATEMENT_RULES", "TRANSPARENT", "meeting", "shuffle"]

CALL_RULES: OperatorRules[Callable[..., Evaluate]] = OperatorRules()
STATEMENT_RULES: OperatorRules[Callable[..., Step]] = OperatorRules()
TRANSPARENT = ("tir.if_then_else", "tir.likely", "tir.assume", "tir.get_active_lane_mask")
"""Calls that are the same in all threads where their arguments are."""
handles, handles_statement = CALL_RULES.handles, STATEMENT_RULES.handles


@handles("if_then_else")
def _if_then_else(compiler: Any, call: Call) -> Evaluate:
    found: Evaluate = compiler.choice(*call.args)
    return found


@handles("likely", "assume")
def _identity(compiler: Any, call: Call) -> Evaluate:
    found: Evaluate = compiler.visit(call.args[0])
    return found


@handles("tvm_access_ptr", "address_of")
def _pointer(compiler: Any, call: Call) -> Evaluate:
    found: Evaluate = compiler.accesses.pointer(call)
    return found


@handles("get_active_lane_mask")
def _active_lane_mask(compiler: Any, call: Call) -> Evaluate:
    base, limit = [compiler.array(arg) for arg in call.args]
    lanes = numpy.arange(call.dtype.lanes)
    return lambda env: base(env)[:, None] + lanes < limit(env)[:, None]


# Exchanges.

_SOURCES: dict[str, Callable[[Any, Any, int], Any]] = {
    "": lambda lane, given, width: given % width,
    "_up": lambda lane, given, width: lane - given,
    "_down": lambda lane, given, width: lane + given,
    "_xor": lambda lane, given, width: lane ^ given,
}


@handles("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down")
def _shuffle(compiler: Any, call: Call) -> Evaluate:
    return shuffle(compiler, call, call.op.name.removeprefix("tir."), call.args[:4])


def shuffle(compiler: Any, call: Call, name: str, args: Any) -> Evaluate:
    """Return the closure of an exchange within warps: (mask, value, number, width); raise
    UnsupportedError for an unknown name."""
    source = _SOURCES.get(
        name.removeprefix("tvm_warp_shuffle").removeprefix("__shfl").removesuffix("_sync")
    )
    if source is None:
        raise UnsupportedError(f"threads in lockstep do not run '{name}'")
    mask, value, given = [compiler.array(arg) for arg in args[:3]]
    width = compiler.number(args[3])
    site = compiler.site("exchange", name, "warp", getattr(call, "span", None))

    def exchange(env: Environment) -> Any:
        group: Group = env[THREAD_SLOT]
        state: State = env[CONTEXT_SLOT]
        values, segment = value(env), width(env)
        lanes = group.lanes_of % segment
        wanted = source(lanes, given(env).astype(numpy.int64), segment)
        inside = (wanted >= 0) & (wanted < segment)
        partner = numpy.where(inside, group.ids - lanes + wanted, group.ids)
        place = numpy.searchsorted(group.ids, partner).clip(0, group.count - 1)
        active = group.ids[place] == partner
        masks = mask(env).astype(numpy.int64)
        named = (masks >> (partner % group.warp_size)) & 1 == 1
        wrong = inside & ~(active & named)
        if wrong.any():
            first = int(numpy.argmax(wrong))
            thread = state.thread_text(int(group.ids[first]))
            why = "its mask does not name" if active[first] else "does not run this shuffle"
            state.find(
                "shuffle mask",
                f"thread {thread} reads lane {int(partner[first]) % group.warp_size} by {name}, "
                f"which {why}",
                site,
            )
        return values[place]

    return exchange


@handles("tvm_warp_activemask")
def _activemask(compiler: Any, call: Call) -> Evaluate:
    def compute(env: Environment) -> Any:
        group: Group = env[THREAD_SLOT]
        bits = numpy.zeros(int(group.warps_of.max()) + 1, numpy.uint32)
        numpy.bitwise_or.at(
            bits, group.warps_of, numpy.uint32(1) << group.lanes_of.astype(numpy.uint32)
        )
        return bits[group.warps_of]

    return compute


# Barriers.


@handles_statement("tvm_storage_sync")
def _storage_sync(compiler: Any, call: Call, span: Any) -> Step:
    scope = str(call.args[0].value)  # type: ignore[attr-defined]
    site = compiler.site("barrier", scope, "shared", span, f'T.tvm_storage_sync("{scope}")')
    if scope == "global":
        raise UnsupportedError(
            "threads in lockstep run block by block: no barrier of the grid", span=span
        )

    def wait(env: Environment) -> Left:
        group: Group = env[THREAD_SLOT]
        state: State = env[CONTEXT_SLOT]
        if state.launch is None:
            return None
        if scope == "warp":
            state.clock.warp_barrier(group.ids, -(-state.threads // group.warp_size))
            return None
        if group.count != state.threads:
            return come_together(env) if compiler.waits else absent(env)
        state.clock.barrier()
        for observer in state.observers:
            observer.waited(site, state.weight)
        return None

    def absent(env: Environment) -> None:
        group: Group = env[THREAD_SLOT]
        state: State = env[CONTEXT_SLOT]
        missing = numpy.setdiff1d(numpy.arange(state.threads), group.ids)[0]
        state.find(
            "divergent barrier",
            f"only {group.count} of the {state.threads} threads of a block reach the barrier; "
            f"thread {state.thread_text(int(missing))} does not",
            site,
        )

    come_together = meeting(compiler, wait, site, is_whole_block, absent)
    return wait


def is_whole_block(env: Environment) -> bool:
    """Return whether all threads of a block are active."""
    return bool(env[THREAD_SLOT].count == env[CONTEXT_SLOT].threads)


def meeting(
    compiler: Any, step: Step, site: Any, is_whole: Callable[[Environment], bool],
    complain: Callable[[Environment], None], in_branches: bool = False,
) -> Callable[[Environment], Left]:  # fmt: skip
    """Return the closure by which threads wait for others to take a step together."""
    merge = compiler.widened()

    def come(env: Environment) -> Left:
        def describe() -> str:
            return f"{env[CONTEXT_SLOT].group_text(env[THREAD_SLOT])} waits at {site.statement}"

        def is_complete(envs: list[Environment]) -> bool:
            return is_whole(merge(envs))

        return [
            Meeting(step, is_complete, merge, describe, lambda others: complain(env), in_branches)
        ]

    return come


# Atomic operations.


@handles("atomic_add")
def _atomic_add(compiler: Any, call: Call) -> Evaluate:
    pointer, value = compiler.accesses.pointer(call.args[0]), compiler.array(call.args[1])
    kind = element_type(call.args[1].dtype)
    site = compiler.site("write", "atomic_add", "global", getattr(call, "span", None))

    def add(env: Environment) -> Any:
        group: Group = env[THREAD_SLOT]
        memory, offset = pointer(env)
        flat = memory.elements(kind)
        where = numpy.broadcast_to(numpy.asarray(offset) // kind.itemsize, (group.count,))
        flags = defined_at(memory, where, kind.itemsize, group)
        if flags is not None:
            note_undefined(env, site, memory, where, flags, group, False)
        before = flat[where].copy()
        numpy.add.at(flat, where, value(env).astype(kind, copy=False))
        memory.written(numpy.asarray(offset) // memory.granule)
        env[CONTEXT_SLOT].accessed(site, memory, group, where, kind.itemsize, True, is_atomic=True)
        return before

    return add


# Asynchronous copies.


@handles_statement("ptx_cp_async")
def _cp_async(compiler: Any, call: Call, span: Any) -> Callable[..., None]:
    """Compile a copy: (shared pointer, offset in elements, global pointer, offset, bytes[,
    predicate]). The closure may be told which copies in the background it begins (``actor``)."""
    to, source = [compiler.accesses.pointer(call.args[i]) for i in (0, 2)]
    offset, start = [compiler.visit(call.args[i]) for i in (1, 3)]
    count = compiler.number(call.args[4])
    sizes = [pointed(call, i, call.dtype) for i in (0, 2)]
    predicate = compiler.array(call.args[5]) if len(call.args) > 5 else None
    if predicate is not None and isinstance(call.args[5], IntImm) and call.args[5].value:
        predicate = None
    write = compiler.site("write", _name(call.args[0]), "shared", span)
    read = compiler.site("read", _name(call.args[2]), "global", span)

    def begin(env: Environment, actor: int | None = None) -> None:
        group: Group = env[THREAD_SLOT]
        state: State = env[CONTEXT_SLOT]
        actors = None if actor is None else numpy.full(group.count, actor)
        nbytes = count(env)
        target, origin = to(env), source(env)
        target_at = _bytes_of(target, offset(env) * sizes[0], group)
        origin_at = _bytes_of(origin, start(env) * sizes[1], group)
        taken = (
            numpy.ones(group.count, numpy.bool_)
            if predicate is None
            else predicate(env).astype(bool)
        )
        data = numpy.zeros((group.count, nbytes), numpy.uint8)
        lanes = numpy.arange(nbytes)
        chosen = numpy.flatnonzero(taken)
        chosen = chosen[
            _within(state, read, origin.memory, origin_at[chosen], nbytes, group, chosen)
        ]
        if len(chosen):
            at = origin_at[chosen][:, None] + lanes
            data[chosen] = origin.memory.elements(numpy.dtype("u1"))[at]
            part = group if len(chosen) == group.count else group.part(chosen)
            mine = None if actors is None else actors[chosen]
            checked_read(env, read, origin.memory, part, at, 1, is_async=True, actors=mine)
        fits = _within(
            state, write, target.memory, target_at, nbytes, group, numpy.arange(group.count)
        )
        part = group if fits.all() else group.part(numpy.flatnonzero(fits))
        where = target_at[fits][:, None] + lanes
        inner = env if part is group else [*env[:THREAD_SLOT], part, *env[THREAD_SLOT + 1 :]]
        state.copies.begin(
            inner, write, target.memory, part.ids, where, data[fits], numpy.dtype("u1"),
            actors=None if actors is None else actors[fits],
        )  # fmt: skip

    return begin


@handles_statement("ptx_commit_group")
def _commit_group(compiler: Any, call: Call, span: Any) -> Callable[[Environment], None]:
    return lambda env: env[CONTEXT_SLOT].copies.commit(env[THREAD_SLOT].ids, PTX_QUEUE)


@handles_statement("ptx_wait_group")
def _wait_group(compiler: Any, call: Call, span: Any) -> Callable[[Environment], None]:
    pending = compiler.visit(call.args[0])
    return lambda env: env[CONTEXT_SLOT].copies.wait(env, PTX_QUEUE, pending(env))


def _within(
    state: State, site: Any, memory: Any, at: Any, nbytes: int, group: Group, which: Any
) -> Any:
    """Return which copies stay inside of their memory; record the others."""
    inside = (at >= 0) & (at + nbytes <= memory.nbytes)
    if not inside.all():
        first = int(numpy.argmin(inside))
        thread = state.thread_text(int(group.ids[which[first]]))
        state.find(
            "out of bounds",
            f"thread {thread} copies {nbytes} bytes at byte {int(at[first])} of {memory.name}, "
            f"which has {memory.nbytes}",
            site,
        )
    return inside


def _bytes_of(place: Place, offset: Any, group: Group) -> Any:
    return numpy.broadcast_to(numpy.asarray(place.offset + offset, numpy.int64), (group.count,))


def _name(arg: Any) -> str:
    if isinstance(arg, Call):
        inner = arg.args[0] if isinstance(arg.args[0], BufferLoad) else arg.args[1]
        return str(getattr(getattr(inner, "buffer", inner), "name", inner))
    return str(getattr(arg, "name", arg))
