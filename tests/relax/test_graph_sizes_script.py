"""Graphs whose kernels count in two dtypes, and sizes that a later parameter binds."""

import numpy as np
import pytest

from tilesmith import relax, script
from tilesmith.ir import assert_structural_equal
from tilesmith.relax import interpreter, transform
from tilesmith.relax.analysis import free_symbolic_vars, well_formed
from tilesmith.runtime.container import ShapeTuple
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError
from tilesmith.tir.transform.dtypes.widen_indices import widen_mixed_indices


@I.ir_module
class Mixed:
    @T.prim_func
    def window(A: T.Buffer((18,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + A[v + 2] * T.Cast("float32", v - 3)

    @R.function
    def main(x: R.Tensor((18,), "float32")):
        with R.dataflow():
            lv = R.call_tir(cls.window, (R.abs(x),), out_sinfo=R.Tensor((16,), "float32"))
            gv = R.nn.relu(lv)
            R.output(gv)
        return gv


def test_kernels_that_count_in_32_and_64_bits_are_fused():
    x = np.random.default_rng(1).standard_normal(18).astype("float32")
    y = np.abs(x)
    want = np.maximum(y[:16] + y[2:] * (np.arange(16, dtype="float32") - 3), 0)
    module = Mixed
    for name in ("LegalizeOps", "AnnotateTIROpPattern", "FuseOps", "FuseTIR"):
        module = getattr(transform, name)()(module)
        np.testing.assert_allclose(interpreter.run(module, "main", x), want, rtol=1e-6)
    fused = module["fused_abs_window_relu"].script()
    assert "in range(T.int64(16))" in fused and "in range(16)" not in fused
    executable = relax.build(Mixed, target="llvm")
    np.testing.assert_allclose(executable(x).numpy(), want, rtol=1e-6)


@T.prim_func
def before(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.where(i < 7)
            T.reads(A[v, (v + 1) % 6], B[v])
            T.writes(B[v])
            B[v] = T.Select(v < 4, v * 3, T.Cast("int32", A[v, (v + 1) % 6]))
            if B[v] * 65536 < v:
                B[v] = 0
    for j in range(T.int64(8)):
        with T.block("C"):
            w = T.axis.spatial(T.int64(8), j)
            T.reads(B[w])
            T.writes(C[w])
            C[w] = B[w]


@T.prim_func
def after(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(T.int64(8)):
        with T.block("B"):
            v = T.axis.spatial(T.int64(8), i)
            T.where(i < T.int64(7))
            T.reads(A[v, (v + T.int64(1)) % T.int64(6)], B[v])
            T.writes(B[v])
            B[v] = T.Select(
                v < T.int64(4),
                T.Cast("int32", v) * 3,
                T.Cast("int32", A[v, (v + T.int64(1)) % T.int64(6)]),
            )
            if T.Cast("int64", B[v] * 65536) < v:  # the product may wrap around
                B[v] = 0
    for j in range(T.int64(8)):
        with T.block("C"):
            w = T.axis.spatial(T.int64(8), j)
            T.reads(B[w])
            T.writes(C[w])
            C[w] = B[w]


def test_indices_of_32_bits_are_widened_and_values_kept():
    made = widen_mixed_indices(before)
    assert_structural_equal(made.with_attr("global_symbol", "after"), after)
    assert widen_mixed_indices(made) is made


@I.ir_module
class Later:
    @T.prim_func
    def neighbours(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n + T.int64(2),), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("B"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] + A[v + T.int64(2)]

    @R.function
    def main(x: R.Tensor(("n + 2",), "float32"), sizes: R.Shape(["n"])):
        n = T.int64()
        y = R.call_tir(cls.neighbours, (x,), out_sinfo=R.Tensor((n,), "float32"))
        return y


def test_sizes_that_a_later_parameter_binds():
    assert well_formed(Later)
    assert_structural_equal(script.from_source(Later.script()), Later)
    x = np.arange(9, dtype="float32")
    for result in (
        interpreter.run(Later, "main", x, (7,)),
        relax.build(Later, target="llvm")(x, (7,)).numpy(),
    ):
        np.testing.assert_array_equal(result, x[:7] + x[2:])
    with pytest.raises(Exception, match="n \\+ |9"):
        interpreter.run(Later, "main", x, (6,))


@I.ir_module
class Doubled:
    @R.function
    def main(x: R.Tensor((3, "n"), "float32")):
        y = R.flatten(x)
        return y


def test_sizes_written_in_another_way_are_printed():
    module = transform.LegalizeOps()(Doubled)
    assert_structural_equal(script.from_source(module.script()), module)


@I.ir_module
class Told:
    @R.function(private=True)
    def inner(x: R.Tensor((4,), "float32"), unused: R.Tensor((3,), "float32"), s: R.Shape(["n"])):
        n = T.int64()
        y = R.call_pure_packed("told", x, R.prim_value(n + 1), sinfo_args=R.Tensor((4,), "float32"))
        return y

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((3,), "float32"), s: R.Shape(["n"])):
        n = T.int64()
        z = cls.inner(x, y, R.shape([n]))
        return z


def test_sizes_that_only_calls_use_count_as_used():
    inner = Told["inner"]
    assert free_symbolic_vars(inner) == []
    assert [one.name for one in free_symbolic_vars(inner.with_fields(params=inner.params[:2]))] == [
        "n"
    ]
    made = transform.RemoveUnusedParameters()(Told)
    assert [param.name_hint for param in made["inner"].params] == ["x", "s"]
    assert well_formed(made)


@I.ir_module
class SizeBehindTensor:
    @R.function(private=True)
    def inner(x: R.Tensor(("c + 1", 2), "float32"), sizes: R.Shape(["c"])) -> R.Tensor(
        ("c", 2), "float32"
    ):
        c = T.int64()
        return R.strided_slice(x, [0], [0], [c])

    @R.function
    def main(x: R.Tensor(("n + 1", 2), "float32"), sizes: R.Shape(["n"])) -> R.Tensor(
        ("n", 2), "float32"
    ):
        n = T.int64()
        return cls.inner(R.negative(x), R.shape([n]))

    @R.function(pure=False)
    def printed(x: R.Tensor(("n + 1", 2), "float32"), sizes: R.Shape(["n"])) -> R.Tensor(
        ("n", 2), "float32"
    ):
        n = T.int64()
        R.print(x, format="{}")
        return cls.inner(x, R.shape([n]))


def test_a_called_function_gets_sizes_behind_the_tensors_that_use_them(capsys):
    x = np.arange(8, dtype="float32").reshape(4, 2)
    executable = relax.build(SizeBehindTensor, target="llvm")
    np.testing.assert_array_equal(interpreter.run(SizeBehindTensor, "main", x, (3,)), -x[:3])
    machine = relax.VirtualMachine(executable)
    np.testing.assert_array_equal(machine["main"](x, ShapeTuple([3])).numpy(), -x[:3])
    np.testing.assert_array_equal(machine["printed"](x, ShapeTuple([3])).numpy(), x[:3])
    assert capsys.readouterr().out
    for name in ("main", "printed"):
        with pytest.raises(ShapeError, match="size 5|expected 5"):
            machine[name](x, ShapeTuple([4]))
