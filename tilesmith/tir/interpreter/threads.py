"""The threads of a launched kernel: their indices, environments and groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilesmith.ir.span import SequentialSpan, Span
from tilesmith.support.errors import ExecutionError
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.strands import Meeting
from tilesmith.tir.interpreter.values import Environment, Pointer, RunGroup
from tilesmith.tir.warpgroup_products import WARPGROUP

__all__ = [
    "THREAD_ATTRIBUTES", "Thread", "barrier_name", "by_block", "by_owner", "by_warp",
    "by_warpgroup", "describe_all", "fork", "is_whole", "line_of", "meeting", "require_whole",
    "require_whole_grid", "sharing_level",
]  # fmt: skip

THREAD_ATTRIBUTES = ("thread_extent", "virtual_thread")
"""Attributes that launch threads."""


def sharing_level(scope: str) -> str:
    """Return which threads share memory of a scope: "block", "warpgroup", "warp" or "thread"; ""
    for memory outside the chip.
    """
    if scope.startswith("shared"):
        return "block"
    if scope == "warpgroup":
        return "warpgroup"
    if scope == "warp" or scope.startswith(("wmma.", "m16n8k", "metal.simdgroup")):
        return "warp"
    return "thread" if scope.startswith("local") else ""


class Thread:
    """One thread: its index and the extent of each axis that has been launched around it."""

    __slots__ = ("access", "acts_as", "axes", "block", "copies", "number", "warp_size")

    def __init__(self, axes: dict[str, tuple[int, int]], warp_size: int) -> None:
        self.axes = axes
        self.warp_size = warp_size
        self.block = tuple([axes[tag][0] for tag in sorted(axes) if tag.startswith("blockIdx")])
        number, stride = 0, 1
        for tag in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
            index, extent = axes.get(tag, (0, 1))
            number += index * stride
            stride *= extent
        self.number = number  # within the block, x running fastest
        self.access: Any = None  # epochs of the watch, between two barriers
        self.acts_as: Any = None  # the copy in the background that accesses memory now
        self.copies: Any = None

    @property
    def warp(self) -> int:
        """Return the number of the warp within the block."""
        return self.number // self.warp_size

    @property
    def lane(self) -> int:
        """Return the number of the thread within its warp."""
        return self.number % self.warp_size

    def expected(self, warp_only: bool = False) -> int:
        """Return how many threads, virtual ones too, belong to this one's block (or warp)."""
        threads = virtual = 1
        for tag, (_, extent) in self.axes.items():
            if tag.startswith("threadIdx"):
                threads *= extent
            elif not tag.startswith("blockIdx"):
                virtual *= extent
        if warp_only:
            threads = min(self.warp_size, threads - self.warp * self.warp_size)
        return threads * virtual

    def block_size(self) -> int:
        """Return how many threads, each with a number of its own, a block has."""
        return math.prod([n for tag, (_, n) in self.axes.items() if tag.startswith("threadIdx")])

    def describe(self) -> str:
        """Return the indices, for messages."""
        shown = ", ".join([f"{tag}={index}" for tag, (index, _) in self.axes.items()])
        return f"({shown})" if shown else "(the only one)"


def fork(
    parents: list[Environment],
    tag: str,
    indices: range,
    extent: int,
    slots: list[int],
    local_slots: list[Any],
) -> list[Environment]:
    """Return one environment per index of a newly launched axis, for each existing environment.

    Memory of single threads that was allocated around the launch exists once per thread, and is the
    same again when the axis is launched the next time, but for what was written between.
    ``local_slots`` tells where such pointers lie: pairs of a slot and the slots of the views that
    depend on it.
    """
    made = []
    for parent in parents:
        thread: Thread = parent[THREAD_SLOT]
        for index in indices:
            env = parent.copy()
            launched = Thread({**thread.axes, tag: (index, extent)}, thread.warp_size)
            if thread.copies is not None:
                launched.copies = thread.copies.for_launched()
            env[THREAD_SLOT] = launched
            for slot in slots:
                env[slot] = index
            for slot, views in local_slots:
                pointer = parent[slot]
                if isinstance(pointer, Pointer):
                    env[slot] = _copy_for(pointer, (tag, index))
                    watch = env[CONTEXT_SLOT].watch
                    if watch is not None:
                        watch.copied(pointer, env[slot])
                    for view in views:
                        env[view] = None
            made.append(env)
    return made


def _copy_for(pointer: Pointer, key: tuple[str, int]) -> Pointer:
    if pointer.copies is None:
        pointer.copies = {}
    known = pointer.copies.get(key)
    if known is None:
        array = pointer.memory.copy()
        copy = Pointer(array, pointer.offset, array)
    else:
        copy, before = known
        written = pointer.memory != before  # between two launches, each thread has written it
        copy.memory[written] = pointer.memory[written]
    pointer.copies[key] = (copy, pointer.memory.copy())
    return copy


