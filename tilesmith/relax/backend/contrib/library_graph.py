"""Describes parts of graphs as nodes, which `runtime.json_graph` runs by calls of a library.

Both doors write them: `library_codegen` for functions of Relax, `relay.backend.contrib` for those
of Relay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.ir.module import plain_value
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.struct_info import ShapeExpr, TensorStructInfo
from tilesmith.support.errors import UnsupportedError

__all__ = ["LibraryGraph", "known_tensor"]


def known_tensor(expr: Any) -> tuple[list[int], str] | None:
    """Return the sizes and the dtype of a tensor whose sizes are constants, else None."""
    info = known_struct_info(expr)
    if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
        return None
    sizes = [size.value for size in info.shape.values if isinstance(size, IntImm)]
    return (sizes, str(info.dtype)) if len(sizes) == len(info.shape.values) else None


def _plain(value: Any) -> Any:
    value = plain_value(value)
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


class LibraryGraph:
    """The nodes of one function; values are found again by identity."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.nodes: list[dict[str, Any]] = []
        self.places: dict[int, int] = {}

    def input(self, expr: Any, name: str) -> None:
        """Add a parameter."""
        self._add(expr, {"op": "input", "name": name})

    def constant(self, expr: Any, name: str) -> None:
        """Add a constant, which the module is given under a name before the first call."""
        self._add(expr, {"op": "const", "name": name})

    def kernel(
        self,
        expr: Any,
        name: str,
        operands: Sequence[Any],
        attrs: Mapping[str, Any],
        inner: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a call of an operator, or of a composite function whose graph is ``inner``."""
        described: dict[str, Any] = {
            "op": "kernel",
            "name": name,
            "inputs": [[self.places[id(arg)], 0, 0] for arg in operands],
            "attrs": {"num_inputs": len(operands), "num_outputs": 1},
        }
        described["attrs"].update({key: _plain(value) for key, value in attrs.items()})
        if inner is not None:
            described["graph"] = inner
        self._add(expr, described)

    def alias(self, expr: Any, value: Any) -> None:
        """Let an expression stand for a value that has a node."""
        self.places[id(expr)] = self.places[id(value)]

    def _add(self, expr: Any, described: dict[str, Any]) -> None:
        known = known_tensor(expr)
        if known is None:
            raise UnsupportedError(
                f"'{self.symbol}': a value is {known_struct_info(expr)}",
                notes=("a graph for a library has tensors of known sizes",),
            )
        sizes, dtype = known
        described.setdefault("attrs", {}).update({"shape": [sizes], "dtype": [dtype]})
        self.places[id(expr)] = len(self.nodes)
        self.nodes.append(described)

    def described(self, results: Iterable[Any]) -> dict[str, Any]:
        """Return the graph that computes these values."""
        return {
            "nodes": self.nodes,
            "arg_nodes": [n for n, one in enumerate(self.nodes) if one["op"] != "kernel"],
            "heads": [[self.places[id(one)], 0, 0] for one in results],
            "node_row_ptr": list(range(len(self.nodes) + 1)),
        }

    def text(self, library: str, results: Iterable[Any]) -> str:
        """Return the graph as `runtime.json_graph.json_module` reads it."""
        whole = {"symbol": self.symbol, "library": library, **self.described(results)}
        return json.dumps(whole, indent=1)
