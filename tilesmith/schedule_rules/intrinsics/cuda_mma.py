"""Matrix units of NVIDIA GPUs at warp level: ``ldmatrix`` loads, ``mma`` multiplies.

A tile of 16x16 results is the product of tiles with 8 (float32, as tf32), 16 (float16) or 32 (int8)
steps of the sum. It is spread over the 32 threads of a warp as ``cuda_layouts`` says. A buffer in
scope ``warp`` has the shape (..., 32, 8), for bytes (..., 32, 16), for operands of float32
(..., 32, 4): bring it there by ``transform_layout`` with

    A, C: lambda i, j: [i // 16, j // 16, *shared_16x16_to_ldmatrix_32x8_layout(i % 16, j % 16)]
    B[k, j]: the same with shared_16x16_to_ldmatrix_32x8_trans_layout
    B[j, k]: the same with shared_16x16_to_ldmatrix_32x8_b_layout
    bytes: shared_16x32_to_ldmatrix_32x16_layout for A, shared_32x16_to_ldmatrix_32x16_layout for B
    float32: shared_16x8_to_mma_32x4_layout for A, shared_8x16_to_mma_32x4_layout for B

Loads round float32 to tf32 (10 bits behind the point, halves away from zero); sums stay float32.

The layout belongs to the register, not to the way that the tile lies in shared memory: the products
with transposed tiles are the same products, only their loads differ.
"""

from collections.abc import Callable
from typing import Any

from tilesmith.schedule_rules.intrinsics.cuda_layouts import (
    WARP_SIZE,
    ldmatrix_32x8_to_shared_16x16_layout,
    shared_8x16_to_mma_32x4_layout,
    shared_16x8_to_mma_32x4_layout,
    shared_16x16_to_ldmatrix_32x8_layout,
    shared_16x16_to_ldmatrix_32x8_trans_layout,
    shared_16x32_to_ldmatrix_32x16_layout,
    shared_32x16_to_ldmatrix_32x16_layout,
)
from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = [
    "get_ldmatrix_intrin",
    "get_mma_fill_intrin",
    "get_mma_intrin",
    "get_mma_intrin_group",
    "get_mma_store_intrin",
]

Layout = Callable[[Any, Any], tuple[Any, Any]]
RESULTS = 8
"""Elements of a 16x16 tile of results in each thread."""

# steps of the sum -> (dtype, layout of A[i, k], layout of B[k, j], name in PTX, shape of mma)
OPERANDS: dict[int, tuple[str, Layout, Layout, str, str]] = {
    8: (
        "float32",
        shared_16x8_to_mma_32x4_layout,
        shared_8x16_to_mma_32x4_layout,
        "tf32",
        "m16n8k8",
    ),
    16: (
        "float16",
        shared_16x16_to_ldmatrix_32x8_layout,
        shared_16x16_to_ldmatrix_32x8_trans_layout,
        "fp16",
        "m16n8k16",
    ),
    32: (
        "int8",
        shared_16x32_to_ldmatrix_32x16_layout,
        shared_32x16_to_ldmatrix_32x16_layout,
        "int8",
        "m16n8k32",
    ),
}
SHORT_NAMES = {"float16": "f16", "float32": "f32", "int8": "i8", "int32": "i32"}
_OPERAND_NAMES = {**SHORT_NAMES, "float32": "tf32"}
_PTX_NAMES = {"float16": "fp16", "float32": "fp32", "int32": "int32"}
_RESULTS_OF = {"float16": ("float16", "float32"), "int8": ("int32",), "float32": ("float32",)}
_KNOWN = "float16 with float16 or float32, int8 with int32, float32 (as tf32) with float32"


