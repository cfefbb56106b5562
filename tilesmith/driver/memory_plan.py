"""Plans where the intermediate tensors of a graph function lie in its workspace.

The live range of a storage is from the first to the last step that touches it.
`support.memory_planner` gives offsets to the storages of known size; storages of symbolic size
follow and share no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilesmith.arith import Analyzer
from tilesmith.ir import Call, IntImm, PointerType, PrimExpr, Var, const
from tilesmith.ir.operators import floordiv
from tilesmith.ir.types import prim_type
from tilesmith.relax.analysis.memory_plan import ALIGNMENT
from tilesmith.runtime.dtype import DataType
from tilesmith.support.memory_planner import Allocation, LiveRanges, plan_offsets
from tilesmith.tir.transform.options import memory_algorithm

__all__ = ["Reservation", "Storage", "plan_workspace"]


@dataclass(eq=False)
class Reservation:
    """Memory that is reserved when its size is known: inside of the call.

    ``output`` is the number of the result that lies in it, with its dtype and shape. Memory that
    ``is_kept`` is released by its new owner.
    """

    size: PrimExpr
    pointer: Var
    output: tuple[int, DataType, tuple[PrimExpr, ...]] | None = None
    is_kept: bool = False


class Storage:
    """The memory of a tensor: in the workspace, or outside of it (an input, output, constant, or
    memory that is reserved while the function runs).
    """

    __slots__ = ("address", "is_constant", "is_workspace", "pointer_of", "reservation", "size")

    def __init__(
        self,
        size: PrimExpr | None,
        pointer_of: Callable[[], PrimExpr] | None,
        reservation: Reservation | None = None,
    ) -> None:
        self.size = size
        self.pointer_of = pointer_of
        self.is_workspace = pointer_of is None
        self.is_constant = False
        self.reservation = reservation
        self.address: PrimExpr | None = None

    @staticmethod
    def workspace(size: PrimExpr) -> Storage:
        """Return a storage of ``size`` bytes, to be placed in the workspace."""
        return Storage(size, None)

    @staticmethod
    def outside(pointer_of: Callable[[], PrimExpr]) -> Storage:
        """Return a storage that is not in the workspace: an input, output or constant."""
        return Storage(None, pointer_of)

    @staticmethod
    def constant(pointer_of: Callable[[], PrimExpr]) -> Storage:
        """Return the storage of a constant, which is only read."""
        made = Storage.outside(pointer_of)
        made.is_constant = True
        return made

    @staticmethod
    def reserved(size: PrimExpr) -> Storage:
        """Return a storage of a size that is known only when the function runs."""
        pointer = Var("memory", PointerType(prim_type(DataType("uint8")), "global"))
        return Storage(size, lambda: pointer, Reservation(size, pointer))

    def become(self, pointer_of: Callable[[], PrimExpr]) -> None:
        """Move the storage out of the workspace into an output."""
        self.pointer_of = pointer_of
        self.is_workspace = False

    def place(self, base: Var, offset: PrimExpr) -> None:
        """Place the storage in the workspace, at an offset from its beginning."""
        self.address = Call("handle", "tir.handle_add_byte_offset", (base, offset))

    def pointer(self) -> PrimExpr:
        """Return the address; the workspace has to be planned."""
        if self.pointer_of is not None:
            return self.pointer_of()
        assert self.address is not None
        return self.address


def plan_workspace(steps: Sequence[Iterable[Storage]], base: Var, analyzer: Analyzer) -> PrimExpr:
    """Place the storages that the steps touch at offsets from ``base``; return the bytes needed."""
    ranges: LiveRanges[Storage] = LiveRanges()
    storages: dict[Storage, PrimExpr] = {}  # storage → size
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
