"""The back end of ``torch.compile(model, backend="tilesmith")``.

torch captures graphs, makes them free of side effects (and, for training, derives them), and hands
each one here. What cannot be compiled runs as torch would run it, which is said once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.driver.relax_build import build
from tilesmith.relax.frontend.torch.captured import (
    CapturedGraph,
    import_captured,
    unsupported_operators,
)
from tilesmith.relax.frontend.torch.exported_program_translator import without_converters
from tilesmith.relax.frontend.torch.torch_package import require_torch
from tilesmith.runtime.container import ShapeTuple
from tilesmith.runtime.devices import cpu
from tilesmith.runtime.ndarray import from_dlpack
from tilesmith.runtime.relax_vm import VirtualMachine
from tilesmith.support.errors import TilesmithError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target

__all__ = ["EagerFallbackWarning", "relax_dynamo", "tilesmith"]


class EagerFallbackWarning(UserWarning):
    """A graph of ``torch.compile`` that torch runs itself; the message says why."""


_said: set[str] = set()


def tilesmith(graph: Any, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compile a graph of torch, as ``torch.compile`` asks its back ends to.

    ``options`` of ``torch.compile``: ``target`` (default: this machine's processor) and
    ``pipeline`` (the graph passes of ``relax.build``).
    """
    given = options.get("options") or {}
    compiler = _compiler(given.get("pipeline", "default"), given.get("target"))
    compiled: Callable[..., Any] = compiler(graph, example_inputs)
    return compiled


def relax_dynamo(pipeline: Any = None) -> Callable[..., Any]:
    """Return a back end for ``torch.compile`` that optimises graphs with a pass of one's own."""
    return _compiler("default" if pipeline is None else pipeline, None)


def _compiler(pipeline: Any, target: Any) -> Callable[..., Any]:
    require_torch()
    from torch._decomp import core_aten_decompositions
    from torch._dynamo.backends.common import aot_autograd
    from torch.utils._python_dispatch import _disable_current_modes

    def compile_graph(graph: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        with _disable_current_modes():  # constants of the graph are real tensors
            return _compiled(graph, pipeline, target)

    table = without_converters(dict(core_aten_decompositions()), {})
    return aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph, decompositions=table)


def _compiled(graph: Any, pipeline: Any, target: Any) -> Callable[..., Any]:
    """Return a function that computes a graph of ATen operators, on boxed arguments."""
    from torch._functorch.aot_autograd import make_boxed_func

    try:
        missing = unsupported_operators(graph)
        if missing:
            _say(f"no converter for {', '.join(sorted({name for name, _ in missing}))}")
            record_fallback("code", "torch.compile", "operators without a converter")
            return make_boxed_func(graph.forward)
        captured = import_captured(graph)
        executable = build(captured.module, target or Target("llvm"), pipeline=pipeline)
    except TilesmithError as error:
        _say(error.message.partition("\n")[0])
        record_fallback("code", "torch.compile", error)
        return make_boxed_func(graph.forward)
    return make_boxed_func(_Caller(captured, VirtualMachine(executable, cpu())))


def _say(reason: str) -> None:
    """Tell once that torch runs a graph itself."""
    message = f"torch runs a graph itself: {reason}"
    if message not in _said:
        _said.add(message)
        warnings.warn(message, EagerFallbackWarning, stacklevel=2)


class _Caller:
    """Calls a compiled graph with tensors of torch and gives such tensors; memory is shared."""

    def __init__(self, captured: CapturedGraph, machine: Any) -> None:
        self.inputs = captured.inputs
        self.outputs = captured.outputs
        self.function = machine["main"]
        self.torch = require_torch()

    def __call__(self, *args: Any) -> list[Any]:
        found = self.function(*[_argument(args[place]) for place in self.inputs])
        tensors = [self.torch.from_dlpack(result) for result in found]
        results: list[Any] = []
        for output in self.outputs:
            if isinstance(output, int):
                results.append(tensors[output])
            elif output[0] == "size":
                results.append(int(tensors[output[1]].item()))
            else:
                results.append(output[1])
        return results


def _argument(value: Any) -> Any:
    if isinstance(value, int):
        return ShapeTuple([value])
    return from_dlpack(value.detach().contiguous())
