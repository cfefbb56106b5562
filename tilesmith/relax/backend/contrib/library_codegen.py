"""Makes modules that call a library of functions with the attribute ``Codegen``: what
``relax.ext.cblas`` and ``relax.ext.dnnl`` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.ir import Op
from tilesmith.relax.backend.contrib.library_graph import LibraryGraph
from tilesmith.relax.expr import Call, Constant, Function, Tuple, Var, known_struct_info
from tilesmith.runtime.json_graph import json_module
from tilesmith.runtime.module import Module
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import UnsupportedError

__all__ = ["is_matrix_transpose", "register_library_codegen"]

_NAMES = {"relax.add": "add", "relax.nn.relu": "nn.relu", "relax.nn.gelu": "nn.gelu"}
_MATMUL, _TRANSPOSE, _CONVOLUTION = "relax.matmul", "relax.permute_dims", "relax.nn.conv2d"


def is_matrix_transpose(call: Call) -> bool:
    """Return whether a ``permute_dims`` exchanges the last two axes and no others."""
    info: Any = known_struct_info(call.args[0])
    attrs: Any = call.attrs
    rank, axes = info.ndim, attrs.axes
    if rank < 2:
        return False
    order = list(reversed(range(rank))) if axes is None else [int(axis) % rank for axis in axes]
    return order == [*range(rank - 2), rank - 1, rank - 2]


class _Writer:
    """Writes the nodes of one function; calls of local functions become nodes with a graph."""

    def __init__(self, symbol: str, constant_names: Mapping[Constant, str]) -> None:
        self.graph = LibraryGraph(symbol)
        self.constant_names = constant_names
        self.values: dict[Var, Any] = {}  # local functions, tuples, transposed matrices

    def write(self, function: Function) -> list[Any]:
        """Write a function; return its results."""
        for param in function.params:
            self.graph.input(param, param.name_hint)
        body: Any = function.body
        for block in body.blocks:
            for binding in block.bindings:
                self._binding(binding.var, binding.value)
        result = self.values.get(body.body, body.body)
        results = list(result.fields) if isinstance(result, Tuple) else [result]
        return [self._operand(one) for one in results]

    def _binding(self, var: Var, value: Any) -> None:
        if isinstance(value, (Function, Tuple)):
            self.values[var] = value
        elif isinstance(value, (Var, Constant)):
            self.graph.alias(var, self._operand(value))
        elif isinstance(value, Call) and isinstance(value.op, Op):
            self._operator(var, value)
        elif isinstance(value, Call) and isinstance(self._local(value), Function):
            inner = _Writer(self.graph.symbol, self.constant_names)
            function = self._local(value)
            results = inner.write(function)
            name, operands = str(function.attrs["Composite"]), self._operands(value.args)
            self.graph.kernel(var, name, operands, {}, inner.graph.described(results))
        else:
            raise UnsupportedError(
                f"'{self.graph.symbol}' binds '{var.name_hint}' to a {type(value).__name__}, which "
                "graphs for libraries do not have"
            )

    def _local(self, call: Call) -> Any:
        """Return the local function that a call is of, if it is one."""
        return self.values.get(call.op) if isinstance(call.op, Var) else None

    def _operator(self, var: Var, call: Any) -> None:
        name = call.op.name
        if name == _TRANSPOSE and is_matrix_transpose(call):
            self.values[var] = call
        elif name == _MATMUL:
            turned = [isinstance(self.values.get(arg), Call) for arg in call.args]
            plain = [
                self.values[arg].args[0] if is_turned else arg
                for arg, is_turned in zip(call.args, turned)
            ]
            attrs = {"transpose_a": turned[0], "transpose_b": turned[1]}
            self.graph.kernel(var, "nn.matmul", self._operands(plain), attrs)
        elif name == _CONVOLUTION:
            attrs = dict(call.attrs.items())
            self.graph.kernel(var, "nn.conv2d", self._operands(call.args), attrs)
        elif name in _NAMES:
            self.graph.kernel(var, _NAMES[name], self._operands(call.args), {})
        else:
            raise UnsupportedError(
                f"'{self.graph.symbol}' calls {name}, which graphs for libraries do not have",
                notes=(f"they have {', '.join([_MATMUL, _CONVOLUTION, *_NAMES])}",),
            )

    def _operands(self, args: Sequence[Any]) -> list[Any]:
        return [self._operand(arg) for arg in args]

    def _operand(self, expr: Any) -> Any:
        """Return what has a node; constants get theirs where they are first read."""
        if isinstance(expr, Constant) and id(expr) not in self.graph.places:
            self.graph.constant(expr, self.constant_names[expr])
        if id(expr) not in self.graph.places:
            raise UnsupportedError(
                f"'{self.graph.symbol}' reads '{expr}', which graphs for libraries do not have",
                notes=("only the matrices of a product may be transposed",),
            )
        return expr


def register_library_codegen(library: str, find: Callable[[], Any]) -> None:
    """Register ``relax.ext.LIBRARY``; ``find`` raises MissingDependencyError without it."""

    def generate(
        functions: Sequence[Function], options: Any, constant_names: Mapping[Constant, str]
    ) -> list[Module]:
        find()
        made = []
        for function in functions:
            writer = _Writer(str(function.attrs["global_symbol"]), constant_names)
            made.append(json_module(writer.graph.text(library, writer.write(function))))
        return made

    register_func(f"relax.ext.{library}", generate, override=True)
