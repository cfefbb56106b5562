"""What importers of one's own formats are made of, against numpy and torch."""

import logging
import warnings

import numpy as np
import pytest
import torch

from tilesmith import relay
from tilesmith.ir import IRModule, Span
from tilesmith.ir.pass_context import PassContext
from tilesmith.relax import interpreter
from tilesmith.relay.frontend import ChangeDatatype, common
from tilesmith.support.errors import (
    OpAttributeInvalid,
    OpAttributeRequired,
    OpAttributeUnImplemented,
    OpNotImplemented,
    ScriptWarning,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
)

RANDOM = np.random.default_rng(3)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def run(expr):
    """The value of an expression without free variables."""
    program = relay.to_relax(IRModule.from_expr(relay.Function([], expr)))
    return interpreter.run(program, "main")


def test_questions_about_expressions():
    x = relay.var("x", shape=(2, relay.Any(), 4))
    weight = relay.var("w", shape=(8, 3, 5, 5))
    assert common.get_name(x) == "x" and common.get_name(relay.const(1)) is None
    assert common.infer_shape(relay.nn.relu(x))[::2] == (2, 4)
    assert isinstance(common.infer_shape(x)[1], relay.Any)
    assert str(common.infer_type(relay.exp(weight)).checked_type.dtype) == "float32"
    assert (common.infer_channels(weight), common.infer_channels(weight, True)) == (8, 3)
    with pytest.raises(TypeMismatchError, match="a tensor has a shape"):
        common.infer_shape(relay.Tuple([x]))


def test_functions_of_a_module_are_known():
    x = relay.var("x", shape=(3,))
    mod = IRModule()
    twice = relay.GlobalVar("twice")
    mod[twice] = relay.Function([x], x + x)
    call = twice(relay.var("y", shape=(3,)))
    assert common.infer_shape(call, mod) == (3,)
    value = common.infer_value(call, {"y": np.ones(3, "float32")}, mod)
    np.testing.assert_array_equal(value.numpy(), [2, 2, 2])


def test_values_are_computed():
    x = relay.var("x", shape=(3,))
    y = relay.multiply(x, relay.const(2.0))
    np.testing.assert_array_equal(common.infer_value(y, {"x": np.arange(3.0)}).numpy(), [0, 2, 4])
    folded = common.fold_constant(relay.const(2.0) + relay.const(3.0))
    assert folded.data.numpy() == 5
    assert common.infer_value_simulated(y, {}).numpy().tolist() == [2, 2, 2]
    # an operator that only relay has, without a rule in numpy
    reverse = relay.reverse_sequence(relay.const(np.arange(4.0).reshape(2, 2)), relay.const([2, 1]))
    assert common.infer_value(reverse, {}).numpy().tolist() == [[1, 0], [2, 3]]
    with pytest.raises(UnknownNameError, match="'x' is not known"):
        common.infer_value(y, {})


def test_values_are_tried():
    x = relay.var("x", shape=(3,))
    three = relay.const(1) + relay.const(2)
    assert common.try_infer_value(three) == (3, True)
    assert common.try_infer_value(three, on_success=int) == (3, True)
    assert common.try_infer_value(x) == (x, False)
    assert common.try_infer_value(x, on_failure=lambda: "no") == ("no", False)
    assert common.try_infer_value(x, parameters={"x": floats(3)})[1]


@pytest.mark.parametrize(
    ("bounds", "want"), [((), [2, 3, 4]), ((1,), [3, 4]), ((None, -1), [2, 3])]
)
def test_shapes_as_tensors(bounds, want):
    known = common.shape_of(relay.var("x", shape=(2, 3, 4)), "int32", *bounds)
    assert isinstance(known, relay.Constant) and known.data.numpy().tolist() == want
    open_shape = relay.var("x", shape=(relay.Any(), 3, 4))
    found = common.shape_of(open_shape, "int32", *bounds)
    value = common.infer_value(found, {"x": floats(2, 3, 4)}).numpy()
    assert value.tolist() == want and value.dtype == "int32"


