"""Writes bulk copies of boxes of tensors (``ptx_cp_async_bulk_tensor``), and collects the tensor
maps that a kernel takes for them: parameters of 128 bytes behind its own, which the launcher fills
(``codegen/gpu/launchers.py``). Copies of the same tensor with the same box share one.
"""

from __future__ import annotations

from tilesmith.codegen.c_family.pieces import Piece
from tilesmith.codegen.gpu.copy_functions import tensor_copy_function
from tilesmith.codegen.gpu.device_calls import call_function, name_of, pointer
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.shared_barriers import barrier_address
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call, Var
from tilesmith.runtime.tensor_maps import TensorMap
from tilesmith.tir.tensor_copies import BARRIER, PLACE, tensor_copy

__all__ = ["MAP_TYPE", "declared_maps"]

MAP_TYPE = "TensorMap"
_DECLARATION = f"struct __align__(64) {MAP_TYPE} {{ unsigned long long words[16]; }};"
_ADDRESS, _PERMUTED_ADDRESS = 16, 128
"""Bytes to which the memory of a tensor has to be aligned, without and with a swizzle."""


def declared_maps(emit: Values) -> list[str]:
    """Return the declarations of a kernel's parameters for tensor maps."""
    return [f"const __grid_constant__ {MAP_TYPE} {name}" for name in emit.tensor_maps.values()]


@handles("ptx_cp_async_bulk_tensor", dialect="cuda")
def _copy_tensor(emit: Values, call: Call) -> Piece:
    try:
        copy = tensor_copy(call)
    except ValueError as error:
        raise emit.out.unsupported(str(error)) from None
    source = call.args[2]
    if not isinstance(source, Var) or source not in emit.parameters:
        raise emit.out.unsupported(
            f"'{name_of(call)}' copies from a tensor that the kernel gets as a parameter, as the "
            f"launch describes it to the hardware; this one begins at {source}",
            "give the pointer of a buffer of the function (A.data), without an offset: the place "
            "of the box says where to begin; functions that kernels call cannot copy so",
        )
    emit.rely_on_alignment(source, _PERMUTED_ADDRESS if copy.swizzle else _ADDRESS)
    wanted = TensorMap(
        emit.parameters[source],
        copy.element,
        copy.sizes[::-1],
        tuple([stride * copy.element for stride in copy.strides[-2::-1]]),
        copy.box[::-1],
        copy.swizzle,
    )
    if wanted not in emit.tensor_maps:
        emit.file.declare(MAP_TYPE, _DECLARATION)
        emit.tensor_maps[wanted] = emit.out.top_name(f"{emit.names[source]}_map")
    target = pointer(emit, call.args[0], call.args[1], call.dtype)
    place = [emit.text(one) for one in call.args[PLACE].args[::-1]]  # type: ignore[attr-defined]
    barrier = barrier_address(emit, call, BARRIER)
    function = tensor_copy_function(len(place))
    arguments = [target, f"&{emit.tensor_maps[wanted]}", barrier, *place]
    return call_function(emit, name_of(call), function, *arguments)
