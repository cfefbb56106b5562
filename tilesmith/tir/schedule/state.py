"""Defines the state of a schedule: functions, and the positions of their loops and blocks.

Statements are immutable, so a loop or block that a primitive touches becomes another object, and so
do the statements on the path to the root. A ``StmtSRef`` is the stable identity of a loop or block;
the state maps it to the statement that it is now and to its parent. ``replace`` swaps one
statement, rebuilds the path to the root, and visits only new nodes: subtrees that are the same
objects as before keep their entries.

Copying a state shares the tables; the first change on either side copies the table of the one
function that it changes.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from enum import IntFlag
from typing import Any, NamedTuple

from tilesmith.ir import GlobalVar, IRModule, Node, Var
from tilesmith.support.errors import ScheduleError
from tilesmith.support.knobs import knobs
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.analysis.block_scope import BlockScope
from tilesmith.tir.analysis.well_formed import SeenExpressions
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For, Stmt

__all__ = [
    "BlockFlags", "FunctionState", "ScheduleDebugMask", "ScheduleState", "StmtSRef",
    "child_statements", "is_mark",
]  # fmt: skip


class ScheduleDebugMask(IntFlag):
    """The checks that run after each primitive."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2
    VERIFY_WELL_FORMED = 4
    VERIFY_REGIONS = 8


class BlockFlags(NamedTuple):
    """The known properties of a block. False means that the property could not be proven.

    ``affine_binding``: the iterators are independent affine functions of the loops around it.
    ``region_cover``: what it reads from blocks of its scope has been written when it runs.
    ``stage_pipeline``: seen as a scope, all blocks in it are complete or reductions and covered.
    """

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool


class StmtSRef:
    """The stable identity of a loop or block within a schedule, without content.

    Copies of a schedule share identities. ``stmt`` and ``parent`` answer for the state that gave
    this identity to a user last (``Schedule.get_sref``, ``ScheduleState.get_sref``).
    """

    __slots__ = ("__weakref__", "_owner")

    _owner: weakref.ReferenceType[ScheduleState]

    @property
    def stmt(self) -> For | Block | None:
        """The current For or Block; None for a mark, and after its removal."""
        state = self._state()
        if state is None or not state.is_alive(self):
            return None
        found = state.stmt(self)
        return found.block if isinstance(found, BlockRealize) else found

    @property
    def parent(self) -> StmtSRef | None:
        """The directly enclosing loop or block; None for the root block and for marks."""
        state = self._state()
        if state is None or not state.is_alive(self):
            return None
        around = state.parent(self)
        return None if around is None else state.handed_out(around)

    def _state(self) -> ScheduleState | None:
        owner = getattr(self, "_owner", None)
        return None if owner is None else owner()

    @staticmethod
    def inline_mark() -> StmtSRef:
        """Return the mark for "inline the block", which can stand in place of a loop."""
        return _INLINE

    @staticmethod
    def root_mark() -> StmtSRef:
        """Return the mark for "leave the block at its place", which can stand in place of a
        loop.
        """
        return _ROOT

    def __repr__(self) -> str:
        if is_mark(self):
            return f"StmtSRef.{'inline' if self is _INLINE else 'root'}_mark()"
        stmt = self.stmt
        if stmt is None:
            return "StmtSRef(gone)"
        if isinstance(stmt, Block):
            return f"StmtSRef(block '{stmt.name_hint}')"
        return f"StmtSRef(loop '{stmt.loop_var.name}')"


_INLINE = StmtSRef()
_ROOT = StmtSRef()


def is_mark(sref: StmtSRef) -> bool:
    """Return whether an identity is one of the marks that stand in place of a loop."""
    return sref is _INLINE or sref is _ROOT


def child_statements(stmt: Stmt) -> list[For | BlockRealize]:
    """Return the outermost loops and blocks below a loop, block or other statement, in order."""
    found: list[For | BlockRealize] = []

    def walk(node: Node) -> None:
        if type(node) is For or type(node) is BlockRealize:
            found.append(node)
        elif type(node) is not BufferStore and isinstance(node, Stmt):
            node.for_each_child(walk)

    if type(stmt) is For:
        walk(stmt.body)
    elif type(stmt) is BlockRealize:
        if stmt.block.init is not None:
            walk(stmt.block.init)
        walk(stmt.block.body)
    else:
        stmt.for_each_child(walk)
    return found


