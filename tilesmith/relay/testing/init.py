"""Values for the weights of a network.

mod, params = create_workload(net, Xavier(magnitude=2), seed=1)
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.relay.transform.types import InferType
from tilesmith.relay.ty import TensorType
from tilesmith.runtime.ndarray import array
from tilesmith.support.errors import (
    ConfigError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
)

__all__ = ["Constant", "Initializer", "Xavier", "create_workload"]


class Initializer:
    """Fills an array according to its name: ``init(name, array)``.

    A subclass overrides the method for its kind of weights.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._options = kwargs

    def __call__(self, desc: str, arr: Any) -> None:
        """Fill ``arr``, which ``desc`` names; raises UnknownNameError for a name of no kind."""
        for ending, method in _KINDS.items():
            if desc.endswith(ending):
                getattr(self, method)(desc, arr)
                return
        raise UnknownNameError(
            f"'{desc}' does not say what it is",
            notes=("names of weights end with " + ", ".join(_KINDS),),
        )

    def _weight(self, name: str, arr: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say how weights begin")

    def _zero(self, name: str, arr: Any) -> None:
        arr[...] = 0

    def _one(self, name: str, arr: Any) -> None:
        arr[...] = 1

    _bias = _beta = _mean = _zero
    _gamma = _variance = _one


_KINDS = {
    "weight": "_weight",
    "bias": "_bias",
    "gamma": "_gamma",
    "beta": "_beta",
    "mean": "_mean",
    "var": "_variance",
}


class Xavier(Initializer):
    """Random weights whose variance is ``magnitude / factor``; the factor is the number of inputs
    ("in"), of outputs ("out") of an output, or the mean of both ("avg").
    """

    def __init__(
        self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3
    ) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        if rnd_type not in ("uniform", "gaussian"):
            raise ConfigError(f"rnd_type is 'uniform' or 'gaussian', not {rnd_type!r}")
        if factor_type not in ("avg", "in", "out"):
            raise ConfigError(f"factor_type is 'avg', 'in' or 'out', not {factor_type!r}")
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _weight(self, name: str, arr: Any) -> None:
        if arr.ndim < 2:
            raise ShapeError(f"the weight '{name}' has shape {arr.shape}: Xavier needs two axes")
        spatial = int(numpy.prod(arr.shape[2:]))
        inputs, outputs = arr.shape[1] * spatial, arr.shape[0] * spatial
        factors = {"avg": (inputs + outputs) / 2, "in": inputs, "out": outputs}
        scale = numpy.sqrt(self.magnitude / factors[self.factor_type])
        if self.rnd_type == "uniform":
            arr[...] = numpy.random.uniform(-scale, scale, size=arr.shape)
        else:
            arr[...] = numpy.random.normal(0, scale, size=arr.shape)


class Constant(Initializer):
    """The same value in all weights of a name that ends with "weight"."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__(value=value)
        self.value = value

    def _weight(self, name: str, arr: Any) -> None:
        arr[...] = self.value


def create_workload(
    net: Any, initializer: Initializer | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of a function, and values for all its parameters but ``data``."""
    mod = InferType()(IRModule.from_expr(net))
    initializer = Xavier() if initializer is None else initializer
    numpy.random.seed(seed)
    params = {}
    entry: Any = mod["main"]
    for param in entry.params:
        if param.name_hint == "data":
            continue
        type_ = param.checked_type
        if not isinstance(type_, TensorType):
            raise TypeMismatchError(f"the parameter '{param.name_hint}' is no tensor: {type_}")
        value = numpy.zeros(type_.concrete_shape, str(type_.dtype))
        initializer(param.name_hint, value)
        params[param.name_hint] = array(value)
    return mod, params
