"""Rules of barriers in shared memory (mbarrier): threads arrive, copies in the background are
attached, waiting goes on when as many have arrived as the barrier was set up for.

As in the interpreter's ``async_copies``: counts per block of threads; whoever waits sees the copies
that any thread has attached; a wait orders the accesses of the block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import Call
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep.rules import STATEMENT_RULES
from tilesmith.tir.interpreter.lockstep.state import Group, State
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
        env[CONTEXT_SLOT].arrivals[int(number(env))] = [int(count(env)), 0]

    return init


@handles_statement("ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx")
def _arrive(compiler: Any, call: Call, span: Any) -> Run:
    number = compiler.number(call.args[0])
    site = compiler.site("barrier", "arrive", "shared", span)

    def arrive(env: Environment) -> None:
        group: Group = env[THREAD_SLOT]
        counts = _counts(env, int(number(env)), site)
        if counts is not None:
            counts[1] += group.count

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

    def run(env: Environment) -> None:
        begin(env)
        attach(env)

    return run


@handles_statement("ptx_wait_barrier")
def _wait(compiler: Any, call: Call, span: Any) -> Run:
    number = compiler.number(call.args[0])
    site = compiler.site("barrier", "wait", "shared", span)

    def wait(env: Environment) -> None:
        group: Group = env[THREAD_SLOT]
        state: State = env[CONTEXT_SLOT]
        which = int(number(env))
        counts = _counts(env, which, site)
        if counts is None:
            return
        wanted, arrived = counts
        if arrived < wanted:
            state.find(
                "endless wait",
                f"thread {state.thread_text(int(group.ids[0]))} waits forever at barrier {which}: "
                f"{arrived} of {wanted} arrivals",
                site,
            )
        state.copies.complete(env, which)
        counts[1] = max(arrived - wanted, 0)
        if state.launch is not None:
            state.clock.barrier()
            for observer in state.observers:
                observer.waited(site, state.weight)

    return wait


def _counts(env: Environment, number: int, site: Any) -> list[int] | None:
    """Return how many threads a barrier is for, and how many have arrived; None (and a finding)
    where it was not set up."""
    state: State = env[CONTEXT_SLOT]
    found = state.arrivals.get(number)
    if found is None:
        state.find(
            "endless wait",
            f"barrier {number} is used before ptx_init_barrier_thread_count has set it up",
            site,
        )
    return found
