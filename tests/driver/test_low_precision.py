"""tilesmith.compile(precision=…): what it computes with, how near the results are, its errors."""

import numpy
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.driver.calibration import Quantisation
from tilesmith.driver.quantisation import prepared, quantised, sites
from tilesmith.inspect import accuracy
from tilesmith.relax.transform import ComputeInIntegers, FoldConstant, PackForVectors
from tilesmith.script import relax as R
from tilesmith.support.errors import ConfigError, UnsupportedError

RANDOM = numpy.random.default_rng(0)
PRECISIONS = {"bf16": "bfloat16", "fp16": "float16", "int8": "int8"}
TOLERANCE = {"bf16": 3e-2, "fp16": 3e-3, "int8": 6e-2}
VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"


def weight(*shape):
    values = RANDOM.standard_normal(shape) / numpy.prod(shape[1:]) ** 0.5
    return relax.const(values.astype("float32"))


def network():
    """Return a residual network: convolutions, pooling, a sum, a normalisation, products."""
    op, builder = relax.op, relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((1, 5, 9, 9), "float32"))

    def convolution(data, outputs, inputs, **options):
        kernel = weight(outputs, inputs, 3, 3)
        made = builder.emit(op.nn.conv2d(data, kernel, padding=(1, 1), **options))
        return builder.emit(op.add(made, weight(1, outputs, 1, 1)))

    with builder.function("main", [x]):
        first = builder.emit(op.nn.relu(convolution(x, 16, 5)))
        pooled = builder.emit(op.nn.max_pool2d(first, (3, 3), (2, 2), (1, 1)))
        second = builder.emit(op.nn.relu(convolution(pooled, 16, 16)))
        third = builder.emit(op.nn.relu(convolution(second, 16, 1, groups=16)))
        total = builder.emit(op.nn.relu(builder.emit(op.add(third, pooled))))
        rows = builder.emit(op.mean(total, [2, 3]))
        wide = builder.emit(op.matmul(rows, weight(16, 19)))
        builder.emit_func_output(builder.emit(op.nn.softmax(wide)))
    return builder.get()


def product():
    """Return a module of one product."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3, 16), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.matmul(x, weight(16, 8))))
    return builder.get()


def inputs(count=1, seed=1):
    random = numpy.random.default_rng(seed)
    return [random.standard_normal((1, 5, 9, 9)).astype("float32") for _ in range(count)]


@pytest.fixture(scope="module")
def compiled():
    """Executables of one network: float32, and each precision."""
    mod = network()
    made = {None: ts.compile(mod, cache=False)}
    for name in PRECISIONS:
        options = {"calibration": inputs(3, 7)} if name == "int8" else {}
        made[name] = ts.compile(mod, precision=name, force_precision=True, **options)
    return made


@pytest.mark.parametrize("precision", PRECISIONS)
def test_results_are_near_those_of_float32(compiled, precision):
    (x,) = inputs()
    expected, found = [compiled[name](x).numpy() for name in (None, precision)]
    assert found.dtype == "float32"
    assert 0 < abs(found - expected).max() <= TOLERANCE[precision] * abs(expected).max()
    assert compiled[precision].metadata["precision"] == PRECISIONS[precision]
    assert "precision" not in compiled[None].metadata


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_report_has_all_products_the_worst_first(compiled, precision):
    report = compiled[precision].accuracy_report(inputs(2))
    ratios = [one.signal_to_noise for one in report.layers]
    assert len(ratios) == 4 and ratios == sorted(ratios) and len(report.results) == 1
    assert all(15 < ratio for ratio in ratios), report
    assert all(one.greatest_error <= 2 * TOLERANCE[precision] for one in report.layers), report
    assert "conv2d" in str(report) and "dB" in str(report)
    assert report.to_json()["precision"] == PRECISIONS[precision]


def test_artifacts_carry_their_precision(compiled, tmp_path):
    (x,) = inputs()
    for name in PRECISIONS:
        compiled[name].save(tmp_path / "model.tsm")
        loaded = ts.load(tmp_path / "model.tsm")
        assert loaded.metadata["precision"] == PRECISIONS[name]
        numpy.testing.assert_array_equal(loaded(x).numpy(), compiled[name](x).numpy())
        with pytest.raises(UnsupportedError, match="no float32 form"):
            loaded.accuracy_report(x)


def test_integers_go_from_kernel_to_kernel():
    mod = prepared(network())
    assert [one.name_hint for one in sites(mod)][0] == "x" and len(sites(mod)) == 4
    made = quantised(mod, [Quantisation(0.02, 128 if place == 0 else 0) for place in range(4)])
    text = ComputeInIntegers()(made).script()
    # bytes are pooled; the sum reads those that the convolution reads; softmax reads floats
    assert text.count("R.quantize(") == 4
    (pooled,) = [line for line in text.splitlines() if "R.nn.max_pool2d(" in line]
    assert "uint8" in pooled
    packed = PackForVectors(VNNI)(FoldConstant()(ComputeInIntegers()(made))).script()
    assert packed.count("R.call_tir") >= 4 and "T.dot_u8i8" in packed
    assert "depthwise_conv2d_nhwc_bytes" in packed
    assert "conv2d_nhwc_packed" not in packed


def test_a_target_without_instructions_keeps_float32():
    plain = "llvm -mtriple=x86_64-linux-gnu -mcpu=sandybridge"
    for precision in PRECISIONS:
        options = {"calibration": [numpy.ones((3, 16))]} if precision == "int8" else {}
        made = ts.compile(product(), plain, precision=precision, **options)
        assert "precision" not in made.metadata
        (reason,) = [one.reason for one, _ in made.fallbacks.rows() if one.kind == "precision"]
        assert "force_precision" in reason
    forced = ts.compile(product(), plain, precision="bf16", force_precision=True)
    assert forced.metadata["precision"] == "bfloat16"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "int4"}, "no precision 'int4'"),
        ({"precision": "int8"}, "needs calibration data"),
        ({"precision": "int8", "calibration": []}, "calibration data are empty"),
        ({"precision": "int8", "calibration": [{"y": 1}]}, "no input 'x'"),
        ({"precision": "int8", "calibration": [{"x": 1, "y": 1}]}, "unknown input 'y'"),
        ({"precision": "int8", "calibration": [(1, 2)]}, "2 inputs, the model takes 1"),
        ({"precision": "bf16", "calibration": [1]}, "calibration is for"),
        ({"precision": "bf16", "calibration_method": "best"}, "no calibration method"),
        ({"force_precision": True}, "without a precision"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ConfigError, match=message):
        ts.compile(product(), **options)


def test_the_cache_tells_precisions_apart(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    monkeypatch.setenv("TILESMITH_CACHE_DIR", str(tmp_path / "cache"))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    values = RANDOM.standard_normal((16, 8)).astype("float32")
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, "w")],
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph), path)
    x = RANDOM.standard_normal((3, 16)).astype("float32")
    data = [{"x": x}, {"x": -x}]
    plain = ts.compile(path)(x).numpy()
    for _ in range(2):
        narrow = ts.compile(path, precision="bf16", force_precision=True)
        assert abs(narrow(x).numpy() - plain).max() > 0
        assert narrow.accuracy_report({"x": x}).precision == "bfloat16"
    small = ts.compile(path, precision="int8", calibration=data, calibration_method="max")
    assert small.metadata["precision"] == "int8"
    numpy.testing.assert_array_equal(ts.compile(path)(x).numpy(), plain)
    report = accuracy(path, data, "int8", calibration=data)
    assert report.layers[0].name.startswith("MatMul node")
