"""Passes that order matrix products: what they write, and that results stay."""

import numpy as np
import pytest

from tilesmith.ir import structural_equal
from tilesmith.relax import analysis, interpreter, transform
from tilesmith.script import ir as I
from tilesmith.script import relax as R

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def assert_equal(got, wanted):
    assert structural_equal(got, wanted, True), f"{got.script()}\n\nwanted\n\n{wanted.script()}"


def same_meaning(before, after, *arrays):
    analysis.assert_well_formed(after)
    want = interpreter.run(before, "main", *arrays)
    got = interpreter.run(after, "main", *arrays)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@I.ir_module
class LeftFirst:
    @R.function
    def main(
        a: R.Tensor((16, 2), "float32"),
        b: R.Tensor((2, 16), "float32"),
        x: R.Tensor((16, 1), "float32"),
    ) -> R.Tensor((16, 1), "float32"):
        with R.dataflow():
            w = R.matmul(a, b)
            gv = R.matmul(w, x)
            R.output(gv)
        return gv


@I.ir_module
class RightFirst:
    @R.function
    def main(
        a: R.Tensor((16, 2), "float32"),
        b: R.Tensor((2, 16), "float32"),
        x: R.Tensor((16, 1), "float32"),
    ) -> R.Tensor((16, 1), "float32"):
        with R.dataflow():
            w = R.matmul(b, x)
            gv = R.matmul(a, w)
            R.output(gv)
        return gv


def test_the_cheaper_order_of_static_sizes():
    changed = transform.AdjustMatmulOrder()(LeftFirst)
    assert_equal(changed, RightFirst)
    assert_equal(transform.AdjustMatmulOrder()(RightFirst), RightFirst)
    same_meaning(LeftFirst, changed, f32(16, 2), f32(2, 16), f32(16, 1))


@I.ir_module
class Lora:
    @R.function
    def main(
        x: R.Tensor(("batch", 1, 16), "float32"),
        a: R.Tensor(("r", 16), "float32"),
        b: R.Tensor((12, "r"), "float32"),
    ) -> R.Tensor(("batch", 1, 12), "float32"):
        R.func_attr({"tir_var_upper_bound": {"r": 4, "batch": 1}})
        with R.dataflow():
            w = R.matmul(b, a)
            t = R.permute_dims(w)
            gv = R.matmul(x, t)
            R.output(gv)
        return gv


@I.ir_module
class LoraOrdered:
    @R.function
    def main(
        x: R.Tensor(("batch", 1, 16), "float32"),
        a: R.Tensor(("r", 16), "float32"),
        b: R.Tensor((12, "r"), "float32"),
    ) -> R.Tensor(("batch", 1, 12), "float32"):
        R.func_attr({"tir_var_upper_bound": {"r": 4, "batch": 1}})
        with R.dataflow():
            ta = R.permute_dims(a)
            tb = R.permute_dims(b)
            w = R.matmul(x, ta)
            gv = R.matmul(w, tb)
            R.output(gv)
        return gv


def test_symbolic_sizes_with_bounds_and_a_transposition_between():
    changed = transform.AdjustMatmulOrder()(Lora)
    assert_equal(changed, LoraOrdered)
    same_meaning(Lora, changed, f32(1, 1, 16), f32(3, 16), f32(12, 3))


def test_unknown_sizes_stay_in_order():
    unbounded = Lora.clone()
    unbounded["main"] = unbounded["main"].without_attr("tir_var_upper_bound")
    assert transform.AdjustMatmulOrder()(unbounded)["main"] is unbounded["main"]


def test_weights_stay_together():
    module = RightFirst.clone()
    function = module["main"]
    params = [function.params[2], *function.params[:2]]
    module["main"] = function.with_fields(params=params).with_attr("num_input", 1)
    changed = transform.AdjustMatmulOrder()(module)
    first = analysis.bindings_of(changed["main"])[0].value
    assert [arg.name_hint for arg in first.args] == ["a", "b"]
    same_meaning(module, changed, f32(16, 1), f32(16, 2), f32(2, 16))


@I.ir_module
class ProductOfSum:
    @R.function
    def main(
        x: R.Tensor((2, 4), "float32"),
        w: R.Tensor((3, 4), "float32"),
        d: R.Tensor((3, 4), "float32"),
    ) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            s = R.add(w, d)
            t = R.permute_dims(s)
            gv = R.matmul(x, t)
            R.output(gv)
        return gv


