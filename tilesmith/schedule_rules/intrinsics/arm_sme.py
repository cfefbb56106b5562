"""Transposes and matrix products of Arm CPUs with SME, the Scalable Matrix Extension.

SVL is the length of a vector in streaming mode, which the CPU decides: ``T.vscale()`` times 128
bits. The array ZA of SVL x SVL bytes is used as four tiles of float32 (``za0.s`` to ``za3.s``, each
SVL x SVL elements) or two of float16. A tile is loaded and stored by rows (horizontal slices) or
columns (vertical slices), and FMOPA adds an outer product of two vectors to it:

    za[i, j] += a[i] * b[j]

Each intrinsic is complete in itself: it loads what it needs into ZA and stores what it computes to
memory, so that any order of the intrinsics gives what their descriptions say. Where a loop over
tiles goes beyond the end of a matrix (``split(..., disable_predication=True)``), what lies outside
of the buffers is neither read nor written: the sizes in `LIMITS` are narrowed by ``tensorize``.
Code with these intrinsics runs in streaming mode, which the LLVM back end enters and leaves.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir import PrimFunc, TensorIntrin
from tilesmith.tir.schedule.primitives.tensorize_limits import LIMITS

__all__ = [
    "ARM_SME_2SVLx2SVL_FP32_TRANSPOSE_INTERLEAVE",
    "ARM_SME_2SVLx2SVL_GEMM_INTERLEAVED_MOPA",
    "ARM_SME_BLOCK2_2SVLx1SVL_FP16_TRANSPOSE_INTERLEAVE",
    "ARM_SME_INIT",
    "get_sme_gemm_interleaved_mopa_2svlx2svl_intrin",
    "get_sme_init_intrin",
    "get_sme_transpose_interleave_2svlx2svl_fp32_intrin",
    "get_sme_transpose_interleave_block2_2svl_fp16_intrin",
    "get_transpose_interleave_intrin_name",
]

ARM_SME_INIT = "sme_init"
ARM_SME_2SVLx2SVL_FP32_TRANSPOSE_INTERLEAVE = "sme_2svlx2svl_fp32_transpose_interleave"
ARM_SME_BLOCK2_2SVLx1SVL_FP16_TRANSPOSE_INTERLEAVE = (
    "sme_block2_2svlx1svl_fp16_transpose_interleave"
)
ARM_SME_2SVLx2SVL_GEMM_INTERLEAVED_MOPA = "sme_2svlx2svl_gemm_interleaved_mopa"

_SME = "llvm.aarch64.sme."
_ALL_TILES = 255
_WORDS, _HALVES = "boolxvscalex4", "boolxvscalex8"


def _mask(first: Any, limit: PrimExpr, lanes: str = _WORDS) -> PrimExpr:
    """Return which lanes of a vector that begins at element ``first`` come before ``limit``."""
    return T.get_active_lane_mask(lanes, T.int32(first) if isinstance(first, int) else first, limit)


def _slice(
    name: str, mask: PrimExpr, buffer: Any, row: Any, column: Any, tile: int, number: Any
) -> PrimExpr:
    """Load or store a row or column of a tile of ZA: part of a row of a buffer."""
    place = buffer.access_ptr(
        "w" if name.startswith("st") else "r", offset=row * buffer.strides[0] + column
    )
    return T.call_llvm_intrin("void", _SME + name, mask, place, T.int32(tile), number)


def _product(tile: int, a_mask: PrimExpr, b_mask: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Add an outer product to a tile (FMOPA)."""
    return T.call_llvm_intrin("void", _SME + "mopa.nxv4f32", T.int32(tile), a_mask, b_mask, a, b)


