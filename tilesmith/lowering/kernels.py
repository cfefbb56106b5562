"""Lowers kernels that other generated code calls: plain pointers and scalars, no wrappers."""

from __future__ import annotations

from tilesmith.ir import IRModule, Var
from tilesmith.ir.queries import variables
from tilesmith.ir.transform import Sequential
from tilesmith.lowering.checking import checked_passes
from tilesmith.lowering.functions import lower
from tilesmith.lowering.pipelines import further_passes
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of
from tilesmith.target.features import llvm_machine
from tilesmith.tir import PrimFunc
from tilesmith.tir import transform as passes
from tilesmith.tir.transform.dtypes.narrow_data_type import WIDE_INDICES

__all__ = ["lower_kernels", "symbolic_sizes", "with_size_parameters"]


def symbolic_sizes(function: PrimFunc) -> list[Var]:
    """Return the sizes, strides and offsets that only the parameters' buffers declare, in order."""
    known = dict.fromkeys(function.params)
    parts = [
        part
        for buffer in function.buffers
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset)
    ]
    return [var for var in variables(parts) if var not in known]


def with_size_parameters(module: IRModule) -> IRModule:
    """Return functions whose last parameters are their symbolic sizes."""
    explicit = module.shallow_copy()
    for variable, function in list(explicit.items()):
        sizes = symbolic_sizes(function) if isinstance(function, PrimFunc) else []
        if isinstance(function, PrimFunc) and sizes:
            explicit[variable] = function.with_fields(params=(*function.params, *sizes))
    return explicit


def lower_kernels(module: IRModule, target: Target) -> IRModule:
    """Lower functions to the signature that generated code calls: a pointer for each buffer, the
    scalars, then the symbolic sizes of ``symbolic_sizes``, used or not.
    """
    explicit = with_size_parameters(module)
    is_wide = back_end_of(target).wants_wide_indices
    is_wide = is_wide and llvm_machine(target).triple.startswith("x86_64")
    if is_wide:
        for variable, function in list(explicit.items()):
            explicit[variable] = function.with_attr(WIDE_INDICES, True)
    host = [
        passes.BindTarget(target),
        passes.LowerIntrin(),
        *further_passes(target),
        passes.MakeUnpackedAPI(),
    ]
    with checked_passes():
        return Sequential(host, name="tir.kernels")(lower(explicit))
