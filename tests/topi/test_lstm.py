"""Recurrent layers against the reference, and the reference against torch."""

import numpy as np
import pytest

from tests.topi.harness import Case, check, real
from tilesmith import te, tir, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.topi import testing

STEPS, BATCH, INPUTS, SIZE, PROJECTED = 4, 2, 3, 5, 2
SHAPES = {
    "Xs": (STEPS, BATCH, INPUTS), "Wi": (4 * SIZE, INPUTS), "Wh": (4 * SIZE, SIZE),
    "Bi": (4 * SIZE,), "Bh": (4 * SIZE,), "h_init": (BATCH, SIZE), "c_init": (BATCH, SIZE),
    "proj": (PROJECTED, SIZE), "p_i": (BATCH, SIZE), "p_f": (SIZE,), "p_o": (BATCH, SIZE),
}  # fmt: skip


def layer(*names, dtype="float32", rtol=1e-4, activations=(), **options):
    """A case with some of the optional inputs."""
    shapes = dict(SHAPES)
    if "proj" in names:
        shapes["Wh"], shapes["h_init"] = (4 * SIZE, PROJECTED), (BATCH, PROJECTED)
    names = ("Xs", "Wi", "Wh", *names)
    inputs = tuple([real(*shapes[name], seed=k).astype(dtype) for k, name in enumerate(names)])
    functions = {name: getattr(tir, meaning) for name, meaning in activations}
    return Case(
        "_".join([*names[3:], dtype, *[str(value) for value in options.values()], *functions]),
        lambda *given: topi.nn.lstm(**dict(zip(names, given)), **functions, **options),
        lambda *given: testing.lstm_python(
            **{name: x.astype("float64") for name, x in zip(names, given)},
            **dict(activations),
            **options,
        ),
        inputs,
        rtol,
    )


CASES = [
    layer(),
    layer("Bi", "Bh"),
    layer("Bh", "h_init", "c_init", reverse=True),
    layer("proj", "h_init", weight_layout="GOFI"),
    layer("p_i", "p_f", "p_o", "c_init"),
    layer("Bi", activations=(("g_act", "sigmoid"), ("h_act", "sigmoid"), ("f_act", "tanh"))),
    layer("Bi", "Bh", "h_init", "c_init", "proj", "p_i", "p_f", "p_o", reverse=True),
    layer("Bi", "c_init", dtype="float16", rtol=2e-2),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_layers(case):
    check(case)


def test_the_reference_agrees_with_torch():
    torch = pytest.importorskip("torch")
    module = torch.nn.LSTM(INPUTS, SIZE)
    weights = [value.detach().numpy() for value in module.parameters()]
    x = real(STEPS, BATCH, INPUTS)
    with torch.no_grad():
        wanted, (_, last) = module(torch.from_numpy(x))
    hidden, cells = testing.lstm_python(x, *weights, weight_layout="IFGO")
    np.testing.assert_allclose(hidden, wanted.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(cells[-1], last[0].numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changed", "options", "error", "text"),
    [
        ({}, {"weight_layout": "IFG"}, OpAttributeInvalid, "'IFG'"),
        ({"Xs": (2, 3)}, {}, ShapeError, "2 dimensions"),
        ({"Wh": (4 * SIZE, 3)}, {}, ShapeError, r"Wh of shape \[20, 3\]"),
        ({"Wi": (18, INPUTS)}, {}, ShapeError, "4 rows for each cell state"),
    ],
)
def test_mistakes_are_said(changed, options, error, text):
    shapes = {**SHAPES, **changed}
    given = [te.placeholder(shapes[name], name=name) for name in ("Xs", "Wi", "Wh")]
    with pytest.raises(error, match=text):
        topi.nn.lstm(*given, **options)
