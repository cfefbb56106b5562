"""Values that only the runtime knows: in passes, and in programs of steps."""

import numpy as np

from tilesmith import relax
from tilesmith.ir import assert_structural_equal
from tilesmith.runtime import register_func
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T


def test_objects_that_are_created_alike_stay_apart():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Object, R.Object, R.Tuple(R.Object)):
            with R.dataflow():
                a: R.Object = R.call_pure_packed("tests.make", x, sinfo_args=(R.Object,))
                b: R.Object = R.call_pure_packed("tests.make", x, sinfo_args=(R.Object,))
                c = R.call_pure_packed("tests.makes", x, sinfo_args=(R.Tuple(R.Object),))
                d = R.call_pure_packed("tests.makes", x, sinfo_args=(R.Tuple(R.Object),))
                e: R.Object = d[0]
                f = R.call_pure_packed("tests.use", c, e, sinfo_args=(R.Tuple(R.Object),))
                gv = (a, b, f)
                R.output(gv)
            return gv

    assert_structural_equal(relax.transform.EliminateCommonSubexpr()(Module), Module)


def test_functions_with_objects_write_their_results():
    class Box:
        value = 3

    register_func("tests.objects.box", lambda: Box(), override=True)

    def fill(box, factor, word, x, first, second):
        assert word == "word"
        first.copyfrom(x.numpy() * box.value * factor)
        second.copyfrom(np.full(2, x.shape[0], "int32"))

    register_func("tests.objects.fill", fill, override=True)
    register_func("tests.objects.twice", lambda box, x, y: y.copyfrom(x.numpy() * 2), override=True)

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(
            x: R.Tensor(("n",), "float32"),
        ) -> R.Tuple(R.Tensor(("n",), "float32"), R.Tensor((2,), "int32")):
            n = T.int64()
            box: R.Object = R.call_packed("tests.objects.box", sinfo_args=(R.Object,))
            y = R.add(x, x)
            both = R.call_dps_packed(
                "tests.objects.fill",
                (box, R.prim_value(2), R.str("word"), y),
                out_sinfo=[R.Tensor((n,), "float32"), R.Tensor((2,), "int32")],
            )
            first = both[0]
            z = R.call_dps_packed(
                "tests.objects.twice", (box, first), out_sinfo=R.Tensor((n,), "float32")
            )
            w = R.multiply(z, z)
            count = both[1]
            return (w, count)

    x = np.arange(3, dtype="float32")
    for run in (
        lambda: relax.build(Module)["main"](x),
        lambda: relax.interpreter.run(Module, "main", x),
    ):
        found, count = run()
        np.testing.assert_array_equal(np.asarray(found), (2 * x * 3 * 2 * 2) ** 2)
        assert np.asarray(count).tolist() == [3, 3]
