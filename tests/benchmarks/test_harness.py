"""The benchmarks' own parts: models that onnxruntime takes, activations of a sane size, rivals."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

from benchmarks import run
from benchmarks.contestants import largest_error, onnxruntime_contestant
from benchmarks.models import MODELS, build_model, model_inputs
from benchmarks.models.__main__ import main as write_model
from benchmarks.operators import OPERATORS
from benchmarks.relay import relay_network
from benchmarks.workloads import KERNELS
from tilesmith import relay

# Millions of weights of the published networks (bert: without the position ids).
SIZES = {"resnet18": 11.7, "resnet50": 25.6, "mobilenetv2": 3.54, "bert": 109.5}


def root_mean_squares(model: onnx.ModelProto, feed: dict) -> list[float]:
    """Of every activation behind a ReLU, a sum, a normalisation, and of the outputs."""
    watched = ("Relu", "Add", "BatchNormalization", "Clip", "Softmax")
    known = {output.name for output in model.graph.output}
    for node in model.graph.node:
        if node.op_type in watched and node.output[0] not in known:
            model.graph.output.append(
                onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None)
            )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return [float(np.sqrt(np.mean(x.astype("f8") ** 2))) for x in session.run(None, feed)]


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "mobilenetv2"])
def test_image_models_are_valid_and_keep_their_activations(name):
    model = build_model(name)
    onnx.checker.check_model(model, full_check=True)
    weights = sum(int(np.prod(w.dims)) for w in model.graph.initializer) / 1e6
    assert weights == pytest.approx(SIZES[name], rel=0.01)
    assert any(node.op_type == "BatchNormalization" for node in model.graph.node)
    sizes = root_mean_squares(model, model_inputs(name))
    assert 0.2 < min(sizes) and max(sizes) < 5


def test_bert():
    model = build_model("bert")
    operators = {node.op_type for node in model.graph.node}
    assert {"Gather", "Erf", "ReduceMean", "Pow", "Sqrt", "Softmax", "Cast"} <= operators
    assert sum(int(np.prod(w.dims)) for w in model.graph.initializer) / 1e6 == pytest.approx(
        SIZES["bert"], rel=0.01
    )
    hidden, pooled = onnxruntime_contestant(model, model_inputs("bert"), 2)()
    assert hidden.shape == (1, 128, 768) and 0.5 < hidden.std() < 2
    assert pooled.shape == (1, 768) and np.abs(pooled).max() <= 1


def test_relay_gets_the_same_network():
    model = build_model("resnet18")
    module, params = relay_network(model)
    main = relay.transform.InferType()(module)["main"]
    assert main.checked_type.ret_type == relay.TensorType((1, 1000), "float32")
    assert len(main.params) == 1 + len(params)
    counts = relay.analysis.list_op_freqs(module)
    assert counts["nn.conv2d"] == 20 and counts["nn.batch_norm"] == 20 and counts["add"] == 8


def test_same_name_gives_the_same_bytes(tmp_path):
    assert set(MODELS) == set(SIZES)
    output = tmp_path / "m.onnx"
    result = CliRunner().invoke(write_model, ["mobilenetv2", "-o", str(output)])
    assert result.exit_code == 0, result.output
    again = build_model("mobilenetv2").SerializeToString(deterministic=True)
    assert onnx.load(output).SerializeToString(deterministic=True) == again
    with pytest.raises(KeyError, match="resnet18"):
        build_model("resnet19")


@pytest.mark.parametrize(
    "name", ["conv3x3 512@7", "depthwise 384@14", "softmax 1536x128", "layer norm 128x768",
             "gelu 128x3072", "matmul 128x768x768 weight"]
)  # fmt: skip
def test_rivals_agree_on_kernels(name):
    torch_graph = pytest.importorskip("benchmarks.torch_graph")
    workload = KERNELS[name](name)
    expected = onnxruntime_contestant(workload.model, workload.feed, 2)()
    found = torch_graph.TorchGraph(workload.model)(workload.feed)
    assert largest_error(found, expected) < 1e-5
    if workload.numpy is not None:
        assert largest_error(workload.numpy(), expected) < 1e-5


def test_rivals_agree_on_a_model():
    torch_graph = pytest.importorskip("benchmarks.torch_graph")
    model, feed = build_model("mobilenetv2"), model_inputs("mobilenetv2")
    expected = onnxruntime_contestant(model, feed, 2)()
    assert largest_error(torch_graph.TorchGraph(model)(feed), expected) < 1e-4


def test_kernels_command_writes_json(tmp_path):
    path = tmp_path / "kernels.json"
    arguments = ["kernels", "--match", "softmax", "--rounds", "2", "--threads", "1",
                 "--contestant", "onnxruntime", "--json", str(path)]  # fmt: skip
    result = CliRunner().invoke(run.main, arguments)
    assert result.exit_code == 0, result.output
    saved = json.loads(path.read_text())
    latency = saved["results"]["softmax 1536x128"]["latency"]["onnxruntime"]
    assert latency["median_ms"] > 0 and saved["settings"]["threads"] == 1
    assert saved["machine"]["versions"]["numpy"] == np.__version__


@pytest.mark.parametrize("name", ["TopK 500 of 1000", "MatMul n=7 x768x768", "CumSum 10x4000"])
def test_operators_run_in_onnxruntime(name):
    workload = OPERATORS[name](name)
    onnx.checker.check_model(workload.model)
    assert onnxruntime_contestant(workload.model, workload.feed, 1)()


def test_the_table_of_operators(tmp_path):
    """Two operators on both sides, in turns, with the ratio of their medians in the file."""
    path = tmp_path / "operators.json"
    arguments = ["--match", "CumSum 4000x10", "--rounds", "2", "--threads", "1"]
    finished = CliRunner().invoke(run.main, ["operators", *arguments, "--json", str(path)])
    assert finished.exit_code == 0, finished.output
    (figures,) = json.loads(path.read_text())["results"].values()
    assert figures["times_as_fast"]["onnxruntime"] > 0 and figures["failures"] == {}


def test_forty_operators():
    assert len(OPERATORS) == 44
