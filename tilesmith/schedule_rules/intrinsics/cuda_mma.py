"""Matrix units of NVIDIA GPUs at warp level: ``ldmatrix`` loads, ``mma`` multiplies.

A 16x16 tile of float16 (or of results) is spread over the 32 threads of a warp, eight elements
each, as the layouts below define. A buffer in scope ``warp`` has the shape (..., 32, 8): bring it
there by ``transform_layout`` with

    A, C: lambda i, j: [i // 16, j // 16, *shared_16x16_to_ldmatrix_32x8_layout(i % 16, j % 16)]
    B[k, j]: the same with shared_16x16_to_ldmatrix_32x8_trans_layout
    B[j, k]: the same with shared_16x16_to_ldmatrix_32x8_b_layout
"""

from typing import Any

from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = [
    "get_ldmatrix_intrin",
    "get_mma_fill_intrin",
    "get_mma_intrin",
    "get_mma_intrin_group",
    "get_mma_store_intrin",
    "ldmatrix_32x8_to_shared_16x16_layout",
    "shared_16x16_to_ldmatrix_32x8_b_layout",
    "shared_16x16_to_ldmatrix_32x8_layout",
    "shared_16x16_to_ldmatrix_32x8_trans_layout",
]

LANES, LOCAL = 32, 8


