"""Rules of exchanges within a warp: each thread gets the value of another one.

``Context.active`` holds the threads that run the current statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import Call
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.interpreter.call_rules import handles
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.threads import Thread
from tilesmith.tir.interpreter.values import Environment, Evaluate

__all__ = ["active_mask", "shuffle_function"]

SourceLane = Callable[[int, int, int], int]
"""The lane that a thread reads, of its own lane, the given number and the width of the segment."""


def _from_lane(lane: int, given: int, width: int) -> int:
    return given % width


def _from_below(lane: int, given: int, width: int) -> int:
    return lane - given


def _from_above(lane: int, given: int, width: int) -> int:
    return lane + given


def _from_xor(lane: int, given: int, width: int) -> int:
    return lane ^ given


_SHUFFLES: dict[str, SourceLane] = {
    "tir.tvm_warp_shuffle": _from_lane,
    "tir.tvm_warp_shuffle_up": _from_below,
    "tir.tvm_warp_shuffle_down": _from_above,
}
_CUDA_SHUFFLES: dict[str, SourceLane] = {
    "": _from_lane, "_up": _from_below, "_down": _from_above, "_xor": _from_xor,
}  # fmt: skip


@handles("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", is_collective=True)
def _warp_shuffle(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    parts = [compiler.visit(arg) for arg in call.args[:4]]
    return _shuffle(call.op.name.removeprefix("tir."), _SHUFFLES[call.op.name], *parts)


@handles("tvm_warp_activemask", is_collective=True)
def _warp_activemask(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    return active_mask


def shuffle_function(
    name: str, mask: Evaluate, value: Evaluate, given: Evaluate, width: Evaluate
) -> Evaluate:
    """Return one of CUDA's functions ``__shfl…``."""
    source = _CUDA_SHUFFLES.get(name.removeprefix("__shfl").removesuffix("_sync"))
    if source is None:
        raise UnsupportedError(f"the interpreter does not know the function '{name}'")
    return _shuffle(name, source, mask, value, given, width)


def _shuffle(
    name: str,
    source: SourceLane,
    mask: Evaluate,
    value: Evaluate,
    given: Evaluate,
    width: Evaluate,
) -> Evaluate:
    """Return a closure for the value in the lane that ``source(lane, given, width)`` selects."""

    def exchange(env: Environment) -> Any:
        thread: Thread = env[THREAD_SLOT]
        segment = width(env)
        lane = source(thread.lane % segment, given(env), segment)
        if not 0 <= lane < segment:
            return value(env)  # outside of the segment: a thread keeps its own
        wanted = thread.number - thread.lane % segment + lane
        if not mask(env) >> (wanted % thread.warp_size) & 1:
            raise ExecutionError(
                f"{name}: thread {thread.describe()} reads lane {lane}, which is not in its mask"
            )
        for other in env[CONTEXT_SLOT].active:
            found: Thread = other[THREAD_SLOT]
            if found.number == wanted and found.block == thread.block:
                return value(other)
        raise ExecutionError(
            f"{name}: thread {thread.describe()} reads lane {lane}, which is not active here"
        )

    return exchange


def active_mask(env: Environment) -> int:
    """Return a bit mask of the lanes of a thread's warp that run the current statement."""
    thread: Thread = env[THREAD_SLOT]
    mask = 0
    for other in env[CONTEXT_SLOT].active:
        found: Thread = other[THREAD_SLOT]
        if found.block == thread.block and found.warp == thread.warp:
            mask |= 1 << found.lane
    return mask
