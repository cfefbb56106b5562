"""QDQ and QLinear models of ONNX run as integers, by both doors, with onnxruntime's results."""

import json

import numpy
import pytest

import tilesmith as ts
from tilesmith import relax, relay
from tilesmith.contrib import graph_executor
from tilesmith.relax import interpreter
from tilesmith.relax.transform import ComputeInIntegers, FoldConstant, PackForVectors
from tilesmith.script import relax as R

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"
RANDOM = numpy.random.default_rng(0)
LIMITS = {"int8": (-128, 128), "uint8": (0, 256)}
# Scales are powers of two, so that each rounding of floats is that of onnxruntime.
IN, OUT = 2.0**-5, 2.0**-2
TYPES = {"int8": onnx.TensorProto.INT8, "uint8": onnx.TensorProto.UINT8}


class Graph:
    """Nodes, and constants that are named in the order of their making."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(numpy.asarray(value), name))
        return name

    def node(self, kind, inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def dequantised(self, value, scale, point, **attributes):
        return self.node("DequantizeLinear", [value, scale, point], **attributes)

    def model(self, shape, dtype, result):
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info("x", TYPES[dtype], shape)],
            [helper.make_tensor_value_info(result, TYPES[dtype], None)], self.constants,
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weights_of(shape, dtype, axis, per_channel, asymmetric):
    """Return a random weight with its scale and zero point."""
    values = RANDOM.integers(*LIMITS[dtype], shape).astype(dtype)
    count = shape[axis] if per_channel else None
    scale = (2.0 ** RANDOM.integers(-9, -6, count)).astype("float32")
    middle = 128 if dtype == "uint8" else 0
    point = RANDOM.integers(-20, 20, count) if asymmetric else numpy.zeros(count or ())
    return values, numpy.float32(scale), (point + middle).astype(dtype)


def convolution(form, shape, kernel, dtype, weight_dtype, per_channel, asymmetric, **options):
    """Return a model of a convolution with bias and ReLU, in the form "QDQ" or "QLinear"."""
    graph = Graph()
    weight, scale, point = weights_of(kernel, weight_dtype, 0, per_channel, asymmetric)
    bias = RANDOM.integers(-2000, 2000, kernel[0]).astype("int32")
    x_point = numpy.array(3, dtype)
    xs, xz, ys = [graph.constant(one) for one in (numpy.float32(IN), x_point, numpy.float32(OUT))]
    ws, wz, w, b = [graph.constant(one) for one in (scale, point, weight, bias)]
    if form == "QLinear":
        y = graph.node("QLinearConv", ["x", xs, xz, w, ws, wz, ys, xz, b], **options)
        return graph.model(shape, dtype, y)
    x = graph.dequantised("x", xs, xz)
    axis = {"axis": 0} if per_channel else {}
    weight = graph.dequantised(w, ws, wz, **axis)
    bias_scale = graph.constant(numpy.float32(IN * scale))
    bias_point = graph.constant(numpy.zeros(scale.shape, "int32"))
    bias = graph.dequantised(b, bias_scale, bias_point, **axis)
    y = graph.node("Conv", [x, weight, bias], **options)
    y = graph.node("QuantizeLinear", [graph.node("Relu", [y]), ys, xz])
    return graph.model(shape, dtype, y)


def product(form, shape, kernel, dtype, weight_dtype, per_channel, asymmetric):
    graph = Graph()
    weight, scale, point = weights_of(kernel, weight_dtype, 1, per_channel, asymmetric)
    xs, ys = graph.constant(numpy.float32(IN)), graph.constant(numpy.float32(OUT))
    xz = graph.constant(numpy.array(9, dtype))
    w, ws, wz = [graph.constant(one) for one in (weight, scale, point)]
    if form == "QLinear":
        y = graph.node("QLinearMatMul", ["x", xs, xz, w, ws, wz, ys, xz])
        return graph.model(shape, dtype, y)
    axis = {"axis": 1} if per_channel else {}
    weight = graph.dequantised(w, ws, wz, **axis)
    y = graph.node("MatMul", [graph.dequantised("x", xs, xz), weight])
    return graph.model(shape, dtype, graph.node("QuantizeLinear", [y, ys, xz]))


PADS = {"pads": [1, 1, 1, 1]}
MODELS = [
    (convolution, (1, 5, 6, 7), (19, 5, 3, 3), PADS),
    (convolution, (2, 24, 5, 5), (48, 6, 3, 3), {"group": 4, "strides": [2, 2]}),
    (convolution, (1, 19, 6, 5), (19, 1, 3, 3), {"group": 19, **PADS}),
    (product, (7, 19), (19, 21), {}),
]
DTYPES = [
    # of data, of weights, by channel, zero points
    ("uint8", "int8", True, False),
    ("uint8", "uint8", False, True),
    ("int8", "int8", True, False),
]


def rival(model, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # On CPUs without VNNI the default saturates sums of two products (uint8 by int8).
    options.add_session_config_entry("session.x64quantprecision", str(int(x.dtype == "uint8")))
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("make, shape, kernel, options", MODELS)
@pytest.mark.parametrize("dtype, weight_dtype, per_channel, asymmetric", DTYPES)
@pytest.mark.parametrize("form", ["QDQ", "QLinear"])
def test_models(form, make, shape, kernel, options, dtype, weight_dtype, per_channel, asymmetric):
    model = make(form, shape, kernel, dtype, weight_dtype, per_channel, asymmetric, **options)
    x = RANDOM.integers(*LIMITS[dtype], shape).astype(dtype)
    want = rival(model, x)
    mod = relax.frontend.onnx.from_onnx(model)
    text = PackForVectors(VNNI)(FoldConstant()(ComputeInIntegers()(mod))).script()
    assert "T.dot_u8i8" in text or "depthwise_conv2d_nhwc_bytes" in text
    assert "R.nn.conv2d" not in text and "R.dequantize" not in text
    executable = relax.build(mod, "llvm -mcpu=native")
    numpy.testing.assert_array_equal(executable(x).numpy(), want)


@pytest.mark.parametrize("make, shape, kernel, options", MODELS)
@pytest.mark.parametrize("form", ["QDQ", "QLinear"])
def test_both_doors_have_the_same_kernels(form, make, shape, kernel, options):
    model = make(form, shape, kernel, "int8", "uint8", True, True, **options)
    x = RANDOM.integers(-128, 128, shape).astype("int8")
    executable = relax.build(relax.frontend.onnx.from_onnx(model), "llvm -mcpu=native")
    wanted = {row["Name"] for row in executable.profile(x).calls}
    mod, params = relay.frontend.from_onnx(model, shape={"x": shape})
    library = relay.build(mod, "llvm -mcpu=native", params=params)
    module = graph_executor.GraphModule(library["default"](ts.cpu()))
    module.run(x=x)
    numpy.testing.assert_array_equal(module.get_output(0).numpy(), executable(x).numpy())
    names = {node["attrs"]["func_name"] for node in json.loads(library.get_graph_json())["nodes"]
             if "attrs" in node}  # fmt: skip
    assert names == wanted and not any("dequantize" in name for name in names)


def converted(*nodes):
    """Return the script of a function of nodes on bytes x after the pass."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((1, 4, 6, 6), "uint8"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for node in nodes:
                value = builder.emit(node(value))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return ComputeInIntegers()(builder.get()).script()


