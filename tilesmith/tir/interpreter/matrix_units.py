"""Matrix units: fragments of a warp, the instructions ``mma`` and ``ldmatrix``, SIMD groups.

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

from tilesmith.ir import Call
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.interpreter.async_copies import _bytes, _pointed
from tilesmith.tir.interpreter.calls import CallCompiler
from tilesmith.tir.interpreter.threads import THREAD_SLOT, by_warp, whole
from tilesmith.tir.interpreter.values import Environment, Evaluate, Pointer, element_type

RunGroup = Callable[[list[Environment]], None]
_KINDS = {
    "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp32": "float32", "fp64": "float64",
    "s8": "int8", "u8": "uint8", "s4": "int4", "u4": "uint4", "int8": "int8", "uint8": "uint8",
    "int4": "int4", "uint4": "uint4", "int32": "int32", "s32": "int32", "float16": "float16",
    "float32": "float32", "float64": "float64", "bfloat16": "bfloat16",
}  # fmt: skip


class MatrixCompiler(CallCompiler):
    """Closures for operations of matrix units."""

    # Fragments.

    def fragment(self, arg: Any, index: Any) -> Callable[[Environment, int, int], Any]:
        """A function that views fragment ``index`` as a matrix of so many rows and columns."""
        pointer, number = self.visit(arg), self.visit(index)
        dtype = _element_of(arg)

        def view(env: Environment, rows: int, columns: int) -> Any:
            place: Pointer = pointer(env)
            return place.view(dtype, (rows, columns), None, number(env) * rows * columns)

        return view

    def by_warps(self, call: Call, span: Any, run: Callable[[Environment], None]) -> RunGroup:
        """Runs once for each warp, whose threads all have to be there."""
        name = call.op.name.removeprefix("tir.")

        def each(envs: list[Environment]) -> None:
            whole(envs, name, span, warp_only=True)
            for members in by_warp(envs).values():
                run(members[0])

        return each

    def together_tvm_fill_fragment(self, call: Call, span: Any) -> RunGroup:
        view = self.fragment(call.args[0], call.args[4])
        sizes = [self.visit(arg) for arg in call.args[1:4]]
        value = self.visit(call.args[5])
        pointer = self.visit(call.args[0])
        kind = _fragment_kind(call.args[0])

        def fill(env: Environment) -> None:
            shape = tuple([size(env) for size in sizes])
            env[0].fragments[id(pointer(env).memory)] = shape
            view(env, *_matrix_shape(kind, shape))[...] = value(env)

        return self.by_warps(call, span, fill)

    def moving(self, call: Call, span: Any, stores: bool) -> RunGroup:
        """``tvm_load_matrix_sync`` and ``tvm_store_matrix_sync``."""
        view = self.fragment(call.args[0], call.args[4])
        sizes = [self.visit(arg) for arg in call.args[1:4]]
        pointer, place = self.visit(call.args[0]), self.visit(call.args[5])
        stride, layout = self.visit(call.args[6]), call.args[7].value  # type: ignore[attr-defined]
        kind, dtype = _fragment_kind(call.args[0]), _element_of(call.args[5])

        def move(env: Environment) -> None:
            shape = tuple([size(env) for size in sizes])
            env[0].fragments[id(pointer(env).memory)] = shape
            rows, columns = _matrix_shape(kind, shape)
            steps = (stride(env), 1) if layout == "row_major" else (1, stride(env))
            memory = place(env).view(dtype, (rows, columns), steps, 0)
            matrix = view(env, rows, columns)
            if stores:
                memory[...] = matrix
            else:
                matrix[...] = memory

        return self.by_warps(call, span, move)

    def together_tvm_load_matrix_sync(self, call: Call, span: Any) -> RunGroup:
        return self.moving(call, span, False)

    def together_tvm_store_matrix_sync(self, call: Call, span: Any) -> RunGroup:
        return self.moving(call, span, True)

    def together_tvm_mma_sync(self, call: Call, span: Any) -> RunGroup:
        views = [self.fragment(call.args[i], call.args[i + 1]) for i in (0, 2, 4, 6)]
        left = self.visit(call.args[2])

        def multiply(env: Environment) -> None:
            shape = env[0].fragments.get(id(left(env).memory))
            if shape is None:
                raise ExecutionError("tvm_mma_sync: a fragment was never loaded", span=span)
            m, n, k = shape
            d, a, b, c = views
            d(env, m, n)[...] = _product(a(env, m, k), b(env, k, n), c(env, m, n))

        return self.by_warps(call, span, multiply)

    # SIMD groups: matrices of 8 by 8.

    def together_make_filled_simdgroup_matrix(self, call: Call, span: Any) -> RunGroup:
        view, value = self.fragment(call.args[0], call.args[1]), self.visit(call.args[2])
        columns, rows = [self.visit(arg) for arg in call.args[3:5]]

        def fill(env: Environment) -> None:
            view(env, rows(env), columns(env))[...] = value(env)

        return self.by_warps(call, span, fill)

    def simdgroup_move(self, call: Call, span: Any, stores: bool) -> RunGroup:
        view = self.fragment(call.args[0], call.args[1])
        place, stride, columns, rows, transposed = [self.visit(arg) for arg in call.args[2:7]]
        dtype = _element_of(call.args[2])

        def move(env: Environment) -> None:
            shape = (rows(env), columns(env))
            steps = (1, stride(env)) if transposed(env) else (stride(env), 1)
            memory, matrix = place(env).view(dtype, shape, steps, 0), view(env, *shape)
            if stores:
                memory[...] = matrix
            else:
                matrix[...] = memory

        return self.by_warps(call, span, move)

    def together_simdgroup_load(self, call: Call, span: Any) -> RunGroup:
        return self.simdgroup_move(call, span, False)

    def together_simdgroup_store(self, call: Call, span: Any) -> RunGroup:
        return self.simdgroup_move(call, span, True)

    def together_simdgroup_multiply_accumulate(self, call: Call, span: Any) -> RunGroup:
        views = [self.fragment(call.args[i], call.args[i + 1]) for i in (0, 2, 4, 6)]

        def multiply(env: Environment) -> None:
            d, a, b, c = [view(env, 8, 8) for view in views]
            d[...] = _product(a, b, c)

        return self.by_warps(call, span, multiply)

    # mma and ldmatrix.

    def registers(self, arg: Any, index: Any, dtype: DataType, count: int) -> Evaluate:
        """The registers of a thread from an index on."""
        pointer, number, size = self.visit(arg), self.visit(index), _pointed(arg, dtype.nbytes)

        def view(env: Environment) -> Any:
            return pointer(env).moved(number(env) * size).view(dtype, (count,), None, 0)

        return view

    def together_ptx_mma(self, call: Call, span: Any) -> RunGroup:
        texts = [str(getattr(arg, "value", "")) for arg in call.args[:6]]
        shape = re.fullmatch(r"m(\d+)n8k(\d+)", texts[0])
        if shape is None or any(text not in _KINDS for text in texts[3:6]):
            raise UnsupportedError(
                f"ptx_mma of shape {texts[0]} on {', '.join(texts[3:6])} is not known", span=span
            )
        if texts[0] == "m8n8k4" and texts[3] == "fp16":
            raise UnsupportedError("ptx_mma: m8n8k4 on fp16 works on pairs of quads", span=span)
        m, k = int(shape.group(1)), int(shape.group(2))
        a_type, b_type, c_type = [DataType(_KINDS[text]) for text in texts[3:6]]
        packed = max(32 // a_type.bits, 1)
        a = self.registers(call.args[6], call.args[7], a_type, m * k // 32)
        b = self.registers(call.args[8], call.args[9], b_type, k * 8 // 32)
        c = self.registers(call.args[10], call.args[11], c_type, m * 8 // 32)
        left, right, result = [
            _places(which, m, k, packed) for which in ("A", "B", "C")
        ]  # for each lane: rows and columns of its registers

        parts = (
            (a, left, (m, k), a_type), (b, right, (k, 8), b_type), (c, result, (m, 8), c_type),
        )  # fmt: skip

        def multiply(envs: list[Environment]) -> None:
            whole(envs, "ptx_mma", span, warp_only=True)
            for warp in by_warp(envs).values():
                matrices = []
                for registers, places, size, dtype in parts:
                    matrix = numpy.zeros(size, element_type(dtype))
                    for env in warp:
                        matrix[places[env[THREAD_SLOT].lane]] = registers(env)
                    matrices.append(matrix)
                product = _product(*matrices)
                for env in warp:
                    c(env)[...] = product[result[env[THREAD_SLOT].lane]]

        return multiply

    def together_ptx_ldmatrix(self, call: Call, span: Any) -> RunGroup:
        transposed = bool(call.args[0].value)  # type: ignore[attr-defined]
        count = int(call.args[1].value)  # type: ignore[attr-defined]
        target, start, source, offset = [self.visit(arg) for arg in call.args[3:7]]
        target_size = _pointed(call.args[3], call.dtype.element.nbytes)
        source_size = _pointed(call.args[5], call.dtype.element.nbytes)

        def load(envs: list[Environment]) -> None:
            whole(envs, "ptx_ldmatrix", span, warp_only=True)
            for warp in by_warp(envs).values():
                rows = []
                for env in warp[: 8 * count]:
                    place = source(env).moved(offset(env) * source_size)
                    self.touch_bytes(env, place, 16, False)  # type: ignore[attr-defined]
                    rows.append(_bytes(place, 16).copy().view(numpy.uint16))
                for env in warp:
                    lane = env[THREAD_SLOT].lane
                    found = []
                    for number in range(count):
                        matrix = numpy.stack(rows[8 * number : 8 * number + 8])
                        matrix = matrix.T if transposed else matrix
                        found.append(matrix[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2])
                    place = target(env).moved(start(env) * target_size)
                    self.touch_bytes(env, place, 4 * count, True)  # type: ignore[attr-defined]
                    _bytes(place, 4 * count)[...] = numpy.concatenate(found).view(numpy.uint8)

        return load

    def call_mma_fill(self, node: Call) -> Evaluate:
        size = int(node.args[0].value)  # type: ignore[attr-defined]
        registers = self.registers(node.args[1], node.args[2], node.dtype.element, size)

        def fill(env: Environment) -> None:
            registers(env)[...] = 0

        return fill

    def call_mma_store(self, node: Call) -> Evaluate:
        """The accumulators of 16 by 16 elements, eight in each thread."""
        dtype = node.dtype.element
        target, stride = self.visit(node.args[2]), self.visit(node.args[5])
        registers = self.registers(node.args[3], node.args[4], dtype, 8)

        def store(env: Environment) -> None:
            lane, values = env[THREAD_SLOT].lane, registers(env)
            place, step = target(env), stride(env)
            for number in range(8):
                row = lane // 4 + 8 * (number % 4 // 2)
                column = lane % 4 * 2 + number % 2 + 8 * (number // 4)
                place.view(dtype, (1,), None, row * step + column)[0] = values[number]

        return store


def _element_of(arg: Any) -> DataType:
    """The dtype behind a pointer."""
    if isinstance(arg, Call) and getattr(arg.op, "name", "") == "tir.tvm_access_ptr":
        return arg.args[0].dtype.element
    if isinstance(arg, Call) and getattr(arg.op, "name", "") == "tir.address_of":
        return arg.args[0].dtype.element
    element = getattr(getattr(arg, "type_annotation", None), "element_type", None)
    if element is None:
        raise UnsupportedError(f"the pointer {arg} of a matrix does not tell its elements")
    return element.dtype.element


def _fragment_kind(arg: Any) -> str:
    return str(getattr(arg, "storage_scope", "")).rpartition(".")[2]


def _matrix_shape(kind: str, shape: tuple[int, ...]) -> tuple[int, int]:
    m, n, k = shape
    return {"matrix_a": (m, k), "matrix_b": (k, n)}.get(kind, (m, n))


def _product(a: Any, b: Any, c: Any) -> Any:
    """``a @ b + c``, added up in the precision of the accumulator, float32 at least."""
    wide: Any = c.dtype
    if numpy.issubdtype(wide, numpy.integer):
        wide = numpy.dtype("int64")
    elif wide.itemsize < 4:
        wide = numpy.dtype("float32")
    return (a.astype(wide) @ b.astype(wide) + c.astype(wide)).astype(c.dtype)


def _places(which: str, m: int, k: int, packed: int) -> list[tuple[Any, Any]]:
    """For each lane the rows and columns of its registers."""
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