def _wide_product(tile: int, mask: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Add two outer products of float16 vectors, whose elements alternate, to a float32 tile."""
    return T.call_llvm_intrin("void", _SME + "mopa.wide.nxv8f16", T.int32(tile), mask, mask, a, b)


def _paired(half: int, first: Any, second: Any) -> PrimExpr:
    """Let the elements of the lower (1) or upper (2) halves of two vectors alternate (ZIP)."""
    return T.call_llvm_pure_intrin(
        "float16xvscalex8", f"llvm.aarch64.sve.zip{half}.nxv8f16", first, second
    )


@T.macro
def _move_tiles(name, buffer, rows, columns):
    """Load or store the four float32 tiles, row by row."""
    lanes = T.meta_var(4 * T.vscale())
    for s in T.serial(T.min(rows, lanes)):
        T.evaluate(_slice(name, _mask(0, columns), buffer, s, 0, 0, s))
        T.evaluate(_slice(name, _mask(lanes, columns), buffer, s, lanes, 1, s))
    for s in T.serial(T.max(rows - lanes, 0)):
        T.evaluate(_slice(name, _mask(0, columns), buffer, s + lanes, 0, 2, s))
        T.evaluate(_slice(name, _mask(lanes, columns), buffer, s + lanes, lanes, 3, s))


def _transpose_desc(rows: PrimExpr, columns: PrimExpr, dtype: str) -> PrimFunc:
    """Describe ``A_t[k, m] = A[m, k]``."""

    @T.prim_func(private=True)
    def desc(a: T.handle, a_t: T.handle):
        A = T.match_buffer(a, (rows, columns), dtype, offset_factor=1)
        A_t = T.match_buffer(a_t, (columns, rows), dtype, offset_factor=1)
        with T.block("root"):
            T.reads(A[0:rows, 0:columns])
            T.writes(A_t[0:columns, 0:rows])
            for k, m in T.grid(columns, rows):
                with T.block("transpose"):
                    v_m, v_k = T.axis.remap("SS", [m, k])
                    A_t[v_k, v_m] = A[v_m, v_k]

    made: PrimFunc = desc
    return made


_TRANSPOSE_LIMITS = {"rows": (("A", 0), ("A_t", 1)), "columns": (("A", 1), ("A_t", 0))}


def get_sme_transpose_interleave_2svlx2svl_fp32_intrin(
    cols: Any, rows: Any
) -> tuple[PrimFunc, PrimFunc]:
    """Return description and implementation of the transpose of 2 SVL x 2 SVL float32 elements.

    The rows of ``A`` are loaded into the four tiles, whose columns are stored as rows of ``A_t``.
    ``cols`` and ``rows`` are the sizes of the whole matrix. The implementation does not depend on
    them: ``tensorize`` compares each tile with the buffers' own sizes.
    """
    del cols, rows
    lanes = 4 * T.vscale()
    size = 8 * T.vscale()

    @T.prim_func(private=True)
    def impl(a: T.handle, a_t: T.handle):
        T.func_attr({LIMITS: _TRANSPOSE_LIMITS})
        sa, st = T.int32(), T.int32()
        A = T.match_buffer(a, (size, size), "float32", offset_factor=1, strides=[sa, 1])
        A_t = T.match_buffer(a_t, (size, size), "float32", offset_factor=1, strides=[st, 1])
        with T.block("root"):
            T.reads(A[0:size, 0:size])
            T.writes(A_t[0:size, 0:size])
            rows: T.int32 = size
            columns: T.int32 = size
            _move_tiles("ld1w.horiz", A, rows, columns)
            for s in T.serial(T.min(columns, lanes)):
                T.evaluate(_slice("st1w.vert", _mask(0, rows), A_t, s, 0, 0, s))
                T.evaluate(_slice("st1w.vert", _mask(lanes, rows), A_t, s, lanes, 2, s))
            for s in T.serial(T.max(columns - lanes, 0)):
                T.evaluate(_slice("st1w.vert", _mask(0, rows), A_t, s + lanes, 0, 1, s))
                T.evaluate(_slice("st1w.vert", _mask(lanes, rows), A_t, s + lanes, lanes, 3, s))

    return _transpose_desc(size, size, "float32"), impl


def get_sme_transpose_interleave_block2_2svl_fp16_intrin() -> tuple[PrimFunc, PrimFunc]:
    """Return description and implementation of the transpose of 2 SVL x SVL float16 elements.

    The rows of ``A`` are loaded into the two tiles of 16-bit elements, whose columns are stored.
    Memory holds the plain transpose that the description says; the pairs of rows that FMOPA takes
    are made in registers, by the matrix product.
    """
    lanes = 8 * T.vscale()
    size = 16 * T.vscale()

    @T.prim_func(private=True)
    def impl(a: T.handle, a_t: T.handle):
        T.func_attr({LIMITS: _TRANSPOSE_LIMITS})
        sa, st = T.int32(), T.int32()
        A = T.match_buffer(a, (size, lanes), "float16", offset_factor=1, strides=[sa, 1])
        A_t = T.match_buffer(a_t, (lanes, size), "float16", offset_factor=1, strides=[st, 1])
        with T.block("root"):
            T.reads(A[0:size, 0:lanes])
            T.writes(A_t[0:lanes, 0:size])
            rows: T.int32 = size
            columns: T.int32 = lanes
            for s in T.serial(T.min(rows, lanes)):
                T.evaluate(_slice("ld1h.horiz", _mask(0, columns, _HALVES), A, s, 0, 0, s))
            for s in T.serial(T.max(rows - lanes, 0)):
                T.evaluate(_slice("ld1h.horiz", _mask(0, columns, _HALVES), A, s + lanes, 0, 1, s))
            for s in T.serial(columns):
                T.evaluate(_slice("st1h.vert", _mask(0, rows, _HALVES), A_t, s, 0, 0, s))
                T.evaluate(_slice("st1h.vert", _mask(lanes, rows, _HALVES), A_t, s, lanes, 1, s))

    return _transpose_desc(size, lanes, "float16"), impl


def get_transpose_interleave_intrin_name(
    in_dtype: str, out_dtype: str, extent_cols: Any, extent_rows: Any
) -> str:
    """Return the name of the transpose for operands of a matrix product, registered if it was not.

    The matrix product takes ``in_dtype`` and adds in ``out_dtype``; ``extent_cols`` and
    ``extent_rows`` are the sizes of the matrix that is transposed.
    """
    if (in_dtype, out_dtype) == ("float16", "float32"):
        return ARM_SME_BLOCK2_2SVLx1SVL_FP16_TRANSPOSE_INTERLEAVE
    if (in_dtype, out_dtype) != ("float32", "float32"):
        raise UnsupportedError(
            f"no transpose for matrix products of {in_dtype} with sums in {out_dtype} with SME",
            notes=("known: float32 or float16 with float32",),
        )
    name = f"{ARM_SME_2SVLx2SVL_FP32_TRANSPOSE_INTERLEAVE}_{extent_cols}_{extent_rows}"
    if TensorIntrin.get(name, allow_missing=True) is None:
        made = get_sme_transpose_interleave_2svlx2svl_fp32_intrin(extent_cols, extent_rows)
        TensorIntrin.register(name, *made)
    return name


def get_sme_gemm_interleaved_mopa_2svlx2svl_intrin(
    M: Any, K: Any, in_dtype: str
) -> tuple[PrimFunc, PrimFunc]:
    """Return description and implementation of ``C[m, n] += sum over k of A[k, m] * B[k, n]``.

    ``C`` is 2 SVL x 2 SVL elements of float32; ``A`` and ``B`` are ``K`` x 2 SVL, of ``in_dtype``
    (float32 or float16): ``A`` is transposed. ``C`` is in ZA while the products are added. ``M`` is
    the number of rows of the whole ``C``; the implementation does not depend on it: ``tensorize``
    compares each tile with the buffers' own sizes.
    """
    del M
    if in_dtype not in ("float32", "float16"):
        raise UnsupportedError(
            f"no matrix product of {in_dtype} with SME", notes=("known: float32 and float16",)
        )
    impl = _gemm_float32(K) if in_dtype == "float32" else _gemm_float16(K)
    return _gemm_desc(K, in_dtype), impl


def _gemm_desc(depth: Any, in_dtype: str) -> PrimFunc:
    size = 8 * T.vscale()

    @T.prim_func(private=True)
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (depth, size), in_dtype, offset_factor=1)
        B = T.match_buffer(b, (depth, size), in_dtype, offset_factor=1)
        C = T.match_buffer(c, (size, size), "float32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:size, 0:size], A[0:depth, 0:size], B[0:depth, 0:size])
            T.writes(C[0:size, 0:size])
            for m, n, k in T.grid(size, size, depth):
                with T.block("gemm"):
                    v_m, v_n, v_k = T.axis.remap("SSR", [m, n, k])
                    C[v_m, v_n] = C[v_m, v_n] + T.cast(A[v_k, v_m], "float32") * T.cast(
                        B[v_k, v_n], "float32"
                    )

    made: PrimFunc = desc
    return made


_GEMM_LIMITS = {
    "rows": (("A", 1), ("C", 0)),
    "columns": (("B", 1), ("C", 1)),
    "steps": (("A", 0), ("B", 0)),
}


def _gemm_float32(depth: Any) -> PrimFunc:
    lanes = 4 * T.vscale()
    size = 8 * T.vscale()

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({LIMITS: _GEMM_LIMITS})
        sa, sb, sc = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (depth, size), "float32", offset_factor=1, strides=[sa, 1])
        B = T.match_buffer(b, (depth, size), "float32", offset_factor=1, strides=[sb, 1])
        C = T.match_buffer(c, (size, size), "float32", offset_factor=1, strides=[sc, 1])
        with T.block("root"):
            T.reads(C[0:size, 0:size], A[0:depth, 0:size], B[0:depth, 0:size])
            T.writes(C[0:size, 0:size])
            rows: T.int32 = size
            columns: T.int32 = size
            steps: T.int32 = depth
            _move_tiles("ld1w.horiz", C, rows, columns)
            for k in T.serial(steps):
                a_low = _row(A, k, 0, lanes, _mask(0, rows))
                a_high = _row(A, k, lanes, lanes, _mask(lanes, rows))
                b_low = _row(B, k, 0, lanes, _mask(0, columns))
                b_high = _row(B, k, lanes, lanes, _mask(lanes, columns))
                T.evaluate(_product(0, _mask(0, rows), _mask(0, columns), a_low, b_low))
                T.evaluate(_product(1, _mask(0, rows), _mask(lanes, columns), a_low, b_high))
                T.evaluate(_product(2, _mask(lanes, rows), _mask(0, columns), a_high, b_low))
                T.evaluate(_product(3, _mask(lanes, rows), _mask(lanes, columns), a_high, b_high))
            _move_tiles("st1w.horiz", C, rows, columns)

    made: PrimFunc = impl
    return made


def _row(buffer: Any, row: Any, column: Any, lanes: PrimExpr, mask: PrimExpr) -> PrimExpr:
    """Load elements of a row; lanes that are off are 0."""
    loaded: PrimExpr = buffer.vload([row, T.ramp(column, 1, lanes)], predicate=mask)
    return loaded


def _gemm_float16(depth: Any) -> PrimFunc:
    size = 8 * T.vscale()

    @T.prim_func(private=True)
    def impl(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({LIMITS: _GEMM_LIMITS})
        sa, sb, sc = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (depth, size), "float16", offset_factor=1, strides=[sa, 1])
        B = T.match_buffer(b, (depth, size), "float16", offset_factor=1, strides=[sb, 1])
        C = T.match_buffer(c, (size, size), "float32", offset_factor=1, strides=[sc, 1])
        with T.block("root"):
            T.reads(C[0:size, 0:size], A[0:depth, 0:size], B[0:depth, 0:size])
            T.writes(C[0:size, 0:size])
            rows: T.int32 = size
            columns: T.int32 = size
            steps: T.int32 = depth
            every = T.meta_var(T.broadcast(T.bool(True), size))
            _move_tiles("ld1w.horiz", C, rows, columns)
            for k in T.serial((steps + 1) // 2):
                a_even = _row(A, 2 * k, 0, size, _mask(0, rows, _HALVES))
                b_even = _row(B, 2 * k, 0, size, _mask(0, columns, _HALVES))
                # The last row of an odd number has zeros as its partner.
                a_limit = T.Select(2 * k + 1 < steps, rows, 0)
                b_limit = T.Select(2 * k + 1 < steps, columns, 0)
                a_odd = _row(A, 2 * k + 1, 0, size, _mask(0, a_limit, _HALVES))
                b_odd = _row(B, 2 * k + 1, 0, size, _mask(0, b_limit, _HALVES))
                a_low = _paired(1, a_even, a_odd)
                a_high = _paired(2, a_even, a_odd)
                b_low = _paired(1, b_even, b_odd)
                b_high = _paired(2, b_even, b_odd)
                T.evaluate(_wide_product(0, every, a_low, b_low))
                T.evaluate(_wide_product(1, every, a_low, b_high))
                T.evaluate(_wide_product(2, every, a_high, b_low))
                T.evaluate(_wide_product(3, every, a_high, b_high))
            _move_tiles("st1w.horiz", C, rows, columns)

    made: PrimFunc = impl
    return made


def get_sme_init_intrin() -> tuple[PrimFunc, PrimFunc]:
    """Return description and implementation of ``C[m, n] = 0`` for 2 SVL x 2 SVL float32 elements.

    ZA is set to zero and its tiles are stored.
    """
    size = 8 * T.vscale()

    @T.prim_func(private=True)
    def desc(c: T.handle):
        C = T.match_buffer(c, (size, size), "float32", offset_factor=1)
        with T.block("root"):
            T.reads()
            T.writes(C[0:size, 0:size])
            for m, n in T.grid(size, size):
                with T.block("init"):
                    v_m, v_n = T.axis.remap("SS", [m, n])
                    C[v_m, v_n] = T.float32(0)

    @T.prim_func(private=True)
    def impl(c: T.handle):
        T.func_attr({LIMITS: {"rows": (("C", 0),), "columns": (("C", 1),)}})
        sc = T.int32()
        C = T.match_buffer(c, (size, size), "float32", offset_factor=1, strides=[sc, 1])
        with T.block("root"):
            T.reads()
            T.writes(C[0:size, 0:size])
            rows: T.int32 = size
            columns: T.int32 = size
            T.evaluate(T.call_llvm_intrin("void", _SME + "zero", T.int32(_ALL_TILES)))
            _move_tiles("st1w.horiz", C, rows, columns)

    return desc, impl


TensorIntrin.register(ARM_SME_INIT, *get_sme_init_intrin())
TensorIntrin.register(
    ARM_SME_BLOCK2_2SVLx1SVL_FP16_TRANSPOSE_INTERLEAVE,
    *get_sme_transpose_interleave_block2_2svl_fp16_intrin(),
)
