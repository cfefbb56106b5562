"""Mathematical functions on edge values and ordinary ones give what the interpreter gives.

The interpreter asks numpy, generated code the C library or its own formulas: results may differ by
the errors of both, infinities, NaN and zeros have to agree. Bounds are in units in the last place.
"""

import numpy as np
import pytest

from tests.codegen.differential import Differential, all_pairs, edge_values
from tests.codegen.harness import HOST
from tilesmith.codegen.c import find_compiler
from tilesmith.ir import Call
from tilesmith.runtime.dtype import DataType
from tilesmith.target import Target
from tilesmith.tir.transform.functions.lower_intrin import lower_intrin

FLOATS = ["float16", "bfloat16", "float32", "float64"]
ONE = {
    "exp": 3, "exp2": 3, "exp10": 4, "log": 3, "log2": 3, "log10": 3, "log1p": 4, "sin": 3,
    "cos": 3, "tan": 5, "asin": 4, "acos": 4, "atan": 4, "sinh": 4, "cosh": 4, "tanh": 7,
    "asinh": 5, "acosh": 5, "atanh": 5, "erf": 8, "sigmoid": 5, "rsqrt": 2,
}  # fmt: skip
TWO = {"pow": 4, "atan2": 4, "hypot": 2}
FORMS = [
    pytest.param("llvm", False, id="library"),
    pytest.param("llvm", True, id="formulas"),
    pytest.param("c", False, id="c", marks=pytest.mark.skipif(
        find_compiler() is None, reason="no C compiler here")),
]  # fmt: skip


class Functions(Differential):
    """The same with operators lowered to formulas before code is generated."""

    def __init__(self, lowered):
        super().__init__()
        self.lowered = lowered

    def check(self, target=HOST):
        plain = self.cases
        if self.lowered:
            self.cases = [(lower_intrin(case[0], "llvm"), *case[1:]) for case in plain]
        super().check(target)


def call(name):
    return lambda *args: Call(args[0].dtype, "tir." + name, args)


def values_of(dtype):
    random = np.random.default_rng(0).uniform(-9, 9, 40)
    some = np.concatenate([random, random / 20, [0.999, -0.999, 88.0, -104.0, 1e-3, 0.75]])
    return np.concatenate([edge_values(dtype), some.astype(DataType(dtype).numpy())])


def wide_enough(name, values):
    """float16's and bfloat16's largest numbers are ordinary; float64's sines of 1e308 differ."""
    if name in ("sin", "cos", "tan"):
        return values[~(np.abs(values.astype("f8")) > 1e5)]
    return values


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("target, lowered", FORMS)
def test_functions_of_one(dtype, target, lowered):
    batch = Functions(lowered)
    for name, ulps in ONE.items():
        batch.add(name, call(name), [wide_enough(name, values_of(dtype))], dtype, ulps)
    batch.check(HOST if target == "llvm" else Target(target))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("target, lowered", FORMS)
def test_functions_of_two(dtype, target, lowered):
    batch = Functions(lowered)
    first, second = all_pairs(values_of(dtype)[::2], edge_values(dtype))
    for name, ulps in TWO.items():
        batch.add(name, call(name), [first, second], dtype, ulps)
    batch.check(HOST if target == "llvm" else Target(target))
