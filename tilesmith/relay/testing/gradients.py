"""Compares gradients with differences of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.relay.expr import const
from tilesmith.relay.testing.py_converter import run_as_python
from tilesmith.relay.testing.tools import run_infer_type
from tilesmith.relay.transform.automatic_differentiation import gradient
from tilesmith.relay.ty import TensorType
from tilesmith.support.errors import ConfigError, TypeMismatchError
from tilesmith.support.lazy import resolve

__all__ = ["check_grad"]


def _evaluate(function: Any, values: Sequence[Any], target: Any, device: Any, kind: str) -> Any:
    if kind == "debug":
        return run_as_python(function)(*[const(value).data for value in values])
    executor = resolve("tilesmith.relay:create_executor")(kind, device=device, target=target)
    return executor.evaluate(function)(*values)


def _total(found: Any) -> float:
    """Return the sum of all elements of a result."""
    if isinstance(found, (tuple, list)):
        return sum([_total(field) for field in found])
    return float(found.numpy().sum())


def _random_inputs(function: Any, scale: float | None, mean: float) -> list[Any]:
    found = []
    for param in function.params:
        if not isinstance(param.checked_type, TensorType):
            raise TypeMismatchError(
                f"the parameter '{param.name_hint}' is no tensor", notes=("give the inputs",)
            )
        type_ = param.checked_type
        shape, dtype = type_.concrete_shape, str(type_.dtype)
        factor = 1.0 if scale is None else scale
        found.append((factor * numpy.random.normal(size=shape) + mean).astype(dtype))
    return found


def check_grad(
    func: Any,
    inputs: Sequence[Any] | None = None,
    test_inputs: Sequence[Any] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    scale: float | None = None,
    mean: float = 0,
    mode: str = "higher_order",
    target_devices: Sequence[tuple[Any, Any]] | None = None,
    executor_kind: str = "debug",
) -> None:
    """Compare the gradients of a function with central differences of the sum of its results.

    Inputs that are not given are random, ``scale`` times numbers of a normal distribution plus
    ``mean``; ``test_inputs`` are those of the inputs by which gradients are compared. Parameters
    should be float64: differences of float32 say little. Raises AssertionError where they differ.
    """
    forward = run_infer_type(func)
    backward = run_infer_type(gradient(forward, mode=mode))
    values = _random_inputs(forward, scale, mean) if inputs is None else list(inputs)
    places = list(range(len(values)))
    if test_inputs is not None:
        places = [place for place in places if any(values[place] is one for one in test_inputs)]
        if len(places) != len(test_inputs):
            raise ConfigError("test_inputs have to be arrays that are among the inputs")
    for target, device in target_devices or [(None, None)]:
        _, grads = _evaluate(backward, values, target, device, executor_kind)

        def total(values: Any, target: Any = target, device: Any = device) -> float:
            return _total(_evaluate(forward, values, target, device, executor_kind))

        for place in places:
            wanted = _differences(total, values, place, eps)
            found = grads[place].numpy()
            message = f"gradient by '{func.params[place].name_hint}'"
            if found.dtype != "float64":
                message += f" ({found.dtype} is coarse for differences of {eps}: use float64)"
            numpy.testing.assert_allclose(found, wanted, rtol, atol, err_msg=message)


def _differences(total: Any, values: list[Any], place: int, eps: float) -> Any:
    changed = [numpy.array(value) for value in values]
    found = numpy.zeros(changed[place].shape)
    for index in numpy.ndindex(*found.shape):
        before = changed[place][index]
        changed[place][index] = before + eps
        above = total(changed)
        changed[place][index] = before - eps
        below = total(changed)
        changed[place][index] = before
        found[index] = (above - below) / (2 * eps)
    return found
