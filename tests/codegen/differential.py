"""Elementwise functions that are run by a back end and by the interpreter on edge values."""

from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from tests.codegen.harness import HOST, Compiled, elementwise
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.interpreter import run

LANES = 8


def edge_values(dtype: str) -> np.ndarray:
    """Zeros, ones, limits, infinities, NaN, halves and a few ordinary numbers of a dtype."""
    kind = DataType(dtype)
    if kind.is_bool:
        return np.array([False, True])
    if kind.is_integer:
        low, high = kind.min_value, kind.max_value
        chosen = {low, low + 1, 0, 1, 2, 3, 5, 7, high // 3, high - 1, high}
        chosen |= {-1, -2, -3, -7, low // 3} if kind.is_int else set()
        return np.array(sorted(n for n in chosen if low <= n <= high), kind.numpy())
    limits = ml_dtypes.finfo(kind.numpy())
    chosen = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.0, -7.0, 0.1, -3.7, 12.0, np.inf,
              -np.inf, np.nan, float(limits.max), float(limits.min), float(limits.tiny),
              -float(limits.smallest_subnormal), float(limits.eps)]  # fmt: skip
    with np.errstate(all="ignore"):
        return np.array(chosen).astype(kind.numpy())


def padded(columns: list[np.ndarray]) -> list[np.ndarray]:
    """Columns of one length, repeated until whole vectors hold them."""
    count = -(-max(len(columns[0]), 1) // LANES) * LANES
    return [np.ascontiguousarray(np.resize(column, count)) for column in columns]


def all_pairs(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each value of the first with each of the second."""
    places = np.array(list(product(range(len(first)), range(len(second)))))
    return first[places[:, 0]], second[places[:, 1]]


class Differential:
    """Functions of one module; `check` compares what they give with the interpreter."""

    def __init__(self) -> None:
        self.cases: list[tuple[Any, str, list[np.ndarray], str, float, str]] = []

    def add(
        self,
        what: str,
        make: Callable[..., Any],
        inputs: list[np.ndarray],
        result: str,
        ulps: float = 0,
    ) -> None:
        """`make` on loaded scalars and on vectors; results may differ by `ulps`."""
        inputs = padded(inputs)
        dtypes = [str(DataType(array.dtype)) for array in inputs]
        for lanes in (1, LANES):
            name = f"case_{len(self.cases)}"
            function = elementwise(make, dtypes, result, len(inputs[0]), lanes)
            function = function.with_attr("global_symbol", name)
            self.cases.append((function, name, inputs, result, ulps, f"{what} x {lanes}"))

    def check(self, target: Any = HOST, expected: dict[str, np.ndarray] | None = None) -> None:
        """Run all functions both ways; all that differ are named."""
        compiled = Compiled([case[0] for case in self.cases], target)
        wrong = []
        for function, name, inputs, result, ulps, what in self.cases:
            kind = DataType(result).numpy()
            right, got = np.zeros((2, len(inputs[0])), kind)
            with np.errstate(all="ignore"):
                run(function, *inputs, right)
                assert compiled(*inputs, got, name=name) == 0
            for place in np.nonzero(~agree(got, right, ulps))[0][:3]:
                given = ", ".join([str(column[place]) for column in inputs])
                wrong.append(f"{what} of {given}: {got[place]}, interpreted {right[place]}")
        assert not wrong, "\n".join(wrong)


def agree(got: np.ndarray, right: np.ndarray, ulps: float) -> np.ndarray:
    """Where results are equal bit by bit (any NaN is a NaN), or within `ulps`."""
    if not DataType(got.dtype).is_float:
        return got == right
    nan = np.isnan(right)
    same = (got.view(f"u{got.itemsize}") == right.view(f"u{got.itemsize}")) | (nan & np.isnan(got))
    if not ulps:
        return same
    with np.errstate(all="ignore"):
        wide_got, wide_right = got.astype("f8"), right.astype("f8")
        limits = ml_dtypes.finfo(got.dtype)
        digits = -np.log2(float(limits.eps))
        _, exponent = np.frexp(wide_right)
        step = np.ldexp(1.0, exponent - 1 - int(digits))
        step = np.maximum(step, float(limits.smallest_subnormal))
        near = np.abs(wide_got - wide_right) <= ulps * step
    return same | (near & np.isfinite(wide_right))
