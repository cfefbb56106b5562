"""The debug executor, the pipeline executor, and what relay.build gives besides a program."""

import json

import numpy
import pytest

import tilesmith as ts
from tilesmith import relay
from tilesmith.contrib import graph_executor, pipeline_executor, pipeline_executor_build
from tilesmith.contrib.debugger import debug_executor, debug_result
from tilesmith.relay.backend import graph_plan_memory, name_transforms, utils
from tilesmith.relay.backend.graph_executor_codegen import GraphExecutorCodegen
from tilesmith.relay.build_module import BuildModule
from tilesmith.relay.prelude import Prelude
from tilesmith.runtime.params import load_param_dict
from tilesmith.support.errors import (
    ArtifactError,
    DiagnosticError,
    ExecutionError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

RANDOM = numpy.random.default_rng(3)
X, W = (RANDOM.standard_normal(shape).astype("float32") for shape in ((4, 6), (5, 6)))


def two_layers():
    """softmax(relu(x · wᵀ)), two dense layers of which the second one has a weight of its own."""
    x, w = relay.var("x", shape=X.shape), relay.var("w", shape=W.shape)
    return relay.Function([x, w], relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, w))))


def expected():
    y = numpy.maximum(X @ W.T, 0)
    e = numpy.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def lib():
    return relay.build(two_layers(), "llvm", params={"w": W})


@pytest.fixture
def debug(lib, tmp_path):
    return debug_executor.create(lib.get_graph_json(), lib, ts.cpu(), str(tmp_path))


def test_models_show_their_kernels():
    built = relay.build(two_layers(), "opencl", params={"w": W})
    (kernels,) = built.get_lib().imported_modules
    assert kernels.type_key == "opencl" and "__kernel" in kernels.get_source()
    library = ts.relax.build(dense_layer(), "opencl").mod.imported_modules[0]
    assert "__kernel" in library.imported_modules[0].get_source()
    assert relay.build(two_layers(), "llvm", params={"w": W}).get_lib().imported_modules == []


def dense_layer():
    """relu(x · w) as a program of relax."""
    relax, builder = ts.relax, ts.relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4, 6), "float32"))
    w = relax.Var("w", relax.TensorStructInfo((6, 5), "float32"))
    with builder.function("main", [x, w]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(relax.op.matmul(x, w))))
    return builder.get()


# Node by node


def test_the_name_that_makes_a_debugger(lib, tmp_path):
    module = lib["debug_create"]("default", ts.cpu())
    debug = debug_executor.GraphModuleDebug(module, [ts.cpu()], lib.get_graph_json(), str(tmp_path))
    debug.run(number=1, x=X)
    numpy.testing.assert_allclose(debug.get_output(0).numpy(), expected(), rtol=1e-5)
    with pytest.raises(UnknownNameError, match="no model 'other'"):
        lib["debug_create"]("other", ts.cpu())


def test_a_table_and_files_for_the_nodes(lib, debug, tmp_path, capsys):
    debug.run(number=1, x=X)
    shown = capsys.readouterr().out
    names = [node["name"] for node in json.loads(lib.get_graph_json())["nodes"]]
    for word in ("Node Name", "Time(us)", "Total_time", "softmax", *names[2:]):
        assert word in shown
    numpy.testing.assert_allclose(debug.get_output(0).numpy(), expected(), rtol=1e-5)
    folder = tmp_path / "_tvmdbg_device_CPU_0"
    graph = json.loads((folder / "_tvmdbg_graph_dump.json").read_text())
    assert [node["name"] for node in graph["nodes"]] == names
    assert graph["nodes"][-1]["attrs"]["shape"] == [4, 5]
    trace = json.loads((folder / "_tvmdbg_execution_trace.json").read_text())
    assert [event["name"] for event in trace["traceEvents"][::2]] == names
    tensors = load_param_dict((folder / "output_tensors.params").read_bytes())
    numpy.testing.assert_allclose(tensors[f"{names[-1]}____0"].numpy(), expected(), rtol=1e-5)
    heads, rows = debug.debug_datum.get_debug_result()
    assert len(heads) == len(rows[0])
    assert [row[2] for row in rows[:-1]] == sorted([row[2] for row in rows[:-1]], reverse=True)


