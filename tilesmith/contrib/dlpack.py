"""Lets compiled functions take tensors of other frameworks (`tvm.contrib.dlpack`).

Compiled functions take these as they are: whatever shares its memory by DLPack may be an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.runtime.ndarray import from_dlpack

__all__ = ["convert_func", "to_pytorch_func"]


def convert_func(
    tvm_func: Callable[..., Any],
    tensor_type: type,
    to_dlpack_func: Callable[[Any], Any],
) -> Callable[..., Any]:
    """Return a function that turns its arguments of ``tensor_type`` into tensors that share their
    memory, by ``to_dlpack_func``, and calls ``tvm_func`` with them.
    """

    def wrapped(*arguments: Any) -> Any:
        shared = [
            from_dlpack(to_dlpack_func(argument)) if isinstance(argument, tensor_type) else argument
            for argument in arguments
        ]
        return tvm_func(*shared)

    return wrapped


def to_pytorch_func(tvm_func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``tvm_func`` with the memory of tensors of PyTorch."""
    import torch

    return convert_func(tvm_func, torch.Tensor, torch.utils.dlpack.to_dlpack)
