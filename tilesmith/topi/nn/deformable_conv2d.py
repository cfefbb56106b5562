"""Convolutions whose windows read at places that depend on the data."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.utils import Numbers, Padding, get_pad_tuple, per_axis, windows_within
from tilesmith.topi.utils import DType, get_const_int
from tilesmith.topi.variants import variant

__all__ = ["deformable_conv2d_nchw", "deformable_conv2d_nhwc"]


def _bilinear(read: Any, y: PrimExpr, x: PrimExpr, height: PrimExpr, width: PrimExpr) -> PrimExpr:
    """Return a value between pixels; what lies outside of the image is 0."""
    zero, one = const(0.0, "float32"), const(1.0, "float32")
    total: Any = None
    bottom, left = tir.floor(y), tir.floor(x)
    for row, weight_y in ((bottom, one - (y - bottom)), (bottom + one, y - bottom)):
        for column, weight_x in ((left, one - (x - left)), (left + one, x - left)):
            inside = tir.all(
                row >= zero,
                row <= op.cast("float32", height) - one,
                column >= zero,
                column <= op.cast("float32", width) - one,
            )
            at = [
                op.cast(size.dtype, tir.Select(inside, place, zero))
                for place, size in ((row, height), (column, width))
            ]
            value = tir.if_then_else(inside, op.cast("float32", read(*at)), zero)
            value = value * weight_y * weight_x
            total = value if total is None else total + value
    made: PrimExpr = total
    return made


def _check_groups(inner: int, outer: int, per_group: int, groups: int, moved: int) -> None:
    if inner % groups or outer % groups or per_group != inner // groups:
        raise ShapeError(f"deformable_conv2d: {inner} and {outer} channels in {groups} groups")
    if inner % moved:
        raise ShapeError(f"deformable_conv2d: {inner} channels, {moved} offset groups")


def _deformable(
    layout: str,
    data: Tensor,
    offset: Tensor,
    kernel: Tensor,
    strides: Numbers,
    padding: Padding,
    dilation: Numbers,
    deformable_groups: int,
    groups: int,
    out_dtype: DType | None = None,
) -> Tensor:
    order = [layout.index(letter) for letter in "NCHW"]
    filter_order = [0, 1, 2, 3] if layout == "NCHW" else [3, 2, 0, 1]
    batch, channels, height, width = [data.shape[axis] for axis in order]
    filters, per_group = [kernel.shape[axis] for axis in filter_order[:2]]
    ky, kx = [get_const_int(kernel.shape[axis]) for axis in filter_order[2:]]
    inner, outer = get_const_int(channels), get_const_int(filters)
    _check_groups(inner, outer, get_const_int(per_group), groups, deformable_groups)
    (sy, sx), (dy, dx) = per_axis(strides, 2, "stride"), per_axis(dilation, 2, "dilation")
    top, left, bottom, right = get_pad_tuple(padding, ((ky - 1) * dy + 1, (kx - 1) * dx + 1))
    rows = windows_within(height + top + bottom, ky, sy, dy)
    columns = windows_within(width + left + right, kx, sx, dx)
    wanted = deformable_groups * ky * kx * 2
    if get_const_int(offset.shape[order[1]]) != wanted:
        raise ShapeError(f"deformable_conv2d: {wanted} offsets are needed for each place")
    rc = te.reduce_axis((0, inner // groups), name="rc")
    ry = te.reduce_axis((0, ky), name="ry")
    rx = te.reduce_axis((0, kx), name="rx")

    def arranged(*indices: Any) -> list[Any]:
        return [indices["NCHW".index(letter)] for letter in layout]

    def sample(n: Any, c: Any, u: Any, v: Any, y: Any, x: Any) -> PrimExpr:
        group = op.floordiv(c, inner // deformable_groups)
        which = ((group * ky + u) * kx + v) * 2
        moved_y = op.cast("float32", offset(*arranged(n, which, y, x)))
        moved_x = op.cast("float32", offset(*arranged(n, which + 1, y, x)))
        place_y = op.cast("float32", y * sy + u * dy - top) + moved_y
        place_x = op.cast("float32", x * sx + v * dx - left) + moved_x
        return _bilinear(
            lambda row, column: data(*arranged(n, c, row, column)), place_y, place_x, height, width
        )

    sampled = compute(
        (batch, inner, ky, kx, rows, columns), sample, name="data_deform", tag="injective"
    )
    out_dtype = out_dtype or data.dtype
    dtype = accumulator(out_dtype)

    def element(*i: Any) -> PrimExpr:
        n, f, y, x = [i[axis] for axis in order]
        channel = op.floordiv(f, outer // groups) * (inner // groups) + rc
        at = [(f, rc, ry, rx)[filter_order.index(axis)] for axis in range(4)]
        value = op.cast(dtype, sampled(n, channel, ry, rx, y, x)) * op.cast(dtype, kernel(*at))
        return te.sum(value, axis=[rc, ry, rx])

    shape = arranged(batch, filters, rows, columns)
    name = "deformable_conv2d_" + layout.lower()
    return rounded(compute(shape, element, name=name, tag=name), out_dtype)


deformable_conv2d_nchw = variant(
    "deformable_conv2d_nchw",
    _deformable,
    "NCHW",
    """Convolve NCHW data with an OIHW filter whose windows read between the pixels.

    ``offset`` (batch, deformable_groups * ky * kx * 2, rows, columns) moves each place of each
    window down and to the right. Outside of the image there is 0.
    """,
)
deformable_conv2d_nhwc = variant(
    "deformable_conv2d_nhwc",
    _deformable,
    "NHWC",
    "Convolve NHWC data with an HWIO filter and NHWC offsets; see `deformable_conv2d_nchw`.",
)
