"""Fourier transforms (names of ``relay.op.transform``)."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, boolean, integer
from tilesmith.relax.spec import topi
from tilesmith.relay.expr import TupleWrapper, const
from tilesmith.relay.op.view import computed, function, make_call


def _stft(attrs: Any, data: Any, window: Any) -> Any:
    return topi.stft(
        data,
        attrs.n_fft,
        attrs.hop_length,
        attrs.win_length,
        window,
        attrs.normalized,
        attrs.onesided,
    )


computed(
    "stft",
    "data window",
    _stft,
    level=3,
    schema=Schema(
        n_fft=integer(),
        hop_length=integer(),
        win_length=integer(),
        normalized=boolean(False),
        onesided=boolean(True),
    ),
    description="Fourier transforms of windows of signals; real and imaginary part come last.",
)


@function("stft")
def stft(
    data: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    normalized: bool = False,
    onesided: bool = True,
) -> Any:
    """Return Fourier transforms of windows, one every ``hop_length`` elements (a quarter of
    ``n_fft``); ``window`` are weights of the elements.
    """
    length = n_fft if win_length is None else win_length
    attributes = {
        "n_fft": n_fft,
        "hop_length": n_fft // 4 if hop_length is None else hop_length,
        "win_length": length,
        "normalized": normalized,
        "onesided": onesided,
    }
    weights = const(numpy.ones(length, "float32")) if window is None else window
    return make_call("stft", [data, weights], attributes)


computed(
    "dft",
    "re_data im_data",
    lambda attrs, real, imaginary: topi.dft(real, imaginary, attrs.inverse),
    level=3,
    schema=Schema(inverse=boolean(False)),
    description="The Fourier transform along the last axis, of real and imaginary parts.",
)


@function("dft")
def dft(re_data: Any, im_data: Any, inverse: bool = False) -> TupleWrapper:
    """Return real and imaginary parts of the Fourier transform along the last axis."""
    return TupleWrapper(make_call("dft", [re_data, im_data], {"inverse": inverse}), 2)