def test_values_between_kernels(debug):
    debug.set_input(x=X)
    first = next(node["name"] for node in debug._nodes if node["op"] != "null")
    value = debug.debug_get_output(first).numpy()
    numpy.testing.assert_allclose(value, numpy.maximum(X @ W.T, 0), rtol=1e-5, atol=1e-6)
    target = ts.nd.array(numpy.zeros_like(value))
    debug.debug_get_output(first, target)
    numpy.testing.assert_array_equal(target.numpy(), value)
    changed = numpy.zeros_like(X)
    debug.set_input(x=changed)
    for place in range(len(debug._nodes)):
        last = debug.execute_node(place)
    numpy.testing.assert_allclose(last.numpy(), numpy.full((4, 5), 0.2), rtol=1e-6)


def test_times_of_nodes(debug):
    debug.set_input(x=X)
    times = debug.run_individual(number=1, repeat=2)
    assert [len(one) for one in times] == [2] * len(debug._nodes)
    assert times[0] == [0.0, 0.0]
    assert min(times[-1]) > 0
    assert debug.run_individual_node(len(debug._nodes) - 1, number=2).mean > 0
    report = debug.profile()
    assert [call["Name"] for call in report.calls] == [
        node["name"] for node in debug._nodes if node["op"] != "null"
    ]
    assert sum([call["Percent"].percent for call in report.calls]) == pytest.approx(100)


def test_the_dump_without_a_folder_is_removed(lib):
    module = debug_executor.create(lib.get_graph_json(), lib.get_lib(), [ts.cpu()])
    import os

    assert os.path.isdir(module._dump_path)
    module.exit()
    assert not os.path.exists(module._dump_path)


def test_mistakes_of_debugging(lib, debug, tmp_path):
    with pytest.raises(ExecutionError, match="'x' is not set"):
        debug.debug_get_output(0)
    with pytest.raises(UnknownNameError, match="no node 'conv'"):
        debug.debug_get_output("conv")
    with pytest.raises(UnknownNameError, match="not node 99"):
        debug.execute_node(99)
    with pytest.raises(ExecutionError, match="has not been run"):
        debug.execute_node(len(debug._nodes) - 1)
    debug.set_input(x=X)
    with pytest.raises(TypeMismatchError, match="computes nothing"):
        debug.run_individual_node(0)
    lib.export_library(tmp_path / "lib.tsm")
    loaded = ts.runtime.load_module(tmp_path / "lib.tsm")
    with pytest.raises(UnsupportedError, match="no functions for single nodes"):
        debug_executor.create(lib.get_graph_json(), loaded, ts.cpu())
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    with pytest.raises(UnsupportedError, match="debug_executor"):
        module.debug_get_output(0)
    with pytest.raises(TypeMismatchError, match="outputs of nodes"):
        debug_result.DebugResult(lib.get_graph_json(), str(tmp_path)).update_output_tensors([])


# Parameters and memory


def test_parameters_that_were_bound(lib):
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    assert list(lib.get_params()) == ["p0"]
    module.set_input(w=W, x=X)  # the value that it has
    module.set_input(**lib.get_params())
    module.run()
    numpy.testing.assert_allclose(module.get_output(0).numpy(), expected(), rtol=1e-5)
    for name, value in (("w", W + 1), ("w", W[:2]), ("p0", W[::-1])):
        with pytest.raises(UnsupportedError, match=f"'{name}' is a constant"):
            module.set_input(name, value)
    with pytest.raises(UnknownNameError, match="no input 'v'"):
        module.set_input("v", W)


