"""Where the intermediate tensors of a graph function lie in its workspace.

A storage is alive from the first to the last step that touches it. `support.memory_planner` gives
offsets to the storages of known size; those of symbolic size follow behind, without sharing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tilesmith.arith import Analyzer
from tilesmith.ir import Call, IntImm, PrimExpr, Var, const
from tilesmith.ir.operators import floordiv
from tilesmith.relax.analysis.memory_plan import ALIGNMENT
from tilesmith.support.memory_planner import Allocation, LiveRanges, plan_offsets
from tilesmith.tir.transform.options import memory_algorithm

__all__ = ["Storage", "plan_workspace"]


class Storage:
    """The memory of a tensor: in the workspace, or outside of it (an input, output or constant)."""

    __slots__ = ("address", "is_workspace", "pointer_of", "size")

    def __init__(self, size: PrimExpr | None, pointer_of: Callable[[], PrimExpr] | None) -> None:
        self.size = size
        self.pointer_of = pointer_of
        self.is_workspace = pointer_of is None
        self.address: PrimExpr | None = None

    @staticmethod
    def workspace(size: PrimExpr) -> Storage:
        """Memory of so many bytes, to be placed in the workspace."""
        return Storage(size, None)

    @staticmethod
    def outside(pointer_of: Callable[[], PrimExpr]) -> Storage:
        """Memory that somebody else provides."""
        return Storage(None, pointer_of)

    def become(self, pointer_of: Callable[[], PrimExpr]) -> None:
        """Lie outside of the workspace after all: in an output."""
        self.pointer_of = pointer_of
        self.is_workspace = False

    def place(self, base: Var, offset: PrimExpr) -> None:
        """Lie in the workspace, so many bytes behind its beginning."""
        self.address = Call("handle", "tir.handle_add_byte_offset", (base, offset))

    def pointer(self) -> PrimExpr:
        """The address, once the workspace is planned."""
        if self.pointer_of is not None:
            return self.pointer_of()
        assert self.address is not None
        return self.address


def plan_workspace(steps: Sequence[Iterable[Storage]], base: Var, analyzer: Analyzer) -> PrimExpr:
    """Place the storages that the steps touch behind ``base``; the number of bytes needed."""
    ranges: LiveRanges[Storage] = LiveRanges()
    storages: dict[Storage, PrimExpr] = {}  # and their sizes
    for number, touched in enumerate(steps):
        for storage in touched:
            if storage.is_workspace and storage.size is not None:
                ranges.use(storage, number)
                storages[storage] = storage.size
    fixed = {one: size.value for one, size in storages.items() if isinstance(size, IntImm)}
    allocations = [Allocation(size, ranges.of(storage)) for storage, size in fixed.items()]
    plan = plan_offsets(allocations, ALIGNMENT, memory_algorithm())
    for storage, offset in zip(fixed, plan.offsets):
        storage.place(base, const(offset, "int64"))
    end: PrimExpr = const(plan.total, "int64")
    for storage, size in storages.items():
        if storage not in fixed:
            storage.place(base, end)
            end = analyzer.simplify(end + floordiv(size + (ALIGNMENT - 1), ALIGNMENT) * ALIGNMENT)
    return end
