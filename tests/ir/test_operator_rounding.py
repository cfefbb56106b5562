"""Python operators fold no float constant otherwise than the machine would round it."""

from __future__ import annotations

from typing import Any

import pytest

from tilesmith.ir import Add, Cast, FloatImm, Sub, Var, const
from tilesmith.ir import operators as op
from tilesmith.ir.structural import assert_structural_equal

f = Var("f", "float32")


def single(value: float) -> FloatImm:
    return FloatImm("float32", value)


@pytest.mark.parametrize(
    "found, expected",
    [
        (f + 0.0, Add(f, single(0.0))),  # of -0.0 that is 0.0
        (0.0 + f, Add(single(0.0), f)),
        (f + single(-0.0), f),
        (f - 0.0, f),
        (f - single(-0.0), Sub(f, single(-0.0))),
        (op.cast("float32", const(16777217, "int32")), single(16777216.0)),
        (op.cast("float32", const((1 << 62) + 1, "int64")),
         Cast("float32", const((1 << 62) + 1, "int64"))),
        (op.cast("float64", single(0.1)), FloatImm("float64", 0.10000000149011612)),
        (op.cast("float64", single(0.5)), FloatImm("float64", 0.5)),
        (op.cast("float32", FloatImm("float16", 0.1)), Cast("float32", FloatImm("float16", 0.1))),
        (op.cast("int32", single(16777216.9)), const(16777216, "int32")),
        (op.equal(single(16777217.0), single(16777216.0)), const(True, "bool")),
        (op.less(single(0.1), single(0.2)), const(True, "bool")),
        (op.less(single(float("nan")), single(1.0)), const(False, "bool")),
    ],
)  # fmt: skip
def test_constants(found: Any, expected: Any) -> None:
    assert_structural_equal(found, expected)