def by_owner(envs: list[Environment], level: str) -> dict[Any, list[Environment]]:
    """Return the groups of threads that share their allocations: those of a block (or "warp" or
    "warpgroup") with equal virtual indices, since memory that is allocated inside a virtual thread
    is private to it.
    """
    owners: dict[Any, list[Environment]] = {}
    for env in envs:
        thread: Thread = env[THREAD_SLOT]
        real = ("threadIdx", "blockIdx")
        virtual = [p[0] for tag, p in thread.axes.items() if not tag.startswith(real)]
        part = {"warp": thread.warp, "warpgroup": thread.number // WARPGROUP}.get(level, 0)
        key = (thread.block, part, tuple(virtual))
        owners.setdefault(key, []).append(env)
    return owners


def by_block(envs: list[Environment]) -> dict[Any, list[Environment]]:
    """Return the environments of each block of threads."""
    blocks: dict[Any, list[Environment]] = {}
    for env in envs:
        blocks.setdefault(env[THREAD_SLOT].block, []).append(env)
    return blocks


def by_warp(envs: list[Environment]) -> dict[Any, list[Environment]]:
    """Return the environments of each warp, in the order of the lanes."""
    warps: dict[Any, list[Environment]] = {}
    for env in envs:
        thread = env[THREAD_SLOT]
        warps.setdefault((thread.block, thread.warp), []).append(env)
    for members in warps.values():
        members.sort(key=_lane)
    return warps


def by_warpgroup(envs: list[Environment]) -> dict[Any, list[Environment]]:
    """Return the environments of each warpgroup, in the order of their numbers."""
    found: dict[Any, list[Environment]] = {}
    for env in envs:
        thread: Thread = env[THREAD_SLOT]
        found.setdefault((thread.block, thread.number // WARPGROUP), []).append(env)
    for members in found.values():
        members.sort(key=_number)
    return found


def _number(env: Environment) -> int:
    thread: Thread = env[THREAD_SLOT]
    return thread.number


def _lane(env: Environment) -> int:
    thread: Thread = env[THREAD_SLOT]
    return thread.lane


def describe_all(envs: list[Environment]) -> str:
    """Return the threads of a group, for messages: the first one, and how many more."""
    more = f" (and {len(envs) - 1} more)" if len(envs) > 1 else ""
    return f"thread {envs[0][THREAD_SLOT].describe()}{more}"


def line_of(span: Any) -> str:
    """Return the place of a statement, for messages, where it is known."""
    while isinstance(span, SequentialSpan):
        span = span.spans[0] if span.spans else None
    if span is None:
        return ""
    return f", {span.source_name}:{span.line}" if isinstance(span, Span) else f", {span.format()}"


def meeting(
    envs: list[Environment], step: RunGroup, is_whole: Callable[[list[Environment]], bool],
    require: RunGroup, what: str, in_branches: bool = False,
) -> list[Any]:  # fmt: skip
    """Return the steps of threads that wait for others to take a step together: one meeting.
    ``require`` raises the error that they have not all come."""
    return [
        Meeting(
            step, lambda groups: is_whole(_merged(groups)), _merged,
            lambda: f"{describe_all(envs)} waits at {what}", lambda others: require(envs),
            in_branches,
        )
    ]  # fmt: skip


def _merged(groups: list[list[Environment]]) -> list[Environment]:
    """Return the threads of several groups as one, in the order of their numbers."""
    envs = [env for group in groups for env in group]
    envs.sort(key=_place)
    return envs


def _place(env: Environment) -> tuple[Any, int]:
    thread: Thread = env[THREAD_SLOT]
    return thread.block, thread.number


def is_whole(envs: list[Environment], warp_only: bool = False) -> bool:
    """Return whether all threads of each block (or warp) are active."""
    groups = by_warp(envs) if warp_only else by_block(envs)
    return all(len(one) == one[0][THREAD_SLOT].expected(warp_only) for one in groups.values())


def require_whole(envs: list[Environment], what: str, span: Any, warp_only: bool = False) -> None:
    """Raise ExecutionError unless all threads of each block (or warp) are active."""
    groups = by_warp(envs) if warp_only else by_block(envs)
    for members in groups.values():
        expected = members[0][THREAD_SLOT].expected(warp_only)
        if len(members) != expected:
            present = {env[THREAD_SLOT].number for env in members}
            absent = min(set(range(expected)) - present, default=0)
            kind = "warp" if warp_only else "block"
            raise ExecutionError(
                f"only {len(members)} of the {expected} threads of a {kind} reach {what}",
                span=span,
                notes=(
                    f"thread number {absent} is not among them",
                    "all threads have to get there: move it out of the branch or loop",
                ),
            )


def require_whole_grid(envs: list[Environment], what: str, span: Any) -> None:
    """Raise ExecutionError unless all threads of all blocks are active."""
    require_whole(envs, what, span)
    axes = envs[0][THREAD_SLOT].axes.items()
    expected = math.prod([count for tag, (_, count) in axes if tag.startswith("blockIdx")])
    present = len(by_block(envs))
    if present != expected:
        raise ExecutionError(
            f"only {present} of the {expected} blocks of a kernel reach {what}",
            span=span,
            notes=("all blocks have to get there: move it out of the branch or loop",),
        )


def barrier_name(scope: str) -> str:
    """Return a barrier as TVMScript writes it."""
    return f'the barrier T.tvm_storage_sync("{scope}")'
