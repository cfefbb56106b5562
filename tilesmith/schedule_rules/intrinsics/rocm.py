"""Products of AMD GPUs: the dot product of four bytes (``v_dot4_i32_i8``) and matrix cores (MFMA).

``v_mfma_…_16x16x4`` and ``…_16x16x16`` add the product of a 16xK and a Kx16 tile to 16x16 results,
spread over the 64 threads of a wavefront as AMD's CDNA instruction set manuals and the matrix
instruction calculator have it:

    A[i, k], B[k, j]   K = 4: thread i + 16 k or j + 16 k, one element
                       K = 16: thread i + 16 (k // 4) or j + 16 (k // 4), element k % 4
    C[i, j]            thread j + 16 (i // 4), element i % 4

A buffer in scope ``warp`` has the shape (..., 64, 1) or (..., 64, 4): bring it there by
``transform_layout``.
"""

from collections.abc import Callable
from typing import Any

from tilesmith.ir import convert
from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError
from tilesmith.tir import PrimFunc, TensorIntrin

__all__ = [
    "AMDGPU_SDOT4_INTRIN",
    "M_DIM",
    "N_DIM",
    "WARP_SIZE",
    "get_mfma_intrin",
    "get_mfma_load_intrin",
    "get_mfma_store_intrin",
    "get_mma_fill_intrin",
    "lift",
    "sdot4",
    "shared_4x16_to_local_64x1_layout_B",
    "shared_16x4_to_local_64x1_layout_A",
    "shared_16x16_to_local_64x4_layout_A",
    "shared_16x16_to_local_64x4_layout_B",
    "shared_16x16_to_local_64x4_layout_C",
    "thread_id_shared_access_64x1_to_4x16_layout_B",
    "thread_id_shared_access_64x1_to_16x4_layout_A",
    "thread_id_shared_access_64x4_to_16x16_layout_A",
    "thread_id_shared_access_64x4_to_16x16_layout_B",
    "thread_id_shared_access_64x4_to_16x16_layout_C",
]

lift = convert
WARP_SIZE = 64
M_DIM = N_DIM = 16
RESULTS = 4
"""Elements of a 16x16 tile of results in each thread."""


@T.prim_func(private=True)
def _sdot4_desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "int8", offset_factor=1, align=4, scope="shared")
    B = T.match_buffer(b, (4,), "int8", offset_factor=1, align=4, scope="shared")
    C = T.match_buffer(c, (1,), "int32", offset_factor=1, align=4, scope="local")
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        for i in range(4):
            with T.block("update"):
                vi = T.axis.remap("R", [i])
                C[0] = C[0] + T.cast(A[vi], "int32") * T.cast(B[vi], "int32")


@T.prim_func(private=True)
def sdot4(a: T.handle, b: T.handle, c: T.handle):
    """Add the dot product of four bytes to C."""
    A = T.match_buffer(a, (4,), "int8", offset_factor=1, align=4, scope="shared")
    B = T.match_buffer(b, (4,), "int8", offset_factor=1, align=4, scope="shared")
    C = T.match_buffer(c, (1,), "int32", offset_factor=1, align=4, scope="local")
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        C[0] = T.call_llvm_pure_intrin(
            "int32",
            "llvm.amdgcn.sdot4",
            T.reinterpret("int32", A.vload([0], "int8x4")),
            T.reinterpret("int32", B.vload([0], "int8x4")),
            C[0],
            T.bool(False),  # wraps around instead of saturating
        )


AMDGPU_SDOT4_INTRIN = "sdot4"
TensorIntrin.register(AMDGPU_SDOT4_INTRIN, _sdot4_desc, sdot4)


# --- layouts of matrix cores: (thread, position among its elements), and back ---------------------


def shared_16x4_to_local_64x1_layout_A(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, 0) of element (i, j) of a left matrix with 4 steps of the sum."""
    return i + 16 * j, 0


def thread_id_shared_access_64x1_to_16x4_layout_A(thread_id: Any, local_id: Any) -> Any:
    """Return where a thread's element lies in a left matrix with 4 steps of the sum."""
    return thread_id % 16, thread_id // 16 + local_id


