"""Products of ``mma`` of shape m16n8k8, whose operands lie in scopes of their own.

A buffer in scope ``m16n8k8.matrixA``, ``matrixB`` or ``matrixC`` keeps the shape of its matrix:
schedules bring it there with ``cache_read`` and ``cache_write`` alone. The pass
TransformMmaBufferLayout gives each thread its registers; the implementations touch an element only
in the thread that holds it (``get_index_A``, ``get_index_B`` and ``get_index_C`` number its
registers).
"""

from typing import Any

from tilesmith.schedule_rules.intrinsics.cuda_layouts import (
    WARP_SIZE,
    get_index_A,
    get_index_B,
    get_index_C,
)
from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = [
    "get_mma_init_intrin",
    "get_mma_load_intrin",
    "get_mma_store_dummy_intrin",
    "get_mma_sync_intrin",
]

_KINDS = {"float16": "fp16", "float32": "fp32"}
_SHORT_NAMES = {"float16": "f16", "float32": "f32"}


def _check_shape(m_dim: int, n_dim: int, k_dim: int) -> None:
    if (m_dim, n_dim, k_dim) != (16, 8, 8):
        raise ScheduleError(
            f"there is no scope for the operands of mma m{m_dim}n{n_dim}k{k_dim}",
            notes=("the scopes m16n8k8.matrixA, matrixB and matrixC exist",),
        )


def get_mma_init_intrin(
    m_dim: int, n_dim: int, k_dim: int, dtype: str
) -> tuple[PrimFunc, PrimFunc]:
    """Define the fill of a tile of results with zeros."""
    _check_shape(m_dim, n_dim, k_dim)
    zero = T.FloatImm(dtype, 0.0)

    @T.prim_func(private=True)
    def desc(c: T.handle):
        C = T.match_buffer(c, (16, 8), dtype, align=64, offset_factor=1, scope="m16n8k8.matrixC")
        with T.block("root"):
            T.reads()
            T.writes(C[0:16, 0:8])
            for i, j in T.grid(16, 8):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = zero

    @T.prim_func(private=True)
    def impl(c: T.handle):
        C = T.match_buffer(c, (16, 8), dtype, align=64, offset_factor=1, scope="m16n8k8.matrixC")
        with T.block("root"):
            T.reads()
            T.writes(C[0:16, 0:8])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                for half, number in T.grid(2, 2):
                    C[half * 8 + tx // 4, tx % 4 * 2 + number] = zero

    return desc, impl


def get_mma_load_intrin(
    m_dim: int,
    n_dim: int,
    k_dim: int,
    dtype: str,
    shared_scope: str,
    is_b: bool,
    is_col_major: bool,
) -> tuple[PrimFunc, PrimFunc]:
    """Define the load of a tile of either matrix from shared memory, by one ``ldmatrix``.

    The tile has ``m_dim`` by ``k_dim`` or ``k_dim`` by ``n_dim`` elements; ``k_dim`` is 8, the
    other side 8, 16 or 32. ``is_col_major``: the tile lies transposed in shared memory.
    """
    side = n_dim if is_b else m_dim
    if k_dim != 8 or side not in (8, 16, 32) or dtype != "float16":
        raise ScheduleError(
            f"ldmatrix loads tiles of 8, 16 or 32 times 8 float16, not {side} times {k_dim} {dtype}"
        )
    rows, columns = (8, side) if is_b else (side, 8)
    scope = f"m16n8k8.matrix{'B' if is_b else 'A'}"
    shape = (columns, rows) if is_col_major else (rows, columns)
    first, second = shape

    def place(i: Any, j: Any) -> tuple[Any, Any]:
        return (j, i) if is_col_major else (i, j)

    @T.prim_func(private=True)
    def desc(a: T.handle, c: T.handle):
        A = T.match_buffer(a, shape, dtype, align=64, offset_factor=8, scope=shared_scope)
        C = T.match_buffer(c, (rows, columns), dtype, align=64, offset_factor=8, scope=scope)
        with T.block("root"):
            T.reads(A[0:first, 0:second])
            T.writes(C[0:rows, 0:columns])
            for i, j in T.grid(first, second):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    row, column = T.meta_var(place(vi, vj))
                    C[row, column] = A[vi, vj]

    return desc, _load_impl(side, shared_scope, is_b, is_col_major)


def _load_impl(side: int, shared_scope: str, is_b: bool, is_col_major: bool) -> PrimFunc:
    rows, columns = (8, side) if is_b else (side, 8)
    scope = f"m16n8k8.matrix{'B' if is_b else 'A'}"
    shape = (columns, rows) if is_col_major else (rows, columns)
    first, second = shape
    by_columns = is_b != is_col_major  # the neighbours in a register run along the sum
    get_index: Any = get_index_B if is_b else get_index_A
    # The matrices follow each other along the side; in shared memory, that is down or right.
    is_down = is_b == is_col_major

    def row_offset(lane: Any, stride: Any) -> Any:
        return lane * stride if is_down else lane % 8 * stride + lane // 8 * 8

    @T.prim_func(private=True)
    def impl(a: T.handle, c: T.handle):
        s0, d0 = T.int32(), T.int32()
        A = T.match_buffer(
            a, shape, "float16", align=64, offset_factor=8, scope=shared_scope, strides=[s0, 1]
        )
        C = T.match_buffer(
            c, (rows, columns), "float16", align=64, offset_factor=8, scope=scope, strides=[d0, 1]
        )
        with T.block("root"):
            T.reads(A[0:first, 0:second])
            T.writes(C[0:rows, 0:columns])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                T.evaluate(
                    T.ptx_ldmatrix(
                        "float16",
                        by_columns,
                        side // 8,
                        ".b16",
                        C.data,
                        get_index(C.elem_offset, d0),
                        A.access_ptr("r"),
                        row_offset(tx % side, s0),  # of other threads no address is read
                    )
                )

    made: PrimFunc = impl
    return made


def get_mma_sync_intrin(
    m_dim: int, n_dim: int, k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool
) -> tuple[PrimFunc, PrimFunc]:
    """Define ``C += A @ B``; with ``b_transposed``, B lay transposed in shared memory."""
    _check_shape(m_dim, n_dim, k_dim)
    if in_dtype != "float16" or out_dtype not in _KINDS:
        raise ScheduleError(f"there is no mma m16n8k8 for {in_dtype} and {out_dtype}")

    def wide(value: Any) -> Any:
        return value if out_dtype == in_dtype else T.cast(value, out_dtype)

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (16, 8), in_dtype, align=64, offset_factor=8, scope="m16n8k8.matrixA")
        B = T.match_buffer(b, (8, 8), in_dtype, align=64, offset_factor=8, scope="m16n8k8.matrixB")
        C = T.match_buffer(
            c, (16, 8), out_dtype, align=64, offset_factor=8, scope="m16n8k8.matrixC"
        )
        with T.block("root"):
            T.reads(C[0:16, 0:8], A[0:16, 0:8], B[0:8, 0:8])
            T.writes(C[0:16, 0:8])
            for i, j, k in T.grid(16, 8, 8):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + wide(A[vi, vk]) * wide(B[vk, vj])

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        a0, b0, c0 = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(
            a, (16, 8), in_dtype, align=64, offset_factor=8, scope="m16n8k8.matrixA",
            strides=[a0, 1],
        )  # fmt: skip
        B = T.match_buffer(
            b, (8, 8), in_dtype, align=64, offset_factor=8, scope="m16n8k8.matrixB",
            strides=[b0, 1],
        )  # fmt: skip
        C = T.match_buffer(
            c, (16, 8), out_dtype, align=64, offset_factor=8, scope="m16n8k8.matrixC",
            strides=[c0, 1],
        )  # fmt: skip
        with T.block("root"):
            T.reads(C[0:16, 0:8], A[0:16, 0:8], B[0:8, 0:8])
            T.writes(C[0:16, 0:8])
            for _tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                T.evaluate(
                    T.ptx_mma(
                        out_dtype, "m16n8k8", "row", "col", "fp16", "fp16", _KINDS[out_dtype],
                        A.data, get_index_A(A.elem_offset, a0),
                        B.data, get_index_B(B.elem_offset, b0),
                        C.data, get_index_C(C.elem_offset, c0),
                        False,
                    )
                )  # fmt: skip

    return desc, impl


