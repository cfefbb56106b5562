"""Rules of barriers in shared memory (mbarrier): threads arrive, copies in the background are
attached, waiting goes on when as many have arrived as the barrier was set up for.

As in the interpreter's ``async_copies``: counts per block of threads; whoever waits sees the copies
that any thread has attached; a wait orders the accesses of the block.
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
from tilesmith.tir.interpreter.values import Environment

handles_statement = STATEMENT_RULES.handles
Run = Callable[[Environment], None]


@handles_statement("create_barriers")
def _create(compiler: Any, call: Call, span: Any) -> Run:
    return lambda env: None


@handles_statement("ptx_init_barrier_thread_count")
def _init(compiler: Any, call: Call, span: Any) -> Run:
    number, count = compiler.number(call.args[0]), compiler.number(call.args[1])

    def init(env: Environment) -> None:
        env[CONTEXT_SLOT].arrivals[int(number(env))] = SharedBarrier(int(count(env)))

    return init


@handles_statement("ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx")
def _arrive(compiler: Any, call: Call, span: Any) -> Run:
    number = compiler.number(call.args[0])
    announced = compiler.number(call.args[1]) if len(call.args) > 1 else lambda env: 0
    site = compiler.site("barrier", "arrive", "shared", span)

    def arrive(env: Environment) -> None:
        group: Group = env[THREAD_SLOT]
        barrier = barrier_at(env, int(number(env)), site)
        if barrier is None:
            return
        for _ in range(group.count):
            barrier.arrive(int(announced(env)))

    return arrive


@handles_statement("ptx_cp_async_barrier")
def _attach(compiler: Any, call: Call, span: Any) -> Run:
    number = compiler.number(call.args[0])

    def attach(env: Environment) -> None:
        env[CONTEXT_SLOT].copies.attach(env[THREAD_SLOT].ids, int(number(env)))

    return attach


@handles_statement("ptx_cp_async_bulk")
def _bulk(compiler: Any, call: Call, span: Any) -> Run:
    copy = STATEMENT_RULES.get("tir.ptx_cp_async")
    assert copy is not None
    begin = copy(compiler, call.with_fields(args=call.args[:5]), span)
    attach = _attach(compiler, call.with_fields(args=call.args[5:]), span)
    count, number = compiler.number(call.args[4]), compiler.number(call.args[5])
    site = compiler.site("barrier", "copy", "shared", span)

    def run(env: Environment) -> None:
        begin(env)
        attach(env)
        barrier = barrier_at(env, int(number(env)), site)
        if barrier is not None:
            barrier.bind([], int(count(env)) * env[THREAD_SLOT].count)

    return run


@handles_statement("ptx_wait_barrier")
def _wait(compiler: Any, call: Call, span: Any) -> Run:
    number = compiler.number(call.args[0])
    site = compiler.site("barrier", "wait", "shared", span)

    def wait(env: Environment) -> None:
        group: Group = env[THREAD_SLOT]
        state: State = env[CONTEXT_SLOT]
        which = int(number(env))
        barrier = barrier_at(env, which, site)
        if barrier is None:
            return
        waits = state.waits.setdefault(which, numpy.zeros(state.threads, numpy.int64))
        early = [int(one) for one in group.ids if not barrier.is_over(int(waits[one]))]
        if early:
            state.find(
                "endless wait",
                f"thread {state.thread_text(early[0])} waits forever at barrier {which}: "
                f"{barrier.missing()}",
                site,
            )
        waits[group.ids] += 1
        state.copies.complete(env, which)
        if state.launch is not None:
            state.clock.barrier()
            for observer in state.observers:
                observer.waited(site, state.weight)

    return wait


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
