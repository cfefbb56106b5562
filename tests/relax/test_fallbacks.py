"""Each pass that leaves something as it is says where and why."""

import numpy as np
import pytest

from tilesmith import relax
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.relax import op
from tilesmith.relax import transform as passes
from tilesmith.relax.dpl import is_op, wildcard
from tilesmith.script import relax as R
from tilesmith.support.fallbacks import collect_fallbacks

IMAGE, ROWS = (1, 4, 8, 8), (4, 16)


def weights(*shape):
    return relax.const(np.ones(shape, "float32"))


def function(body, shape=IMAGE, dtype="float32"):
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(body(builder, x))
        builder.emit_func_output(result)
    return builder.get()


def told(transform, module):
    with collect_fallbacks() as report:
        transform(module)
    return [(one.kind, one.subject, one.reason) for one, _ in report.rows()]


def convolution(x, channels=16, **options):
    return op.nn.conv2d(x, weights(channels, 4 // options.get("groups", 1), 3, 3), **options)


def scaled_and_used(builder, x):
    y = builder.emit(convolution(x))
    return op.add(op.multiply(y, weights(16, 1, 1)), y)


def normalised(builder, x):
    """Layer normalisation of an axis that is not the last one."""
    centred = builder.emit(op.subtract(x, op.mean(x, 0, True)))
    variance = op.mean(op.multiply(centred, centred), 0, True)
    root = op.sqrt(op.add(variance, relax.const(1e-5, "float32")))
    return op.add(op.multiply(op.divide(centred, root), weights(16)), weights(16))


def shifted_gelu(builder, x):
    bell = op.add(op.erf(op.divide(x, relax.const(1.5, "float32"))), relax.const(1.0, "float32"))
    return op.multiply(op.multiply(x, relax.const(0.5, "float32")), bell)


PACKING = [
    (lambda b, x: convolution(x, 4), "it has fewer than 8 output channels"),
    (lambda b, x: convolution(x, 4, groups=2), "it has fewer than 8 output channels"),
    (lambda b, x: op.nn.conv2d(x, x), "its weights are not constant"),
]


@pytest.mark.parametrize("cpu", ["znver3", "znver5"])
@pytest.mark.parametrize(("body", "reason"), PACKING)
def test_packing(body, reason, cpu):
    module = function(lambda b, x: b.emit(body(b, x)))
    pack = passes.PackForVectors(f"llvm -mcpu={cpu}")
    assert told(pack, module) == [("packing", "main: relax.nn.conv2d", reason)]


def test_packing_of_products_and_sizes():
    narrow = function(lambda b, x: op.matmul(x, weights(16, 4)), ROWS)
    reason = "its weights have fewer than 8 columns"
    assert told(passes.PackForVectors(), narrow) == [("packing", "main: relax.matmul", reason)]
    two_values = function(lambda b, x: op.matmul(x, op.permute_dims(x)), ROWS)
    assert told(passes.PackForVectors(), two_values) == []


@pytest.mark.parametrize(
    ("body", "name", "reason"),
    [
        (lambda y: op.nn.softmax(y, 1), "nn.softmax", "it does not support the channels last"),
        (lambda y: op.flip(y, 1), "flip", "it does not support the channels last"),
        (
            lambda y: op.add(y, weights(6)),
            "add",
            'its operand R.Tensor((6,), dtype="float32") has no form with the channels last',
        ),
    ],
)
def test_ways_back_to_the_old_layout(body, name, reason):
    module = function(lambda b, x: body(b.emit(convolution(x))))
    assert told(passes.PackForVectors(), module) == [("layout", f"main: relax.{name}", reason)]


@pytest.mark.parametrize(
    ("body", "place", "reason"),
    [
        (normalised, "layer normalisation", "the axes are not the last ones"),
        (shifted_gelu, "gelu", "its constants are not those of gelu"),
    ],
)
def test_recognition(body, place, reason):
    assert set(told(passes.RecognizeOps(), function(body, ROWS))) == {
        ("recognition", f"main: {place}", reason)
    }


def test_factors_that_are_not_folded():
    found = told(passes.FoldScaleAxis(), function(scaled_and_used))
    reason = "its result is also used without the factor"
    assert found == [("folding", "main: factor of relax.nn.conv2d", reason)]


def test_fusion_up_to_a_depth():
    def body(builder, x):
        for _ in range(4):
            x = builder.emit(op.exp(x))
        return op.exp(x)

    lower = Sequential([passes.LegalizeOps(), passes.AnnotateTIROpPattern(), passes.FuseOps()])
    assert told(lower, function(body, ROWS)) == []
    with PassContext(config={"relax.FuseOps.max_depth": 2}):
        found = told(lower, function(body, ROWS))
    reason = "more than 2 calls in one function (relax.FuseOps.max_depth)"
    assert found and {(kind, why) for kind, _, why in found} == {("fusion", reason)}


def test_patterns_whose_inner_values_are_used_elsewhere():
    def body(builder, x):
        product = builder.emit(op.matmul(x, weights(16, 16)))
        return op.add(op.nn.relu(product), product)

    pattern = is_op("relax.nn.relu")(is_op("relax.matmul")(wildcard(), wildcard()))
    ((kind, subject, reason),) = told(
        passes.FuseOpsByPattern([("mine.product", pattern)]), function(body, ROWS)
    )
    assert kind == "fusion" and subject.startswith("main: pattern 'mine.product' at ")
    assert reason == "an inner value of the match is used outside of it"
    relu = is_op("relax.nn.relu")(wildcard())
    refusing = passes.FuseOpsByPattern([("mine.relu", relu, {}, lambda context: False)])
    ((_, _, reason),) = told(refusing, function(body, ROWS))
    assert reason == "the check of the pattern refused"


def test_sub_functions_that_do_not_become_a_kernel():
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor(ROWS, "float32"))
    with builder.function("fused", [x], attrs={"Primitive": 1}, private=True):
        with builder.dataflow():
            result = builder.emit_output(op.exp(x))
        builder.emit_func_output(result)
    ((kind, subject, reason),) = told(passes.FuseTIR(), builder.get())
    assert (kind, subject) == ("fusion", "fused") and reason.endswith("not a call of one PrimFunc")


def test_operators_that_numpy_cannot_evaluate(monkeypatch):
    monkeypatch.setattr(op.exp.op.spec, "evaluate", None, raising=True)
    module = function(lambda b, x: op.add(x, op.exp(weights(4, 16))), ROWS)
    reason = "the operator has no evaluation by numpy"
    assert told(passes.FoldConstant(), module) == [("folding", "main: relax.exp", reason)]
