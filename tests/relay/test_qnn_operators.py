"""Operators of quantised networks against numpy, with exact rounding."""

import math
from fractions import Fraction

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.relay.programs import value_of
from tilesmith import ir, relay
from tilesmith.relay import qnn, transform
from tilesmith.relay.qnn.op.parameters import fixed_point
from tilesmith.support.errors import (
    ConfigError,
    OpAttributeInvalid,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)

RANDOM = numpy.random.default_rng(0)


def integers(*shape, dtype="int8"):
    limits = numpy.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def run(expression, *inputs):
    """Return the value of an expression of variables a, b, … for the inputs."""
    variables = [
        relay.var(name, shape=value.shape, dtype=str(value.dtype))
        for name, value in zip("abcdef", inputs)
    ]
    return value_of(relay.Function(variables, expression(*variables)), inputs)


def rounded(value, rounding):
    """Return the nearest integer of a fraction; halves go up, or away from zero."""
    if rounding == "UPWARD" or value >= 0:
        return math.floor(value + Fraction(1, 2))
    return math.ceil(value - Fraction(1, 2))


def limited(value, dtype):
    limits = numpy.iinfo(dtype)
    return min(max(value, limits.min), limits.max)


def requantized(value, factor, in_point, out_point, rounding="UPWARD", dtype="int8"):
    """Return what 31-bit factors give for one integer, in rational numbers."""
    fixed = fixed_point(factor)
    exact = Fraction(int(fixed.multiplier)) * Fraction(2) ** (int(fixed.shift) - 31)
    moved = rounded((int(value) - in_point) * exact, rounding) + out_point
    return limited(moved, dtype)


# The factors


@given(st.floats(min_value=2.0**-30, max_value=2.0**29))
def test_fixed_point_numbers_have_31_bits(factor):
    fixed = fixed_point(factor)
    assert 1 << 30 <= int(fixed.multiplier) < 1 << 31
    value = int(fixed.multiplier) * 2.0 ** (int(fixed.shift) - 31)
    assert abs(value - factor) <= factor * 2.0**-30


def test_fixed_point_limits():
    assert fixed_point(2.0**-40).multiplier == 0
    assert int(fixed_point(1 - 2.0**-40).multiplier) == 1 << 30  # carried to the next power
    with pytest.raises(UnsupportedError, match="factor of"):
        fixed_point(2.0**31)


# Requantisation

SCALES = st.floats(min_value=2.0**-10, max_value=8.0, width=32)
POINTS = st.integers(-100, 100)