def shared_4x16_to_local_64x1_layout_B(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, 0) of element (i, j) of a right matrix with 4 steps of the sum."""
    return j + 16 * i, 0


def thread_id_shared_access_64x1_to_4x16_layout_B(thread_id: Any, local_id: Any) -> Any:
    """Return where a thread's element lies in a right matrix with 4 steps of the sum."""
    return thread_id // 16, thread_id % 16 + local_id


def shared_16x16_to_local_64x4_layout_A(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (i, j) of a left matrix."""
    return i + 16 * (j // 4), j % 4


def thread_id_shared_access_64x4_to_16x16_layout_A(thread_id: Any, local_id: Any) -> Any:
    """Return where a thread's element lies in a left matrix."""
    return thread_id % 16, 4 * (thread_id // 16) + local_id


def shared_16x16_to_local_64x4_layout_B(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (i, j) of a right matrix."""
    return j + 16 * (i // 4), i % 4


def thread_id_shared_access_64x4_to_16x16_layout_B(thread_id: Any, local_id: Any) -> Any:
    """Return where a thread's element lies in a right matrix."""
    return 4 * (thread_id // 16) + local_id, thread_id % 16


def shared_16x16_to_local_64x4_layout_C(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (i, j) of the results."""
    return shared_16x16_to_local_64x4_layout_B(i, j)


def thread_id_shared_access_64x4_to_16x16_layout_C(thread_id: Any, local_id: Any) -> Any:
    """Return where a thread's element lies in the results."""
    return thread_id_shared_access_64x4_to_16x16_layout_B(thread_id, local_id)


Layout = Callable[[Any, Any], tuple[Any, Any]]

# steps of the sum -> layouts of A and B and their inverses
_LAYOUTS: dict[int, dict[bool, tuple[Layout, Layout]]] = {
    4: {
        False: (shared_16x4_to_local_64x1_layout_A, thread_id_shared_access_64x1_to_16x4_layout_A),
        True: (shared_4x16_to_local_64x1_layout_B, thread_id_shared_access_64x1_to_4x16_layout_B),
    },
    16: {
        False: (
            shared_16x16_to_local_64x4_layout_A,
            thread_id_shared_access_64x4_to_16x16_layout_A,
        ),
        True: (
            shared_16x16_to_local_64x4_layout_B,
            thread_id_shared_access_64x4_to_16x16_layout_B,
        ),
    },
}
# (steps, inputs, results) -> LLVM's intrinsic
_INSTRUCTIONS = {
    (4, "float32", "float32"): "llvm.amdgcn.mfma.f32.16x16x4f32",
    (16, "float16", "float32"): "llvm.amdgcn.mfma.f32.16x16x16f16",
    (16, "int8", "int32"): "llvm.amdgcn.mfma.i32.16x16x16i8",
}
_SHORT_NAMES = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32"}


def _check(k_dim: int, in_dtype: str, out_dtype: str | None = None) -> str:
    for (k, a, c), name in _INSTRUCTIONS.items():
        if (k, a) == (k_dim, in_dtype) and out_dtype in (None, c):
            return name
    results = f" and {out_dtype}" if out_dtype else ""
    raise ScheduleError(
        f"there is no mfma with {k_dim} steps of a sum of {in_dtype}{results}",
        notes=("known: 4 of float32 with float32, 16 of float16 with float32, of int8 with int32",),
    )


def get_mfma_load_intrin(
    k_dim: int = 4,
    dtype: str = "float32",
    scope: str = "shared",
    is_b: bool = False,
    transposed: bool = False,
) -> tuple[PrimFunc, PrimFunc]:
    """Define the load of the tile A[i, k] or B[k, j] from shared memory; ``transposed``: of A[k, i]
    or B[j, k].
    """
    _check(k_dim, dtype)
    layout, place = _LAYOUTS[k_dim][is_b]
    local_size = k_dim // 4
    rows, columns = (k_dim, 16) if is_b != transposed else (16, k_dim)

    def straight(first: Any, second: Any) -> tuple[Any, Any]:
        return (second, first) if transposed else (first, second)

    @T.prim_func(private=True)
    def desc(s: T.handle, w: T.handle):
        S = T.match_buffer(s, (rows, columns), dtype, align=64, offset_factor=1, scope=scope)
        W = T.match_buffer(
            w, (WARP_SIZE, local_size), dtype, align=64, offset_factor=1, scope="warp"
        )
        with T.block("root"):
            T.reads(S[0:rows, 0:columns])
            T.writes(W[0:WARP_SIZE, 0:local_size])
            for i, j in T.grid(rows, columns):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, local = T.meta_var(layout(*straight(vi, vj)))
                    T.reads(S[vi, vj])
                    T.writes(W[thread, local])
                    W[thread, local] = S[vi, vj]

    @T.prim_func(private=True)
    def impl(s: T.handle, w: T.handle):
        s0, s1 = T.int32(), T.int32()
        S = T.match_buffer(
            s, (rows, columns), dtype, align=64, offset_factor=1, scope=scope, strides=[s0, s1]
        )
        W = T.match_buffer(
            w, (WARP_SIZE, local_size), dtype, align=64, offset_factor=1, scope="warp"
        )
        with T.block("root"):
            T.reads(S[0:rows, 0:columns])
            T.writes(W[0:WARP_SIZE, 0:local_size])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                for local in range(local_size):
                    i, j = T.meta_var(straight(*place(tx, local)))
                    W[tx, local] = S[i, j]

    return desc, impl


def get_mfma_intrin(
    k_dim: int, in_dtype: str = "float32", out_dtype: str = "float32", b_transposed: bool = False
) -> tuple[PrimFunc, PrimFunc]:
    """Define ``C += A @ B`` of a wavefront's tiles by one instruction.

    ``b_transposed`` says how B lies in shared memory; the registers, and so the product, are the
    same.
    """
    name = _check(k_dim, in_dtype, out_dtype)
    layout_a, layout_b = [_LAYOUTS[k_dim][is_b][0] for is_b in (False, True)]
    layout_c, local_size = shared_16x16_to_local_64x4_layout_C, k_dim // 4

    def wide(value: Any) -> Any:
        return value if out_dtype == in_dtype else T.cast(value, out_dtype)

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(
            a, (WARP_SIZE, local_size), in_dtype, align=64, offset_factor=1, scope="warp"
        )
        B = T.match_buffer(
            b, (WARP_SIZE, local_size), in_dtype, align=64, offset_factor=1, scope="warp"
        )
        C = T.match_buffer(
            c, (WARP_SIZE, RESULTS), out_dtype, align=64, offset_factor=1, scope="warp"
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

    return desc, _mfma_impl(k_dim, in_dtype, out_dtype, name)


def _mfma_impl(k_dim: int, in_dtype: str, out_dtype: str, name: str) -> PrimFunc:
    local_size = k_dim // 4

    def operand(buffer: Any, thread: Any) -> Any:
        if local_size == 1:
            return buffer[thread, 0]
        loaded = buffer.vload([thread, 0], f"{in_dtype}x{local_size}")
        return T.reinterpret("int32", loaded) if in_dtype == "int8" else loaded

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(
            a, (WARP_SIZE, local_size), in_dtype, align=64, offset_factor=1, scope="warp"
        )
        B = T.match_buffer(
            b, (WARP_SIZE, local_size), in_dtype, align=64, offset_factor=1, scope="warp"
        )
        C = T.match_buffer(
            c, (WARP_SIZE, RESULTS), out_dtype, align=64, offset_factor=1, scope="warp"
        )
        with T.block("root"):
            T.reads(
                C[0:WARP_SIZE, 0:RESULTS], A[0:WARP_SIZE, 0:local_size],
                B[0:WARP_SIZE, 0:local_size],
            )  # fmt: skip
            T.writes(C[0:WARP_SIZE, 0:RESULTS])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                C[tx, T.ramp(0, 1, RESULTS)] = T.call_llvm_pure_intrin(
                    f"{out_dtype}x{RESULTS}",
                    name,
                    operand(A, tx),
                    operand(B, tx),
                    C.vload([tx, 0], f"{out_dtype}x{RESULTS}"),
                    0,  # no broadcasts and permutations of blocks
                    0,
                    0,
                )

    made: PrimFunc = impl
    return made


def _check_results(local_size: int) -> None:
    if local_size != RESULTS:
        raise ScheduleError(
            f"a wavefront holds {RESULTS} elements of a 16x16 tile in each thread, not {local_size}"
        )


def get_mma_fill_intrin(dtype: str, local_size: int = RESULTS) -> tuple[PrimFunc, PrimFunc]:
    """Define the fill of a wavefront's tile, ``local_size`` elements in each thread, with zeros."""
    _check_results(local_size)
    zero = T.int32(0) if dtype == "int32" else T.FloatImm(dtype, 0.0)

    @T.prim_func(private=True)
    def desc(c: T.handle):
        C = T.match_buffer(c, (WARP_SIZE, RESULTS), dtype, align=64, offset_factor=1, scope="warp")
        with T.block("root"):
            T.reads()
            T.writes(C[0:WARP_SIZE, 0:RESULTS])
            for i, j in T.grid(16, 16):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, local = T.meta_var(shared_16x16_to_local_64x4_layout_C(vi, vj))
                    T.reads()
                    T.writes(C[thread, local])
                    C[thread, local] = zero

    @T.prim_func(private=True)
    def impl(c: T.handle):
        C = T.match_buffer(c, (WARP_SIZE, RESULTS), dtype, align=64, offset_factor=1, scope="warp")
        with T.block("root"):
            T.reads()
            T.writes(C[0:WARP_SIZE, 0:RESULTS])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                for local in range(RESULTS):
                    C[tx, local] = zero

    return desc, impl


def get_mfma_store_intrin(
    local_size: int = RESULTS, dtype: str = "float32", scope: str = "global"
) -> tuple[PrimFunc, PrimFunc]:
    """Define the store of a wavefront's tile of results into shared or global memory."""
    _check_results(local_size)
    layout, place = (
        shared_16x16_to_local_64x4_layout_C,
        thread_id_shared_access_64x4_to_16x16_layout_C,
    )

    @T.prim_func(private=True)
    def desc(c: T.handle, d: T.handle):
        C = T.match_buffer(c, (WARP_SIZE, RESULTS), dtype, align=64, offset_factor=1, scope="warp")
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

    @T.prim_func(private=True)
    def impl(c: T.handle, d: T.handle):
        s0, s1 = T.int32(), T.int32()
        C = T.match_buffer(c, (WARP_SIZE, RESULTS), dtype, align=64, offset_factor=1, scope="warp")
        D = T.match_buffer(
            d, (16, 16), dtype, align=64, offset_factor=1, scope=scope, strides=[s0, s1]
        )
        with T.block("root"):
            T.reads(C[0:WARP_SIZE, 0:RESULTS])
            T.writes(D[0:16, 0:16])
            for tx in T.thread_binding(WARP_SIZE, thread="threadIdx.x"):
                for local in range(RESULTS):
                    i, j = T.meta_var(place(tx, local))
                    D[i, j] = C[tx, local]

    return desc, impl


def _define(constant: str, name: str, functions: tuple[PrimFunc, PrimFunc]) -> None:
    """Register an intrinsic, and add a constant with its name to this module."""
    TensorIntrin.register(name, *functions)
    globals()[constant] = name
    __all__.append(constant)


def _define_all() -> None:
    for k_dim, in_dtype, out_dtype in _INSTRUCTIONS:
        short, result = _SHORT_NAMES[in_dtype], _SHORT_NAMES[out_dtype]
        kinds = f"{short}{short}{result}"
        product = get_mfma_intrin(k_dim, in_dtype, out_dtype)
        _define(f"ROCM_MFMA_{kinds}_INTRIN", f"rocm_mfma_{kinds}", product)
        tile = f"16x{k_dim}"
        for matrix in ("A", "B"):
            middle = f"{tile}_a" if matrix == "A" else f"b_{tile}"
            _define(
                f"ROCM_MFMA_LOAD_{tile}_{matrix}_SHARED_{short}_INTRIN",
                f"rocm_mfma_load_{middle}_shared_{short}",
                get_mfma_load_intrin(k_dim, in_dtype, "shared", matrix == "B"),
            )
    for dtype, fill, store in (("float32", "f32", "f32"), ("int32", "i32", "s32")):
        _define(
            f"ROCM_MFMA_fill_16x16_{fill}_INTRIN",
            f"ROCM_mfma_fill_16x16_{fill}",
            get_mma_fill_intrin(dtype, RESULTS),
        )
        _define(
            f"ROCM_MFMA_STORE_16x16_{store}_INTRIN",
            f"rocm_mfma_store_16x16_{store}",
            get_mfma_store_intrin(RESULTS, dtype, "global"),
        )


_define_all()
