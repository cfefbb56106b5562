"""Imports the ATen graphs that `torch.compile` gives to its back ends."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.ir import IRModule, PrimExpr
from tilesmith.relax import op
from tilesmith.relax.expr import ShapeExpr, Tuple, Var, known_struct_info
from tilesmith.relax.frontend.torch.base_fx_graph_translator import BaseFXGraphImporter
from tilesmith.relax.relations import definable_symbolic_vars
from tilesmith.support.recursion import deep_recursion

__all__ = ["CapturedGraph", "import_captured", "unsupported_operators"]


class CapturedGraph(NamedTuple):
    """A graph as a function ``main`` that returns a tuple, and how it is called."""

    module: IRModule
    inputs: list[int]
    """Which of the graph's inputs the function takes (numbers that shapes tell are left out)."""
    outputs: list[Any]
    """For each output of the graph: the place among the function's results; ("size", place) for a
    number that is a tensor there; ("number", value) for one that is known."""


def unsupported_operators(graph: Any) -> list[tuple[str, str]]:
    """Return (operator, node) for the calls in a graph of torch that have no converter."""
    return BaseFXGraphImporter().find_unsupported(graph)


def import_captured(graph: Any) -> CapturedGraph:
    """Import a ``torch.fx.GraphModule`` of ATen operators without side effects."""
    with deep_recursion():
        return _import(BaseFXGraphImporter(), graph)


def _import(importer: BaseFXGraphImporter, graph: Any) -> CapturedGraph:
    importer.check_operators(graph)
    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    described = [node.meta.get("val") for node in nodes]
    importer.name_sizes([value for value in described if hasattr(value, "shape")])
    variables = [importer.variable(*pair) for pair in zip([n.name for n in nodes], described)]
    told = {
        size
        for variable, value in zip(variables, described)
        if variable is not None and hasattr(value, "shape")
        for size in definable_symbolic_vars(known_struct_info(variable))
    }
    parameters: list[Var] = []
    inputs: list[int] = []
    for place, (variable, value) in enumerate(zip(variables, described)):
        if variable is None:
            continue
        if hasattr(value, "shape") or importer.input_value(variable) not in told:
            parameters.append(variable)
            inputs.append(place)
            told.update(definable_symbolic_vars(known_struct_info(variable)))
    given = [
        importer.symbols.scalar(value) if variable is None else importer.input_value(variable)
        for variable, value in zip(variables, described)
    ]
    plan: list[Any] = []

    def finish(outputs: list[Any]) -> tuple[Any, bool]:
        return Tuple(outputs), True

    def results(outputs: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in outputs:
            if isinstance(value, PrimExpr):
                plan.append(("size", len(found)))
                found.append(op.shape_to_tensor(ShapeExpr([value])))
            elif value is None or isinstance(value, bool | int | float):
                plan.append(("number", value))
            else:
                plan.append(len(found))
                found.append(value)
        return found

    importer.build_function(
        graph, parameters, given, {"num_input": len(parameters)}, finish, False, results=results
    )
    return CapturedGraph(importer.block_builder.get(), inputs, plan)
