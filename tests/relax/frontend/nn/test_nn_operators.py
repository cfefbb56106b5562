"""Operators of nn against numpy and torch."""

import numpy as np
import pytest

from tests.relax.frontend.nn.run_nn import compiled, interpret, random
from tilesmith.relax.frontend import nn
from tilesmith.relax.frontend.nn import op
from tilesmith.support.errors import (
    DiagnosticError,
    OpAttributeInvalid,
    OpAttributeRequired,
    ShapeError,
    TypeMismatchError,
)

torch = pytest.importorskip("torch")
F = torch.nn.functional

X, Y = random(3, 5, seed=1), random(3, 5, seed=2)
BOOL = X > 0

ELEMENTWISE = {
    "add": (lambda x, y: x + y, X + Y),
    "add a number": (lambda x, y: 2 + x, X + 2),
    "subtract": (lambda x, y: 1.5 - x, np.float32(1.5) - X),
    "multiply": (lambda x, y: x * y, X * Y),
    "divide": (lambda x, y: 1 / x, 1 / X),
    "maximum": (lambda x, y: x.maximum(y), np.maximum(X, Y)),
    "minimum": (lambda x, y: x.minimum(0), np.minimum(X, 0)),
    "less": (lambda x, y: x < y, X < Y),
    "less_equal": (lambda x, y: x <= x, X <= X),
    "greater": (lambda x, y: x > 0, X > 0),
    "greater_equal": (lambda x, y: x >= y, X >= Y),
    "equal": (lambda x, y: op.equal(x, x), X == X),
    "not_equal": (lambda x, y: op.not_equal(x, y), X != Y),
    "where": (lambda x, y: op.where(x > 0, x, y), np.where(BOOL, X, Y)),
    "where a number": (lambda x, y: op.where((x > 0).astype("int32"), x, 0), np.where(BOOL, X, 0)),
    "astype": (lambda x, y: x.astype("int32"), X.astype("int32")),
    "relu": (lambda x, y: op.relu(x), np.maximum(X, 0)),
    "silu": (lambda x, y: op.silu(x), X / (1 + np.exp(-X))),
    "gelu": (lambda x, y: op.gelu(x), F.gelu(torch.tensor(X)).numpy()),
    "gelu tanh": (
        lambda x, y: op.gelu(x, approximate="tanh"),
        F.gelu(torch.tensor(X), approximate="tanh").numpy(),
    ),
    "sigmoid": (lambda x, y: op.sigmoid(x), 1 / (1 + np.exp(-X))),
    "softmax": (lambda x, y: op.softmax(x, axis=0), torch.tensor(X).softmax(0).numpy()),
    "tanh": (lambda x, y: op.tanh(x), np.tanh(X)),
    "exp": (lambda x, y: op.exp(x), np.exp(X)),
    "negative": (lambda x, y: -x, -X),
    "square": (lambda x, y: op.square(x), X * X),
    "sqrt": (lambda x, y: op.sqrt(x * x), np.abs(X)),
    "sum": (lambda x, y: op.sum(x, 1, keepdims=True), X.sum(1, keepdims=True)),
    "cumsum": (lambda x, y: op.cumsum(x, 1), X.cumsum(1)),
    "cumsum exclusive": (lambda x, y: op.cumsum(x, 0, exclusive=True), X.cumsum(0) - X),
    "triu": (lambda x, y: op.triu(x, 1), np.triu(X, 1)),
    "pad": (
        lambda x, y: op.pad(x, [0, 1, 2, 0], value=3),
        np.pad(X, ((0, 1), (2, 0)), constant_values=3),
    ),
    "repeat": (lambda x, y: x.repeat(2, 1), X.repeat(2, 1)),
    "reshape": (lambda x, y: x.reshape(5, -1), X.reshape(5, 3)),
    "permute_dims": (lambda x, y: x.permute_dims(1, 0), X.T),
    "permute": (lambda x, y: op.permute(x, None), X.T),
    "unsqueeze": (lambda x, y: op.unsqueeze(x, 1), X[:, None]),
    "squeeze": (lambda x, y: op.squeeze(op.unsqueeze(x, 2)), X),
    "broadcast_to": (lambda x, y: op.broadcast_to(x, (2, 3, 5)), np.broadcast_to(X, (2, 3, 5))),
    "concat": (lambda x, y: op.concat([x, y], 1), np.concatenate([X, Y], 1)),
    "chunk": (lambda x, y: op.chunk(x, 3, 0)[1], X[1:2]),
    "split": (lambda x, y: op.split(x, [1, 3], axis=1)[1], X[:, 1:3]),
    "matmul": (lambda x, y: op.matmul(x, y.permute_dims()), X @ Y.T),
    "take": (lambda x, y: op.take(x, op.full((2,), 1, "int32"), axis=1), X[:, [1, 1]]),
    "full": (lambda x, y: op.full((2, 2), 7, "int32"), np.full((2, 2), 7)),
    "full of a tensor": (lambda x, y: op.full((2,), op.sum(x)), np.full(2, X.sum())),
    "zeros": (lambda x, y: op.zeros((2,)), np.zeros(2)),
    "ones": (lambda x, y: op.ones((2,), "int64"), np.ones(2)),
    "empty": (lambda x, y: op.empty((2, 3)) * 0, np.zeros((2, 3))),
    "sort": (lambda x, y: op.sort(x, descending=True), -np.sort(-X)),
    "argsort": (lambda x, y: op.argsort(x), np.argsort(X)),
    "topk": (lambda x, y: op.topk(x, 2)[1], np.argsort(-X)[:, :2]),
    "layer_norm": (lambda x, y: op.layer_norm(x, 5), F.layer_norm(torch.tensor(X), (5,)).numpy()),
    "rms_norm": (
        lambda x, y: op.rms_norm(x, op.ones((5,)), -1),
        X / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_operators_agree_with_numpy(name):
    function, expected = ELEMENTWISE[name]
    found = interpret(function, X, Y)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_all_of_them_compile_in_one_module():
    functions = [function for function, _ in ELEMENTWISE.values()]
    found = compiled(lambda x, y: [function(x, y) for function in functions], X, Y)
    for (name, (_, expected)), value in zip(ELEMENTWISE.items(), found, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6, err_msg=name)


IMAGE, KERNEL, BIAS = random(2, 4, 7, 6), random(6, 2, 3, 3, seed=1), random(6, seed=2)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_conv2d(layout):
    expected = F.conv2d(*map(torch.tensor, (IMAGE, KERNEL, BIAS)), 2, 1, 1, 2).numpy()
    image = IMAGE if layout == "NCHW" else IMAGE.transpose(0, 2, 3, 1).copy()
    found = interpret(
        lambda x, w, b: op.conv2d(x, w, b, 2, 1, 1, 2, data_layout=layout), image, KERNEL, BIAS
    )
    found = found if layout == "NCHW" else found.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_conv1d_and_its_transpose():
    x, w, v = random(2, 3, 9), random(4, 3, 3, seed=1), random(3, 2, 3, seed=2)
    found = interpret(lambda x, w: op.conv1d(x, w, None, 1, 2, 2), x, w)
    expected = F.conv1d(torch.tensor(x), torch.tensor(w), None, 1, 2, 2)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)
    found = interpret(lambda x, w: op.conv1d_transpose(x, w, None, 2, 1, 1), x, v)
    expected = F.conv_transpose1d(torch.tensor(x), torch.tensor(v), None, 2, 1, 1)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_conv3d():
    x, w = random(1, 2, 4, 5, 3), random(3, 2, 2, 3, 1, seed=1)
    found = interpret(lambda x, w: op.conv3d(x, w, None, 1, 1), x, w)
    expected = F.conv3d(torch.tensor(x), torch.tensor(w), None, 1, 1)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_group_norm():
    weight, bias = random(4, seed=1), random(4, seed=2)
    found = interpret(lambda x, w, b: op.group_norm(x, 2, w, b), IMAGE, weight, bias)
    expected = F.group_norm(*map(torch.tensor, (IMAGE,)), 2, *map(torch.tensor, (weight, bias)))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("mode", "align"),
    [
        ("nearest", None),
        ("bilinear", None),
        ("bilinear", True),
        ("bicubic", None),
        ("bicubic", True),
    ],
)
def test_interpolate(mode, align):
    found = interpret(
        lambda x: op.interpolate(x, size=(10, 4), mode=mode, align_corners=align), IMAGE
    )
    expected = F.interpolate(torch.tensor(IMAGE), size=(10, 4), mode=mode, align_corners=align)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_interpolate_by_a_factor():
    found = interpret(lambda x: op.interpolate(x, scale_factor=2.0), IMAGE)
    np.testing.assert_array_equal(found, IMAGE.repeat(2, 2).repeat(2, 3))


