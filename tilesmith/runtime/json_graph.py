"""Runs graphs that are written as JSON: modules of external code generators that call libraries.

    {"symbol": "tvmgen_default_cblas_main_0", "library": "cblas",
     "nodes": [{"op": "input", "name": "x"}, {"op": "const", "name": "w"},
               {"op": "kernel", "name": "nn.dense", "inputs": [[0, 0, 0], [1, 0, 0]],
                "attrs": {"shape": [[4, 8]], "dtype": ["float32"], "units": 8}}],
     "arg_nodes": [0, 1], "heads": [[2, 0, 0]], "node_row_ptr": [0, 1, 2, 3]}

A kernel is found by its name among those of the library, else among `COMMON`. One with a "graph"
(a composite function) runs the nodes inside. Constants come from the artifact by
``__init_SYMBOL``, in the order of ``get_const_vars``.
"""

from __future__ import annotations

import functools
import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.external import READERS
from tilesmith.runtime.module import Module
from tilesmith.runtime.ndarray import NDArray, empty_cpu
from tilesmith.runtime.packed_func import convert_to_packed
from tilesmith.support.errors import ArtifactError, UnsupportedError
from tilesmith.support.lazy import resolve

__all__ = ["COMMON", "LIBRARIES", "json_module"]

Kernel = Callable[[Mapping[str, Any], Sequence[NDArray], NDArray], None]
"""``(attributes, operands, result)``: computes the result into its memory."""

LIBRARIES: dict[str, str | dict[str, Kernel]] = {
    "cblas": "tilesmith.runtime.libraries.graph_kernels:CBLAS",
    "dnnl": "tilesmith.runtime.libraries.graph_kernels:DNNL",
    "examplejson": {},
}
"""Library → its kernels by name of operator, or where they are."""


def _elementwise(name: str) -> Kernel:
    """Return the kernel of a function of numpy, which writes into the result's memory."""

    def run(attrs: Mapping[str, Any], operands: Sequence[NDArray], out: NDArray) -> None:
        import numpy

        views = [one.numpy_view() for one in operands]
        getattr(numpy, name)(*views, out=out.numpy_view(), casting="unsafe")

    return run


def _bias_add(attrs: Mapping[str, Any], operands: Sequence[NDArray], out: NDArray) -> None:
    import numpy

    data, bias = operands[0].numpy_view(), operands[1].numpy_view()
    after = data.ndim - 1 - int(attrs.get("axis", 1)) % data.ndim
    wide = bias.reshape(bias.shape + (1,) * after)
    numpy.add(data, wide, out=out.numpy_view(), casting="unsafe")


def _relu(attrs: Mapping[str, Any], operands: Sequence[NDArray], out: NDArray) -> None:
    import numpy

    data = operands[0].numpy_view()
    numpy.maximum(data, data.dtype.type(0), out=out.numpy_view())


@functools.cache
def _erf_series(degree: int) -> Any:
    """Return the polynomial that equals erf between -6 and 6, up to rounding."""
    import numpy

    exact = numpy.vectorize(math.erf, otypes=["float64"])
    return numpy.polynomial.Chebyshev.interpolate(exact, degree, (-6, 6))


def _gelu(attrs: Mapping[str, Any], operands: Sequence[NDArray], out: NDArray) -> None:
    import numpy

    data = operands[0].numpy_view()
    is_double = data.dtype.itemsize == 8
    series = _erf_series(95 if is_double else 47)
    scaled = numpy.clip(data.astype("float64") * math.sqrt(0.5), -6, 6)
    share = (series(scaled) + 1) * 0.5
    numpy.multiply(data, share, out=out.numpy_view(), casting="unsafe")


COMMON: dict[str, Kernel] = {
    "add": _elementwise("add"),
    "subtract": _elementwise("subtract"),
    "multiply": _elementwise("multiply"),
    "nn.bias_add": _bias_add,
    "nn.gelu": _gelu,
    "nn.relu": _relu,
}
"""What is added to the results of a library, by name of operator."""


