"""Matrix units of NVIDIA GPUs through fragments (``wmma``): fill, load, multiply, store.

The warp-level ones (``mma``, ``ldmatrix``) are in ``cuda_mma`` and ``cuda_m16n8k8``, the layouts of
their registers in ``cuda_layouts``; all can be imported from here too.

A fragment holds a 16x16 tile (8x8 or 8x32 for int4; 16x8 or 8x16 of operands of float32, which
their load rounds to tf32); a buffer in a ``wmma`` scope is an array of them, and the number of a
tile in it follows from the offset of the tile. Loads read from shared memory, stores write to
shared or global memory.
"""

from collections.abc import Iterable
from typing import Any, Literal

from tilesmith.schedule_rules.intrinsics import cuda_layouts, cuda_m16n8k8, cuda_mma
from tilesmith.schedule_rules.intrinsics.cuda_layouts import *  # noqa: F403
from tilesmith.schedule_rules.intrinsics.cuda_m16n8k8 import *  # noqa: F403
from tilesmith.schedule_rules.intrinsics.cuda_mma import *  # noqa: F403
from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = [
    "get_wmma_fill_intrin",
    "get_wmma_fragment_index",
    "get_wmma_intrin_group",
    "get_wmma_load_intrin",
    "get_wmma_store_intrin",
    "get_wmma_sync_intrin",
    *cuda_layouts.__all__,
    *cuda_m16n8k8.__all__,
    *cuda_mma.__all__,
]

_KNOWN = "float16 with float16 or float32, int8 and int4 with int32, float32 (as tf32) with float32"
SHORT_NAMES = {
    "float16": "f16",
    "float32": "f32",
    "int8": "s8",
    "int4": "s4",
    "int32": "s32",
}


OPERAND_NAMES = {**SHORT_NAMES, "float32": "tf32"}


def get_wmma_fragment_index(buffer: Any, stride: Any, m_dim: int, n_dim: int) -> Any:
    """Return the number of a matched buffer's tile among the fragments of its array."""
    tiles_in_a_row = stride // n_dim
    row, column = buffer.elem_offset // stride, buffer.elem_offset % stride
    return row // m_dim * tiles_in_a_row + column // n_dim


def get_wmma_load_intrin(
    m_dim: int,
    n_dim: int,
    k_dim: int,
    dtype: str,
    shared_scope: str,
    is_b: bool,
    is_col_major: bool,
) -> tuple[PrimFunc, PrimFunc]:
    """Define the load of a tile of either matrix from shared memory into a fragment.

    ``is_col_major``: the tile lies transposed in memory.
    """
    scope = "wmma.matrix_b" if is_b else "wmma.matrix_a"
    rows, columns = (k_dim, n_dim) if is_b else (m_dim, k_dim)
    shape = (columns, rows) if is_col_major else (rows, columns)
    layout = "col_major" if is_col_major else "row_major"
    first, second = shape

    @T.prim_func(private=True)
    def desc(a: T.handle, c: T.handle):
        A = T.match_buffer(a, shape, dtype, align=64, offset_factor=second, scope=shared_scope)
        C = T.match_buffer(c, shape, dtype, align=64, offset_factor=second, scope=scope)
        with T.block("root"):
            T.reads(A[0:first, 0:second])
            T.writes(C[0:first, 0:second])
            for i, j in T.grid(first, second):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj]

    @T.prim_func(private=True)
    def impl(a: T.handle, c: T.handle):
        s0, s1, d0, d1 = T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(
            a, shape, dtype, align=64, offset_factor=second, scope=shared_scope, strides=[s0, s1]
        )
        C = T.match_buffer(
            c, shape, dtype, align=64, offset_factor=second, scope=scope, strides=[d0, d1]
        )
        with T.block("root"):
            T.reads(A[0:first, 0:second])
            T.writes(C[0:first, 0:second])
            T.evaluate(
                T.tvm_load_matrix_sync(
                    C.data,
                    m_dim,
                    n_dim,
                    k_dim,
                    get_wmma_fragment_index(C, d0, first, second),
                    A.access_ptr("r"),
                    s0,
                    layout,
                )
            )

    return desc, impl


