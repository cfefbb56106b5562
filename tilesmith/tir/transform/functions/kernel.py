"""The kernel of a PrimFunc: the function over plain pointers and scalars that its wrapper calls.

The parameters of the kernel are those of the function, in order, where a buffer gives the pointer
to its data; after them come the symbolic sizes (strides, offsets) that only the buffers'
declarations mention and the body uses, in the order in which the declarations mention them first.
"""

from __future__ import annotations

from tilesmith.ir import IntImm, Var
from tilesmith.ir.queries import variables
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import buffers, free_variables

__all__ = ["DEFAULT_ALIGNMENT", "declared_alignment", "kernel_function", "kernel_parameters"]

DEFAULT_ALIGNMENT = 64
"""The alignment of a buffer that declares none; of parameters it promises nothing."""


def declared_alignment(buffer: Buffer) -> int:
    """Return the alignment in bytes that a parameter's buffer was declared with; 0 if it declares
    none beyond its elements' own."""
    alignment = buffer.data_alignment
    if alignment == DEFAULT_ALIGNMENT or alignment <= buffer.dtype.element.nbytes:
        return 0
    return alignment


def kernel_parameters(func: PrimFunc) -> tuple[Var, ...]:
    """Return the parameters of the kernel of a function."""
    params = [
        func.buffer_map[param].data if param in func.buffer_map else param for param in func.params
    ]
    known = set(params)
    used = set(free_variables(func.body, sizes=False))
    if any(not isinstance(size, IntImm) for buffer in func.buffers for size in buffer.shape):
        # What is accessed under its own declaration needs the sizes of that declaration.
        used.update(variables([size for buffer in buffers(func.body) for size in buffer.shape]))
    for buffer in func.buffers:
        for var in variables((*buffer.shape, *buffer.strides, buffer.elem_offset)):
            if var not in known and var in used:
                known.add(var)
                params.append(var)
    return tuple(params)


def kernel_function(func: PrimFunc) -> PrimFunc:
    """Return ``func`` with pointers and scalars as parameters, without a buffer map."""
    if not func.buffer_map:
        return func
    params = kernel_parameters(func)
    alignments = [0] * len(params)
    for number, param in enumerate(func.params):
        if param in func.buffer_map:
            alignments[number] = declared_alignment(func.buffer_map[param])
    attrs = dict(func.attrs)
    if any(alignments) and "tir.param_alignment" not in attrs:
        attrs["tir.param_alignment"] = tuple(alignments)
    return PrimFunc(params, func.body, func.ret_type, None, attrs, func.span)