QUERY, KEY, VALUE = random(2, 5, 3, 8), random(2, 7, 3, 8, seed=1), random(2, 7, 3, 8, seed=2)


@pytest.mark.parametrize("how", ["plain", "mask", "bool mask", "causal", "scale"])
def test_attention(how):
    mask = random(2, 3, 5, 7, seed=3)
    settings = {"is_causal": how == "causal", "scale": 0.3 if how == "scale" else None}
    bias = {"mask": mask, "bool mask": mask > -0.5}.get(how)
    arrays = [QUERY, KEY, VALUE] + ([] if bias is None else [bias])
    found = interpret(lambda *x: op.scaled_dot_product_attention(*x, **settings), *arrays)
    tensors = [torch.tensor(x).transpose(1, 2) for x in (QUERY, KEY, VALUE)]
    given = None if bias is None else torch.tensor(bias)
    expected = F.scaled_dot_product_attention(*tensors, attn_mask=given, **settings)
    np.testing.assert_allclose(found, expected.transpose(1, 2).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("size", [6, 7])
def test_timestep_embedding(flip, size):
    times = np.array([0, 3, 250], "int32")
    found = interpret(lambda t: op.get_timestep_embedding(t, size, flip, 0), times)
    half = size // 2
    angles = times[:, None] * np.exp(-np.log(10000) * np.arange(half) / half)
    waves = [np.cos(angles), np.sin(angles)] if flip else [np.sin(angles), np.cos(angles)]
    expected = np.concatenate([*waves, np.zeros((3, size % 2))], 1)
    np.testing.assert_allclose(found, expected, atol=1e-4)


# Drawing

SORTED = np.array([[0.5, 0.4, 0.1], [0.4, 0.3, 0.3]], "float32")
INDEX = np.array([[2, 1, 0], [2, 0, 1]], "int32")
TOP_P, TOP_K = np.array([[0.6], [0.9]], "float32"), np.array([[3], [2]], "int64")


def test_multinomial_from_uniform():
    prob = np.array([[0.2, 0.3, 0.5], [0.3, 0.4, 0.3]], "float32")
    uniform = np.array([[0.4], [0.9], [0.1], [1.0]], "float32")
    rows = np.array([[0], [1], [1], [0]], "int64")
    found = compiled(op.multinomial_from_uniform, prob, uniform, rows)
    assert found.tolist() == [[1], [2], [0], [2]] and found.dtype == "int64"
    found = interpret(
        lambda p, u: op.multinomial_from_uniform(p, u, dtype="int32"), prob, uniform[:2]
    )
    assert found.tolist() == [[1], [2]] and found.dtype == "int32"


def test_drawing_follows_the_distribution():
    prob = np.array([[0.1, 0.6, 0.0, 0.3]], "float32")
    uniform = np.linspace(0, 1, 1000, endpoint=False, dtype="float32")[:, None]
    rows = np.zeros((1000, 1), "int64")
    found = interpret(op.multinomial_from_uniform, prob, uniform, rows)
    counts = np.bincount(found[:, 0], minlength=4)
    assert np.abs(counts - [100, 600, 0, 300]).max() <= 2


def test_sample_top_p_top_k():
    uniform, rows = np.array([[0.5], [0.6], [0.999]], "float32"), np.array([[0], [1], [0]], "int64")
    found = compiled(
        op.sample_top_p_top_k_from_sorted_prob, SORTED, INDEX, TOP_P, TOP_K, uniform, rows
    )
    assert found.tolist() == [[2], [0], [1]]  # the third class of the first row is never drawn


def test_renormalize_top_p_top_k():
    prob = np.array([[0.2, 0.3, 0.5], [0.3, 0.3, 0.4]], "float32")
    ordered = np.array([[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]], "float32")
    found = interpret(op.renormalize_top_p_top_k_prob, prob, ordered, TOP_P, TOP_K)
    np.testing.assert_allclose(found, [[0, 0.375, 0.625], [0.3, 0.3, 0.4]], rtol=1e-5)


# Mistakes

BAD = {
    "no tensor": (lambda x: op.relu(3), TypeMismatchError, "'x' is int"),
    "two numbers": (lambda x: op.add(1, 2), TypeMismatchError, "nn.op.add"),
    "a list": (lambda x: op.concat(x, 0), TypeMismatchError, "list of tensors"),
    "gelu": (lambda x: op.gelu(x, approximate="erf"), OpAttributeInvalid, "approximate"),
    "mode": (lambda x: op.interpolate(x, 3, mode="cubic"), OpAttributeInvalid, "no mode 'cubic'"),
    "no size": (lambda x: op.interpolate(x), OpAttributeRequired, "size or scale_factor"),
    "axes": (lambda x: op.multinomial_from_uniform(op.sum(x, 0), x), ShapeError, "'prob' has 1"),
    "print": (lambda x: op.print_(x), DiagnosticError, "debug=True"),
    "kernel": (lambda x: op.tensor_ir_op(None, "f", [x], x), TypeMismatchError, "PrimFunc"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_named(name):
    function, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        interpret(function, X)


def test_operators_need_a_function():
    with pytest.raises(DiagnosticError, match="while a method is exported"):
        op.relu(nn.Tensor.placeholder((2,), "float32"))
