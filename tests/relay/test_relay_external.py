"""External code generators: parts of a program compiled elsewhere, linked, saved and loaded."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relay
from tilesmith.codegen.c.source_module import PACKED_INTERFACE, packed_wrapper
from tilesmith.contrib import graph_executor
from tilesmith.ir import IRModule, register_op_attr
from tilesmith.relay import transform
from tilesmith.relay.backend.contrib.cblas import partition_for_cblas
from tilesmith.relay.backend.contrib.dnnl import partition_for_dnnl
from tilesmith.relay.backend.contrib.json_codegen import graph_of
from tilesmith.relay.op.contrib import get_pattern_table, register_pattern_table
from tilesmith.runtime import load_module, module_from_functions
from tilesmith.runtime.json_graph import json_module
from tilesmith.runtime.module import Module
from tilesmith.support.errors import (
    ArtifactError,
    CodegenError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

X, Y = relay.var("x", shape=(3, 5)), relay.var("y", shape=(5,))
SCALE = np.linspace(-1, 2, 3, dtype="float32").reshape(3, 1)
RANDOM = np.random.default_rng(0)
VALUES = {
    "x": RANDOM.standard_normal((3, 5)).astype("float32"),
    "y": RANDOM.standard_normal(5).astype("float32"),
}


def program():
    """Two parts with values between them, a constant, operands that are broadcast, two results."""
    total = relay.add(X, Y)
    scaled = relay.multiply(total, relay.const(SCALE))
    body = relay.Tuple([relay.subtract(relay.tanh(scaled), scaled), total])
    return IRModule.from_expr(relay.Function([X, Y], body))


def expected():
    total = VALUES["x"] + VALUES["y"]
    scaled = total * SCALE
    return np.tanh(scaled) - scaled, total


def partitioned(mod, compiler):
    for step in (
        transform.AnnotateTarget(compiler),
        transform.MergeCompilerRegions(),
        transform.PartitionGraph(),
    ):
        mod = step(mod)
    return mod


def run(lib, values=VALUES):
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    module.set_input(**values)
    module.run()
    return [module.get_output(n).numpy() for n in range(module.get_num_outputs())]


def check(lib):
    for found, wanted in zip(run(lib), expected(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


LOAD = """
import sys, numpy as np, tilesmith as ts
from tilesmith.contrib import graph_executor
lib = ts.runtime.load_module(sys.argv[1])
module = graph_executor.GraphModule(lib["default"](ts.cpu()))
module.set_input(x=np.ones((3, 5), "float32"), y=np.ones(5, "float32"))
module.run()
print(module.get_output(0).numpy().sum(), module.get_output(1).numpy().sum())
"""


@pytest.mark.parametrize(("compiler", "suffix"), [("ccompiler", "so"), ("examplejson", "tsm")])
def test_parts_are_compiled_saved_and_loaded(compiler, suffix, tmp_path):
    mod = partitioned(program(), compiler)
    assert len(mod.functions) == 3
    lib = relay.build(mod, "llvm")
    check(lib)
    assert len(lib.get_lib().imported_modules) == 2
    path = str(tmp_path / f"model.{suffix}")
    lib.export_library(path)
    check(load_module(path))
    done = subprocess.run(
        [sys.executable, "-c", LOAD, path], capture_output=True, text=True, check=True
    )
    scaled = np.full((3, 5), 2.0) * SCALE
    wanted = [(np.tanh(scaled) - scaled).sum(), 30.0]
    np.testing.assert_allclose([float(one) for one in done.stdout.split()], wanted, rtol=1e-4)


def test_the_same_program_gives_the_same_artifact(tmp_path):
    contents = []
    for name in "ab":
        relay.build(partitioned(program(), "examplejson"), "llvm").export_library(
            str(tmp_path / f"{name}.tsm")
        )
        contents.append(ts.runtime.artifact.read_artifact(str(tmp_path / f"{name}.tsm")).metadata)
    assert contents[0]["external"] == contents[1]["external"]
    assert contents[0]["functions"] == contents[1]["functions"]


def test_generated_code_can_be_seen():
    lib = relay.build(partitioned(program(), "ccompiler"), "llvm")
    first = lib.get_lib().imported_modules[0]
    assert first.type_key == "c"
    assert "__tvm_ffi_tvmgen_default_ccompiler_main_0" in first.get_source()


@pytest.fixture
def external():
    """Registers a code generator of Python functions as ``relay.ext.external_test``."""
    names = []

    def register(generate, name="external_test"):
        names.append(f"relay.ext.{name}")
        ts.register_func(names[-1], generate, override=True)

    register_op_attr("tanh", "target.external_test", lambda call: True)
    yield register
    for name in names:
        ts.runtime.registry.remove_global_func(name)


def tanh_module(function):
    symbol = function.attrs["global_symbol"]
    return module_from_functions({symbol: lambda x, out: out.copyfrom(np.tanh(x.numpy()))})


def test_functions_of_python_run_but_are_not_saved(external, tmp_path):
    external(tanh_module)
    lib = relay.build(partitioned(program(), "external_test"), "llvm")
    check(lib)
    with pytest.raises(UnsupportedError, match="cannot be saved"):
        lib.export_library(str(tmp_path / "model.so"))


def test_a_module_that_is_its_own_kind_is_saved(external, tmp_path):
    def module(symbol):
        functions = tanh_module(relay.Function([X], X, attrs={"global_symbol": symbol}))
        packed = {symbol: functions[symbol]}
        return Module("tanhs", functions=packed, saved=symbol.encode())

    external(lambda function: module(function.attrs["global_symbol"]))
    lib = relay.build(partitioned(program(), "external_test"), "llvm")
    path = str(tmp_path / "model.tsm")
    lib.export_library(path)
    with pytest.raises(ArtifactError, match="kind 'tanhs', which nothing here can read"):
        load_module(path)
    name = "runtime.module.loadbinary_tanhs"
    ts.register_func(name, lambda content: module(content.decode()))
    try:
        check(load_module(path))
    finally:
        ts.runtime.registry.remove_global_func(name)


def test_functions_that_are_written_where_they_are_called(external):
    external(tanh_module)
    attrs = {"Compiler": "external_test", "global_symbol": "written_here"}
    inner = relay.Function([Y], relay.tanh(Y), attrs=attrs)
    mod = IRModule.from_expr(relay.Function([Y], relay.exp(inner(Y))))
    (found,) = run(relay.build(mod, "llvm"), {"y": VALUES["y"]})
    np.testing.assert_allclose(found, np.exp(np.tanh(VALUES["y"])), rtol=1e-5)


def test_functions_that_were_compiled_before():
    attrs = {"Compiler": "external_test", "global_symbol": "test.doubled"}
    mod = IRModule.from_expr(relay.Function([Y], relay.Function([Y], Y + Y, attrs=attrs)(Y)))
    mod = transform.OutlineCompilerFunctionsWithExistingGlobalSymbols("external_test")(mod)
    lib = relay.build(transform.MarkCompilerFunctionsAsExtern("external_test")(mod), "llvm")
    ts.register_func("test.doubled", lambda y, out: out.copyfrom(y.numpy() * 2), override=True)
    np.testing.assert_allclose(run(lib, {"y": VALUES["y"]})[0], VALUES["y"] * 2)


def test_constants_that_the_code_generator_keeps_beside_its_code(external, tmp_path):
    state = {}

    def generate(function):
        symbol = function.attrs["global_symbol"]
        return module_from_functions(
            {
                symbol: lambda x, out: out.copyfrom(np.tanh(x.numpy()) + state["b"]),
                "__init_" + symbol: lambda values: state.update(b=values[0].numpy()),
                "get_const_vars": lambda: ["second"],
            }
        )

    external(generate)
    external(
        lambda function, symbol: {"first": ts.nd.array(SCALE), "second": ts.nd.array(SCALE + 1)},
        "external_test.constant_updater",
    )
    lib = relay.build(partitioned(IRModule.from_expr(relay.Function([X], relay.tanh(X))),
                                  "external_test"), "llvm")  # fmt: skip
    (found,) = run(lib, {"x": VALUES["x"]})
    np.testing.assert_allclose(found, np.tanh(VALUES["x"]) + SCALE + 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("generate", "error", "message"),
    [
        (None, UnknownNameError, "no code generator for functions of the compiler 'external_test'"),
        (lambda function: 3, TypeMismatchError, "gave int, not a module"),
    ],
)
def test_what_is_no_code_generator_is_refused(external, generate, error, message):
    if generate is not None:
        external(generate)
    with pytest.raises(error, match=message):
        relay.build(partitioned(program(), "external_test"), "llvm")


def test_results_of_unknown_size_are_refused(external):
    external(tanh_module)
    x = relay.var("x", shape=(relay.Any(), 5))
    mod = partitioned(IRModule.from_expr(relay.Function([x], relay.tanh(x))), "external_test")
    with pytest.raises(UnsupportedError, match="no Any in their types"):
        relay.build(mod, "llvm")


def test_tuples_are_handed_over_field_by_field(external):
    register_op_attr("concatenate", "target.external_test", lambda call: True)

    def generate(function):
        def joined(*tensors):
            tensors[-1].copyfrom(np.concatenate([one.numpy() for one in tensors[:-1]]))

        return module_from_functions({function.attrs["global_symbol"]: joined})

    external(generate)
    pair = relay.var("pair", relay.TupleType([Y.checked_type] * 2))
    body = relay.exp(relay.concatenate(pair, 0))
    mod = partitioned(IRModule.from_expr(relay.Function([pair], body)), "external_test")
    y = VALUES["y"]
    for target, executor in (("llvm", "graph"), ("c", "aot")):
        lib = relay.build(mod, target, executor=relay.backend.Executor(executor)).get_lib()
        np.testing.assert_allclose(lib((y, -y)).numpy(), np.exp([*y, *-y]), rtol=1e-5)


# C sources

SOURCE = f"""#include <stdint.h>
{PACKED_INTERFACE}
static int twice_(float* x, float* out) {{
  for (int i = 0; i < 5; ++i) out[i] = x[i] * 2;
  return 0;
}}
{packed_wrapper("twice", "twice_", ["float", "float"])}"""


def test_modules_of_c_source():
    create = ts.get_global_func("runtime.CSourceModuleCreate")
    module = create(SOURCE, "c", ["twice"], [])
    out = ts.nd.empty((5,), "float32")
    module["twice"](ts.nd.array(VALUES["y"]), out)
    np.testing.assert_allclose(out.numpy(), VALUES["y"] * 2)
    with pytest.raises(TypeMismatchError, match="expected 2 tensors"):
        module["twice"](out)
    with pytest.raises(CodegenError, match="the C compiler refused"):
        create("int 3;", "c", [], [])
    with pytest.raises(UnsupportedError, match="written in 'c'"):
        create(SOURCE, "cu", ["twice"], [])


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_c_of_other_dtypes_and_odd_shapes(dtype):
    shapes = [(2, 1, 3), (4, 1), (1,)]
    params = [relay.var(f"p{n}", shape=shape, dtype=dtype) for n, shape in enumerate(shapes)]
    body = (params[0] - params[1]) * params[2]
    mod = partitioned(IRModule.from_expr(relay.Function(params, body)), "ccompiler")
    values = [RANDOM.integers(-9, 9, shape).astype(dtype) for shape in shapes]
    found = run(relay.build(mod, "llvm"), {f"p{n}": one for n, one in enumerate(values)})
    np.testing.assert_array_equal(found[0], (values[0] - values[1]) * values[2])


# Libraries


def test_products_by_a_blas_library():
    x, w, b = (relay.var(n, shape=s) for n, s in (("x", (3, 5)), ("w", (7, 5)), ("b", (7,))))
    dense = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w), b))
    batch = relay.nn.batch_matmul(relay.expand_dims(dense, 0), relay.expand_dims(dense, 0))
    params = {
        "w": RANDOM.standard_normal((7, 5)).astype("float32"),
        "b": RANDOM.standard_normal(7).astype("float32"),
    }
    mod = partition_for_cblas(IRModule.from_expr(relay.Function([x, w, b], batch)), params)
    assert [one.attrs["Compiler"] for one in mod.functions.values() if "Compiler" in one.attrs] == [
        "cblas", "cblas",
    ]  # fmt: skip
    (found,) = run(relay.build(mod, "llvm"), {"x": VALUES["x"]})
    wanted = np.maximum(VALUES["x"] @ params["w"].T + params["b"], 0)
    np.testing.assert_allclose(found[0], wanted @ wanted.T, rtol=1e-4, atol=1e-4)


def convolution():
    x, w, b = (
        relay.var(n, shape=s) for n, s in (("x", (1, 3, 8, 8)), ("w", (4, 3, 3, 3)), ("b", (4,)))
    )
    conv = relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=4, padding=(1, 1))
    return IRModule.from_expr(relay.Function([x, w, b], relay.nn.relu(relay.nn.bias_add(conv, b))))


def test_convolutions_for_onednn():
    mod = partition_for_dnnl(convolution(), mod_name="m")
    text, _ = graph_of(mod["tvmgen_m_dnnl_main_0"], "dnnl")
    (kernel,) = [node for node in json.loads(text)["nodes"] if node["op"] == "kernel"]
    assert kernel["name"] == "dnnl.conv2d_bias_relu"
    assert [node["name"] for node in kernel["graph"]["nodes"] if node["op"] == "kernel"] == [
        "nn.conv2d", "nn.bias_add", "nn.relu",
    ]  # fmt: skip


def test_convolutions_by_onednn(monkeypatch):
    """The graph calls oneDNN with the attributes of the program; numpy stands in for the library,
    which may be missing here (`tests/contrib` calls the real one).
    """
    from tilesmith.runtime.libraries import dnnl

    def conv2d(src, weights, dst, top, left, bottom, right, *rest):
        assert rest == (1, 1, 1, 1, 1, False)
        padded = np.pad(src.numpy(), ((0, 0), (0, 0), (top, bottom), (left, right)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        dst.copyfrom(np.einsum("nchwij,ocij->nohw", windows, weights.numpy()))

    monkeypatch.setattr(dnnl, "conv2d", conv2d)
    params = {
        "w": RANDOM.standard_normal((4, 3, 3, 3)).astype("float32"),
        "b": RANDOM.standard_normal(4).astype("float32"),
    }
    values = {"x": RANDOM.standard_normal((1, 3, 8, 8)).astype("float32")}
    plain = relay.build(convolution(), "llvm", params=params)
    lib = relay.build(partition_for_dnnl(convolution(), params), "llvm")
    np.testing.assert_allclose(run(lib, values)[0], run(plain, values)[0], rtol=1e-4, atol=1e-4)


def test_tables_of_patterns():
    assert [row[0] for row in get_pattern_table("dnnl")][:2] == [
        "dnnl.conv2d_bias_relu", "dnnl.conv2d_relu",
    ]  # fmt: skip
    assert get_pattern_table("no_such_compiler") is None
    register_pattern_table("external_test", [("external_test.x", relay.dataflow_pattern.is_var())])
    assert len(get_pattern_table("external_test")) == 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"library": "nothing", "nodes": [{"op": "kernel", "name": "add"}]},
            UnsupportedError,
            "library 'nothing', which is not known",
        ),
        ({"nodes": [{"op": "kernel", "name": "nn.x"}]}, UnsupportedError, "has no 'nn.x'"),
        ({"nodes": [{"op": "what"}]}, ArtifactError, "unknown kind of node"),
        ({"heads": 3}, ArtifactError, "no graph in JSON"),
    ],
)
def test_graphs_that_cannot_be_run_are_refused(change, error, message):
    graph = {"symbol": "f", "library": "cblas", "nodes": [], "arg_nodes": [], "heads": []}
    with pytest.raises(error, match=message):
        json_module(json.dumps({**graph, **change}))


@pytest.mark.parametrize("dtype", ["float32", "bool", "int8"])
def test_external_functions_work_on_the_memory_of_the_program(dtype):
    seen = []

    @ts.register_func("relay.ext.views", override=True)
    def generate(function):
        def twice(x, out):
            seen.append((x.data_ptr(), x.shape, str(x.dtype)))
            out.copyfrom(np.logical_not(x.numpy()).astype(dtype))

        return module_from_functions({str(function.attrs["global_symbol"]): twice})

    inner = relay.var("p", shape=(3, 4), dtype=dtype)
    attrs = {"Primitive": 1, "Compiler": "views", "global_symbol": "views_0"}
    part = relay.Function([inner], relay.logical_not(inner), attrs=attrs)
    if dtype != "bool":
        part = relay.Function([inner], relay.negative(inner), attrs=attrs)
    x = relay.var("x", shape=(3, 4), dtype=dtype)
    mod = IRModule.from_expr(relay.Function([x], part(x)))
    given = ts.nd.array(RANDOM.integers(0, 2, (3, 4)).astype(dtype))
    found = relay.build(mod, "llvm").get_lib()["main"](given)
    assert seen == [(given.data_ptr(), (3, 4), dtype)]
    np.testing.assert_array_equal(found.numpy(), np.logical_not(given.numpy()).astype(dtype))
