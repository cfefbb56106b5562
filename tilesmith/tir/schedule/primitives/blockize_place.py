"""Where blockize works: the statements that the new block takes in, and the loops around them."""

from __future__ import annotations

from tilesmith.ir import PrimExpr, Range, Var
from tilesmith.tir.schedule.primitives.blocks import scope_of
from tilesmith.tir.schedule.primitives.common import (
    clauses,
    domain_of_loops,
    refuse_at,
    variables_in,
)
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef, child_statements
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    For,
    SeqStmt,
    Stmt,
    stmt_list,
    stmt_seq,
)

__all__ = ["Place", "find_place"]


class Place:
    """Statements beside each other, and the blocks in them.

    ``parent`` is the loop or block whose body they are part of; None where there is only one
    statement, which has an identity of its own (``anchor``).
    """

    def __init__(
        self,
        state: ScheduleState,
        scope: StmtSRef,
        statements: list[Stmt],
        anchor: StmtSRef,
        parent: StmtSRef | None,
    ) -> None:
        self.state = state
        self.scope = scope
        self.statements = statements
        self.anchor = anchor
        self.parent = parent
        self.blocks = self._blocks()
        self._outer = self._outer_loops()
        self.is_shared = len(self.blocks) > 1

    def _blocks(self) -> list[StmtSRef]:
        found: list[StmtSRef] = []

        def walk(stmt: Stmt) -> None:
            if isinstance(stmt, BlockRealize):
                found.append(self.state.get_sref(stmt))
            elif isinstance(stmt, (For, SeqStmt)):
                for inner in stmt.seq if isinstance(stmt, SeqStmt) else [stmt.body]:
                    walk(inner)
            else:
                reason = f"there is a statement between the loops: {type(stmt).__name__}"
                raise refuse_at(self.state, "blockize", reason, self.anchor)

        for stmt in self.statements:
            walk(stmt)
        if not found:
            raise refuse_at(self.state, "blockize", "there is no block inside", self.anchor)
        return found

    def _outer_loops(self) -> list[StmtSRef]:
        if self.parent is None:
            return self.state.loops(self.anchor)
        loops = self.state.loops(self.parent)
        if isinstance(self.state.stmt(self.parent), For):
            return [*loops, self.parent]
        return []  # right below the block that is the scope

    def outer_loops(self) -> list[StmtSRef]:
        """The loops of the scope around the place, outermost first."""
        return self._outer

    def outer_ranges(self) -> dict[Var, Range]:
        """The ranges of those loops."""
        return domain_of_loops(self.state, self._outer)

    def outer_predicates(self) -> list[PrimExpr]:
        """The conditions of the blocks that concern the loops around the place only."""
        known = self.outer_ranges()
        found = []
        for sref in self.blocks:
            for clause in clauses(self.state.stmt(sref).predicate):
                if all(variable in known for variable in variables_in(clause)):
                    found.append(clause)
        return found

    def loops_around(self, sref: StmtSRef) -> tuple[list[For], list[For]]:
        """The loops around a block: those outside of the place, and those inside."""
        loops = self.state.loops(sref)
        cut = len(self._outer)
        outside = [self.state.stmt(loop) for loop in loops[:cut]]
        return outside, [self.state.stmt(loop) for loop in loops[cut:]]

    def put(self, realize: BlockRealize, reuse: dict[Block, Block]) -> None:
        """Replace the statements of the place by the new block."""
        if self.parent is None:
            self.state.replace(self.anchor, realize, reuse)
            return
        parent = self.state.stmt(self.parent)
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
            self.state.replace(self.parent, parent.with_fields(block=block), reuse)
        else:
            self.state.replace(self.parent, parent.with_fields(body=changed), reuse)


def find_place(state: ScheduleState, targets: list[StmtSRef]) -> Place:
    """The place of a loop, of a block, or of several blocks of one scope."""
    targets = list(dict.fromkeys(targets))
    scope = scope_of(state, targets[0], "blockize")
    if len(targets) == 1:
        return Place(state, scope, [state.stmt(targets[0])], targets[0], None)
    for sref in targets:
        if state.scope(sref) is not scope:
            raise refuse_at(state, "blockize", "the blocks belong to different scopes", sref)
    chains = [_chain(state, sref, scope) for sref in targets]
    parent = next(sref for sref in chains[0][1:] if all(sref in chain for chain in chains[1:]))
    children = state.child_srefs(parent)
    numbers = sorted({children.index(chain[chain.index(parent) - 1]) for chain in chains})
    statements = _beside(state, parent, numbers)
    place = Place(state, scope, statements, targets[0], parent)
    for sref in place.blocks:
        if sref not in targets:
            name = state.stmt(sref).block.name_hint
            reason = f"block '{name}' stands among the blocks and is not one of them"
            raise refuse_at(state, "blockize", reason, sref)
    return place


def _chain(state: ScheduleState, sref: StmtSRef, scope: StmtSRef) -> list[StmtSRef]:
    """A block and what is around it, up to its scope."""
    chain = [sref]
    for ancestor in state.ancestors(sref):
        chain.append(ancestor)
        if ancestor is scope:
            break
    return chain


def _beside(state: ScheduleState, parent: StmtSRef, numbers: list[int]) -> list[Stmt]:
    """The statements from the first to the last of some children, as they stand in the body."""
    stmt = state.stmt(parent)
    children = child_statements(stmt)
    if isinstance(stmt, BlockRealize) and stmt.block.init is not None:
        reason = "the blocks belong to a block with an init"
        raise refuse_at(state, "blockize", reason, parent)
    body = stmt_list(stmt.block.body if isinstance(stmt, BlockRealize) else stmt.body)
    places = [k for k, one in enumerate(body) for n in numbers if one is children[n]]
    if len(places) != len(numbers):
        reason = "a condition or another statement stands around one of the blocks"
        raise refuse_at(state, "blockize", reason, parent)
    return list(body[places[0] : places[-1] + 1])
