"""Rules of matrix units: fragments of a warp, ``mma`` and ``ldmatrix``, SIMD groups.

A fragment (``wmma``, ``simdgroup``) is memory that a warp shares; fragment ``index`` holds its
matrix there row by row. The registers of ``mma`` belong to threads, and the PTX ISA says which
thread holds which elements: with ``p`` elements in 32 bits, ``g = lane // 4`` and ``t = lane % 4``,
register ``i`` of a thread holds

    A   row g + 8 * (i // p % 2), column t * p + i % p + 4 * p * (i // p // 2)     (16 rows)
    A   row g,                    column t * p + i % p + 4 * p * (i // p)          (8 rows)
    B   row t * p + i % p + 4 * p * (i // p), column g
    C   row g + 8 * (i // 2), column t * 2 + i % 2
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import Call, PrimExpr
from tilesmith.ir.queries import is_call
from tilesmith.ir.span import Span
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.interpreter.call_rules import handles, handles_for_group
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.memory_calls import pointed_bytes, pointed_dtype
from tilesmith.tir.interpreter.operators import cut_to_tf32, rounded_to_tf32
from tilesmith.tir.interpreter.threads import by_warp, require_whole
from tilesmith.tir.interpreter.values import (
    Environment,
    Evaluate,
    Pointer,
    RunGroup,
    element_type,
)
from tilesmith.tir.interpreter.watch import touch_bytes

__all__ = [
    "MMA_DTYPES", "element_of", "fragment_kind", "loaded", "matrix_shape", "register_places",
    "tensor_product",
]  # fmt: skip

MMA_DTYPES = {
    "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp32": "float32", "fp64": "float64",
    "s8": "int8", "u8": "uint8", "s4": "int4", "u4": "uint4", "int8": "int8", "uint8": "uint8",
    "int4": "int4", "uint4": "uint4", "int32": "int32", "s32": "int32", "float16": "float16",
    "float32": "float32", "float64": "float64", "bfloat16": "bfloat16", "e4m3": "e4m3_float8",
    "e5m2": "e5m2_float8",
}  # fmt: skip


# Fragments.


def _fragment(
    compiler: ExpressionCompiler, arg: PrimExpr, index: PrimExpr
) -> Callable[[Environment, int, int], Any]:
    """Return a function that views fragment ``index`` as a matrix of so many rows and columns."""
    pointer, number = compiler.visit(arg), compiler.visit(index)
    dtype = element_of(arg)

    def view(env: Environment, rows: int, columns: int) -> Any:
        place: Pointer = pointer(env)
        return place.view(dtype, (rows, columns), None, number(env) * rows * columns)

    return view


def _by_warps(call: Call, span: Span | None, run: Callable[[Environment], None]) -> RunGroup:
    """Return a closure that runs once for each warp, whose threads all have to be active."""
    return _by_members(call, span, lambda members: run(members[0]))


def _by_members(
    call: Call, span: Span | None, run: Callable[[list[Environment]], None]
) -> RunGroup:
    """Do the same for a function that gets all threads of a warp."""
    name = call.op.name.removeprefix("tir.")

    def each(envs: list[Environment]) -> None:
        require_whole(envs, name, span, warp_only=True)
        for members in by_warp(envs).values():
            run(members)

    return each


@handles_for_group("tvm_fill_fragment")
def _tvm_fill_fragment(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    view = _fragment(compiler, call.args[0], call.args[4])
    sizes = [compiler.visit(arg) for arg in call.args[1:4]]
    value = compiler.visit(call.args[5])
    pointer = compiler.visit(call.args[0])
    kind = fragment_kind(call.args[0])

    def fill(env: Environment) -> None:
        shape = tuple([size(env) for size in sizes])
        env[CONTEXT_SLOT].fragments[id(pointer(env).memory)] = shape
        view(env, *matrix_shape(kind, shape))[...] = value(env)

    return _by_warps(call, span, fill)


def _moving(compiler: ExpressionCompiler, call: Call, span: Span | None, stores: bool) -> RunGroup:
    """Compile ``tvm_load_matrix_sync`` or ``tvm_store_matrix_sync``."""
    view = _fragment(compiler, call.args[0], call.args[4])
    sizes = [compiler.visit(arg) for arg in call.args[1:4]]
    pointer, place = compiler.visit(call.args[0]), compiler.visit(call.args[5])
    stride, layout = compiler.visit(call.args[6]), call.args[7].value  # type: ignore[attr-defined]
    kind, dtype = fragment_kind(call.args[0]), element_of(call.args[5])

    def move(env: Environment) -> None:
        shape = tuple([size(env) for size in sizes])
        env[CONTEXT_SLOT].fragments[id(pointer(env).memory)] = shape
        rows, columns = matrix_shape(kind, shape)
        steps = (stride(env), 1) if layout == "row_major" else (1, stride(env))
        memory = place(env).view(dtype, (rows, columns), steps, 0)
        matrix = view(env, rows, columns)
        if stores:
            memory[...] = matrix
        else:
            matrix[...] = loaded(kind, memory)

    def watched(members: list[Environment]) -> None:
        """Move a matrix, and report each row of memory. Which lane reads an element is up to the
        machine: the first and the last lane do, so that a write by any lane is another one's.
        """
        env = members[0]
        move(env)
        if env[CONTEXT_SLOT].watch is None:
            return
        shape = env[CONTEXT_SLOT].fragments[id(pointer(env).memory)]
        count, length = matrix_shape(kind, shape)
        if layout != "row_major":
            count, length = length, count
        for line in range(count):
            start = place(env).moved(line * stride(env) * dtype.nbytes)
            for member in members[:1] if stores else (members[0], members[-1]):
                touch_bytes(member, start, length * dtype.nbytes, stores, span=span)

    return _by_members(call, span, watched)


@handles_for_group("tvm_load_matrix_sync")
def _tvm_load_matrix_sync(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    return _moving(compiler, call, span, False)


@handles_for_group("tvm_store_matrix_sync")
def _tvm_store_matrix_sync(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    return _moving(compiler, call, span, True)


@handles_for_group("tvm_mma_sync")
def _tvm_mma_sync(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    views = [_fragment(compiler, call.args[i], call.args[i + 1]) for i in (0, 2, 4, 6)]
    left = compiler.visit(call.args[2])

    def multiply(env: Environment) -> None:
        shape = env[CONTEXT_SLOT].fragments.get(id(left(env).memory))
        if shape is None:
            raise ExecutionError("tvm_mma_sync: a fragment was never loaded", span=span)
        m, n, k = shape
        d, a, b, c = views
        d(env, m, n)[...] = tensor_product(a(env, m, k), b(env, k, n), c(env, m, n))

    return _by_warps(call, span, multiply)


# SIMD groups: matrices of 8 by 8.


@handles_for_group("make_filled_simdgroup_matrix")
def _make_filled_simdgroup_matrix(
    compiler: ExpressionCompiler, call: Call, span: Span | None
) -> RunGroup:
    view, value = _fragment(compiler, call.args[0], call.args[1]), compiler.visit(call.args[2])
    columns, rows = [compiler.visit(arg) for arg in call.args[3:5]]

    def fill(env: Environment) -> None:
        view(env, rows(env), columns(env))[...] = value(env)

    return _by_warps(call, span, fill)


def _simdgroup_move(
    compiler: ExpressionCompiler, call: Call, span: Span | None, stores: bool
) -> RunGroup:
    view = _fragment(compiler, call.args[0], call.args[1])
    place, stride, columns, rows, transposed = [compiler.visit(arg) for arg in call.args[2:7]]
    dtype = element_of(call.args[2])

    def move(env: Environment) -> None:
        shape = (rows(env), columns(env))
        steps = (1, stride(env)) if transposed(env) else (stride(env), 1)
        memory, matrix = place(env).view(dtype, shape, steps, 0), view(env, *shape)
        if stores:
            memory[...] = matrix
        else:
            matrix[...] = memory

    return _by_warps(call, span, move)


@handles_for_group("simdgroup_load")
def _simdgroup_load(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    return _simdgroup_move(compiler, call, span, False)


@handles_for_group("simdgroup_store")
def _simdgroup_store(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    return _simdgroup_move(compiler, call, span, True)


@handles_for_group("simdgroup_multiply_accumulate")
def _simdgroup_multiply_accumulate(
    compiler: ExpressionCompiler, call: Call, span: Span | None
) -> RunGroup:
    views = [_fragment(compiler, call.args[i], call.args[i + 1]) for i in (0, 2, 4, 6)]

    def multiply(env: Environment) -> None:
        d, a, b, c = [view(env, 8, 8) for view in views]
        d[...] = product(a, b, c)

    return _by_warps(call, span, multiply)


# mma and ldmatrix.


def _registers(
    compiler: ExpressionCompiler, arg: PrimExpr, index: PrimExpr, dtype: DataType, count: int
) -> Evaluate:
    """Return the registers of a thread from an index on."""
    pointer, number, size = (
        compiler.visit(arg),
        compiler.visit(index),
        pointed_bytes(arg, dtype.nbytes),
    )

    def view(env: Environment) -> Any:
        return pointer(env).moved(number(env) * size).view(dtype, (count,), None, 0)

    return view


@handles_for_group("ptx_mma")
def _ptx_mma(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    texts = [str(getattr(arg, "value", "")) for arg in call.args[:6]]
    shape = re.fullmatch(r"m(\d+)n8k(\d+)", texts[0])
    if shape is None or any(text not in MMA_DTYPES for text in texts[3:6]):
        raise UnsupportedError(
            f"ptx_mma of shape {texts[0]} on {', '.join(texts[3:6])} is not known", span=span
        )
    if texts[0] == "m8n8k4" and texts[3] == "fp16":
        raise UnsupportedError("ptx_mma: m8n8k4 on fp16 works on pairs of quads", span=span)
    m, k = int(shape.group(1)), int(shape.group(2))
    a_type, b_type, c_type = [DataType(MMA_DTYPES[text]) for text in texts[3:6]]
    packed = max(32 // a_type.bits, 1)
    a = _registers(compiler, call.args[6], call.args[7], a_type, m * k // 32)
    b = _registers(compiler, call.args[8], call.args[9], b_type, k * 8 // 32)
    c = _registers(compiler, call.args[10], call.args[11], c_type, m * 8 // 32)
    left, right, result = [
        register_places(which, m, k, packed) for which in ("A", "B", "C")
    ]  # for each lane: rows and columns of its registers

    parts = (
        (a, left, (m, k), a_type), (b, right, (k, 8), b_type), (c, result, (m, 8), c_type),
    )  # fmt: skip

    def multiply(envs: list[Environment]) -> None:
        require_whole(envs, "ptx_mma", span, warp_only=True)
        for warp in by_warp(envs).values():
            matrices = []
            for registers, places, size, dtype in parts:
                matrix = numpy.zeros(size, element_type(dtype))
                for env in warp:
                    matrix[places[env[THREAD_SLOT].lane]] = registers(env)
                matrices.append(matrix)
            total = tensor_product(*matrices)
            for env in warp:
                c(env)[...] = total[result[env[THREAD_SLOT].lane]]

    return multiply


@handles_for_group("ptx_ldmatrix")
def _ptx_ldmatrix(compiler: ExpressionCompiler, call: Call, span: Span | None) -> RunGroup:
    transposed = bool(call.args[0].value)  # type: ignore[attr-defined]
    count = int(call.args[1].value)  # type: ignore[attr-defined]
    target, start, source, offset = [compiler.visit(arg) for arg in call.args[3:7]]
    target_size = pointed_bytes(call.args[3], call.dtype.element.nbytes)
    source_size = pointed_bytes(call.args[5], call.dtype.element.nbytes)

    def load(envs: list[Environment]) -> None:
        require_whole(envs, "ptx_ldmatrix", span, warp_only=True)
        for warp in by_warp(envs).values():
            rows = []
            for env in warp[: 8 * count]:
                place = source(env).moved(offset(env) * source_size)
                touch_bytes(env, place, 16, False, span=span)
                rows.append(place.window(16).copy().view(numpy.uint16))
            for env in warp:
                lane = env[THREAD_SLOT].lane
                found = []
                for number in range(count):
                    matrix = numpy.stack(rows[8 * number : 8 * number + 8])
                    matrix = matrix.T if transposed else matrix
                    found.append(matrix[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2])
                place = target(env).moved(start(env) * target_size)
                place.window(4 * count)[...] = numpy.concatenate(found).view(numpy.uint8)
                touch_bytes(env, place, 4 * count, True, span=span)

    return load


@handles("mma_fill", is_collective=True)
def _mma_fill(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    size = int(call.args[0].value)  # type: ignore[attr-defined]
    registers = _registers(compiler, call.args[1], call.args[2], call.dtype.element, size)

    def fill(env: Environment) -> None:
        registers(env)[...] = 0

    return fill


@handles("mma_store", is_collective=True)
def _mma_store(compiler: ExpressionCompiler, call: Call) -> Evaluate:
    """Compile a store of the accumulators of 16 by 16 elements, eight in each thread."""
    dtype = call.dtype.element
    target, stride = compiler.visit(call.args[2]), compiler.visit(call.args[5])
    registers = _registers(compiler, call.args[3], call.args[4], dtype, 8)
    span = compiler.scope.span

    def store(env: Environment) -> None:
        lane, values = env[THREAD_SLOT].lane, registers(env)
        place, step = target(env), stride(env)
        for number in range(8):
            row = lane // 4 + 8 * (number % 4 // 2)
            column = lane % 4 * 2 + number % 2 + 8 * (number // 4)
            place.view(dtype, (1,), None, row * step + column)[0] = values[number]
            element = place.moved((row * step + column) * dtype.nbytes)
            touch_bytes(env, element, dtype.nbytes, True, span=span)

    return store


def element_of(arg: PrimExpr) -> DataType:
    """Return the dtype behind a pointer."""
    if is_call(arg, "tir.tvm_access_ptr", "tir.address_of"):
        return arg.args[0].dtype.element
    dtype = pointed_dtype(arg)
    if dtype is None:
        raise UnsupportedError(f"the pointer {arg} of a matrix has no element type")
    return dtype.element


def fragment_kind(arg: PrimExpr) -> str:
    """Return which matrix a fragment holds: "matrix_a", "matrix_b" or "accumulator"."""
    return str(getattr(arg, "storage_scope", "")).rpartition(".")[2]


def matrix_shape(kind: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns of a matrix of a product of the shape (m, n, k)."""
    m, n, k = shape
    return {"matrix_a": (m, k), "matrix_b": (k, n)}.get(kind, (m, n))


