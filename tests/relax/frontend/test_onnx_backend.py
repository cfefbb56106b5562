"""ONNX's own node tests: whatever has supported operators and dtypes gives the right values.

Each test is tried as it is; where a converter needs a value at import that the test gives as an
input (axes, sizes), that input is made a constant, which is how models have it.
"""

import collections
import re

import numpy as np
import pytest

from tests.relax.frontend.onnx_reference import check_close, node_tests, with_constants
from tilesmith.error import OpAttributeUnImplemented, OpNotImplemented, UnsupportedError
from tilesmith.relax import interpreter
from tilesmith.relax.frontend.onnx import from_onnx

# Tests that cannot pass, by their reason. Everything else has to.
EXPECTED_FAILURES = {
    r"bernoulli|training_dropout": "random numbers differ by definition",
    r"einsum_.*bfloat16": "numpy's einsum has no bfloat16",
}
# Types of elements that the runtime cannot hold.
UNSUPPORTED_TYPES = r"string"
NOT_TENSORS = r"the input '\w+' is an? (sequence|optional)"
LEAST_PASSED = 0.93  # of all node tests, which differ between versions of the package


@pytest.fixture(scope="module")
def cases():
    """Name → (model, inputs, outputs, tolerances)."""
    return node_tests()


def run_and_check(model, inputs, outputs, rtol, atol):
    absent = {item.name: None for item, value in zip(model.graph.input, inputs) if value is None}
    given = [value for value in inputs if value is not None]
    results = interpreter.run(from_onnx(model, shape_dict=absent), "main", *given)
    results = [results] if len(outputs) == 1 else list(results)
    assert len(results) == len(outputs)
    narrow = any(np.asarray(o).dtype.itemsize < 4 for o in outputs if not isinstance(o, list))
    for actual, expected in zip(results, outputs):
        check_close(actual, expected, max(rtol, 1e-2 if narrow else 1e-3), max(atol, 1e-5))


def outcome(name, model, inputs, outputs, rtol, atol):
    """ "passed", why the test does not apply, or "FAILED: …"."""
    for pattern, reason in EXPECTED_FAILURES.items():
        if re.search(pattern, name):
            return reason
    try:
        run_and_check(model, inputs, outputs, rtol, atol)
        return "passed"
    except OpNotImplemented:
        return "operator without converter"
    except UnsupportedError as error:
        known = re.search(UNSUPPORTED_TYPES, str(error)) or re.search(NOT_TENSORS, str(error))
        return "unsupported type" if known else f"FAILED: {error}"
    except Exception as first:
        if re.search(UNSUPPORTED_TYPES, str(first)):
            return "unsupported type"
        model, inputs = with_constants(model, inputs)
        try:
            run_and_check(model, inputs, outputs, rtol, atol)
            return "passed"
        except OpAttributeUnImplemented as error:
            return f"FAILED: {error}"
        except Exception as error:
            return f"FAILED: {type(error).__name__}: {error} (as it is: {first})"


def test_node_tests(cases):
    """None fails, and most apply; the share goes up, never down."""
    found = {name: outcome(name, *case) for name, case in cases.items()}
    failed = [f"{name}: {text}" for name, text in found.items() if text.startswith("FAILED")]
    assert not failed, "\n".join(failed)
    tally = collections.Counter(found.values())
    assert tally["passed"] >= LEAST_PASSED * len(cases), tally
