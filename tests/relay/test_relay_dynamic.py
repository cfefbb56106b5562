"""Operators of computed sizes: made by the static functions, compiled, and made static."""

from dataclasses import dataclass

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relay
from tilesmith.support.errors import UnsupportedError

RANDOM = np.random.default_rng(0)


def floats(*shape):
    return RANDOM.uniform(-1, 1, shape).astype("float32")


def vector(*values):
    return np.array(values, "int64")


def number(value, dtype="int64"):
    return np.array(value, dtype)


@dataclass
class Case:
    """A call whose last arguments state sizes; all are inputs of the program."""

    name: str
    inputs: list
    sizes: list
    make: object  # (*variables) → expression
    expected: object

    def values(self):
        return [*self.inputs, *self.sizes]

    def wanted(self):
        found = self.expected(*self.values())
        return list(found) if isinstance(found, tuple) else [found]


def sparse(indices, values, default, shape):
    made = np.full(shape, default)
    made[tuple(indices.T)] = values
    return made


def top(data, k):
    order = np.argsort(-data, axis=1, kind="stable")[:, : int(k)]
    return np.take_along_axis(data, order, 1), order.astype("int32")


def one_hot(indices, depth):
    return np.where(indices[..., None] == np.arange(int(depth)), 5, 2).astype("int32")


def repeated(image, *factors):
    for axis, factor in enumerate(factors, 2):
        image = np.repeat(image, int(factor), axis)
    return image


def tuple_of(wrapper):
    return wrapper.tuple_value


IMAGE = floats(1, 2, 3, 5)
CASES = [
    Case("reshape", [floats(2, 3, 4)], [vector(0, -1)], relay.reshape,
         lambda x, s: x.reshape(2, 12)),
    Case("reshape", [floats(2, 3, 4)], [np.array([3, 2, 4], "int32")], relay.reshape,
         lambda x, s: x.reshape(3, 2, 4)),
    Case("expand_dims", [floats(2, 3)], [number(-1)],
         lambda x, a: relay.expand_dims(x, a, num_newaxis=2), lambda x, a: x[:, :, None, None]),
    Case("expand_dims", [floats(2, 3)], [number(1)], relay.expand_dims, lambda x, a: x[:, None]),
    Case("tile", [floats(2, 3)], [vector(2, 1, 3)], relay.tile, np.tile),
    Case("broadcast_to", [floats(3, 1)], [vector(2, 3, 4)], relay.broadcast_to, np.broadcast_to),
    Case("full", [number(2.5, "float32")], [vector(2, 3)], lambda v, s: relay.full(v, s, "float32"),
         lambda v, s: np.full(s, v)),
    Case("zeros", [], [vector(2, 3)], lambda s: relay.zeros(s, "int32"),
         lambda s: np.zeros(s, "int32")),
    Case("ones", [], [vector(4)], lambda s: relay.ones(s, "float32"),
         lambda s: np.ones(s, "float32")),
    Case("topk", [floats(3, 7)], [number(2)],
         lambda x, k: tuple_of(relay.topk(x, k, 1)), top),
    Case("topk", [floats(3, 7)], [number(3, "int32")],
         lambda x, k: relay.topk(x, k, axis=1, ret_type="values"), lambda x, k: top(x, k)[0]),
    Case("one_hot", [np.array([[0, 2], [5, 1]], "int32")], [number(4)],
         lambda i, d: relay.one_hot(i, 5, 2, d, -1, "int32"), one_hot),
    Case("strided_slice", [floats(5, 6)], [vector(1, -5), vector(5, -1), vector(2, 1)],
         relay.strided_slice, lambda x, *s: x[1:5:2, -5:-1]),
    Case("strided_slice", [floats(5, 6, 2)], [vector(1, 2), vector(3, -1)],
         lambda x, b, n: relay.strided_slice(x, b, n, slice_mode="size"),
         lambda x, *s: x[1:4, 2:]),
    Case("sparse_to_dense",
         [np.array([[0, 1], [2, 3]], "int32"), floats(2), number(0.5, "float32")], [vector(3, 4)],
         lambda i, v, d, s: relay.sparse_to_dense(i, s, v, d), sparse),
    Case("nn.pad", [floats(2, 3)], [np.array([[1, 0], [2, 3]], "int64")],
         lambda x, w: relay.nn.pad(x, w, 1.5),
         lambda x, w: np.pad(x, w, constant_values=1.5)),
    Case("nn.upsampling", [IMAGE], [number(2, "float32"), number(3, "float32")],
         relay.nn.upsampling, repeated),
    Case("nn.upsampling3d", [floats(1, 1, 2, 3, 2)],
         [number(2, "float32"), number(1, "float32"), number(2, "float32")],
         lambda *given: relay.nn.upsampling3d(*given, coordinate_transformation_mode="asymmetric"),
         repeated),
    Case("image.resize2d", [IMAGE], [vector(6, 10)],
         lambda x, s: relay.image.resize2d(
             x, s, method="nearest_neighbor", coordinate_transformation_mode="asymmetric",
             rounding_method="floor"),
         lambda x, s: repeated(x, 2, 2)),
]  # fmt: skip

IDS = [f"{number}-{case.name}" for number, case in enumerate(CASES)]


def variables_of(case, number):
    return [
        relay.var(f"x{number}_{place}", shape=value.shape, dtype=str(value.dtype))
        for place, value in enumerate(case.values())
    ]


def results_of(call, count):
    return [call] if count == 1 else [relay.TupleGetItem(call, place) for place in range(count)]