def get_mma_store_dummy_intrin(
    m_dim: int, n_dim: int, k_dim: int, dtype: str
) -> tuple[PrimFunc, PrimFunc]:
    """Define the store of a tile of results into shared memory, by plain stores of each thread."""
    _check_shape(m_dim, n_dim, k_dim)

    @T.prim_func(private=True)
    def desc(c: T.handle, d: T.handle):
        C = T.match_buffer(c, (16, 8), dtype, align=64, offset_factor=1, scope="m16n8k8.matrixC")
        D = T.match_buffer(d, (16, 8), dtype, align=64, offset_factor=1, scope="shared.dyn")
        with T.block("root"):
            T.reads(C[0:16, 0:8])
            T.writes(D[0:16, 0:8])
            for i, j in T.grid(16, 8):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = C[vi, vj]

    @T.prim_func(private=True)
    def impl(c: T.handle, d: T.handle):
        s0, s1 = T.int32(), T.int32()
        C = T.match_buffer(c, (16, 8), dtype, align=64, offset_factor=1, scope="m16n8k8.matrixC")
        D = T.match_buffer(
            d, (16, 8), dtype, align=64, offset_factor=1, scope="shared.dyn", strides=[s0, s1]
        )
        with T.block("root"):
            T.reads(C[0:16, 0:8])
            T.writes(D[0:16, 0:8])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                for half, number in T.grid(2, 2):
                    D[half * 8 + tx // 4, tx % 4 * 2 + number] = C[
                        half * 8 + tx // 4, tx % 4 * 2 + number
                    ]

    return desc, impl


def _register_all() -> None:
    for is_b, side in ((False, (32, 8, 8)), (True, (16, 32, 8))):
        name = f"mma_load_m16n8k8_f16_{'B' if is_b else 'A'}_shared_dyn"
        functions = get_mma_load_intrin(*side, "float16", "shared.dyn", is_b, False)
        TensorIntrin.register(name, *functions)
    for dtype, short in _SHORT_NAMES.items():
        init, store = (
            get_mma_init_intrin(16, 8, 8, dtype),
            get_mma_store_dummy_intrin(16, 8, 8, dtype),
        )
        product = get_mma_sync_intrin(16, 8, 8, "float16", dtype, False)
        TensorIntrin.register(f"mma_init_m16n8k8_{short}", *init)
        TensorIntrin.register(f"mma_sync_m16n8k8_f16f16{short}", *product)
        TensorIntrin.register(f"mma_store_m16n8k8_{short}_global", *store)


_register_all()
