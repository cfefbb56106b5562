"""Predicts how long blocks take, to decide whether threads are worth their while.

Only the order of magnitude matters: the time is that of the vector operations or that of the
memory traffic, whichever is longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilesmith.ir import Call, IntImm, PrimExpr
from tilesmith.ir.queries import nodes
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, Buffer
from tilesmith.tir.schedule import BlockRV, Schedule

__all__ = ["bytes_read", "cycles_of", "is_even", "is_worth_threads", "moving_cycles", "steps_of"]

_UNKNOWN = 1 << 10
"""Steps of a loop whose extent is not known, or elements along an axis."""
_OPERATIONS_OF_CALL = 16
"""Vector operations of a function such as exp."""
_STARTED_PER_CYCLE = 2
"""Vector operations that start in one cycle."""
_IDLE = 0.05
"""The share of their time that threads may wait for the one that has the most to do."""


def is_worth_threads(sch: Schedule, blocks: Sequence[BlockRV], machine: MachineModel) -> bool:
    """Return whether blocks take long enough for a parallel loop."""
    cycles = cycles_of(sch, blocks, machine, machine.lanes(32))
    return cycles >= machine.fewest_parallel_cycles


def is_even(tasks: int, threads: int) -> bool:
    """Return whether so many equal tasks can be dealt out such that hardly a thread is idle."""
    return tasks >= threads and -(-tasks // threads) * threads <= tasks * (1 + _IDLE)


def cycles_of(sch: Schedule, blocks: Sequence[BlockRV], machine: MachineModel, lanes: int) -> float:
    """Return about how many cycles one core takes for blocks in vectors of so many lanes."""
    operations = 0.0
    for block in blocks:
        node: Block = sch.get(block)
        operations += steps_of(sch, block) * _operations(node) / lanes
    return max(operations / _STARTED_PER_CYCLE, moving_cycles(sch, blocks, machine))


def moving_cycles(sch: Schedule, blocks: Sequence[BlockRV], machine: MachineModel) -> float:
    """Return about how many cycles one core takes to read and write what blocks do not hand to each
    other.
    """
    return _traffic(sch, blocks) / machine.l3_bandwidth


def steps_of(sch: Schedule, block: BlockRV) -> int:
    """Return how often a block runs, with a guess for loops of unknown extent."""
    return prod([_extent(sch.get(loop).extent) for loop in sch.get_loops(block)])


def _extent(extent: PrimExpr) -> int:
    return extent.value if isinstance(extent, IntImm) else _UNKNOWN


def _operations(node: Block) -> int:
    """Return about how many operations one step of a block takes."""
    count = 1
    for expr in nodes(node.body, PrimExpr):
        if isinstance(expr, Call):
            count += _OPERATIONS_OF_CALL
        elif not isinstance(expr, IntImm) and expr.dtype.is_float:
            count += 1
    return count


def _traffic(sch: Schedule, blocks: Sequence[BlockRV]) -> float:
    """Return the bytes of what blocks read and write beyond what they hand to each other."""
    sizes: dict[Buffer, int] = {}
    read: set[Buffer] = set()
    written: set[Buffer] = set()
    for block in blocks:
        node: Block = sch.get(block)
        steps = steps_of(sch, block)
        for regions, found in ((node.reads, read), (node.writes, written)):
            for buffer in [region.buffer for region in regions]:
                found.add(buffer)
                elements = min(steps, prod([_extent(size) for size in buffer.shape]))
                sizes[buffer] = max(sizes.get(buffer, 0), elements * buffer.dtype.nbytes)
    inner = read & written
    return sum([size for buffer, size in sizes.items() if buffer not in inner])


def bytes_read(block: Block) -> int:
    """Return the bytes of the buffers that a block reads, without those that it writes and those on
    the stack; a guess for symbolic sizes.
    """
    written = [region.buffer for region in block.writes]
    buffers: dict[Buffer, int] = {}
    for region in block.reads:
        buffer = region.buffer
        if buffer.scope() == "global" and not any(buffer is one for one in written):
            sizes = [one.value if isinstance(one, IntImm) else 1 for one in buffer.shape]
            buffers[buffer] = prod(sizes) * buffer.dtype.nbytes
    return sum(buffers.values())
