"""What memory planning works on: buffers with live ranges, and their places in pools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tilesmith.ir import PoolInfo
from tilesmith.ir.pass_context import PassContext
from tilesmith.support.errors import ConfigError
from tilesmith.support.memory_planner import Allocation, Interval, plan_offsets
from tilesmith.tir.transform.options import memory_algorithm

__all__ = [
    "CANDIDATE_MEMORY_POOL_ATTR",
    "BufferInfo",
    "PoolAllocation",
    "plan_pool_allocations",
    "use_workspace_io_is_enabled",
]

CANDIDATE_MEMORY_POOL_ATTR = "candidate_memory_pools"
"""The annotation of an allocation that lists the pools in which it may lie."""
ALIGNMENT = 16
"""Bytes at whose multiples a buffer begins where nothing else is said."""


def use_workspace_io_is_enabled() -> bool:
    """Return whether the option ``tir.usmp.use_workspace_io`` asks for inputs and outputs in
    pools.
    """
    return bool(PassContext.current().get_config("tir.usmp.use_workspace_io"))


@dataclass(eq=False)
class BufferInfo:
    """A buffer to be placed in one of its candidate pools.

    ``live`` holds the first and last step of each live range; ``conflicts`` are the buffers that
    are alive in one of these steps.
    """

    name_hint: str
    size_bytes: int
    pool_candidates: Sequence[PoolInfo]
    alignment: int | None = None
    live: tuple[Interval, ...] = ()
    conflicts: list[BufferInfo] = field(default_factory=list, repr=False)

    def set_conflicts(self, conflicts: Iterable[BufferInfo]) -> None:
        """Set the buffers that must not share memory with this one."""
        self.conflicts = list(conflicts)


@dataclass(frozen=True)
class PoolAllocation:
    """A place in a pool."""

    pool_info: PoolInfo
    byte_offset: int


Place = TypeVar("Place")


def plan_pool_allocations(buffer_infos: Mapping[BufferInfo, Place]) -> dict[Place, PoolAllocation]:
    """Return a place in a pool for each buffer, such that buffers that are alive together do not
    overlap; the order of placement is that of ``tir.usmp.algorithm``, by default the best.

    Each buffer goes to its first candidate; while the plan of a pool is larger than the pool, the
    largest buffer that has another candidate moves there. Raises ConfigError if none can move.
    """
    choice = dict.fromkeys(buffer_infos, 0)
    while True:
        members: dict[str, list[BufferInfo]] = defaultdict(list)
        for info, number in choice.items():
            members[info.pool_candidates[number].pool_name].append(info)
        places: dict[Place, PoolAllocation] = {}
        moved = False
        for held in members.values():
            pool = held[0].pool_candidates[choice[held[0]]]
            alignment = max([info.alignment or ALIGNMENT for info in held])
            allocations = [Allocation(info.size_bytes, info.live) for info in held]
            plan = plan_offsets(allocations, alignment, memory_algorithm())
            if pool.size_hint_bytes >= 0 and plan.total > pool.size_hint_bytes:
                _move_on(pool, plan.total, held, choice)
                moved = True
            for info, offset in zip(held, plan.offsets):
                places[buffer_infos[info]] = PoolAllocation(pool, offset)
        if not moved:
            return places


def _move_on(
    pool: PoolInfo, total: int, held: Iterable[BufferInfo], choice: dict[BufferInfo, int]
) -> None:
    movable = [info for info in held if choice[info] + 1 < len(info.pool_candidates)]
    if not movable:
        raise ConfigError(
            f"the pool '{pool.pool_name}' has {pool.size_hint_bytes} bytes, the plan needs {total}",
            notes=("give its buffers a further candidate, or the pool more memory",),
        )
    choice[max(movable, key=lambda info: info.size_bytes)] += 1
