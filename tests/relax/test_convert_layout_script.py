"""ConvertLayout of relax: which operators follow into a new layout, and that results stay."""

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.ir import structural_equal
from tilesmith.relax import analysis, interpreter, op, transform
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import OpAttributeInvalid, UnsupportedError

rng = np.random.default_rng(0)
NHWC = {"relax.nn.conv2d": ["NHWC", "OHWI"]}
PACKED = {"relax.nn.conv2d": ["NCHW4c", "OIHW4o"]}


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def assert_equal(got, wanted):
    assert structural_equal(got, wanted, True), f"{got.script()}\n\nwanted\n\n{wanted.script()}"


@I.ir_module
class Plain:
    @R.function
    def main(
        x: R.Tensor((2, 3, 8, 8), "float32"),
        w: R.Tensor((4, 3, 3, 3), "float32"),
        b: R.Tensor((4, 1, 1), "float32"),
    ) -> R.Tensor((2, 4, 3, 3), "float32"):
        with R.dataflow():
            y = R.nn.conv2d(x, w)
            z = R.add(y, b)
            r = R.nn.relu(z)
            gv = R.nn.max_pool2d(r, pool_size=[2, 2], strides=[2, 2])
            R.output(gv)
        return gv


@I.ir_module
class ChannelsLast:
    @R.function
    def main(
        x: R.Tensor((2, 3, 8, 8), "float32"),
        w: R.Tensor((4, 3, 3, 3), "float32"),
        b: R.Tensor((4, 1, 1), "float32"),
    ) -> R.Tensor((2, 4, 3, 3), "float32"):
        with R.dataflow():
            x1 = R.permute_dims(x, axes=[0, 2, 3, 1])
            w1 = R.permute_dims(w, axes=[0, 2, 3, 1])
            y = R.nn.conv2d(x1, w1, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC")
            b1 = R.expand_dims(b, axis=[0])
            b2 = R.permute_dims(b1, axes=[0, 2, 3, 1])
            z = R.add(y, b2)
            r = R.nn.relu(z)
            p = R.nn.max_pool2d(
                r, pool_size=[2, 2], strides=[2, 2], layout="NHWC", out_layout="NHWC"
            )
            gv = R.permute_dims(p, axes=[0, 3, 1, 2])
            R.output(gv)
        return gv


def test_neighbours_follow():
    changed = transform.ConvertLayout(NHWC)(Plain)
    assert_equal(changed, ChannelsLast)
    arrays = [f32(2, 3, 8, 8), f32(4, 3, 3, 3), f32(4, 1, 1)]
    want = interpreter.run(Plain, "main", *arrays)
    np.testing.assert_allclose(interpreter.run(changed, "main", *arrays), want, rtol=1e-4)
    again = transform.ConvertLayout({"relax.nn.conv2d": ["NCHW", "OIHW"]})(changed)
    np.testing.assert_allclose(interpreter.run(again, "main", *arrays), want, rtol=1e-4)
    assert transform.ConvertLayout(NHWC)(changed)["main"] is changed["main"]


def network(make):
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 4, 5, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            weight = relax.const(f32(8, 4, 3, 3) / 6)
            y = builder.emit(op.nn.conv2d(x, weight, padding=1))
            value = make(builder, y)
            out = builder.emit_output(builder.emit(value))
        builder.emit_func_output(out)
    return builder.get()


def _norm(builder, y):
    return builder.emit(op.nn.batch_norm(y, *[relax.const(abs(f32(8)) + 1)] * 4, axis=1))[0]


FOLLOWING = {
    "mean of height and width": lambda b, y: op.mean(y, [2, 3]),
    "sum with its axes": lambda b, y: op.sum(y, [1], keepdims=True),
    "everything": lambda b, y: op.max(y),
    "argmax": lambda b, y: op.argmax(y, 1),
    "softmax": lambda b, y: op.nn.softmax(y, axis=1),
    "batch_norm": _norm,
    "group_norm": lambda b, y: op.nn.group_norm(
        y, relax.const(f32(8)), relax.const(f32(8)), 2, 1, [2, 3]
    ),
    "layer_norm": lambda b, y: op.nn.layer_norm(y, relax.const(f32(8)), relax.const(f32(8)), [1]),
    "layer_norm of several": lambda b, y: op.nn.layer_norm(
        y, relax.const(f32(8, 5, 6)), relax.const(f32(8, 5, 6)), [1, 2, 3]
    ),
    "prelu": lambda b, y: op.nn.prelu(y, relax.const(f32(8)), axis=1),
    "concat": lambda b, y: op.concat([y, b.emit(op.exp(y)), relax.const(f32(2, 8, 5, 6))], 1),
    "split": lambda b, y: op.add(*[b.emit(op.split(y, 2, axis=1))[k] for k in (0, 1)]),
    "a whole tuple": lambda b, y: op.concat(b.emit(op.split(y, 2, axis=1)), 2),
    "dropout": lambda b, y: b.emit(op.nn.dropout(y))[0],
    "pad": lambda b, y: op.nn.pad(y, [0, 0, 0, 0, 1, 2, 0, 1]),
    "strided_slice": lambda b, y: op.strided_slice(y, [2, 3], [1, 0], [5, 4], [2, 1]),
    "squeeze": lambda b, y: op.squeeze(b.emit(op.mean(y, [2], keepdims=True)), [2]),
    "permute_dims": lambda b, y: op.exp(b.emit(op.permute_dims(y, [0, 2, 3, 1]))),
    "reshape": lambda b, y: op.reshape(y, (2, 240)),
    "one of another layout": lambda b, y: op.add(y, relax.const(f32(2, 8, 5, 6))),
    "a number": lambda b, y: op.multiply(y, relax.const(2.0)),
    "a row": lambda b, y: op.multiply(y, relax.const(f32(6))),
    "where": lambda b, y: op.where(b.emit(op.greater(y, relax.const(0.0))), y, op.negative(y)),
    "resize2d": lambda b, y: op.image.resize2d(y, (10, 12), layout="NCHW"),
    "avg_pool2d": lambda b, y: op.nn.avg_pool2d(y, (2, 2), (2, 2)),
    "adaptive_avg_pool2d": lambda b, y: op.nn.adaptive_avg_pool2d(y, (1, 1)),
    "flip": lambda b, y: op.flip(y, 1),
    "another convolution": lambda b, y: op.nn.conv2d(y, relax.const(f32(4, 8, 1, 1))),
}


@pytest.mark.parametrize("layouts", [NHWC, PACKED], ids=["NHWC", "NCHW4c"])
@pytest.mark.parametrize("name", FOLLOWING)
def test_results_stay(name, layouts):
    module = network(FOLLOWING[name])
    changed = transform.ConvertLayout(layouts)(module)
    analysis.assert_well_formed(changed)
    assert layouts["relax.nn.conv2d"][0] in changed.script()
    x = f32(2, 4, 5, 6)
    want = interpreter.run(module, "main", x)
    np.testing.assert_allclose(interpreter.run(changed, "main", x), want, rtol=1e-3, atol=1e-4)


def kinds(module):
    values = [binding.value for binding in analysis.bindings_of(module["main"])]
    return [value.op.name for value in values if isinstance(value, relax.Call)]


@pytest.mark.parametrize(
    "name, transformations",
    [
        ("mean of height and width", 2),  # data and weight only
        ("permute_dims", 2),  # the permutation itself is gone
        ("another convolution", 4),
        ("split", 3),
        ("prelu", 3),
        ("layer_norm of several", 3),
        ("resize2d", 3),
    ],
)
def test_how_many_transformations(name, transformations):
    changed = transform.ConvertLayout(NHWC)(network(FOLLOWING[name]))
    assert kinds(changed).count("relax.permute_dims") == transformations


def test_channels_that_do_not_divide_stay():
    changed = transform.ConvertLayout({"relax.nn.conv2d": ["NCHW16c", "OIHW16o"]})(Plain)
    assert changed["main"] is Plain["main"]


def test_pools_by_name():
    changed = transform.ConvertLayout({"relax.nn.max_pool2d": ["NHWC"]})(Plain)
    assert kinds(changed)[-3:] == [
        "relax.permute_dims",
        "relax.nn.max_pool2d",
        "relax.permute_dims",
    ]


@pytest.mark.parametrize(
    "layouts, error, message",
    [
        ({"relax.add": ["NHWC"]}, UnsupportedError, "do not say in which layouts"),
        ({"relax.nn.conv2d": []}, OpAttributeInvalid, "are a list"),
        ({"relax.nn.conv2d": "NHWC"}, OpAttributeInvalid, "are a list"),
    ],
)
def test_what_is_refused(layouts, error, message):
    with pytest.raises(error, match=message):
        transform.ConvertLayout(layouts)(Plain)
