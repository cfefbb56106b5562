"""Allocates memory for groups of threads: one for each thread, warp, warpgroup or block."""

from __future__ import annotations

from tilesmith.ir import Var
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT, Frame
from tilesmith.tir.interpreter.threads import by_owner, sharing_level
from tilesmith.tir.interpreter.values import Environment, Evaluate, Pointer, RunGroup, allocate
from tilesmith.tir.interpreter.views import BufferViews

__all__ = ["Placement"]


class Placement:
    """Makes closures that allocate memory for all threads of a group.

    ``waits``: threads of an owner may come to an allocation one group after the other (see
    ``strands``), and then share what the first group got.
    """

    def __init__(self, frame: Frame, views: BufferViews, waits: bool = False) -> None:
        self.frame = frame
        self.waits = waits
        self.views = views

    def pointer(self, pointer: Var, dtype: DataType, count: Evaluate) -> RunGroup:
        """Return a closure that allocates ``count`` elements for each owner of memory of this
        scope."""
        slot, stale = self.frame.slot(pointer), self.views.stale_views(pointer)
        level = sharing_level(pointer.storage_scope)
        shared = level in ("block", "warpgroup", "warp")

        def place(envs: list[Environment]) -> None:
            parties = by_owner(envs, level) if shared else {i: [e] for i, e in enumerate(envs)}
            known = envs[0][CONTEXT_SLOT].shared_memory if shared else {}
            for owner, party in parties.items():
                memory, holders = known.get((slot, owner), (None, set()))
                numbers = {env[THREAD_SLOT].number for env in party} if self.waits else set()
                if memory is None or not self.waits or holders & numbers:
                    memory = _fresh(party[0], dtype, count(party[0]), memory)
                    holders = set()
                known[(slot, owner)] = memory, holders | numbers
                for env in party:
                    env[slot] = memory
                    for view in stale:
                        env[view] = None

        return place

    def buffer(self, buffer: Buffer) -> RunGroup:
        """Return a closure that allocates a buffer for each owner."""
        slot, count = self.frame.slot(buffer), self.views.element_count(buffer)
        place = self.pointer(buffer.data, buffer.dtype, count)

        def run(envs: list[Environment]) -> None:
            place(envs)
            for env in envs:
                env[slot] = None

        return run


def _fresh(env: Environment, dtype: DataType, count: int, old: Pointer | None) -> Pointer:
    """Return new memory, or the memory of the last time with its contents cleared: shared memory
    stays in one place, as on a device. The watch, if there is one, records that nothing has been
    written."""
    memory = allocate(dtype, count)
    if old is not None and old.memory.nbytes == memory.memory.nbytes:
        old.memory[...] = memory.memory
        memory = old
    watch = env[CONTEXT_SLOT].watch
    if watch is not None:
        watch.allocated(memory)
    return memory
