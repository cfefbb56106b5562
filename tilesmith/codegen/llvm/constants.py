"""Writes constant arrays of functions as memory of the module."""

from __future__ import annotations

import numpy

from tilesmith.codegen.llvm.heap import ALIGNMENT
from tilesmith.codegen.llvm.values import Values
from tilesmith.runtime.packed_elements import is_packed, pack
from tilesmith.tir.stmt import AllocateConst

__all__ = ["constant_array"]


def constant_array(emit: Values, stmt: AllocateConst) -> str:
    """Return the memory of an AllocateConst: aligned, written once per array."""
    given = stmt.data_or_idx
    if isinstance(given, int):
        if not 0 <= given < len(emit.text.constants):
            raise emit.out.unsupported(f"constant {given} is not among the module's constants")
        given = emit.text.constants[given]
    known = emit.text.known_data(given)
    if known is not None:
        return known
    array = given.numpy() if hasattr(given, "numpy") else numpy.asarray(given)
    element = stmt.dtype.element
    if array.dtype != element.numpy():
        raise emit.out.unsupported(f"constant of {array.dtype} where {stmt.dtype} is declared")
    packed = pack(array, element) if is_packed(element) else array
    data = numpy.ascontiguousarray(packed).tobytes()
    return emit.text.constant_data(given, data, ALIGNMENT)
