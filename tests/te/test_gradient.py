"""te.gradient against torch, against finite differences, and what the adjoints look like."""

from __future__ import annotations

import numpy as np
import pytest

from tilesmith import te, tir
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError
from tilesmith.te.create_prim_func import operations_in_order
from tilesmith.te.tensor import PlaceholderOp
from tilesmith.tir import interpreter

torch = pytest.importorskip("torch")


def evaluate(tensor, values):
    """Return the elements of a tensor for values of placeholders."""
    read = [op.output(0) for op in operations_in_order([tensor]) if isinstance(op, PlaceholderOp)]
    args = [one for one in read if one is not tensor]
    out = np.zeros([int(size) for size in tensor.shape], str(tensor.dtype))
    interpreter.run(te.create_prim_func([*args, tensor]), *[values[one] for one in args], out)
    return out


def random(shape, seed=0):
    return np.random.default_rng(seed).uniform(0.2, 0.9, shape).astype("float32")


def against_torch(output, inputs, function, values=None, rtol=1e-4):
    """Compare the gradient for a random head with torch's."""
    given = values or [random([int(n) for n in one.shape], k) for k, one in enumerate(inputs)]
    leaves = [torch.tensor(one, requires_grad=True) for one in given]
    expected = function(*leaves)
    head = te.placeholder(output.shape, name="head")
    weight = random(tuple(expected.shape), 9)
    expected.backward(torch.tensor(weight))
    bound = {**dict(zip(inputs, given)), head: weight}
    for leaf, result in zip(leaves, te.gradient(output, inputs, head)):
        np.testing.assert_allclose(evaluate(result, bound), leaf.grad.numpy(), rtol, 1e-5)


