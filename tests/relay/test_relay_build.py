"""relay.build and its executors: whole programs against torch and against the relax door."""

import json
import subprocess
import sys

import numpy
import pytest
import torch
import torch.nn.functional as F

import tilesmith as ts
from tilesmith import relax, relay
from tilesmith.contrib import graph_executor
from tilesmith.driver.relax_build import graph_pipeline
from tilesmith.ir.queries import nodes
from tilesmith.relay.backend import Executor, Runtime
from tilesmith.relay.translate import to_relax
from tilesmith.support.errors import (
    ConfigError,
    OpAttributeInvalid,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.target import Target

RANDOM = numpy.random.default_rng(1)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


IMAGE = floats(1, 3, 10, 9)
PARAMS = {
    "w": floats(4, 3, 3, 3), "b": floats(4), "gamma": floats(4), "beta": floats(4),
    "mean": floats(4), "var": abs(floats(4)) + 0.5, "dense": floats(5, 80),
}  # fmt: skip


def network(typed=True):
    """A small network; without types, those of the weights follow from the operators."""
    x = relay.var("x", shape=IMAGE.shape)
    given = {
        name: relay.var(name, shape=value.shape) if typed else relay.var(name)
        for name, value in PARAMS.items()
    }
    y = relay.nn.conv2d(x, given["w"], channels=4, kernel_size=(3, 3), padding=(1, 1))
    y = relay.nn.bias_add(y, given["b"])
    y = relay.nn.batch_norm(y, *[given[name] for name in ("gamma", "beta", "mean", "var")])[0]
    y = relay.nn.max_pool2d(relay.nn.relu(y), pool_size=(2, 2), strides=(2, 2))
    y = relay.nn.dense(relay.nn.batch_flatten(y), given["dense"], units=5)
    return relay.Function([x, *given.values()], relay.nn.softmax(y))


def reference():
    values = {name: torch.from_numpy(value) for name, value in PARAMS.items()}
    y = F.conv2d(torch.from_numpy(IMAGE), values["w"], values["b"], padding=1)
    y = F.batch_norm(y, values["mean"], values["var"], values["gamma"], values["beta"])
    y = F.max_pool2d(F.relu(y), 2, 2).flatten(1)
    return F.softmax(y @ values["dense"].T, -1).numpy()


def run(module, **inputs):
    module.set_input(**inputs)
    module.run()
    return module.get_output(0).numpy()


@pytest.fixture(scope="module")
def lib():
    return relay.build(ts.IRModule.from_expr(network()), target="llvm", params=PARAMS)


def test_a_network_with_constant_parameters(lib):
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    numpy.testing.assert_allclose(run(module, x=IMAGE), reference(), rtol=1e-4, atol=1e-5)
    assert module.get_num_inputs() == 1


def test_a_network_whose_weights_have_no_types():
    lib = relay.build(network(typed=False), target="llvm")
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    assert module.get_num_inputs() == 1 + len(PARAMS)
    found = run(module, x=IMAGE, **PARAMS)
    numpy.testing.assert_allclose(found, reference(), rtol=1e-4, atol=1e-5)


def test_both_doors_give_the_same_kernels():
    builder = relax.BlockBuilder()
    info = relax.TensorStructInfo
    x, w, b = (
        relax.Var(name, info(shape, "float32"))
        for name, shape in (("x", (1, 3, 8, 8)), ("w", (4, 3, 3, 3)), ("b", (4,)))
    )
    with builder.function("main", [x, w, b]):
        emit = builder.emit
        y = emit(relax.op.nn.conv2d(x, w, padding=(1, 1)))
        y = emit(relax.op.add(y, emit(relax.op.expand_dims(b, [1, 2]))))
        builder.emit_func_output(emit(relax.op.nn.relu(y)))
    expected = builder.get()
    x, w, b = (relay.var(v.name_hint, shape=s) for v, s in
               ((x, (1, 3, 8, 8)), (w, (4, 3, 3, 3)), (b, (4,))))  # fmt: skip
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=(1, 1)), b))
    found = to_relax(relay.Function([x, w, b], y))
    ts.ir.assert_structural_equal(found["main"], expected["main"])
    target = Target("llvm")
    ts.ir.assert_structural_equal(
        graph_pipeline(found, target), graph_pipeline(expected, target), map_free_vars=True
    )


def test_the_graph_as_json(lib):
    graph = json.loads(lib.get_graph_json())
    assert set(graph) == {"nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"}
    nodes, attrs = graph["nodes"], graph["attrs"]
    assert [nodes[place]["op"] for place in graph["arg_nodes"]] == ["null"] * len(
        graph["arg_nodes"]
    )
    names = [nodes[place]["name"] for place in graph["arg_nodes"]]
    assert names[0] == "x"
    assert set(names[1:]) == set(lib.get_params())
    assert "fused_conv2d_add_add_relu" in [node.get("attrs", {}).get("func_name") for node in nodes]
    entries = graph["node_row_ptr"][-1]
    assert len(graph["node_row_ptr"]) == len(nodes) + 1
    for kind, values in attrs.values():
        assert kind.startswith("list_")
        assert len(values) == entries
    assert attrs["shape"][1][graph["heads"][0][0]] == [1, 5]
    assert attrs["dltype"][1] == ["float32"] * entries
    storage = attrs["storage_id"][1]
    assert len(set(storage)) < len(storage)  # memory is used again
    for place, node in enumerate(nodes):
        assert all(number < place for number, _, _ in node["inputs"])


