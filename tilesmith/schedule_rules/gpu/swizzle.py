"""Binds loops over tiles to blocks in an order that shares what neighbours read."""

from __future__ import annotations

from tilesmith.support.errors import ScheduleError
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.transform.threads.order_blocks import LAUNCH_ORDER, check_order

__all__ = ["order_grid", "swizzle_blocks"]


def swizzle_blocks(
    sch: Schedule, rows: LoopRV, columns: LoopRV, order: str = "rows", bits: int = 3
) -> None:
    """Bind the loops over rows and columns of tiles to blocks.

    ``order``: "rows" or "columns" for groups of ``2 ** bits`` rows or columns, "morton" for
    Z-curves in squares of that size; see the pass ``tir.OrderBlocks``. The sizes of the grid need
    be no multiples of anything. With 0 bits the blocks start row by row.
    """
    check_order(order, bits)
    sch.bind(rows, "blockIdx.y")
    sch.bind(columns, "blockIdx.x")
    if bits:
        sch.annotate(rows, LAUNCH_ORDER, [order, bits])


def order_grid(sch: Schedule, block: BlockRV, order: str = "rows", bits: int = 3) -> None:
    """Give the grid around a block an order of ``swizzle_blocks``: its loops are bound already.

    Raises ScheduleError without a loop that is bound to blockIdx.y.
    """
    check_order(order, bits)
    for loop in sch.get_loops(block):
        thread = sch.get(loop).thread_binding
        if thread is not None and thread.thread_tag == "blockIdx.y":
            if bits:
                sch.annotate(loop, LAUNCH_ORDER, [order, bits])
            return
    raise ScheduleError(
        "no loop around the block is bound to blockIdx.y",
        notes=(
            "bind rows of tiles to blockIdx.y and columns to blockIdx.x, or use swizzle_blocks",
        ),
    )
