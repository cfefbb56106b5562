"""FakeQuantizationToInteger: the integers compute what the quantised floats do."""

import numpy
import pytest

from tests.relay.programs import value_of
from tilesmith import ir, relay
from tilesmith.ir import Op
from tilesmith.relay import qnn, transform
from tilesmith.relay.transform import fake_quantization_to_integer as rules
from tilesmith.relay.walks import post_order
from tilesmith.support.errors import UnsupportedError

RANDOM = numpy.random.default_rng(1)


def integers(*shape, dtype="int8"):
    limits = numpy.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def named(function):
    return [
        node.op.name
        for node in post_order(function)
        if isinstance(node, relay.Call) and isinstance(node.op, Op)
    ]


def variable(name, value):
    return relay.var(name, shape=value.shape, dtype=str(value.dtype))


IMAGE, OTHER, FLAT = integers(1, 4, 6, 6), integers(1, 4, 6, 6), integers(3, 8)
KERNEL, TRANSPOSED, ROWS = integers(5, 4, 3, 3), integers(4, 5, 3, 3), integers(6, 8)
BIAS = RANDOM.integers(-900, 900, 5).astype("int32")
KERNEL_SCALES = RANDOM.uniform(0.01, 0.03, 5).astype("float32")


def deq(value, scale, point=0, axis=-1):
    return qnn.op.dequantize(value, scale, point, axis=axis)


def conv(x):
    return relay.nn.conv2d(
        x, deq(relay.const(KERNEL), KERNEL_SCALES, axis=0), channels=5, kernel_size=(3, 3),
        padding=(1, 1),
    )  # fmt: skip


def shifted(x):
    return relay.const(numpy.float32(0.5)) * x + relay.const(numpy.float32([[[1.0]], [[2.0]]] * 2))


# name → (function of dequantised tensors, inputs, scale and zero point of the result)
IMAGES = {
    "conv2d": (conv, 0.4, 3),
    "bias_add": (
        lambda x: relay.nn.bias_add(conv(x), deq(relay.const(BIAS), KERNEL_SCALES * 0.05, axis=0)),
        0.4, 3,
    ),
    "bias of floats, relu": (
        lambda x: relay.nn.relu(relay.nn.bias_add(conv(x), relay.const(numpy.float32([1] * 5)))),
        0.4, -128,
    ),
    "sum of sums": (lambda x: conv(x) + relay.const(numpy.float32([[[2.0]]] * 5)), 0.4, 0),
    "residual": (lambda x: conv(x) + relay.strided_slice(
        relay.concatenate([x, x], 1), [0, 0, 0, 0], [1, 5, 6, 6]), 0.4, 3),
    "conv2d_transpose": (
        lambda x: relay.nn.conv2d_transpose(
            x, deq(relay.const(TRANSPOSED), 0.02), strides=(2, 2), channels=5, kernel_size=(3, 3)
        ), 0.4, 0,
    ),
    "constants": (shifted, 0.05, 0),
    "factors": (
        lambda x: x * relay.const(numpy.float32([[[1.5]], [[-2.0]], [[0.5]], [[0]]])), 0.1, 3
    ),
    "batch normalisation": (lambda x: relay.nn.relu(conv(x) * relay.const(numpy.float32(
        [[[1.5]], [[-2.0]], [[0.5]], [[0]], [[1]]])) + relay.const(numpy.float32(
            [[[3]], [[-2]], [[0]], [[9]], [[1]]]))), 0.4, -100),
    "pad": (lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (0, 2)), 0.3), 0.05, 5),
    "clip": (lambda x: relay.clip(x, -1.0, 3.0), 0.05, 5),
    "max_pool2d": (lambda x: relay.nn.max_pool2d(x, (2, 2), (2, 2)), 0.05, 5),
    "avg_pool2d": (lambda x: relay.nn.avg_pool2d(x, (2, 2), (2, 2)), 0.05, 5),
    "global_avg_pool2d": (lambda x: relay.nn.global_avg_pool2d(x), 0.05, 5),
    "mean": (lambda x: relay.mean(x, axis=[1], keepdims=True), 0.047, 5),
    "mean, exclude": (lambda x: relay.mean(x, axis=1, exclude=True), 0.05, 5),
    "shapes": (lambda x: relay.expand_dims(relay.squeeze(relay.reshape(relay.transpose(
        x, (0, 2, 3, 1)), (1, 36, 4))), 0), 0.05, 5),
    "split": (lambda x: relay.split(x, 2, axis=1)[1], 0.05, 5),
    "take": (lambda x: relay.take(x, relay.const([2, 0]), axis=1), 0.05, 5),
    "topk": (lambda x: relay.topk(x, 3, axis=1, ret_type="values"), 0.05, 5),
    "broadcast_to": (lambda x: relay.broadcast_to(x, (2, 4, 6, 6)), 0.05, 5),
    "tanh": (lambda x: relay.tanh(x), 1 / 127, 0),
    "leaky_relu": (lambda x: relay.nn.leaky_relu(x, 0.2), 0.04, 0),
    "tanh of sums": (lambda x: relay.tanh(conv(x)), 1 / 127, 0),
    "sigmoid": (lambda x: relay.sigmoid(x), 1 / 255, -128),
}  # fmt: skip


def both(make, inputs, scales, scale, point, dtype="int8", **options):
    """Return the integers of the quantised floats and those of the converted program."""
    variables = [variable(name, value) for name, value in zip("xy", inputs)]
    floats = [deq(one, *parameters) for one, parameters in zip(variables, scales)]
    body = qnn.op.quantize(make(*floats), scale, point, out_dtype=dtype)
    mod = ir.IRModule.from_expr(relay.Function(variables, body))
    converted = transform.FakeQuantizationToInteger(hard_fail=True, **options)(mod)
    assert "qnn.dequantize" not in named(converted["main"]), converted
    wanted = value_of(mod["main"], inputs)
    found = value_of(converted["main"], inputs)
    assert found.dtype == dtype and len(numpy.unique(wanted)) > 2
    return found.astype(int), wanted.astype(int)