def _replace_inside(parent: For | BlockRealize, old: Stmt, new: Stmt) -> For | BlockRealize:
    """Replace one of the outermost loops or blocks in ``parent``.

    Only what lies between the two is rebuilt.
    """
    if type(parent) is For:
        return parent.with_fields(body=_replace_between(parent.body, old, new))
    block = parent.block
    body = _replace_between(block.body, old, new)
    init = None if block.init is None else _replace_between(block.init, old, new)
    return parent.with_fields(block=block.with_fields(body=body, init=init))


def _replace_between(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """Replace ``old`` in a statement, outside of inner loops and blocks."""

    def walk(node: Node) -> Node:
        if node is old:
            return new
        kind = type(node)
        if kind is For or kind is BlockRealize or kind is BufferStore or not isinstance(node, Stmt):
            return node
        return node.map_children(walk)

    if stmt is old:
        return new
    if type(stmt) is For or type(stmt) is BlockRealize:
        return stmt
    return stmt.map_children(walk)


def _key(stmt: For | BlockRealize) -> Var | Block:
    """Return the key of a statement in the tables, which is unchanged when the body changes."""
    return stmt.loop_var if type(stmt) is For else stmt.block


class FunctionState:
    """One function with the tables of its loops and blocks."""

    __slots__ = (
        "below", "checked", "flags", "function", "named", "original", "parent_of", "regions_hold",
        "seen", "shared", "sref_of", "stmt_of", "verified",
    )  # fmt: skip

    def __init__(self, function: PrimFunc) -> None:
        self.function = self.original = function
        # What is known of a block as long as the block of its scope is the same (see flags.py).
        self.flags: dict[StmtSRef, tuple[Block, BlockFlags]] = {}
        # The blocks right below a statement, as long as it is the same object.
        self.below: dict[StmtSRef, tuple[Stmt, tuple[StmtSRef, ...]]] = {}
        # Blocks by name in program order, as long as the body is the same object.
        self.named: tuple[Stmt, dict[str, list[BlockRealize]]] | None = None
        # What the verifier knows: the function it has passed last, blocks that declare all that
        # they touch (by id), what expressions use, and whether all blocks did so when the schedule
        # began.
        self.verified: PrimFunc | None = None
        self.checked: dict[int, Block] = {}
        self.seen: SeenExpressions = {}
        self.regions_hold: bool | None = None
        self.stmt_of: dict[StmtSRef, For | BlockRealize] = {}
        self.parent_of: dict[StmtSRef, StmtSRef | None] = {}
        self.sref_of: dict[Node, StmtSRef] = {}  # by loop variable, or by Block
        self.shared = False
        self._enter(function.body, None, set())

    def own(self) -> FunctionState:
        """Return this state if it is not shared, else a copy that may be changed."""
        if not self.shared:
            return self
        copy = FunctionState.__new__(FunctionState)
        copy.function = self.function
        copy.stmt_of = dict(self.stmt_of)
        copy.parent_of = dict(self.parent_of)
        copy.sref_of = dict(self.sref_of)
        copy.flags = dict(self.flags)
        copy.below = dict(self.below)
        copy.named = self.named
        copy.checked = dict(self.checked)
        copy.seen = self.seen  # true of the expressions, in any function
        copy.original = self.original
        copy.verified = self.verified
        copy.regions_hold = self.regions_hold
        copy.shared = False
        return copy

    def sref(self, stmt: For | BlockRealize) -> StmtSRef:
        """Return the identity of a loop or block of the function."""
        return self.sref_of[_key(stmt)]

    def blocks_named(self, name: str) -> list[BlockRealize]:
        """Return all blocks of that name, in program order."""
        body = self.function.body
        if self.named is None or self.named[0] is not body:
            found: dict[str, list[BlockRealize]] = {}

            def walk(stmt: For | BlockRealize) -> None:
                if type(stmt) is BlockRealize:
                    found.setdefault(stmt.block.name_hint, []).append(stmt)
                for inner in child_statements(stmt):
                    walk(inner)

            with deep_recursion():
                if isinstance(body, (For, BlockRealize)):
                    walk(body)
                else:
                    for stmt in child_statements(body):
                        walk(stmt)
            self.named = (body, found)
        return self.named[1].get(name, [])

    def _enter(self, stmt: Stmt, parent: StmtSRef | None, reached: set[StmtSRef]) -> None:
        """Add the loops and blocks at and below ``stmt`` to the tables."""
        if not (type(stmt) is For or type(stmt) is BlockRealize):
            for inner in child_statements(stmt):
                self._enter(inner, parent, reached)
            return
        key = _key(stmt)
        sref = self.sref_of.get(key)
        if sref is None:
            sref = self.sref_of[key] = StmtSRef()
        reached.add(sref)
        self.parent_of[sref] = parent
        if self.stmt_of.get(sref) is stmt:
            return  # the same object as before: so is everything below it
        self.stmt_of[sref] = stmt
        for inner in child_statements(stmt):
            self._enter(inner, sref, reached)

    def replace(self, sref: StmtSRef, new: Stmt, block_reuse: dict[Block, Block]) -> None:
        """Replace the statement of ``sref`` by ``new`` (a loop, a block or another statement).

        ``block_reuse`` maps blocks as they were to what they became: these keep their identity.
        """
        old = self.stmt_of[sref]
        if old is new:
            return
        parent = self.parent_of[sref]
        for before, after in block_reuse.items():
            if before is not after and before in self.sref_of:
                self.sref_of[after] = self.sref_of.pop(before)
        reached: set[StmtSRef] = set()
        self._enter(new, parent, reached)
        self._forget(old, reached)
        self._rebuild_ancestors(parent, old, new)

    def _forget(self, old: For | BlockRealize, reached: set[StmtSRef]) -> None:
        """Remove the entries of statements of ``old`` that are no longer in the tree."""
        key = _key(old)
        sref = self.sref_of.get(key)
        if sref is not None and sref in reached:
            if self.stmt_of[sref] is old:
                return
        elif sref is not None:
            del self.sref_of[key], self.stmt_of[sref], self.parent_of[sref]
            self.flags.pop(sref, None)
            self.below.pop(sref, None)
        for inner in child_statements(old):
            self._forget(inner, reached)

    def _rebuild_ancestors(self, sref: StmtSRef | None, old: Stmt, new: Stmt) -> None:
        while sref is not None:
            before = self.stmt_of[sref]
            after = _replace_inside(before, old, new)
            if type(before) is BlockRealize and type(after) is BlockRealize:
                del self.sref_of[before.block]
                self.sref_of[after.block] = sref
            self.stmt_of[sref] = after
            old, new, sref = before, after, self.parent_of[sref]
        body = self.function.body
        if body is old:
            self.function = self.function.with_body(new)
        else:
            self.function = self.function.with_body(_replace_between(body, old, new))


class ScheduleState:
    """A module being scheduled. The tables of a function are built when a primitive first uses
    it.
    """

    def __init__(self, mod: Any, *, debug_mask: Any = "none", enable_check: bool = True) -> None:
        self._module: IRModule = mod
        self._functions: dict[GlobalVar, FunctionState] = {}
        self._function_of: dict[StmtSRef, GlobalVar] = {}
        self.debug_mask = _mask(debug_mask)
        self.enable_check = enable_check
        self._reference: Any = None

    @property
    def mod(self) -> IRModule:
        """The current module; the same object until the next change."""
        changed = {
            variable: state.function
            for variable, state in self._functions.items()
            if self._module.functions[variable] is not state.function
        }
        if changed:
            module = self._module.shallow_copy()
            for variable, function in changed.items():
                module[variable] = function
            self._module = module
        return self._module

    def copy(self) -> ScheduleState:
        """Return an independent state with the same content; data is copied only when one of the
        two changes.
        """
        made = ScheduleState(
            self._module, debug_mask=self.debug_mask, enable_check=self.enable_check
        )
        for state in self._functions.values():
            state.shared = True
        made._functions = dict(self._functions)
        made._function_of = dict(self._function_of)
        return made

    def restore(self, earlier: ScheduleState) -> None:
        """Return to an earlier copy, and drop later changes."""
        self._module = earlier._module
        self._functions = earlier._functions
        self._function_of = earlier._function_of

    def function_state(self, variable: GlobalVar) -> FunctionState:
        """Return the tables of a function, made at first use."""
        state = self._functions.get(variable)
        if state is None:
            function = self._module.functions[variable]
            if not isinstance(function, PrimFunc):
                raise ScheduleError(
                    f"'{variable.name_hint}' is not a PrimFunc, so it cannot be scheduled"
                )
            with deep_recursion():
                state = self._functions[variable] = FunctionState(function)
            for sref in state.stmt_of:
                self._function_of[sref] = variable
        return state

    def function_states(self) -> list[tuple[GlobalVar, FunctionState]]:
        """Return the functions that primitives have named so far, with their tables."""
        return list(self._functions.items())

    def variable_of(self, sref: StmtSRef) -> GlobalVar:
        """Return the function that a loop or block belongs to."""
        return self._function_of[sref]

    def state_of(self, sref: StmtSRef) -> FunctionState:
        """Return the tables of the function that a loop or block belongs to."""
        return self._functions[self._function_of[sref]]

    def stmt(self, sref: StmtSRef) -> For | BlockRealize:
        """Return the current For or BlockRealize of an identity."""
        variable = self._function_of.get(sref)
        found = self._functions[variable].stmt_of.get(sref) if variable is not None else None
        if found is None:
            raise ScheduleError(
                "this loop or block is no longer part of the program",
                notes=(
                    "an earlier primitive removed or replaced it; get it again with "
                    "get_block or get_loops",
                ),
            )
        return found

    def is_alive(self, sref: StmtSRef) -> bool:
        """Return whether an identity belongs to a loop or block of the current program."""
        variable = self._function_of.get(sref)
        return variable is not None and sref in self._functions[variable].stmt_of

    def handed_out(self, sref: StmtSRef) -> StmtSRef:
        """Make this state the owner of ``sref`` (unless it is a mark) and return it."""
        if not is_mark(sref):
            if self._reference is None:
                self._reference = weakref.ref(self)
            sref._owner = self._reference
        return sref

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """Return the dependences between the outermost blocks inside a block, by their
        identities.
        """
        realize = self.stmt(block_sref)
        if not isinstance(realize, BlockRealize):
            raise ScheduleError("get_block_scope: expected a block, got a loop")
        table = self.state_of(block_sref).sref_of
        scope = BlockScope(realize.block)
        scope.name_by(lambda child: self.handed_out(table[child.block]))
        return scope

    def loop_of(self, variable: Var, near: StmtSRef) -> StmtSRef:
        """Return the loop of a variable, in the function that ``near`` belongs (or belonged) to."""
        return self.state_of(near).sref_of[variable]

    def block_of(self, block: Block, near: StmtSRef) -> StmtSRef:
        """Return the identity of a block, in the function that ``near`` belongs (or belonged)
        to."""
        return self.state_of(near).sref_of[block]

    def parent(self, sref: StmtSRef) -> StmtSRef | None:
        """Return the directly enclosing loop or block, or None at the root."""
        return self.state_of(sref).parent_of[sref]

    def ancestors(self, sref: StmtSRef) -> Iterator[StmtSRef]:
        """Return the enclosing loops and blocks, innermost first."""
        table = self.state_of(sref).parent_of
        current = table[sref]
        while current is not None:
            yield current
            current = table[current]

    def loops(self, sref: StmtSRef) -> list[StmtSRef]:
        """Return the loops around a block or loop (itself left out) up to the next block, outermost
        first."""
        found = []
        for ancestor in self.ancestors(sref):
            if not isinstance(self.stmt(ancestor), For):
                break
            found.append(ancestor)
        return found[::-1]

    def scope(self, sref: StmtSRef) -> StmtSRef | None:
        """Return the enclosing block of a loop or block; None for the root."""
        for ancestor in self.ancestors(sref):
            if isinstance(self.stmt(ancestor), BlockRealize):
                return ancestor
        return None

    def child_srefs(self, sref: StmtSRef) -> list[StmtSRef]:
        """Return the outermost loops and blocks inside."""
        state = self.state_of(sref)
        return [state.sref(stmt) for stmt in child_statements(state.stmt_of[sref])]

    def blocks_below(self, sref: StmtSRef) -> list[StmtSRef]:
        """Return the blocks below a loop or block that are not inside of other blocks, in order."""
        state = self.state_of(sref)
        stmt = state.stmt_of[sref]
        known = state.below.get(sref)
        if known is None or known[0] is not stmt:
            known = state.below[sref] = (stmt, tuple(self._find_below(state, stmt)))
        return list(known[1])

    def _find_below(self, state: FunctionState, stmt: Stmt) -> list[StmtSRef]:
        found: list[StmtSRef] = []

        def walk(stmt: Stmt) -> None:
            for inner in child_statements(stmt):
                if inner.__class__ is BlockRealize:
                    found.append(state.sref(inner))
                else:
                    walk(inner)

        walk(stmt)
        return found

    def get_sref(self, stmt: Any) -> StmtSRef:
        """Return the identity of a For, BlockRealize or Block of the current program."""
        key = stmt.loop_var if isinstance(stmt, For) else getattr(stmt, "block", stmt)
        for state in self._functions.values():
            if key in state.sref_of:
                return self.handed_out(state.sref_of[key])
        for variable, function in self._module.functions.items():
            if variable not in self._functions and isinstance(function, PrimFunc):
                state = self.function_state(variable)
                if key in state.sref_of:
                    return self.handed_out(state.sref_of[key])
        raise ScheduleError("the statement is not a loop or block of the program as it is now")

    def find_blocks(self, name: str, variable: GlobalVar) -> list[StmtSRef]:
        """Return all blocks of that name in a function, in program order."""
        state = self.function_state(variable)
        return [state.sref(block) for block in state.blocks_named(name)]

    def root(self, variable: GlobalVar) -> StmtSRef:
        """Return the root block of a function."""
        state = self.function_state(variable)
        if not isinstance(state.function.body, BlockRealize):
            raise ScheduleError(
                f"function '{variable.name_hint}' has no root block, so it cannot be scheduled",
                notes=("write the computation in blocks (`with T.block(...)`)",),
            )
        return state.sref(state.function.body)

    def replace(
        self, src_sref: StmtSRef, tgt_stmt: Stmt, block_sref_reuse: dict[Block, Block] | None = None
    ) -> None:
        """Replace the statement of ``src_sref``; see ``FunctionState.replace``."""
        variable = self._function_of[src_sref]
        state = self._functions[variable]
        owned = state.own()
        if owned is not state:
            self._functions[variable] = owned
        with deep_recursion():
            owned.replace(src_sref, tgt_stmt, block_sref_reuse or {})
        for sref in owned.stmt_of.keys() - self._function_of.keys():
            self._function_of[sref] = variable

    def adopt(self, sref: StmtSRef, block: Block) -> None:
        """Keep the identity of a block that is removed from the program and will be inserted
        again.
        """
        variable = self._function_of[sref]
        state = self._functions[variable].own()
        self._functions[variable] = state
        state.sref_of[block] = sref

    def replace_function(self, variable: GlobalVar, function: PrimFunc) -> None:
        """Replace the signature or attributes of a function; its body must be the current one."""
        state = self._functions[variable].own()
        self._functions[variable] = state
        state.function = function

    def buffers_of(self, variable: GlobalVar) -> list[Buffer]:
        """Return the buffers of the parameters of a function."""
        return list(self.function_state(variable).function.buffer_map.values())


def _mask(debug_mask: Any) -> int:
    """Return the mask as a number; if the user requests no checks, the knob ``check_schedules`` may
    request all.
    """
    if isinstance(debug_mask, str):
        known = {"none": 0, "all": -1}
        if debug_mask not in known:
            raise ScheduleError(
                f"debug_mask is 'none', 'all', a ScheduleDebugMask or a number, got '{debug_mask}'"
            )
        return known[debug_mask] or (-1 if knobs.check_schedules else 0)
    if not isinstance(debug_mask, int):
        raise ScheduleError(
            f"debug_mask is 'none', 'all', a ScheduleDebugMask or a number, got {debug_mask!r}"
        )
    return int(debug_mask)
