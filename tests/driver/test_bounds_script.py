"""``tilesmith.compile(bounds="check")``: accesses of a model's kernels that nothing proves to be
inside of their buffers are listed and checked."""

import numpy as np
import pytest

import tilesmith
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, OutOfBoundsError
from tilesmith.support.fallbacks import collect_fallbacks


@I.ir_module
class Model:
    @T.prim_func(private=True)
    def pick(
        A: T.Buffer((8,), "float32"), P: T.Buffer((4,), "int64"), B: T.Buffer((4,), "float32")
    ):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                B[v] = A[P[v]]

    @R.function
    def main(x: R.Tensor((8,), "float32"), p: R.Tensor((4,), "int64")) -> R.Tensor((4,), "float32"):
        cls = Model
        with R.dataflow():
            y = R.call_tir(cls.pick, (x, p), out_sinfo=R.Tensor((4,), "float32"))
            R.output(y)
        return y


def test_accesses_of_kernels():
    with collect_fallbacks() as report:
        run = tilesmith.compile(Model, bounds="check")
    (row,) = [row for row, _ in report.rows() if row.kind == "bounds"]
    assert "A[P[i]]" in row.subject and "not proven" in row.reason
    x, places = np.arange(8, dtype="float32"), np.array([1, 7, 0, 3])
    np.testing.assert_array_equal(run(x, places).numpy(), x[places])
    with pytest.raises(OutOfBoundsError, match="buffer 'A' of shape .8. is read .* index 8 of 8"):
        run(x, np.array([1, 8, 0, 3]))
    with pytest.raises(ConfigError, match="bounds"):
        tilesmith.compile(Model, bounds="guess")