UNARY = {
    "exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log2": torch.log2,
    "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "erf": torch.erf, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh,
    "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "asinh": torch.asinh,
    "atanh": torch.atanh, "abs": torch.abs, "floor": torch.floor, "round": torch.round,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument(name):
    a = te.placeholder((7,), name="A")
    out = te.compute((7,), lambda i: getattr(tir, name)(a[i]), name="out")
    against_torch(out, [a], UNARY[name])


A = te.placeholder((4, 5), name="A")
B = te.placeholder((5, 3), name="B")
V = te.placeholder((9,), name="V")


product = te.comm_reducer(lambda a, b: a * b, lambda t: tir.const(1, t), name="product")


def axis(size, name="k"):
    return te.reduce_axis((0, size), name=name)


def matmul():
    k = axis(5)
    return te.compute((4, 3), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def softmax():
    k, m = axis(5), axis(5)
    top = te.compute((4,), lambda i: te.max(A[i, k], axis=k), name="top")
    exps = te.compute((4, 5), lambda i, j: te.exp(A[i, j] - top[i]), name="exps")
    total = te.compute((4,), lambda i: te.sum(exps[i, m], axis=m), name="total")
    return te.compute((4, 5), lambda i, j: exps[i, j] / total[i], name="softmax")


def reduced(reducer, where=None):
    k = axis(5)
    return te.compute(
        (4,), lambda i: reducer(A[i, k] * 2.0, axis=k, where=where and where(k)), name="out"
    )


def padded():
    return te.compute(
        (11,), lambda i: te.if_then_else(te.all(i >= 1, i < 10), V[i - 1] * V[i - 1], 0.5)
    )


def distance_reduction():
    """Reduce by a function of its own: (a, b) -> sqrt(a² + b²)."""
    norm = te.comm_reducer(lambda a, b: te.sqrt(a * a + b * b), lambda t: tir.const(0.0, t))
    k = axis(5)
    return te.compute((4,), lambda i: norm(A[i, k], axis=k), name="norm")


def largest():
    """The value of a reduction of pairs."""
    pairs = te.comm_reducer(
        lambda a, b: (
            tir.Select(a[1] >= b[1], a[0], b[0]), tir.Select(a[1] >= b[1], a[1], b[1])
        ),
        lambda i, t: (tir.const(-1, i), te.min_value(t)),
    )  # fmt: skip
    k = axis(5)
    _, value = te.compute((4,), lambda i: pairs((k.var, A[i, k]), axis=k), name="largest")
    return value


def over(*axes, size=(4,)):
    return lambda f: te.compute(size, f, name="out")


PROGRAMS = {
    "matmul": (matmul, [A, B], torch.matmul),
    "softmax": (softmax, [A], lambda a: torch.softmax(a, 1)),
    "sum": (lambda: reduced(te.sum), [A], lambda a: (2 * a).sum(1)),
    "sum where": (lambda: reduced(te.sum, lambda k: k < 3), [A], lambda a: (2 * a[:, :3]).sum(1)),
    "max": (lambda: reduced(te.max), [A], lambda a: (2 * a).amax(1)),
    "min": (lambda: reduced(te.min), [A], lambda a: (2 * a).amin(1)),
    "prod": (lambda: reduced(product), [A], lambda a: (2 * a).prod(1)),
    "own reduction": (distance_reduction, [A], lambda a: (a * a).sum(1).sqrt()),
    "pairs": (largest, [A], lambda a: a.amax(1)),
    "transpose": (
        lambda: te.compute((5, 4), lambda i, j: A[j, i] * A[j, i]), [A], lambda a: (a * a).T
    ),
    "reshape": (
        lambda: te.compute((20,), lambda i: te.exp(A[i // 5, i % 5])), [A],
        lambda a: torch.exp(a).reshape(20),
    ),
    "split": (
        lambda: te.compute((3, 3), lambda i, j: V[i * 3 + j] * 3.0), [V],
        lambda v: (v * 3).reshape(3, 3),
    ),
    "strided": (lambda: te.compute((3,), lambda i: te.log(V[8 - i * 3])), [V],
                lambda v: torch.log(v.flip(0)[0:9:3])),
    "neighbours": (
        lambda: te.compute((8,), lambda i: V[i] * V[i + 1]), [V], lambda v: v[:-1] * v[1:]
    ),
    "padded": (padded, [V], lambda v: torch.nn.functional.pad(v * v, (1, 1), value=0.5)),
    "power": (
        lambda: te.compute((8,), lambda i: te.power(V[i], V[i + 1])), [V],
        lambda v: v[:-1] ** v[1:],
    ),
    "select": (
        lambda: te.compute((9,), lambda i: tir.Select(V[i] > 0.5, V[i] * 3.0, V[i] / V[8 - i])),
        [V], lambda v: torch.where(v > 0.5, v * 3, v / v.flip(0)),
    ),
    "min and max": (
        lambda: te.compute((9,), lambda i: te.max(V[i], V[8 - i]) + te.min(V[i], 0.4)), [V],
        lambda v: torch.maximum(v, v.flip(0)) + torch.clamp(v, max=0.4),
    ),
    "casts": (
        lambda: te.compute(
            (9,), lambda i: (V[i].astype("float64") * V[i].astype("float64")).astype("float32")
        ), [V], lambda v: v * v,
    ),
    "atan2": (
        lambda: te.compute((9,), lambda i: tir.atan2(V[i], V[8 - i])), [V],
        lambda v: torch.atan2(v, v.flip(0)),
    ),
    "to integers": (
        lambda: te.compute((9,), lambda i: V[i] + V[i].astype("int32").astype("float32")), [V],
        lambda v: v + 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_against_torch(name):
    program, inputs, function = PROGRAMS[name]
    against_torch(program(), inputs, function)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_convolutions(stride, dilation):
    x, w = te.placeholder((1, 2, 9, 8), name="X"), te.placeholder((3, 2, 2, 3), name="W")
    c, ry, rx = axis(2, "c"), axis(2, "ry"), axis(3, "rx")
    pad = te.compute(
        (1, 2, 11, 10),
        lambda n, c, y, z: te.if_then_else(
            te.all(y >= 1, y < 10, z >= 1, z < 9), x[n, c, y - 1, z - 1], 0.0
        ),
        name="pad",
    )
    height, width = (11 - dilation - 1) // stride + 1, (10 - 2 * dilation - 1) // stride + 1
    out = te.compute(
        (1, 3, height, width),
        lambda n, f, y, z: te.sum(
            pad[n, c, y * stride + ry * dilation, z * stride + rx * dilation] * w[f, c, ry, rx],
            axis=[c, ry, rx],
        ),
        name="out",
    )
    against_torch(
        out,
        [x, w],
        lambda x, w: torch.nn.functional.conv2d(x, w, stride=stride, padding=1, dilation=dilation),
    )


def test_pooling_and_ties():
    x = te.placeholder((6, 6), name="X")
    ry, rx = axis(2, "ry"), axis(2, "rx")
    out = te.compute((3, 3), lambda y, z: te.max(x[y * 2 + ry, z * 2 + rx], axis=[ry, rx]))
    values = np.array([[1, 2, 3, 3, 5, 5]] * 6, "float32")
    (result,) = te.gradient(out, [x], te.placeholder((3, 3), name="head"))
    names = {one.op.name: one for one in tensors(result)}
    found = evaluate(result, {x: values, names["head"]: np.ones((3, 3), "float32")})
    assert found.sum() == 9 and (found <= 1).all()  # one element of each window


def tensors(tensor):
    return [op.output(0) for op in operations_in_order([tensor])]


def test_a_product_with_zeros():
    values = [np.array([[0, 2, 3, 4, 5], [0, 0, 1, 2, 3], [1, 2, 3, 4, 0], [1] * 5], "float32")]
    against_torch(reduced(product), [A], lambda a: (2 * a).prod(1), values)


def test_jacobians():
    out = softmax()
    (jacobian,) = te.gradient(out, [A])
    assert [int(n) for n in jacobian.shape] == [4, 5, 4, 5]
    values = random((4, 5))
    expected = torch.autograd.functional.jacobian(
        lambda a: torch.softmax(a, 1), torch.tensor(values)
    )
    np.testing.assert_allclose(evaluate(jacobian, {A: values}), expected.numpy(), 1e-3, 1e-6)


def test_finite_differences_of_a_deep_program():
    x = te.placeholder((6,), dtype="float64", name="x")
    y = te.compute((5,), lambda i: te.sin(x[i] * x[i + 1]) + te.exp(-x[i]), name="y")
    k = axis(3)
    z = te.compute((3,), lambda i: te.sum(y[i + k] * te.tanh(y[i]), axis=k), name="z")
    (result,) = te.gradient(z, [x])
    point = random(6).astype("float64")
    found = evaluate(result, {x: point})
    step = 1e-6
    for number in range(6):
        moved = [point.copy(), point.copy()]
        moved[0][number] += step
        moved[1][number] -= step
        up, down = [evaluate(z, {x: one}) for one in moved]
        np.testing.assert_allclose(found[:, number], (up - down) / (2 * step), rtol=1e-6)


def test_inputs_that_are_computed_and_those_that_do_not_matter():
    hidden = te.compute((4, 5), lambda i, j: A[i, j] * 3.0, name="hidden")
    out = te.compute((4, 5), lambda i, j: hidden[i, j] * hidden[i, j], name="out")
    head = te.placeholder((4, 5), name="head")
    by_hidden, by_a, by_b = te.gradient(out, [hidden, A, B], head)
    a, weight = random((4, 5)), random((4, 5), 1)
    values = {A: a, head: weight}
    np.testing.assert_allclose(evaluate(by_hidden, values), weight * 6 * a, rtol=1e-5)
    np.testing.assert_allclose(evaluate(by_a, values), weight * 18 * a, rtol=1e-5)
    assert not evaluate(by_b, values).any()
    (itself,) = te.gradient(out, [out], head)
    assert itself is head


def test_reads_at_places_that_the_program_computes():
    where = te.placeholder((6,), dtype="int32", name="where")
    out = te.compute((6,), lambda i: V[where[i]] * 2.0, name="out")
    head = te.placeholder((6,), name="head")
    (result,) = te.gradient(out, [V], head)
    places, weight = np.array([3, 3, 0, 8, 1, 3], "int32"), random(6)
    expected = np.zeros(9, "float32")
    np.add.at(expected, places, 2 * weight)
    found = evaluate(result, {where: places, head: weight, V: random(9)})
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_symbolic_sizes():
    n = te.var("n")
    a = te.placeholder((n, 4), name="a")
    k = te.reduce_axis((0, n), name="k")
    out = te.compute((4,), lambda j: te.sum(a[k, j] * a[k, j], axis=k), name="out")
    head = te.placeholder((4,), name="head")
    (result,) = te.gradient(out, [a], head)
    assert not result.op.reduce_axis
    x, weight, found = random((3, 4)), random(4), np.zeros((3, 4), "float32")
    interpreter.run(te.create_prim_func([a, head, result]), x, weight, found)
    np.testing.assert_allclose(found, 2 * x * weight, rtol=1e-5)


@pytest.mark.parametrize(
    ("output", "number", "axes"),
    [
        (matmul, 0, 1),
        (matmul, 1, 1),
        (lambda: te.compute((20,), lambda i: A[i // 5, i % 5]), 0, 0),
        (lambda: te.compute((5, 4), lambda i, j: A[j, i]), 0, 0),
        (lambda: te.compute((2, 2, 5), lambda i, j, k: te.exp(A[i * 2 + j, k])), 0, 0),
        (lambda: reduced(te.sum), 0, 0),
    ],
)
def test_adjoints_have_no_more_loops_than_by_hand(output, number, axes):
    inputs = [A, B]
    out = output()
    result = te.gradient(out, inputs, te.placeholder(out.shape, name="head"))[number]
    assert len(result.op.reduce_axis) == axes
    assert "if_then_else" not in str(result.op.body)


def scan():
    state = te.placeholder((4, 5), name="state")
    init = te.compute((1, 5), lambda _, i: A[0, i])
    update = te.compute((4, 5), lambda t, i: state[t - 1, i] + A[t, i])
    return te.scan(init, update, state, inputs=[A])


@pytest.mark.parametrize(
    ("kind", "message", "make"),
    [
        (TypeMismatchError, "takes tensors", lambda: te.gradient(A, [3])),
        (TypeMismatchError, "is int32", lambda: te.gradient(
            te.compute((4,), lambda i: A[i, 0].astype("int32")), [A])),
        (ShapeError, "does not end with", lambda: te.gradient(
            matmul(), [A], te.placeholder((4, 4), name="head"))),
        (UnsupportedError, "ScanOp 'scan'", lambda: te.gradient(scan(), [A])),
        (UnsupportedError, "derivative of `T.ldexp", lambda: te.gradient(
            te.compute((9,), lambda i: tir.ldexp(V[i], 2)), [V])),
    ],
)  # fmt: skip
def test_refusals(kind, message, make):
    with pytest.raises(kind, match=message) as caught:
        make()
    assert caught.value.place.file == __file__
