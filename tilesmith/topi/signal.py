"""Fourier transforms."""

from __future__ import annotations

import math

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.te import Tensor
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import Shape, get_const_int, simplify

__all__ = ["dft", "stft"]


def _turned(frequency: PrimExpr, place: PrimExpr, size: PrimExpr) -> PrimExpr:
    """Return 2 pi frequency * place / size, from the remainder: large products lose digits."""
    wide = op.cast("int64", frequency) * op.cast("int64", place)
    part = op.floormod(wide, op.cast("int64", size))
    turn = const(2 * math.pi, "float32") * op.cast("float32", part)
    return turn / op.cast("float32", size)


def dft(re_data: Tensor, im_data: Tensor, inverse: bool) -> list[Tensor]:
    """Return the discrete Fourier transform along the last axis, as real and imaginary part; the
    inverse one is divided by the number of elements.
    """
    if len(re_data.shape) != len(im_data.shape):
        raise ShapeError("dft: the real and the imaginary part have one shape")
    size = re_data.shape[-1]
    sign = const(1.0 if inverse else -1.0, "float32")

    def part(is_real: bool) -> Tensor:
        k = te.reduce_axis((0, size), name="k")

        def element(*i: PrimExpr) -> PrimExpr:
            angle = _turned(i[-1], k.var, size)
            cosine = op.cast(re_data.dtype, tir.cos(angle))
            sine = op.cast(re_data.dtype, sign * tir.sin(angle))
            real, imaginary = re_data(*i[:-1], k), im_data(*i[:-1], k)
            if is_real:
                return te.sum(real * cosine - imaginary * sine, axis=k)
            return te.sum(real * sine + imaginary * cosine, axis=k)

        name = "dft_real" if is_real else "dft_imaginary"
        total: Tensor = compute(re_data.shape, element, name=name)
        if not inverse:
            return total
        divisor = op.cast(total.dtype, size)
        return compute(total.shape, lambda *i: total(*i) / divisor, name=name + "_mean")

    return [part(True), part(False)]


def stft(
    data: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    window: Tensor,
    normalized: bool,
    onesided: bool,
    output_shape: Shape | None = None,
) -> Tensor:
    """Return the Fourier transforms of windows that begin ``hop_length`` elements apart:
    (batch, frequencies, windows, real and imaginary part), without the batch for a vector.

    A window shorter than ``n_fft`` stands in the middle of it. ``onesided``: the frequencies up to
    half of ``n_fft`` only. ``normalized`` divides by the root of ``n_fft``.
    """
    if not 0 < win_length <= n_fft or hop_length < 1:
        raise OpAttributeInvalid(
            f"stft: a window of {win_length} elements within {n_fft}, every {hop_length} elements"
        )
    if get_const_int(window.shape[0]) != win_length:
        raise ShapeError(f"stft: a window of {window.shape[0]} elements, {win_length} are wanted")
    length = data.shape[-1]
    frames = simplify(op.floordiv(length - n_fft, hop_length) + 1)
    frequencies = n_fft // 2 + 1 if onesided else n_fft
    shape = [*data.shape[:-1], frequencies, frames, 2] if output_shape is None else output_shape
    skipped = (n_fft - win_length) // 2
    k = te.reduce_axis((0, win_length), name="k")
    scale = 1 / math.sqrt(n_fft) if normalized else 1.0

    def element(*i: PrimExpr) -> PrimExpr:
        *batch, frequency, frame, which = i
        value = data(*batch, frame * hop_length + k + skipped) * window(k)
        angle = _turned(frequency, k + skipped, const(n_fft, "int32"))
        is_real = op.equal(which, const(0, which.dtype))
        factor = tir.if_then_else(is_real, tir.cos(angle), const(0.0, "float32") - tir.sin(angle))
        return te.sum(value * op.cast(data.dtype, factor * const(scale, "float32")), axis=k)

    return compute(shape, element, name="stft")
