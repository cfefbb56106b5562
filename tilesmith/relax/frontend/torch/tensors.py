"""Data types and stored tensors of torch as those of the graph."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.expr import Constant
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError

__all__ = ["array_of", "constant_of", "dtype_name"]


def dtype_name(dtype: Any) -> str:
    """Return the name of a ``torch.dtype``; raises UnsupportedError for complex and quantised."""
    name = str(dtype).removeprefix("torch.")
    if name.startswith(("complex", "q")):
        raise UnsupportedError(
            f"tensors of {name} are not supported",
            notes=("compute with the real and imaginary parts, or with plain integers",),
        )
    return name


def array_of(tensor: Any) -> Any:
    """Return a torch tensor as a numpy array, which shares its memory where that is possible."""
    dtype = DataType(dtype_name(tensor.dtype))
    tensor = tensor.detach().cpu()
    if tensor.layout != _torch().strided:
        raise UnsupportedError("sparse tensors are not supported", notes=("call to_dense() first",))
    tensor = tensor.resolve_neg().contiguous()
    if dtype.bits < 32 and dtype.is_float and dtype != "float16":  # numpy itself has no such dtype
        bits = _torch().int16 if dtype.bits == 16 else _torch().uint8
        return tensor.view(bits).numpy().view(dtype.numpy())
    return tensor.numpy()


def constant_of(tensor: Any) -> Constant:
    """Return a torch tensor as a constant of the graph, a copy."""
    return Constant(numpy.array(array_of(tensor)))


def _torch() -> Any:
    import torch

    return torch