def get_wmma_fill_intrin(
    m_dim: int, n_dim: int, k_dim: int, dtype: str
) -> tuple[PrimFunc, PrimFunc]:
    """Define the fill of a fragment with zeros."""
    zero = T.Cast(dtype, T.int32(0)) if dtype.startswith("int") else T.FloatImm(dtype, 0.0)
    if dtype == "int32":
        zero = T.int32(0)

    @T.prim_func(private=True)
    def desc(c: T.handle):
        C = T.match_buffer(
            c, (m_dim, n_dim), dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator"
        )
        with T.block("root"):
            T.reads()
            T.writes(C[0:m_dim, 0:n_dim])
            for i, j in T.grid(m_dim, n_dim):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = zero

    @T.prim_func(private=True)
    def impl(c: T.handle):
        d0, d1 = T.int32(), T.int32()
        C = T.match_buffer(
            c, (m_dim, n_dim), dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator",
            strides=[d0, d1],
        )  # fmt: skip
        with T.block("root"):
            T.reads()
            T.writes(C[0:m_dim, 0:n_dim])
            T.evaluate(
                T.tvm_fill_fragment(
                    C.data,
                    m_dim,
                    n_dim,
                    k_dim,
                    get_wmma_fragment_index(C, d0, m_dim, n_dim),
                    T.float32(0),
                )
            )

    return desc, impl


def get_wmma_store_intrin(
    m_dim: int, n_dim: int, k_dim: int, dtype: str, scope: str
) -> tuple[PrimFunc, PrimFunc]:
    """Define the store of a fragment of results into shared or global memory."""

    @T.prim_func(private=True)
    def desc(a: T.handle, c: T.handle):
        A = T.match_buffer(
            a, (m_dim, n_dim), dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator"
        )
        C = T.match_buffer(c, (m_dim, n_dim), dtype, align=64, offset_factor=n_dim, scope=scope)
        with T.block("root"):
            T.reads(A[0:m_dim, 0:n_dim])
            T.writes(C[0:m_dim, 0:n_dim])
            for i, j in T.grid(m_dim, n_dim):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj]

    @T.prim_func(private=True)
    def impl(a: T.handle, c: T.handle):
        s0, s1, d0, d1 = T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(
            a, (m_dim, n_dim), dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator",
            strides=[d0, d1],
        )  # fmt: skip
        C = T.match_buffer(
            c, (m_dim, n_dim), dtype, align=64, offset_factor=n_dim, scope=scope, strides=[s0, s1]
        )
        with T.block("root"):
            T.reads(A[0:m_dim, 0:n_dim])
            T.writes(C[0:m_dim, 0:n_dim])
            T.evaluate(
                T.tvm_store_matrix_sync(
                    A.data,
                    m_dim,
                    n_dim,
                    k_dim,
                    get_wmma_fragment_index(A, d0, m_dim, n_dim),
                    C.access_ptr("w"),
                    s0,
                    "row_major",
                )
            )

    return desc, impl


