"""Arguments of kernel calls: matches operands with the parameters of a PrimFunc."""

from __future__ import annotations

from typing import Any

from tilesmith.driver.graph_values import ScalarValue, TensorValue
from tilesmith.ir import GlobalVar, PrimExpr, Var
from tilesmith.ir.operators import cast
from tilesmith.lowering import symbolic_sizes
from tilesmith.support.errors import InternalError, ShapeError
from tilesmith.tir import Buffer, PrimFunc

__all__ = ["kernel_arguments"]


def kernel_arguments(
    kernel: GlobalVar, function: PrimFunc, operands: list[Any], sizes: list[PrimExpr]
) -> list[Any]:
    """Return the arguments of a kernel call: pointers and numbers, then its symbolic sizes.

    Each argument is a function that returns the expression once the memory is planned. ``sizes``
    are the numbers that the caller gave beside the operands. Raises ShapeError for operands that do
    not fit.
    """
    known: dict[Var, PrimExpr] = {}
    words: list[Any] = []
    queue = list(operands)
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            value = queue.pop(0) if queue and isinstance(queue[0], ScalarValue) else None
            number = value.value if value is not None else sizes.pop(0)
            known[param] = number
            words.append(lambda n=number, d=param.dtype: cast(d, n))
            continue
        if not queue:
            raise InternalError(f"kernel '{kernel.name_hint}' takes more tensors than it is given")
        operand: TensorValue = queue.pop(0)
        _unify(kernel, buffer, operand, known)
        words.append(operand.storage.pointer)
    for variable in symbolic_sizes(function):
        if variable not in known:
            raise InternalError(
                f"size '{variable.name}' of kernel '{kernel.name_hint}' is not determined"
            )
        words.append(lambda v=variable: cast(v.dtype, known[v]))
    return words


def _unify(
    kernel: GlobalVar, buffer: Buffer, operand: TensorValue, known: dict[Var, PrimExpr]
) -> None:
    if len(buffer.shape) != len(operand.shape):
        raise ShapeError(
            f"kernel '{kernel.name_hint}' takes '{buffer.name}' with {len(buffer.shape)}"
            f" dimensions, it is given {len(operand.shape)}"
        )
    if buffer.dtype is not operand.dtype:
        raise ShapeError(
            f"kernel '{kernel.name_hint}' takes '{buffer.name}' of {buffer.dtype}, it is given"
            f" {operand.dtype}"
        )
    for size, given in zip(buffer.shape, operand.shape):
        if isinstance(size, Var):
            known.setdefault(size, given)