def to_floats(value, scale=0.5, point=3):
    return relax.op.dequantize(value, relax.const(scale), relax.const(point, "uint8"), 1)


def to_bytes(value, scale=0.5, point=3):
    return relax.op.quantize(
        value, relax.const(scale), relax.const(point, "uint8"), -1, out_dtype="uint8"
    )


def convolved(value, weight=1, scale=0.25):
    kernel = relax.const(numpy.full((8, 4, 3, 3), weight, "int8"))
    scale = numpy.asarray(scale, "float32")
    point = relax.const(numpy.zeros(scale.shape, "int8"))
    floats = relax.op.dequantize(kernel, relax.const(scale), point, 0)
    return relax.op.nn.conv2d(value, floats)


def test_what_only_moves_elements_moves_bytes():
    text = converted(to_floats, relax.op.nn.max_pool2d, relax.op.flatten, to_bytes)
    assert "quantize" not in text
    reshaped = converted(to_floats, lambda x: relax.op.reshape(x, (4, 36)), to_bytes)
    assert "quantize" not in reshaped
    other = converted(to_floats, relax.op.nn.max_pool2d, lambda x: to_bytes(x, 0.25))
    assert "R.dequantize" in other and "R.quantize" in other


def test_what_has_no_integers_stays():
    assert 'out_dtype="int32"' in converted(to_floats, convolved)
    for first, second in [
        (lambda x: relax.op.astype(x, "float32"), convolved),  # not quantised
        (lambda x: to_floats(x, -0.5), convolved),
    ]:
        assert "int32" not in converted(first, second)
    by_input = numpy.array([0.1, 0.2, 0.3, 0.4], "float32")
    per_input = lambda x: relax.op.nn.conv2d(
        x, relax.op.dequantize(relax.const(numpy.ones((8, 4, 3, 3), "int8")),
                               relax.const(by_input), relax.const(numpy.zeros(4, "int8")), 1),
    )  # fmt: skip
    assert "int32" not in converted(to_floats, per_input)


