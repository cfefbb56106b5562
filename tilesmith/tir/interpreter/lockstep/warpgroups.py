"""Rules of products of four warps in lockstep: ``ptx_wgmma``, for all warpgroups at once.

What the tensor cores read from shared memory is counted as if each thread of a warpgroup read an
equal part: 16 bytes of eight rows at a time, as the matrices of ``ldmatrix``. Which thread reads
what is not documented.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import Call
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep.accesses import Place, checked_read, pointed
from tilesmith.tir.interpreter.lockstep.matrices import (
    Registers,
    count_operations,
    name_of_memory,
)
from tilesmith.tir.interpreter.lockstep.rules import handles_statement, meeting
from tilesmith.tir.interpreter.lockstep.state import Group, State
from tilesmith.tir.interpreter.matrix_units import tensor_product
from tilesmith.tir.interpreter.strands import Left, Step
from tilesmith.tir.interpreter.values import Environment, element_type
from tilesmith.tir.interpreter.warpgroup_units import ROWS, WgmmaFacts, places_of_registers
from tilesmith.tir.warpgroup_products import WARPGROUP, result_places, swizzled

Run = Step
PIECE = 16  # bytes


def whole_warpgroups(env: Environment, site: Any) -> int:
    """Return the number of active warpgroups; 0 where one is not whole, which is a finding."""
    counts = _counts(env)
    if (counts != WARPGROUP).any():
        state: State = env[CONTEXT_SLOT]
        state.find(
            "divergent barrier",
            f"only {int(counts.min())} threads of a warpgroup reach {site.name}, which four warps "
            "do together",
            site,
        )
        return 0
    return len(counts)


def _counts(env: Environment) -> Any:
    """Return how many threads of each warpgroup are active, of those that are."""
    counts = numpy.bincount(env[THREAD_SLOT].ids // WARPGROUP)
    return counts[counts > 0]


def _come_together(compiler: Any, run: Run, site: Any) -> Run:
    """Return a step of whole warpgroups, whose threads may come one group after the other where
    they wait for each other."""
    if not compiler.waits:
        return run

    def meet(env: Environment) -> Left:
        return run(env) if is_whole(env) else come(env)

    def is_whole(env: Environment) -> bool:
        return bool((_counts(env) == WARPGROUP).all())

    def complain(env: Environment) -> None:
        whole_warpgroups(env, site)

    come = meeting(compiler, meet, site, is_whole, complain, in_branches=True)
    return meet


class _Shared:
    """An operand in shared memory."""

    def __init__(self, compiler: Any, call: Call, facts: WgmmaFacts, which: int, span: Any) -> None:
        place = (4, 9)[which]
        self.facts, self.which = facts, which
        self.dtype, _ = facts.operand(which)
        self.pointer = compiler.accesses.pointer(call.args[place])
        self.offset = compiler.visit(call.args[place + 1])
        self.size = pointed(call, place, self.dtype)
        self.distances = [compiler.number(call.args[place + n]) for n in (3, 4)]
        self.site = compiler.site("read", name_of_memory(call.args[place]), "shared", span)

    def matrices(self, env: Environment, warpgroups: int) -> Any:
        """Return the matrix [row or column, k] of each warpgroup."""
        group: Group = env[THREAD_SLOT]
        place: Place = self.pointer(env)
        start = numpy.asarray(place.offset + self.offset(env) * self.size, numpy.int64)
        start = numpy.broadcast_to(start, (group.count,))[::WARPGROUP]
        distances = [distance(env) for distance in self.distances]
        address = start[:, None, None] + self.facts.offsets(self.which, *distances)
        layout = self.facts.layouts[self.which]
        if layout.is_permuted:
            address = swizzled(address, layout.width)
        kind = element_type(self.dtype)
        self.count(env, place, address // kind.itemsize, kind)
        return place.memory.elements(kind)[address // kind.itemsize]

    def count(self, env: Environment, place: Place, position: Any, kind: numpy.dtype) -> None:
        """Check and count the reads, a piece of each thread at a time."""
        group: Group = env[THREAD_SLOT]
        order = env[CONTEXT_SLOT].clock.order
        elements = PIECE // kind.itemsize
        rows = position if self.facts.layouts[self.which].major == "k" else position.swapaxes(1, 2)
        pieces = rows.reshape(*rows.shape[:2], -1, elements).swapaxes(1, 2)
        pieces = pieces.reshape(len(position), -1, elements)
        for first in range(0, pieces.shape[1], WARPGROUP):
            part = pieces[:, first : first + WARPGROUP]
            chosen = [
                number * WARPGROUP + lane
                for number in range(len(position))
                for lane in range(part.shape[1])
            ]
            members = group.part(numpy.array(chosen))
            flat = part.reshape(-1, part.shape[2])
            actors = None if order is None else order.products_of(members.ids // WARPGROUP)
            checked_read(
                env, self.site, place.memory, members, flat, kind.itemsize, actors=actors
            )  # fmt: skip


@handles_statement("ptx_wgmma")
def _wgmma(compiler: Any, call: Call, span: Any) -> Run:
    facts = WgmmaFacts(call, span)
    site = compiler.site("fragment", "ptx_wgmma", "warp", span)
    right = _Shared(compiler, call, facts, 1, span)
    left = None
    if facts.layouts[0].major == "registers":
        held = Registers(compiler, call, 4, 5, facts.a, ROWS * facts.steps // WARPGROUP)
        held_places = places_of_registers(facts)
    else:
        left = _Shared(compiler, call, facts, 0, span)
    results = Registers(compiler, call, 14, 15, facts.c, facts.columns // 2)
    adds = compiler.number(call.args[16])
    places = result_places(facts.columns)

    def multiply(env: Environment) -> None:
        count = whole_warpgroups(env, site)
        if not count:
            return
        if left is not None:
            a = left.matrices(env, count)
        else:
            a = numpy.zeros((count, ROWS, facts.steps), element_type(facts.a))
            a[:, held_places[0], held_places[1]] = held.get(env, site).reshape(count, WARPGROUP, -1)
        b = right.matrices(env, count).transpose(0, 2, 1)
        total = numpy.zeros((count, ROWS, facts.columns), element_type(facts.c))
        if adds(env):
            values = results.get(env, site).reshape(count, WARPGROUP, -1)
            total[:, places[0], places[1]] = values
        total = tensor_product(a, b, total)
        results.put(env, total[:, places[0], places[1]].reshape(count * WARPGROUP, -1))
        count_operations(env, 2.0 * ROWS * facts.columns * facts.steps * count)

    return _come_together(compiler, multiply, site)


@handles_statement(
    "ptx_wgmma_fence", "ptx_wgmma_commit_group", "ptx_wgmma_wait_group", "ptx_fence_proxy_async"
)
def _order(compiler: Any, call: Call, span: Any) -> Run:
    name = call.op.name.removeprefix("tir.")
    site = compiler.site("barrier", name, "warp", span)

    pending = compiler.number(call.args[0]) if name == "ptx_wgmma_wait_group" else None
    if name == "ptx_fence_proxy_async":
        return lambda env: None

    def check(env: Environment) -> None:
        order = env[CONTEXT_SLOT].clock.order
        if not whole_warpgroups(env, site) or order is None:
            return
        ids = env[THREAD_SLOT].ids
        for warpgroup in numpy.unique(ids // WARPGROUP).tolist():
            if name == "ptx_wgmma_commit_group":
                order.commit_products(warpgroup)
            elif pending is not None:
                threads = ids[ids // WARPGROUP == warpgroup]
                order.wait_for_products(threads, warpgroup, int(pending(env)))

    return _come_together(compiler, check, site)
