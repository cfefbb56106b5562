"""Tensors that change their place and sizes while a function runs: results of branches whose
shapes differ, and what a loop carries from one iteration to the next.

    cell = [address, size of axis 0, size of axis 1, …]

What is stored is a copy in memory of its own, or that memory itself (`keep`); it lives until it is
released. A value whose size stays the same has two places instead, which change their roles
(`Alternation`).
"""

from __future__ import annotations

from typing import Any

from tilesmith.driver.graph_steps import Step, access, number_of_bytes, packed_call
from tilesmith.driver.graph_values import TensorValue, TupleValue
from tilesmith.driver.memory_plan import Storage
from tilesmith.ir import Call, PointerType, PrimExpr, StringImm, Var, const
from tilesmith.ir.operators import cast, not_equal
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType
from tilesmith.tir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    IfThenElse,
    LetStmt,
    Stmt,
    stmt_seq,
)

__all__ = ["Alternation", "Cell", "load_cells"]

_INT64 = DataType("int64")


def _at(place: int) -> list[PrimExpr]:
    return [const(place, "int64")]


class Cell:
    """Where a tensor of any size is, and its sizes, in the workspace."""

    def __init__(self, frame: Var, shape: tuple[PrimExpr | None, ...], dtype: DataType) -> None:
        self.frame = frame
        self.shape = shape
        """The sizes; None for those that change."""
        self.dtype = dtype
        self.storage = Storage.workspace(const(8 * (1 + len(shape)), "int64"))

    def store(self, value: TensorValue) -> Step:
        """Return the step that stores a copy of a tensor; what was there is not released."""

        def emit() -> Stmt:
            size = number_of_bytes(value.shape, value.dtype)
            address = Var("address", "int64")
            target = Call("handle", "tir.reinterpret", (address,))
            words = (StringImm("memcpy"), target, value.storage.pointer(), size)
            copy = Evaluate(Call("handle", "tir.call_extern", words))
            made = packed_call("int64", "tilesmith.runtime.reserve", self.frame, size)
            return LetStmt(address, made, stmt_seq(copy, self._store(address, value.shape)))

        return Step(emit, [value.storage, self.storage])

    def keep(self, value: TensorValue) -> Step:
        """Return the step that stores a tensor whose memory was reserved for it: the cell takes
        that memory over.
        """
        made = value.storage.reservation
        assert made is not None
        made.is_kept = True

        def emit() -> Stmt:
            return self._store(_address(made.pointer), value.shape)

        return Step(emit, [value.storage, self.storage])

    def append(self, address: Var, data: TensorValue, row: TensorValue) -> Step:
        """Return the step that stores one more element behind those of the tensor ``data``, which
        is at an address: its memory grows where that is necessary.
        """

        def emit() -> Stmt:
            used = number_of_bytes(data.shape, data.dtype)
            size = number_of_bytes(row.shape, row.dtype)
            grown = Var("address", "int64")
            target = Call("handle", "tir.reinterpret", (grown + used,))
            words = (StringImm("memcpy"), target, row.storage.pointer(), size)
            copy = Evaluate(Call("handle", "tir.call_extern", words))
            arguments = (self.frame, address, used, used + size)
            made = packed_call("int64", "tilesmith.runtime.extend", *arguments)
            store = self._store(grown, (data.shape[0] + 1, *data.shape[1:]))
            return LetStmt(grown, made, stmt_seq(copy, store))

        return Step(emit, [row.storage, self.storage])

    def _store(self, address: PrimExpr, shape: tuple[PrimExpr, ...]) -> Stmt:
        def use(buffer: Buffer) -> Stmt:
            words = [address, *[cast("int64", size) for size in shape]]
            return stmt_seq(
                *[BufferStore(buffer, word, _at(place)) for place, word in enumerate(words)]
            )

        return access(self.storage.pointer(), 1 + len(self.shape), _INT64, "cell", use)

    def load(self, is_last: bool = False) -> tuple[Step, TensorValue, Var]:
        """Return the step that defines the tensor as it is now, the tensor, and its address.

        After the ``is_last`` one the memory is released with its last use.
        """
        address = Var("address", "int64")
        pointer = Var("memory", PointerType(prim_type(DataType("uint8")), "global"))
        shape = tuple(
            [
                Var(f"size_{axis}", "int64") if size is None else size
                for axis, size in enumerate(self.shape)
            ]
        )
        storage = Storage.outside(lambda: pointer)

        def bind(rest: Stmt) -> Stmt:
            def use(buffer: Buffer) -> Stmt:
                found = Call("handle", "tir.reinterpret", (address,))
                inner: Stmt = LetStmt(pointer, found, rest)
                for axis, size in enumerate(shape):
                    if self.shape[axis] is None and isinstance(size, Var):
                        inner = LetStmt(size, BufferLoad(buffer, _at(1 + axis)), inner)
                return LetStmt(address, BufferLoad(buffer, _at(0)), inner)

            return access(self.storage.pointer(), 1 + len(shape), _INT64, "cell", use)

        touched = [self.storage, storage] if is_last else [self.storage]
        step = Step(bind=bind, storages=touched, reserves=storage if is_last else None)
        return step, TensorValue(storage, shape, self.dtype), address

    def release(self, address: Var) -> Step:
        """Return the step that releases what was stored at an address."""
        call = packed_call("int32", "tilesmith.runtime.release", self.frame, address)
        return Step(lambda: Evaluate(call))