def test_inputs_are_converted_and_checked_when_they_are_set(lib):
    module = graph_executor.GraphModule(lib["default"](ts.cpu()))
    module.set_input("x", X.astype("float64"))
    module.run()
    numpy.testing.assert_allclose(module.get_output(0).numpy(), expected(), rtol=1e-5)
    module.run(x=X.tolist())
    numpy.testing.assert_allclose(module.get_output(0).numpy(), expected(), rtol=1e-5)
    for wrong in (X[:, :5], X[0], X[None]):
        with pytest.raises(ShapeError, match=r"input 'x' has shape \(4, 6\), got"):
            module.set_input("x", wrong)
    rows = relay.var("x", shape=(relay.Any(), 2))
    open_module = graph_executor.GraphModule(relay.build(relay.Function([rows], rows + rows)))
    open_module.run(x=numpy.ones((3, 2)))
    assert open_module.get_output(0).shape == (3, 2)
    with pytest.raises(ShapeError, match="input 'x' has shape"):
        open_module.set_input("x", numpy.ones((3, 3)))


def test_the_functions_of_an_executor_by_name(lib):
    made = lib["default"](ts.cpu())
    made["set_input"]("x", ts.nd.array(X))
    made["run"]()
    numpy.testing.assert_allclose(made["get_output"](0).numpy(), expected(), rtol=1e-5)
    module = graph_executor.GraphModule(made)
    with pytest.raises(TypeMismatchError, match="'x' is not set"):
        module.module.time_evaluator("run", ts.cpu())()
    module.module["set_input"]("x", X)
    measured = module.module.time_evaluator("run", ts.cpu(), number=2, repeat=3)()
    assert len(measured.results) == 3 and measured.mean > 0
    given = module.module.time_evaluator("main", number=1)(ts.nd.array(X))
    assert len(given.results) == 1
    assert module.module.get_function("main") is lib.get_lib().get_function("main")
    assert module.module["run"] == module.run and "main" in module.module.function_names


def test_shared_parameters_and_tensors_that_are_not_copied():
    built = relay.build(two_layers(), "llvm")
    first, second = (graph_executor.GraphModule(built["default"](ts.cpu())) for _ in range(2))
    assert first.get_input_index("w") == 1
    assert first.get_num_inputs() == 2
    assert first.get_input_info()[0] == {"x": (4, 6), "w": (5, 6)}
    blob = relay.save_param_dict({"w": W})
    first.load_params(blob)
    second.share_params(first, blob)
    assert second.get_input("w") is first.get_input("w")
    x = ts.nd.array(numpy.zeros_like(X))
    second.set_input_zero_copy("x", x)
    x.copyfrom(X)  # seen by the module
    target = ts.nd.array(numpy.zeros((4, 5), "float32"))
    second.set_output_zero_copy(0, target)
    second.run()
    numpy.testing.assert_allclose(target.numpy(), expected(), rtol=1e-5)


def test_the_memory_of_a_function():
    x = relay.var("x", shape=(8, 8))
    y = x
    chain = []
    for _ in range(4):
        y = relay.nn.softmax(y)
        chain.append(y)
    plan = graph_plan_memory.GraphPlanMemory(relay.Function([x], relay.Tuple([y, x])))
    numbers = [plan.expr_to_storage_info[one].storage_ids[0] for one in chain]
    assert numbers[0] == numbers[2]
    assert numbers[0] != numbers[1]
    assert plan.unshared_bytes == 4 * 256
    assert plan.workspace_bytes == 2 * 256
    assert plan.own_bytes == 256
    assert "50.0%" in plan.table()
    branch = relay.If(relay.var("c", "bool"), x, x)
    with pytest.raises(UnsupportedError, match="virtual machine"):
        graph_plan_memory.GraphPlanMemory(relay.Function([x, branch.cond], branch))


def test_the_memory_of_a_graph_as_a_table(lib):
    table = lib.memory_table()
    assert "p0" in table
    assert "without sharing" in table


def test_a_module_with_a_prelude_that_is_not_used():
    mod = ts.IRModule()
    prelude = Prelude(mod)
    x = relay.var("x", shape=(2,))
    mod["main"] = relay.Function([x], x + x)
    assert relay.build(mod, "llvm").get_lib()(X[0, :2]).numpy().tolist() == (2 * X[0, :2]).tolist()
    mod["main"] = relay.Function([x], prelude.cons(x, prelude.nil()))
    with pytest.raises(UnsupportedError, match="relay.vm.compile"):
        relay.build(mod, "llvm")


