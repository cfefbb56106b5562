"""Queries over statements and buffers: accesses, buffers in use, side effects.

Accesses are those that a program carries out: the regions that a block declares to read or write
are not entered (the regions that a block matches with buffers are: they are computed). Otherwise
the walk is that of ``ir.queries``, which see.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from tilesmith.ir import (
    Call,
    CallEffectKind,
    Div,
    FloorDiv,
    FloorMod,
    Mod,
    Node,
    Op,
    StringImm,
    Var,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.queries import any_node, is_call, mentions, nodes, walk_stack
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.free_variables import free_variables
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, BufferStore, For, ForKind, Stmt

__all__ = [
    "accesses", "accesses_element_only", "addresses", "buffers", "can_fail", "executed",
    "free_variables", "has_barrier_of_grid", "has_loop_of_kind", "has_side_effect", "is_speculable",
    "is_used_as_pointer", "loads", "reads_memory", "statements", "stores", "uses_variable",
]  # fmt: skip


def executed(root: Node | Sequence[Node]) -> Iterator[Node]:
    """Yield ``root`` and all nodes below it, without the regions that blocks declare."""
    stack = walk_stack(root)
    pop = stack.pop
    while stack:
        node = pop()
        yield node
        if node.__class__ is Block:
            _push_executed(node, stack)
        else:
            node.push_children(stack)


def _push_executed(block: Block, stack: list[Node]) -> None:
    stack.append(block.body)
    if block.init is not None:
        stack.append(block.init)
    stack += block.match_buffers[::-1]
    stack += block.iter_vars[::-1]


def loads(root: Node | Sequence[Node], buffer: Buffer | None = None) -> Iterator[BufferLoad]:
    """Yield the loads, or those of one buffer; an outer load comes before those in its indices."""
    for node in executed(root):
        if node.__class__ is BufferLoad and (buffer is None or node.buffer is buffer):
            yield node


def stores(root: Node | Sequence[Node], buffer: Buffer | None = None) -> Iterator[BufferStore]:
    """Yield the stores, or those to one buffer."""
    for node in statements(root):
        if node.__class__ is BufferStore and (buffer is None or node.buffer is buffer):
            yield node


def accesses(
    root: Node | Sequence[Node], buffer: Buffer | None = None
) -> Iterator[BufferLoad | BufferStore]:
    """Yield loads and stores, or those of one buffer; a store comes before the loads in it."""
    for node in executed(root):
        if node.__class__ is BufferLoad or node.__class__ is BufferStore:
            if buffer is None or node.buffer is buffer:
                yield node


def statements(root: Node | Sequence[Node]) -> Iterator[Stmt]:
    """Yield the statements in pre-order; expressions are left out."""
    stack = walk_stack(root)
    pop = stack.pop
    while stack:
        node = pop()
        if isinstance(node, Stmt):
            yield node
            node.push_children(stack)
        elif isinstance(node, PrimFunc):
            stack.append(node.body)


def has_loop_of_kind(root: Node | Sequence[Node], kind: ForKind) -> bool:
    """Return whether a statement contains a loop of a kind."""
    for stmt in statements(root):
        if stmt.__class__ is For and stmt.kind is kind:
            return True
    return False


def has_barrier_of_grid(root: Node | Sequence[Node]) -> bool:
    """Return whether threads wait for all blocks: ``T.tvm_storage_sync("global")``."""
    return any_node(
        root,
        lambda node: (
            is_call(node, "tir.tvm_storage_sync")
            and isinstance(node.args[0], StringImm)
            and node.args[0].value == "global"
        ),
    )


def buffers(root: Node | Sequence[Node]) -> list[Buffer]:
    """Return the buffers that are used, in accesses and in declared regions, each once, in order of
    their first use; one that is only defined is not used.
    """
    found: dict[Buffer, None] = {}
    stack = walk_stack(root)
    pop = stack.pop
    while stack:
        node = pop()
        if node.__class__ is Buffer:
            found[node] = None
        else:
            node.push_children(stack)
    return list(found)


def uses_variable(root: Node | Sequence[Node], wanted: Container[Var]) -> bool:
    """Return whether one of some variables occurs; an access uses the pointer of its buffer."""
    stack = walk_stack(root)
    pop = stack.pop
    seen: set[int] = set()
    while stack:
        node = pop()
        if node.is_variable and isinstance(node, Var):
            if node in wanted:
                return True
        elif node.__class__ is Buffer:
            if node.data in wanted:
                return True
        elif id(node) not in seen:
            seen.add(id(node))
            node.push_children(stack)
    return False


def accesses_element_only(call: Call) -> bool:
    """Return whether a call accesses, of the memory behind an address, that element only."""
    return isinstance(call.op, Op) and bool(call.op.get_attr("TAccessesElementOnly", False))


def addresses(root: Node | Sequence[Node]) -> Iterator[BufferLoad]:
    """Yield the elements whose addresses code gets that may go on from there to others: it counts
    on the layout of the buffer."""
    single: set[int] = set()
    for call in nodes(root, Call):
        if accesses_element_only(call):
            single.update([id(arg) for arg in call.args])
        elif is_call(call, "tir.address_of") and id(call) not in single:
            if isinstance(call.args[0], BufferLoad):
                yield call.args[0]


def is_used_as_pointer(root: Node | Sequence[Node], buffer: Buffer) -> bool:
    """Return whether code gets a pointer to the memory of a buffer (``X.data``, or the address of
    an element), by which it counts on the buffer's layout."""
    if mentions(root, {buffer.data}):
        return True
    return any(load.buffer is buffer for load in addresses(root))


def reads_memory(expr: Node | Sequence[Node]) -> bool:
    """Return whether the value of an expression depends on memory."""
    return any_node(expr, _reads)


def _reads(node: Node) -> bool:
    if isinstance(node, Call):
        return effect_of(node) not in (CallEffectKind.Pure, CallEffectKind.ExprAnnotation)
    return node.__class__ is BufferLoad


def is_speculable(expr: Node | Sequence[Node]) -> bool:
    """Return whether an expression may be computed where nothing needs it: it reads no memory, has
    no side effects, and does not divide by a value that may be zero.
    """
    return not any_node(expr, _reads_or_divides)


def _reads_or_divides(node: Node) -> bool:
    if isinstance(node, (Div, Mod, FloorDiv, FloorMod)) and node.dtype.is_integer:
        return not ops.is_const(node.b) or ops.is_const(node.b, 0)
    return _reads(node)


def has_side_effect(expr: Node | Sequence[Node]) -> bool:
    """Return whether evaluating an expression has a side effect."""
    return any_node(expr, _writes)


def _writes(node: Node) -> bool:
    return isinstance(node, Call) and effect_of(node) > CallEffectKind.ReadState


def can_fail(root: Node | Sequence[Node]) -> bool:
    """Return whether a program contains a check (``T.checked``), which may end it with an error."""
    return any_node(root, _is_check)


def _is_check(node: Node) -> bool:
    return is_call(node, "tir.checked")
