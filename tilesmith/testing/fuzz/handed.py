"""Hands the pointers of tensors to functions that read and write the memory behind them.

A stage's form may have ``handed``, a dictionary:

- ``part``: what another function does of the block: "all" of it, or of each of its stores only the
  "reads" (it computes the value) or the "writes" (it stores the value)
- ``to``: "function" (made of that part, in the same module), or "packed" (a registered function
  that moves one element between two tensors)
- ``how``: what a function of the module gets for each tensor: "data" (``X.data``), "access"
  (``tvm_access_ptr``), "element" (the address of the first element), or "row" (that of a row, where
  all accesses lie in one; else that of the first element)

The regions of the block stay those of the accesses, which the called function makes now.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tilesmith import tir
from tilesmith.ir import (
    And,
    BinaryOp,
    Call,
    Cast,
    GlobalVar,
    Or,
    PointerType,
    PrimExpr,
    Rewriter,
    Var,
    const,
    structural_equal,
)
from tilesmith.ir.queries import mentions, nodes
from tilesmith.ir.types import prim_type
from tilesmith.testing.fuzz.intrinsics import MOVE
from tilesmith.tir import Buffer, BufferLoad, BufferStore, PrimFunc, decl_buffer
from tilesmith.tir.free_variables import free_variables
from tilesmith.tir.functor import Substitution
from tilesmith.tir.queries import accesses, buffers
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import Block, DeclBuffer, Evaluate, Stmt, stmt_seq

__all__ = ["Hander", "draw_handed"]

Handed = dict[str, str]

_FIRST = (const(0, "int32"),)
"""The place of the element of a buffer that has one."""


def draw_handed(rng: random.Random) -> Handed:
    """Return a random form of handing pointers on."""
    if rng.random() < 0.3:
        return {"part": rng.choice(["reads", "writes"]), "to": "packed"}
    return {
        "part": rng.choice(["all", "all", "reads", "writes"]), "to": "function",
        "how": rng.choice(["data", "data", "access", "element", "row", "row"]),
    }  # fmt: skip


class Hander:
    """Gives parts of blocks to other functions; ``functions`` are those made for the module."""

    def __init__(self, form: Handed) -> None:
        self.form = form
        self.functions: dict[GlobalVar, PrimFunc] = {}
        self.extents: dict[Var, PrimExpr] = {}  # of the iterators of the block, from 0

    def block(self, block: Block, iterators: Sequence[Var], extents: Sequence[PrimExpr]) -> Block:
        """Return a block of which other functions do a part."""
        self.extents = dict(zip(iterators, extents))
        if self.form["part"] == "all":
            name = block.name_hint + "_part"
            return block.with_fields(body=self._outlined(block.body, name))
        stores = _Stores(self, block)
        body = stores.visit(block.body)
        return block.with_fields(body=body, alloc_buffers=(*block.alloc_buffers, *stores.kept))

    # Functions of the module.

    def _outlined(self, part: Stmt, name: str) -> Stmt:
        """Return the call of a new function that does what a statement did."""
        free = set(free_variables(part))
        arguments: dict[Var, PrimExpr] = {}  # what the call passes for each parameter
        for buffer in [one for one in buffers(part) if one.data in free]:
            pointer, passed, part = self._through(buffer, part)
            arguments[pointer] = passed
        scalars = {one: Var(one.name, one.dtype) for one in free_variables(part, arguments)}
        arguments.update({own: outside for outside, own in scalars.items()})
        variable = GlobalVar(f"{name}{len(self.functions) or ''}")
        self.functions[variable] = PrimFunc([*arguments], Substitution(scalars).visit(part))
        return Evaluate(Call("void", variable, tuple(arguments.values())))

    def _through(self, buffer: Buffer, part: Stmt) -> tuple[Var, PrimExpr, Stmt]:
        """Return a pointer, what is passed for it, and a statement that accesses a buffer through
        the pointer.
        """
        how = self.form["how"]
        kind = PointerType(prim_type(buffer.dtype), buffer.scope())
        pointer = Var(f"{buffer.name}_data", kind)
        row = self._row(buffer, part) if how == "row" else None
        changes: dict[str, Any] = {"data": pointer}
        if how == "data":
            passed: PrimExpr = buffer.data
        elif how == "access":
            passed = buffer.access_ptr("rw")
        else:
            zeros = [const(0, size.dtype) for size in buffer.shape]
            first = BufferLoad(buffer, zeros if row is None else [row, *zeros[1:]])
            passed = tir.address_of(first)
        if how != "data":
            changes["elem_offset"] = const(0, buffer.elem_offset.dtype)
        if row is not None:
            changes |= {"shape": buffer.shape[1:], "strides": buffer.strides[1:]}
        view = buffer.with_fields(**changes)
        part = _Through(buffer, view, row is not None).visit(part)
        return pointer, passed, DeclBuffer(view, part)

    def _row(self, buffer: Buffer, part: Stmt) -> Var | None:
        """Return the iterator that all accesses of a buffer have as their first index, if there is
        one, each value of it is in bounds, and there is another dimension.
        """
        if len(buffer.shape) < 2 or mentions(part, {buffer.data}):
            return None
        row, *others = [one.indices[0] for one in accesses(part, buffer)]
        if not isinstance(row, Var) or any(other is not row for other in others):
            return None
        if row not in self.extents or row not in set(free_variables(part)):
            return None  # a loop inside the part: the call knows no value of it
        return row if structural_equal(self.extents[row], buffer.shape[0]) else None

    # Packed functions.

    def moved(self, source: BufferLoad | BufferStore, target: BufferLoad | BufferStore) -> Stmt:
        """Return the call of the packed function that moves an element."""
        tensors = source.buffer, target.buffer
        return Evaluate(tir.call_packed(MOVE, *tensors, *source.indices, *target.indices))

    def value(self, store: BufferStore, kept: Buffer, name: str) -> tuple[Stmt, list[Buffer]]:
        """Return a statement that stores the value of a store in a buffer of one element, for which
        another function reads memory, and further buffers that it needs.
        """
        here = BufferStore(kept, store.value, _FIRST)
        if self.form["to"] == "function":
            return self._outlined(here, name), []
        load = _first_load(store.value)
        if load is None:
            return here, []
        copy = decl_buffer((1,), load.buffer.dtype, kept.name + "_read", scope="local")
        read = BufferLoad(copy, _FIRST)
        return stmt_seq(self.moved(load, read), _Replace(load, read).visit(here)), [copy]

    def stored(self, store: BufferStore, kept: Buffer, name: str) -> Stmt:
        """Return a statement by which another function stores the element of a buffer."""
        value = BufferLoad(kept, _FIRST)
        if self.form["to"] == "function":
            return self._outlined(store.with_fields(value=value), name)
        return self.moved(value, store)


class _Stores(Rewriter):
    """Divides the stores of a block into one to a buffer of one element, and one from it."""

    def __init__(self, hander: Hander, block: Block) -> None:
        self.hander = hander
        self.name = block.name_hint
        self.own = {buffer.data for buffer in block.alloc_buffers}
        self.kept: list[Buffer] = []

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if store.buffer.data in self.own:
            return store
        name = f"{self.name}_handed{len(self.kept) or ''}"
        kept = decl_buffer((1,), store.buffer.dtype, name, scope="local")
        self.kept.append(kept)
        if self.hander.form["part"] == "writes":
            made: Stmt = BufferStore(kept, store.value, _FIRST)
            return stmt_seq(made, self.hander.stored(store, kept, name))
        made, more = self.hander.value(store, kept, name)
        self.kept += more
        return stmt_seq(made, store.with_fields(value=BufferLoad(kept, _FIRST)))


class _Through(AccessRedirection):
    """Accesses a buffer through a view, which may be one of its rows."""

    def __init__(self, buffer: Buffer, view: Buffer, is_row: bool) -> None:
        self.buffer = buffer
        self.view = view
        self.is_row = is_row

    def redirected(self, buffer: Buffer) -> Buffer | None:
        return self.view if buffer is self.buffer else None

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Sequence[PrimExpr]:
        return indices[1:] if self.is_row else indices

    def visit_Var(self, variable: Var) -> Var:
        return self.view.data if variable is self.buffer.data else variable


class _Replace(Rewriter):
    """Replaces one expression, the same object: equal ones elsewhere stay."""

    def __init__(self, old: PrimExpr, new: PrimExpr) -> None:
        self.old = old
        self.new = new

    def visit(self, node: Any) -> Any:
        return self.new if node is self.old else super().visit(node)


def _first_load(value: PrimExpr) -> BufferLoad | None:
    """Return a load that an expression makes whatever its other values are, and whose indices load
    nothing; None if there is none. Below a ``let``, a branch or a call there may be none.
    """
    if isinstance(value, BufferLoad):
        return value if next(nodes(value.indices, BufferLoad), None) is None else None
    if not isinstance(value, (BinaryOp, Cast)) or isinstance(value, (And, Or)):
        return None
    for part in value.children():
        found = _first_load(part) if isinstance(part, PrimExpr) else None
        if found is not None:
            return found
    return None
