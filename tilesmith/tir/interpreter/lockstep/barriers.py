"""Rules of barriers in shared memory (mbarrier): threads arrive, copies in the background are
attached, waiting goes on when as many have arrived as the barrier was set up for.

As in the interpreter's ``async_copies``: counts per block of threads; whoever waits sees the copies
that any thread has attached, and what those have done who have arrived (``happens_before``).
Threads that wait for a phase which is not over let others go on (``strands``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import Call
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep.rules import STATEMENT_RULES
from tilesmith.tir.interpreter.lockstep.state import Group, State
from tilesmith.tir.interpreter.shared_barriers import SharedBarrier
from tilesmith.tir.interpreter.strands import Blocked, Left, Meeting, Split, Step
from tilesmith.tir.interpreter.values import Environment

handles_statement = STATEMENT_RULES.handles
Run = Callable[[Environment], None]


@handles_statement("create_barriers")
def _create(compiler: Any, call: Call, span: Any) -> Run:
    return lambda env: None


@handles_statement("ptx_init_barrier_thread_count")
def _init(compiler: Any, call: Call, span: Any) -> Run:
    number, count = compiler.number(call.args[0]), compiler.number(call.args[1])
    return lambda env: env[CONTEXT_SLOT].set_up_barrier(int(number(env)), int(count(env)))


@handles_statement("ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx")
def _arrive(compiler: Any, call: Call, span: Any) -> Run:
    number = compiler.number(call.args[0])
    announced = compiler.number(call.args[1]) if len(call.args) > 1 else lambda env: 0
    site = compiler.site("barrier", "arrive", "shared", span)

    def arrive(env: Environment) -> None:
        ids = env[THREAD_SLOT].ids
        barrier = barrier_at(env, int(number(env)), site)
        if barrier is None:
            return
        nbytes = int(announced(env))
        while len(ids):  # as many at once as the present phase still waits for
            now = ids[: max(barrier.wanted - barrier.arrived, 1)]
            ids = ids[len(now) :]
            if barrier.order is not None:
                barrier.order.order.arrive(now, barrier.order)
            for _ in now:
                barrier.arrive(nbytes)

    return arrive


@handles_statement("ptx_cp_async_barrier")
def _attach(compiler: Any, call: Call, span: Any) -> Run:
    number = compiler.number(call.args[0])
    site = compiler.site("barrier", "copies", "shared", span)

    def attach(env: Environment) -> None:
        which = int(number(env))
        barrier = barrier_at(env, which, site)
        if barrier is not None:
            state: State = env[CONTEXT_SLOT]
            state.copies.attach(state, env[THREAD_SLOT].ids, which, barrier)

    return attach


@handles_statement("ptx_cp_async_bulk")
def _bulk(compiler: Any, call: Call, span: Any) -> Run:
    copy = STATEMENT_RULES.get("tir.ptx_cp_async")
    assert copy is not None
    begin: Any = copy(compiler, call.with_fields(args=call.args[:5]), span)
    count, number = compiler.number(call.args[4]), compiler.number(call.args[5])
    site = compiler.site("barrier", "copy", "shared", span)

    def run(env: Environment) -> None:
        which, state = int(number(env)), env[CONTEXT_SLOT]
        barrier = barrier_at(env, which, site)
        if barrier is None:
            return
        group: Group = env[THREAD_SLOT]
        begin(env, None if barrier.order is None else barrier.order.unit)
        state.copies.attach(state, group.ids, which, barrier)
        barrier.bind([], int(count(env)) * group.count)

    return run


@handles_statement("ptx_wait_barrier")
def _wait(compiler: Any, call: Call, span: Any) -> Step:
    number, narrow = compiler.number(call.args[0]), compiler.narrowed()
    site = compiler.site("barrier", "wait", "shared", span)

    def waits_of(state: State, which: int) -> Any:
        """Return how often each thread has waited at a barrier."""
        return state.waits.setdefault(which, numpy.zeros(state.threads, numpy.int64))

    def go_on(env: Environment, which: int, barrier: SharedBarrier) -> None:
        state: State = env[CONTEXT_SLOT]
        ids, waits = env[THREAD_SLOT].ids, waits_of(state, which)
        if barrier.order is not None:
            for phase in numpy.unique(waits[ids]).tolist():
                barrier.order.order.wait(ids[waits[ids] == phase], barrier.order, phase)
        waits[ids] += 1
        state.copies.complete(env, which, barrier.phases)
        for observer in state.observers:
            observer.waited(site, state.weight)

    def blocked(env: Environment, which: int, barrier: SharedBarrier) -> Blocked:
        state: State = env[CONTEXT_SLOT]
        group: Group = env[THREAD_SLOT]
        waits = waits_of(state, which)[group.ids]

        def describe() -> str:
            return barrier.waits_forever(state.group_text(group), which, int(waits[0]))

        def complain(others: list[Any]) -> None:
            there = [one.describe() for one in others if isinstance(one, Meeting)]
            state.find("endless wait", "; ".join([describe(), *there]), site)

        def can_go() -> bool:
            return bool(_are_over(barrier, waits).any())

        return Blocked(wait, can_go, describe, complain)

    def wait(env: Environment) -> Left:
        which = int(number(env))
        barrier = barrier_at(env, which, site)
        if barrier is None:
            return None
        over = _are_over(barrier, waits_of(env[CONTEXT_SLOT], which)[env[THREAD_SLOT].ids])
        if over.all():
            go_on(env, which, barrier)
            return None
        if not over.any():
            return [blocked(env, which, barrier)]
        ready, left = [narrow(env, numpy.flatnonzero(one)) for one in (over, ~over)]
        go_on(ready, which, barrier)
        return [Split(env, [(ready, []), (left, [blocked(left, which, barrier)])])]

    return wait


def _are_over(barrier: SharedBarrier, waits: Any) -> Any:
    """Return for each thread whether the phase is over that it waits for, by how often it has
    waited so far."""
    return ((barrier.phases ^ waits) & 1).astype(numpy.bool_)


def actors_of(barrier: SharedBarrier | None, group: Group) -> Any:
    """Return the copies in the background that threads bind to a barrier (see ``Order``); None
    where nobody waits for them."""
    if barrier is None or barrier.order is None:
        return None
    return numpy.full(group.count, barrier.order.unit)


def barrier_at(env: Environment, number: int, site: Any) -> SharedBarrier | None:
    """Return a barrier of the block; None (and a finding) where it was not set up."""
    state: State = env[CONTEXT_SLOT]
    found = state.arrivals.get(number)
    if found is None:
        state.find(
            "endless wait",
            f"barrier {number} is used before ptx_init_barrier_thread_count has set it up",
            site,
        )
    return found