def get_wmma_sync_intrin(
    m_dim: int, n_dim: int, k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool
) -> tuple[PrimFunc, PrimFunc]:
    """Define ``C += A @ B`` of fragments; with ``b_transposed``, ``C += A @ B.T``."""
    b_rows, b_columns = (n_dim, k_dim) if b_transposed else (k_dim, n_dim)

    def wide(value: Any) -> Any:
        return value if in_dtype == out_dtype else T.cast(value, out_dtype)

    def right(buffer: Any, k: Any, j: Any) -> Any:
        return buffer[j, k] if b_transposed else buffer[k, j]

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(
            a, (m_dim, k_dim), in_dtype, align=64, offset_factor=k_dim, scope="wmma.matrix_a"
        )
        B = T.match_buffer(
            b,
            (b_rows, b_columns),
            in_dtype,
            align=64,
            offset_factor=b_columns,
            scope="wmma.matrix_b",
        )
        C = T.match_buffer(
            c, (m_dim, n_dim), out_dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator"
        )
        with T.block("root"):
            T.reads(C[0:m_dim, 0:n_dim], A[0:m_dim, 0:k_dim], B[0:b_rows, 0:b_columns])
            T.writes(C[0:m_dim, 0:n_dim])
            for i, j, k in T.grid(m_dim, n_dim, k_dim):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + wide(A[vi, vk]) * wide(right(B, vk, vj))

    return desc, _wmma_sync_impl(m_dim, n_dim, k_dim, (b_rows, b_columns), in_dtype, out_dtype)


def _wmma_sync_impl(
    m_dim: int, n_dim: int, k_dim: int, b_shape: tuple[int, int], in_dtype: str, out_dtype: str
) -> PrimFunc:
    b_rows, b_columns = b_shape

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        a0, a1, b0, b1, c0, c1 = (
            T.int32(), T.int32(), T.int32(), T.int32(), T.int32(), T.int32(),
        )  # fmt: skip
        A = T.match_buffer(
            a, (m_dim, k_dim), in_dtype, align=64, offset_factor=k_dim, scope="wmma.matrix_a",
            strides=[a0, a1],
        )  # fmt: skip
        B = T.match_buffer(
            b, (b_rows, b_columns), in_dtype, align=64, offset_factor=b_columns,
            scope="wmma.matrix_b", strides=[b0, b1],
        )  # fmt: skip
        C = T.match_buffer(
            c, (m_dim, n_dim), out_dtype, align=64, offset_factor=n_dim, scope="wmma.accumulator",
            strides=[c0, c1],
        )  # fmt: skip
        with T.block("root"):
            T.reads(C[0:m_dim, 0:n_dim], A[0:m_dim, 0:k_dim], B[0:b_rows, 0:b_columns])
            T.writes(C[0:m_dim, 0:n_dim])
            T.evaluate(
                T.tvm_mma_sync(
                    C.data,
                    get_wmma_fragment_index(C, c0, m_dim, n_dim),
                    A.data,
                    get_wmma_fragment_index(A, a0, m_dim, k_dim),
                    B.data,
                    get_wmma_fragment_index(B, b0, b_rows, b_columns),
                    C.data,
                    get_wmma_fragment_index(C, c0, m_dim, n_dim),
                )
            )

    return impl


# --- public names --------------------------------------------------------------------


def _define(constant: str, name: str, functions: tuple[PrimFunc, PrimFunc]) -> None:
    """Register an intrinsic, and add a constant with its name to this module."""
    TensorIntrin.register(name, *functions)
    globals()[constant] = name
    __all__.append(constant)


# what a fragment's tiles are: sizes, inputs, results of each input, ways in which A and B may lie
_SIZES: dict[
    tuple[int, int, int], tuple[dict[str, tuple[str, ...]], tuple[tuple[str, bool], ...]]
] = {
    (16, 16, 16): (
        {"float16": ("float32", "float16"), "int8": ("int32",)},
        (("a", False), ("a", True), ("b", False), ("b", True)),
    ),
    (16, 16, 8): (
        {"float32": ("float32",)},
        (("a", False), ("a", True), ("b", False), ("b", True)),
    ),
    (8, 8, 32): ({"int4": ("int32",)}, (("a", False), ("b", True))),
}