def test_numbers_and_weights():
    one = common.ensure_scalar_shape(relay.const([[4.0]]))
    assert common.infer_shape(one) == () and run(one) == 4
    with pytest.raises(ShapeError, match="is no number"):
        common.ensure_scalar_shape(relay.const([1.0, 2.0]))
    weight, vector = relay.var("w"), relay.var("v")
    params = {"w": np.float32(3), "v": np.ones(2)}
    assert common.try_resolve_var_to_const(weight, params).data.numpy() == 3
    assert common.try_resolve_var_to_const(vector, params) is vector
    assert common.to_int_list(np.array([1.0, 2.0])) == [1, 2]
    assert common.new_var("n", shape=(2,), dtype="int8").type_annotation.dtype == "int8"


def test_unbind():
    data = floats(2, 3)
    columns = common.unbind(relay.const(data), axis=1)
    assert len(columns) == 3
    np.testing.assert_array_equal(run(columns[2]), data[:, 2])


def test_table_of_expressions():
    table = common.ExprTable()
    weight = table.new_const([1.0, 2.0], dtype="float32")
    named = table.new_const(np.zeros((2, 2)), source_name="layer.w")
    assert table.params[weight.name_hint].numpy().tolist() == [1, 2]
    assert table.get_expr("layer.w") is named and table.has_expr("layer.w")
    table.set_expr("layer.w", weight)
    assert table.get_expr("layer.w") is named
    table.set_expr("layer.w", weight, force_override=True)
    assert table.get_expr("layer.w") is weight
    table.set_padding((1, 1))
    assert table.in_padding and table.paddings == (1, 1)
    table.clear_padding()
    assert not table.in_padding
    with pytest.raises(UnknownNameError, match="layer.x"):
        table.get_expr("layer.x")
    with pytest.raises(TypeMismatchError, match="has to stand for an expression"):
        table.set_expr("z", 3)


def test_attributes_as_text():
    attrs = common.StrAttrsDict(
        {"pad": "(1, 2)", "axis": "None", "rate": "0.5", "ok": "True", "pairs": "((0, 1), (2, 3))"}
    )
    assert attrs.has_attr("pad") and not attrs.has_attr("stride")
    assert attrs.get_int_tuple("pad") == (1, 2) and attrs.get_int_list("pad") == [1, 2]
    assert attrs.get_float_tuple("pad") == (1.0, 2.0) and attrs.get_str("pad") == "(1, 2)"
    assert attrs.get_int("axis", 3) is None and attrs.get_int("other", 3) == 3
    assert attrs.get_float("rate") == 0.5 and attrs.get_bool("ok") is True
    assert attrs.get_tuple_tuple_int("pairs") == ((0, 1), (2, 3))
    with pytest.raises(OpAttributeRequired, match="'stride' is missing"):
        attrs.get_int("stride")
    with pytest.raises(OpAttributeInvalid, match="'rate' cannot be read"):
        attrs.get_int("rate")


def test_converters_by_table():
    x, y = relay.const(floats(3)), relay.const(floats(3))
    assert common.Renamer("subtract")([x, y], {}).op.name == "subtract"
    assert common.get_relay_op("relu") is relay.nn.relu
    convert = common.AttrCvt(
        "leaky_relu",
        {"slope": ("alpha", 0.1), "power": ("alpha", 1.0, float)},
        excludes=["noise"],
        ignores=["name"],
    )
    del convert._transforms["power"]
    assert convert([x], {"slope": 0.3, "name": "a"}).attrs.alpha == 0.3
    assert convert([x], {}).attrs.alpha == 0.1
    scaled = common.AttrCvt("softmax", {"dim": ("axis", -1, lambda value: value - 1)})
    assert scaled([x], {"dim": 1}).attrs.axis == 0
    chosen = common.AttrCvt(lambda attrs: "max_pool2d", extras={"layout": "NHWC"})
    assert chosen([relay.var("i", shape=(1, 4, 4, 1))], {"pool_size": 2}).attrs.layout == "NHWC"
    with pytest.raises(OpAttributeUnImplemented, match="'noise'"):
        convert([x], {"noise": 1})
    with pytest.raises(OpAttributeInvalid, match="an even size"):
        common.AttrCvt("relu", custom_check=(lambda attrs: False, "an even size"))([x], {})
    with pytest.raises(OpNotImplemented, match="'wobble'"):
        common.get_relay_op("wobble")


