"""Starts kernels in lockstep: which axes they have, which blocks are run, which loops are cut."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir.queries import is_call, walk
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.interpreter.cooperation import launched_thread
from tilesmith.tir.interpreter.lockstep.state import LockstepOptions
from tilesmith.tir.stmt import BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt, While
from tilesmith.tir.stmt import Evaluate as EvaluateStmt

__all__ = ["CUT_ITERATIONS", "chosen_blocks", "iterations", "launch_axes", "loops_to_cut"]

AXES = ("x", "y", "z")
CUT_ITERATIONS = 6
"""How many iterations of a loop that is cut are run: the first four and the last two."""
_UNKNOWN_EXTENT = 8


def launch_axes(stmt: Stmt) -> dict[str, PrimExpr]:
    """Return the axes of threads that a kernel launches, with their extents."""
    found: dict[str, PrimExpr] = {}
    for node in walk(stmt):
        thread = launched_thread(node) if isinstance(node, Stmt) else None
        if thread is None:
            continue
        tag = thread.thread_tag
        if not tag.startswith(("threadIdx.", "blockIdx.")):
            raise UnsupportedError(
                f"threads in lockstep have no axis '{tag}'", span=getattr(node, "span", None)
            )
        launch: Any = node
        found.setdefault(tag, launch.extent if isinstance(node, For) else launch.value)
    return found


def chosen_blocks(grid: tuple[int, int, int], most: int) -> list[tuple[int, int, int]]:
    """Return the blocks that are run: all of a small grid; else the first, its neighbours, the
    middle, the one before the last, the last."""
    total = grid[0] * grid[1] * grid[2]
    everything = range(total)
    if total > most:
        wanted = [0, 1, grid[0], grid[0] * grid[1], total // 2 + grid[0] // 2, total - 2, total - 1]
        picked = [number for number in dict.fromkeys(wanted) if 0 <= number < total]
        # The first and the last are the most different: they stay where only few are run.
        order = [0, len(picked) - 1, *range(1, len(picked) - 1)]
        everything = sorted([picked[i] for i in order[:most]])  # type: ignore[assignment]
    return [
        (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))
        for number in everything
    ]


def iterations(extent: int, is_cut: bool) -> Iterable[tuple[int, float]]:
    """Return the iterations of a loop that are run, each with how many it stands for. Two in the
    middle stand for all that are left out, an even and an odd one: buffers often take turns."""
    if not is_cut or extent <= CUT_ITERATIONS:
        return [(index, 1.0) for index in range(extent)]
    weight = (extent - 4) / 2
    return [(0, 1.0), (1, 1.0), (2, weight), (3, weight), (extent - 2, 1.0), (extent - 1, 1.0)]


class _Work:
    """Estimates how many statements each thread of a kernel executes."""

    def __init__(self) -> None:
        self.cut: set[int] = set()

    def of(self, stmt: Any) -> float:
        if isinstance(stmt, SeqStmt):
            return sum([self.of(one) for one in stmt.seq])
        if isinstance(stmt, For):
            inner = self.of(stmt.body)
            if launched_thread(stmt) is not None:
                return inner
            extent = stmt.extent.value if isinstance(stmt.extent, IntImm) else _UNKNOWN_EXTENT
            return inner * (min(extent, CUT_ITERATIONS) if id(stmt) in self.cut else extent)
        if isinstance(stmt, (BufferStore, EvaluateStmt)):
            return 1.0
        if isinstance(stmt, IfThenElse):
            other = 0.0 if stmt.else_case is None else self.of(stmt.else_case)
            return self.of(stmt.then_case) + other
        if isinstance(stmt, While):
            return self.of(stmt.body) * _UNKNOWN_EXTENT
        total = 0.0
        body = getattr(stmt, "body", None) or getattr(getattr(stmt, "block", None), "body", None)
        if body is not None:
            total = self.of(body)
        return total


def _has_barrier(stmt: Stmt) -> bool:
    return any(is_call(node, "tir.tvm_storage_sync") for node in walk(stmt))


def _arrives(stmt: Stmt) -> bool:
    """Return whether threads arrive at barriers in shared memory, which count them."""
    names = "tir.ptx_arrive_barrier", "tir.ptx_arrive_barrier_expect_tx"
    return any(is_call(node, *names) for node in walk(stmt))


def loops_to_cut(
    stmt: Stmt, options: LockstepOptions, waiting: set[int]
) -> tuple[set[int], bool]:  # fmt: skip
    """Return the loops (by id) that are cut so that a block stays within the budget, and whether
    one of them is no loop over whole tiles, so that what it would have written is missing.

    Loops with barriers come first: each iteration writes the tiles that it reads. Loops in which
    threads wait for each other (``waiting``) or arrive at barriers in shared memory are not cut:
    both sides count their turns.
    """
    work = _Work()
    if work.of(stmt) <= options.statements:
        return set(), False
    loops = [
        node
        for node in walk(stmt)
        if isinstance(node, For) and node.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        and isinstance(node.extent, IntImm) and node.extent.value > CUT_ITERATIONS
        and id(node) not in waiting and not _arrives(node.body)
    ]  # fmt: skip
    with_barrier = [loop for loop in loops if _has_barrier(loop.body)]
    others = [loop for loop in loops if not _has_barrier(loop.body)]
    others.sort(key=lambda loop: -loop.extent.value)  # type: ignore[attr-defined]
    loses = False
    for loop in [*with_barrier, *others]:
        work.cut.add(id(loop))
        loses |= loop in others
        if work.of(stmt) <= options.statements:
            break
    return work.cut, loses
