"""The order in which thread blocks start: block swizzle by splits and a fuse."""

from math import gcd
from typing import Any

import tilesmith as ts


def launch_order(sch: ts.tir.Schedule, by: Any, bx: Any, group: int) -> None:
    """Bind the loops over blocks: row by row, or ``group`` rows together, column by column.

    Blocks that run at the same time then form a rectangle of C, so that they share more of what
    they read; with powers of two, the two numbers of a block are bits of its place in the order.
    """
    group = gcd(group, int(sch.get(by).extent))
    if group == 1:
        sch.bind(by, "blockIdx.y")
        sch.bind(bx, "blockIdx.x")
        return
    groups, row = sch.split(by, [None, group])
    sch.reorder(groups, bx, row)
    sch.bind(sch.fuse(groups, bx, row), "blockIdx.x")
