"""Binds parameters and symbolic sizes of functions to known values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import PrimExpr, Var, convert, structural_equal
from tilesmith.ir.operators import cast
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnknownNameError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute

__all__ = ["specialize"]


def specialize(func: PrimFunc, param_map: Mapping[Var, Any]) -> PrimFunc:
    """Return a copy of a function with some parameters bound.

    A scalar parameter, or a symbolic size of a buffer, gets a value and is not a parameter any
    more. A parameter with a buffer gets another Buffer of the same rank and dtype, whose sizes,
    strides and offset its symbolic ones become. Raises UnknownNameError for a variable that is
    neither, ShapeError for a buffer that does not fit, TypeMismatchError for a float in place of an
    integer.
    """
    values: dict[Var, PrimExpr] = {}
    sizes = {
        part
        for buffer in func.buffer_map.values()
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset)
        if isinstance(part, Var)
    }
    params = set(func.params)
    for param, value in param_map.items():
        if isinstance(value, Buffer):
            if param not in func.buffer_map:
                raise UnknownNameError(f"'{param.name}' is not a parameter with a buffer")
            _match(func.buffer_map[param], value, values)
        elif param in func.buffer_map or (param not in params and param not in sizes):
            raise UnknownNameError(
                f"'{param.name}' is neither a scalar parameter nor a symbolic size"
            )
        else:
            values[param] = _value_of(param, value)
    bound = substitute(func, values)
    return bound.with_fields(params=[param for param in func.params if param not in values])


def _value_of(param: Var, value: Any) -> PrimExpr:
    value = convert(value)
    if value.dtype.is_float and not param.dtype.is_float:
        raise TypeMismatchError(f"'{param.name}' is {param.dtype}, its value {value.dtype}")
    return cast(param.dtype, value)


def _told(buffer: Buffer) -> str:
    return f"buffer '{buffer.name}' of {buffer.dtype} with shape {buffer.shape}"


def _match(old: Buffer, new: Buffer, values: dict[Var, PrimExpr]) -> None:
    if old.dtype is not new.dtype or len(old.shape) != len(new.shape):
        raise ShapeError(f"{_told(new)} cannot stand for {_told(old)}")
    pairs = [*zip(old.shape, new.shape), (old.elem_offset, new.elem_offset)]
    if len(old.strides) == len(new.strides):
        pairs += zip(old.strides, new.strides)
    for before, after in pairs:
        if isinstance(before, Var):
            after = cast(before.dtype, after)
            known = values.setdefault(before, after)
            if not structural_equal(known, after):
                raise ShapeError(f"'{before.name}' of the buffer '{old.name}' gets two values")
        elif not structural_equal(before, cast(before.dtype, after)):
            raise ShapeError(f"{_told(new)} cannot stand for {_told(old)}")