def test_scales_by_channel_are_one_factor():
    scales = numpy.linspace(0.1, 0.8, 8)
    text = converted(to_floats, lambda x: convolved(x, 1, scales))
    assert "R.multiply" in text and 'out_dtype="int32"' in text


@pytest.mark.parametrize("kind", ["QuantizeLinear", "DequantizeLinear"])
def test_a_scale_of_one_element_serves_a_whole_tensor(kind):
    graph, shape = Graph(), [3, 5]
    point = graph.constant(numpy.uint8(3))  # rank 0 beside a scale of rank 1
    data = graph.node("DequantizeLinear", ["x", graph.constant(numpy.float32(IN)), point])
    scale = graph.constant(numpy.array([OUT], "float32"))
    made = graph.node("QuantizeLinear", [data, scale, point], axis=0)
    if kind == "DequantizeLinear":
        data = graph.node("DequantizeLinear", [made, scale, point], axis=0)
        made = graph.node("QuantizeLinear", [data, graph.constant(numpy.float32(IN)), point])
    model = graph.model(shape, "uint8", made)
    x = RANDOM.integers(0, 256, shape).astype("uint8")
    expected = numpy.rint((x.astype("int32") - 3) * (IN / OUT)) + 3
    if kind == "DequantizeLinear":
        expected = numpy.rint((expected - 3) * (OUT / IN)) + 3
    found = relax.interpreter.run(relax.frontend.onnx.from_onnx(model), "main", x)
    numpy.testing.assert_array_equal(found, expected.clip(0, 255).astype("uint8"))


def test_the_scale_of_a_result_is_part_of_the_factors():
    text = converted(to_floats, convolved, relax.op.nn.relu, lambda x: to_bytes(x, 0.75, 5))
    assert "R.quantize" not in text and "R.divide" not in text and "R.round" in text
    assert "R.minimum" in text and "R.maximum" in text
    by_tensor = converted(to_floats, lambda x: relax.op.exp(x), to_bytes)  # not of products
    assert "R.quantize" in by_tensor


def block(is_result):
    """Return a module: a quantised convolution, its data added to it, in bytes; and with the
    floats of the convolution as a second result.
    """
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((1, 4, 5, 6), "uint8"))
    weights = relax.const(RANDOM.integers(-127, 128, (4, 4, 3, 3)).astype("int8"))
    scales = relax.const(numpy.linspace(0.001, 0.004, 4).astype("float32"))
    points = relax.const(numpy.zeros(4, "int8"))
    with builder.function("main", [x]):
        with builder.dataflow():
            data = builder.emit(to_floats(x))
            kernel = builder.emit(relax.op.dequantize(weights, scales, points, 0))
            sums = builder.emit(relax.op.nn.conv2d(data, kernel, padding=1))
            small = builder.emit(to_floats(builder.emit(to_bytes(sums, 0.37, 120)), 0.37, 120))
            total = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(small, data))))
            last = builder.emit(to_bytes(total, 0.61, 0))
            result = relax.Tuple([last, sums]) if is_result else last
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("is_result", [False, True])
def test_residuals_are_rescaled(is_result):
    mod = block(is_result)
    changed = ComputeInIntegers()(mod)
    # floats that are read as they are keep their scale, and are divided
    assert changed.script().count("R.quantize") == int(is_result)
    x = RANDOM.integers(0, 256, (1, 4, 5, 6)).astype("uint8")
    want, found = interpreter.run(mod, "main", x), relax.build(mod, "llvm")(x)
    want, found = [one[0] if is_result else one for one in (want, found)]
    distance = abs(found.numpy().astype(int) - numpy.asarray(want).astype(int))
    assert distance.max() <= 1 and distance.mean() < 0.02
