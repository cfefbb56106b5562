"""Draws the parts of programs for the schedule rules: sizes, inputs, and work around a kernel."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith import te, topi
from tilesmith.ir import IntImm, PrimExpr, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.te import Tensor
from tilesmith.testing.fuzz.choices import Choices
from tilesmith.tir.functor import substitute
from tilesmith.topi.utils import simplify

__all__ = ["FORMS", "Maker", "form"]

Form = Callable[["Maker"], "Tensor | list[Tensor]"]

FORMS: dict[str, tuple[float, Form]] = {}
"""Name → how often it is drawn, and the function that makes its tensors."""

_SIZES = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 19, 21, 24, 25, 28, 31, 32, 33, 35, 40,
    47, 48, 49, 56, 63, 64, 65, 70, 96, 100, 127, 128, 130, 192, 257, 300,
)  # fmt: skip
"""Lengths of vectors and of tiles, with what lies beside them."""

_BUDGETS = (2_000, 20_000, 60_000, 150_000)
"""How many multiplications a program may have: the interpreter does a million a second."""

_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "bool": (0, 1)}

_NEAR = {"float32": 3e-5, "float64": 1e-9, "float16": 3e-2, "bfloat16": 8e-2}


def form(name: str, weight: float = 1.0) -> Callable[[Form], Form]:
    """Register the function that draws programs of a form."""

    def add(function: Form) -> Form:
        FORMS[name] = (weight, function)
        return function

    return add


class Maker(Choices):
    """Draws a program of tensor expressions, and says what its arguments may be."""

    def __init__(self, rng: random.Random, given: Sequence[int] = ()) -> None:
        super().__init__(rng, given)
        self.index = self.among(["int64", "int32"])
        self.left = self.among(_BUDGETS)
        self.inputs: list[Tensor] = []
        self.arguments: dict[str, dict[str, Any]] = {}
        self.numbers: dict[Var, list[int]] = {}  # of sizes that are open: one for each call
        self.near: dict[str, float] = {}  # how exact results of a dtype are; all bits: not in it

    # Sizes.

    def count(self, most: int = 70, least: int = 1) -> int:
        """Return a known size, and take it from the work that is left."""
        most = max(least, min(most, self.left))
        drawn: int = self.among([one for one in _SIZES if least <= one <= most] or [least])
        self.left //= drawn
        return drawn

    def size(self, most: int = 70, least: int = 0) -> Any:
        """Return a size: a number, sometimes 0, or a variable."""
        if least <= 0 and self.chance(0.02):
            return 0
        number = self.count(most, max(1, least))
        if not self.chance(0.12):
            return number
        others = [max(1, least, number - 2), number + 3, max(1, least), max(0, least)]
        variable = te.size_var(f"n{len(self.numbers)}", self.index)
        self.numbers[variable] = [number, self.among(others)]
        return variable

    def sizes(self, count: int, most: int = 70) -> list[Any]:
        """Return some sizes, the largest anywhere."""
        return self.shuffled([self.size(most) for _ in range(count)])

    def number_of(self, size: Any, call: int = 0) -> int:
        """Return the number that a size stands for in a call."""
        known = {var: const(both[call], var.dtype) for var, both in self.numbers.items()}
        found = simplify(substitute(size, known)) if isinstance(size, PrimExpr) else size
        return int(found.value if isinstance(found, IntImm) else found)

    def least(self, size: Any) -> int:
        """Return the smallest number that a size stands for."""
        return min(self.number_of(size, call) for call in range(2))

    # Tensors.

    def dtype(self, *others: str) -> str:
        """Return a dtype, mostly float32."""
        if self.chance(0.7):
            return "float32"
        dtype: str = self.among(["float64", "int32", "float16", "bfloat16", *others])
        return dtype

    def input(
        self, shape: Sequence[Any], dtype: str = "float32", low: int | None = None,
        high: int | None = None, **more: Any,
    ) -> Tensor:  # fmt: skip
        """Return a new input; its values are small integers, or within bounds."""
        name = f"A{len(self.inputs)}"
        made = te.placeholder(tuple(shape), dtype, name=name)
        least, most = _RANGES.get(dtype, (-2, 3))
        low, high = least if low is None else low, most if high is None else high
        self.inputs.append(made)
        self.arguments[name] = {"dtype": dtype, "low": low, "high": high, **more}
        return made

    def source(self, shape: Sequence[Any], dtype: str = "float32") -> Any:
        """Return an input, sometimes after work that rules read through."""
        wide = {"float32": "float16", "int32": "int8", "float16": "float32"}
        if self.chance(0.8):
            return self.input(shape, dtype)
        kind = self.among(["relu", "add", "cast", "transposed", "scaled"])
        if kind == "cast" and dtype in wide:
            return topi.cast(self.input(shape, wide[dtype]), dtype)
        if kind == "transposed" and len(shape) > 1:
            axes = self.shuffled(range(len(shape)))
            data = self.input([shape[axis] for axis in axes], dtype)
            return topi.transpose(data, [axes.index(axis) for axis in range(len(shape))])
        data = self.input(shape, dtype)
        if kind == "add":
            return topi.add(data, self.input(shape[-1:], dtype))
        return topi.nn.relu(data) if kind != "scaled" else topi.multiply(data, const(2, dtype))

    def inexact(self, factor: float = 1.0) -> None:
        """Say that results from now on depend on the order of sums, or on functions."""
        for dtype, near in _NEAR.items():
            self.near[dtype] = max(self.near.get(dtype, 0.0), near * factor)

    # Work behind a kernel.

    def epilogue(self, result: Tensor) -> list[Tensor]:
        """Return the results after some more work, elementwise; sometimes the kernel's as well."""
        first = result
        count = self.among([0, 0, 1, 1, 2, 3, 4])
        if count and DataType(result.dtype).bits < 32:
            self.inexact()  # steps may be computed in a wider type without rounding between
        for _ in range(count):
            result = _STEPS[self.among(_STEPS)](self, result)
        if result is not first and self.chance(0.1):
            return [first, result]
        return [result]


