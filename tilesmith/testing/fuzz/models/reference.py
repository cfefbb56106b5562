"""Compares results with those of onnxruntime, where it can run the model, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import TensorProto, numpy_helper

from tilesmith.testing.fuzz.models.pick import nodes
from tilesmith.testing.fuzz.models.values import stored_tensors
from tilesmith.testing.fuzz.models.verdict import failure

__all__ = ["compare", "difference", "is_endless"]

_HUGE = 1e6
_LARGEST = float(numpy.finfo("float32").max)
_MOST_STEPS = 10**6
_RANDOM = ("Random", "Bernoulli", "Multinomial", "Dropout")


def compare(path: Path, arguments: list[Any], results: list[numpy.ndarray]) -> dict[str, Any]:
    """Return the record of a comparison; "ok" where there is nothing to compare with."""
    model = onnx.load(str(path))
    if any(node.op_type.startswith(_RANDOM) for node in nodes(model)):
        return {"outcome": "ok", "phase": "compare", "reason": "random"}
    if not _is_finite(model) or any(_is_unordered(node) for node in nodes(model)):
        return {"outcome": "ok", "phase": "compare", "reason": "not defined"}
    expected = _reference(path, model, arguments)
    if expected is None:
        return {"outcome": "ok", "phase": "compare", "reason": "onnxruntime refuses"}
    words = difference(results, expected)
    if words is None:
        return {"outcome": "same", "phase": "compare"}
    defined = _by_definition(model, arguments)
    if defined is not None and difference(results, defined) is None:
        return {"outcome": "same", "phase": "compare", "reason": "as ONNX's reference, not as ORT"}
    operators = " ".join(sorted({node.op_type for node in nodes(model)}))
    return failure("differs", f"{words} ({operators[:120]})", "compare", str(model.graph)[:3000])


def is_endless(path: Path) -> bool:
    """Return whether a model asks for so many steps of a loop that nothing runs it to its end."""
    model = onnx.load(str(path))
    limits = {node.input[0] for node in nodes(model) if node.op_type == "Loop" and node.input}
    counts = [tensor for tensor in stored_tensors(model) if tensor.name in limits]
    return any(bool((numpy_helper.to_array(count) > _MOST_STEPS).any()) for count in counts)


def _is_finite(model: Any) -> bool:
    """Return whether the floats that a model stores are finite and not huge: with others 0 times
    infinity, which depends on the order of evaluation, decides about the result.
    """
    numbers = [
        number
        for node in nodes(model)
        for attribute in node.attribute
        for number in (attribute.f, *attribute.floats)
    ]
    arrays = [numpy.asarray(numbers)]
    for tensor in stored_tensors(model):
        if tensor.data_type in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16):
            try:
                arrays.append(numpy_helper.to_array(tensor))
            except (TypeError, ValueError):
                return False
    return all(bool((numpy.abs(array) < _HUGE).all()) for array in arrays)


def _is_unordered(node: Any) -> bool:
    """Return whether a TopK asks for the largest elements in any order."""
    return node.op_type == "TopK" and any(
        one.name == "sorted" and one.i == 0 for one in node.attribute
    )


def _by_definition(model: Any, arguments: list[Any]) -> list[Any] | None:
    """Return what ONNX's own evaluator computes, which is asked where onnxruntime disagrees."""
    from onnx.reference import ReferenceEvaluator

    try:
        return _flat(ReferenceEvaluator(model).run(None, _feed(model, arguments)))
    except Exception:  # it does not know all operators, nor all dtypes
        return None


def _feed(model: Any, arguments: list[Any]) -> dict[str, Any]:
    stored = {tensor.name for tensor in model.graph.initializer}
    names = [item.name for item in model.graph.input if item.name not in stored]
    return dict(zip(names, arguments))


def _flat(found: Any) -> list[Any]:
    return [part for value in found for part in (value if isinstance(value, list) else [value])]


def _reference(path: Path, model: Any, arguments: list[Any]) -> list[Any] | None:
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # without rewriting the graph: a plain reference
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        found = session.run(None, _feed(model, arguments))
    except Exception:  # the rival's own refusal says nothing about us
        return None
    return _flat(found)


def difference(results: list[numpy.ndarray], expected: list[Any]) -> str | None:
    """Return in few words how results differ, None where they agree."""
    if len(results) != len(expected):
        return f"{len(expected)} results expected, got {len(results)}"
    for place, (one, other) in enumerate(zip(results, expected)):
        if other is None:
            continue
        other = numpy.asarray(other)
        if one.shape != other.shape:
            return f"result {place}: another shape"
        if one.dtype.kind == "V" and other.dtype.kind == "u":  # its way to show narrow floats
            other = other.view(one.dtype)
        if one.dtype != other.dtype:
            return f"result {place}: another dtype"
        if other.dtype.kind in "OSU":
            continue
        if not _close(one.astype("float64"), other.astype("float64"), one.dtype.itemsize):
            return f"result {place}: other values"
    return None


def _close(one: numpy.ndarray, other: numpy.ndarray, itemsize: int) -> bool:
    """Compare with a tolerance relative to the largest finite value. The largest number of a type
    counts as infinite: onnxruntime masks with it, ONNX's definitions with infinity.
    """
    one, other = [
        numpy.where(numpy.abs(x) >= _LARGEST, numpy.sign(x) * numpy.inf, x) for x in (one, other)
    ]
    if not numpy.array_equal(numpy.isnan(one), numpy.isnan(other)):
        return False
    finite = numpy.isfinite(one) & numpy.isfinite(other)
    rest = ~finite & ~numpy.isnan(one)
    if not numpy.array_equal(one[rest], other[rest]):
        return False
    scale = numpy.abs(other[finite]).max(initial=1.0)
    tolerance = (1e-2 if itemsize < 4 else 1e-4) * scale
    return bool((numpy.abs(one[finite] - other[finite]) <= tolerance).all())
