"""An operator is one record: here is one from outside of the package, with all of its facts."""

import inspect

import numpy as np
import onnx
import pytest
from onnx import helper

from tilesmith import relax
from tilesmith.ir import Op
from tilesmith.relax import interpreter, op, transform
from tilesmith.relax.attrs import Schema, ints, number
from tilesmith.relax.frontend.onnx import from_onnx
from tilesmith.relax.frontend.onnx.registry import add_converter
from tilesmith.relax.op.declaration import define
from tilesmith.relax.op.elementwise import unary
from tilesmith.relax.op.normalization import infer_normalization
from tilesmith.relax.op.statistical import reduction
from tilesmith.relax.spec import Precision, topi
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.support.errors import OpAttributeInvalid

# The whole operator. Its families besides `unary`: `binary`, `reduction`; anything else: `define`.
sloped_relu = unary(
    "nn.sloped_relu",
    lambda x, alpha: np.where(x > 0, x, x * x.dtype.type(alpha)),  # the numpy evaluation
    "topi.nn.leaky_relu",  # the compute, or a function (attrs, x)
    "``x`` where positive, else ``alpha * x``",
    schema=Schema(alpha=number(0.01)),
    gradient=lambda g, x, y, alpha: op.where(x > 0, g, g * alpha),
    precision=Precision.FOLLOW,
)
# Its row in the importer's table:
add_converter(
    "SlopedRelu", lambda node: sloped_relu(node[0], node.attribute("alpha", 0.01)), domain="house"
)

# A reduction, and a normalisation.
sum_of_squares = reduction(
    "sum_of_squares",
    lambda x, axis, keepdims: (x * x).sum(axis=axis, keepdims=keepdims),
    lambda attrs, x: topi.sum(topi.multiply(x, x), attrs.axis, attrs.keepdims),
    "The sum of squares",
    gradient=lambda g, x, y, call: g * x * 2,
)
centred = define(
    "nn.centred",
    "data shift",
    infer_normalization,
    description="``data`` with mean 0 over ``axes``, plus ``shift``.",
    schema=Schema(axes=ints(-1)),
    compute=lambda attrs, data, shift: topi.add(
        topi.subtract(data, topi.mean(data, attrs.axes, True)), shift
    ),
    evaluate=lambda attrs, data, shift: data - data.mean(attrs.axes, keepdims=True) + shift,
)

X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
WANTED = np.where(X > 0, X, X * np.float32(0.1))


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        with R.dataflow():
            y = R.nn.sloped_relu(x, alpha=0.1)
            R.output(y)
        return y


def test_users_find_the_function():
    assert op.nn.sloped_relu is sloped_relu is R.nn.sloped_relu
    assert sloped_relu.op is Op.get("relax.nn.sloped_relu")
    assert str(inspect.signature(sloped_relu)) == "(x, alpha=0.01)"
    assert "elementwise" in sloped_relu.__doc__
    assert "R.nn.sloped_relu(x, alpha=0.1)" in Model.script()


def test_it_runs_in_the_interpreter():
    np.testing.assert_array_equal(interpreter.run(Model, "main", X), WANTED)


def test_it_is_compiled():
    executable = relax.build(Model, target="llvm")
    np.testing.assert_allclose(executable(X).numpy(), WANTED, rtol=1e-6)


