"""The words of hybrid script as Python functions: with arrays, a script runs as it is written."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from tilesmith.support.errors import TypeMismatchError
from tilesmith.target import Target
from tilesmith.target.gpu_machine import max_threads_per_block

__all__ = [
    "HYBRID_GLOBALS", "allocate", "bind", "emulated", "inf", "max_num_threads", "ninf", "popcount",
    "rsqrt", "sigmoid",
]  # fmt: skip


class bind:
    """The threads of an axis, one after the other: ``for i in bind("threadIdx.x", 32)``."""

    def __init__(self, tag: str, ext: int) -> None:
        self.tag = tag
        self.ext = ext

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.ext))


def allocate(shape: Any, dtype: str = "float32", scope: str = "global") -> np.ndarray:
    """Return an array of zeros; of what memory does not matter here."""
    return np.zeros(shape, dtype)


def rsqrt(x: Any) -> Any:
    """Return the reciprocal of the square root."""
    return np.ones_like(x) / np.sqrt(x)


def popcount(x: Any) -> int:
    """Return the number of bits that are set in an integer."""
    value = int(x)
    if value < 0:
        value += 1 << (8 * np.asarray(x).dtype.itemsize)
    return value.bit_count()


def sigmoid(x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))``."""
    return 1 / (1 + np.exp(-x))


def max_num_threads(allow_none: bool = True) -> int:
    """Return how many threads a block of the current target may have."""
    target = Target.current(allow_none=True)
    if target is None:
        if not allow_none:
            raise TypeMismatchError(
                "max_num_threads needs a target", notes=("write: with target: …",)
            )
        return 1
    return max_threads_per_block(target) or 1


def inf(dtype: str) -> Any:
    """Return the largest value of a dtype: infinity for floats."""
    kind = np.dtype(dtype)
    return kind.type(np.inf) if kind.kind == "f" else np.iinfo(kind).max


def ninf(dtype: str) -> Any:
    """Return the smallest value of a dtype: minus infinity for floats."""
    kind = np.dtype(dtype)
    return kind.type(-np.inf) if kind.kind == "f" else np.iinfo(kind).min


_NUMPY_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "nearbyint": "rint", "atan2": "arctan2",
}  # fmt: skip
_FROM_NUMPY = (
    "exp exp2 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh "
    "atanh floor ceil trunc round nearbyint power fabs isnan isinf isfinite fmod atan2 hypot "
    "copysign int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
).split()

HYBRID_GLOBALS: dict[str, Any] = {
    **{name: getattr(np, _NUMPY_NAMES.get(name, name)) for name in _FROM_NUMPY},
    "len": builtins.len,
    "serial": range,
    "unroll": range,
    "vectorize": range,
    "parallel": range,
    "const_range": range,
    "bind": bind,
    "allocate": allocate,
    "output_tensor": allocate,
    "rsqrt": rsqrt,
    "sigmoid": sigmoid,
    "popcount": popcount,
    "likely": lambda condition: condition,
    "ceil_div": lambda a, b: (a + b - 1) // b,
    "max_num_threads": max_num_threads,
    "inf": inf,
    "ninf": ninf,
}
"""What the words mean while a script runs as Python."""


def emulated(function: FunctionType) -> Callable[..., Any]:
    """Return a function that runs with the words of hybrid script among its globals."""
    words = {**function.__globals__, **HYBRID_GLOBALS}
    copy = FunctionType(
        function.__code__, words, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