def _operand(k_dim: int, dtype: str | None = None) -> tuple[str, Layout, Layout, str, str]:
    found = OPERANDS.get(k_dim)
    if found is None or dtype not in (None, found[0]):
        raise ScheduleError(
            f"there is no mma with {k_dim} steps of a sum" + (f" of {dtype}" if dtype else ""),
            notes=("known: 8 of float32 (as tf32), 16 of float16, 32 of int8",),
        )
    return found


def get_ldmatrix_intrin(
    k_dim: int, dtype: str, matrix_name: str, transposed: bool, shared_scope: str = "shared"
) -> tuple[PrimFunc, PrimFunc]:
    """Define the load of the tile A[i, k] or B[k, j] from shared memory; ``transposed``: of A[k, i]
    or B[j, k].

    ``ldmatrix`` takes the address of one row of 16 bytes from each thread; the four 8x8 matrices of
    16 bits arrive as the four 32-bit registers of each thread. It transposes each matrix where the
    neighbours in a register lie in a column; it can't for bytes, so each thread gathers them.
    Elements of float32 are gathered and rounded to tf32.
    """
    _, layout_a, layout_b, _, _ = _operand(k_dim, dtype)
    if matrix_name not in ("A", "B"):
        raise ScheduleError(f"ldmatrix loads the matrix 'A' or 'B', got '{matrix_name}'")
    is_b = matrix_name == "B"
    by_columns = is_b != transposed  # the neighbours in a register run along k
    rows, columns = (k_dim, 16) if by_columns else (16, k_dim)
    layout = _layout_of_tile(layout_b if is_b else layout_a, transposed)
    local_size, factor = k_dim // 2, min(k_dim, 16)

    @T.prim_func(private=True)
    def desc(s: T.handle, w: T.handle):
        S = T.match_buffer(
            s, (rows, columns), dtype, align=64, offset_factor=factor, scope=shared_scope
        )
        W = T.match_buffer(
            w, (WARP_SIZE, local_size), dtype, align=64, offset_factor=local_size, scope="warp"
        )
        with T.block("root"):
            T.reads(S[0:rows, 0:columns])
            T.writes(W[0:WARP_SIZE, 0:local_size])
            for i, j in T.grid(rows, columns):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, local = T.meta_var(layout(vi, vj))
                    T.reads(S[vi, vj])
                    T.writes(W[thread, local])
                    W[thread, local] = S[vi, vj]

    if dtype == "float32":
        return desc, _rounding_impl(is_b, by_columns, shared_scope)
    if by_columns and dtype == "int8":
        return desc, _gathering_impl(is_b, shared_scope)
    return desc, _ldmatrix_impl(k_dim, is_b, by_columns, shared_scope)


