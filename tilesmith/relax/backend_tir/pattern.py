"""Kernels of float16 with symbolic sizes, as patterns for SplitCallTIRByPattern.

They are what LegalizeOps makes of the operators, since the same functions of topi make them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith import te, topi
from tilesmith.ir import Var, const
from tilesmith.ir.operators import all_of
from tilesmith.relax.transform.split_call_tir import MatchResult
from tilesmith.tir import PrimFunc, if_then_else

__all__ = [
    "MatchResult", "batch_bias_row_1d_fp16", "batch_bias_row_2d_fp16", "batch_matmul_rrr_2d_fp16",
    "batch_matmul_rrr_3d_fp16", "bias_add_nhwc_1d_fp16", "bias_add_nhwc_2d_fp16",
    "bias_row_1d_fp16", "bias_row_2d_fp16", "cast_3d_fp16", "cast_3d_fp32", "conv2d_nhwc_fp16",
    "copy_4d_fp16", "elem_add_2d_fp16", "elem_add_3d_fp16", "elem_add_4d_fp16",
    "elem_mul_3d_fp16", "erf_3d_fp32", "get_tir_pattern", "matmul_rrr_fp16",
    "padding_2d_nhwc_fp16", "relu_fp16", "scalar_add_3d_fp16", "scalar_mul_3d_fp16",
]  # fmt: skip


def _pattern(
    handles: str,
    symbols: str,
    shapes: Sequence[str],
    make: Callable[..., Any],
    dtype: str = "float16",
) -> PrimFunc:
    """Return the kernel of a tensor expression. ``shapes`` name the sizes of its arguments by
    symbols; ``make`` gets the arguments, then the other symbols by name.
    """
    sizes = {
        name: Var(name, "float16" if name == "scalar" else "int64") for name in symbols.split()
    }
    inputs = []
    for number, shape in enumerate(shapes):
        extents = [
            sizes[one] if one in sizes else const(int(one), "int64") for one in shape.split()
        ]
        inputs.append(te.placeholder(extents, dtype, name=f"rxplaceholder_{number}"))
    used = {name: size for name, size in sizes.items() if name in _parameters(make)}
    made = te.create_prim_func([*inputs, make(*inputs, **used), *used.values()])
    params = [Var(name, "handle") for name in handles.split()]
    buffers = dict(zip(params, made.buffers))
    return PrimFunc([*params, *sizes.values()], made.body, None, buffers, {"tir.noalias": True})


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _product(a: Any, b: Any) -> Any:
    return topi.matmul(a, b, out_dtype="float16")


def _sum(a: Any, b: Any) -> Any:
    return topi.add(a, b)


_TWO, _THREE = "var_rxplaceholder var_rxplaceholder_1", "in0_handle in1_handle out_handle"
_ABOUT = "A_handle B_handle out_handle"

matmul_rrr_fp16 = _pattern(f"{_TWO} var_matmul", "M N K", ["M K", "K N"], _product)
bias_row_2d_fp16 = _pattern(f"{_TWO} var_T_add", "M N", ["M N", "1 N"], _sum)
bias_row_1d_fp16 = _pattern(f"{_TWO} var_T_add", "M N", ["M N", "N"], _sum)
batch_bias_row_2d_fp16 = _pattern(
    f"{_TWO} var_T_add", "batch M N", ["batch M N", "1 N"], _sum
)  # fmt: skip
batch_bias_row_1d_fp16 = _pattern(f"{_TWO} var_T_add", "batch M N", ["batch M N", "N"], _sum)
relu_fp16 = _pattern("var_rxplaceholder var_compute", "M N", ["M N"], lambda a: topi.nn.relu(a))
batch_matmul_rrr_2d_fp16 = _pattern(
    f"{_TWO} var_matmul", "batch M N K", ["batch M K", "K N"], _product
)
batch_matmul_rrr_3d_fp16 = _pattern(
    f"{_TWO} var_matmul", "batch M N K", ["batch M K", "batch K N"], _product
)


def _copied(a: Any) -> Any:
    return te.compute(a.shape, lambda *index: a(*index), name="T_copy")


copy_4d_fp16 = _pattern("A_handle B_handle", "N H W C", ["N H W C"], _copied)


def _padded(a: Any, pH: Any, pW: Any, lH: Any, lW: Any, rH: Any, rW: Any) -> Any:
    def element(n: Any, h: Any, w: Any, c: Any) -> Any:
        inside = all_of(lH <= h, h < rH, lW <= w, w < rW)
        return if_then_else(inside, a[n, h - lH, w - lW, c], te.const(0, a.dtype))

    return te.compute((a.shape[0], pH, pW, a.shape[3]), element, name="pad_temp")


padding_2d_nhwc_fp16 = _pattern(
    "A_handle B_handle", "N H W C pH pW lH lW rH rW", ["N H W C"], _padded
)


def _convolution(
    a: Any, b: Any, H: Any, W: Any, StrideH: Any, StrideW: Any, DilateH: Any, DilateW: Any
) -> Any:
    count, height, width, depth = b.shape
    ry, rx = te.reduce_axis((0, height), "ry"), te.reduce_axis((0, width), "rx")
    rc = te.reduce_axis((0, depth), "rc")

    def element(n: Any, y: Any, x: Any, f: Any) -> Any:
        place = a[n, y * StrideH + ry * DilateH, x * StrideW + rx * DilateW, rc]
        product = place.astype("float32") * b[f, ry, rx, rc].astype("float32")
        return te.sum(product, axis=[ry, rx, rc])

    wide = te.compute((a.shape[0], H, W, count), element, name="conv2d_nhwc")
    return topi.cast(wide, "float16")


conv2d_nhwc_fp16 = _pattern(
    _ABOUT,
    "N pH pW H W C O KH KW StrideH StrideW DilateH DilateW",
    ["N pH pW C", "O KH KW C"],
    _convolution,
)
bias_add_nhwc_2d_fp16 = _pattern(_ABOUT, "N H W C", ["N H W C", "1 1 1 C"], _sum)
bias_add_nhwc_1d_fp16 = _pattern(_ABOUT, "N H W C", ["N H W C", "C"], _sum)
elem_add_2d_fp16 = _pattern(_THREE, "N M", ["N M", "N M"], _sum)
elem_add_3d_fp16 = _pattern(_THREE, "B N M", ["B N M", "B N M"], _sum)
elem_add_4d_fp16 = _pattern(_ABOUT, "N H W C", ["N H W C", "N H W C"], _sum)

_ONE, _CUBE = "inp0_handle out_handle", ["D1 D2 D3"]


def _times(a: Any, scalar: Any) -> Any:
    return topi.multiply(a, scalar)


def _plus(a: Any, scalar: Any) -> Any:
    return topi.add(a, scalar)


scalar_mul_3d_fp16 = _pattern(_ONE, "D1 D2 D3 scalar", _CUBE, _times)
erf_3d_fp32 = _pattern(_ONE, "D1 D2 D3", _CUBE, lambda a: topi.erf(a), "float32")
scalar_add_3d_fp16 = _pattern(_ONE, "D1 D2 D3 scalar", _CUBE, _plus)
elem_mul_3d_fp16 = _pattern(
    "inp0_handle inp1_handle out_handle", "D1 D2 D3", _CUBE * 2, lambda a, b: topi.multiply(a, b)
)
cast_3d_fp16 = _pattern(_ONE, "D1 D2 D3", _CUBE, lambda a: topi.cast(a, "float16"), "float32")
cast_3d_fp32 = _pattern(_ONE, "D1 D2 D3", _CUBE, lambda a: topi.cast(a, "float32"))


def get_tir_pattern() -> list[PrimFunc]:
    """Return all patterns."""
    return [value for name, value in sorted(globals().items()) if isinstance(value, PrimFunc)]