@pytest.mark.parametrize("name", IMAGES)
def test_one_tensor(name):
    make, scale, point = IMAGES[name]
    found, wanted = both(make, [IMAGE], [(0.05, 5)], scale, point)
    assert numpy.abs(found - wanted).max() <= 1
    assert (found != wanted).mean() < 0.35  # a sum rounds each operand


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_two_tensors(name):
    found, wanted = both(getattr(relay, name), [IMAGE, OTHER], [(0.05, 5), (0.03, -7)], 0.06, 1)
    assert numpy.abs(found - wanted).max() <= 1  # each operand is rounded before they are added


def test_products_and_joins():
    dense = both(
        lambda x: relay.nn.dense(x, deq(relay.const(ROWS), [0.1, 0.2] * 3, axis=0)),
        [FLAT], [(0.05, 3)], 0.5, 0,
    )  # fmt: skip
    numpy.testing.assert_array_equal(*dense)
    a, b = integers(2, 3, 4), integers(2, 4, 5)
    for transposed in (False, True):
        found = both(
            lambda x, y, flag=transposed: relay.nn.batch_matmul(x, y, transpose_b=flag),
            [a, b.transpose(0, 2, 1).copy() if transposed else b],
            [(0.05, 3), (0.02, 0)], 0.2, 0,
        )  # fmt: skip
        numpy.testing.assert_array_equal(*found)
    for scale, dtype in (((0.05, 3), "int8"), ((0.02, 1), "int8"), ((0.02, 1), "uint8")):
        found, wanted = both(
            lambda x, y: relay.concatenate([x, y], 1), [IMAGE, OTHER], [(0.05, 3), scale], 0.05, 3,
            dtype,
        )  # fmt: skip
        assert numpy.abs(found - wanted).max() <= 1


def test_softmax_is_converted_if_asked():
    def make(x):
        return relay.nn.softmax(x)

    with pytest.raises(UnsupportedError, match=r"nn\.softmax has no rule"):
        both(make, [FLAT], [(0.05, 3)], 1 / 256, -128)
    found, wanted = both(make, [FLAT], [(0.05, 3)], 1 / 256, -128, optional_qnn_ops=["nn.softmax"])
    assert numpy.abs(found - wanted).max() <= 1


def test_what_has_no_integer_form_stays():
    x = variable("x", IMAGE)
    body = qnn.op.quantize(relay.cos(relay.nn.relu(deq(x, 0.05, 5))), 1 / 127, 0)
    mod = ir.IRModule.from_expr(relay.Function([x], body))
    same = transform.FakeQuantizationToInteger()(mod)
    ir.assert_structural_equal(same, transform.InferType()(mod))
    with pytest.raises(UnsupportedError, match="cos has no rule"):
        transform.FakeQuantizationToInteger(hard_fail=True)(mod)


def test_quantisation_aware_training_goes_on_after_the_last_quantize():
    x = variable("x", IMAGE)
    body = relay.cos(relay.nn.relu(conv(deq(x, 0.05, 5))))
    mod = ir.IRModule.from_expr(relay.Function([x], body))
    assert "nn.conv2d" in named(transform.FakeQuantizationToInteger()(mod)["main"])
    made = transform.FakeQuantizationToInteger(use_qat=True)(mod)["main"]
    assert named(made) == ["qnn.conv2d", "maximum", "qnn.dequantize", "cos"]
    numpy.testing.assert_allclose(
        value_of(made, [IMAGE]), value_of(mod["main"], [IMAGE]), atol=1e-4
    )


def test_parts_of_two_regions_are_shared():
    x = variable("x", IMAGE)
    middle = relay.nn.relu(conv(deq(x, 0.05, 5)))
    outs = [qnn.op.quantize(middle, scale, 0) for scale in (0.1, 0.4)]
    mod = ir.IRModule.from_expr(relay.Function([x], relay.Tuple(outs)))
    made = transform.FakeQuantizationToInteger(hard_fail=True)(mod)["main"]
    assert named(made) == ["qnn.conv2d", "maximum", "qnn.requantize", "qnn.requantize"]


def test_a_rule_of_the_program():
    op = Op.get("cos")

    @ir.register_op_attr("cos", rules.RULE)
    def cosine(expr, type_map):
        wanted = type_map[expr]
        given = type_map[expr.args[0]]
        table = qnn.op.canonicalizations.create_integer_lookup_op(
            expr.args[0], numpy.cos, given.scale, given.zero_point, wanted.scale,
            wanted.zero_point, in_dtype="int8", out_dtype="int8",
        )  # fmt: skip
        return [table, wanted]

    try:
        found = both(lambda x: relay.cos(x), [IMAGE], [(0.05, 5)], 1 / 127, 0)
    finally:
        op.reset_attr(rules.RULE)
    assert numpy.abs(found[0] - found[1]).max() <= 1


def test_helpers_of_rules():
    one, two = relay.const(0.5), relay.const(0.25) + relay.const(0.25)
    assert rules.approx_equal(one, two)
    assert not rules.approx_equal(one, relay.const(0.6))
    assert rules.fold_constant(two).data.numpy() == numpy.float32(0.5)
    assert rules.get_zeros(relay.const(numpy.float32([1, 2]))).data.numpy().tolist() == [0, 0]
    assert rules.infer_shape(relay.var("x", shape=(2, 3))) == (2, 3)
