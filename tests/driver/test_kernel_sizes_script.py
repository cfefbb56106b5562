"""Operands of `R.call_tir` that do not fit the kernel are refused, or an error at run time."""

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError


@I.ir_module(check_well_formed=False)
class Fixed:
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("b"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Fixed
        with R.dataflow():
            y = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(y)
        return y


@I.ir_module
class Symbolic:
    @T.prim_func
    def f(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,))
        B = T.match_buffer(b, (2 * n,))
        C = T.match_buffer(c, (n,))
        for i in range(n):
            with T.block("b"):
                v = T.axis.spatial(n, i)
                C[v] = A[v] + B[2 * v]

    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(
        ("n",), "float32"
    ):
        n = T.int64()
        cls = Symbolic
        with R.dataflow():
            z = R.call_tir(cls.f, (x, y), out_sinfo=R.Tensor((n,), "float32"))
            R.output(z)
        return z


def test_known_sizes():
    with pytest.raises(ShapeError, match="kernel 'f' takes 'A' with axis 0 of size 8, it is given"):
        relax.build(Fixed, target="llvm")


def test_symbolic_sizes():
    run = relax.build(Symbolic, target="llvm")
    x, y = np.arange(3, dtype="float32"), np.arange(6, dtype="float32")
    np.testing.assert_array_equal(run(x, y).numpy(), x + y[::2])
    with pytest.raises(ShapeError, match="takes 'B' with axis 0 of size 6, it is given size 5"):
        run(x, y[:5])
