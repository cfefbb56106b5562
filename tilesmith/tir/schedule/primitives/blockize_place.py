"""Finds the place where blockize works: the statements of the new block, and the loops around
them.
"""

from __future__ import annotations

from tilesmith.ir import PrimExpr, Range, Var
from tilesmith.ir.queries import conjuncts, variables
from tilesmith.tir.schedule.blocks import scope_of
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import domain_of_loops
from tilesmith.tir.schedule.state import child_statements
from tilesmith.tir.stmt import Block, BlockRealize, For, SeqStmt, Stmt, stmt_list, stmt_seq

__all__ = ["Place", "find_place"]


class Place:
    """Adjacent statements, and the blocks in them.

    ``parent`` is the loop or block whose body they are part of; None where there is only one
    statement, which has an identity of its own (``anchor``).
    """

    def __init__(
        self, scope: BlockCursor, statements: list[Stmt], anchor: Cursor, parent: Cursor | None
    ) -> None:
        self.scope = scope
        self.statements = statements
        self.anchor = anchor
        self.parent = parent
        self.blocks = self._blocks()
        self._outer = self._outer_loops()
        self.is_shared = len(self.blocks) > 1

    def cursor(self, block: Block) -> BlockCursor:
        """Return the cursor of a block at its current place in the program."""
        return self.scope.block_of(block)

    def _blocks(self) -> list[BlockCursor]:
        found: list[BlockCursor] = []

        def walk(stmt: Stmt) -> None:
            if isinstance(stmt, BlockRealize):
                found.append(self.cursor(stmt.block))
            elif isinstance(stmt, (For, SeqStmt)):
                for inner in stmt.seq if isinstance(stmt, SeqStmt) else [stmt.body]:
                    walk(inner)
            else:
                reason = f"there is a statement between the loops: {type(stmt).__name__}"
                raise refuse(reason, self.anchor)

        for stmt in self.statements:
            walk(stmt)
        if not found:
            raise refuse("there is no block inside", self.anchor)
        return found

    def _outer_loops(self) -> list[LoopCursor]:
        if self.parent is None:
            return self.anchor.loops()
        loops = self.parent.loops()
        if isinstance(self.parent, LoopCursor):
            return [*loops, self.parent]
        return []  # right below the block that is the scope

    def outer_loops(self) -> list[LoopCursor]:
        """Return the loops of the scope around the place, outermost first."""
        return self._outer

    def outer_ranges(self) -> dict[Var, Range]:
        """Return the ranges of those loops."""
        return domain_of_loops(self._outer)

    def outer_predicates(self) -> list[PrimExpr]:
        """Return the conditions of the blocks that depend only on the loops around the place."""
        known = self.outer_ranges()
        found = []
        for cursor in self.blocks:
            for clause in conjuncts(cursor.stmt.predicate):
                if all(variable in known for variable in variables(clause)):
                    found.append(clause)
        return found

    def loops_around(self, cursor: BlockCursor) -> tuple[list[For], list[For]]:
        """Return the loops around a block: those outside of the place, and those inside."""
        loops = cursor.loops()
        cut = len(self._outer)
        outside = [loop.stmt for loop in loops[:cut]]
        return outside, [loop.stmt for loop in loops[cut:]]

    def put(self, realize: BlockRealize, reuse: dict[Block, Block]) -> None:
        """Replace the statements of the place by the new block."""
        if self.parent is None:
            self.anchor.replace(realize, reuse)
            return
        parent = self.parent.stmt
        body = parent.block.body if isinstance(parent, BlockRealize) else parent.body
        inside = {id(stmt) for stmt in self.statements}
        new: list[Stmt] = []
        for stmt in stmt_list(body):
            if id(stmt) not in inside:
                new.append(stmt)
            elif stmt is self.statements[0]:
                new.append(realize)
        changed = stmt_seq(*new)
        if isinstance(parent, BlockRealize):
            block = parent.block.with_fields(body=changed)
            reuse = {**reuse, parent.block: block}
            self.parent.replace(parent.with_fields(block=block), reuse)
        else:
            self.parent.replace(parent.with_fields(body=changed), reuse)


def find_place(targets: list[Cursor]) -> Place:
    """Return the place of a loop, of a block, or of several blocks of one scope."""
    targets = list(dict.fromkeys(targets))
    scope = scope_of(targets[0])
    if len(targets) == 1:
        return Place(scope, [targets[0].stmt], targets[0], None)
    for cursor in targets:
        if cursor.scope() != scope:
            raise refuse("the blocks are not in the same block scope", cursor)
    chains = [_chain(cursor, scope) for cursor in targets]
    parent = next(
        cursor for cursor in chains[0][1:] if all(cursor in chain for chain in chains[1:])
    )
    children = parent.children()
    numbers = sorted({children.index(chain[chain.index(parent) - 1]) for chain in chains})
    statements = _beside(parent, numbers)
    place = Place(scope, statements, targets[0], parent)
    for cursor in place.blocks:
        if cursor not in targets:
            name = cursor.block.name_hint
            reason = f"block '{name}' stands among the blocks and is not one of them"
            raise refuse(reason, cursor)
    return place


def _chain(cursor: Cursor, scope: BlockCursor) -> list[Cursor]:
    """Return a block and its ancestors, up to its scope."""
    chain = [cursor]
    for ancestor in cursor.ancestors():
        chain.append(ancestor)
        if ancestor == scope:
            break
    return chain


def _beside(parent: Cursor, numbers: list[int]) -> list[Stmt]:
    """Return the statements from the first to the last of some children, in the order of the
    body.
    """
    stmt = parent.stmt
    children = child_statements(stmt)
    if isinstance(stmt, BlockRealize) and stmt.block.init is not None:
        reason = "the blocks belong to a block with an init"
        raise refuse(reason, parent)
    body = stmt_list(stmt.block.body if isinstance(stmt, BlockRealize) else stmt.body)
    places = [k for k, one in enumerate(body) for n in numbers if one is children[n]]
    if len(places) != len(numbers):
        reason = "a condition or another statement stands around one of the blocks"
        raise refuse(reason, parent)
    return list(body[places[0] : places[-1] + 1])
