"""Cursors: the loops and blocks of a scheduled program, as primitives see them.

A cursor refers to one loop or block by its stable identity. Its queries always answer for the
current program: its statement, the path to the root, its scope, what is inside. It stays valid
while other parts of the program change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from tilesmith.ir import GlobalVar, Var
from tilesmith.support.errors import InternalError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule.state import FunctionState, ScheduleState, StmtSRef
from tilesmith.tir.stmt import Block, BlockRealize, For, Stmt

__all__ = ["BlockCursor", "Cursor", "FunctionCursor", "LoopCursor", "cursor_of"]


class Cursor:
    """A loop or block of a program. Cursors of the same loop or block are equal."""

    __slots__ = ("sref", "state")

    def __init__(self, state: ScheduleState, sref: StmtSRef) -> None:
        self.state = state
        self.sref = sref

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cursor) and other.sref is self.sref

    def __hash__(self) -> int:
        return hash(self.sref)

    @property
    def stmt(self) -> For | BlockRealize:
        """The current For or BlockRealize."""
        return self.state.stmt(self.sref)

    @property
    def node(self) -> For | Block:
        """The current For or Block, to which errors point."""
        stmt = self.stmt
        return stmt.block if isinstance(stmt, BlockRealize) else stmt

    @property
    def tables(self) -> FunctionState:
        """The enclosing function, with the tables of its loops and blocks."""
        return self.state.state_of(self.sref)

    @property
    def function(self) -> PrimFunc:
        """The function around."""
        return self.tables.function

    @property
    def variable(self) -> GlobalVar:
        """The global variable of the enclosing function."""
        return self.state.variable_of(self.sref)

    # --- outward ----------------------------------------------------------------------------------

    def parent(self) -> Cursor | None:
        """Return the directly enclosing loop or block; None at the root."""
        found = self.state.parent(self.sref)
        return None if found is None else cursor_of(self.state, found)

    def ancestors(self) -> Iterator[Cursor]:
        """Return the enclosing loops and blocks, innermost first."""
        state, tables = self.state, self.tables
        parents, statements = tables.parent_of, tables.stmt_of
        current = parents[self.sref]
        while current is not None:
            is_loop = statements[current].__class__ is For
            yield LoopCursor(state, current) if is_loop else BlockCursor(state, current)
            current = parents[current]

    def loops(self) -> list[LoopCursor]:
        """Return the enclosing loops up to the next block, outermost first."""
        state, tables = self.state, self.tables
        parents, statements = tables.parent_of, tables.stmt_of
        found = []
        current = parents[self.sref]
        while current is not None and statements[current].__class__ is For:
            found.append(LoopCursor(state, current))
            current = parents[current]
        return found[::-1]

    def scope(self) -> BlockCursor | None:
        """Return the enclosing block; None for the root block."""
        found = self.state.scope(self.sref)
        return None if found is None else BlockCursor(self.state, found)

    # --- inward -----------------------------------------------------------------------------------

    def children(self) -> list[Cursor]:
        """Return the outermost loops and blocks inside."""
        state = self.state
        return [cursor_of(state, sref) for sref in state.child_srefs(self.sref)]

    def blocks_below(self) -> list[BlockCursor]:
        """Return the blocks below that are not inside of other blocks, in order."""
        state = self.state
        return [BlockCursor(state, sref) for sref in state.blocks_below(self.sref)]

    # --- elsewhere --------------------------------------------------------------------------------

    def loop_of(self, variable: Var) -> LoopCursor:
        """Return the loop of a variable, in the same function."""
        return LoopCursor(self.state, self.state.loop_of(variable, self.sref))

    def block_of(self, block: Block) -> BlockCursor:
        """Return the cursor of a Block of the same function."""
        return BlockCursor(self.state, self.state.block_of(block, self.sref))

    def at(self, stmt: For | BlockRealize) -> Cursor:
        """Return the cursor of a loop or block of the same function."""
        if isinstance(stmt, BlockRealize):
            return self.block_of(stmt.block)
        return self.loop_of(stmt.loop_var)

    def within(self, state: ScheduleState) -> Self:
        """Return the same loop or block in a copy of the program."""
        return type(self)(state, self.sref)

    # --- changes ----------------------------------------------------------------------------------

    def replace(self, stmt: Stmt, block_reuse: dict[Block, Block] | None = None) -> None:
        """Replace the statement; see ``FunctionState.replace``."""
        self.state.replace(self.sref, stmt, block_reuse)


class LoopCursor(Cursor):
    """A loop."""

    __slots__ = ()

    @property
    def stmt(self) -> For:
        """The current For."""
        stmt = self.state.stmt(self.sref)
        if type(stmt) is not For:
            raise InternalError("the cursor of a loop refers to a block")
        return stmt


class BlockCursor(Cursor):
    """A block."""

    __slots__ = ()

    @property
    def stmt(self) -> BlockRealize:
        """The current BlockRealize."""
        stmt = self.state.stmt(self.sref)
        if type(stmt) is not BlockRealize:
            raise InternalError("the cursor of a block refers to a loop")
        return stmt

    @property
    def block(self) -> Block:
        """The current Block."""
        return self.stmt.block


def cursor_of(state: ScheduleState, sref: StmtSRef) -> Cursor:
    """Return the cursor of a loop or block by its identity."""
    is_loop = state.stmt(sref).__class__ is For
    return LoopCursor(state, sref) if is_loop else BlockCursor(state, sref)


class FunctionCursor:
    """A function of the module that is being scheduled."""

    __slots__ = ("state", "variable")

    def __init__(self, state: ScheduleState, variable: GlobalVar) -> None:
        self.state = state
        self.variable = variable

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.variable.name_hint

    @property
    def function(self) -> PrimFunc:
        """The enclosing function."""
        return self.state.function_state(self.variable).function

    def root(self) -> BlockCursor:
        """Return the root block."""
        return BlockCursor(self.state, self.state.root(self.variable))

    def find_blocks(self, name: str) -> list[BlockCursor]:
        """Return all blocks of that name, in program order."""
        found = self.state.find_blocks(name, self.variable)
        return [BlockCursor(self.state, sref) for sref in found]

    def block_names(self) -> list[str]:
        """Return the names of all blocks."""
        return [
            stmt.block.name_hint
            for stmt in self.state.function_state(self.variable).stmt_of.values()
            if isinstance(stmt, BlockRealize)
        ]
