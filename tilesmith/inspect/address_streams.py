"""Computes which sectors of global memory kernels access, block by block, without running them.

The index of an access is evaluated for all threads and iterations at once with numpy; values of
arrays are ignored. This needs programs whose addresses depend on nothing but numbers of blocks,
threads and iterations, and tables of such (`precompute_addresses`); others raise UnsupportedError.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy

from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
)  # fmt: skip
from tilesmith.ir.queries import called_name, is_call, walk
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.cooperation import launched_thread
from tilesmith.tir.stmt import BufferStore, Evaluate, For, IfThenElse, LetStmt, SeqStmt, Stmt

__all__ = ["Access", "KernelAccesses", "Requests", "accesses_of", "requests_of", "sector_requests"]

SECTOR_BYTES = 32
_NOWHERE = numpy.iinfo(numpy.int64).max
_ELEMENTS = 1 << 22
"""How many addresses are computed at a time."""

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    Add: operator.add, Sub: operator.sub, Mul: operator.mul, FloorDiv: operator.floordiv,
    FloorMod: operator.mod, Min: numpy.minimum, Max: numpy.maximum, EQ: operator.eq,
    NE: operator.ne, LT: operator.lt, LE: operator.le, GT: operator.gt, GE: operator.ge,
    And: numpy.logical_and, Or: numpy.logical_or,
}  # fmt: skip
_CALLS: dict[str, Callable[..., Any]] = {
    "tir.shift_left": operator.lshift, "tir.shift_right": operator.rshift,
    "tir.bitwise_and": operator.and_, "tir.bitwise_or": operator.or_,
    "tir.bitwise_xor": operator.xor, "tir.if_then_else": numpy.where, "tir.likely": lambda one: one,
    "tir.bitwise_not": operator.invert,
}  # fmt: skip


@dataclass(eq=False)
class _Loop:
    """A loop around an access; ``duration``: how many accesses one iteration makes."""

    loop: For
    duration: int = 0


@dataclass(eq=False)
class Access:
    """A place that accesses global memory: the first element of each thread's access, under which
    conditions, in which loops, and when (in accesses since the kernel began)."""

    buffer: Buffer
    first: PrimExpr
    lanes: int
    writes: bool
    conditions: tuple[PrimExpr, ...]
    loops: tuple[_Loop, ...]
    time: int

    @property
    def nbytes(self) -> int:
        """The bytes that one thread accesses."""
        return self.lanes * self.buffer.dtype.nbytes


@dataclass(eq=False)
class KernelAccesses:
    """The accesses of a kernel in the order of its program."""

    axes: dict[str, int] = field(default_factory=dict)
    variables: dict[str, list[Var]] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    lets: dict[Var, PrimExpr] = field(default_factory=dict)
    tables: dict[Var, BufferStore] = field(default_factory=dict)

    def shape(self, kind: str) -> tuple[int, int, int]:
        """Return the extents of "blockIdx" or "threadIdx" along x, y and z."""
        return tuple([self.axes.get(f"{kind}.{axis}", 1) for axis in "xyz"])  # type: ignore[return-value]

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        x, y, z = self.shape("blockIdx")
        return x * y * z

    @property
    def threads(self) -> int:
        """The threads of a block."""
        x, y, z = self.shape("threadIdx")
        return x * y * z


def accesses_of(kernel: Stmt) -> KernelAccesses:
    """Return the accesses of a kernel. Raises UnsupportedError for what is no load or store."""
    collector = _Collector()
    collector.visit(kernel)
    return collector.kernel_accesses


class _Collector:
    """Walks a kernel in the order of execution."""

    def __init__(self) -> None:
        self.kernel_accesses = KernelAccesses()
        self.clock = 0
        self.loops: list[_Loop] = []
        self.conditions: list[PrimExpr] = []

    def visit(self, stmt: Any) -> None:
        thread = launched_thread(stmt)
        if thread is not None:
            extent = stmt.extent if isinstance(stmt, For) else stmt.value
            self.kernel_accesses.axes[thread.thread_tag] = _number(extent, stmt)
            variable = stmt.loop_var if isinstance(stmt, For) else thread.var
            self.kernel_accesses.variables.setdefault(thread.thread_tag, []).append(variable)
            self.visit(stmt.body)
        elif isinstance(stmt, SeqStmt):
            for one in stmt.seq:
                self.visit(one)
        elif isinstance(stmt, For):
            self.loop(stmt)
        elif isinstance(stmt, IfThenElse):
            self.values(stmt.condition)
            self.under(stmt.condition, lambda: self.visit(stmt.then_case))
            if stmt.else_case is not None:
                self.under(Not(stmt.condition), lambda: self.visit(stmt.else_case))
        elif isinstance(stmt, BufferStore):
            self.store(stmt)
        elif isinstance(stmt, Evaluate):
            self.call(stmt)
        elif isinstance(stmt, LetStmt):
            self.kernel_accesses.lets[stmt.var] = stmt.value
            self.values(stmt.value)
            self.visit(stmt.body)
        else:
            body = getattr(stmt, "body", None)
            if body is None:
                raise UnsupportedError(f"no addresses are computed for {type(stmt).__name__}")
            self.visit(body)

    def under(self, condition: PrimExpr, visit: Callable[[], None]) -> None:
        self.conditions.append(condition)
        visit()
        self.conditions.pop()

    def loop(self, loop: For) -> None:
        extent = _number(loop.extent, loop)
        around = _Loop(loop)
        self.loops.append(around)
        start = self.clock
        self.visit(loop.body)
        self.loops.pop()
        around.duration = self.clock - start
        self.clock = start + extent * around.duration

    def store(self, stmt: BufferStore) -> None:
        self.values(stmt.value)
        scope = stmt.buffer.scope()
        if scope == "global":
            self.add(stmt.buffer, stmt.indices, stmt.value.dtype.lanes, True)
        elif scope == "local" and stmt.buffer.dtype.is_integer:
            self.kernel_accesses.tables[stmt.buffer.data] = stmt

    def call(self, stmt: Evaluate) -> None:
        if is_call(stmt.value, "tir.ptx_cp_async"):
            self.copy(stmt.value)
            return
        for node in walk(stmt.value):
            if (
                isinstance(node, Var)
                and node.dtype.is_handle
                and node.storage_scope in ("", "global")
            ):
                raise UnsupportedError(
                    f"no addresses are computed for {stmt.value}",
                    notes=(
                        "observe a run instead: inspect.gpu_report(…, observers=[CacheObserver()])",
                    ),
                )
        self.values(stmt.value)

    def copy(self, call: Call) -> None:
        """Add the read of an asynchronous copy into shared memory."""
        _, _, source, offset, nbytes, *predicate = call.args
        if not isinstance(source, Var):
            raise UnsupportedError(f"no addresses are computed for a copy from {source}")
        element = call.dtype.element
        buffer = decl_buffer([1], element, source.name, source)
        for condition in predicate:
            self.conditions.append(condition)
        lanes = _number(nbytes, call) // element.nbytes
        self.kernel_accesses.accesses.append(
            Access(
                buffer, offset, lanes, False, tuple(self.conditions), tuple(self.loops), self.clock
            )
        )
        self.clock += 1
        del self.conditions[len(self.conditions) - len(predicate) :]

    def values(self, expr: PrimExpr) -> None:
        """Add the loads of an expression, each under the conditions of its branch."""
        if isinstance(expr, Select) or is_call(expr, "tir.if_then_else"):
            condition, yes, no = (
                expr.args if isinstance(expr, Call)
                else (expr.condition, expr.true_value, expr.false_value)
            )  # fmt: skip
            self.values(condition)
            self.under(condition, lambda: self.values(yes))
            self.under(Not(condition), lambda: self.values(no))
            return
        expr.for_each_child(lambda part: self.values(part) if isinstance(part, PrimExpr) else None)
        if isinstance(expr, BufferLoad) and expr.buffer.scope() == "global":
            self.add(expr.buffer, expr.indices, expr.dtype.lanes, False)

    def add(self, buffer: Buffer, indices: Sequence[PrimExpr], lanes: int, writes: bool) -> None:
        index = indices[0]
        if len(indices) != 1:
            raise UnsupportedError(f"'{buffer.name}' is not flat: lower the program first")
        if isinstance(index, Ramp):
            if not isinstance(index.stride, IntImm) or index.stride.value != 1:
                raise UnsupportedError(f"the lanes of an access to '{buffer.name}' are apart")
            index = index.base
        self.kernel_accesses.accesses.append(
            Access(
                buffer, index, lanes, writes, tuple(self.conditions), tuple(self.loops), self.clock
            )
        )
        self.clock += 1


def _number(extent: PrimExpr, where: Any) -> int:
    if not isinstance(extent, IntImm):
        raise UnsupportedError(
            f"the extent {extent} is not constant", span=getattr(where, "span", None)
        )
    return int(extent.value)


# Values.


class _Values:
    """Evaluates expressions over arrays of blocks, iterations and threads."""

    def __init__(self, kernel: KernelAccesses, known: dict[Var, Any]) -> None:
        self.kernel = kernel
        self.known = known

    def of(self, expr: Any) -> Any:
        rule = _BINARY.get(type(expr))
        if rule is not None:
            return rule(self.of(expr.a), self.of(expr.b))
        if isinstance(expr, IntImm):
            return int(expr.value)
        if isinstance(expr, Var):
            return self.variable(expr)
        if isinstance(expr, Cast):
            return self.of(expr.value)
        if isinstance(expr, Not):
            return numpy.logical_not(self.of(expr.a))
        if isinstance(expr, Broadcast):
            return self.of(expr.value)
        if isinstance(expr, Select):
            return numpy.where(
                self.of(expr.condition), self.of(expr.true_value), self.of(expr.false_value)
            )
        if isinstance(expr, Let):
            inner = _Values(self.kernel, {**self.known, expr.var: self.of(expr.value)})
            return inner.of(expr.body)
        if isinstance(expr, Call):
            rule = _CALLS.get(called_name(expr))
            if rule is not None:
                return rule(*[self.of(arg) for arg in expr.args])
        if isinstance(expr, BufferLoad):
            return self.entry(expr)
        raise UnsupportedError(f"no addresses are computed from {expr}")

    def variable(self, variable: Var) -> Any:
        if variable in self.known:
            return self.known[variable]
        if variable in self.kernel.lets:
            return self.of(self.kernel.lets[variable])
        raise UnsupportedError(
            f"the address depends on '{variable.name}', whose value is not known"
        )

    def entry(self, load: BufferLoad) -> Any:
        """Return an entry of a table that a loop has filled, computed anew."""
        store = self.kernel.tables.get(load.buffer.data)
        place = None if store is None else store.indices[0]
        if store is None or not isinstance(place, (Var, IntImm)):
            raise UnsupportedError(f"the address depends on the contents of '{load.buffer.name}'")
        known = dict(self.known)
        if isinstance(place, Var):
            known[place] = self.of(load.indices[0])
        return _Values(self.kernel, known).of(store.value)


class Requests(NamedTuple):
    """Requests of warps in program order: which line, which of its sectors, when, by which block
    (its place in the order of the launch) and warp."""

    lines: numpy.ndarray
    masks: numpy.ndarray
    times: numpy.ndarray
    blocks: numpy.ndarray
    warps: numpy.ndarray
    requested: int


def requests_of(
    kernel: KernelAccesses, access: Access, base: int, blocks: numpy.ndarray
) -> Iterator[Requests]:
    """Compute the requests of one place by blocks (their places in the order of the launch), a
    part at a time. ``base``: the address of the buffer."""
    count = max(1, kernel.threads)
    for one in access.loops:
        count *= _number(one.loop.extent, one.loop)
    size = max(1, _ELEMENTS // count)
    for start in range(0, len(blocks), size):
        yield _requests(kernel, access, base, blocks[start : start + size])


def _requests(
    kernel: KernelAccesses, access: Access, base: int, blocks: numpy.ndarray
) -> Requests:  # fmt: skip
    extents = [_number(one.loop.extent, one.loop) for one in access.loops]
    rank = len(extents) + 2
    known: dict[Var, Any] = {}
    _place_numbers(known, kernel, "blockIdx", blocks.reshape(-1, *[1] * (rank - 1)))
    _place_numbers(known, kernel, "threadIdx", numpy.arange(kernel.threads))
    times: Any = access.time
    for axis, (one, extent) in enumerate(zip(access.loops, extents)):
        number = numpy.arange(extent).reshape(-1, *[1] * (rank - 2 - axis))
        known[one.loop.loop_var] = number + _number(one.loop.min, one.loop)
        times = times + number * one.duration
    values = _Values(kernel, known)
    shape = (len(blocks), *extents, kernel.threads)
    active = numpy.ones(shape, bool)
    for condition in access.conditions:
        active &= numpy.asarray(values.of(condition), bool)
    element = access.buffer.dtype.nbytes
    addresses = numpy.broadcast_to(numpy.asarray(values.of(access.first)) * element + base, shape)
    rows, lines, masks = sector_requests(
        addresses.reshape(-1, kernel.threads), active.reshape(-1, kernel.threads), access.nbytes
    )
    warps = -(-kernel.threads // 32)
    place, warp = rows // warps, rows % warps
    steps = math.prod(extents)
    times = numpy.broadcast_to(times, (*extents, 1) if extents else (1,)).reshape(-1)
    return Requests(
        lines, masks, times[place % steps], blocks[place // steps], warp,
        int(active.sum()) * access.nbytes,
    )  # fmt: skip


def _place_numbers(known: dict[Var, Any], kernel: KernelAccesses, kind: str, numbers: Any) -> None:
    """Give the variables of an axis their values from numbers of blocks or threads."""
    for axis, extent in zip("xyz", kernel.shape(kind)):
        for variable in kernel.variables.get(f"{kind}.{axis}", ()):
            known[variable] = numbers % extent
        numbers = numbers // extent


def sector_requests(
    addresses: numpy.ndarray, active: numpy.ndarray, nbytes: int, warp_size: int = 32
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Return the lines that each warp requests, in order: the number of the warp (all warps of the
    first row of ``addresses``, then of the second), the line, and the bits of its sectors."""
    rows, threads = addresses.shape
    warps = -(-threads // warp_size)
    first = addresses // SECTOR_BYTES
    span = int(((addresses + nbytes - 1) // SECTOR_BYTES - first)[active].max(initial=0)) + 1
    last = (addresses + nbytes - 1) // SECTOR_BYTES
    sectors = numpy.full((rows, warps * warp_size, span), _NOWHERE, numpy.int64)
    for number in range(span):
        inside = active & (first + number <= last)
        sectors[:, :threads, number] = numpy.where(inside, first + number, _NOWHERE)
    sectors = numpy.sort(sectors.reshape(rows * warps, -1), axis=1)
    new = sectors != _NOWHERE
    new[:, 1:] &= sectors[:, 1:] != sectors[:, :-1]
    row, column = numpy.nonzero(new)
    found = sectors[row, column]
    if not len(found):
        return row, found, found.astype(numpy.uint8)
    lines, bits = found // 4, 1 << (found % 4)
    starts = numpy.flatnonzero(numpy.r_[True, (lines[1:] != lines[:-1]) | (row[1:] != row[:-1])])
    return row[starts], lines[starts], numpy.add.reduceat(bits, starts).astype(numpy.uint8)
