"""Schedules contractions whose results have two sums each, side by side in the lanes of a vector.

    for n, y, x, q, ry, rx, c: S[n, y, x, q] += A[…, 2 * c + q % 2] * W[q // T, ry, rx, c, q % T]
    for n, y, x, o: Z[n, y, x, o] = relu(S[n, y, x, 2 * o] + S[n, y, x, 2 * o + 1] + bias[o])
  becomes
    parallel for n, y:
        for o_0, x_0:
            S[P, T] = 0                                      (registers)
            for ry, rx, c: S[p, t] += A[…] * W[…]             (pairs of A fill a vector in turns)
            Z[…] = relu(S[p, 2 * o] + S[p, 2 * o + 1] + bias[…])

Columns that fill half of their last vector, such as 24 of 16 lanes, fill whole vectors so.
"""

from __future__ import annotations

from tilesmith.ir import Add, FloorMod, IntImm, Mul, PrimExpr, Var
from tilesmith.schedule_rules.contractions.contraction import multiplies_and_adds
from tilesmith.schedule_rules.contractions.loop_nest import Operand, loop_nest
from tilesmith.schedule_rules.contractions.tiles import even_rows
from tilesmith.schedule_rules.loops import PARTITIONED, loop_extent
from tilesmith.schedule_rules.tile_parts import (
    has_own_loops,
    parallelise,
    sums_outside,
    unroll,
    unroll_initialisation,
)
from tilesmith.schedule_rules.work import is_worth_threads
from tilesmith.support.errors import ScheduleError
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block
from tilesmith.tir.schedule import BlockRV, Schedule

__all__ = ["find_two_sums", "schedule_two_sums"]


def find_two_sums(block: Block) -> int | None:
    """Return the width of the panels of weights, if a block computes two sums for each result of
    its consumer; None for any other block.
    """
    nest = loop_nest(block) if multiplies_and_adds(block) else None
    if nest is None or len(nest.operands) != 2 or len(nest.spatial) < 2:
        return None
    last = nest.store.indices[-1]
    if last is not nest.spatial[-1].variable:
        return None
    widths = [one.packed_width(last) for one in nest.operands]
    alternating = [_alternates(one, last) for one in nest.operands]
    if sorted(alternating) != [False, True]:
        return None
    return widths[alternating.index(False)]


def _alternates(operand: Operand, last: Var) -> bool:
    """Return whether an operand is read at ``2 * c + last % 2`` on its last axis, and does not
    move along ``last`` otherwise.
    """
    *others, index = operand.load.indices
    addends = [index.a, index.b] if isinstance(index, Add) else []
    parities = [one for one in addends if _is_modulo_two(one, last)]
    pairs = [one for one in addends if isinstance(one, Mul) and _is_two(one.a, one.b)]
    return len(parities) == len(pairs) == 1 and not any(one is last for one in others)


def _is_modulo_two(index: PrimExpr, last: Var) -> bool:
    return isinstance(index, FloorMod) and index.a is last and _is_two(index.b)


def _is_two(*factors: PrimExpr) -> bool:
    return any(isinstance(one, IntImm) and one.value == 2 for one in factors)


def schedule_two_sums(
    sch: Schedule, block: BlockRV, width: int, machine: MachineModel, threads: int
) -> None:
    """Tile, vectorise and parallelise a contraction with two sums together with its consumer."""
    consumers = sch.get_consumers(block)
    if len(consumers) != 1 or not has_own_loops(sch, consumers[0]):
        raise ScheduleError("the two sums have no consumer of their own")
    follower = consumers[0]
    lanes = machine.lanes(32)
    is_parallel = is_worth_threads(sch, [block], machine)
    *outer, row, column = sch.get_loops(follower)
    rows = even_rows(loop_extent(sch, row) or 1, width // lanes, machine)
    panels, inner = sch.split(column, [None, width // 2])
    tiles, line = sch.split(row, [None, rows])
    sch.reorder(*outer, panels, tiles, line, inner)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, tiles)
    made = sums_outside(sch, block, tiles, lanes, machine.reduction_steps)
    if made is None:
        raise ScheduleError("the two sums have no reduction")
    loops, init = made
    unroll(sch, *loops[:-1])
    unroll_initialisation(sch, init, len(loops) - 1)
    first, lane = sch.split(inner, [None, lanes])
    sch.vectorize(lane)
    unroll(sch, line, first)
    for loop in (first, lane):  # the last half of a vector is one of half as many lanes
        sch.annotate(loop, *PARTITIONED)
    if is_parallel:
        parallelise(sch, outer, threads)
