"""Quantised convolutions and products run as integers: each form against exact sums of torch."""

import numpy
import pytest

from tilesmith import relax
from tilesmith.relax.transform import FoldConstant, PackForVectors
from tilesmith.relax.transform.byte_products import centred_bytes, joined_groups
from tilesmith.script import relax as R

torch = pytest.importorskip("torch")

RANDOM = numpy.random.default_rng(0)
VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"
ARM = "llvm -mtriple=aarch64-linux-gnu -mattr=+dotprod"
LIMITS = {"int8": (-128, 128), "uint8": (0, 256)}


def convolution(x, weight, point, weight_point, groups=1, stride=1, padding=1, dilation=1):
    """Return a module of a quantised convolution; the points are numbers or arrays."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", R.Tensor(x.shape, str(x.dtype)))
    kernel = relax.const(weight.astype("int32") - numpy.asarray(weight_point, "int32"))
    with builder.function("main", [data]):
        wide = relax.op.astype(data, "int32")
        if point:
            wide = relax.op.subtract(wide, relax.const(point, "int32"))
        builder.emit_func_output(
            builder.emit(
                relax.op.nn.conv2d(
                    wide, kernel, strides=[stride, stride], padding=[padding, padding],
                    dilation=[dilation, dilation], groups=groups,
                )
            )
        )  # fmt: skip
    return builder.get()


def exact(x, weight, point, weight_point, groups=1, stride=1, padding=1, dilation=1):
    found = torch.nn.functional.conv2d(
        torch.tensor(x.astype("float64") - point),
        torch.tensor(weight.astype("float64") - weight_point),
        stride=stride, padding=padding, dilation=dilation, groups=groups,
    )  # fmt: skip
    return found.numpy().astype("int32")


def along(count):
    return RANDOM.integers(0, 256, count).reshape(-1, 1, 1, 1)


CONVOLUTIONS = [
    # shape, weight, dtypes, points, options
    ((1, 5, 6, 7), (19, 5, 3, 3), "uint8", "uint8", 7, 131, {}),
    ((2, 8, 5, 5), (16, 8, 3, 3), "int8", "uint8", -3, along(16), {"stride": 2}),
    ((1, 8, 5, 5), (9, 8, 1, 1), "int8", "int8", 0, 100, {"padding": 0}),
    ((1, 24, 5, 7), (48, 6, 3, 3), "uint8", "int8", 130, 0, {"groups": 4}),
    ((1, 16, 6, 5), (32, 4, 3, 3), "int8", "int8", 5, 0, {"groups": 4, "dilation": 2}),
    ((1, 9, 6, 5), (15, 3, 3, 3), "uint8", "uint8", 5, along(15), {"groups": 3}),
    ((1, 40, 5, 5), (96, 5, 3, 2), "int8", "uint8", 5, 77, {"groups": 8}),
    ((1, 6, 5, 5), (12, 1, 3, 3), "uint8", "int8", 3, 0, {"groups": 6}),
    ((1, 19, 6, 5), (19, 1, 3, 3), "uint8", "int8", 128, 0, {"groups": 19}),
    ((2, 32, 7, 5), (32, 1, 5, 3), "int8", "uint8", -9, along(32), {"groups": 32, "stride": 2}),
]


@pytest.mark.parametrize(
    "shape, kernel, dtype, weight_dtype, point, weight_point, options", CONVOLUTIONS
)
@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c"])
def test_convolutions(target, shape, kernel, dtype, weight_dtype, point, weight_point, options):
    x = RANDOM.integers(*LIMITS[dtype], shape).astype(dtype)
    weight = RANDOM.integers(*LIMITS[weight_dtype], kernel).astype(weight_dtype)
    mod = convolution(x, weight, point, weight_point, **options)
    for instructions in (VNNI, ARM):
        text = PackForVectors(instructions)(FoldConstant()(mod)).script()
        assert "_bytes" in text if kernel[1] == 1 and kernel[0] == shape[1] else "T.dot_" in text
        assert "R.nn.conv2d" not in text
    found = relax.build(mod, target)(x)
    want = exact(x, weight, point, weight_point, **options)
    numpy.testing.assert_array_equal(found.numpy(), want)


def product(x, weight, point, weight_point, is_known):
    builder = relax.BlockBuilder()
    data = relax.Var("x", R.Tensor(x.shape, str(x.dtype)))
    zero = relax.Var("zero", R.Tensor((), str(x.dtype)))
    kernel = relax.const(weight.astype("int32") - numpy.asarray(weight_point, "int32"))
    with builder.function("main", [data, zero]):
        wide = relax.op.astype(data, "int32")
        if is_known:
            taken = relax.const(point, "int32")
        else:
            taken = builder.emit(relax.op.astype(zero, "int32"))
        wide = builder.emit(relax.op.subtract(wide, taken))
        builder.emit_func_output(builder.emit(relax.op.matmul(wide, kernel)))
    return builder.get()


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("weight_point", [0, 100, "each"])
def test_products(dtype, weight_point, is_known):
    x = RANDOM.integers(*LIMITS[dtype], (5, 19)).astype(dtype)
    weight = RANDOM.integers(0, 256, (19, 23)).astype("uint8")
    if weight_point == "each":
        weight_point = RANDOM.integers(0, 256, 23)
    point = numpy.array(77, dtype)
    mod = product(x, weight, 77, weight_point, is_known)
    assert "T.dot_u8i8" in PackForVectors(VNNI)(FoldConstant()(mod)).script()
    assert "T.dot_i8i8" in PackForVectors(ARM)(FoldConstant()(mod)).script()
    found = relax.build(mod, "llvm -mcpu=native")(x, point)
    want = (x.astype("int32") - 77) @ (weight.astype("int32") - weight_point)
    numpy.testing.assert_array_equal(found.numpy(), want)


def test_a_point_of_run_time_in_a_convolution_without_padding():
    x = RANDOM.integers(0, 256, (1, 8, 5, 5)).astype("uint8")
    weight = RANDOM.integers(-128, 128, (16, 8, 3, 3)).astype("int32") + 100
    builder = relax.BlockBuilder()
    data = relax.Var("x", R.Tensor(x.shape, "uint8"))
    zero = relax.Var("zero", R.Tensor((), "uint8"))
    with builder.function("main", [data, zero]):
        point = builder.emit(relax.op.astype(zero, "int32"))
        wide = builder.emit(relax.op.subtract(relax.op.astype(data, "int32"), point))
        made = relax.op.nn.conv2d(wide, relax.const(weight))
        builder.emit_func_output(builder.emit(made))
    mod = builder.get()
    assert "T.dot_u8i8" in PackForVectors(VNNI)(mod).script()
    found = relax.build(mod, "llvm -mcpu=native")(x, numpy.uint8(9))
    numpy.testing.assert_array_equal(found.numpy(), exact(x, weight, 9, 0, padding=0))


def test_weights_become_bytes():
    weights = RANDOM.integers(-300, -44, (7, 4, 3))
    values, taken = centred_bytes(weights)
    numpy.testing.assert_array_equal(values + taken.reshape(-1, 1, 1), weights)
    assert centred_bytes(RANDOM.integers(-128, 128, (3, 5)))[1].tolist() == [0, 0, 0]
    assert centred_bytes(numpy.array([[0, 256]])) is None


def test_groups_are_joined_until_they_fill_vectors():
    weights = RANDOM.integers(-128, 128, (32, 4, 3, 3))
    joined, left = joined_groups(weights, 8, 16)
    assert left == 2 and joined.shape == (32, 16, 3, 3)
    numpy.testing.assert_array_equal(joined[5, 4:8], weights[5])
    assert joined.astype(bool).sum() == weights.astype(bool).sum()
    assert joined_groups(weights[:15], 5, 16)[1] == 1
    assert joined_groups(numpy.ones((67 * 3, 1, 1, 1)), 67, 16) is None
