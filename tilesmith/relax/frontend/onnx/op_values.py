"""What converters that are classes ask about their operands: constants, sizes, declared types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from tilesmith.ir import PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax.expr import Constant, PrimValue, RelaxExpr, ShapeExpr, Var
from tilesmith.relax.frontend.common import identifier
from tilesmith.relax.frontend.onnx.tensors import dtype_name
from tilesmith.support.errors import TypeMismatchError

__all__ = ["get_constant", "get_info", "get_prim_expr_list", "stored_value"]


def get_constant(var: Any, params: Any) -> Any:
    """Return the constant that a variable is known to be, or what was given if it is not known.

    ``params`` is what a converter gets, or name → array.
    """
    array = stored_value(var, params) if isinstance(var, Var) else None
    return var if array is None else Constant(array)


def get_info(
    info_proto: Any, value_dict: dict[str, Any]
) -> tuple[str, list[Any], str | None, list[Any], dict[str, Any]]:
    """Return name, sizes, dtype, sizes as the model writes them, and the variables of named sizes.

    ``value_dict``: name → variable, to which sizes of new names are added; a size without name and
    number is a new variable. The dtype is None where the model does not tell it.
    """
    tensor = info_proto.type.tensor_type
    sizes: list[Any] = []
    written: list[Any] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.dim_value:
            sizes.append(dim.dim_value)
            written.append(dim.dim_value)
            continue
        name = dim.dim_param or f"{info_proto.name}_{axis}"
        if name not in value_dict:
            value_dict[name] = SymbolicVar(identifier(name), "int64")
        sizes.append(value_dict[name])
        written.append(name)
    dtype = dtype_name(tensor.elem_type, info_proto.name) if tensor.elem_type else None
    return info_proto.name, sizes, dtype, written, value_dict


def get_prim_expr_list(inputs: Any) -> list[int | PrimExpr]:
    """Return the numbers of a constant vector of integers, or the sizes of a shape."""
    if isinstance(inputs, ShapeExpr):
        return list(inputs.values)
    if isinstance(inputs, PrimValue):
        return [inputs.value]
    if isinstance(inputs, Constant):
        array = numpy.asarray(inputs.data)
        if array.ndim <= 1 and array.dtype.kind in "iu":
            return [int(number) for number in array.reshape(-1)]
        raise TypeMismatchError(
            f"the constant is no vector of integers: {array.dtype}{list(array.shape)}"
        )
    raise TypeMismatchError(f"the value is not known at import: {type(inputs).__name__}")


def stored_value(var: Var, params: Any) -> Any:
    """Return the array that a variable has in ``params``, None if it is not there.

    ``params``: name → array, or (variable, array); or a list of such mappings.
    """
    for known in params if isinstance(params, (list, tuple)) else [params]:
        found = known.get(var.name_hint) if isinstance(known, Mapping) else None
        if isinstance(found, tuple):
            found = found[1]
        if isinstance(found, Constant):
            found = found.data
        if found is not None and not isinstance(found, RelaxExpr):
            return found.numpy() if hasattr(found, "numpy") else numpy.asarray(found)
    return None
