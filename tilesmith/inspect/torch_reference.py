"""Runs an exported program with torch node by node, for comparison with its import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from tilesmith.relax.expr import Var
from tilesmith.relax.frontend.torch.exported_program_translator import ExportedProgramImporter
from tilesmith.relax.frontend.torch.tensors import array_of
from tilesmith.relax.frontend.torch.torch_package import require_torch

__all__ = ["values_by_torch"]


def values_by_torch(program: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return variable of the imported function → the array that torch computes for it.

    ``inputs``: name of the function's parameter → array. Variables inside of an operator that has
    become several are left out.
    """
    importer = ExportedProgramImporter()
    importer.from_exported_program(program)
    values = _run(importer.program, inputs)
    found: dict[str, Any] = {}
    for node, value in importer.env.items():
        result = values.get(node)
        parts = zip(value, result) if isinstance(value, (list, tuple)) and result else []
        for ours, theirs in [(value, result), *parts]:
            if isinstance(ours, Var) and hasattr(theirs, "dtype"):
                found.setdefault(ours.name_hint, array_of(theirs))
    return found


def _run(program: Any, inputs: Mapping[str, Any]) -> dict[Any, Any]:
    """Return the value of each node of the program's graph."""
    torch = require_torch()
    values: dict[Any, Any] = {}

    class Recorder(torch.fx.Interpreter):  # type: ignore[misc, name-defined]
        def run_node(self, node: Any) -> Any:
            values[node] = super().run_node(node)
            return values[node]

    given = [_input(program, spec, inputs) for spec in program.graph_signature.input_specs]
    with torch.no_grad():
        Recorder(program.graph_module, garbage_collect_values=False).run(*given)
    return values


def _input(program: Any, spec: Any, inputs: Mapping[str, Any]) -> Any:
    """Return what a placeholder of the graph gets: an input, or what the program stores."""
    name: Any = spec.arg.name if hasattr(spec.arg, "name") else None  # else it is a constant
    if name in inputs:
        return _tensor(inputs[name])
    if spec.target in program.state_dict:
        return program.state_dict[spec.target]
    if spec.target in program.constants:
        return program.constants[spec.target]
    return getattr(spec.arg, "value", None)


def _tensor(value: Any) -> Any:
    torch = require_torch()
    if isinstance(value, (torch.Tensor, int, float, bool)):
        return value
    array = value.numpy() if hasattr(value, "numpy") else numpy.asarray(value)
    if array.dtype.name == "bfloat16":
        return torch.as_tensor(array.astype("float32")).to(torch.bfloat16)
    return torch.as_tensor(array)
