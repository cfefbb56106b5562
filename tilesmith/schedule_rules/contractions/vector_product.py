"""Schedules the product of a vector and a matrix that lies in memory row after row.

    for j, k: y[j] += a[k] * B[k, j]
  becomes
    parallel for j0:                                  (some thousand columns each)
        Y[…] = 0                                      (a strip of the result, in L1)
        for k0:
            for j1: Y[vectors] += a[4 * k0 + …] * B[4 * k0 + …, vectors]       (4 rows at once)
        y[…] = Y[…]

The matrix is read once, so its stream from memory is what takes time: a few long runs side by side,
which the hardware fetches ahead. Register tiles would read a short piece of each row.

A matrix in panels is multiplied in register tiles of one row; `panels_at_once` says how many panels
a tile spans.
"""

from __future__ import annotations

from tilesmith.schedule_rules.contractions.contraction import Contraction
from tilesmith.schedule_rules.contractions.loop_nest import TYPICAL
from tilesmith.schedule_rules.contractions.time_model import Product
from tilesmith.schedule_rules.loops import PARTITIONED
from tilesmith.schedule_rules.tile_parts import unroll
from tilesmith.target.machine import MachineModel
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = [
    "is_vector_product", "panels_at_once", "schedule_vector_product", "vectors_side_by_side",
]  # fmt: skip

_ROWS_AT_ONCE = 4
_FEWEST_COLUMNS = 256
_SHARE_OF_L1 = 3  # a strip takes so much of it


def is_vector_product(plan: Contraction, product: Product, machine: MachineModel) -> bool:
    """Return whether a contraction multiplies one row with a matrix that is not in panels, on a
    machine with memory for a strip of the result.
    """
    return (
        machine.l2_bytes > 0
        and product.rows * product.shared == 1
        and product.rows_are_known
        and plan.packed_width is None
        and len(plan.nest.reduced) == 1
        and bool(plan.broadcast)
        and product.columns >= _FEWEST_COLUMNS
        and product.depth >= 2 * _ROWS_AT_ONCE
        and product.depth_stride >= product.columns * product.element_bytes
    )


def vectors_side_by_side(vectors: int, columns: int, size: int, machine: MachineModel) -> int:
    """Return how many vectors wide the panels of a matrix of so many bytes are for products with
    one row: fewer than ``vectors`` where several panels fill the pipelines together.
    """
    narrow = max(1, machine.least_accumulators // machine.panels_at_once)
    is_even = columns % (narrow * machine.panels_at_once * machine.lanes(32)) == 0
    return min(vectors, narrow) if is_even and size > machine.l2_bytes else vectors


def panels_at_once(plan: Contraction, product: Product, machine: MachineModel, threads: int) -> int:
    """Return how many panels of a packed matrix one row is multiplied with side by side.

    A panel that comes from far memory is one run through it, whose next page the hardware does not
    fetch ahead; several runs hide that from each other. Each has its own accumulators.
    """
    width = plan.packed_width
    is_one_row = product.rows * product.shared == 1 and product.rows_are_known
    if width is None or not is_one_row or product.right_bytes <= machine.l2_bytes:
        return 1
    if not product.columns_are_known or product.columns % width:
        return 1
    panels = product.columns // width
    vectors = max(1, width // machine.lanes(8 * max(4, product.result_bytes)))
    most = min(machine.panels_at_once, (machine.vector_registers - 4) // vectors, panels // threads)
    return max(count for count in range(1, max(1, most) + 1) if panels % count == 0)


def _strip(product: Product, machine: MachineModel, lanes: int, threads: int) -> int:
    """Return the columns of a strip: whole vectors, long runs, several strips for each thread."""
    columns = product.columns if product.columns_are_known else TYPICAL
    longest = machine.l1_bytes // (_SHARE_OF_L1 * max(4, product.result_bytes))
    parts = max(-(-columns // longest), 1)
    if threads > 1:
        wanted = -(-2 * threads // product.batch)
        parts = max(parts, min(wanted, columns // _FEWEST_COLUMNS))
    vectors = -(-columns // lanes)
    return -(-vectors // parts) * lanes


def schedule_vector_product(
    sch: Schedule,
    block: BlockRV,
    follower: BlockRV,
    product: Product,
    machine: MachineModel,
    threads: int,
) -> None:
    """Compute strips of the result from a few rows of the matrix at once.

    ``threads`` is 1 if there is too little work for several.
    """
    lanes = machine.lanes(8 * max(4, product.result_bytes))
    strip = _strip(product, machine, lanes, threads)
    is_even = product.columns_are_known and product.columns % strip == 0 and strip % lanes == 0
    sch.set_scope(block, 0, "local")
    *outer, column = sch.get_loops(follower)
    strips, within = sch.split(column, [None, strip])
    sch.compute_at(block, strips)
    _in_vectors(sch, within, lanes, is_even)
    *_, own, depth = sch.get_loops(block)
    vectors, lane = _in_vectors(sch, own, lanes, is_even)
    groups, row = sch.split(depth, [None, _ROWS_AT_ONCE])
    if product.depth % _ROWS_AT_ONCE or not product.depth_is_known:
        sch.annotate(groups, *PARTITIONED)
    sch.reorder(groups, vectors, row, lane)
    unroll(sch, row)
    sch.decompose_reduction(block, groups)
    if threads > 1:
        sch.parallel(sch.fuse(*outer, strips))


def _in_vectors(sch: Schedule, loop: LoopRV, lanes: int, is_even: bool) -> tuple[LoopRV, LoopRV]:
    """Split a loop into vectors."""
    vectors, lane = sch.split(loop, [None, lanes])
    sch.vectorize(lane)
    if not is_even:
        sch.annotate(vectors, *PARTITIONED)
    return vectors, lane
