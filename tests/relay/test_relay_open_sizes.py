"""Sizes that are open on both sides of an operator: found, compared and refused at run time."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relay, te
from tilesmith.relay.backend import te_compiler
from tilesmith.relay.op.strategy.selection import select_implementation
from tilesmith.support.errors import ShapeError, TilesmithError

RANDOM = np.random.default_rng(0)
ANY = relay.Any


def floats(*shape):
    return RANDOM.uniform(1, 2, shape).astype("float32")


def variable(name, *shape, dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


X, Y = variable("x", ANY(), 4), variable("y", ANY(), 4)
FIVE = variable("five", 5, 4)
WIDE, ROW = variable("wide", ANY(), ANY(), 4), variable("row", ANY())
LEFT, RIGHT = variable("left", ANY(), 2, ANY()), variable("right", ANY(), 5, ANY())
CHOICE = variable("choice", ANY(), 4, dtype="bool")

CASES = {
    "add": (relay.add(X, Y), [floats(1, 4), floats(3, 4)], lambda x, y: x + y),
    "compare": (relay.less(X, Y), [floats(3, 4), floats(1, 4)], lambda x, y: x < y),
    "to a known size": (relay.multiply(X, FIVE), [floats(1, 4), floats(5, 4)], lambda x, y: x * y),
    "of two ranks": (relay.maximum(WIDE, X), [floats(2, 1, 4), floats(3, 4)], np.maximum),
    "no element": (relay.add(X, Y), [floats(0, 4), floats(1, 4)], lambda x, y: x + y),
    "choose": (
        relay.where(CHOICE, X, Y),
        [floats(1, 4) > 1.5, floats(3, 4), floats(1, 4)],
        np.where,
    ),
    "bias": (relay.nn.bias_add(X, ROW), [floats(3, 4), floats(4)], lambda x, y: x + y),
    "dense": (
        relay.nn.dense(variable("a", 2, ANY()), variable("w", 5, ANY())),
        [floats(2, 3), floats(5, 3)],
        lambda a, w: a @ w.T,
    ),
    "product": (
        relay.nn.batch_matmul(LEFT, RIGHT),
        [floats(1, 2, 3), floats(4, 5, 3)],
        lambda a, b: a @ b.transpose(0, 2, 1),
    ),
    "a chain": (
        relay.sum(relay.add(relay.exp(relay.subtract(X, Y)), Y), 1),
        [floats(3, 4), floats(1, 4)],
        lambda x, y: (np.exp(x - y) + y).sum(1),
    ),
    "of data": (
        relay.add(relay.argwhere(X), relay.argwhere(Y)),
        [floats(2, 4), floats(2, 4)],
        lambda x, y: np.argwhere(x) + np.argwhere(y),
    ),
}


def module_of(body):
    return ts.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("kind", ["vm", "graph", "debug"])
def test_open_sizes_are_found(case, kind):
    body, values, expected = case
    found = relay.create_executor(kind, module_of(body)).evaluate()(*values).numpy()
    np.testing.assert_allclose(found, expected(*values), rtol=1e-5)


def test_one_program_runs_for_all_sizes():
    run = relay.create_executor("vm", module_of(relay.add(X, Y))).evaluate()
    for left, right in ((3, 3), (1, 3), (3, 1), (1, 1)):
        x, y = floats(left, 4), floats(right, 4)
        np.testing.assert_allclose(run(x, y).numpy(), x + y, rtol=1e-6)


@pytest.mark.parametrize("case", [
    (relay.add(X, Y), [(3, 4), (2, 4)], "add.* 3.* 2"),
    (relay.multiply(X, FIVE), [(2, 4), (5, 4)], "multiply.* 5.* 2"),
    (CASES["bias"][0], [(3, 4), (3,)], "nn.bias_add.* 4.* 3"),
    (CASES["dense"][0], [(2, 3), (5, 2)], "nn.dense.* 3.* 2"),
])  # fmt: skip
def test_sizes_that_do_not_fit_are_named(case):
    body, shapes, message = case
    values = [floats(*shape) for shape in shapes]
    with pytest.raises(ShapeError, match=message):
        relay.create_executor("vm", module_of(body)).evaluate()(*values)


def test_errors_at_run_time_name_the_users_line():
    params = "%x: Tensor[(?, 4), float32],\n%y: Tensor[(?, 4), float32]"
    text = f'#[version = "0.0.5"]\ndef @main({params}) {{\n  add(%x, %y)\n}}'
    run = relay.create_executor("vm", relay.parse(text)).evaluate()
    with pytest.raises(ShapeError, match=r"add \(.*:4\)"):
        run(floats(3, 4), floats(2, 4))


@pytest.mark.parametrize("kind", ["vm", "debug"])
def test_errors_speak_of_relay(kind):
    body = relay.add(relay.concatenate([X, X], 0), variable("z", 3, 5))
    with pytest.raises(TilesmithError) as caught:
        relay.create_executor(kind, module_of(body)).evaluate()(floats(2, 4), floats(3, 5))
    assert "relax" not in str(caught.value)
    assert "add cannot broadcast" in str(caught.value)


TYPES = {
    "two open ones": ((ANY(), 4), (ANY(), 4), "(?, 4)"),
    "a known one": ((ANY(), 4), (7, 1), "(7, 4)"),
    "a named one": ((ts.tir.Var("n", "int64"), 4), (ANY(), 4), "(?, 4)"),
    "one": ((ANY(), 4), (1, 4), "(?, 4)"),
    "of two ranks": ((ANY(),), (3, ANY(), 1), "(3, ?, ?)"),
}


@pytest.mark.parametrize("case", TYPES.values(), ids=TYPES)
def test_the_type_of_open_sizes(case):
    left, right, expected = case
    typed = relay.transform.InferType()(
        module_of(relay.add(variable("a", *left), variable("b", *right)))
    )
    sizes = ["?" if isinstance(one, ANY) else str(one) for one in typed["main"].ret_type.shape]
    assert f"({', '.join(sizes)})" == expected


def test_the_shape_function_of_open_sizes():
    made = te_compiler.get().lower_shape_func(relay.Function([X, Y], relay.add(X, Y)), "llvm")
    kernel = ts.build(te.create_prim_func([*made.inputs, *made.outputs]))
    for left, right in ((3, 3), (1, 3), (3, 1)):
        out = ts.nd.array(np.zeros(2, "int64"))
        kernel(*[ts.nd.array(np.array([n, 4], "int64")) for n in (left, right)], out)
        assert out.numpy().tolist() == [3, 4]


DATA, VECTOR = variable("data", 3, 4), variable("sizes", 2, dtype="int64")
OF_DATA = {
    "argwhere": (relay.argwhere(DATA), ["nonzero_size_0", "2"]),
    "unique": (relay.unique(variable("k", 6, dtype="int32")).tuple_value, ["6"]),
    "dyn.reshape": (relay.reshape(DATA, VECTOR), ["size_0", "size_1"]),
    "dyn.full": (relay.full(variable("v"), VECTOR, "float32"), ["size_0", "size_1"]),
    "dyn.one_hot": (
        relay.one_hot(
            variable("i", 6, dtype="int32"), 1, 0, variable("n", dtype="int64"), -1, "int32"
        ),
        ["6", "depth_0"],
    ),
}


@pytest.mark.parametrize("name", OF_DATA)
def test_operators_on_sizes_of_data_have_a_strategy(name):
    call, sizes = OF_DATA[name]
    assert call.op.name == name
    inputs = []
    for place, arg in enumerate(call.args):
        type_ = arg.checked_type if hasattr(arg, "data") else arg.type_annotation
        inputs.append(te.placeholder(list(type_.shape), type_.dtype, name=f"in{place}"))
    chosen, outputs = select_implementation(call.op, call.attrs, inputs, None, "llvm")
    assert chosen.name == f"{name}.search"
    assert [str(size) for size in outputs[0].shape] == sizes
