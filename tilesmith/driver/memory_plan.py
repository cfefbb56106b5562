"""Plans where the intermediate tensors of a graph function lie in its workspace.

The live range of a storage is from the first to the last step that touches it.
`support.memory_planner` gives offsets to the storages of known size; storages of symbolic size
follow and share no memory. On devices, storages get slots instead of offsets (`plan_slots`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilesmith.arith import Analyzer
from tilesmith.ir import Call, IntImm, PointerType, PrimExpr, Var, const, structural_equal
from tilesmith.ir.operators import floordiv
from tilesmith.ir.types import prim_type
from tilesmith.relax.analysis.memory_plan import ALIGNMENT
from tilesmith.runtime.dtype import DataType
from tilesmith.support.memory_planner import Allocation, LiveRanges, plan_offsets
from tilesmith.tir.transform.options import memory_algorithm

__all__ = ["PlanMemory", "Reservation", "Storage", "plan_slots", "plan_workspace"]


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

    def place_at(self, address: PrimExpr) -> None:
        """Place the storage at an address of its own."""
        self.address = address

    def pointer(self) -> PrimExpr:
        """Return the address; the workspace has to be planned."""
        if self.pointer_of is not None:
            return self.pointer_of()
        assert self.address is not None
        return self.address


PlanMemory = Callable[[Sequence[Iterable[Storage]], Var, Analyzer], PrimExpr]
"""(the storages that each step touches, the workspace, an analyzer) → the bytes needed."""


def plan_workspace(steps: Sequence[Iterable[Storage]], base: Var, analyzer: Analyzer) -> PrimExpr:
    """Place the storages that the steps touch at offsets from ``base``; return the bytes needed."""
    ranges, storages = _live(steps)
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


def _live(
    steps: Sequence[Iterable[Storage]],
) -> tuple[LiveRanges[Storage], dict[Storage, PrimExpr]]:
    """Return when the storages in the workspace are alive, and their sizes."""
    ranges: LiveRanges[Storage] = LiveRanges()
    storages: dict[Storage, PrimExpr] = {}
    for number, touched in enumerate(steps):
        for storage in touched:
            if storage.is_workspace and storage.size is not None:
                ranges.use(storage, number)
                storages[storage] = storage.size
    return ranges, storages


def plan_slots(
    steps: Sequence[Iterable[Storage]],
    address: Callable[[int], PrimExpr],
    precedes: Callable[[int, int], bool] | None = None,
) -> list[PrimExpr]:
    """Give each storage a slot that is free while it is alive, at ``address(number of the slot)``;
    return the bytes of each slot.

    Sizes that are known share the slot that grows least; others share one with those of an equal
    size only. Steps are carried out in their order, unless ``precedes`` says which steps are over
    when another begins: then a slot is free when all that used it is over.
    """
    ranges, storages = _live(steps)
    live = {storage: ranges.of(storage)[0] for storage in storages}
    users = {} if precedes is None else _users(steps, storages)
    slots: list[tuple[PrimExpr, int]] = []  # size, last step that uses it
    tenants: list[Storage] = []  # of each slot, the storage that had it last
    for storage in sorted(storages, key=lambda one: live[one][0]):
        first, last = live[storage]
        size = storages[storage]
        free = [number for number, (_, end) in enumerate(slots) if end < first]
        if precedes is not None:
            free = [number for number in free
                    if all(precedes(one, first) for one in users[tenants[number]])]  # fmt: skip
        place = _best_slot(size, [(number, slots[number][0]) for number in free])
        if place is None:
            place = len(slots)
            slots.append((size, last))
            tenants.append(storage)
        else:
            known = slots[place][0]
            if isinstance(known, IntImm) and isinstance(size, IntImm) and size.value > known.value:
                known = size
            slots[place] = (known, last)
            tenants[place] = storage
        storage.place_at(address(place))
    return [size for size, _ in slots]


def _users(
    steps: Sequence[Iterable[Storage]], storages: Iterable[Storage]
) -> dict[Storage, list[int]]:
    """Return the steps that use each storage."""
    found: dict[Storage, list[int]] = {storage: [] for storage in storages}
    for number, touched in enumerate(steps):
        for storage in dict.fromkeys(touched):
            if storage in found:
                found[storage].append(number)
    return found


def _best_slot(size: PrimExpr, free: Sequence[tuple[int, PrimExpr]]) -> int | None:
    """Return the number of the free slot that fits best: the smallest that is large enough, else
    the largest, which grows; of symbolic sizes an equal one.
    """
    if not isinstance(size, IntImm):
        return next((number for number, known in free if structural_equal(known, size)), None)
    fixed = [(known.value, number) for number, known in free if isinstance(known, IntImm)]
    enough = [one for one in fixed if one[0] >= size.value]
    if enough:
        return min(enough)[1]
    return max(fixed)[1] if fixed else None