def tensor_product(a: Any, b: Any, c: Any) -> Any:
    """Return ``a @ b + c`` as tensor cores compute it, which cut operands of float32 to tf32."""
    if a.dtype == numpy.float32:
        a, b = cut_to_tf32(a), cut_to_tf32(b)
    return product(a, b, c)


def loaded(kind: str, values: Any) -> Any:
    """Return values as a load of a fragment brings them: operands of float32 become tf32."""
    is_operand = kind in ("matrix_a", "matrix_b")
    return rounded_to_tf32(values) if is_operand and values.dtype == numpy.float32 else values


def product(a: Any, b: Any, c: Any) -> Any:
    """Return ``a @ b + c``, added up in the precision of the accumulator, float32 at least."""
    wide: Any = c.dtype
    if numpy.issubdtype(wide, numpy.integer):
        wide = numpy.dtype("int64")
    elif wide.itemsize < 4:
        wide = numpy.dtype("float32")
    return (a.astype(wide) @ b.astype(wide) + c.astype(wide)).astype(c.dtype)


def register_places(which: str, m: int, k: int, packed: int) -> list[tuple[Any, Any]]:
    """Return for each lane the rows and columns of its registers."""
    counts = {"A": m * k // 32, "B": k * 8 // 32, "C": m * 8 // 32}
    number = numpy.arange(counts[which])
    block, inside = number // packed, number % packed
    found = []
    for lane in range(32):
        group, within = lane // 4, lane % 4
        if which == "C":
            rows, columns = group + 8 * (number // 2), within * 2 + number % 2
        elif which == "B":
            rows = within * packed + inside + 4 * packed * block
            columns = numpy.full_like(number, group)
        elif m == 16:
            rows = group + 8 * (block % 2)
            columns = within * packed + inside + 4 * packed * (block // 2)
        else:
            rows = numpy.full_like(number, group)
            columns = within * packed + inside + 4 * packed * block
        found.append((rows, columns))
    return found