def test_messages_once():
    records = [logging.makeLogRecord({"msg": text}) for text in ("a", "b", "a")]
    once = common.DuplicateFilter()
    assert [once.filter(record) for record in records] == [True, True, False]


def test_new_nodes_get_the_span():
    x = relay.var("x", shape=(3,))
    inner = common.set_span(relay.nn.relu(x), "first")
    outer = common.set_span(relay.Tuple([inner + inner, inner]), "second")
    assert outer.span.source_name == "second" and outer.fields[0].span.source_name == "second"
    assert outer.fields[1] is inner and inner.span.source_name == "first"
    assert inner.args[0] is x
    given = Span("file.py", 1, 1, 2, 3)
    assert [one.span for one in common.set_span([relay.exp(x), relay.log(x)], given)] == [given] * 2
    with PassContext(config={"relay.frontend.fill_span": False}):
        assert common.set_span(relay.exp(x), "third").span is None


def test_programs_without_spans_are_noticed():
    x = relay.var("x", shape=(3,))
    mod = IRModule.from_expr(relay.Function([x], relay.exp(x)))
    with pytest.warns(ScriptWarning, match="@main: 3 of 3 expressions have no span"):
        assert relay.SpanCheck()(mod)["main"] is mod["main"]
    parsed = relay.parse(mod.astext())
    with warnings.catch_warnings(record=True) as caught:
        relay.SpanCheck()(parsed)
    assert "Call" not in "".join([str(one.message) for one in caught])


# Cells


STEPS, BATCH, INPUTS, HIDDEN = 3, 2, 4, 5


def cell_operands(gates, hidden=HIDDEN):
    weights = [floats(gates * HIDDEN, INPUTS), floats(gates * HIDDEN, hidden)]
    biases = [floats(gates * HIDDEN), floats(gates * HIDDEN)]
    return [floats(BATCH, INPUTS) for _ in range(STEPS)], [*weights, *biases]