def test_it_has_a_gradient():
    @I.ir_module
    class Loss:
        @R.function
        def main(x: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                loss = R.sum(R.nn.sloped_relu(x, 0.1))
                R.output(loss)
            return loss

    _, (gradient,) = interpreter.run(transform.Gradient("main")(Loss), "main_adjoint", X)
    np.testing.assert_allclose(gradient, np.where(X > 0, 1, 0.1), rtol=1e-6)


def test_the_other_families():
    @I.ir_module
    class Both:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), shift: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.nn.centred(x, shift)
                loss = R.sum(R.sum_of_squares(y, axis=1))
                R.output(loss)
            return loss

    shift = np.arange(4, dtype="float32")
    wanted = ((X - X.mean(-1, keepdims=True) + shift) ** 2).sum()
    np.testing.assert_allclose(interpreter.run(Both, "main", X, shift), wanted, rtol=1e-5)
    np.testing.assert_allclose(
        relax.build(Both, target="llvm")(X, shift).numpy(), wanted, rtol=1e-5
    )

    @I.ir_module
    class Loss:
        @R.function
        def main(x: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                loss = R.sum(R.sum_of_squares(x, axis=1))
                R.output(loss)
            return loss

    _, (gradient,) = interpreter.run(transform.Gradient("main")(Loss), "main_adjoint", X)
    np.testing.assert_allclose(gradient, 2 * X, rtol=1e-6)


def test_it_follows_narrow_inputs():
    @I.ir_module
    class Mixed:
        @R.function
        def main(x: R.Tensor((3, 4), "float16")):
            with R.dataflow():
                y = R.nn.sloped_relu(R.matmul(x, R.permute_dims(x), out_dtype="float16"))
                R.output(y)
            return y

    converted = transform.ToMixedPrecision("float16")(Mixed).script()
    assert "astype" not in converted


def test_it_is_imported_from_onnx():
    node = helper.make_node("SlopedRelu", ["x"], ["y"], domain="house", alpha=0.1)
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (3, 4)) for name in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "graph", value[:1], value[1:]),
        opset_imports=[helper.make_opsetid("house", 1)],
    )
    np.testing.assert_array_equal(interpreter.run(from_onnx(model), "main", X), WANTED)


@pytest.mark.parametrize(
    ("arguments", "named", "error", "message"),
    [
        ((), {}, TypeError, "sloped_relu() needs the argument 'x'"),
        ((1, 2, 3), {}, TypeError, "sloped_relu() takes 2 arguments, got 3"),
        ((1, 2), {"alpha": 3}, TypeError, "more than one value for 'alpha'"),
        ((1,), {"beta": 3}, TypeError, "has no argument 'beta'"),
        ((1,), {"alpha": "steep"}, OpAttributeInvalid, "'alpha' of relax.nn.sloped_relu must be"),
    ],
)
def test_mistakes_are_told(arguments, named, error, message):
    with pytest.raises(error) as caught:
        sloped_relu(*arguments, **named)
    assert message in str(caught.value)


def test_an_unknown_operator_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"no operator 'nn\.nothing'"):
        op.nn.nothing


@pytest.mark.parametrize(
    "after",
    [
        lambda y: op.expand_dims(y, 2),
        lambda y: op.broadcast_to(y, (2, 8, 6, 6)),
        lambda y: op.nn.prelu(y, relax.const(np.linspace(0, 1, 8, dtype="float32")), 1),
        lambda y: op.nn.adaptive_max_pool2d(y, (2, 3)),
        op.sigmoid,
        lambda y: op.nn.batch_flatten(op.mean(y, [2, 3], True)),
        lambda y: op.squeeze(op.nn.adaptive_avg_pool2d(y, 1), [2, 3]),
        op.ones_like,
    ],
)
def test_operators_after_a_packed_convolution_keep_their_meaning(after):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 4, 6, 6)).astype("float32")
    weight = relax.const(rng.standard_normal((8, 4, 1, 1)).astype("float32"))
    builder = relax.BlockBuilder()
    param = relax.Var("x", relax.TensorStructInfo(x.shape, "float32"))
    with builder.function("main", [param]):
        with builder.dataflow():
            output = builder.emit_output(after(builder.emit(op.nn.conv2d(param, weight))))
        builder.emit_func_output(output)
    module = builder.get()
    packed = transform.PackForVectors()(module)
    assert "conv2d" in str([name.name_hint for name in packed.functions])
    wanted = interpreter.run(module, "main", x)
    np.testing.assert_allclose(interpreter.run(packed, "main", x), wanted, rtol=1e-4, atol=1e-5)