@pytest.fixture(scope="module")
def program():
    params, inputs, results = [], [], []
    for place, case in enumerate(CASES):
        variables = variables_of(case, place)
        call = case.make(*variables)
        assert call.op.name == "dyn." + case.name
        params += variables
        inputs += case.values()
        results += results_of(call, len(case.wanted()))
    mod = ts.IRModule.from_expr(relay.Function(params, relay.Tuple(results)))
    found = relay.create_executor("vm", mod, ts.cpu(), "llvm").evaluate()(*inputs)
    return iter([one.numpy() for one in found])


def test_computed_sizes_compile(program):
    for case in CASES:
        for wanted in case.wanted():
            found = next(program)
            assert found.shape == wanted.shape, case.name
            np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=case.name)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_debug_executor_computes_sizes(case):
    variables = variables_of(case, 0)
    results = results_of(case.make(*variables), len(case.wanted()))
    mod = ts.IRModule.from_expr(relay.Function(variables, relay.Tuple(results)))
    found = relay.create_executor("debug", mod).evaluate()(*case.values())
    for one, wanted in zip(found, case.wanted()):
        np.testing.assert_allclose(one.numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_constant_sizes_become_static(case):
    variables = variables_of(case, 0)
    count = len(case.inputs)
    call = relay.bind(
        case.make(*variables),
        {var: relay.const(one) for var, one in zip(variables[count:], case.sizes)},
    )
    mod = relay.transform.DynamicToStatic()(ts.IRModule.from_expr(call))
    assert mod["main"].body.op.name == case.name
    shapes = mod["main"].ret_type
    fields = shapes.fields if len(case.wanted()) > 1 else [shapes]
    assert [tuple(int(n) for n in one.shape) for one in fields] == [
        one.shape for one in case.wanted()
    ]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_written_constants_give_static_calls(case):
    variables = variables_of(case, 0)[: len(case.inputs)]
    found = case.make(*variables, *[relay.const(one) for one in case.sizes])
    assert found.op.name == case.name


def test_shapes_that_are_known_are_constants():
    x, z = relay.var("x", shape=(2, 12)), relay.var("z", shape=(4, 3))
    sizes = relay.concatenate([relay.const([2], "int32"), relay.shape_of(z)], 0)
    y = relay.reshape(x, sizes)  # whose shape then is known, too
    y = relay.reshape(y, relay.take(relay.shape_of(y), relay.const([2, 1, 0]), axis=0))
    mod = relay.transform.DynamicToStatic()(ts.IRModule.from_expr(y))
    assert "dyn." not in str(mod)
    assert [int(n) for n in mod["main"].ret_type.shape] == [3, 4, 2]


def test_open_shapes_stay():
    x, z = relay.var("x", shape=(2, 12)), relay.var("z", shape=(4, relay.Any()))
    mod = ts.IRModule.from_expr(relay.reshape(x, relay.shape_of(z)))
    assert "dyn.reshape" in str(relay.transform.DynamicToStatic()(mod))


def test_squeeze_needs_constant_axes():
    x, axes = relay.var("x", shape=(1, 3, 1)), relay.var("axes", shape=(1,), dtype="int64")
    call = relay.squeeze(x, axes)
    assert call.op.name == "dyn.squeeze"
    with pytest.raises(UnsupportedError, match="make the axes constant"):
        relay.transform.InferType()(ts.IRModule.from_expr(call))
    fixed = relay.bind(call, {axes: relay.const(vector(2))})
    mod = relay.transform.DynamicToStatic()(ts.IRModule.from_expr(fixed))
    assert [int(n) for n in mod["main"].ret_type.shape] == [1, 3]


def test_a_deep_chain_becomes_static():
    x = relay.var("x", shape=(2, 6))
    y = x
    for step in range(2000):
        y = relay.reshape(y, relay.shape_of(relay.var("z", shape=((3, 4), (6, 2))[step % 2])))
    mod = relay.transform.DynamicToStatic()(ts.IRModule.from_expr(y))
    assert [int(n) for n in mod["main"].ret_type.shape] == [6, 2]


@pytest.mark.parametrize("newshape", [(-1,), (0, 1, -1), (-1, 1), (-3,)])
def test_a_tensor_whose_size_depends_on_data_is_reshaped(newshape):
    x = relay.var("x", shape=(2, 3))
    expression = relay.reshape(relay.argwhere(x), newshape)
    run = relay.create_executor("vm", ts.IRModule.from_expr(expression)).evaluate()
    data = np.array([[1, 0, 2], [0, 3, 0]], "float32")
    wanted = np.argwhere(data).astype("int32")
    rows = [{0: len(wanted), -3: -1}.get(size, size) for size in newshape]
    np.testing.assert_array_equal(run(data).numpy(), wanted.reshape(rows))


@pytest.mark.parametrize(
    ("bounds", "dtype"),
    [((4,), "int32"), ((2, 11, 3), "int32"), ((5, -2, -2), "int64"), ((3, 3), "int32"),
     ((0.5, 3.1, 0.75), "float32")],
)  # fmt: skip
def test_a_range_between_computed_bounds(bounds, dtype):
    names = [relay.var(name, shape=(), dtype=dtype) for name in "abc"[: len(bounds)]]
    expression = relay.arange(*names, dtype=dtype)
    assert isinstance(expression.checked_type.shape[0], relay.Any)
    mod = ts.IRModule.from_expr(relay.Function(names, expression))
    assert relay.transform.DynamicToStatic()(mod)["main"].body.op.name == "arange"
    values = [np.array(one, dtype) for one in bounds]
    wanted = np.arange(*bounds).astype(dtype)
    for kind in ("vm", "debug"):
        found = relay.create_executor(kind, mod).evaluate()(*values).numpy()
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
