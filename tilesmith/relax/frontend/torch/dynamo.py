"""Captures what a Python function computes with torch, and the back end of `torch.compile`.

``torch.compile(model, backend="tilesmith")`` finds the back end by the entry point
``torch_dynamo_backends`` of the installed package; importing a model registers it, too.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.frontend.torch.fx_translator import TorchFXImporter
from tilesmith.relax.frontend.torch.tensors import dtype_name
from tilesmith.relax.frontend.torch.torch_package import require_torch
from tilesmith.support.errors import FrontendError
from tilesmith.support.lazy import lazy_attributes
from tilesmith.support.recursion import deep_recursion

__getattr__, __dir__ = lazy_attributes(__name__)

__all__ = ["device_from_inputs", "dynamo_capture_subgraphs", "llvm_target"]


def device_from_inputs(example_inputs: Any) -> Any:
    """Return the ``torch.device`` of the first tensor among inputs; None if there is none."""
    for value in example_inputs:
        if hasattr(value, "device"):
            return value.device
    return None


def llvm_target() -> str:
    """Return the target that names this machine's processor."""
    import llvmlite.binding as llvm

    return f"llvm -mcpu={llvm.get_host_cpu_name()}"


def dynamo_capture_subgraphs(model: Any, *params: Any, **kwargs: Any) -> IRModule:
    """Run a module or function of torch and return the graphs that were captured.

    The module has a function ``subgraph_0``, ``subgraph_1``, … for each part between the places
    where Python has to decide. ``params`` and ``kwargs`` are the arguments of the call, except
    ``keep_params_as_input``: weights become parameters of the functions, see ``from_fx``.
    """
    torch = require_torch()
    keep = bool(kwargs.pop("keep_params_as_input", False))
    importer = TorchFXImporter()
    failed: list[Exception] = []

    def capture(graph: Any, example_inputs: Any) -> Any:
        name = f"subgraph_{len(importer.block_builder.get().functions)}"
        try:
            with deep_recursion():
                module, inputs = _with_own_weights(graph, example_inputs)
                info = [(tuple(value.shape), dtype_name(value.dtype)) for value in inputs]
                importer.add_function(module, info, name, keep)
        except Exception as error:
            failed.append(error)
            raise
        return graph.forward

    torch.compiler.reset()
    try:
        with torch.no_grad():
            torch.compile(model, backend=capture, dynamic=False)(*params, **kwargs)
    except Exception:
        if failed:
            raise failed[0] from None
        raise
    finally:
        torch.compiler.reset()
    module = importer.block_builder.get()
    if not module.functions:
        raise FrontendError(
            "nothing was captured: the call does not compute with tensors of torch",
            notes=("give a torch.nn.Module, or a function of tensors, and its arguments",),
        )
    return module


def _with_own_weights(graph: Any, example_inputs: Any) -> tuple[Any, list[Any]]:
    """Return a captured graph that has its weights itself, which torch hands over as inputs, and
    its other inputs.
    """
    torch = require_torch()
    copy = torch.fx.Graph()
    places: dict[Any, Any] = {}
    weights = torch.nn.Module()
    inputs = []
    given = iter(example_inputs)
    for node in graph.graph.nodes:
        value = next(given) if node.op == "placeholder" else None
        if value is None or not hasattr(value, "_dynamo_static_input_type"):
            places[node] = copy.node_copy(node, places.__getitem__)
            inputs += [] if value is None else [value]
            continue
        if isinstance(value, torch.nn.Parameter):
            weights.register_parameter(node.name, value)
        else:
            weights.register_buffer(node.name, value)
        places[node] = copy.get_attr(node.name)
    for name, part in graph.named_children():
        weights.add_module(name, part)
    return torch.fx.GraphModule(weights, copy), inputs
