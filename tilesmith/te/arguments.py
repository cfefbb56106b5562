"""Makes the buffers of the tensors that a program is given: ``get_binds``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.ir import IntImm, Var
from tilesmith.ir.pass_context import PassContext, register_config_option
from tilesmith.support.errors import TypeMismatchError
from tilesmith.te.tensor import Tensor
from tilesmith.tir.buffer import Buffer, decl_buffer

__all__ = ["DATA_ALIGNMENT", "OFFSET_FACTOR", "get_binds", "memory_options"]

DATA_ALIGNMENT = "te.data_alignment"
OFFSET_FACTOR = "te.offset_factor"
register_config_option(DATA_ALIGNMENT, int, -1, "alignment of the data of tensors, in bytes")
register_config_option(OFFSET_FACTOR, int, 0, "what the offsets of tensors are multiples of")


def memory_options() -> dict[str, int]:
    """Return what the options of the context ask of the buffers of arguments."""
    context = PassContext.current()
    return {
        "data_alignment": context.get_config(DATA_ALIGNMENT),
        "offset_factor": context.get_config(OFFSET_FACTOR),
    }


def get_binds(
    args: Sequence[Any], compact: bool = False, binds: Mapping[Any, Buffer] | None = None
) -> tuple[dict[Tensor, Buffer], list[Any]]:
    """Return the buffers of tensors, and the arguments with these buffers in place of the tensors.

    ``binds`` are buffers that are known already. Unless ``compact``, buffers with symbolic sizes
    broadcast. Buffers and variables stay as they are.
    Raises TypeMismatchError for anything else.
    """
    options = memory_options()
    found: dict[Tensor, Buffer] = dict(binds or {})
    arguments: list[Any] = []
    for argument in args:
        if isinstance(argument, Tensor):
            if argument not in found:
                is_symbolic = any(not isinstance(size, IntImm) for size in argument.shape)
                found[argument] = decl_buffer(
                    argument.shape,
                    argument.dtype,
                    argument.op.name,
                    data_alignment=options["data_alignment"],
                    offset_factor=options["offset_factor"],
                    buffer_type="auto_broadcast" if is_symbolic and not compact else "",
                )
            arguments.append(found[argument])
        elif isinstance(argument, (Buffer, Var)):
            arguments.append(argument)
        else:
            raise TypeMismatchError(
                f"an argument is a tensor, a buffer or a variable, got {argument!r}"
            )
    return found, arguments
