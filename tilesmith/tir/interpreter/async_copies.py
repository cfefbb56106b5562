"""Copies in the background: begun by one statement, visible after another.

The source is read when a copy begins, the destination changes when the program waits for it; until
then it holds no numbers, so that a read that comes too early shows. Copies are collected in groups:
``ptx_commit_group`` (or the end of ``async_commit_queue_scope``) closes one, waiting leaves a
number of the newest groups pending. Each thread has groups of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import Call
from tilesmith.ir.operators import is_const
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.interpreter.calls import CallCompiler
from tilesmith.tir.interpreter.expressions import _check_vector, out_of_bounds
from tilesmith.tir.interpreter.threads import THREAD_SLOT
from tilesmith.tir.interpreter.values import Environment, Evaluate, Pointer, poison
from tilesmith.tir.stmt import AttrStmt, BufferStore

RunGroup = Callable[[list[Environment]], None]
PTX_QUEUE = "ptx"


class Copies:
    """What one thread has begun and not waited for."""

    def __init__(self) -> None:
        self.open: list[Callable[[], None]] = []
        self.grouped = False  # between the marks of a group of transfers
        self.groups: dict[Any, list[list[Callable[[], None]]]] = {}
        self.barriers: dict[int, list[Callable[[], None]]] = {}

    def commit(self, queue: Any) -> None:
        """Close the group of copies begun so far."""
        self.groups.setdefault(queue, []).append(self.open)
        self.open = []

    def wait(self, queue: Any, pending: int) -> None:
        """Carry out all groups of a queue but the newest ones."""
        groups = self.groups.get(queue, [])
        finished = max(len(groups) - pending, 0)
        for group in groups[:finished]:
            for finish in group:
                finish()
        del groups[:finished]


def copies_of(env: Environment) -> Copies:
    """The copies of a thread."""
    thread = env[THREAD_SLOT]
    if thread.copies is None:
        thread.copies = Copies()
    return thread.copies


class AsyncCompiler(CallCompiler):
    """Closures for copies in the background."""

    in_async_scope: bool
    group: Any
    watcher: Any

    # Stores in two steps.

    def prepared_store(self, node: BufferStore) -> Callable[..., Callable[[], None]]:
        """Evaluates a store for a thread and gives the function that carries it out.

        ``later`` says that this is not done at once: until then the element holds no number.
        """
        buffer, span = node.buffer, node.span
        slot, bind = self.slot(buffer), self.binder(buffer)
        value = self.visit(node.value)
        indices = [self.visit(index) for index in node.indices]
        predicate = None if node.predicate is None else self.visit(node.predicate)
        vector = bool(node.indices) and node.indices[-1].dtype.lanes > 1
        inner_lanes = buffer.dtype.lanes
        watched = self.watcher(node.buffer)

        def prepare(env: Environment, later: bool = False) -> Callable[[], None]:
            array = env[slot]
            if array is None:
                array = bind(env)
            place: Any = tuple([index(env) for index in indices])
            stored = value(env)
            if vector or predicate is not None:
                picked, stored = numpy.atleast_1d(place[-1]), numpy.atleast_1d(stored)
                if inner_lanes > 1:
                    stored = stored.reshape(len(picked), inner_lanes)
                if predicate is not None:
                    mask = numpy.atleast_1d(predicate(env))
                    picked, stored = picked[mask], stored[mask]
                _check_vector(buffer, array, place[:-1], picked, span, "the store")
                place = (*place[:-1], picked)
            elif any(not 0 <= i < size for i, size in zip(place, array.shape)):
                out_of_bounds(buffer, array, place, span, "the store")

            if later:
                array[place] = poison(buffer.dtype.element)
                if watched is not None:
                    watched(env, array, place, stored, pending=True)

            def store() -> None:
                array[place] = stored
                if watched is not None:
                    watched(env, array, place, stored)

            return store

        return prepare

    def deferred(self, prepare: Callable[..., Callable[[], None]]) -> RunGroup:
        """A store that is carried out when the program waits for it."""

        def run(envs: list[Environment]) -> None:
            envs[0][0].active = envs
            for env, store in [(env, prepare(env, True)) for env in envs]:
                copies_of(env).open.append(store)

        return run

    # Attributes around statements.

    def asynchronous(self, node: AttrStmt) -> RunGroup:
        """``async_scope``, ``async_commit_queue_scope`` and ``async_wait_queue_scope``."""
        if node.attr_key == "async_scope":
            outer, self.in_async_scope = self.in_async_scope, True
            body = self.group(node.body)
            self.in_async_scope = outer
            return body
        queue = self.visit(node.value)
        if node.attr_key == "async_commit_queue_scope":
            body = self.group(node.body)

            def commit(envs: list[Environment]) -> None:
                body(envs)
                for env in envs:
                    copies_of(env).commit(queue(env))

            return commit
        inner = node.body
        if not isinstance(inner, AttrStmt) or inner.attr_key != "async_wait_inflight_count":
            raise UnsupportedError(
                "async_wait_queue_scope needs async_wait_inflight_count right inside",
                span=node.span,
            )
        pending, rest = self.visit(inner.value), self.group(inner.body)

        def wait(envs: list[Environment]) -> None:
            for env in envs:
                copies_of(env).wait(queue(env), pending(env))
            rest(envs)

        return wait

    # PTX.

    def call_ptx_cp_async(self, node: Call) -> Evaluate:
        """(shared pointer, offset in elements, global pointer, offset, bytes[, predicate])."""
        args = [self.visit(arg) for arg in node.args[:5]]
        predicate = self.visit(node.args[5]) if len(node.args) > 5 else None
        if len(node.args) > 5 and is_const(node.args[5], 1):
            predicate = None
        # Offsets count elements of the pointers; a pointer that tells nothing counts those of the
        # call's dtype.
        sizes = [_pointed(node.args[i], node.dtype.element.nbytes) for i in (0, 2)]

        def begin(env: Environment) -> None:
            target, offset, source, start, count = [arg(env) for arg in args]
            target = target.moved(offset * sizes[0])
            if predicate is not None and not predicate(env):
                data = numpy.zeros(count, numpy.uint8)
            else:
                data = _bytes(source.moved(start * sizes[1]), count).copy()
                self.touch_bytes(env, source.moved(start * sizes[1]), count, False)
            window = _bytes(target, count)
            window[...] = 0xFF  # no number, until the copy has been waited for
            self.touch_bytes(env, target, count, True, pending=True)

            def finish() -> None:
                window[...] = data
                self.touch_bytes(env, target, count, True)

            copies_of(env).open.append(finish)

        return begin

    def call_ptx_ldg32(self, node: Call) -> Evaluate:
        """(pointer to registers, condition, element in global memory, number of the register)."""
        target, condition, load, place = [self.visit(arg) for arg in node.args]
        kind = node.args[2].dtype

        def run(env: Environment) -> None:
            value = load(env) if condition(env) else 0
            register = target(env).moved(place(env) * kind.nbytes)
            register.view(kind, (1,), None, 0)[0] = value
            self.touch_bytes(env, register, kind.nbytes, True)

        return run

    def touch_bytes(
        self, env: Environment, pointer: Pointer, count: int, writes: bool, pending: bool = False
    ) -> None:
        """Tell the watch of an access through a pointer."""
        watch = env[0].watch
        if watch is not None:
            watch.touch_bytes(env, pointer, count, writes, pending)

    def call_ptx_commit_group(self, node: Call) -> Evaluate:
        return lambda env: copies_of(env).commit(PTX_QUEUE)

    def call_ptx_wait_group(self, node: Call) -> Evaluate:
        pending = self.visit(node.args[0])
        return lambda env: copies_of(env).wait(PTX_QUEUE, pending(env))

    # Barriers in shared memory (mbarrier): counts per block of threads.

    def call_create_barriers(self, node: Call) -> Evaluate:
        return lambda env: None

    def call_ptx_init_barrier_thread_count(self, node: Call) -> Evaluate:
        number, count = self.visit(node.args[0]), self.visit(node.args[1])

        def init(env: Environment) -> None:
            env[0].arrivals[(env[THREAD_SLOT].block, number(env))] = [count(env), 0]

        return init

    def call_ptx_arrive_barrier(self, node: Call) -> Evaluate:
        number = self.visit(node.args[0])

        def arrive(env: Environment) -> None:
            _arrivals(env, number(env))[1] += 1

        return arrive

    call_ptx_arrive_barrier_expect_tx = call_ptx_arrive_barrier

    def call_ptx_cp_async_barrier(self, node: Call) -> Evaluate:
        number = self.visit(node.args[0])

        def attach(env: Environment) -> None:
            copies = copies_of(env)
            copies.barriers.setdefault(number(env), []).extend(copies.open)
            copies.open = []

        return attach

    def call_ptx_cp_async_bulk(self, node: Call) -> Evaluate:
        begin = self.call_ptx_cp_async(node.with_fields(args=node.args[:5]))
        attach = self.call_ptx_cp_async_barrier(node.with_fields(args=node.args[5:]))

        def run(env: Environment) -> None:
            begin(env)
            attach(env)

        return run

    def together_ptx_wait_barrier(self, call: Call, span: Any) -> RunGroup:
        number = self.visit(call.args[0])

        def wait(envs: list[Environment]) -> None:
            for env in envs:
                which = number(env)
                wanted, arrived = _arrivals(env, which)
                if arrived < wanted:
                    raise ExecutionError(
                        f"thread {env[THREAD_SLOT].describe()} waits forever at barrier {which}: "
                        f"{arrived} of {wanted} arrivals",
                        span=span,
                    )
            for env in envs:
                for finish in copies_of(env).barriers.pop(number(env), []):
                    finish()
            for block, which in {(e[THREAD_SLOT].block, number(e)) for e in envs}:
                counts = envs[0][0].arrivals[(block, which)]
                counts[1] -= counts[0]
            watch = envs[0][0].watch
            if watch is not None:
                watch.barrier(envs, "shared")

        return wait


def _arrivals(env: Environment, number: int) -> list[int]:
    found = env[0].arrivals.get((env[THREAD_SLOT].block, number))
    if found is None:
        raise ExecutionError(
            f"barrier {number} is used before ptx_init_barrier_thread_count has set it up"
        )
    return found


def _pointed(arg: Any, fallback: int) -> int:
    """Bytes of what a pointer points to."""
    element = getattr(getattr(arg, "type_annotation", None), "element_type", None)
    dtype = getattr(element, "dtype", None)
    return dtype.nbytes if dtype is not None and not dtype.is_void else fallback


def _bytes(pointer: Pointer, count: int) -> Any:
    end = pointer.offset + count
    if pointer.offset < 0 or end > pointer.memory.nbytes:
        raise ExecutionError(
            f"a copy of {count} bytes at {pointer.offset} leaves memory of "
            f"{pointer.memory.nbytes} bytes"
        )
    return pointer.memory[pointer.offset : end]
