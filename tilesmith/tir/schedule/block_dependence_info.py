"""Computes the dependences between the blocks of a module, without a schedule."""

from __future__ import annotations

from tilesmith.ir import IRModule
from tilesmith.tir.analysis.block_scope import BlockScope
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef
from tilesmith.tir.stmt import Block

__all__ = ["BlockDependenceInfo"]


class BlockDependenceInfo:
    """Holds the reference of each block of a module, and the dependences between the blocks inside
    it.
    """

    def __init__(self, mod: IRModule) -> None:
        self._state = ScheduleState(mod)
        self.mod = self._state.mod

    def get_sref(self, block: Block) -> StmtSRef:
        """Return the reference of a block. Raises ScheduleError where the module has no such
        block."""
        return self._state.get_sref(block)

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """Return the dependences between the blocks inside of a block."""
        return self._state.get_block_scope(block_sref)
