"""Where the tensors of a graph function lie while it runs, and how bytes move between them.

On the host they lie at offsets in one block; on a device, whose addresses may be handles that no
offset can be added to, each lies in a slot of its own for some time:

    main(…, workspace: address of a block)              workspace + 1024
    main(…, workspace: address of pointers, device)     workspace[3]

A function that uses several streams of its device has the number of its running call besides.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol

from tilesmith.arith import Analyzer
from tilesmith.driver.graph_steps import Step, copy_bytes, packed_call
from tilesmith.driver.graph_streams import StreamPlan, plan_streams
from tilesmith.driver.memory_plan import PlanMemory, Storage, plan_slots, plan_workspace
from tilesmith.ir import Call, IntImm, PointerType, PrimExpr, Var, const
from tilesmith.ir.operators import cast
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType
from tilesmith.tir import Buffer, BufferLoad, Evaluate, LetStmt, Stmt, decl_buffer

__all__ = ["BlockMemory", "FunctionMemory", "SlotMemory", "pointer_in", "pointer_table"]

_MOST_POINTERS = 1 << 20


def pointer_table(name: str) -> Buffer:
    """Return an array of addresses, whose own address is a parameter."""
    data = Var(name, PointerType(prim_type(DataType("int64")), "global"))
    return decl_buffer((_MOST_POINTERS,), "int64", name, data=data)


def pointer_in(table: Buffer, place: int) -> PrimExpr:
    """Return the address at a place of an array of addresses."""
    return Call("handle", "tir.reinterpret", (BufferLoad(table, [const(place, "int64")]),))


class FunctionMemory(Protocol):
    """What lowering a graph function asks about memory."""

    @property
    def params(self) -> Sequence[Var]:
        """The parameters through which the function gets it."""

    @property
    def place(self) -> tuple[PrimExpr, PrimExpr]:
        """The type and the number of the device that has it, as the function knows them."""

    def arrange(self, steps: Sequence[Step], identity: Callable[[Storage], Hashable]) -> list[Step]:
        """Return the steps as the device carries them out, before their memory is planned. Storages
        of one identity may be the same memory.
        """

    def plan(self, steps: Sequence[Iterable[Storage]], analyzer: Analyzer) -> list[PrimExpr]:
        """Place the storages that each step touches; return the bytes to allocate."""

    def bind(self, body: Stmt) -> Stmt:
        """Define what the places refer to."""

    def copy(self, source: Storage, target: Storage, size: PrimExpr) -> Step:
        """Return the step that copies bytes."""

    def described(self, sizes: Sequence[PrimExpr]) -> dict[str, Any]:
        """Return what the runtime has to know beside the number of bytes in all."""


class BlockMemory:
    """One block of the host's memory."""

    place = (const(1, "int64"), const(0, "int64"))

    def __init__(self, plan: PlanMemory = plan_workspace) -> None:
        bytes_ = PointerType(prim_type(DataType("uint8")), "global")
        self._data, self._address = Var("workspace_data", bytes_), Var("workspace", "int64")
        self._plan = plan
        self.params: Sequence[Var] = [self._address]

    def arrange(self, steps: Sequence[Step], identity: Callable[[Storage], Hashable]) -> list[Step]:
        """Return the steps: the host carries them out one after the other."""
        return list(steps)

    def plan(self, steps: Sequence[Iterable[Storage]], analyzer: Analyzer) -> list[PrimExpr]:
        """Place the storages at offsets; return the bytes of the block."""
        return [self._plan(steps, self._data, analyzer)]

    def bind(self, body: Stmt) -> Stmt:
        """Define the block's address."""
        return LetStmt(self._data, Call("handle", "tir.reinterpret", (self._address,)), body)

    def copy(self, source: Storage, target: Storage, size: PrimExpr) -> Step:
        """Return the step that copies bytes."""
        return copy_bytes(source, target, size)

    def described(self, sizes: Sequence[PrimExpr]) -> dict[str, Any]:
        """Return nothing: the number of bytes is all."""
        return {}


class SlotMemory:
    """Slots of a device's memory, whose addresses are in an array of the host; the steps work on
    at most ``streams`` streams.
    """

    def __init__(self, device_type: int, streams: int = 1) -> None:
        self._device_type = const(device_type, "int64")
        self._streams = streams
        self._order: dict[str, Any] = {}
        self.plan_of_streams: StreamPlan | None = None
        self._table, self._address = pointer_table("workspace_table"), Var("workspace", "int64")
        self._device = Var("device", "int64")
        self.params: Sequence[Var] = [self._address, self._device]
        self.place = (self._device_type, self._device)

    def arrange(self, steps: Sequence[Step], identity: Callable[[Storage], Hashable]) -> list[Step]:
        """Return the steps with what distributes them to streams."""
        if self._streams == 1:
            return list(steps)
        plan = plan_streams(steps, self._streams, identity)
        if plan.count == 1:
            return list(steps)
        self.plan_of_streams, self._order = plan, plan.described(steps)
        running = Var("running_call", "int64")
        self.params = [*self.params, running]
        return plan.apply(steps, running)

    def plan(self, steps: Sequence[Iterable[Storage]], analyzer: Analyzer) -> list[PrimExpr]:
        """Give slots to the storages; return the bytes of each slot."""
        precedes = None if self.plan_of_streams is None else self.plan_of_streams.precedes
        return plan_slots(steps, lambda place: pointer_in(self._table, place), precedes)

    def bind(self, body: Stmt) -> Stmt:
        """Define the address of the array."""
        value = Call("handle", "tir.reinterpret", (self._address,))
        return LetStmt(self._table.data, value, body)

    def copy(self, source: Storage, target: Storage, size: PrimExpr) -> Step:
        """Return the step that copies bytes on the device, in the order of its work."""

        def emit() -> Stmt:
            words = [Call("int64", "tir.reinterpret", (one.pointer(),)) for one in (target, source)]
            name = "tilesmith.runtime.copy_on_device"
            size_ = cast("int64", size)
            return Evaluate(
                packed_call("int32", name, self._device_type, self._device, *words, size_)
            )

        return Step(emit, [source, target], writes=[target], name="copy")

    def described(self, sizes: Sequence[PrimExpr]) -> dict[str, Any]:
        """Return the bytes of each slot (None where the shapes function tells them), and the
        streams.
        """
        slots = [size.value if isinstance(size, IntImm) else None for size in sizes]
        return {"slots": slots, **self._order}