# Building in steps


def test_names_of_building():
    module = BuildModule()
    with pytest.raises(ExecutionError, match="build"):
        module.get_module()
    graph, program, params = module.build(
        ts.IRModule.from_expr(two_layers()), "llvm", params={"w": W}
    )
    assert module.get_graph_json() == graph
    assert module.get_module() is program
    assert list(module.get_params()) == list(params) == ["p0"]
    assert module.get_devices() == ["llvm"]
    assert module.get_executor_codegen_metadata()["inputs"] == ["x"]
    assert "main" in module.get_function_metadata()
    assert "main" in module.get_irmodule()


def test_relay_optimize():
    x = relay.var("x", shape=(2,))
    function = relay.Function([x], relay.nn.dropout(x + (relay.const(1.0) + relay.const(2.0))))
    made, params = relay.optimize(ts.IRModule.from_expr(function), "llvm")
    assert "dropout" not in made.astext()
    assert "3f" in made.astext()
    assert params == {}


def test_the_code_generator_of_graphs():
    function = two_layers()
    graph, kernels, params = GraphExecutorCodegen(None, "llvm").codegen(ts.IRModule(), function)
    ((_, lowered),) = kernels.items()
    called = {node["attrs"]["func_name"] for node in json.loads(graph)["nodes"] if "attrs" in node}
    assert called == {name.name_hint for name in lowered.functions}
    assert params == {}


@pytest.mark.parametrize(
    "target",
    [{"cpu": "llvm"}, {1: "llvm"}, {ts.cpu(): "llvm"}, ["llvm"], {"cpu": "llvm", "dev": "llvm"}],
)
def test_targets_by_device(target):
    x = relay.var("x", shape=(2,))
    built = relay.build(relay.Function([x], x + x), target)
    assert built.get_lib()(X[0, :2]).numpy().tolist() == (2 * X[0, :2]).tolist()


@pytest.mark.parametrize(
    ("function", "argument", "wanted"),
    [
        (name_transforms.to_c_function_style, "TVMGen_run_model", "TVMGenRunModel"),
        (name_transforms.to_c_function_style, "TVM_Woof", "TVMWoof"),
        (name_transforms.to_c_variable_style, "TVM_My_Name", "tvm_my_name"),
        (name_transforms.to_c_constant_style, "TVM_My_Name", "TVM_MY_NAME"),
        (name_transforms.prefix_name, ["Device", "x y"], "TVM_Device_x_y"),
        (name_transforms.prefix_generated_name, "run", "TVMGen_run"),
        (utils.mangle_module_name, "default", "tvmgen_default"),
        (utils.mangle_module_name, None, "tvmgen"),
    ],
)
def test_names_of_generated_code(function, argument, wanted):
    assert function(argument) == wanted


@pytest.mark.parametrize("name", ["", "run"])
def test_names_without_a_prefix_are_refused(name):
    with pytest.raises(TypeMismatchError, match="empty|does not begin"):
        name_transforms.to_c_function_style(name)


# Pipelines


def stage(operation, names=("a",), results=1):
    params = [relay.var(name, shape=(2, 3)) for name in names]
    value = operation(*params)
    return ts.IRModule.from_expr(relay.Function(params, value))


def diamond():
    """data → (negative, exp) → add with a parameter; the second result is that of exp."""
    first = stage(lambda a: relay.Tuple([relay.negative(a), a * relay.const(2.0)]))
    second = stage(relay.exp)
    last = stage(lambda a, b, w: (a + b) * w, ("a", "b", "w"))
    config = pipeline_executor_build.PipelineConfig()
    config[last]["output"][0].connect(config["output"][0])  # stages in any order
    config["input"]["data"].connect(config[first]["input"]["a"])
    config[first]["output"][0].connect(config[last]["input"]["a"])
    config[first]["output"][1].connect(config[second]["input"]["a"])
    config[second]["output"][0].connect(config[last]["input"]["b"])
    config[second]["output"][0].connect(config["output"][1])
    config["param_group"]["weights"].connect(config[last]["param"])
    return config, (first, second, last)


