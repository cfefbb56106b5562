"""Collects the elements of buffers that a statement may read or write.

    for i in range(n):                          reads B[i + 1] for i in [0, n)
        if i < 4:                               writes A[i] for i in [0, n) where i < 4
            A[i] = B[i + 1]

The sets that are returned may be too large, never too small. What calls touch has no indices: that
is told as pointers, where None stands for any memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilesmith.ir import Call, CallEffectKind, Let, Node, PrimExpr, Var
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.queries import any_node, calls, is_call
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import executed, loads, statements, stores
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
)
from tilesmith.tir.transform.simplification.buffer_elements import (
    Elements,
    conditions_of,
    negated,
)

__all__ = [
    "bound",
    "each",
    "has_pointer_names",
    "is_of_threads",
    "loaded_elements",
    "may_write",
    "read_elements",
    "read_pointers",
    "stored_buffers",
    "under",
    "written_elements",
    "written_pointers",
]

_THREADS = ("thread_extent", "virtual_thread")
_AROUND = (Allocate, AllocateConst, AssertStmt, AttrStmt, DeclBuffer)


def is_of_threads(stmt: Stmt) -> bool:
    """Return whether the body of a statement runs on several threads at the same time."""
    return isinstance(stmt, AttrStmt) and stmt.attr_key in _THREADS


# -- changes of sets


def each(sets: Sequence[Elements], change: Callable[[Elements], Elements | None]) -> list[Elements]:
    """Return the sets that a change leaves."""
    made = [change(elements) for elements in sets]
    return [elements for elements in made if elements is not None]


def under(sets: Sequence[Elements], condition: PrimExpr) -> list[Elements]:
    """Return sets that a part of the program touches which runs under a condition."""
    parts = conditions_of(condition)
    return each(sets, lambda elements: elements.where(parts))


def bound(sets: Sequence[Elements], realize: BlockRealize) -> list[Elements]:
    """Return sets outside of a block: with the values of its iterators."""
    found = list(sets)
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
        found = [new for one in found if (new := one.replaced(iterator.var, value)) is not None]
    return found


# -- writes


def written_pointers(stmt: Stmt) -> set[Var | None]:
    """Return the pointers through which a statement writes; None stands for any pointer."""
    found: set[Var | None] = {store.buffer.data for store in stores(stmt)}
    if may_write(stmt):
        found.add(None)
    return found


def may_write(node: Node) -> bool:
    """Return whether a call in a program may write memory."""
    return any(
        is_call(call, "tir.address_of") or effect_of(call) is CallEffectKind.UpdateState
        for call in calls(node)
    )


def stored_buffers(stmt: Stmt) -> list[Elements]:
    """Return all elements of the buffers that a statement stores to."""
    return _whole([store.buffer for store in stores(stmt)])


def _whole(touched: Sequence[Buffer]) -> list[Elements]:
    return [Elements(buffer, None) for buffer in dict.fromkeys(touched)]


def written_elements(stmt: Stmt) -> list[Elements]:
    """Return the elements that a statement may write through its stores."""
    return _touched(stmt, _stored_here, stored_buffers)


def _stored_here(stmt: Stmt) -> list[Elements]:
    if isinstance(stmt, BufferStore):
        return [Elements.of_access(stmt.buffer, stmt.indices)]
    return []


# -- reads


def read_pointers(node: Node) -> set[Var | None]:
    """Return the pointers that a program uses otherwise than in loads and stores; None stands for
    any pointer: a call may read what it knows, and what is returned ends the function."""
    found: set[Var | None] = set()
    for part in executed(node):
        if isinstance(part, Call) and effect_of(part) >= CallEffectKind.UpdateState:
            found.add(None)
        elif is_call(part, "tir.address_of") and isinstance(part.args[0], BufferLoad):
            found.add(part.args[0].buffer.data)
        elif isinstance(part, MatchBufferRegion):  # read under the name of the view
            found.add(part.source.buffer.data)
        elif isinstance(part, Var) and part.dtype.is_handle:
            found.add(part)
    return found


def read_elements(stmt: Stmt) -> list[Elements]:
    """Return the elements that a statement may read through its loads."""
    return _touched(stmt, _loaded_here, _loaded_buffers)


def _loaded_buffers(stmt: Node) -> list[Elements]:
    return _whole([load.buffer for load in loads(stmt)])


def _loaded_here(stmt: Stmt) -> list[Elements]:
    own = [part for part in stmt.children() if isinstance(part, PrimExpr)]
    return [elements for part in own for elements in loaded_elements(part)]


def loaded_elements(expr: PrimExpr) -> list[Elements]:
    """Return the elements that an expression may load."""
    if any_node(expr, lambda node: isinstance(node, Let)):  # indices may use what it binds
        return _loaded_buffers(expr)
    return [Elements.of_access(load.buffer, load.indices) for load in loads(expr)]


# -- both


def _touched(
    stmt: Stmt,
    here: Callable[[Stmt], list[Elements]],
    anywhere: Callable[[Stmt], list[Elements]],
) -> list[Elements]:
    """Return what ``here`` finds in a statement (without those inside it) and in those inside it;
    ``anywhere`` finds whole buffers in statements of other kinds."""

    def inside(part: Stmt | None) -> list[Elements]:
        return [] if part is None else _touched(part, here, anywhere)

    if isinstance(stmt, SeqStmt):
        return [elements for part in stmt.seq for elements in inside(part)]
    if isinstance(stmt, BufferStore):
        return here(stmt)
    if isinstance(stmt, For):
        found = each(inside(stmt.body), lambda e: e.over(stmt.loop_var, stmt.min, stmt.extent))
        return here(stmt) + found
    if isinstance(stmt, IfThenElse):
        found = under(inside(stmt.then_case), stmt.condition)
        return here(stmt) + found + under(inside(stmt.else_case), negated(stmt.condition))
    if isinstance(stmt, LetStmt):
        return here(stmt) + each(inside(stmt.body), lambda e: e.replaced(stmt.var, stmt.value))
    if isinstance(stmt, BlockRealize) and not stmt.block.match_buffers:
        found = inside(stmt.block.body) + inside(stmt.block.init)
        return here(stmt) + bound(under(found, stmt.predicate), stmt)
    if isinstance(stmt, _AROUND) and not is_of_threads(stmt):
        return here(stmt) + inside(stmt.body)
    return anywhere(stmt)


def has_pointer_names(func: PrimFunc) -> bool:
    """Return whether memory has names that its buffer does not tell: pointers that are bound by
    lets or computed."""
    if any(isinstance(s, LetStmt) and s.var.dtype.is_handle for s in statements(func.body)):
        return True
    return any_node(func.body, lambda node: is_call(node, "tir.tvm_access_ptr"))