@I.ir_module
class SumOfProducts:
    @R.function
    def main(
        x: R.Tensor((2, 4), "float32"),
        w: R.Tensor((3, 4), "float32"),
        d: R.Tensor((3, 4), "float32"),
    ) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            wt = R.permute_dims(w)
            dt = R.permute_dims(d)
            p = R.matmul(x, wt)
            q = R.matmul(x, dt)
            gv = R.add(p, q)
            R.output(gv)
        return gv


def test_both_summands_of_a_matrix():
    changed = transform.ExpandMatmulOfSum()(ProductOfSum)
    assert_equal(changed, SumOfProducts)
    same_meaning(ProductOfSum, changed, f32(2, 4), f32(3, 4), f32(3, 4))
    known = ProductOfSum.clone()
    known["main"] = known["main"].with_attr("num_input", 1)
    assert transform.ExpandMatmulOfSum()(known)["main"] is known["main"]


@I.ir_module
class ManyPermutations:
    @R.function
    def main(a: R.Tensor((3, 2, 4), "float32"), b: R.Tensor((5, 2, 4), "float32")) -> R.Tensor(
        (4, 8, 2), "float32"
    ):
        with R.dataflow():
            s = R.permute_dims(a, axes=[2, 0, 1])
            t = R.permute_dims(b, axes=[2, 0, 1])
            gv = R.concat((s, t), axis=1)
            R.output(gv)
        return gv


@I.ir_module
class OnePermutation:
    @R.function
    def main(a: R.Tensor((3, 2, 4), "float32"), b: R.Tensor((5, 2, 4), "float32")) -> R.Tensor(
        (4, 8, 2), "float32"
    ):
        with R.dataflow():
            s = R.concat((a, b), axis=0)
            gv = R.permute_dims(s, axes=[2, 0, 1])
            R.output(gv)
        return gv


def test_one_permutation_after_the_concatenation():
    changed = transform.ReorderPermuteDimsAfterConcat()(ManyPermutations)
    assert_equal(changed, OnePermutation)
    same_meaning(ManyPermutations, changed, f32(3, 2, 4), f32(5, 2, 4))


@I.ir_module
class TakenColumns:
    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 8), "float32"), i: R.Tensor((5,), "int64")
    ) -> R.Tensor((2, 5), "float32"):
        with R.dataflow():
            t = R.take(w, i, axis=1)
            gv = R.matmul(x, t)
            R.output(gv)
        return gv


@I.ir_module
class ColumnsOfProduct:
    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 8), "float32"), i: R.Tensor((5,), "int64")
    ) -> R.Tensor((2, 5), "float32"):
        with R.dataflow():
            t = R.matmul(x, w)
            gv = R.take(t, i, axis=1)
            R.output(gv)
        return gv


def test_columns_are_taken_of_the_product():
    changed = transform.ReorderTakeAfterMatmul()(TakenColumns)
    assert_equal(changed, ColumnsOfProduct)
    same_meaning(TakenColumns, changed, f32(2, 3), f32(3, 8), np.array([7, 0, 3, -1, 3]))


@I.ir_module
class TakenMatrices:
    @R.function
    def main(
        x: R.Tensor(("batch", 2, 3), "float32"),
        w: R.Tensor((4, 3, 5), "float32"),
        i: R.Tensor(("batch",), "int64"),
    ) -> R.Tensor(("batch", 2, 5), "float32"):
        with R.dataflow():
            t = R.take(w, i, axis=0)
            gv = R.matmul(x, t)
            R.output(gv)
        return gv


def test_each_item_of_a_batch_takes_its_matrix():
    changed = transform.ReorderTakeAfterMatmul()(TakenMatrices)
    kinds = [b.value.op.name for b in analysis.bindings_of(changed["main"])]
    assert kinds[:3] == ["relax.permute_dims", "relax.reshape", "relax.matmul"]
    assert kinds[-1] == "relax.take" and "relax.take" not in kinds[:-1]
    same_meaning(TakenMatrices, changed, f32(3, 2, 3), f32(4, 3, 5), np.array([3, 0, -1]))


@pytest.mark.parametrize("shape", [(2, 4), (2, 3, 4)])
def test_products_with_transposed_matrices_are_one_kernel(shape):
    last = (3, 4) if len(shape) == 2 else (2, 5, 4)
    axes = [1, 0] if len(shape) == 2 else [0, 2, 1]

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(shape, "float32"), w: R.Tensor(last, "float32")):
            with R.dataflow():
                t = R.permute_dims(w, axes)
                gv = R.matmul(x, t)
                R.output(gv)
            return gv

    changed = transform.FuseTransposeMatmul()(Module)
    (binding,) = analysis.bindings_of(changed["main"])
    assert binding.value.args[0].name_hint == "NT_matmul"
    same_meaning(Module, changed, f32(*shape), f32(*last))