def shared_16x16_to_ldmatrix_32x8_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (i, j) of a left matrix or a result."""
    return 4 * (i % 8) + j % 8 // 2, 4 * (j // 8) + 2 * (i // 8) + j % 2


def ldmatrix_32x8_to_shared_16x16_layout(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """Return where a thread's element lies in the tile: the inverse of the layout above."""
    row = 8 * (local_id % 4 // 2) + thread_id // 4
    return row, 8 * (local_id // 4) + 2 * (thread_id % 4) + local_id % 2


def shared_16x16_to_ldmatrix_32x8_trans_layout(k: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (k, j) of a right matrix."""
    return 4 * (j % 8) + k % 8 // 2, 4 * (j // 8) + 2 * (k // 8) + k % 2


def shared_16x16_to_ldmatrix_32x8_b_layout(j: Any, k: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (j, k) of a transposed right matrix."""
    return shared_16x16_to_ldmatrix_32x8_trans_layout(k, j)


def _layout_of(matrix: str, transposed: bool) -> Any:
    if matrix == "A":
        return shared_16x16_to_ldmatrix_32x8_layout
    if transposed:
        return shared_16x16_to_ldmatrix_32x8_b_layout
    return shared_16x16_to_ldmatrix_32x8_trans_layout


def get_ldmatrix_intrin(
    matrix: str, transposed: bool, shared_scope: str
) -> tuple[PrimFunc, PrimFunc]:
    """Define the load of a 16x16 float16 tile from shared memory; ``transposed``: B is B[j, k].

    Each thread gives the address of one row of eight elements; the four 8x8 matrices arrive as the
    four pairs of elements of each thread.
    """
    layout = _layout_of(matrix, transposed)
    # The instruction transposes 8x8 matrices itself where a thread's pairs lie in columns.
    by_columns = matrix == "B" and not transposed

    def row(thread: Any) -> Any:
        return 8 * (thread // 16) + thread % 8 if matrix == "B" and transposed else thread % 16

    def column(thread: Any) -> Any:
        return 8 * (thread % 16 // 8) if matrix == "B" and transposed else 8 * (thread // 16)

    @T.prim_func(private=True)
    def desc(s: T.handle, w: T.handle):
        S = T.match_buffer(s, (16, 16), "float16", align=64, offset_factor=16, scope=shared_scope)
        W = T.match_buffer(w, (LANES, LOCAL), "float16", align=64, offset_factor=8, scope="warp")
        with T.block("root"):
            T.reads(S[0:16, 0:16])
            T.writes(W[0:LANES, 0:LOCAL])
            for i, j in T.grid(16, 16):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, local = T.meta_var(layout(vi, vj))
                    T.reads(S[vi, vj])
                    T.writes(W[thread, local])
                    W[thread, local] = S[vi, vj]

    @T.prim_func(private=True)
    def impl(s: T.handle, w: T.handle):
        s0 = T.int32()
        S = T.match_buffer(
            s, (16, 16), "float16", align=64, offset_factor=16, scope=shared_scope,
            strides=[s0, 1],
        )  # fmt: skip
        W = T.match_buffer(w, (LANES, LOCAL), "float16", align=64, offset_factor=8, scope="warp")
        with T.block("root"):
            T.reads(S[0:16, 0:16])
            T.writes(W[0:LANES, 0:LOCAL])
            for tx in T.thread_binding(LANES, thread="threadIdx.x"):
                T.evaluate(
                    T.ptx_ldmatrix(
                        "float16",
                        by_columns,
                        4,
                        ".b16",
                        W.data,
                        W.elem_offset + tx * LOCAL,
                        S.access_ptr("r"),
                        row(tx) * s0 + column(tx),
                    )
                )

    return desc, impl


def get_mma_intrin(out_dtype: str, b_transposed: bool) -> tuple[PrimFunc, PrimFunc]:
    """Define ``C += A @ B`` of 16x16 float16 tiles, as two instructions for eight columns each."""
    place_a = shared_16x16_to_ldmatrix_32x8_layout
    kind = {"float16": "fp16", "float32": "fp32"}[out_dtype]

    def wide(value: Any) -> Any:
        return value if out_dtype == "float16" else T.cast(value, out_dtype)

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (LANES, LOCAL), "float16", align=64, offset_factor=8, scope="warp")
        B = T.match_buffer(b, (LANES, LOCAL), "float16", align=64, offset_factor=8, scope="warp")
        C = T.match_buffer(c, (LANES, LOCAL), out_dtype, align=64, offset_factor=8, scope="warp")
        with T.block("root"):
            T.reads(C[0:LANES, 0:LOCAL], A[0:LANES, 0:LOCAL], B[0:LANES, 0:LOCAL])
            T.writes(C[0:LANES, 0:LOCAL])
            for i, j, k in T.grid(16, 16, 16):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    c0, c1 = T.meta_var(place_a(vi, vj))
                    a0, a1 = T.meta_var(place_a(vi, vk))
                    b0, b1 = T.meta_var(shared_16x16_to_ldmatrix_32x8_trans_layout(vk, vj))
                    T.reads(C[c0, c1], A[a0, a1], B[b0, b1])
                    T.writes(C[c0, c1])
                    C[c0, c1] = C[c0, c1] + wide(A[a0, a1]) * wide(B[b0, b1])

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (LANES, LOCAL), "float16", align=64, offset_factor=8, scope="warp")
        B = T.match_buffer(b, (LANES, LOCAL), "float16", align=64, offset_factor=8, scope="warp")
        C = T.match_buffer(c, (LANES, LOCAL), out_dtype, align=64, offset_factor=8, scope="warp")
        with T.block("root"):
            T.reads(C[0:LANES, 0:LOCAL], A[0:LANES, 0:LOCAL], B[0:LANES, 0:LOCAL])
            T.writes(C[0:LANES, 0:LOCAL])
            for tx in T.thread_binding(LANES, thread="threadIdx.x"):
                for half in T.unroll(2):
                    T.evaluate(
                        T.ptx_mma(
                            out_dtype, "m16n8k16", "row", "col", "fp16", "fp16", kind,
                            A.data, A.elem_offset + tx * LOCAL,
                            B.data, B.elem_offset + tx * LOCAL + half * 4,
                            C.data, C.elem_offset + tx * LOCAL + half * 4,
                            False,
                        )
                    )  # fmt: skip

    return desc, impl


def get_mma_fill_intrin(dtype: str) -> tuple[PrimFunc, PrimFunc]:
    """Define the fill of a warp's tile with zeros."""
    zero = T.FloatImm(dtype, 0.0)

    @T.prim_func(private=True)
    def desc(c: T.handle):
        C = T.match_buffer(c, (LANES, LOCAL), dtype, align=64, offset_factor=8, scope="warp")
        with T.block("root"):
            T.reads()
            T.writes(C[0:LANES, 0:LOCAL])
            for i, j in T.grid(16, 16):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, local = T.meta_var(shared_16x16_to_ldmatrix_32x8_layout(vi, vj))
                    T.reads()
                    T.writes(C[thread, local])
                    C[thread, local] = zero

    @T.prim_func(private=True)
    def impl(c: T.handle):
        C = T.match_buffer(c, (LANES, LOCAL), dtype, align=64, offset_factor=8, scope="warp")
        with T.block("root"):
            T.reads()
            T.writes(C[0:LANES, 0:LOCAL])
            for tx in T.thread_binding(LANES, thread="threadIdx.x"):
                for local in range(LOCAL):
                    C[tx, local] = zero

    return desc, impl


def get_mma_store_intrin(dtype: str, scope: str) -> tuple[PrimFunc, PrimFunc]:
    """Define the store of a warp's tile of results into shared or global memory."""
    layout = shared_16x16_to_ldmatrix_32x8_layout

    @T.prim_func(private=True)
    def desc(c: T.handle, d: T.handle):
        C = T.match_buffer(c, (LANES, LOCAL), dtype, align=64, offset_factor=8, scope="warp")
        D = T.match_buffer(d, (16, 16), dtype, align=64, offset_factor=1, scope=scope)
        with T.block("root"):
            T.reads(C[0:LANES, 0:LOCAL])
            T.writes(D[0:16, 0:16])
            for i, j in T.grid(16, 16):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, local = T.meta_var(layout(vi, vj))
                    T.reads(C[thread, local])
                    T.writes(D[vi, vj])
                    D[vi, vj] = C[thread, local]

    @T.prim_func(private=True)
    def impl(c: T.handle, d: T.handle):
        s0, s1 = T.int32(), T.int32()
        C = T.match_buffer(c, (LANES, LOCAL), dtype, align=64, offset_factor=8, scope="warp")
        D = T.match_buffer(
            d, (16, 16), dtype, align=64, offset_factor=1, scope=scope, strides=[s0, s1]
        )
        with T.block("root"):
            T.reads(C[0:LANES, 0:LOCAL])
            T.writes(D[0:16, 0:16])
            for tx in T.thread_binding(LANES, thread="threadIdx.x"):
                for local in range(LOCAL):
                    i, j = T.meta_var(ldmatrix_32x8_to_shared_16x16_layout(tx, local))
                    D[i, j] = C[tx, local]

    return desc, impl


# --- public names --------------------------------------------------------------------

CONSTANTS: dict[str, str] = {}


def _define(constant: str, name: str, functions: tuple[PrimFunc, PrimFunc]) -> None:
    TensorIntrin.register(name, *functions)
    CONSTANTS[constant] = name


def _define_all() -> None:
    for scope, suffix in (("shared", ""), ("shared.dyn", "_dyn")):
        for matrix, transposed in (("A", False), ("B", False), ("B", True)):
            tail = "_trans" if transposed else ""
            _define(
                f"LDMATRIX_f16_{matrix}{tail.upper()}{suffix.upper()}_INTRIN",
                f"mma_ldmatrix_f16_{matrix.lower()}{tail}{suffix}",
                get_ldmatrix_intrin(matrix, transposed, scope),
            )
    for dtype, short in (("float32", "f32"), ("float16", "f16")):
        for transposed in (False, True):
            _define(
                f"MMA_f16f16{short}{'_TRANS_B' if transposed else ''}_INTRIN",
                f"mma_f16f16{short}{'_trans_b' if transposed else ''}",
                get_mma_intrin(dtype, transposed),
            )
        _define(
            f"MMA_fill_16x16_{short}_INTRIN", f"mma_fill_16x16_{short}", get_mma_fill_intrin(dtype)
        )
        for scope in ("global", "shared", "shared.dyn"):
            place = scope.replace(".", "_")
            _define(
                f"MMA_store_16x16_{short}_{place}_INTRIN",
                f"mma_store_16x16_{short}_{place}",
                get_mma_store_intrin(dtype, scope),
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
    """Return the names of a matching set of intrinsics: init, load_a, load_b, compute, store."""
    if in_dtype != "float16" or out_dtype not in ("float16", "float32") or trans_a:
        given = f"{in_dtype} and {out_dtype}" + (" with a transposed left matrix" * trans_a)
        raise ScheduleError(
            f"there is no mma for {given}", notes=("known: float16 with float16 or float32",)
        )
    if store_to_smem_dtype not in (None, out_dtype):
        raise ScheduleError(f"mma stores {out_dtype} as it is, not as {store_to_smem_dtype}")
    if load_scope not in ("shared", "shared.dyn"):
        raise ScheduleError(f"ldmatrix loads from shared or shared.dyn, got '{load_scope}'")
    if store_scope not in ("global", "shared", "shared.dyn"):
        raise ScheduleError(f"mma stores to global, shared or shared.dyn, got '{store_scope}'")
    short = "f16" if out_dtype == "float16" else "f32"
    suffix = "_dyn" if load_scope == "shared.dyn" else ""
    return {
        "init": f"mma_fill_16x16_{short}",
        "load_a": f"mma_ldmatrix_f16_a{suffix}",
        "load_b": f"mma_ldmatrix_f16_b{'_trans' if trans_b else ''}{suffix}",
        "compute": f"mma_f16f16{short}{'_trans_b' if trans_b else ''}",
        "store": f"mma_store_16x16_{short}_{store_scope.replace('.', '_')}",
    }
