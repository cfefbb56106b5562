"""From relax back to relay: every operator keeps its meaning, and what bindings say is kept."""

import numpy as np
import pytest

from tests.relax.test_operators import CASES, flat
from tilesmith import relax, relay
from tilesmith.ir import IRModule, Op
from tilesmith.relax import interpreter
from tilesmith.relax import op as relax_op
from tilesmith.relay.translate_bindings import to_relay
from tilesmith.relay.walks import post_order
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import TypeMismatchError
from tilesmith.tir import PrimFunc

# Operators that relay has no word for; some only for certain attributes or ranks.
STAY = {
    "nn.gelu_tanh": "nn.gelu_tanh",
    "batch_norm_training": "nn.batch_norm",
    "layer_norm_two": "nn.layer_norm",
    "rms_norm": "nn.rms_norm",
    "nll_loss_none": "nn.nll_loss",
    "attention": "nn.attention",
    "attention_bias": "nn.attention",
    "matmul_batch": "matmul",
    "matmul_vector": "matmul",
    "full_like": "full_like",
    "checked_lengths": "checked_lengths",
    "quantize": "quantize",
    "quantize_halves": "quantize",
    "quantize_scalar": "quantize",
    "dequantize": "dequantize",
    "dequantize_scalar": "dequantize",
}


def one_call(function, arrays, attrs):
    """A module of relax that calls one operator."""
    params = [
        relax.Var(f"x{i}", relax.TensorStructInfo(a.shape, a.dtype)) for i, a in enumerate(arrays)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(builder.emit(function(*params, **attrs)))
        builder.emit_func_output(output)
    return builder.get()


def relax_operators(function):
    """The operators of relax in a function of relay."""
    found = [node for node in post_order(function.body) if isinstance(node, Op)]
    return {one.name.removeprefix("relax.") for one in found if one.name.startswith("relax.")}


def there_and_back(module):
    return relay.to_relax(relay.transform.InferType()(to_relay(module)))


def assert_same(module, again, *inputs):
    """Both modules give the same values, shapes and dtypes."""
    want = flat(interpreter.run(module, "main", *inputs))
    got = flat(interpreter.run(again, "main", *inputs))
    assert len(got) == len(want)
    for found, expected in zip(got, want):
        found, expected = np.asarray(found), np.asarray(expected)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(
            found.astype("float64"), expected.astype("float64"), rtol=2e-4, atol=2e-5
        )


@pytest.mark.parametrize("name", CASES)
def test_operators_keep_their_meaning(name):
    module = one_call(*CASES[name])
    function = to_relay(module)["main"]
    assert relax_operators(function) == ({STAY[name]} if name in STAY else set())
    assert_same(module, there_and_back(module), *CASES[name][1])


@I.ir_module
class Program:
    @T.prim_func
    def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * T.float32(2)

    @R.function
    def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.call_tir(Program.twice, (x,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(y)
        return y

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        y = Program.inner(x)
        R.print(y, format="first {}")
        R.print(x, format="second {}")
        if c:
            t = R.add(y, y)
            z = R.multiply(t, t)
        else:
            z = R.negative(y)
        return z


@pytest.mark.parametrize("choice", [True, False])
def test_calls_choices_and_effects(choice, capfd):
    module = to_relay(Program)
    assert isinstance(module["twice"], PrimFunc)
    assert isinstance(module["inner"], relay.Function)
    values = np.arange(4, dtype="float32")
    assert_same(Program, there_and_back(Program), values, np.array(choice))
    printed = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["first", "second"] * 2


def test_effects_are_lets_and_values_are_shared():
    body = to_relay(Program)["main"].body
    assert isinstance(body, relay.Let)
    assert isinstance(body.body, relay.Let)
    first = body.value.args[1]
    branch = body.body.body.true_branch
    assert branch.args[0] is branch.args[1]
    assert branch.args[0].args[0] is first
    text = to_relay(Program).astext()
    assert "relax.print(meta[relax.StringImm][0], %0)" in text


@R.function
def local_function(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    @R.function
    def square(y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.multiply(y, y)

    z = square(x)
    return R.add(square(z), x)


def test_local_functions():
    module = IRModule({"main": local_function})
    assert isinstance(to_relay(local_function)["main"].body, relay.Let)
    assert_same(module, there_and_back(module), np.arange(3, dtype="float32"))


@R.function
def any_size(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n * 4",), "float32"):
    n = T.int64()
    with R.dataflow():
        y = R.reshape(R.nn.relu(x), (n * 4,))
        R.output(y)
    return y


def test_symbolic_sizes_stay():
    module = IRModule({"main": any_size})
    assert relax_operators(to_relay(module)["main"]) == {"reshape"}
    assert "relax.reshape(%0, meta[relax.ShapeExpr][0])" in to_relay(module).astext()
    assert_same(module, there_and_back(module), np.ones((3, 4), "float32"))


@R.function
def size_of_data(x: R.Tensor((5,), "float32")) -> R.Tensor(dtype="float32", ndim=1):
    m = T.int64()
    places = R.match_cast(R.nonzero(x), R.Tensor((1, m), "int64"))
    chosen = R.take(x, R.reshape(places, (m,)))
    return R.add(chosen, R.ones((m,), "float32"))


def test_sizes_that_data_tells_stay_in_a_function_of_relax():
    module = to_relay(IRModule({"main": size_of_data}))
    assert isinstance(module["main"], relay.Function)
    assert isinstance(module["main_with_sizes"], relax.Function)
    values = np.array([1, 0, 2, 0, 3], "float32")
    back = relay.to_relax(relay.transform.InferType()(module))
    np.testing.assert_array_equal(interpreter.run(back, "main", values), [2, 3, 4])


def test_a_dense_layer_is_dense():
    function = one_call(
        lambda x, w: relax_op.matmul(x, relax_op.permute_dims(w)),
        [np.ones((2, 3, 4), "float32"), np.ones((5, 4), "float32")],
        {},
    )
    body = to_relay(function)["main"].body
    assert body.op.name == "nn.dense"


def test_many_bindings_in_a_row():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    with builder.function("main", [x]):
        value = x
        for _ in range(3000):
            value = builder.emit(relax_op.add(value, value))
        builder.emit_func_output(value)
    function = to_relay(builder.get())["main"]
    assert sum(isinstance(node, relay.Call) for node in post_order(function.body)) == 3000


def test_only_programs_are_translated():
    with pytest.raises(TypeMismatchError, match="takes an IRModule"):
        to_relay(3)


MODELS = {
    "mlp": lambda: relay.testing.mlp.get_workload(1, 10, (1, 6, 6))[0],
    "lstm": lambda: relay.testing.lstm.get_workload(2, 4)[0],
    "resnet": lambda: relay.testing.resnet.get_workload(1, 5, 8, (3, 16, 16))[0],
    "dcgan": lambda: relay.testing.dcgan.get_workload(1, (3, 64, 64), 2, 8)[0],
}


@pytest.mark.parametrize("name", MODELS)
def test_models_come_back_as_they_were(name):
    mod = MODELS[name]()
    back = relay.transform.InferType()(to_relay(relay.to_relax(mod)))
    assert not relax_operators(back["main"])
    assert str(back["main"].ret_type) == str(mod["main"].ret_type)
    random = np.random.default_rng(0)
    shapes = [[int(size) for size in one.type_annotation.shape] for one in back["main"].params]
    values = [random.random(shape).astype("float32") for shape in shapes]  # variances, too
    assert_same(relay.to_relax(mod), relay.to_relax(back), *values)