def load_cells(value: Any, steps: list[Step]) -> Any:
    """Return a value with the tensors that its cells hold; the memory is released after their last
    use.
    """
    if isinstance(value, TupleValue):
        return TupleValue([load_cells(one, steps) for one in value.fields])
    if not isinstance(value, Cell):
        return value
    step, tensor, _ = value.load(is_last=True)
    steps.append(step)
    return tensor


class Alternation:
    """Two places of a value that a loop computes anew: an iteration reads one and writes the other.

    ``first`` is where the value is before and after the loop. ``current`` and ``following`` are the
    addresses inside of it.
    """

    def __init__(self, first: Storage, size: PrimExpr) -> None:
        self.first = first
        self.size = size
        self.second = Storage.workspace(size)
        self.cell = Storage.workspace(const(16, "int64"))
        bytes_ = PointerType(prim_type(DataType("uint8")), "global")
        self.current, self.following = Var("current", bytes_), Var("following", bytes_)

    @property
    def storages(self) -> list[Storage]:
        """The memory that is in use as long as the loop runs."""
        return [self.first, self.second, self.cell]

    def begin(self) -> Step:
        """Return the step before the loop."""
        return Step(lambda: self._store(self.first.pointer(), self.second.pointer()), self.storages)

    def load(self) -> Step:
        """Return the step that defines the addresses of an iteration."""

        def bind(rest: Stmt) -> Stmt:
            def use(buffer: Buffer) -> Stmt:
                whole = rest
                for place, pointer in enumerate((self.current, self.following)):
                    found = Call("handle", "tir.reinterpret", (BufferLoad(buffer, _at(place)),))
                    whole = LetStmt(pointer, found, whole)
                return whole

            return access(self.cell.pointer(), 2, _INT64, "places", use)

        return Step(bind=bind, storages=self.storages)

    def turn(self) -> Step:
        """Return the step after which the next iteration reads what this one has written."""
        return Step(lambda: self._store(self.following, self.current), self.storages)

    def end(self) -> Step:
        """Return the step after the loop: the value moves to the first place if it is not there."""

        def emit() -> Stmt:
            def use(buffer: Buffer) -> Stmt:
                address = BufferLoad(buffer, _at(0))
                source = Call("handle", "tir.reinterpret", (address,))
                words = (StringImm("memcpy"), self.first.pointer(), source, self.size)
                copy = Evaluate(Call("handle", "tir.call_extern", words))
                return IfThenElse(not_equal(address, _address(self.first.pointer())), copy)

            return access(self.cell.pointer(), 2, _INT64, "places", use)

        return Step(emit, self.storages)

    def _store(self, *pointers: PrimExpr) -> Stmt:
        def use(buffer: Buffer) -> Stmt:
            stores = [
                BufferStore(buffer, _address(pointer), _at(place))
                for place, pointer in enumerate(pointers)
            ]
            return stmt_seq(*stores)

        return access(self.cell.pointer(), 2, _INT64, "places", use)


def _address(pointer: PrimExpr) -> PrimExpr:
    return Call("int64", "tir.reinterpret", (pointer,))