def test_graph_program_and_params_apart(lib, tmp_path):
    graph, program, params = lib
    module = graph_executor.create(graph, program, ts.cpu())
    module.set_input(**params)  # the values that they have
    numpy.testing.assert_allclose(run(module, x=IMAGE), reference(), rtol=1e-4, atol=1e-5)
    name = next(iter(params))
    with pytest.raises(UnsupportedError, match="constant of the compiled program"):
        module.set_input(name, params[name].numpy() + 1)
    with pytest.raises(UnknownNameError, match="no input 'y'"):
        module.set_input("y", IMAGE)
    with pytest.raises(TypeMismatchError, match="JSON of a graph"):
        graph_executor.create("{}", program, ts.cpu())


def test_parameters_as_bytes():
    lib = relay.build(network(), target="llvm")
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    module.load_params(relay.save_param_dict(PARAMS))
    numpy.testing.assert_allclose(run(module, x=IMAGE), reference(), rtol=1e-4, atol=1e-5)


def test_a_saved_program_runs(lib, tmp_path):
    path = tmp_path / "model.so"
    lib.export_library(path)
    loaded = ts.runtime.load_module(path)
    module = graph_executor.GraphModule(loaded["default"](ts.cpu()))
    numpy.testing.assert_allclose(run(module, x=IMAGE), reference(), rtol=1e-4, atol=1e-5)


def test_the_ahead_of_time_executor_writes_c():
    x = relay.var("x", shape=(3, 4))
    function = relay.Function([x], relay.tanh(x) + relay.const(1.0))
    lib = relay.build(function, target="c", executor=Executor("aot"))
    assert "float" in lib.get_lib().get_source()
    assert lib.get_executor_config() is None


def test_code_for_another_machine(tmp_path):
    x = relay.var("x", shape=(1, 1024))
    target = "llvm --device=arm_cpu -mtriple=armv7a-linux-gnueabihf -mattr=+neon"
    _, program, _ = relay.build(relay.Function([x], relay.add(x, x)), target=target)
    assert "vadd.f32" in program.get_source("asm")
    program.save(tmp_path / "a.o")
    content = (tmp_path / "a.o").read_bytes()
    assert content[:4] == b"\x7fELF"
    assert int.from_bytes(content[18:20], "little") == 40  # EM_ARM


# Translation


def test_shared_expressions_are_bound_once():
    x = relay.var("x", shape=(4,))
    y = relay.exp(x)
    for _ in range(40):  # 2**40 paths
        y = relay.add(y, y)
    module = to_relax(relay.Function([x], y))
    assert sum([len(block.bindings) for block in module["main"].body.blocks]) == 41


def test_deep_programs():
    x = relay.var("x", shape=(4,))
    y = x
    for _ in range(100_000):
        y = relay.nn.relu(y)
    module = to_relax(relay.Function([x], y))
    assert sum([len(block.bindings) for block in module["main"].body.blocks]) == 100_000


P = relay.var("p", shape=(2,))
ONE_TWO = numpy.array([1, 2], "float32")


def loop():
    """``f(0, p)`` with ``f(i, a) = f(i + 1, 2 a) if i < 5 else a``."""
    i, a = relay.var("i", shape=(), dtype="int32"), relay.var("a", shape=(2,))
    name = relay.var("loop")
    again = relay.Call(name, [i + relay.const(1), a * relay.const(2.0)])
    body = relay.If(relay.less(i, relay.const(5)), again, a)
    call = relay.Call(name, [relay.const(0), P])
    return relay.Function([P], relay.Let(name, relay.Function([i, a], body), call))


def bound_tuple():
    pair = relay.var("pair")
    total = relay.add(relay.TupleGetItem(pair, 0), relay.TupleGetItem(pair, 1))
    value = relay.Tuple([relay.exp(P), relay.negative(P)])
    return relay.Function([P], relay.Let(pair, value, relay.Tuple([total, P])))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (loop(), [32 * ONE_TWO]),
        (bound_tuple(), [numpy.exp(ONE_TWO) - ONE_TWO, ONE_TWO]),
        (relay.Function([P], P), [ONE_TWO]),
        (relay.Function([P], relay.const([3.0, 4.0]) * P), [numpy.array([3, 8], "float32")]),
    ],
    ids=["loop", "tuple", "identity", "constant"],
)
def test_programs_of_let_if_and_tuples(function, expected):
    found = relay.create_executor("vm").evaluate(function)(ONE_TWO)
    found = found if isinstance(found, (tuple, list)) else [found]
    for one, wanted in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(one.numpy(), wanted, rtol=1e-6)


