"""What a function over buffers looks like as a kernel: plain pointers and scalars.

The parameters of the kernel are those of the function, in order, where a buffer gives the pointer
to its data; after them come the symbolic sizes (strides, offsets) that only the buffers'
declarations mention and the body uses, in the order in which the declarations mention them first.
"""

from __future__ import annotations

from tilesmith.ir import IntImm, PrimExpr, Var, Visitor
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.uses import free_variables

__all__ = ["DEFAULT_ALIGNMENT", "declared_alignment", "kernel_function", "kernel_parameters"]

DEFAULT_ALIGNMENT = 64
"""The alignment of a buffer that declares none; of parameters it promises nothing."""


def declared_alignment(buffer: Buffer) -> int:
    """The alignment in bytes that a parameter's buffer was declared with; 0 if it declares none
    beyond its elements' own."""
    alignment = buffer.data_alignment
    if alignment == DEFAULT_ALIGNMENT or alignment <= buffer.dtype.element.nbytes:
        return 0
    return alignment


def kernel_parameters(func: PrimFunc) -> tuple[Var, ...]:
    """The parameters of the kernel of a function."""
    params = [
        func.buffer_map[param].data if param in func.buffer_map else param for param in func.params
    ]
    known = set(params)
    used = free_variables(func.body)
    if any(not isinstance(size, IntImm) for buffer in func.buffers for size in buffer.shape):
        # What is accessed under its own declaration needs the sizes of that declaration.
        accessed = _Buffers()
        accessed.visit(func.body)
        for buffer in accessed.found:
            used.update([var for size in buffer.shape for var in _variables(size)])
    for buffer in func.buffers:
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            for var in _variables(part):
                if var not in known and var in used:
                    known.add(var)
                    params.append(var)
    return tuple(params)


class _Buffers(Visitor):
    def __init__(self) -> None:
        self.found: set[Buffer] = set()

    def visit_Buffer(self, buffer: Buffer) -> None:
        self.found.add(buffer)


def _variables(expr: PrimExpr) -> list[Var]:
    if isinstance(expr, Var):
        return [expr]
    return [var for child in expr.children() if isinstance(child, PrimExpr)
            for var in _variables(child)]  # fmt: skip


def kernel_function(func: PrimFunc) -> PrimFunc:
    """``func`` with pointers and scalars as parameters, without a buffer map."""
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