class _Graph:
    """A graph whose kernels are found."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self.symbol = str(description["symbol"])
        self.library = str(description["library"])
        self.nodes: list[Mapping[str, Any]] = list(description["nodes"])
        self.heads = [int(head[0]) for head in description["heads"]]
        self.arg_nodes = [int(place) for place in description["arg_nodes"]]
        self.constants: dict[str, NDArray] = {}
        self.steps: dict[int, Any] = {}
        self._lock = threading.Lock()
        for place, node in enumerate(self.nodes):
            if node["op"] == "kernel":
                self.steps[place] = self._kernel(node)
            elif node["op"] not in ("input", "const"):
                raise ArtifactError(f"'{self.symbol}': unknown kind of node '{node['op']}'")

    def _kernel(self, node: Mapping[str, Any]) -> Any:
        known = LIBRARIES.get(self.library)
        if known is None:
            raise UnsupportedError(
                f"'{self.symbol}' is for the library '{self.library}', which is not known here",
                notes=("known: " + ", ".join(LIBRARIES),),
            )
        kernels: Mapping[str, Kernel] = resolve(known) if isinstance(known, str) else known
        found = kernels.get(node["name"]) or COMMON.get(node["name"])
        if found is not None:
            return found
        if "graph" not in node:
            raise UnsupportedError(
                f"'{self.symbol}': the library '{self.library}' has no '{node['name']}'",
                notes=("it has: " + ", ".join([*kernels, *COMMON]),),
            )
        inner = _Graph({**node["graph"], "symbol": self.symbol, "library": self.library})
        inner.constants = self.constants
        return inner

    @property
    def const_names(self) -> list[str]:
        """The names of the constants, in order."""
        own = [str(node["name"]) for node in self.nodes if node["op"] == "const"]
        inner = [step.const_names for step in self.steps.values() if isinstance(step, _Graph)]
        return [*own, *[name for names in inner for name in names]]

    def begin(self, values: Sequence[NDArray]) -> None:
        """Take the constants, in the order of `const_names`."""
        with self._lock:
            self.constants.update(zip(self.const_names, values))

    def run(self, *arguments: NDArray) -> None:
        """Compute the outputs, which come after the inputs."""
        inputs = [place for place in self.arg_nodes if self.nodes[place]["op"] == "input"]
        outputs = arguments[len(inputs) :]
        values: dict[int, NDArray] = dict(zip(inputs, arguments))
        given = dict(zip(self.heads, outputs))  # computed in place
        for place, node in enumerate(self.nodes):
            if node["op"] == "const":
                values[place] = self._constant(str(node["name"]))
            if place not in self.steps:
                continue
            operands = [values[int(entry[0])] for entry in node["inputs"]]
            attrs = node.get("attrs", {})
            result = given.get(place)
            if result is None:
                shape, dtype = attrs["shape"][0], attrs["dtype"][0]
                result = empty_cpu(tuple([int(size) for size in shape]), DataType(dtype))
            step = self.steps[place]
            if isinstance(step, _Graph):
                step.run(*operands, result)
            else:
                step(attrs, operands, result)
            values[place] = result
        for place, out in zip(self.heads, outputs):
            if values[place] is not out:
                out.copyfrom(values[place])

    def _constant(self, name: str) -> NDArray:
        found = self.constants.get(name)
        if found is None:
            raise ArtifactError(f"'{self.symbol}' was not given its constant '{name}'")
        return found


def json_module(text: str) -> Module:
    """Return the module that runs a graph. Raises UnsupportedError for operators that its library
    does not have.
    """
    try:
        graph = _Graph(json.loads(text))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ArtifactError(f"this is no graph in JSON: {error}") from error
    functions = {
        graph.symbol: convert_to_packed(graph.run),
        "__init_" + graph.symbol: convert_to_packed(graph.begin),
        "get_const_vars": convert_to_packed(lambda: graph.const_names),
    }
    return Module("json", functions=functions, formats={"json": text}, saved=text.encode())


@READERS.register("json")
def _read(content: bytes) -> Module:
    return json_module(content.decode())