def _is_float(tensor: Tensor) -> bool:
    return bool(DataType(tensor.dtype).is_float)


def _bias(make: Maker, x: Tensor) -> Any:
    return topi.add(x, make.input(x.shape[-1:], str(x.dtype)))


def _channels(make: Maker, x: Tensor) -> Any:
    """Scale along the second axis, as that of NCHW."""
    if len(x.shape) < 3:
        return _bias(make, x)
    scale = make.input((x.shape[1], *[1] * (len(x.shape) - 2)), str(x.dtype), 1, 2)
    return topi.multiply(x, scale)


def _residual(make: Maker, x: Tensor) -> Any:
    return topi.add(x, make.input(x.shape, str(x.dtype)))


def _relu(make: Maker, x: Tensor) -> Any:
    return topi.nn.relu(x)


def _clip(make: Maker, x: Tensor) -> Any:
    return topi.clip(x, const(0, x.dtype), const(6, x.dtype))


def _twice(make: Maker, x: Tensor) -> Any:
    """Let two readers use the same tensor."""
    return topi.add(topi.nn.relu(x), topi.maximum(x, const(1, x.dtype)))


def _smooth(make: Maker, x: Tensor) -> Any:
    """Apply a function of floats."""
    if not _is_float(x):
        return topi.nn.relu(x)
    make.inexact()
    name = make.among(["sigmoid", "tanh", "gelu", "silu", "exp", "erf"])
    if name == "exp":
        return topi.exp(topi.minimum(x, const(3, x.dtype)))
    return getattr(topi.nn if name in ("gelu", "silu") else topi, name)(x)


def _narrower(make: Maker, x: Tensor) -> Any:
    """Store the results as bytes."""
    low, high = const(-100, x.dtype), const(100, x.dtype)
    if _is_float(x) or str(x.dtype) != "int32":
        return topi.nn.relu(x)
    return topi.cast(topi.maximum(topi.minimum(x, high), low), "int8")


def _masked(make: Maker, x: Tensor) -> Tensor:
    """Choose between two values by a third input."""
    return topi.where(make.input(x.shape, "bool"), x, const(0, x.dtype))


_STEPS: dict[str, Callable[[Maker, Tensor], Tensor]] = {
    "relu": _relu, "bias": _bias, "residual": _residual, "clip": _clip, "channels": _channels,
    "twice": _twice, "smooth": _smooth, "narrower": _narrower, "masked": _masked,
}  # fmt: skip
"""Elementwise work, the simplest first."""
