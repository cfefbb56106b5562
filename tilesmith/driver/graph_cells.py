"""Tensors that change their place and sizes while a function runs: results of branches whose
shapes differ, and what a loop carries from one iteration to the next.

    cell = [address, size of axis 0, size of axis 1, …]

Whatever is stored is a copy in memory of its own, which lives until it is released.
"""

from __future__ import annotations

from typing import Any

from tilesmith.driver.graph_steps import Step, access, number_of_bytes, packed_call
from tilesmith.driver.graph_values import TensorValue, TupleValue
from tilesmith.driver.memory_plan import Storage
from tilesmith.ir import Call, PointerType, PrimExpr, StringImm, Var, const
from tilesmith.ir.operators import cast
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType
from tilesmith.tir import Buffer, BufferLoad, BufferStore, Evaluate, LetStmt, Stmt, stmt_seq

__all__ = ["Cell", "load_cells"]

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

            def use(buffer: Buffer) -> Stmt:
                stores = [
                    BufferStore(buffer, cast("int64", word), _at(place))
                    for place, word in enumerate([address, *value.shape])
                ]
                return stmt_seq(Evaluate(Call("handle", "tir.call_extern", words)), *stores)

            body = access(self.storage.pointer(), 1 + len(self.shape), _INT64, "cell", use)
            made = packed_call("int64", "tilesmith.runtime.reserve", self.frame, size)
            return LetStmt(address, made, body)

        return Step(emit, [value.storage, self.storage])

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
