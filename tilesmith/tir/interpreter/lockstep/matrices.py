"""Rules of matrix units in lockstep: fragments, ``mma``, ``ldmatrix``, for all warps at once.

Which elements a register holds is told by ``matrix_units``. How the threads of a warp share the
access of a fragment is not documented by the maker: it is counted as if each thread moved an equal
part, row by row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import Call
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep.accesses import (
    Place,
    checked_read,
    fetch,
    pointed,
    put,
    put_seen,
    where_of,
)
from tilesmith.tir.interpreter.lockstep.memory import Memory
from tilesmith.tir.interpreter.lockstep.rules import handles_statement
from tilesmith.tir.interpreter.lockstep.state import Group, State, granules
from tilesmith.tir.interpreter.matrix_units import (
    MMA_DTYPES,
    element_of,
    fragment_kind,
    loaded,
    matrix_shape,
    register_places,
    tensor_product,
)
from tilesmith.tir.interpreter.values import Environment, element_type

__all__ = ["Registers", "count_operations", "name_of_memory", "whole_warps"]

Run = Callable[[Environment], None]
WARP = 32


def whole_warps(env: Environment, site: Any) -> Any:
    """Return the numbers of the active warps; a warp that is not whole is found to diverge."""
    group: Group = env[THREAD_SLOT]
    state: State = env[CONTEXT_SLOT]
    counts = numpy.bincount(group.warps_of)
    warps = numpy.flatnonzero(counts)
    wanted = numpy.minimum(group.warp_size, state.threads - warps * group.warp_size)
    if (counts[warps] != wanted).any():
        state.find(
            "divergent barrier",
            f"only {int(counts[warps].min())} threads of a warp reach {site.name}, which a warp "
            "does together",
            site,
        )
        return warps[counts[warps] == wanted]
    return warps


# Fragments.


class _Fragment:
    """A fragment: memory of a warp that holds matrices one after the other."""

    def __init__(self, compiler: Any, arg: Any, index: Any) -> None:
        self.pointer = compiler.accesses.pointer(arg)
        self.number = compiler.number(index)
        self.kind = fragment_kind(arg)
        self.dtype = element_type(element_of(arg))

    def view(self, env: Environment, rows: int, columns: int) -> Any:
        """Return the matrices of all warps."""
        memory: Memory = self.pointer(env).memory
        flat = memory.elements(self.dtype)
        size, start = rows * columns, self.number(env) * rows * columns
        memory.is_defined = True
        return flat[:, start : start + size].reshape(len(flat), rows, columns)

    def memory_id(self, env: Environment) -> int:
        """Return a key of the memory behind the fragment."""
        return id(self.pointer(env).memory)


@handles_statement("tvm_fill_fragment")
def _fill(compiler: Any, call: Call, span: Any) -> Run:
    fragment = _Fragment(compiler, call.args[0], call.args[4])
    sizes = [compiler.number(arg) for arg in call.args[1:4]]
    value = compiler.number(call.args[5])
    site = compiler.site("fragment", "tvm_fill_fragment", "warp", span)

    def fill(env: Environment) -> None:
        shape = tuple([size(env) for size in sizes])
        env[CONTEXT_SLOT].fragments[fragment.memory_id(env)] = shape
        view = fragment.view(env, *matrix_shape(fragment.kind, shape))
        view[whole_warps(env, site)] = value(env)

    return fill


def _moving(compiler: Any, call: Call, span: Any, stores: bool) -> Run:
    """Compile ``tvm_load_matrix_sync`` or ``tvm_store_matrix_sync``."""
    fragment = _Fragment(compiler, call.args[0], call.args[4])
    sizes = [compiler.number(arg) for arg in call.args[1:4]]
    pointer, stride = compiler.accesses.pointer(call.args[5]), compiler.number(call.args[6])
    is_row_major = call.args[7].value == "row_major"  # type: ignore[attr-defined]
    kind = element_type(element_of(call.args[5]))
    name = call.op.name.removeprefix("tir.")
    site = compiler.site("write" if stores else "read", name, "shared", span)

    def move(env: Environment) -> None:
        shape = tuple([size(env) for size in sizes])
        env[CONTEXT_SLOT].fragments[fragment.memory_id(env)] = shape
        rows, columns = matrix_shape(fragment.kind, shape)
        steps = (stride(env), 1) if is_row_major else (1, stride(env))
        warps = whole_warps(env, site)
        if not len(warps):
            return
        group = _of_warps(env, warps)
        memory, offset = pointer(env)
        start = numpy.broadcast_to(
            numpy.asarray(offset) // kind.itemsize, (env[THREAD_SLOT].count,)
        )
        first = start[numpy.searchsorted(env[THREAD_SLOT].warps_of, warps)]
        inside = numpy.arange(rows)[:, None] * steps[0] + numpy.arange(columns) * steps[1]
        place = first[:, None, None] + inside  # by warp, row and column
        view = fragment.view(env, rows, columns)
        lanes = place if is_row_major else place.transpose(0, 2, 1)
        position = lanes.reshape(len(warps) * WARP, -1)
        if stores:
            values = view[warps] if is_row_major else view[warps].transpose(0, 2, 1)
            values = values.reshape(position.shape).astype(kind)
            same = put_seen(memory, kind, position, group, values)
            memory.written(granules(position, kind.itemsize, memory.granule))
            state: State = env[CONTEXT_SLOT]
            state.accessed(site, memory, group, position, kind.itemsize, True, same)
        else:
            checked_read(env, site, memory, group, position, kind.itemsize)
            _read_by_others(env, site, memory, group, position, kind.itemsize)
            view[warps] = loaded(fragment.kind, memory.elements(kind)[place])

    return move


def _of_warps(env: Environment, warps: Any) -> Group:
    group: Group = env[THREAD_SLOT]
    if len(warps) * group.warp_size == group.count:
        return group
    return group.part(numpy.flatnonzero(numpy.isin(group.warps_of, warps)))


def _read_by_others(
    env: Environment, site: Any, memory: Memory, group: Group, position: Any, size: int
) -> None:
    """Record the same reads by other lanes: which lane of a warp reads an element is up to the
    machine, so a barrier has to stand between the load and a write by any lane.
    """
    if memory.space not in ("shared", "global"):
        return
    turned = position.reshape(-1, WARP, position.shape[-1])[:, ::-1].reshape(position.shape)
    state: State = env[CONTEXT_SLOT]
    observers, state.observers = state.observers, ()  # they have seen the load
    state.accessed(site, memory, group, turned, size, False)
    state.observers = observers


@handles_statement("tvm_load_matrix_sync")
def _load(compiler: Any, call: Call, span: Any) -> Run:
    return _moving(compiler, call, span, False)


@handles_statement("tvm_store_matrix_sync")
def _store(compiler: Any, call: Call, span: Any) -> Run:
    return _moving(compiler, call, span, True)


@handles_statement("tvm_mma_sync")
def _mma_sync(compiler: Any, call: Call, span: Any) -> Run:
    parts = [_Fragment(compiler, call.args[i], call.args[i + 1]) for i in (0, 2, 4, 6)]
    site = compiler.site("fragment", "tvm_mma_sync", "warp", span)

    def multiply(env: Environment) -> None:
        shape = env[CONTEXT_SLOT].fragments.get(parts[1].memory_id(env))
        if shape is None:
            raise UnsupportedError("tvm_mma_sync: a fragment was never loaded", span=span)
        m, n, k = shape
        d, a, b, c = parts
        warps = whole_warps(env, site)
        left, right, added = a.view(env, m, k), b.view(env, k, n), c.view(env, m, n)
        d.view(env, m, n)[warps] = tensor_product(left[warps], right[warps], added[warps])
        count_operations(env, 2.0 * m * n * k * len(warps))

    return multiply


def count_operations(env: Environment, operations: float) -> None:
    """Report floating-point operations of matrix units."""
    state: State = env[CONTEXT_SLOT]
    for observer in state.observers:
        observer.computed(operations * state.weight, "tensor")


# mma and ldmatrix.


class Registers:
    """Registers of each thread from an index on."""

    def __init__(
        self, compiler: Any, call: Call, arg: int, index: int, dtype: DataType, count: int
    ) -> None:
        self.pointer = compiler.accesses.pointer(call.args[arg])
        self.number = compiler.visit(call.args[index])
        self.size = pointed(call, arg, dtype)
        self.kind = element_type(dtype)
        self.count = count

    def position(self, env: Environment) -> tuple[Memory, Any]:
        """Return the memory, and the elements of each thread in it."""
        place: Place = self.pointer(env)
        start = (place.offset + self.number(env) * self.size) // self.kind.itemsize
        group: Group = env[THREAD_SLOT]
        start = numpy.broadcast_to(numpy.asarray(start), (group.count,))
        return place.memory, start[:, None] + numpy.arange(self.count)

    def get(self, env: Environment, site: Any) -> Any:
        """Return the values of each thread."""
        memory, position = self.position(env)
        checked_read(env, site, memory, env[THREAD_SLOT], position, self.kind.itemsize)
        return fetch(memory, self.kind, position, env[THREAD_SLOT])

    def put(self, env: Environment, values: Any) -> None:
        """Change the values of each thread."""
        memory, position = self.position(env)
        group: Group = env[THREAD_SLOT]
        put(memory, self.kind, position, group, values)
        memory.written(where_of(memory, position, self.kind.itemsize, group))


@handles_statement("ptx_mma")
def _ptx_mma(compiler: Any, call: Call, span: Any) -> Run:
    texts = [str(getattr(arg, "value", "")) for arg in call.args[:6]]
    shape = re.fullmatch(r"m(\d+)n8k(\d+)", texts[0])
    known = shape is not None and all(text in MMA_DTYPES for text in texts[3:6])
    if shape is None or not known or (texts[0] == "m8n8k4" and texts[3] == "fp16"):
        raise UnsupportedError(f"ptx_mma of shape {texts[0]} is not known", span=span)
    m, k = int(shape.group(1)), int(shape.group(2))
    dtypes = [DataType(MMA_DTYPES[text]) for text in texts[3:6]]
    packed = max(32 // dtypes[0].bits, 1)
    counts, sizes = (m * k // 32, k * 8 // 32, m * 8 // 32), ((m, k), (k, 8), (m, 8))
    registers = [
        Registers(compiler, call, 6 + 2 * i, 7 + 2 * i, dtypes[i], counts[i]) for i in range(3)
    ]
    places = []
    for which in ("A", "B", "C"):
        by_lane = register_places(which, m, k, packed)
        places.append(tuple([numpy.array([one[axis] for one in by_lane]) for axis in (0, 1)]))
    site = compiler.site("fragment", "ptx_mma", "warp", span)

    def multiply(env: Environment) -> None:
        warps = whole_warps(env, site)
        if len(warps) * WARP != env[THREAD_SLOT].count:
            return
        matrices = []
        for part, place, size, dtype in zip(registers, places, sizes, dtypes):
            matrix = numpy.zeros((len(warps), *size), element_type(dtype))
            matrix[:, place[0], place[1]] = part.get(env, site).reshape(len(warps), WARP, -1)
            matrices.append(matrix)
        total = tensor_product(*matrices)
        registers[2].put(env, total[:, places[2][0], places[2][1]].reshape(len(warps) * WARP, -1))
        count_operations(env, 2.0 * m * 8 * k * len(warps))

    return multiply


@handles_statement("ptx_ldmatrix")
def _ptx_ldmatrix(compiler: Any, call: Call, span: Any) -> Run:
    transposed, count = bool(call.args[0].value), int(call.args[1].value)  # type: ignore[attr-defined]
    source, offset = compiler.accesses.pointer(call.args[5]), compiler.visit(call.args[6])
    source_size = pointed(call, 5, call.dtype)
    dtype = element_of(call.args[3])
    if dtype.nbytes not in (1, 2, 4):
        raise UnsupportedError(f"ptx_ldmatrix into registers of {dtype}", span=span)
    registers = Registers(compiler, call, 3, 4, dtype, 4 * count // dtype.nbytes)
    site = compiler.site("read", name_of_memory(call.args[5]), "shared", span)

    def load(env: Environment) -> None:
        warps = whole_warps(env, site)
        group: Group = env[THREAD_SLOT]
        if len(warps) * WARP != group.count:
            return
        place: Place = source(env)
        start = numpy.broadcast_to(
            numpy.asarray(place.offset + offset(env) * source_size, numpy.int64), (group.count,)
        )
        used = group.lanes_of < 8 * count
        part = group.part(numpy.flatnonzero(used))
        flat = place.memory.elements(numpy.dtype("u2"))
        position = start[used][:, None] // 2 + numpy.arange(8)
        for matrix in range(count):  # eight rows of 16 bytes at a time, as the machine does
            chosen = numpy.flatnonzero(part.lanes_of // 8 == matrix)
            checked_read(env, site, place.memory, part.part(chosen), position[chosen], 2)
        rows = flat[position].reshape(len(warps), count, 8, 8)
        if transposed:
            rows = rows.transpose(0, 1, 3, 2)
        lane = numpy.arange(WARP)
        found = rows[:, :, lane // 4, :]
        pairs = numpy.stack(
            [found[:, :, lane, lane % 4 * 2], found[:, :, lane, lane % 4 * 2 + 1]], -1
        )
        values = pairs.transpose(0, 2, 1, 3).reshape(len(warps) * WARP, 2 * count)
        registers.put(env, numpy.ascontiguousarray(values).view(registers.kind))

    return load


def name_of_memory(arg: Any) -> str:
    """Return the name of the memory behind a pointer."""
    inner = arg.args[1] if isinstance(arg, Call) and len(arg.args) > 1 else arg
    return str(getattr(inner, "name", "shared memory"))


@handles_statement("mma_fill")
def _mma_fill(compiler: Any, call: Call, span: Any) -> Run:
    size = int(call.args[0].value)  # type: ignore[attr-defined]
    registers = Registers(compiler, call, 1, 2, call.dtype.element, size)
    return lambda env: registers.put(env, 0)


@handles_statement("mma_store")
def _mma_store(compiler: Any, call: Call, span: Any) -> Run:
    """Compile a store of the accumulators of 16 by 16 elements, eight in each thread."""
    dtype = call.dtype.element
    kind = element_type(dtype)
    target, stride = compiler.accesses.pointer(call.args[2]), compiler.number(call.args[5])
    registers = Registers(compiler, call, 3, 4, dtype, 8)
    site = compiler.site("write", name_of_memory(call.args[2]), "global", span)
    number = numpy.arange(8)

    def store(env: Environment) -> None:
        group: Group = env[THREAD_SLOT]
        values = registers.get(env, site)
        place: Place = target(env)
        lane = group.lanes_of[:, None]
        row = lane // 4 + 8 * (number % 4 // 2)
        column = lane % 4 * 2 + number % 2 + 8 * (number // 4)
        start = numpy.broadcast_to(numpy.asarray(place.offset) // kind.itemsize, (group.count,))
        position = start[:, None] + row * stride(env) + column
        there, stays = put_seen(place.memory, kind, position, group, values)
        place.memory.written(where_of(place.memory, position, kind.itemsize, group))
        for pair in range(0, 8, 2):  # two neighbours at a time
            two = numpy.s_[:, pair : pair + 2]
            env[CONTEXT_SLOT].accessed(
                site, place.memory, group, position[two], kind.itemsize, True,
                (there[two], stays[two]),
            )  # fmt: skip

    return store