@settings(max_examples=40, deadline=None)
@given(
    SCALES, SCALES, POINTS, POINTS, st.sampled_from(["UPWARD", "TONEAREST"]),
    st.sampled_from(["int8", "uint8", "int32"]), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_requantize_rounds_exactly(a, b, in_point, out_point, rounding, dtype, seed):
    data = numpy.random.default_rng(seed).integers(-5000, 5000, 12).astype("int32")
    found = run(
        lambda x: qnn.op.requantize(
            x, a, in_point, b, out_point, rounding=rounding, out_dtype=dtype
        ),
        data,
    )
    factor = float(numpy.float32(a)) / float(numpy.float32(b))
    wanted = [requantized(x, factor, in_point, out_point, rounding, dtype) for x in data]
    numpy.testing.assert_array_equal(found, numpy.array(wanted, dtype))


@pytest.mark.parametrize("compute", ["int64", "float32", "float64"])
@pytest.mark.parametrize(
    "rounding, wanted", [("UPWARD", [-2, -1, 0, 1, 2, 3]), ("TONEAREST", [-3, -2, -1, 1, 2, 3])]
)
def test_halves(compute, rounding, wanted):
    data = numpy.array([-5, -3, -1, 1, 3, 5], "int32")

    def half(x):
        return qnn.op.requantize(
            x, 0.5, 0, 1.0, 0, rounding=rounding, compute_dtype=compute, out_dtype="int32"
        )

    assert run(half, data).tolist() == wanted
    with qnn.op.requantize_config(rounding=rounding, compute_dtype=compute) as config:
        assert qnn.op.current_requantize_config() is config
        assert run(lambda x: qnn.op.requantize(x, 0.5, 0, 1.0, 0), data).tolist() == wanted


def test_requantize_by_channel_and_of_the_greatest_numbers():
    data = integers(2, 3, 4, dtype="int32")
    scales = numpy.array([0.5, 1e-9, 2.0], "float32")
    found = run(
        lambda x: qnn.op.requantize(x, scales, [0, 1, 2], 1.0, 5, axis=1, out_dtype="int32"), data
    )
    for channel, scale in enumerate(scales):
        for x, value in zip(data[:, channel].flat, found[:, channel].flat):
            assert value == requantized(x, float(scale), channel, 5, dtype="int32")


def test_scales_as_inputs():
    data, scale = integers(2, 3, dtype="int32") // 10**7, numpy.array([0.3, 1.5, 4.0], "float32")
    point = numpy.array(3, "int32")
    found = run(
        lambda x, s, p: qnn.op.requantize(x, s, 0, 0.25, p, axis=1, out_dtype="int8"),
        data, scale, point,
    )  # fmt: skip
    wanted = numpy.floor(data * (scale.astype("float64") / 0.25) + 0.5) + 3
    numpy.testing.assert_array_equal(found, wanted.clip(-128, 127).astype("int8"))


# Conversions


def test_quantize_and_dequantize():
    data = RANDOM.uniform(-3, 3, (2, 3, 4)).astype("float32")
    scales, points = numpy.array([0.1, 0.02, 0.5], "float32"), [3, -4, 0]
    found = run(lambda x: qnn.op.quantize(x, scales, points, axis=1), data)
    along = scales.reshape(3, 1), numpy.array(points).reshape(3, 1)
    wanted = (numpy.rint(data / along[0]) + along[1]).clip(-128, 127).astype("int8")
    numpy.testing.assert_array_equal(found, wanted)
    back = run(lambda x: qnn.op.dequantize(x, scales, points, axis=1), wanted)
    exact = (wanted.astype("float64") - along[1]) * along[0]
    numpy.testing.assert_allclose(back, exact.astype("float32"), rtol=1e-6)


def test_simulated_conversions_choose_the_dtype_at_run_time():
    data = RANDOM.uniform(-30, 30, (3, 4)).astype("float32")

    def both(x, code):
        made = qnn.op.simulated_quantize(x, 0.2, 1, out_dtype=code)
        return relay.Tuple([made, qnn.op.simulated_dequantize(made, 0.2, 1, in_dtype=code)])

    function = relay.create_executor("graph", target="llvm").evaluate(
        relay.Function(
            [x := relay.var("x", shape=(3, 4)), c := relay.var("c", "int32")], both(x, c)
        )
    )
    for code, limits in ((1, (-128, 127)), (2, (0, 255)), (0, None)):
        quantized, back = [one.numpy() for one in function(data, numpy.int32(code))]
        wanted = data if limits is None else (numpy.rint(data / 0.2) + 1).clip(*limits)
        numpy.testing.assert_allclose(quantized, wanted, atol=1e-5)
        exact = data if limits is None else (wanted - 1) * 0.2
        numpy.testing.assert_allclose(back, exact, atol=1e-5)
    with pytest.raises(TypeMismatchError, match="int4"):
        qnn.op.simulated_quantize(x, 0.2, 1, out_dtype="int4")


# Products


def _convolved(data, kernel, stride, padding, groups=1):
    data = numpy.pad(data, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    n, channels, height, width = data.shape
    outputs, inner, kh, kw = kernel.shape
    rows, columns = (height - kh) // stride + 1, (width - kw) // stride + 1
    found = numpy.zeros((n, outputs, rows, columns), "int64")
    for o in range(outputs):
        first = o // (outputs // groups) * inner
        for y in range(rows):
            for x in range(columns):
                at = data[
                    :, first : first + inner, y * stride : y * stride + kh,
                    x * stride : x * stride + kw,
                ]  # fmt: skip
                found[:, o, y, x] = (at * kernel[o]).sum((1, 2, 3))
    return found


@pytest.mark.parametrize("dtype, kernel_dtype", [("uint8", "int8"), ("int8", "int8"),
                                                 ("uint8", "uint8")])  # fmt: skip
@pytest.mark.parametrize("groups, stride, padding", [(1, 1, 1), (1, 2, 0), (4, 1, 1)])
def test_conv2d(dtype, kernel_dtype, groups, stride, padding):
    data, kernel = (
        integers(2, 4, 5, 5, dtype=dtype),
        integers(4, 4 // groups, 3, 3, dtype=kernel_dtype),
    )
    kernel_points = [3, 0, -2, 9]
    found = run(
        lambda x, w: qnn.op.conv2d(
            x, w, 5, kernel_points, 0.1, [0.1, 0.2, 0.3, 0.4], kernel_size=(3, 3), channels=4,
            strides=(stride, stride), padding=(padding, padding), groups=groups,
        ),
        data, kernel,
    )  # fmt: skip
    centred = kernel.astype("int64") - numpy.array(kernel_points).reshape(-1, 1, 1, 1)
    wanted = _convolved(data.astype("int64") - 5, centred, stride, padding, groups)
    numpy.testing.assert_array_equal(found, wanted)


def test_conv2d_transpose_is_the_gradient_of_conv2d():
    data, kernel = integers(1, 3, 4, 4), integers(3, 2, 3, 3)
    found = run(
        lambda x, w: qnn.op.conv2d_transpose(
            x, w, 2, 1, 0.1, 0.1, strides=(2, 2), padding=(1, 1), channels=2, kernel_size=(3, 3)
        ),
        data, kernel,
    ).astype("int64")  # fmt: skip
    other = integers(*found.shape).astype("int64")  # <conv(z), x> = <z, transposed(x)>
    forward = _convolved(other, kernel.astype("int64") - 1, 2, 1)
    assert (forward * (data.astype("int64") - 2)).sum() == (other * found).sum()


def test_products_of_matrices():
    x, w = integers(3, 7, dtype="uint8"), integers(4, 7)
    points = numpy.array([1, -2, 0, 5])
    wanted = (x.astype("int64") - 9) @ (w.astype("int64") - points[:, None]).T
    for function in (
        lambda a, b: qnn.op.dense(a, b, 9, points, 0.1, [0.1] * 4, units=4),
        lambda a, b: qnn.op.contrib_dense_pack(a, b, 9, points, 0.1, [0.1] * 4, units=4),
    ):
        numpy.testing.assert_array_equal(run(function, x, w), wanted)
    a, b = integers(2, 3, 5), integers(2, 4, 5)
    found = run(lambda p, q: qnn.op.batch_matmul(p, q, 3, -4, 0.1, 0.2), a, b)
    wanted = (a.astype("int64") - 3) @ (b.astype("int64") + 4).transpose(0, 2, 1)
    numpy.testing.assert_array_equal(found, wanted)
    with pytest.raises(OpAttributeInvalid, match="relay.build packs"):
        run(lambda p, q: qnn.op.contrib_dense_pack(p, q, 0, 0, 1.0, 1.0, "NC16n4c"), x, w)


# Element by element


@settings(max_examples=15, deadline=None)
@given(SCALES, SCALES, SCALES, POINTS, POINTS, POINTS, st.sampled_from(["int8", "uint8"]))
def test_sums_and_products(a, b, c, za, zb, zc, dtype):
    x, y = integers(9, dtype=dtype), integers(9, dtype=dtype)
    scales = [float(numpy.float32(one)) for one in (a, b, c)]
    given_ = (a, za, b, zb, c, zc)

    def each(rule):
        return numpy.array([limited(rule(int(p), int(q)), dtype) for p, q in zip(x, y)], dtype)

    def moved(value, scale, point):
        if (scale, point) == (scales[2], zc):
            return value
        return requantized(value, scale / scales[2], point, zc, dtype="int32")

    add = run(lambda p, q: qnn.op.add(p, q, *given_), x, y)
    left = [(moved(p, scales[0], za), moved(q, scales[1], zb)) for p, q in zip(x, y)]
    wanted = [limited(int(p) + int(q) - zc, dtype) for p, q in left]
    numpy.testing.assert_array_equal(add, numpy.array(wanted, dtype))
    subtract = run(lambda p, q: qnn.op.subtract(p, q, *given_), x, y)
    wanted = [limited(int(p) - int(q) + zc, dtype) for p, q in left]
    numpy.testing.assert_array_equal(subtract, numpy.array(wanted, dtype))
    factor = scales[0] * scales[1] / scales[2]
    mul = run(lambda p, q: qnn.op.mul(p, q, *given_), x, y)
    numpy.testing.assert_array_equal(
        mul, each(lambda p, q: requantized((p - za) * (q - zb), factor, 0, zc, dtype=dtype))
    )


def test_parameters_by_channel_of_a_sum():
    x, y = integers(2, 3), integers(2, 3)
    scales = numpy.array([0.1, 0.2, 0.4], "float32")
    found = run(lambda p, q: qnn.op.add(p, q, scales, 0, 0.1, 0, 0.2, 0, lhs_axis=1), x, y)
    real = x * scales.astype("float64") + y * float(numpy.float32(0.1))
    assert numpy.abs(found * 0.2 - numpy.clip(real, -25.6, 25.4)).max() < 0.2 + 1e-6


FUNCTIONS = {
    "tanh": numpy.tanh, "exp": numpy.exp, "sqrt": numpy.sqrt, "rsqrt": lambda x: x**-0.5,
    "erf": numpy.vectorize(math.erf), "abs": numpy.abs,
    "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "hardswish": lambda x: x * (x + 3).clip(0, 6) / 6, "log": numpy.log,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, dtype):
    least = -100 if dtype == "int8" else 0
    x = numpy.arange(least, least + 100).astype(dtype)
    point = least - 1 if name in ("sqrt", "rsqrt", "log") else least + 40
    real = FUNCTIONS[name]((x.astype("float64") - point) * 0.05)
    found = run(lambda v: getattr(qnn.op, name)(v, 0.05, point, 0.02, 7), x)
    limits = numpy.iinfo(dtype)
    wanted = (real / 0.02 + 7).clip(limits.min, limits.max)
    assert found.dtype == dtype
    assert numpy.abs(found - wanted).max() <= 0.501
    dynamic = run(lambda v, s: getattr(qnn.op, name)(v, s, point, 0.02, 7), x, numpy.float32(0.05))
    assert numpy.abs(dynamic.astype("int64") - found.astype("int64")).max() <= 1


def test_leaky_relu_softmax_pool_and_concatenate():
    x = integers(2, 5)
    found = run(lambda v: qnn.op.leaky_relu(v, 0.3, 0.1, 4, 0.05, -3), x)
    real = (x.astype("float64") - 4) * 0.1
    wanted = (numpy.where(real > 0, real, 0.3 * real) / 0.05 - 3).clip(-128, 127)
    assert numpy.abs(found - wanted).max() <= 0.501
    found = run(lambda v: qnn.op.softmax(v, 0.1, 4, 1 / 256, -128), x)
    power = numpy.exp(real)
    wanted = (power / power.sum(-1, keepdims=True) * 256 - 128).clip(-128, 127)
    assert numpy.abs(found - wanted).max() <= 0.51
    image = integers(1, 4, 4, 2, dtype="uint8")
    found = run(
        lambda v: qnn.op.avg_pool2d(v, 0.1, 7, 0.2, 5, (2, 2), (2, 2), (0, 0), (1, 1)), image
    )
    mean = (image.reshape(1, 2, 2, 2, 2, 2).astype("float64") - 7).mean((2, 4)) / 2 + 5
    assert numpy.abs(found - mean.clip(0, 255)).max() <= 0.51
    y = integers(2, 3)
    found = run(lambda a, b: qnn.op.concatenate([a, b], [0.1, 0.2], [0, 3], 0.1, 0, axis=1), x, y)
    other = [[requantized(v, 2.0, 3, 0) for v in row] for row in y]
    numpy.testing.assert_array_equal(found, numpy.concatenate([x, other], 1))


# Errors, text, compiled code


def test_errors_name_operator_and_parameter():
    x, image = relay.var("x", shape=(2, 3), dtype="int8"), relay.var("i", shape=(1, 4, 5, 5))
    bad = {
        "qnn.requantize: input_scale is of float64": lambda: qnn.op.requantize(
            x, relay.const(1.0, "float64"), 0, 1.0, 0
        ),
        "input_zero_point is of float32": lambda: qnn.op.dequantize(x, 1.0, relay.const(0.5)),
        "input_scale has 2 elements, the tensor has 3 channels": lambda: qnn.op.dequantize(
            x, [1.0, 2.0], 0
        ),
        "output_scale has the shape": lambda: qnn.op.requantize(x, 1.0, 0, [1.0, 2.0], 0),
        "has to be positive": lambda: qnn.op.dequantize(x, 0.0, 0),
        "qnn.quantize: data is of int8": lambda: qnn.op.quantize(x, 1.0, 0),
        "qnn.conv2d: data is of float32": lambda: qnn.op.conv2d(
            image, relay.const(integers(2, 4, 3, 3)), 0, 0, 1.0, 1.0, (3, 3), 2
        ),
        "rounds": lambda: qnn.op.requantize(x, 1.0, 0, 1.0, 0, rounding="DOWN"),
    }  # fmt: skip
    for message, make in bad.items():
        params = [image] if "float32" in message and "conv" in message else [x]
        mod = ir.IRModule.from_expr(relay.Function(params, make()))
        with pytest.raises((TypeMismatchError, ShapeError, OpAttributeInvalid), match=message):
            transform.InferType()(mod)
    with pytest.raises(ConfigError, match="no field 'round'"):
        qnn.op.requantize_config(round="UPWARD")
    with pytest.raises(ConfigError, match="'DOWN'"):
        qnn.op.requantize_config(rounding="DOWN")


def network():
    """Return a function of many operators of the dialect, and its inputs."""
    x = relay.var("x", shape=(1, 8, 7, 7), dtype="uint8")
    scales = RANDOM.uniform(0.01, 0.05, 6).astype("float32")
    made = qnn.op.conv2d(
        x, relay.const(integers(6, 8, 3, 3)), 120, 0, 0.05, scales, (3, 3), 6, padding=(1, 1)
    )
    made = relay.nn.bias_add(made, relay.const(integers(6, dtype="int16").astype("int32")))
    made = qnn.op.requantize(made, scales * 0.05, 0, 1.5, 3, axis=1, out_dtype="int8")
    other = qnn.op.hardswish(made, 1.5, 3, 1.0, -20)
    total = qnn.op.add(made, other, 1.5, 3, 1.0, -20, 2.0, 0)
    joined = qnn.op.concatenate([total, other], [2.0, 1.0], [0, -20], 2.0, 1, axis=1)
    pooled = qnn.op.avg_pool2d(
        joined, 2.0, 1, 1.0, 0, (7, 7), (1, 1), (0, 0), (1, 1), layout="NCHW"
    )
    flat = relay.reshape(pooled, (1, 12))
    out = qnn.op.dense(flat, relay.const(integers(5, 12)), 0, 0, 1.0, 0.1, units=5)
    probabilities = qnn.op.softmax(
        qnn.op.requantize(out, 0.1, 0, 4.0, 0, rounding="TONEAREST"), 0.1, 0, 1 / 256, -128
    )
    return relay.Function([x], relay.Tuple([total, out, probabilities])), [
        integers(1, 8, 7, 7, dtype="uint8")
    ]


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c"])
def test_compiled_code_gives_the_same_integers(target):
    function, inputs = network()
    wanted = value_of(function, inputs)
    found = relay.create_executor("graph", target=target).evaluate(function)(*inputs)
    for a, b in zip(found[:2], wanted[:2]):
        numpy.testing.assert_array_equal(a.numpy(), b)
    assert numpy.abs(found[2].numpy().astype(int) - wanted[2]).max() <= 1  # a softmax of floats


def test_text_of_the_dialect_can_be_parsed():
    function, _ = network()
    mod = ir.IRModule.from_expr(function)
    again = relay.parse(mod.astext(show_meta_data=True))
    ir.assert_structural_equal(again, mod)


def test_constants_are_folded_only_if_asked():
    made = qnn.op.quantize(relay.const(numpy.float32([1.0, 2.0])), 0.5, 0)
    mod = ir.IRModule.from_expr(relay.Function([], made))
    assert isinstance(transform.FoldConstant()(mod)["main"].body, relay.Call)
    folded = transform.FoldConstant(fold_qnn=True)(mod)["main"].body
    assert folded.data.numpy().tolist() == [2, 4]
