"""Rules of matrix products of four warps: ``ptx_wgmma``.

A product is computed at once, where the hardware may still be at work until the program waits for
it: a program that forgets to wait is not found out, except where barriers in shared memory hand
tiles on, and races are looked for (see ``happens_before``). Shared memory is taken to begin at an
address that is a multiple of 1024.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import Call
from tilesmith.ir.span import Span
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.interpreter.call_rules import handles_for_group
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.matrix_units import MMA_DTYPES, register_places, tensor_product
from tilesmith.tir.interpreter.memory_calls import pointed_bytes
from tilesmith.tir.interpreter.strands import Left
from tilesmith.tir.interpreter.threads import Thread, by_warpgroup, line_of, meeting
from tilesmith.tir.interpreter.values import Environment, Evaluate, Pointer, RunGroup, element_type
from tilesmith.tir.interpreter.watch import touch_bytes
from tilesmith.tir.warpgroup_products import (
    WARPGROUP,
    byte_offsets,
    operand_layout,
    product_sizes,
    result_places,
    swizzled,
)

__all__ = ["WgmmaFacts", "places_of_registers"]

ROWS = 64


def require_warpgroups(envs: list[Environment], what: str, span: Span | None) -> Any:
    """Return the warpgroups that are active, each as a whole. Raises ExecutionError."""
    groups = by_warpgroup(envs)
    for members in groups.values():
        if len(members) != WARPGROUP:
            raise ExecutionError(
                f"only {len(members)} of the {WARPGROUP} threads of a warpgroup reach {what}",
                span=span,
                notes=(
                    "a block needs a multiple of 128 threads, and all four warps have to get "
                    "there: move it out of the branch or loop",
                ),
            )
    return groups.values()


def _come_together(
    compiler: ExpressionCompiler, run: RunGroup, what: str, span: Span | None
) -> RunGroup:
    """Return a step of whole warpgroups, whose threads may come one group after the other where
    they wait for each other."""
    if not compiler.scope.waits:
        return run

    def is_whole(envs: list[Environment]) -> bool:
        return all(len(members) == WARPGROUP for members in by_warpgroup(envs).values())

    def require(envs: list[Environment]) -> None:
        require_warpgroups(envs, what, span)

    def meet(envs: list[Environment]) -> Left:
        if is_whole(envs):
            return run(envs)
        return meeting(envs, meet, is_whole, require, what + line_of(span), in_branches=True)

    return meet


class WgmmaFacts:
    """What the constant arguments of ``ptx_wgmma`` say. Raises UnsupportedError."""

    def __init__(self, call: Call, span: Span | None) -> None:
        texts = [str(getattr(arg, "value", "")) for arg in call.args]
        try:
            self.columns, self.steps = product_sizes(texts[0])
            self.layouts = (operand_layout(texts[6]), operand_layout(texts[11]))
            self.a, self.b, self.c = [DataType(MMA_DTYPES[text]) for text in texts[1:4]]
        except (KeyError, ValueError) as error:
            raise UnsupportedError(f"ptx_wgmma: {error}", span=span) from None

    def operand(self, which: int) -> tuple[DataType, tuple[int, int]]:
        """Return dtype and sizes (rows or columns, steps) of A (0) or B (1)."""
        return (self.a, (ROWS, self.steps)) if which == 0 else (self.b, (self.columns, self.steps))

    def offsets(self, which: int, leading: int, stride: int) -> numpy.ndarray:
        """Return the offsets in bytes of the elements of A (0) or B (1), before permutation."""
        dtype, sizes = self.operand(which)
        return byte_offsets(self.layouts[which], sizes, leading, stride, dtype.nbytes)


def places_of_registers(facts: WgmmaFacts) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Return rows and columns of the elements of A that each thread holds in registers."""
    by_lane = register_places("A", 16, facts.steps, max(32 // facts.a.bits, 1))
    rows = numpy.array([one[0] for one in by_lane])
    columns = numpy.array([one[1] for one in by_lane])
    return (
        numpy.concatenate([rows + 16 * warp for warp in range(4)]),
        numpy.concatenate([columns] * 4),
    )


@handles_for_group("ptx_wgmma")
def _wgmma(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    facts = WgmmaFacts(call, span)
    left = _registers_of_a(compiler, call, facts) if (
        facts.layouts[0].major == "registers"
    ) else _from_shared(compiler, call, facts, 0, span)  # fmt: skip
    right = _from_shared(compiler, call, facts, 1, span)
    results = _registers(compiler, call, 14, facts.c, facts.columns // 2)
    adds = compiler.visit(call.args[16])
    places = result_places(facts.columns)

    def multiply(envs: list[Environment]) -> None:
        for members in require_warpgroups(envs, "ptx_wgmma", span):
            a, b = left(members), right(members).T
            total = numpy.zeros((ROWS, facts.columns), element_type(facts.c))
            if adds(members[0]):
                total[places] = [results(env) for env in members]
            total = tensor_product(a, b, total)
            for thread, env in enumerate(members):
                results(env)[...] = total[places[0][thread], places[1][thread]]

    return _come_together(compiler, multiply, "ptx_wgmma", span)


def _registers(
    compiler: ExpressionCompiler, call: Call, place: int, dtype: DataType, count: int
) -> Evaluate:
    pointer, number = compiler.visit(call.args[place]), compiler.visit(call.args[place + 1])
    size = pointed_bytes(call.args[place], dtype.nbytes)
    return lambda env: pointer(env).moved(number(env) * size).view(dtype, (count,), None, 0)


def _registers_of_a(compiler: ExpressionCompiler, call: Call, facts: WgmmaFacts) -> Any:
    count = ROWS * facts.steps // WARPGROUP
    registers = _registers(compiler, call, 4, facts.a, count)
    places = places_of_registers(facts)

    def gather(members: list[Environment]) -> numpy.ndarray:
        matrix = numpy.zeros((ROWS, facts.steps), element_type(facts.a))
        matrix[places] = [registers(env) for env in members]
        return matrix

    return gather


def _from_shared(
    compiler: ExpressionCompiler, call: Call, facts: WgmmaFacts, which: int, span: Span | None
) -> Any:
    """Return a function that reads an operand from shared memory: [row or column, k]."""
    place, layout = (4, 9)[which], facts.layouts[which]
    dtype, _ = facts.operand(which)
    leading, stride = [compiler.visit(call.args[place + n]) for n in (3, 4)]
    size = pointed_bytes(call.args[place], dtype.nbytes)
    pointer, offset = compiler.visit(call.args[place]), compiler.visit(call.args[place + 1])
    bytes_of = numpy.arange(dtype.nbytes)

    def read(members: list[Environment]) -> numpy.ndarray:
        start: Pointer = pointer(members[0]).moved(offset(members[0]) * size)
        distances = leading(members[0]), stride(members[0])
        address = start.offset + facts.offsets(which, *distances)
        if layout.is_permuted:
            address = swizzled(address, layout.width)
        if address.max() + dtype.nbytes > start.memory.nbytes:
            raise ExecutionError(
                f"ptx_wgmma reads byte {int(address.max())} of shared memory that has "
                f"{start.memory.nbytes}"
            )
        _touch(members, start, address, span)
        found = start.memory.view(numpy.uint8).reshape(-1)[address[..., None] + bytes_of]
        return numpy.ascontiguousarray(found).view(element_type(dtype))[..., 0]

    return read


def _touch(members: list[Environment], start: Pointer, address: Any, span: Span | None) -> None:
    """Report the reads to the watch as those of the first thread, as the hardware says not whose;
    where barriers in shared memory order threads, as those of the product, which each thread of the
    warpgroup has begun."""
    watch = members[0][CONTEXT_SLOT].watch
    if watch is None:
        return
    accesses = watch.product_accesses([env[THREAD_SLOT] for env in members])
    for number, one in enumerate((numpy.unique(address // 16) * 16).tolist()):
        env = members[number % len(members) if accesses else 0]
        thread: Thread = env[THREAD_SLOT]
        if accesses:
            thread.acts_as = accesses[number % len(members)]
        touch_bytes(env, start.moved(one - start.offset), 16, False, span=span)
        thread.acts_as = None


@handles_for_group(
    "ptx_wgmma_fence", "ptx_wgmma_commit_group", "ptx_wgmma_wait_group", "ptx_fence_proxy_async"
)
def _order(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    name = call.op.name.removeprefix("tir.")
    pending = compiler.visit(call.args[0]) if name == "ptx_wgmma_wait_group" else None
    if name == "ptx_fence_proxy_async":
        return lambda envs: None

    def check(envs: list[Environment]) -> None:
        watch = envs[0][CONTEXT_SLOT].watch
        for members in require_warpgroups(envs, name, span):
            threads = [env[THREAD_SLOT] for env in members]
            if watch is not None and name == "ptx_wgmma_commit_group":
                watch.products_committed(threads)
            elif watch is not None and pending is not None:
                watch.products_awaited(threads, pending(members[0]))

    return _come_together(compiler, check, name, span)