def test_a_choice_uses_what_is_computed_outside():
    c, shared = relay.var("c", shape=(), dtype="bool"), relay.exp(P)
    choice = relay.If(c, relay.add(shared, P), relay.multiply(shared, shared))
    function = relay.Function([c, P], choice + shared)
    assert str(to_relax(function)["main"]).count("R.exp") == 1
    run_it = relay.create_executor("graph").evaluate(function)
    e = numpy.exp(ONE_TWO)
    for flag, wanted in ((True, e + ONE_TWO + e), (False, e * e + e)):
        numpy.testing.assert_allclose(run_it(numpy.array(flag), ONE_TWO).numpy(), wanted, rtol=1e-5)


def test_functions_of_a_module_call_each_other():
    module = ts.IRModule()
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    double = relay.GlobalVar("double")
    module[double] = relay.Function([y], relay.add(y, y))
    module["main"] = relay.Function([x], relay.Call(double, [relay.Call(double, [x])]))
    found = relay.create_executor("graph", module).evaluate()(ONE_TWO)
    numpy.testing.assert_allclose(found.numpy(), 4 * ONE_TWO)


def test_sizes_that_are_not_known_before_the_run():
    x = relay.var("x", relay.TensorType((relay.Any(), 3), "float32"))
    run_it = relay.create_executor("vm").evaluate(relay.Function([x], relay.nn.softmax(x)))
    for rows in (1, 4):
        value = floats(rows, 3)
        wanted = torch.softmax(torch.from_numpy(value), -1).numpy()
        numpy.testing.assert_allclose(run_it(value).numpy(), wanted, rtol=1e-5)


def test_the_value_of_an_expression():
    executor = relay.create_executor("debug")
    assert executor.evaluate(relay.add(relay.const(1.0), relay.const(2.5))).numpy() == 3.5
    x = relay.var("x", shape=())
    assert executor.evaluate(relay.add(x, x), {x: numpy.float32(4)}).numpy() == 8
    function = relay.Function([x, P], relay.multiply(x, P))
    module = ts.IRModule.from_expr(function)
    bound = relay.create_executor("graph", module, params={"p": ONE_TWO}).evaluate()
    numpy.testing.assert_allclose(bound(numpy.float32(3)).numpy(), 3 * ONE_TWO)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: relay.build(P), TypeMismatchError, "from_expr"),
        (lambda: relay.build(loop(), runtime=Runtime("crt")), UnsupportedError, "boards"),
        (lambda: relay.build(relay.Function([], relay.exp(P)), "llvm"), UnknownNameError, "'p'"),
        (lambda: relay.build(relay.Function([relay.var("q")], P), "llvm"), TypeMismatchError, "q"),
        (lambda: relay.build(relay.Function([P], relay.RefCreate(P)), "llvm"), UnsupportedError,
         "RefCreate"),
        (lambda: Executor("graf"), UnknownNameError, "graph"),
        (lambda: Executor("graph", {"no-option": 1}), OpAttributeInvalid, "link-params"),
        (lambda: Executor("aot", {"unpacked-api": "x"}), OpAttributeInvalid, "unpacked-api"),
        (lambda: relay.create_executor("interpreter"), UnknownNameError, "debug"),
        (lambda: relay.build(loop(), {"opencl": "opencl", "gpu": "cuda"}), UnsupportedError, "one"),
    ],
)  # fmt: skip
def test_mistakes_are_named(make, error, text):
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)


def test_a_graph_of_branches_has_no_json():
    c = relay.var("c", shape=(), dtype="bool")
    lib = relay.build(relay.Function([c, P], relay.If(c, P, relay.exp(P))), "llvm")
    with pytest.raises(UnsupportedError, match="no word for"):
        lib.get_graph_json()


def test_relay_is_found_without_importing_it():
    program = "import tilesmith as ts; print(ts.ir.Op.get('nn.conv2d').name)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout == "nn.conv2d\n"


def ramps_seen(config):
    """Return how many vectors a pass of the user's inside of lowering sees in the kernels."""
    found = []

    @ts.tir.transform.prim_func_pass(opt_level=0)
    def look(func, mod, ctx):
        found.append(len(list(nodes(func.body, ts.tir.Ramp))))
        return func

    x, w = relay.var("x", shape=(16, 32)), relay.var("w", shape=(32, 32))
    module = ts.IRModule.from_expr(relay.nn.relu(relay.nn.dense(x, w)))
    with ts.transform.PassContext(
        opt_level=3, config={"tir.add_lower_pass": [(3, look)], **config}
    ):
        relay.build(module, target="llvm")
    assert found
    return sum(found)


def test_options_of_lowering_act_on_the_kernels_of_a_model():
    assert ramps_seen({}) > 0
    assert ramps_seen({"tir.disable_vectorize": True}) == 0


def test_an_unknown_option_is_refused_with_its_name():
    with pytest.raises(ConfigError, match=r"tir\.no_such_option"):
        ts.transform.PassContext(config={"tir.no_such_option": 1})
