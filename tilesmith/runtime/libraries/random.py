"""Random numbers for operators: one generator for the process, which `seed` starts anew."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tilesmith.support.errors import TypeMismatchError, UnsupportedError

if TYPE_CHECKING:
    import numpy

    from tilesmith.runtime.ndarray import NDArray

__all__ = ["normal", "randint", "random_fill", "seed", "uniform"]

_lock = threading.Lock()  # a generator of numpy serves one thread at a time
_generators: list[numpy.random.Generator] = []


def _generator() -> numpy.random.Generator:
    import numpy

    if not _generators:
        _generators.append(numpy.random.default_rng())
    return _generators[0]


def seed(number: int) -> None:
    """Start the generator anew: the same numbers follow each time."""
    import numpy

    with _lock:
        _generators[:] = [numpy.random.default_rng(int(number))]


def randint(low: int, high: int, out: NDArray) -> None:
    """Fill a tensor with whole numbers from ``low`` to below ``high``."""
    dtype = out.dtype
    if not (dtype.is_int or dtype.is_uint):
        raise TypeMismatchError(f"random.randint fills tensors of whole numbers, not of {dtype}")
    kind = dtype.numpy()
    import numpy

    limits = numpy.iinfo(kind)
    if not limits.min <= low < high <= int(limits.max) + 1:
        raise TypeMismatchError(f"random.randint: no {dtype} is in the range from {low} to {high}")
    with _lock:
        out.copyfrom(_generator().integers(low, high, out.shape, kind))


def uniform(low: float, high: float, out: NDArray) -> None:
    """Fill a tensor with numbers that are equally likely everywhere between the bounds."""
    _check_float("uniform", out)
    with _lock:
        out.copyfrom(_generator().uniform(low, high, out.shape))


def normal(loc: float, scale: float, out: NDArray) -> None:
    """Fill a tensor with numbers of a normal distribution: its mean and standard deviation."""
    _check_float("normal", out)
    with _lock:
        out.copyfrom(_generator().normal(loc, scale, out.shape))


def random_fill(out: NDArray) -> None:
    """Fill a tensor of any dtype, for measurements: floats from 1 to 10, whole numbers from 0 to
    9, booleans.
    """
    dtype = out.dtype
    with _lock:
        if dtype.is_bool:
            out.copyfrom(_generator().integers(0, 2, out.shape).astype("bool"))
        elif dtype.is_int or dtype.is_uint:
            last = min(9, (1 << (dtype.bits - dtype.is_int)) - 1)
            out.copyfrom(_generator().integers(0, last + 1, out.shape))
        elif dtype.is_float:
            out.copyfrom(_generator().uniform(1, 10, out.shape))
        else:
            raise UnsupportedError(f"random_fill: no values are known for '{dtype}'")


def _check_float(name: str, out: NDArray) -> None:
    if not out.dtype.is_float:
        raise TypeMismatchError(f"random.{name} fills tensors of floats, not of {out.dtype}")
