"""Statements of a lowered graph function, and memory whose size is known only when it runs.

    n = sizes[0]                                   a size that a kernel has computed
    memory = reserve(frame, n * 4)                 lives up to the last step that touches it
    kernel(input, memory, n)
    release(frame, memory)

`runtime.frame` provides the memory. What the caller gets is reserved as an output instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilesmith.arith import Analyzer
from tilesmith.driver.graph_values import ShapeValue, TensorValue
from tilesmith.driver.memory_plan import Reservation, Storage
from tilesmith.ir import Call, PointerType, PrimExpr, StringImm, Var, const
from tilesmith.ir.operators import cast
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType
from tilesmith.tir import (
    AssertStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    LetStmt,
    Stmt,
    decl_buffer,
    stmt_seq,
)

__all__ = [
    "Step", "access", "assertion", "copy_bytes", "fills", "give_shape", "number_of_bytes",
    "number_of_elements", "packed_call", "read_sizes",
    "reservation", "sequence", "write_sizes",
]  # fmt: skip

_INT64 = DataType("int64")


@dataclass(eq=False)
class Step:
    """One statement of the lowered function, and the memory that it touches.

    ``emit`` makes the statement once the memory is planned; a step that defines a variable has
    ``bind`` instead, which wraps the statements after it. ``reserves`` is the storage that it
    provides. ``writes`` are the storages that it may change, by default all that it touches;
    ``name`` says what work it gives to a device.
    """

    emit: Callable[[], Stmt] | None = None
    storages: list[Storage] = field(default_factory=list)
    bind: Callable[[Stmt], Stmt] | None = None
    reserves: Storage | None = None
    writes: list[Storage] | None = None
    name: str = ""


def sequence(steps: Sequence[Step], frame: Var) -> Stmt:
    """Return the steps as one statement; memory that they reserve is released after its last
    use.
    """
    last: dict[Storage, int] = {}
    for number, step in enumerate(steps):
        last.update(dict.fromkeys(step.storages, number))
    ends: dict[int, list[Storage]] = {}
    for step in steps:
        if step.reserves is not None and step.reserves in last:
            ends.setdefault(last[step.reserves], []).append(step.reserves)
    after: list[Stmt] = []  # the statements after the current step, the first one at the end
    for number in reversed(range(len(steps))):
        step = steps[number]
        after += [
            release(frame, storage) for storage in ends.get(number, ()) if is_scratch(storage)
        ]
        if step.emit is not None:
            after.append(step.emit())
        if step.bind is not None:
            after = [step.bind(stmt_seq(*reversed(after)))]
    return stmt_seq(*reversed(after))


def is_scratch(storage: Storage) -> bool:
    """Return whether memory of a size known at run time is released after its last use."""
    made = storage.reservation
    return made is None or (made.output is None and not made.is_kept)


# Memory of sizes that are known at run time


def reservation(storage: Storage, frame: Var) -> Step:
    """Return the step that reserves the memory of a storage."""
    made = storage.reservation
    assert made is not None

    def bind(rest: Stmt) -> Stmt:
        address = Var("address", "int64")
        return LetStmt(
            address, _memory_call(made, frame), LetStmt(made.pointer, _pointer(address), rest)
        )

    return Step(bind=bind, storages=[storage], reserves=storage)


def _memory_call(made: Reservation, frame: Var) -> PrimExpr:
    if made.output is None:
        return packed_call("int64", "tilesmith.runtime.reserve", frame, cast("int64", made.size))
    number, dtype, shape = made.output
    words = [StringImm(str(dtype)), *[cast("int64", extent) for extent in shape]]
    return packed_call("int64", "tilesmith.runtime.reserve_output", frame, number, *words)


def release(frame: Var, storage: Storage) -> Stmt:
    """Return the statement that gives memory back to the frame."""
    word = Call("int64", "tir.reinterpret", (storage.pointer(),))
    return Evaluate(packed_call("int32", "tilesmith.runtime.release", frame, word))


def give_shape(frame: Var, number: int, shape: ShapeValue) -> Step:
    """Return the step that hands a shape which depends on data to the caller."""
    words = [cast("int64", extent) for extent in shape.values]
    call = packed_call("int32", "tilesmith.runtime.give_shape", frame, number, *words)
    return Step(lambda: Evaluate(call))


def packed_call(dtype: str, name: str, *words: PrimExpr | int) -> PrimExpr:
    """Return the call of a global function of the runtime."""
    arguments = [const(word, "int64") if isinstance(word, int) else word for word in words]
    return Call(dtype, "tir.tvm_call_packed", (StringImm(name), *arguments))


def _pointer(address: Var) -> PrimExpr:
    return Call("handle", "tir.reinterpret", (address,))


# Reading and writing memory directly


def access(
    pointer: PrimExpr, count: int, dtype: DataType, name: str, use: Callable[[Buffer], Stmt]
) -> Stmt:
    """Return the statement ``use`` of a buffer of ``count`` elements at an address."""
    is_named = isinstance(pointer, Var)
    data = pointer if is_named else Var(name, PointerType(prim_type(dtype), "global"))
    buffer = decl_buffer((count,), dtype, name, data=data)
    whole = DeclBuffer(buffer, use(buffer))
    return whole if is_named else LetStmt(data, pointer, whole)


def read_sizes(vector: TensorValue, sizes: Sequence[Var]) -> Step:
    """Return the step that defines sizes by the elements of a vector."""

    def bind(rest: Stmt) -> Stmt:
        def use(buffer: Buffer) -> Stmt:
            inner = rest
            for place in reversed(range(len(sizes))):
                element = BufferLoad(buffer, [const(place, "int64")])
                inner = LetStmt(sizes[place], cast("int64", element), inner)
            return inner

        return access(vector.storage.pointer(), max(len(sizes), 1), vector.dtype, "found", use)

    return Step(bind=bind, storages=[vector.storage])


def write_sizes(sizes: ShapeValue, vector: TensorValue) -> Step:
    """Return the step that stores sizes to a vector."""

    def use(buffer: Buffer) -> Stmt:
        return stmt_seq(
            *[
                BufferStore(buffer, cast("int64", size), [const(place, "int64")])
                for place, size in enumerate(sizes.values)
            ]
        )

    def emit() -> Stmt:
        return access(vector.storage.pointer(), max(len(sizes.values), 1), _INT64, "shape", use)

    return Step(emit, [vector.storage])


def copy_bytes(
    source: Storage, target: Storage, size: PrimExpr, offset: PrimExpr | None = None
) -> Step:
    """Return the step that copies memory; ``offset``: to so many bytes behind the target's
    beginning.
    """

    def emit() -> Stmt:
        to = target.pointer()
        if offset is not None:
            to = Call("handle", "tir.handle_add_byte_offset", (to, offset))
        words = (StringImm("memcpy"), to, source.pointer(), cast("int64", size))
        return Evaluate(Call("handle", "tir.call_extern", words))

    return Step(emit, [source, target])


def assertion(condition: PrimExpr, *message: str | PrimExpr) -> Step:
    """Return the step that raises an error unless a condition holds when the program runs."""
    parts = tuple([StringImm(part) if isinstance(part, str) else part for part in message])
    text = parts[0] if len(parts) == 1 else Call("handle", "tir.tvm_tuple", parts)
    return Step(lambda: AssertStmt(condition, text, Evaluate(const(0, "int32"))))


def number_of_bytes(shape: Sequence[PrimExpr], dtype: DataType) -> PrimExpr:
    """Return the size of a tensor in bytes."""
    return const(dtype.nbytes, "int64") * number_of_elements(shape)


def fills(tensor: TensorValue, analyzer: Analyzer) -> bool:
    """Return whether a tensor has as many bytes as its storage, for certain."""
    size = number_of_bytes(tensor.shape, tensor.dtype)
    return analyzer.can_prove_equal(size, tensor.storage.size)


def number_of_elements(shape: Sequence[PrimExpr]) -> PrimExpr:
    """Return the product of sizes."""
    count: PrimExpr = const(1, "int64")
    for extent in shape:
        count = count * cast("int64", extent)
    return count
