"""relax.ext.cblas and relax.ext.dnnl: parts of graphs that libraries compute."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.ir import structural_equal
from tilesmith.relax import op
from tilesmith.relax.backend import get_patterns_with_prefix
from tilesmith.relax.backend.contrib import cblas, dnnl
from tilesmith.relax.backend.contrib.cblas import partition_for_cblas
from tilesmith.relax.transform import FuseOpsByPattern, MergeCompositeFunctions, RunCodegen
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import MissingDependencyError, UnsupportedError
from tilesmith.support.fallbacks import collect_fallbacks

rng = np.random.default_rng(0)


def values(*shape, dtype="float32"):
    return rng.standard_normal(shape).astype(dtype)


@I.ir_module
class Layer:
    @R.function
    def main(
        x: R.Tensor((3, 5), "float32"), w: R.Tensor((7, 5), "float32"), b: R.Tensor((7,), "float32")
    ) -> R.Tensor((3, 7), "float32"):
        with R.dataflow():
            t = R.permute_dims(w)
            y = R.matmul(x, t)
            z = R.add(y, b)
            r = R.nn.relu(z)
            out = R.tanh(r)
            R.output(out)
        return out


@I.ir_module
class Partitioned:
    @R.function
    def fused_relax_permute_dims_relax_matmul_relax_add_relax_nn_relu_cblas(
        w: R.Tensor((7, 5), "float32"), x: R.Tensor((3, 5), "float32"), b: R.Tensor((7,), "float32")
    ) -> R.Tensor((3, 7), "float32"):
        R.func_attr({"Codegen": "cblas"})

        @R.function
        def local_func(
            w_1: R.Tensor((7, 5), "float32"),
            x_1: R.Tensor((3, 5), "float32"),
            b_1: R.Tensor((7,), "float32"),
        ) -> R.Tensor((3, 7), "float32"):
            R.func_attr({"Composite": "cblas.matmul_transposed_bias_relu"})
            with R.dataflow():
                t = R.permute_dims(w_1)
                y = R.matmul(x_1, t)
                z = R.add(y, b_1)
                r = R.nn.relu(z)
                R.output(r)
            return r

        output: R.Tensor((3, 7), "float32") = local_func(w, x, b)
        return output

    @R.function
    def main(
        x: R.Tensor((3, 5), "float32"), w: R.Tensor((7, 5), "float32"), b: R.Tensor((7,), "float32")
    ) -> R.Tensor((3, 7), "float32"):
        with R.dataflow():
            r = Partitioned.fused_relax_permute_dims_relax_matmul_relax_add_relax_nn_relu_cblas(
                w, x, b
            )
            out = R.tanh(r)
            R.output(out)
        return out


def test_the_structure_of_partitions():
    made = partition_for_cblas(Layer)
    assert structural_equal(made, Partitioned, True), made.script()
    relax.analysis.assert_well_formed(made)


def model(make, *shapes, dtype="float32"):
    builder = relax.BlockBuilder()
    params = [relax.Var(f"p{k}", R.Tensor(one, dtype)) for k, one in enumerate(shapes)]
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(make(*params))
        builder.emit_func_output(result)
    return builder.get()


def composites(mod):
    """Return the names of the parts that a partitioned module has, in order."""
    from tilesmith.ir.queries import nodes

    found = [one for function in mod.functions.values() for one in nodes(function, relax.Function)]
    return sorted([str(one.attrs["Composite"]) for one in found if "Composite" in one.attrs])


def turned(w):
    return op.permute_dims(w, [*range(w.struct_info.ndim - 2), -1, -2])


# name: (graph, shapes, dtype, parts)
CASES = {
    "plain": (op.matmul, [(1, 3), (3, 1)], "float32", ["matmul"]),
    "double": (
        lambda x, w, b: op.nn.gelu(op.matmul(x, w) + b), [(3, 5), (5, 7), (3, 1)], "float64",
        ["matmul_bias_gelu"],
    ),
    "gelu": (
        lambda x, w, b: op.nn.gelu(op.multiply(op.matmul(x, turned(w)) + b, relax.const(4.0))),
        [(3, 5), (7, 5), (7,)], "float32", ["matmul_transposed_bias"],
    ),
    "rows": (
        lambda x, w, b: op.nn.relu(op.matmul(x, turned(w)) + b), [(2, 3, 5), (7, 5), (7,)],
        "float32", ["matmul_transposed_bias_relu"],
    ),
    "batch": (
        lambda x, w: op.matmul(x, turned(w)), [(2, 3, 5), (2, 7, 5)], "float32",
        ["matmul_transposed"],
    ),
    "other axes": (
        lambda x, w: op.matmul(x, op.permute_dims(w, [1, 2, 0])), [(2, 3, 5), (7, 2, 5)],
        "float32", ["matmul"],
    ),
    "two": (
        lambda x, w, v: op.matmul(op.nn.relu(op.matmul(x, w)), v), [(3, 5), (5, 7), (7, 2)],
        "float32", ["matmul", "matmul"],
    ),
    "broadcast batch": (op.matmul, [(2, 3, 5), (1, 5, 7)], "float32", []),
    "vector": (op.matmul, [(5,), (5, 7)], "float32", []),
    "half": (op.matmul, [(3, 5), (5, 7)], "float16", []),
    "bias that widens": (
        lambda x, w, b: op.matmul(x, w) + b, [(1, 5), (5, 7), (3, 7)], "float32", ["matmul"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_parts_by_a_blas_library(name):
    make, shapes, dtype, parts = CASES[name]
    mod = model(make, *shapes, dtype=dtype)
    made = partition_for_cblas(mod)
    assert composites(made) == [f"cblas.{part}" for part in parts]
    arrays = [values(*one, dtype=dtype) for one in shapes]
    want = relax.interpreter.run(mod, "main", *arrays)
    found = relax.build(RunCodegen()(made), "llvm")(*arrays).numpy()
    exact = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10}[dtype]
    np.testing.assert_allclose(found, want, rtol=exact, atol=exact)


def test_sizes_that_are_not_known_stay_here():
    from tilesmith.tir import Var

    n = Var("n", "int64")
    mod = model(op.matmul, (n, 5), (5, 7))
    with collect_fallbacks() as report:
        assert not composites(partition_for_cblas(mod))
    assert "the check of the pattern refused" in [one.reason for one, _ in report.rows()]


LOAD = """
import sys, numpy as np, tilesmith as ts
model = ts.runtime.load_module(sys.argv[1])
print(model(ts.nd.array(np.ones((3, 5), "float32"))).numpy().sum())
assert not [name for name in sys.modules if name.startswith("tilesmith.relax")]
"""


@pytest.mark.parametrize("suffix", ["tsm", "so"])
@pytest.mark.parametrize("bind_constants", [False, True])
def test_parts_are_saved_and_run_in_a_fresh_process(bind_constants, suffix, tmp_path):
    w, b = values(7, 5), values(7)
    layer = lambda x: op.nn.relu(op.matmul(x, turned(relax.const(w))) + relax.const(b))
    made = RunCodegen()(partition_for_cblas(model(layer, (3, 5)), bind_constants))
    path = str(tmp_path / f"model.{suffix}")
    relax.build(made, "llvm").export_library(path)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, path], capture_output=True, text=True, check=True
    )
    want = 3 * np.maximum(w.sum(1) + b, 0).sum()
    np.testing.assert_allclose(float(done.stdout), want, rtol=1e-4)


def test_merged_parts():
    make = CASES["two"][0]
    mod = model(lambda x, w, v, b: make(x, w, v) + b, (3, 5), (5, 7), (7, 2), (2,))
    mod = FuseOpsByPattern(get_patterns_with_prefix("cblas."))(mod)
    mod = RunCodegen()(MergeCompositeFunctions()(mod))
    x, w, v, b = values(3, 5), values(5, 7), values(7, 2), values(2)
    found = relax.build(mod, "llvm")(x, w, v, b).numpy()
    np.testing.assert_allclose(found, np.maximum(x @ w, 0) @ v + b, rtol=1e-4, atol=1e-4)


def missing():
    raise MissingDependencyError("scipy-openblas64", purpose="calling a BLAS library")


def test_without_a_blas_library_the_module_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(cblas, "find_openblas", missing)
    with collect_fallbacks() as report:
        assert partition_for_cblas(Layer) is Layer
    assert [(one.kind, one.place) for one, _ in report.rows()] == [
        ("library", "partition_for_cblas")
    ]


def test_operators_that_no_library_graph_has_are_refused():
    from tilesmith.relax.dpl import is_op, wildcard

    patterns = [("cblas.sine", is_op("relax.sin")(wildcard()))]
    mod = FuseOpsByPattern(patterns, annotate_codegen=True)(model(op.sin, (3,)))
    with pytest.raises(UnsupportedError, match="calls relax.sin, which graphs for libraries"):
        RunCodegen()(mod)


def convolution(layout="NCHW"):
    kernel = {"NCHW": "OIHW", "NHWC": "HWIO"}[layout]

    def make(x, w, b):
        found = op.nn.conv2d(x, w, 2, 1, data_layout=layout, kernel_layout=kernel)
        return op.nn.relu(op.add(found, b))

    shapes = {
        "NCHW": [(2, 3, 7, 5), (4, 3, 3, 3), (4, 1, 1)],
        "NHWC": [(2, 7, 5, 3), (3, 3, 3, 4), (4,)],
    }
    return model(make, *shapes[layout]), [values(*one) for one in shapes[layout]]


def has_onednn():
    try:
        dnnl.find_dnnl()
    except MissingDependencyError:
        return False
    return True


@pytest.mark.skipif(has_onednn(), reason="oneDNN is here")
def test_without_onednn_the_error_names_the_package():
    with pytest.raises(MissingDependencyError, match="pip install onednn-cpu-gomp"):
        dnnl.partition_for_dnnl(convolution()[0])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_convolutions_for_onednn(layout, monkeypatch):
    """Where oneDNN is missing, numpy stands in for it (`tests/contrib` calls the real one)."""
    if not has_onednn():
        from tilesmith.runtime.libraries import dnnl as calls

        def conv2d(src, weights, dst, *window):
            assert window == (1, 1, 1, 1, 2, 2, 1, 1, 1, layout == "NHWC")
            mod = model(
                lambda x, w: op.nn.conv2d(
                    x,
                    w,
                    2,
                    1,
                    data_layout=layout,
                    kernel_layout="OIHW" if layout == "NCHW" else "HWIO",
                ),
                src.shape,
                weights.shape,
            )
            dst.copyfrom(relax.interpreter.run(mod, "main", src.numpy(), weights.numpy()))

        monkeypatch.setattr(calls, "conv2d", conv2d)
        monkeypatch.setattr(dnnl, "find_dnnl", lambda: None)
        dnnl.register_library_codegen("dnnl", lambda: None)
    mod, arrays = convolution(layout)
    try:
        made = dnnl.partition_for_dnnl(mod)
        assert composites(made) == ["dnnl.conv2d_bias_relu"]
        found = relax.build(RunCodegen()(made), "llvm")(*arrays).numpy()
    finally:
        monkeypatch.undo()
        dnnl.register_library_codegen("dnnl", dnnl.find_dnnl)
    want = relax.interpreter.run(mod, "main", *arrays)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
