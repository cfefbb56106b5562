"""Products of bytes: weights packed in words for dot product instructions, and the same sums."""

import numpy
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.relax import interpreter
from tilesmith.relax.transform import FoldConstant, PackForVectors
from tilesmith.relax.transform.byte_products import centred_bytes, in_words
from tilesmith.script import relax as R

RANDOM = numpy.random.default_rng(0)
VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"
PAIRS = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
HALF = "llvm -mtriple=x86_64-linux-gnu -mcpu=nehalem"
PLAIN = "llvm -mtriple=x86_64-linux-gnu -mcpu=sandybridge"


def convolution(shape, kernel, dtype, zero_point, stride=1, padding=1, greatest=127):
    """Return a module of one convolution of bytes, as both doors write it."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(shape, dtype))
    weight = RANDOM.integers(-greatest - 1, greatest + 1, kernel).astype("int32")
    with builder.function("main", [x]):
        wide = relax.op.astype(x, "int32")
        if zero_point:
            wide = relax.op.subtract(wide, relax.const(zero_point, "int32"))
        made = relax.op.nn.conv2d(
            wide, relax.const(weight), strides=(stride, stride), padding=(padding, padding)
        )
        builder.emit_func_output(builder.emit(made))
    return builder.get()


def product(rows, inputs, columns, dtype, zero_point):
    """Return a module of one matrix product of bytes."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((rows, inputs), dtype))
    weight = RANDOM.integers(-128, 128, (inputs, columns)).astype("int32")
    with builder.function("main", [x]):
        wide = relax.op.subtract(relax.op.astype(x, "int32"), relax.const(zero_point, "int32"))
        builder.emit_func_output(builder.emit(relax.op.matmul(wide, relax.const(weight))))
    return builder.get()


def packed(mod, target):
    return PackForVectors(target)(FoldConstant()(mod)).script()


CASES = [
    convolution((1, 8, 6, 6), (16, 8, 3, 3), "uint8", 7),
    convolution((2, 5, 7, 6), (19, 5, 3, 3), "int8", -3, 2),
    convolution((1, 4, 5, 5), (16, 4, 1, 1), "int8", 0, 1, 0),
    product(5, 16, 24, "uint8", 100),
    product(3, 7, 9, "int8", 5),
]


@pytest.mark.parametrize("mod", CASES)
@pytest.mark.parametrize("target", ["llvm -mcpu=native", PAIRS, HALF, PLAIN, "c"])
def test_the_same_sums(mod, target):
    if target in (PAIRS, HALF, PLAIN) and "x86_64" not in str(ts.target.Target("llvm")):
        target = "llvm"
    (param,) = mod["main"].params
    info = param.struct_info
    limits = numpy.iinfo(str(info.dtype))
    shape = [int(size) for size in info.shape.values]
    x = RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(str(info.dtype))
    found = relax.build(mod, target)(x)
    numpy.testing.assert_array_equal(found.numpy(), interpreter.run(mod, "main", x))


@pytest.mark.parametrize("mod", CASES)
def test_dot_products_where_the_target_has_them(mod):
    assert "T.dot_u8i8" in packed(mod, VNNI)
    for target in (PAIRS, HALF):
        assert "T.dot_i16i16" in packed(mod, target)
    for other in ("T.dot_u8i8", "T.dot_i16i16"):
        assert other not in packed(mod, PLAIN)


def test_weights_of_more_than_bytes_are_products_of_int16():
    mod = convolution((1, 8, 6, 6), (16, 8, 1, 1), "uint8", 7, padding=0, greatest=30000)
    assert "T.dot_i16i16" in packed(mod, PAIRS)
    x = RANDOM.integers(0, 256, (1, 8, 6, 6)).astype("uint8")
    if "x86_64" in str(ts.target.Target("llvm")):
        found = relax.build(mod, PAIRS)(x)
        numpy.testing.assert_array_equal(found.numpy(), interpreter.run(mod, "main", x))


def test_what_is_no_product_of_bytes_stays_one_of_int32():
    wide = convolution((1, 8, 6, 6), (16, 8, 3, 3), "uint8", 7, greatest=200)
    far = convolution((1, 8, 6, 6), (16, 8, 3, 3), "uint8", 300)
    short = convolution((1, 8, 6, 6), (16, 8, 3, 3), "int16", 7)
    for mod in (wide, far, short):
        text = packed(mod, VNNI)
        assert "T.dot_u8i8" not in text and "conv2d_nhwc_packed" in text


def test_weights_in_words():
    weights = RANDOM.integers(-128, 128, (3, 6, 2))
    words = in_words(weights)
    assert words.shape == (3, 2, 2)
    back = words.view("int8").reshape(3, 2, 2, 4).transpose(0, 1, 3, 2).reshape(3, 8, 2)
    numpy.testing.assert_array_equal(back[:, :6], weights)
    assert not back[:, 6:].any()
    assert centred_bytes(weights * 2) is None and centred_bytes(weights.astype("float32")) is None


def test_quantised_convolutions_of_onnx_are_products_of_bytes():
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    weight = RANDOM.integers(-128, 128, (16, 8, 3, 3)).astype("int8")
    constants = {
        "xs": numpy.float32(0.1), "xz": numpy.uint8(7), "w": weight, "ws": numpy.float32(0.02),
        "wz": numpy.int8(0), "ys": numpy.float32(1.5), "yz": numpy.uint8(100),
    }  # fmt: skip
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    node = helper.make_node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1])
    shape = [1, 8, 6, 6]
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(numpy.asarray(v), k) for k, v in constants.items()],
    )  # fmt: skip
    mod = relax.frontend.onnx.from_onnx(helper.make_model(graph))
    assert onnx is not None and "T.dot_u8i8" in packed(mod, VNNI)