def checked(module):
    rows = [numpy.full((2, 3), number, "float32") for number in range(5)]
    for number, row in enumerate(rows):
        module.set_params("weights", {"w": numpy.full((2, 3), 3, "float32")})
        module.set_input("data", row)
        module.run()
        assert module.num_executing_pipeline == number + 1
    for row in rows:  # in the order of the runs
        total, power = module.get_output()
        numpy.testing.assert_allclose(power.numpy(), numpy.exp(2 * row), rtol=1e-5)
        numpy.testing.assert_allclose(total.numpy(), 3 * (numpy.exp(2 * row) - row), rtol=1e-5)
    assert module.get_output(synchronize=False) == []


def test_a_pipeline(tmp_path):
    config, (first, second, last) = diamond()
    made = config.get_config()
    assert [config.get_mod_idx(mod) for mod in (first, second, last)] == [0, 1, 2]
    assert made["input_connection"] == {"data": [(0, "a")]}
    assert made["output_connection"] == {0: (2, 0), 1: (1, 0)}
    config[first].target = "llvm"
    config[first].dev = ts.cpu()
    factory = pipeline_executor_build.build(config)
    module = pipeline_executor.PipelineModule(factory)
    assert (module.num_inputs, module.num_outputs) == (1, 2)
    assert module.get_input_pipeline_map("data") == ["0", "a"]
    assert module.get_params_group_pipeline_map("weights") == "2"
    checked(module)
    numpy.testing.assert_array_equal(module.get_input("data").numpy(), numpy.full((2, 3), 4.0))
    path = factory.export_library(tmp_path)
    checked(pipeline_executor.PipelineModule.load_library(path))
    (tmp_path / "pipeline_config.json").write_text('{"stages": []}')
    with pytest.raises(ArtifactError, match="no plan"):
        pipeline_executor.PipelineModule.load_library(path)


def test_an_error_of_a_stage_is_raised_where_its_result_is_taken():
    config, _ = diamond()
    module = pipeline_executor.PipelineModule(pipeline_executor_build.build(config))
    module.set_input("data", numpy.zeros((2, 3), "float32"))
    module.run()
    with pytest.raises(ts.error.TilesmithError):
        module.get_output()  # the weights are not set
    module.set_params("weights", {"w": numpy.ones((2, 3), "float32")})
    module.run()
    assert module.get_output()[0].numpy().tolist() == [[1.0] * 3] * 2


def test_mistakes_of_pipelines():
    build = pipeline_executor_build.build
    config, (first, second, last) = diamond()
    module = pipeline_executor.PipelineModule(build(config))
    with pytest.raises(ExecutionError, match="no run"):
        module.get_output()
    with pytest.raises(ExecutionError, match="'data' is not set"):
        module.run()
    with pytest.raises(UnknownNameError, match="no input 'x'"):
        module.set_input("x", X)
    with pytest.raises(DiagnosticError, match="connected already"):
        config[first]["output"][0].connect(config[last]["input"]["b"])
    with pytest.raises(DiagnosticError, match="cannot be connected"):
        config[first]["input"]["a"].connect(config[last]["output"][0])
    with pytest.raises(DiagnosticError, match="own stage"):
        config[last]["output"][0].connect(config[last]["input"]["w"])
    with pytest.raises(UnknownNameError, match="'c'"):
        config[last]["input"]["c"]
    config[last]["output"][0].connect(config["output"][3])
    with pytest.raises(DiagnosticError, match="numbered"):
        build(config)
    circle = pipeline_executor_build.PipelineConfig()
    circle[second]["output"][0].connect(circle[first]["input"]["a"])
    circle[first]["output"][0].connect(circle[second]["input"]["a"])
    with pytest.raises(DiagnosticError, match="circle"):
        build(circle)
    with pytest.raises(DiagnosticError, match="no stage"):
        build(pipeline_executor_build.PipelineConfig())
    with pytest.raises(TypeMismatchError, match="PipelineConfig"):
        build([first])
    assert pipeline_executor.pipeline_executor_enabled()
    assert pipeline_executor_build.pipeline_executor_build_enabled()