def _ldmatrix_impl(k_dim: int, is_b: bool, by_columns: bool, shared_scope: str) -> PrimFunc:
    """Load a tile by one instruction, whose 8x8 matrices are transposed if ``by_columns``."""
    dtype, local_size, half = OPERANDS[k_dim][0], k_dim // 2, k_dim // 2
    # The order of the four matrices is that of the registers: in A the halves of the rows change
    # first, in B the halves of the sum.
    down_first = by_columns if is_b else not by_columns

    def row(thread: Any) -> Any:
        return thread % 16 if down_first else 8 * (thread // 16) + thread % 8

    def column(thread: Any) -> Any:
        return half * (thread // 16) if down_first else half * (thread % 16 // 8)

    @T.prim_func(private=True)
    def impl(s: T.handle, w: T.handle):
        s0 = T.int32()
        S = T.match_buffer(
            s, (16, k_dim), dtype, align=64, offset_factor=16, scope=shared_scope, strides=[s0, 1]
        )
        W = T.match_buffer(
            w, (WARP_SIZE, local_size), dtype, align=64, offset_factor=local_size, scope="warp"
        )
        with T.block("root"):
            T.reads(S[0:16, 0:k_dim])
            T.writes(W[0:WARP_SIZE, 0:local_size])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                T.evaluate(
                    T.ptx_ldmatrix(
                        dtype,
                        by_columns,
                        4,
                        ".b16",
                        W.data,
                        W.elem_offset + tx * local_size,
                        S.access_ptr("r"),
                        row(tx) * s0 + column(tx),
                    )
                )

    made: PrimFunc = impl
    return made


def _layout_of_tile(layout: Layout, transposed: bool) -> Layout:
    return (lambda first, second: layout(second, first)) if transposed else layout


def _gathering_impl(is_b: bool, shared_scope: str) -> PrimFunc:
    """Load a 32x16 tile of bytes whose neighbours in a register lie in a column."""

    def place(thread: Any, local: Any) -> tuple[Any, Any]:
        first, second = local // 8, local % 8 // 4  # the halves of either axis
        along, across = (second, first) if is_b else (first, second)
        return 16 * along + 4 * (thread % 4) + local % 4, 8 * across + thread // 4

    @T.prim_func(private=True)
    def impl(s: T.handle, w: T.handle):
        s0, s1 = T.int32(), T.int32()
        S = T.match_buffer(
            s, (32, 16), "int8", align=64, offset_factor=16, scope=shared_scope, strides=[s0, s1]
        )
        W = T.match_buffer(w, (WARP_SIZE, 16), "int8", align=64, offset_factor=16, scope="warp")
        with T.block("root"):
            T.reads(S[0:32, 0:16])
            T.writes(W[0:WARP_SIZE, 0:16])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                for local in range(16):
                    i, j = T.meta_var(place(tx, local))
                    W[tx, local] = S[i, j]

    made: PrimFunc = impl
    return made


def _rounding_impl(is_b: bool, by_columns: bool, shared_scope: str) -> PrimFunc:
    """Load a tile of float32, rounded to tf32; ``by_columns``: the sum runs down the tile."""
    rows, columns = (8, 16) if by_columns else (16, 8)

    def place(thread: Any, local: Any) -> tuple[Any, Any]:
        first, second = local // 2, local % 2  # in A the halves of the sum, in B of the columns
        half_of_sum, half_across = (second, first) if is_b else (first, second)
        step, across = 4 * half_of_sum + thread % 4, 8 * half_across + thread // 4
        return (step, across) if by_columns else (across, step)

    @T.prim_func(private=True)
    def impl(s: T.handle, w: T.handle):
        s0, s1 = T.int32(), T.int32()
        S = T.match_buffer(
            s, (rows, columns), "float32", align=64, offset_factor=8, scope=shared_scope,
            strides=[s0, s1],
        )  # fmt: skip
        W = T.match_buffer(w, (WARP_SIZE, 4), "float32", align=64, offset_factor=4, scope="warp")
        with T.block("root"):
            T.reads(S[0:rows, 0:columns])
            T.writes(W[0:WARP_SIZE, 0:4])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                for local in T.unroll(4):
                    i, j = T.meta_var(place(tx, local))
                    W[tx, local] = T.call_intrin("float32", "tir.round_to_tf32", S[i, j])

    made: PrimFunc = impl
    return made


def get_mma_intrin(
    k_dim: int, out_dtype: str, a_transposed: bool = False, b_transposed: bool = False
) -> tuple[PrimFunc, PrimFunc]:
    """Define ``C += A @ B`` of a warp's tiles, as two instructions for eight columns each.

    ``a_transposed`` and ``b_transposed`` say how the tiles lie in shared memory; the registers, and
    so the product, are the same.
    """
    dtype, layout_a, layout_b, _, _ = _operand(k_dim)
    if out_dtype not in _RESULTS_OF[dtype]:
        raise ScheduleError(f"there is no mma for {dtype} and {out_dtype}")
    layout_c, local_size = shared_16x16_to_ldmatrix_32x8_layout, k_dim // 2

    def wide(value: Any) -> Any:
        return value if out_dtype == dtype else T.cast(value, out_dtype)

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(
            a, (WARP_SIZE, local_size), dtype, align=64, offset_factor=local_size, scope="warp"
        )
        B = T.match_buffer(
            b, (WARP_SIZE, local_size), dtype, align=64, offset_factor=local_size, scope="warp"
        )
        C = T.match_buffer(
            c, (WARP_SIZE, RESULTS), out_dtype, align=64, offset_factor=RESULTS, scope="warp"
        )
        with T.block("root"):
            T.reads(
                C[0:WARP_SIZE, 0:RESULTS], A[0:WARP_SIZE, 0:local_size],
                B[0:WARP_SIZE, 0:local_size],
            )  # fmt: skip
            T.writes(C[0:WARP_SIZE, 0:RESULTS])
            for i, j, k in T.grid(16, 16, k_dim):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    c0, c1 = T.meta_var(layout_c(vi, vj))
                    a0, a1 = T.meta_var(layout_a(vi, vk))
                    b0, b1 = T.meta_var(layout_b(vk, vj))
                    T.reads(C[c0, c1], A[a0, a1], B[b0, b1])
                    T.writes(C[c0, c1])
                    C[c0, c1] = C[c0, c1] + wide(A[a0, a1]) * wide(B[b0, b1])

    return desc, _mma_impl(k_dim, out_dtype)


def _mma_impl(k_dim: int, out_dtype: str) -> PrimFunc:
    dtype, _, _, kind, shape = OPERANDS[k_dim]
    out_kind, local_size, part = _PTX_NAMES[out_dtype], k_dim // 2, k_dim // 4

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(
            a, (WARP_SIZE, local_size), dtype, align=64, offset_factor=local_size, scope="warp"
        )
        B = T.match_buffer(
            b, (WARP_SIZE, local_size), dtype, align=64, offset_factor=local_size, scope="warp"
        )
        C = T.match_buffer(
            c, (WARP_SIZE, RESULTS), out_dtype, align=64, offset_factor=RESULTS, scope="warp"
        )
        with T.block("root"):
            T.reads(
                C[0:WARP_SIZE, 0:RESULTS], A[0:WARP_SIZE, 0:local_size],
                B[0:WARP_SIZE, 0:local_size],
            )  # fmt: skip
            T.writes(C[0:WARP_SIZE, 0:RESULTS])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                for half in T.unroll(2):
                    T.evaluate(
                        T.ptx_mma(
                            out_dtype, shape, "row", "col", kind, kind, out_kind,
                            A.data, A.elem_offset + tx * local_size,
                            B.data, B.elem_offset + tx * local_size + half * part,
                            C.data, C.elem_offset + tx * RESULTS + half * 4,
                            False,
                        )
                    )  # fmt: skip

    made: PrimFunc = impl
    return made


def get_mma_fill_intrin(dtype: str, local_size: int = RESULTS) -> tuple[PrimFunc, PrimFunc]:
    """Define the fill of a warp's tile, ``local_size`` elements in each thread, with zeros."""
    zero = T.int32(0) if dtype == "int32" else T.FloatImm(dtype, 0.0)
    _check_results(local_size)

    @T.prim_func(private=True)
    def desc(c: T.handle):
        C = T.match_buffer(
            c, (WARP_SIZE, RESULTS), dtype, align=64, offset_factor=RESULTS, scope="warp"
        )
        with T.block("root"):
            T.reads()
            T.writes(C[0:WARP_SIZE, 0:RESULTS])
            for i, j in T.grid(16, 16):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, local = T.meta_var(shared_16x16_to_ldmatrix_32x8_layout(vi, vj))
                    T.reads()
                    T.writes(C[thread, local])
                    C[thread, local] = zero

    @T.prim_func(private=True)
    def impl(c: T.handle):
        C = T.match_buffer(
            c, (WARP_SIZE, RESULTS), dtype, align=64, offset_factor=RESULTS, scope="warp"
        )
        with T.block("root"):
            T.reads()
            T.writes(C[0:WARP_SIZE, 0:RESULTS])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                T.evaluate(T.mma_fill(dtype, RESULTS, C.data, C.elem_offset + tx * RESULTS))

    return desc, impl


def _check_results(local_size: int) -> None:
    if local_size != RESULTS:
        raise ScheduleError(
            f"a warp holds {RESULTS} elements of a 16x16 tile in each thread, not {local_size}"
        )


def get_mma_store_intrin(
    dtype: str,
    local_size: int = RESULTS,
    scope: str = "global",
    use_mma_store_intrinic: bool = True,
) -> tuple[PrimFunc, PrimFunc]:
    """Define the store of a warp's tile of results into shared or global memory.

    ``use_mma_store_intrinic``: by the operator ``mma_store``; else by a loop in each thread, which
    later passes can vectorize.
    """
    layout = shared_16x16_to_ldmatrix_32x8_layout
    _check_results(local_size)

    @T.prim_func(private=True)
    def desc(c: T.handle, d: T.handle):
        C = T.match_buffer(
            c, (WARP_SIZE, RESULTS), dtype, align=64, offset_factor=RESULTS, scope="warp"
        )
        D = T.match_buffer(d, (16, 16), dtype, align=64, offset_factor=1, scope=scope)
        with T.block("root"):
            T.reads(C[0:WARP_SIZE, 0:RESULTS])
            T.writes(D[0:16, 0:16])
            for i, j in T.grid(16, 16):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, local = T.meta_var(layout(vi, vj))
                    T.reads(C[thread, local])
                    T.writes(D[vi, vj])
                    D[vi, vj] = C[thread, local]

    impl = _operator_store if use_mma_store_intrinic else _simple_store
    return desc, impl(dtype, scope)


def _operator_store(dtype: str, scope: str) -> PrimFunc:
    @T.prim_func(private=True)
    def impl(c: T.handle, d: T.handle):
        s0 = T.int32()
        C = T.match_buffer(
            c, (WARP_SIZE, RESULTS), dtype, align=64, offset_factor=RESULTS, scope="warp"
        )
        D = T.match_buffer(
            d, (16, 16), dtype, align=64, offset_factor=1, scope=scope, strides=[s0, 1]
        )
        with T.block("root"):
            T.reads(C[0:WARP_SIZE, 0:RESULTS])
            T.writes(D[0:16, 0:16])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                T.evaluate(
                    T.mma_store(
                        dtype, 16, 16, D.access_ptr("w"), C.data, C.elem_offset + tx * RESULTS, s0
                    )
                )

    made: PrimFunc = impl
    return made


def _simple_store(dtype: str, scope: str) -> PrimFunc:
    @T.prim_func(private=True)
    def impl(c: T.handle, d: T.handle):
        s0, s1 = T.int32(), T.int32()
        C = T.match_buffer(
            c, (WARP_SIZE, RESULTS), dtype, align=64, offset_factor=RESULTS, scope="warp"
        )
        D = T.match_buffer(
            d, (16, 16), dtype, align=64, offset_factor=1, scope=scope, strides=[s0, s1]
        )
        with T.block("root"):
            T.reads(C[0:WARP_SIZE, 0:RESULTS])
            T.writes(D[0:16, 0:16])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                for local in range(RESULTS):
                    i, j = T.meta_var(ldmatrix_32x8_to_shared_16x16_layout(tx, local))
                    D[i, j] = C[tx, local]

    made: PrimFunc = impl
    return made


# --- public names --------------------------------------------------------------------

CONSTANTS: dict[str, str] = {}


def _define(constant: str, name: str, functions: tuple[PrimFunc, PrimFunc]) -> None:
    TensorIntrin.register(name, *functions)
    CONSTANTS[constant] = name


def _define_all() -> None:
    for k_dim, (dtype, *_) in OPERANDS.items():
        short = _OPERAND_NAMES[dtype]
        for scope, suffix in (("shared", ""), ("shared.dyn", "_dyn")):
            for matrix in ("A", "B"):
                for transposed in (False, True):
                    tail = "_trans" * transposed
                    _define(
                        f"LDMATRIX_{short}_{matrix}{tail.upper()}{suffix.upper()}_INTRIN",
                        f"mma_ldmatrix_{short}_{matrix.lower()}{tail}{suffix}",
                        get_ldmatrix_intrin(k_dim, dtype, matrix, transposed, scope),
                    )
        for out_dtype in _RESULTS_OF[dtype]:
            product = get_mma_intrin(k_dim, out_dtype)
            for tail in ("", "_trans_a", "_trans_b", "_trans_a_trans_b"):
                kinds = f"{short}{short}{SHORT_NAMES[out_dtype]}"
                _define(f"MMA_{kinds}{tail.upper()}_INTRIN", f"mma_{kinds}{tail}", product)
    for dtype in ("float32", "float16", "int32"):
        tile = f"16x16_{SHORT_NAMES[dtype]}"
        _define(f"MMA_fill_{tile}_INTRIN", f"mma_fill_{tile}", get_mma_fill_intrin(dtype))
        for scope in ("global", "shared", "shared.dyn"):
            place = scope.replace(".", "_")
            for operator, suffix, tail in ((True, "", ""), (False, "_SIMPLE", "simple_")):
                _define(
                    f"MMA_store_{tile}_{place}_INTRIN{suffix}",
                    f"mma_store_{tile}_{place}_{tail}",
                    get_mma_store_intrin(dtype, RESULTS, scope, operator),
                )


_define_all()
globals().update(CONSTANTS)
__all__ += list(CONSTANTS)


def get_mma_intrin_group(
    load_scope: str,
    store_scope: str,
    in_dtype: str,
    out_dtype: str,
    trans_a: bool = False,
    trans_b: bool = False,
    not_use_mma_store_intrinic: bool = True,
    store_to_smem_dtype: str | None = None,
) -> dict[str, str]:
    """Return the names of a matching set of intrinsics: init, load_a, load_b, compute, store.

    ``store_to_smem_dtype``: the dtype of what is stored, where a block in front of the store
    converts the results.
    """
    if out_dtype not in _RESULTS_OF.get(in_dtype, ()):
        raise ScheduleError(
            f"there is no mma for {in_dtype} and {out_dtype}",
            notes=(f"known: {_KNOWN}",),
        )
    stored = out_dtype if store_to_smem_dtype is None else store_to_smem_dtype
    if stored not in _PTX_NAMES:
        raise ScheduleError(f"mma stores float16, float32 or int32, got '{stored}'")
    if load_scope not in ("shared", "shared.dyn"):
        raise ScheduleError(f"ldmatrix loads from shared or shared.dyn, got '{load_scope}'")
    if store_scope not in ("global", "shared", "shared.dyn"):
        raise ScheduleError(f"mma stores to global, shared or shared.dyn, got '{store_scope}'")
    short, result = _OPERAND_NAMES[in_dtype], SHORT_NAMES[out_dtype]
    suffix = "_dyn" if load_scope == "shared.dyn" else ""
    tail_a, tail_b = "_trans" * trans_a, "_trans" * trans_b
    sides = "_trans_a" * trans_a + "_trans_b" * trans_b
    simple = "simple_" * not_use_mma_store_intrinic
    place = store_scope.replace(".", "_")
    return {
        "init": f"mma_fill_16x16_{result}",
        "load_a": f"mma_ldmatrix_{short}_a{tail_a}{suffix}",
        "load_b": f"mma_ldmatrix_{short}_b{tail_b}{suffix}",
        "compute": f"mma_{short}{short}{result}{sides}",
        "store": f"mma_store_16x16_{SHORT_NAMES[stored]}_{place}_{simple}",
    }
