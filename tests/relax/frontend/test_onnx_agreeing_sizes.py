"""Symbolic sizes that an operator's arguments share are compared when the program runs; sizes that
are known to differ are refused when the model is compiled."""

import numpy as np
import pytest

import tilesmith
from tests.relax.frontend.onnx_reference import one_node, reference
from tilesmith.support.errors import ShapeError


def numbers(*shape):
    return np.random.default_rng(0).random(shape).astype("float32")


def places(*shape):
    return np.zeros(shape, "int64")


# operator → its inputs with wrong sizes, the input that is at fault, right sizes of this one,
# symbolic sizes, attributes
CASES = {
    "GatherElements": (
        {"x": numbers(3, 4), "i": places(2, 6)}, "i", (2, 3), {"x": "ab", "i": "cd"}, {},
    ),
    "ScatterElements": (
        {"x": numbers(3, 4), "i": places(2, 3), "u": numbers(1, 3)}, "u", (2, 3),
        {"x": "ab", "i": "cd", "u": "ef"}, {"reduction": "add"},
    ),
    "ScatterND": (
        {"x": numbers(3, 4), "i": places(2, 1), "u": numbers(1, 4)}, "u", (2, 4),
        {"x": "ab", "i": ["c", 1], "u": "ef"}, {"reduction": "add"},
    ),
    "GatherND": (
        {"x": numbers(3, 4), "i": places(5, 1)}, "i", (3, 1), {"x": "ab", "i": ["c", 1]},
        {"batch_dims": 1},
    ),
    "Concat": (
        {"x": numbers(3, 4), "y": numbers(3, 5)}, "y", (2, 4), {"x": "ab", "y": "cd"}, {"axis": 0},
    ),
    "Einsum": (
        {"x": numbers(3, 4), "y": numbers(5, 6)}, "y", (4, 6), {"x": "ab", "y": "cd"},
        {"equation": "ij,jk->ik"},
    ),
    "PRelu": (
        {"x": numbers(2, 4) - 0.5, "s": numbers(3)}, "s", (4,), {"x": "ab", "s": "c"}, {},
    ),
    "Conv": (
        {"x": numbers(1, 3, 5, 5), "w": numbers(4, 5, 2, 2)}, "w", (4, 3, 2, 2),
        {"x": "ncde", "w": ["f", "g", 2, 2]}, {},
    ),
    "ConvTranspose": (
        {"x": numbers(1, 3, 4, 4), "w": numbers(4, 2, 2, 2)}, "w", (3, 2, 2, 2),
        {"x": "ncde", "w": ["f", 2, 2, 2]}, {},
    ),
    "InstanceNormalization": (
        {"x": numbers(1, 4, 5), "s": numbers(4), "b": numbers(3)}, "b", (4,),
        {"x": "ncl", "s": "d", "b": "e"}, {},
    ),
    "QuantizeLinear": (
        {"x": numbers(2, 4), "s": numbers(3) + 1, "z": np.zeros(4, "int8")}, "s", (4,),
        {"x": "nc", "s": "d", "z": "e"}, {"axis": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("operator", CASES)
def test_sizes_that_differ(operator):
    feed, name, shape, symbols, attributes = CASES[operator]
    symbols = {key: list(names) for key, names in symbols.items()}
    model = one_node(operator, feed, shapes=symbols, opset=18, **attributes)
    run = tilesmith.compile(model)
    with pytest.raises(ShapeError, match=f"{operator} node 'the_node'.* expects size"):
        run(*feed.values())
    kind = feed[name].dtype
    right = {**feed, name: (np.ones if kind.kind == "f" else np.zeros)(shape, kind)}
    wanted = reference(one_node(operator, right, opset=18, **attributes), right)[0]
    np.testing.assert_allclose(run(*right.values()).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operator", ["GatherElements", "GatherND", "Conv", "Concat"])
def test_sizes_that_are_known_to_differ(operator):
    feed, _, _, _, attributes = CASES[operator]
    with pytest.raises(Exception, match="needed is|cannot be joined|differ|channels"):
        tilesmith.compile(one_node(operator, feed, opset=18, **attributes))
