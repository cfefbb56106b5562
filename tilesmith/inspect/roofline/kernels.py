"""Counts what a kernel has to do: operations, and bytes of its operands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir import PrimFunc
from tilesmith.tir.analysis import estimate_tir_flops

__all__ = ["counted_bytes", "counted_operations", "main_dtype"]


def counted_operations(func: PrimFunc, features: Mapping[str, Any] | None = None) -> float:
    """Return the operations of a kernel: those that ``features`` say, else they are counted."""
    given = (features or {}).get("flops")
    return float(estimate_tir_flops(func) if given is None else given)


def _elements(buffer: Any) -> int:
    count = 1
    for size in buffer.shape:
        if not isinstance(size, IntImm):
            raise UnsupportedError(
                f"roofline: the buffer '{buffer.name}' has an open size, {size}",
                notes=("fix the sizes of the inputs, or of the function: func.specialize",),
            )
        count *= size.value
    return count


def counted_bytes(func: PrimFunc, features: Mapping[str, Any] | None = None) -> float:
    """Return the bytes of a kernel's operands, each read or written once: those that ``features``
    say, else those of the buffers among its parameters.
    """
    given = (features or {}).get("bytes")
    if given is not None:
        return float(given)
    return float(sum([_elements(one) * one.dtype.nbytes for one in func.buffer_map.values()]))


def main_dtype(func: PrimFunc) -> str:
    """Return the dtype of most of a kernel's operands by elements, floats first."""
    counts: Counter[str] = Counter()
    for buffer in func.buffer_map.values():
        counts[str(buffer.dtype)] += _elements(buffer)
    floats = {name: count for name, count in counts.items() if name.startswith("float")}
    chosen = floats or counts
    return max(chosen, key=lambda name: chosen[name]) if chosen else "float32"
