"""Turns drawn graphs into modules of torch, exports them, and compares what we make of them.

    module = TorchGraph(model)           # the model as a torch.nn.Module
    program = exported(module, model, size=3)

The sizes that have names in the graph are dynamic in the exported program. It is traced with other
sizes than those that it runs with.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import onnx
import torch
from onnx import ModelProto, helper, numpy_helper

from tilesmith.testing.fuzz.models.arrays import plain_array
from tilesmith.testing.fuzz.models.graph import Graph
from tilesmith.testing.fuzz.models.pick import Pick
from tilesmith.testing.fuzz.models.reference import difference
from tilesmith.testing.fuzz.models.torch_operators import NUMBERS, OPERATORS
from tilesmith.testing.fuzz.models.verdict import failure

__all__ = ["TorchGraph", "compare_with_torch", "exported", "graph_inputs", "warm_up"]

Record = dict[str, Any]

_TRACED_SIZES = {"N": 5, "M": 7}
_LARGEST_SIZE = 64


class TorchGraph(torch.nn.Module):
    """A drawn graph; it takes the inputs and returns the results of the model, in order."""

    def __init__(self, model: ModelProto) -> None:
        super().__init__()
        self.inputs = [one.name for one in model.graph.input]
        self.outputs = [one.name for one in model.graph.output]
        self.arrays: dict[str, numpy.ndarray] = {}
        for tensor in model.graph.initializer:
            array = numpy_helper.to_array(tensor)
            self.register_buffer(tensor.name, torch.from_numpy(array.copy()))
            self.arrays[tensor.name] = array
        self.steps = [
            (
                node.op_type,
                list(node.input),
                {one.name: helper.get_attribute_value(one) for one in node.attribute},
                list(node.output),
            )
            for node in model.graph.node
        ]

    def forward(self, *arguments: Any) -> tuple[Any, ...]:
        """Compute every node in turn."""
        values = dict(zip(self.inputs, arguments, strict=True))
        for operator, inputs, attributes, outputs in self.steps:
            operands = [
                self._operand(values, operator, place, name) for place, name in enumerate(inputs)
            ]
            made = OPERATORS[operator](*operands, **attributes)
            for name, value in zip(outputs, made if isinstance(made, tuple) else (made,)):
                values[name] = value
        return tuple([values[name] for name in self.outputs])

    def _operand(self, values: dict[str, Any], operator: str, place: int, name: str) -> Any:
        """Return an input of a node: a value, a number if torch wants one, or a stored tensor."""
        if not name or name in values:
            return values.get(name)
        array = self.arrays[name]
        is_number = array.ndim == 0 or array.dtype.kind == "i" or operator == "Resize"
        if place not in NUMBERS.get(operator, ()) or not is_number:
            return getattr(self, name)
        return (
            array[()] if array.dtype.itemsize == 1 else array.tolist()
        )  # the type of bytes counts


def graph_inputs(model: ModelProto, sizes: dict[str, int]) -> list[numpy.ndarray]:
    """Return arguments for a drawn graph whose named sizes are ``sizes``."""
    found: list[numpy.ndarray] = []
    for one in model.graph.input:
        shape = [axis.dim_value or sizes[axis.dim_param] for axis in one.type.tensor_type.shape.dim]
        found.append(plain_array(tuple(shape), "float32", len(found)))
    return found


def exported(module: TorchGraph, model: ModelProto, size: int) -> tuple[Any, str]:
    """Return the exported program, and how its sizes are: "dynamic", "static" (the graph names
    none), or "made static" (torch refuses to leave them open; they are ``size`` then).
    """
    labels = [
        {place: axis.dim_param for place, axis in enumerate(one.type.tensor_type.shape.dim)
         if axis.dim_param}
        for one in model.graph.input
    ]  # fmt: skip
    is_dynamic = any(labels)
    if is_dynamic:
        dims = {name: torch.export.Dim(name, min=2, max=_LARGEST_SIZE) for name in _TRACED_SIZES}
        shapes = tuple([{place: dims[name] for place, name in one.items()} for one in labels])
        try:
            return _export(module, model, _TRACED_SIZES, (shapes,)), "dynamic"
        except Exception:  # whatever torch raises: the graph is exported with its sizes known
            pass
    program = _export(module, model, {"N": size, "M": size}, None)
    return program, "made static" if is_dynamic else "static"


def _export(module: TorchGraph, model: ModelProto, sizes: dict[str, int], dynamic: Any) -> Any:
    tensors = tuple([torch.from_numpy(array) for array in graph_inputs(model, sizes)])
    return torch.export.export(module, tensors, dynamic_shapes=dynamic, strict=False)


def compare_with_torch(path: Path, size: int, note: Callable[[str], None]) -> Record:
    """Export, import, compile and run the graph of a file; return how the results compare with
    those of torch. Errors of ours go to the caller; what torch refuses is no finding.
    """
    from tilesmith.driver.model import compile as compile_model
    from tilesmith.relax.frontend.torch import from_exported_program

    note("export")
    model = onnx.load(str(path))
    module = TorchGraph(model).eval()
    arguments = graph_inputs(model, {"N": size, "M": size})
    with torch.no_grad():
        expected = [
            one.numpy() for one in module(*[torch.from_numpy(array.copy()) for array in arguments])
        ]
        try:
            program, sizes = exported(module, model, size)
        except Exception as error:  # torch's own refusal says nothing about us
            reason = f"torch refuses: {type(error).__name__}: {error}"[:300]
            return {"outcome": "ok", "phase": "export", "reason": reason}
    note("import")
    imported = from_exported_program(program)
    note("compile")
    executable = compile_model(imported, cache=False)
    note("run")
    found = executable(*arguments)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    note("compare")
    words = difference([one.numpy() for one in found], expected)
    if words is None:
        return {"outcome": "same", "phase": "compare", "sizes": sizes}
    operators = " ".join(sorted({node.op_type for node in model.graph.node}))
    return failure("differs", f"{words} ({operators[:120]})", "compare", str(program)[:3000])


def warm_up() -> None:
    """Export and import a small graph, so that what this needs is loaded."""
    from tilesmith.relax.frontend.torch import from_exported_program

    graph = Graph(Pick(2), size=3)
    for seed in range(4):
        graph.grow(Pick(seed))
    model = graph.model()
    torch.set_num_threads(1)
    from_exported_program(exported(TorchGraph(model).eval(), model, 3)[0])
