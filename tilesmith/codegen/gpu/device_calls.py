"""Writes calls of functions of the device: their pointers, constants and needed architecture."""

from __future__ import annotations

import re

from tilesmith.codegen.c_family.pieces import ATOM, PRODUCT, SUM, UNARY, Piece
from tilesmith.codegen.gpu.device_functions import DeviceFunction
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call, IntImm, PrimExpr, StringImm, Var
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.tir.tensor_copies import pointer_base

__all__ = [
    "architecture_of", "call_function", "constant", "pointed_element", "pointer", "pointer_scope",
    "rely_on_alignment", "require", "word",
]  # fmt: skip

DEFAULT_ARCHITECTURE = 75


def architecture_of(arch: str) -> int:
    """Return the number in a name of an architecture: 90 for "sm_90a"."""
    found = re.search(r"\d+", arch)
    return int(found.group()) if found is not None else DEFAULT_ARCHITECTURE


def require(emit: Values, what: str, level: int, feature: str = "") -> None:
    """Refuse an operator that the target's architecture lacks.

    ``feature``: a letter that the architecture's name has to end with, as in sm_90a.
    """
    own = emit.arch or f"sm_{DEFAULT_ARCHITECTURE}"
    if architecture_of(own) >= level and (not feature or own.endswith(feature)):
        return
    given = f"the target's is {own}" if emit.arch else f"the target names none, which means {own}"
    wanted = f"sm_{level}{feature}"
    raise emit.out.unsupported(
        f"'{what}' needs the architecture {wanted} or newer, {given}",
        f'build for a target with a newer one: "cuda -arch={wanted}", if the GPU is one',
    )


def add_function(emit: Values, function: DeviceFunction) -> None:
    """Put a function of the device into the file, with those that it calls before it."""
    for other in function.calls:
        add_function(emit, other)
    emit.file.helpers.setdefault(function.name, function.text.rstrip())


def call_function(
    emit: Values, operator: str, function: DeviceFunction, *arguments: str, feature: str = ""
) -> Piece:
    """Return a call of a function of the device, which is put into the file."""
    require(emit, operator, function.architecture, feature)
    add_function(emit, function)
    return f"{function.name}({', '.join(arguments)})", ATOM


def name_of(call: Call) -> str:
    """Return the operator's name without ``tir.``."""
    return str(call.op.name).removeprefix("tir.")


def constant(emit: Values, call: Call, which: int, what: str) -> int:
    """Return an argument that the text of an instruction contains."""
    arg = call.args[which]
    if not isinstance(arg, IntImm):
        raise emit.out.unsupported(
            f"{what} of '{name_of(call)}' is written into the instruction: it must be a constant, "
            f"not {arg}"
        )
    return int(arg.value)


def word(emit: Values, call: Call, which: int) -> str:
    """Return an argument that is a text."""
    arg = call.args[which]
    if not isinstance(arg, StringImm):
        raise emit.out.unsupported(f"argument {which} of '{name_of(call)}' must be a text")
    return str(arg.value)


def pointed_element(arg: PrimExpr) -> DataType | None:
    """Return the dtype of the elements behind a pointer; None where it says none."""
    if is_call(arg, "tir.address_of"):
        return arg.args[0].dtype.element
    if is_call(arg, "tir.tvm_access_ptr"):
        return arg.args[0].dtype
    element = getattr(getattr(arg, "type_annotation", None), "element_type", None)
    dtype: DataType | None = getattr(element, "dtype", None)
    return None if dtype is None or dtype.is_void else dtype


def pointer(emit: Values, arg: PrimExpr, offset: PrimExpr | None, unit: DataType) -> str:
    """Return a pointer so many elements behind another one.

    Offsets count elements of a pointer variable, and elements of ``unit`` behind other pointers.
    """
    is_zero = offset is None or is_const(offset, 0)
    if is_zero:
        return emit.text(arg)
    assert offset is not None
    dtype = (pointed_element(arg) if isinstance(arg, Var) else None) or unit
    moved = emit.text(offset, PRODUCT if dtype.lanes > 1 or is_packed(dtype) else 0)
    if dtype.lanes > 1:
        moved = f"{moved} * {dtype.lanes}"
    element = dtype.element
    if is_packed(element):
        byte = emit.dialect.types["u8"]
        return f"({byte}*){emit.text(arg, UNARY)} + ({moved}) / {8 // element.bits}"
    if isinstance(arg, Var) and emit.pointer_types.get(arg) == element:
        return f"&{emit.text(arg)}[{moved}]"
    if not isinstance(arg, Var) and pointed_element(arg) == dtype:
        return f"{emit.text(arg, SUM)} + {emit.text(offset, PRODUCT)}"
    emit.file.use(element)
    return f"({emit.dialect.memory_type(element)}*){emit.text(arg, UNARY)} + ({moved})"


def pointer_scope(arg: PrimExpr) -> str:
    """Return the scope of the memory behind a pointer: "global" where it names none."""
    base = pointer_base(arg)
    return "global" if base is None else base.storage_scope or "global"


def rely_on_alignment(emit: Values, arg: PrimExpr, size: int) -> None:
    """Note that an instruction relies on the alignment of the memory behind a pointer: the offset
    in it is up to the kernel, its begin to the one who launches.
    """
    base = pointer_base(arg)
    if base is not None:
        emit.rely_on_alignment(base, size)
