"""Rules of asynchronous copies: issued by one statement, visible after a later wait.

The source is read when a copy begins, the destination changes when the program waits for it; until
then it holds NaN, so that a read that comes too early is noticed. Copies are collected in groups:
``ptx_commit_group`` (or the end of ``async_commit_queue_scope``) closes one, waiting leaves a
number of the newest groups pending. Each thread has groups of its own. The transfers of a DMA
engine are copies of a queue, each a group unless it stands between the marks of one. Copies that
are bound to a barrier in shared memory are seen by who waits for its phase; a thread that waits for
a phase which is not over lets others go on (see ``strands``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import Call
from tilesmith.ir.operators import is_const
from tilesmith.ir.span import Span
from tilesmith.support.errors import ExecutionError
from tilesmith.tir.interpreter.call_rules import handles, handles_for_group
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.memory_calls import pointed_bytes
from tilesmith.tir.interpreter.shared_barriers import SharedBarrier, barrier_of, set_up_barrier
from tilesmith.tir.interpreter.strands import Blocked, Left, Split
from tilesmith.tir.interpreter.threads import describe_all, line_of
from tilesmith.tir.interpreter.values import Environment, Evaluate, RunGroup
from tilesmith.tir.interpreter.watch import touch_bytes

__all__ = ["UNKNOWN", "Copies", "copies_of", "hand_on_copies", "in_background"]

_PTX_QUEUE = "ptx"
UNKNOWN = 0xFF
"""The bytes of a destination until its copy has been waited for: NaN as floats."""


class Copies:
    """The copies that one thread has issued and not yet waited for.

    ``around``: those of the thread that has launched it, as the physical one of a virtual thread.
    """

    def __init__(self, around: Copies | None = None) -> None:
        self.around = around
        self.open: list[Callable[[], None]] = []
        self.grouped = False  # between the marks of a group of transfers
        self.groups: dict[Any, list[list[Callable[[], None]]]] = {}
        self.waits: dict[int, int] = {}  # how often it has waited at barriers in shared memory

    def for_launched(self) -> Copies:
        """Return the copies of a thread that this one launches: none yet."""
        return Copies(self)

    def commit(self, queue: Any) -> None:
        """Close the group of copies begun so far."""
        self.groups.setdefault(queue, []).append(self.open)
        self.open = []

    def wait(self, queue: Any, pending: int) -> None:
        """Carry out all groups of a queue but the newest ones."""
        groups = self.groups.get(queue, [])
        if not groups and self.around is not None:
            self.around.wait(queue, pending)
        finished = max(len(groups) - pending, 0)
        for group in groups[:finished]:
            for finish in group:
                finish()
        del groups[:finished]


def copies_of(env: Environment) -> Copies:
    """Return the copies of a thread; a function without threads has one set for all."""
    owner = env[THREAD_SLOT] or env[CONTEXT_SLOT]
    found: Copies | None = owner.copies
    if found is None:
        found = owner.copies = Copies()
    return found


def hand_on_copies(parents: list[Environment], children: list[Environment]) -> None:
    """Give copies that threads have not waited for to the threads that launched them: open ones
    belong to the group open there, the groups of equal number of all children become one group.

    Each parent has launched equally many children, in order.
    """
    count = len(children) // len(parents)
    for number, parent in enumerate(parents):
        launched = children[number * count : (number + 1) * count]
        left = [env[THREAD_SLOT].copies for env in launched]
        groups: dict[Any, list[list[Callable[[], None]]]] = {}
        for copies in left:
            if copies is None:
                continue
            if copies.open:
                copies_of(parent).open += copies.open
            for queue, own in copies.groups.items():
                whole = groups.setdefault(queue, [])
                whole += [[] for _ in own[len(whole) :]]
                for group, part in zip(whole, own):
                    group += part
        for queue, whole in groups.items():
            copies_of(parent).groups.setdefault(queue, []).extend(whole)


# PTX.


@handles("ptx_cp_async", is_collective=True)
def _cp_async(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    """Compile a copy: (shared pointer, offset in elements, global pointer, offset, bytes[,
    predicate])."""
    args = [compiler.visit(arg) for arg in call.args[:5]]
    predicate = compiler.visit(call.args[5]) if len(call.args) > 5 else None
    if len(call.args) > 5 and is_const(call.args[5], 1):
        predicate = None
    # Offsets count elements of the pointers; those of a pointer without a type count elements of
    # the call's dtype.
    sizes = [pointed_bytes(call.args[i], call.dtype.element.nbytes) for i in (0, 2)]
    span = compiler.scope.span

    def begin(env: Environment) -> None:
        target, offset, source, start, count = [arg(env) for arg in args]
        target = target.moved(offset * sizes[0])
        if predicate is not None and not predicate(env):
            data = numpy.zeros(count, numpy.uint8)
        else:
            data = source.moved(start * sizes[1]).window(count).copy()
            touch_bytes(env, source.moved(start * sizes[1]), count, False, span=span)
        window = target.window(count)
        window[...] = data
        touch_bytes(env, target, count, True, pending=True, span=span)
        window[...] = UNKNOWN

        def finish() -> None:
            window[...] = data
            touch_bytes(env, target, count, True, span=span)

        copies_of(env).open.append(finish)

    return begin


@handles("ptx_ldg32", is_collective=True)
def _ldg32(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    """Compile a guarded load: (pointer to registers, condition, element in global memory, number of
    the register)."""
    target, condition, load, place = [compiler.visit(arg) for arg in call.args]
    kind, span = call.args[2].dtype, compiler.scope.span

    def run(env: Environment) -> None:
        value = load(env) if condition(env) else 0
        register = target(env).moved(place(env) * kind.nbytes)
        register.view(kind, (1,), None, 0)[0] = value
        touch_bytes(env, register, kind.nbytes, True, span=span)

    return run


@handles("ptx_commit_group", is_collective=True)
def _commit_group(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    return lambda env: copies_of(env).commit(_PTX_QUEUE)


@handles("ptx_wait_group", is_collective=True)
def _wait_group(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    pending = compiler.visit(call.args[0])
    return lambda env: copies_of(env).wait(_PTX_QUEUE, pending(env))


# Barriers in shared memory (mbarrier).


@handles("create_barriers", is_collective=True)
def _create_barriers(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    return lambda env: None


@handles("ptx_init_barrier_thread_count", is_collective=True)
def _init_barrier(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    number, count = compiler.visit(call.args[0]), compiler.visit(call.args[1])
    return lambda env: set_up_barrier(env, number(env), count(env))


@handles("ptx_arrive_barrier", is_collective=True)
def _arrive_barrier(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    number = compiler.visit(call.args[0])
    return lambda env: _arrive(env, number(env), 0)


@handles("ptx_arrive_barrier_expect_tx", is_collective=True)
def _arrive_expecting(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    number, count = compiler.visit(call.args[0]), compiler.visit(call.args[1])
    return lambda env: _arrive(env, number(env), count(env))


def _arrive(env: Environment, number: int, nbytes: int) -> None:
    barrier, watch = barrier_of(env, number), env[CONTEXT_SLOT].watch
    if watch is not None:
        watch.arrived(env[THREAD_SLOT], barrier.order)
    barrier.arrive(nbytes)


def in_background(
    env: Environment, number: int, works: list[Callable[[], None]]
) -> list[Callable[[], None]]:
    """Return works whose accesses count as those of the copies that are bound to a barrier, begun
    by a thread now."""
    thread, watch = env[THREAD_SLOT], env[CONTEXT_SLOT].watch
    access = None if watch is None else watch.copy_access(thread, barrier_of(env, number).order)
    if access is None:
        return works

    def bound(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            thread.acts_as = access
            work()
            thread.acts_as = None

        return run

    return [bound(work) for work in works]


@handles("ptx_cp_async_barrier", is_collective=True)
def _cp_async_barrier(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    number = compiler.visit(call.args[0])

    def attach(env: Environment) -> None:
        copies = copies_of(env)
        begun, copies.open = copies.open, []
        which = number(env)
        barrier_of(env, which).bind(in_background(env, which, begun))

    return attach


@handles("ptx_cp_async_bulk", is_collective=True)
def _cp_async_bulk(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    begin = _cp_async(compiler, call.with_fields(args=call.args[:5]))
    count, number = compiler.visit(call.args[4]), compiler.visit(call.args[5])

    def run(env: Environment) -> None:
        which = number(env)
        barrier = barrier_of(env, which)
        begun: list[Callable[[], None]] = []

        def start() -> None:
            begin(env)
            begun.append(copies_of(env).open.pop())

        start, finish = in_background(env, which, [start, lambda: begun[0]()])
        start()
        barrier.bind([finish], count(env))

    return run


@handles_for_group("ptx_wait_barrier")
def _wait_barrier(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    number = compiler.visit(call.args[0])

    def awaited(env: Environment) -> tuple[int, SharedBarrier, int]:
        """Return the barrier that a thread waits at, and how often it has waited there so far."""
        which = number(env)
        return which, barrier_of(env, which), copies_of(env).waits.get(which, 0)

    def is_over(env: Environment) -> bool:
        _, barrier, waited = awaited(env)
        return barrier.is_over(waited)

    def go_on(env: Environment) -> None:
        which, barrier, waited = awaited(env)
        copies_of(env).waits[which] = waited + 1
        barrier.land()
        watch = env[CONTEXT_SLOT].watch
        if watch is not None:
            watch.waited(env[THREAD_SLOT], barrier.order, waited)

    def wait(envs: list[Environment]) -> Left:
        answers = [is_over(env) for env in envs]
        ready = [env for env, answer in zip(envs, answers) if answer]
        left = [env for env, answer in zip(envs, answers) if not answer]
        for env in ready:
            go_on(env)
        if not left:
            return None

        def message() -> str:
            which, barrier, waited = awaited(left[0])
            return barrier.waits_forever(describe_all(left), which, waited)

        def complain(others: list[Any]) -> None:
            notes = [one.describe() for one in others]
            raise ExecutionError(message(), span=span, notes=notes)

        def describe() -> str:
            return message() + line_of(span)

        def can_go() -> bool:
            return any(map(is_over, left))

        blocked = Blocked(wait, can_go, describe, complain)
        return [Split(envs, [(ready, []), (left, [blocked])])] if ready else [blocked]

    return wait


# The DMA engine.


@handles("dma_copy")
def _dma_copy(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    """Compile a transfer: (queue, target, source, bytes, ...)."""
    queue, target, source, count = [compiler.visit(arg) for arg in call.args[:4]]

    def begin(env: Environment) -> int:
        data = source(env).window(count(env)).copy()
        window = target(env).window(count(env))
        window[...] = UNKNOWN

        def finish() -> None:
            window[...] = data

        copies = copies_of(env)
        copies.open.append(finish)
        if not copies.grouped:
            copies.commit(("dma", queue(env)))
        return 0

    return begin


@handles("dma_start_group")
def _dma_start_group(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    def start(env: Environment) -> int:
        copies_of(env).grouped = True
        return 0

    return start


@handles("dma_end_group")
def _dma_end_group(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    queue = compiler.visit(call.args[0])

    def end(env: Environment) -> int:
        copies = copies_of(env)
        copies.grouped = False
        copies.commit(("dma", queue(env)))
        return 0

    return end


@handles("dma_wait")
def _dma_wait(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    queue, pending = compiler.visit(call.args[0]), compiler.visit(call.args[1])

    def wait(env: Environment) -> int:
        copies_of(env).wait(("dma", queue(env)), pending(env))
        return 0

    return wait
