"""What the rules ask about functions: iterators, contiguous accesses, sizes of vectors."""

from __future__ import annotations

from math import gcd
from typing import Any

from tilesmith.arith import detect_linear_equation
from tilesmith.ir import IntImm, PrimExpr, Var
from tilesmith.target import Target
from tilesmith.target.gpu_machine import KIB, gpu_limits, max_threads_per_block
from tilesmith.tir import Block, BufferLoad, For, ForKind, IterVar
from tilesmith.tir.queries import loads, uses_variable
from tilesmith.tir.schedule import LoopRV, Schedule

__all__ = [
    "VECTOR_BYTES", "constant_extent", "contiguous_iterators", "has_parallel_rows", "inputs",
    "is_one", "is_reduction", "is_spatial", "mentions_variable", "multiprocessors", "reduced",
    "shared_limit", "spatial", "thread_limit", "vector_length", "warp_size",
]  # fmt: skip

VECTOR_BYTES = 16
"""Bytes of the widest access of a thread."""


def spatial(block: Block) -> list[IterVar]:
    """Return the iterators over results."""
    return [one for one in block.iter_vars if one.iter_type == IterVar.DataPar]


def reduced(block: Block) -> list[IterVar]:
    """Return the iterators of sums."""
    return [one for one in block.iter_vars if one.iter_type == IterVar.CommReduce]


def has_parallel_rows(block: Block) -> bool:
    """Return whether a block is a procedure whose outermost loop is parallel: BindParallelLoops
    spreads it over threads.
    """
    loop = block.body
    return not block.iter_vars and isinstance(loop, For) and loop.kind is ForKind.PARALLEL


def is_spatial(block: Block) -> bool:
    """Return whether all iterators are over results; procedures with parallel rows are no such."""
    return len(spatial(block)) == len(block.iter_vars) and not has_parallel_rows(block)


def is_reduction(block: Block) -> bool:
    """Return whether a block reduces: results first, then sums, with a start value."""
    kinds = [one.iter_type for one in block.iter_vars]
    count = len(reduced(block))
    ordered = kinds[len(kinds) - count :].count(IterVar.CommReduce) == count
    return block.init is not None and count > 0 and ordered and (
        count + len(spatial(block)) == len(kinds)
    )  # fmt: skip


def inputs(block: Block) -> list[BufferLoad]:
    """Return the loads of a block from other buffers than its results'."""
    written = {region.buffer for region in block.writes}
    return [load for load in loads(block.body) if load.buffer not in written]


def contiguous_iterators(block: Block) -> list[tuple[BufferLoad, Var | None]]:
    """Return each input with the iterator along which it is contiguous in memory, or None."""
    variables = [one.var for one in block.iter_vars]
    found: list[tuple[BufferLoad, Var | None]] = []
    for load in inputs(block):
        along = None
        if load.indices:
            form = detect_linear_equation(load.indices[-1], variables)
            steps = [isinstance(c, IntImm) and c.value == 1 for c in form[:-1]] if form else []
            along = next((v for v, is_one in zip(variables, steps) if is_one), None)
        found.append((load, along))
    return found


def constant_extent(sch: Schedule, loop: LoopRV) -> int | None:
    """Return the extent of a loop, None if it is not a constant."""
    extent: PrimExpr = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else None


def vector_length(extent: int | None, *dtypes: Any) -> int:
    """Return how many elements a thread should access at once: 128 bits, if rows of ``extent``
    elements are multiples of that; 1 for extents that are not constants.
    """
    if extent is None:
        return 1
    widest = max([dtype.nbytes for dtype in dtypes], default=4)
    return gcd(extent, max(1, VECTOR_BYTES // widest))


def thread_limit(target: Target) -> int:
    """Return the most threads of a block that the rules use: what the target allows, and not more
    than they were made for.
    """
    return min(1024, max_threads_per_block(target))


def warp_size(target: Target) -> int:
    """Return how many threads run together; 32 where the target does not say."""
    given = int(target.attrs.get("thread_warp_size") or 32)
    return given if given > 1 else 32


def shared_limit(target: Target) -> int:
    """Return the bytes of shared memory that a block of threads may have."""
    return gpu_limits(target).get("max_shared_memory_per_block", 48 * KIB)


def multiprocessors(target: Target) -> int:
    """Return how many blocks should run at once at least; the rules only need its magnitude."""
    return int(target.attrs.get("num_multiprocessors") or 132)


def mentions_variable(expr: PrimExpr, variable: Var) -> bool:
    """Return whether an expression depends on a variable."""
    return uses_variable(expr, {variable})


def is_one(expr: PrimExpr) -> bool:
    """Return whether an expression is the constant one."""
    return isinstance(expr, IntImm) and expr.value == 1