def _define_all() -> None:
    for sizes, (dtypes, loads) in _SIZES.items():
        shape = "x".join([str(size) for size in sizes])
        for dtype, results in dtypes.items():
            _define_loads(sizes, shape, dtype, loads)
            for transposed in [how for matrix, how in loads if matrix == "b"]:
                for out_dtype in results:
                    kinds = OPERAND_NAMES[dtype] * 2 + SHORT_NAMES[out_dtype]
                    tail = "_trans" * transposed
                    _define(
                        f"WMMA_SYNC_{shape}_{kinds}{tail.upper()}_INTRIN",
                        f"wmma_sync_{shape}_{kinds}{tail}",
                        get_wmma_sync_intrin(*sizes, dtype, out_dtype, transposed),
                    )
            for out_dtype in results:
                _define_results(sizes, shape, out_dtype)


def _define_loads(
    sizes: tuple[int, int, int], shape: str, dtype: str, loads: Iterable[tuple[str, bool]]
) -> None:
    short = OPERAND_NAMES[dtype]
    for matrix, transposed in loads:
        for scope in ("shared", "shared.dyn"):
            tail = "_trans" * transposed
            dynamic = "_DYN" * (scope == "shared.dyn")
            _define(
                f"WMMA_LOAD_{shape}_{short.upper()}_{matrix.upper()}{tail.upper()}{dynamic}_INTRIN",
                f"wmma_load_{shape}_{short}_{matrix}{tail}_{scope.replace('.', '_')}",
                get_wmma_load_intrin(*sizes, dtype, scope, matrix == "b", transposed),
            )


def _define_results(sizes: tuple[int, int, int], shape: str, dtype: str) -> None:
    short = SHORT_NAMES[dtype]
    _define(
        f"WMMA_FILL_{shape}_{short.upper()}_INTRIN",
        f"wmma_fill_{shape}_{short}",
        get_wmma_fill_intrin(*sizes, dtype),
    )
    for scope, suffix in (("shared", ""), ("shared.dyn", "_DYN"), ("global", "")):
        place = "GLOBAL" if scope == "global" else "SHARED"
        _define(
            f"WMMA_STORE_{shape}_{short.upper()}_{place}{suffix}_INTRIN",
            f"wmma_store_{shape}_{short}_{scope.replace('.', '_')}",
            get_wmma_store_intrin(*sizes, dtype, scope),
        )


_define_all()


def get_wmma_intrin_group(
    load_scope: Literal["shared", "shared.dyn"],
    store_scope: Literal["global", "shared", "shared.dyn"],
    in_dtype: str,
    out_dtype: str,
    trans_b: bool,
) -> dict[str, str]:
    """Return the names of a matching set of intrinsics: init, load_a, load_b, compute, store."""
    sizes = next((one for one, (dtypes, _) in _SIZES.items() if in_dtype in dtypes), None)
    if sizes is None or out_dtype not in _SIZES[sizes][0][in_dtype]:
        raise ScheduleError(
            f"there is no wmma for {in_dtype} and {out_dtype}",
            notes=(f"known: {_KNOWN}",),
        )
    if ("b", trans_b) not in _SIZES[sizes][1]:
        raise ScheduleError(f"wmma of {in_dtype} needs B transposed (trans_b=True)")
    if load_scope not in ("shared", "shared.dyn"):
        raise ScheduleError(f"wmma loads from shared or shared.dyn, got '{load_scope}'")
    if store_scope not in ("global", "shared", "shared.dyn"):
        raise ScheduleError(f"wmma stores to global, shared or shared.dyn, got '{store_scope}'")
    shape = "x".join([str(size) for size in sizes])
    short, result = OPERAND_NAMES[in_dtype], SHORT_NAMES[out_dtype]
    load, store = load_scope.replace(".", "_"), store_scope.replace(".", "_")
    tail = "_trans" if trans_b else ""
    return {
        "init": f"wmma_fill_{shape}_{result}",
        "load_a": f"wmma_load_{shape}_{short}_a_{load}",
        "load_b": f"wmma_load_{shape}_{short}_b{tail}_{load}",
        "compute": f"wmma_sync_{shape}_{short}{short}{result}{tail}",
        "store": f"wmma_store_{shape}_{result}_{store}",
    }
