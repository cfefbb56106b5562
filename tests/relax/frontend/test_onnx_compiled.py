"""One of ONNX's node tests for each operator, compiled to machine code: against the interpreter."""

import re

import numpy as np
import pytest

import tilesmith
from tests.relax.frontend.onnx_reference import check_close, node_tests, with_constants
from tilesmith.error import TilesmithError
from tilesmith.relax import interpreter
from tilesmith.relax.frontend.onnx import from_onnx

GROUPS = ("a-b", "c", "d-f", "g-l", "m-p", "q-r", "s", "t-z")


def first_of_each_operator():
    """Name → case: the first test of each operator that the importer takes."""
    chosen, seen = {}, set()
    for name, (model, inputs, *_) in node_tests().items():
        operators = tuple(node.op_type for node in model.graph.node)
        if operators[0] in seen or len(operators) > 1:
            continue
        if any(not isinstance(value, np.ndarray) or not value.size for value in inputs):
            continue
        if any(value.dtype.kind not in "fiub" or value.dtype == "float16" for value in inputs):
            continue
        for candidate, feed in ((model, inputs), with_constants(model, inputs)):
            try:
                chosen[name] = (from_onnx(candidate), feed)
                seen.add(operators[0])
                break
            except TilesmithError:
                continue
    return chosen


@pytest.fixture(scope="module")
def cases():
    return first_of_each_operator()


def failure(module, feed):
    """What differs between the compiled module and the interpreter, or ""."""
    try:
        actual = tilesmith.compile(module, target="llvm")(*feed)
    except TilesmithError as error:
        return f"{type(error).__name__}: {error}"
    expected = interpreter.run(module, "main", *feed)
    several = isinstance(expected, tuple)
    pairs = zip(actual, expected) if several else [(actual, expected)]
    try:
        for a, b in pairs:
            check_close(a.numpy(), b, 1e-3, 1e-5)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("group", GROUPS)
def test_compiled(cases, group):
    chosen = [name for name in cases if re.match(f"test_[{group}]", name)]
    assert chosen
    found = {name: failure(*cases[name]) for name in chosen}
    failed = [f"{name}: {text}" for name, text in found.items() if text]
    assert not failed, "\n".join(failed)


def test_most_operators_are_covered(cases):
    assert len(cases) > 140
