"""Writes a module as one file: kernels, and functions of the device that they call."""

from __future__ import annotations

from typing import NamedTuple

from tilesmith.codegen.gpu import (  # noqa: F401 - these enter their rules into the tables
    async_copies,
    atomics,
    conversions,
    expressions,
    foreign_operators,
    fragments,
    intrinsics,
    memory,
    shared_barriers,
    tensor_cores,
    tensor_maps,
    warpgroups,
    warps,
)
from tilesmith.codegen.gpu.cuda import CUDA
from tilesmith.codegen.gpu.dialect import DeviceDialect
from tilesmith.codegen.gpu.file_text import FileText
from tilesmith.codegen.gpu.kernels import FunctionWriter, returned_types
from tilesmith.codegen.gpu.limits import check_limits, thread_extents
from tilesmith.codegen.gpu.opencl import OPENCL
from tilesmith.codegen.lowered import lowered_functions
from tilesmith.codegen.outcomes import called_functions
from tilesmith.ir import IRModule
from tilesmith.ir.calling_convention import CallingConv
from tilesmith.runtime.tensor_maps import TensorMap
from tilesmith.support.recursion import deep_recursion
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc

__all__ = ["DIALECTS", "Kernels", "emit_kernels", "emit_source", "kernel_alignments"]

DIALECTS: dict[str, DeviceDialect] = {"cuda": CUDA, "opencl": OPENCL}
"""Kind of target → the dialect of its kernels."""
_SHOWN = ("arch", "fast-math")
"""Attributes of a target that a file names."""


class Kernels(NamedTuple):
    """The text of kernels, and what launching them needs, by the kernels' symbols."""

    source: str
    alignments: dict[str, tuple[int, ...]]
    """Bytes to which the memory of each parameter has to be aligned, because several elements are
    accessed at once; 0 where an element's own alignment is enough."""
    tensor_maps: dict[str, tuple[TensorMap, ...]]
    """The tensors that each launch describes to the hardware, in the order of the parameters."""


def emit_source(module: IRModule, target: Target) -> str:
    """Return the module's kernels as one file. Raises CodegenError for code that the dialect cannot
    express, and for kernels that ask for more than the target has.
    """
    return emit_kernels(module, target).source


def kernel_alignments(module: IRModule, target: Target) -> dict[str, tuple[int, ...]]:
    """Return the bytes to which each parameter of each kernel has to be aligned."""
    return emit_kernels(module, target).alignments


def emit_kernels(module: IRModule, target: Target) -> Kernels:
    """Return the module's kernels as one file, as `emit_source` does, with what launching needs."""
    functions = lowered_functions(module, DIALECTS[target.kind.name].title)
    with deep_recursion():
        return _file(functions, module, target)


def _file(functions: dict[str, PrimFunc], module: IRModule, target: Target) -> Kernels:
    dialect = DIALECTS[target.kind.name]
    file = FileText(dialect, module.attrs.get("constants", ()))
    called = {name for function in functions.values() for name in called_functions(function)}
    symbols = {
        name: dialect.identifier(str(function.attrs.get("global_symbol", name)))
        for name, function in functions.items()
    }
    file.function_names |= set(symbols.values())
    returned = returned_types(functions).returned
    bodies, prototypes = [], []
    alignments, maps = {}, {}
    for name, function in functions.items():
        writer = FunctionWriter(file, functions, name, symbols[name], target)
        is_kernel = function.attrs.get("calling_conv") == CallingConv.DEVICE_KERNEL_LAUNCH
        if is_kernel or name not in called:
            extents = thread_extents(function)
            check_limits(symbols[name], function, target, dialect, extents)
            bodies.append(writer.kernel(function, extents))
            needed = writer.emit.alignments
            alignments[symbols[name]] = tuple([needed.get(var, 0) for var in function.params])
            maps[symbols[name]] = tuple(writer.emit.tensor_maps)
        else:
            result = returned[name]
            text = writer.function(function, "void" if result is None else dialect.type(result))
            prototypes.append(text[: text.index(" {\n")] + ";")
            bodies.append(text)
    words = [f" -{name}={target.attrs[name]}" for name in _SHOWN if target.attrs.get(name)]
    text = file.text(target.kind.name + "".join(words), bodies, prototypes)
    return Kernels(text, alignments, {name: found for name, found in maps.items() if found})