def constants(arrays):
    return [relay.const(one) for one in arrays]


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm", "projected"])
@pytest.mark.parametrize("backwards", [False, True])
def test_cells_agree_with_torch(kind, backwards):
    gates = {"rnn": 1, "gru": 3}.get(kind, 4)
    proj = 3 if kind == "projected" else 0
    steps, weights = cell_operands(gates, proj or HIDDEN)
    state, memory = floats(BATCH, proj or HIDDEN), floats(BATCH, HIDDEN)
    layer = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU}.get(kind, torch.nn.LSTM)
    model = layer(INPUTS, HIDDEN, **({"proj_size": proj} if proj else {}))
    values = [*weights, floats(proj, HIDDEN)] if proj else weights
    for own, value in zip(model.parameters(), values):
        own.data = torch.from_numpy(value)
    order = steps[::-1] if backwards else steps
    first = torch.from_numpy(state)[None]
    given = (first, torch.from_numpy(memory)[None]) if gates == 4 else first
    want, last = model(torch.from_numpy(np.stack(order)), given)
    operands = [constants(steps), relay.const(state)]
    if gates == 4:
        operands.append(relay.const(memory))
    cell = {1: common.rnn_cell, 3: common.gru_cell, 4: common.lstm_cell}[gates]
    named = {"proj": relay.const(values[-1])} if proj else {}
    outputs, *states = cell(*operands, *constants(weights), **named, backwards=backwards)
    got = run(relay.Tuple([*outputs, *states]))
    np.testing.assert_allclose(np.stack(got[:STEPS]), want.detach(), rtol=1e-4, atol=1e-5)
    wanted_states = list(last) if gates == 4 else [last]
    for found, wanted in zip(got[STEPS:], wanted_states):
        np.testing.assert_allclose(found, wanted.detach()[0], rtol=1e-4, atol=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("linear_before_reset", [False, True])
def test_gated_units_with_lengths(linear_before_reset):
    steps, (w, r, b, c) = cell_operands(3)
    lengths, hidden = np.array([3, 1], "int32"), floats(BATCH, HIDDEN)
    outputs, last = common.gru_cell(
        constants(steps), relay.const(hidden), *constants([w, r, b, c]),
        linear_before_reset=linear_before_reset, sequence_lens=relay.const(lengths),
    )  # fmt: skip
    got = run(relay.Tuple([*outputs, last]))
    H = HIDDEN
    for number, x in enumerate(steps):
        a, h = x @ w.T + b, hidden @ r.T + c
        reset, update = sigmoid(a[:, :H] + h[:, :H]), sigmoid(a[:, H : 2 * H] + h[:, H : 2 * H])
        if linear_before_reset:
            change = reset * h[:, 2 * H :]
        else:
            change = (reset * hidden) @ r[2 * H :].T + c[2 * H :]
        following = (1 - update) * np.tanh(a[:, 2 * H :] + change) + update * hidden
        runs = (number < lengths)[:, None]
        hidden = np.where(runs, following, hidden)
        np.testing.assert_allclose(got[number], np.where(runs, following, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[-1], hidden, rtol=1e-4, atol=1e-5)


def test_peepholes():
    steps, (w, r, b, c) = cell_operands(4)
    peepholes = [floats(HIDDEN) for _ in range(3)]
    zero = np.zeros((BATCH, HIDDEN), "float32")
    memory = floats(BATCH, HIDDEN)
    outputs, _, _ = common.lstm_cell(
        constants(steps[:1]), relay.const(zero), relay.const(memory), *constants([w, r, b, c]),
        p_i=relay.const(peepholes[0]), p_f=relay.const(peepholes[1]), p_o=relay.const(peepholes[2]),
    )  # fmt: skip
    i, f, g, o = np.split(steps[0] @ w.T + b + c, 4, axis=1)
    i, f = sigmoid(i + peepholes[0] * memory), sigmoid(f + peepholes[1] * memory)
    memory = f * memory + i * np.tanh(g)
    want = sigmoid(o + peepholes[2] * memory) * np.tanh(memory)
    np.testing.assert_allclose(run(outputs[0]), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("stride", "window", "step"), [(1, 3, 1), (2, 3, 1), (3, 2, 2), (2, 4, 1)])
def test_padding_that_keeps_the_size(mode, stride, window, step):
    data = relay.var("x", shape=(1, 2, 7, 8))
    padded = common.autopad(data, (stride,) * 2, (window,) * 2, (step,) * 2, mode=mode)
    pool = relay.nn.max_pool2d(padded, (window,) * 2, (stride,) * 2, (step,) * 2)
    assert common.infer_shape(pool)[2:] == (-(-7 // stride), -(-8 // stride))
    (before, after) = padded.attrs.pad_width[3]
    assert before <= after if mode == "SAME_UPPER" else before >= after


def test_padding_mistakes():
    with pytest.raises(ShapeError, match="axis 2 is not known"):
        common.autopad(relay.var("x", shape=(1, 2, relay.Any(), 8)), (1, 1), (3, 3))
    with pytest.raises(OpAttributeInvalid, match="SAME_UPPER or SAME_LOWER"):
        common.autopad(relay.var("x", shape=(1, 2, 8, 8)), (1, 1), (3, 3), mode="VALID")


# Other dtypes


def test_programs_compute_in_another_dtype():
    x = relay.var("x", shape=(2, 3))
    y = relay.nn.dense(x, relay.const(floats(4, 3)), out_dtype="float32")
    y = relay.cast(relay.cast(y, "int8"), "float32") + relay.const(1, "int32").astype("float32")
    mod = relay.transform.InferType()(IRModule.from_expr(relay.Function([x], y)))
    changed = relay.transform.InferType()(ChangeDatatype("float32", "float64")(mod))
    assert str(changed["main"].params[0].checked_type.dtype) == "float64"
    assert str(changed["main"].ret_type.dtype) == "float64"
    assert 'dtype="float32"' not in changed.astext()
    got = interpreter.run(relay.to_relax(changed), "main", np.ones((2, 3)))
    want = interpreter.run(relay.to_relax(mod), "main", np.ones((2, 3), "float32"))
    np.testing.assert_array_equal(got, want)
    assert got.dtype == "float64"
