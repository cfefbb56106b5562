"""Counts the operations and the allocated bytes of a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.ir import (
    BinaryOp,
    Call,
    Cast,
    Dispatcher,
    IntImm,
    IRModule,
    Let,
    Node,
    Not,
    PrimExpr,
    Select,
    Visitor,
)  # fmt: skip
from tilesmith.ir.queries import called_name, nodes
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
)  # fmt: skip

__all__ = [
    "calculate_allocated_bytes", "calculate_constant_bytes", "calculate_workspace_bytes",
    "estimate_tir_flops", "find_anchor_block",
]  # fmt: skip


_OPERATIONS = {
    "tir.dot_bf16bf16": 3, "tir.dot_i16i16": 3, "tir.dot_i8i8": 7, "tir.dot_u8i8": 7,
}  # fmt: skip
"""Products and additions of calls that are more than one operation."""


class _Flops(Dispatcher[float]):
    """Counts operations on values, but not the arithmetic of indices."""

    def total(self, items: Iterable[Any]) -> float:
        count = 0.0
        for item in items:
            count += self.visit(item)
        return count

    def visit_PrimExpr(self, node: PrimExpr) -> float:
        return 0.0

    def visit_BinaryOp(self, node: BinaryOp) -> float:
        return self.visit(node.a) + self.visit(node.b) + node.dtype.lanes

    def visit_Not(self, node: Not) -> float:
        return self.visit(node.a) + 1

    def visit_Cast(self, node: Cast) -> float:
        return self.visit(node.value) + 1

    def visit_Select(self, node: Select) -> float:
        branches = max(self.visit(node.true_value), self.visit(node.false_value))
        return self.visit(node.condition) + branches + 1

    def visit_Let(self, node: Let) -> float:
        return self.visit(node.value) + self.visit(node.body)

    def visit_Call(self, node: Call) -> float:
        return self.total(node.args) + _OPERATIONS.get(called_name(node), 1)

    def visit_Stmt(self, node: Stmt) -> float:
        count = 0.0
        for child in node.children():
            count += self.visit(child)
        return count

    def visit_SeqStmt(self, node: SeqStmt) -> float:
        return self.total(node.seq)

    def visit_For(self, node: For) -> float:
        if not isinstance(node.extent, IntImm):
            raise UnsupportedError(
                f"the extent of the loop over '{node.loop_var.name}' is not constant",
                span=node.span,
                notes=("bind the symbolic sizes first: func.specialize",),
            )
        return node.extent.value * self.visit(node.body)

    def visit_IfThenElse(self, node: IfThenElse) -> float:
        other = 0.0 if node.else_case is None else self.visit(node.else_case)
        return self.visit(node.condition) + max(self.visit(node.then_case), other)

    def visit_BufferStore(self, node: BufferStore) -> float:
        return self.visit(node.value)

    def visit_BlockRealize(self, node: BlockRealize) -> float:
        return self.visit(node.block)

    def visit_Block(self, node: Block) -> float:
        return self.visit(node.body) + (0.0 if node.init is None else self.visit(node.init))

    def visit_AttrStmt(self, node: AttrStmt) -> float:
        return self.visit(node.body)

    def visit_Allocate(self, node: Allocate) -> float:
        return self.visit(node.body)

    def visit_AllocateConst(self, node: AllocateConst) -> float:
        return self.visit(node.body)

    def visit_PrimFunc(self, node: PrimFunc) -> float:
        return self.visit(node.body)

    def visit_default(self, node: Any) -> float:
        return 0.0


def estimate_tir_flops(stmt_or_mod: Any) -> float:
    """Return the number of operations of a statement, function or module.

    An annotation ``estimated_flops`` of a function overrides its count. Raises UnsupportedError
    where the extent of a loop is symbolic.
    """
    with deep_recursion():
        if isinstance(stmt_or_mod, IRModule):
            count = 0.0
            for function in stmt_or_mod.functions.values():
                if isinstance(function, PrimFunc):
                    given = function.attrs.get("estimated_flops")
                    count += _Flops().visit(function) if given is None else given
            return count
        return _Flops().visit(stmt_or_mod)


def _bytes_of(node: Allocate | AllocateConst) -> int:
    """Return the bytes of an allocation; 0 where its size is not constant."""
    count = 1
    for extent in node.extents:
        if not isinstance(extent, IntImm):
            return 0
        count *= extent.value
    return count * node.dtype.nbytes


def _align(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


class _AllocatedBytes(Visitor):
    """Computes the largest sum of live allocations, by storage scope."""

    def __init__(self) -> None:
        self.live: dict[str, int] = {}
        self.most: dict[str, int] = {}

    def visit_Allocate(self, node: Allocate) -> None:
        scope = node.buffer_var.storage_scope or "global"
        size = _bytes_of(node)
        self.live[scope] = self.live.get(scope, 0) + size
        self.most[scope] = max(self.most.get(scope, 0), self.live[scope])
        self.visit(node.body)
        self.live[scope] -= size

    def visit_Block(self, node: Block) -> None:
        sizes = []
        for buffer in node.alloc_buffers:
            size = buffer.dtype.nbytes
            for extent in buffer.shape:
                size *= extent.value if isinstance(extent, IntImm) else 0
            scope = buffer.scope()
            self.live[scope] = self.live.get(scope, 0) + size
            self.most[scope] = max(self.most.get(scope, 0), self.live[scope])
            sizes.append((scope, size))
        node.for_each_child(self.visit)
        for scope, size in sizes:
            self.live[scope] -= size


def calculate_allocated_bytes(func_or_mod: PrimFunc | IRModule) -> dict[str, Any]:
    """Return the peak number of allocated bytes by storage scope; for a module by the names of its
    functions."""
    if isinstance(func_or_mod, IRModule):
        return {
            variable.name_hint: calculate_allocated_bytes(function)
            for variable, function in func_or_mod.functions.items()
            if isinstance(function, PrimFunc)
        }
    counter = _AllocatedBytes()
    with deep_recursion():
        counter.visit(func_or_mod.body)
    return counter.most


class _WorkspaceBytes(Visitor):
    def __init__(self, alignment: int) -> None:
        self.alignment = alignment
        self.live = 0
        self.most = 0

    def visit_Allocate(self, node: Allocate) -> None:
        size = _align(_bytes_of(node), self.alignment)
        self.live += size
        self.most = max(self.most, self.live)
        self.visit(node.body)
        self.live -= size


def calculate_workspace_bytes(func: PrimFunc, workspace_byte_alignment: int) -> int:
    """Return the largest number of bytes that a lowered function allocates at once."""
    counter = _WorkspaceBytes(int(workspace_byte_alignment))
    with deep_recursion():
        counter.visit(func.body)
    return counter.most


def calculate_constant_bytes(func: PrimFunc, constant_byte_alignment: int) -> int:
    """Return the bytes of all constants of a lowered function."""
    alignment = int(constant_byte_alignment)
    return sum(_align(_bytes_of(node), alignment) for node in nodes(func.body, AllocateConst))


def _reductions(root: Stmt) -> list[tuple[Block, int]]:
    """Yield the blocks with an ``init``, with the number of times that they run."""
    found: list[tuple[Block, int]] = []
    stack: list[tuple[Node, int]] = [(root, 1)]
    while stack:
        node, times = stack.pop()
        if isinstance(node, For):
            times *= node.extent.value if isinstance(node.extent, IntImm) else 1
        elif isinstance(node, Block) and node.init is not None:
            found.append((node, times))
        inner = [child for child in node.children() if isinstance(child, Stmt)]
        stack += [(child, times) for child in reversed(inner)]
    return found


def find_anchor_block(mod: IRModule) -> Block | None:
    """Return the reduction block in which the entry function of a module does most of its work;
    None where it has no reduction."""
    functions = [f for f in mod.functions.values() if isinstance(f, PrimFunc)]
    entry = next((f for f in functions if f.attrs.get("tir.is_entry_func")), None)
    if entry is None and "main" in mod and isinstance(mod["main"], PrimFunc):
        entry = mod["main"]
    if entry is None and len(functions) == 1:
        entry = functions[0]
    if entry is None:
        return None
    found = _reductions(entry.body)
    if not found:
        return None
    with deep_recursion():
        return max(found, key=lambda pair: pair[1] * _Flops().visit(pair[0].body))[0]
