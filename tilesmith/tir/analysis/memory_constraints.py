"""Gets and sets the storage scopes in which the tensors of a function must lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PointerType, TupleType, Var
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute

__all__ = [
    "apply_prim_func_arg_and_result_memory_constraints",
    "get_prim_func_arg_and_result_memory_constraints",
]


def _tensor_count(kind: Any) -> int:
    """Return how many tensors a type of the graph level stands for; tuples count with their
    fields."""
    fields = getattr(kind, "fields", None)
    if fields is not None:
        return sum([_tensor_count(field) for field in fields])
    if isinstance(kind, TupleType):
        return 0
    return 1


def _signature(func: PrimFunc, relay_func_type: Any) -> list[Var]:
    """Return the tensor parameters of a function, checked against its type at the graph level."""
    params = [param for param in func.params if param in func.buffer_map]
    arguments = getattr(relay_func_type, "arg_types", None)
    if arguments is None:
        arguments = getattr(relay_func_type, "params", None)
    result = getattr(relay_func_type, "ret_type", getattr(relay_func_type, "ret", None))
    if arguments is None or result is None:
        raise TypeMismatchError(
            f"a function type is needed here, got {type(relay_func_type).__name__}",
            notes=("its arguments and its result tell how many tensors the function takes",),
        )
    count = sum([_tensor_count(argument) for argument in arguments]) + _tensor_count(result)
    if count > len(params):
        raise ShapeError(
            f"the type has {count} tensors, the function '{func.attrs.get('global_symbol', '')}' "
            f"takes {len(params)}"
        )
    return params[:count]


def get_prim_func_arg_and_result_memory_constraints(
    func: PrimFunc, relay_func_type: Any
) -> list[str]:
    """Return the storage scopes of a function's tensors, arguments first, then results; "" is
    anywhere.

    ``relay_func_type`` is the function's type at the graph level: tuples are flattened.
    """
    scopes = []
    for param in _signature(func, relay_func_type):
        scope = func.buffer_map[param].scope()
        scopes.append("" if scope == "global" else scope)
    return scopes


def apply_prim_func_arg_and_result_memory_constraints(
    func: PrimFunc, relay_func_type: Any, arg_and_result_memory_scopes: Sequence[str]
) -> PrimFunc:
    """Return a copy whose tensors lie in the given scopes; "" leaves a tensor where it is.

    Raises ShapeError when the number of scopes is wrong, TypeMismatchError when a tensor is bound
    to another scope already.
    """
    params = _signature(func, relay_func_type)
    if len(arg_and_result_memory_scopes) != len(params):
        raise ShapeError(
            f"{len(params)} scopes are needed, got {len(arg_and_result_memory_scopes)}"
        )
    pointers: dict[Var, Var] = {}
    for param, scope in zip(params, arg_and_result_memory_scopes):
        buffer: Buffer = func.buffer_map[param]
        present = buffer.scope()
        if not scope or scope == present:
            continue
        if present != "global":
            raise TypeMismatchError(
                f"buffer '{buffer.name}' lies in '{present}', it cannot move to '{scope}'"
            )
        old = buffer.data
        assert isinstance(old.type_annotation, PointerType)
        pointers[old] = Var(old.name, PointerType(old.type_annotation.element_type, scope))
    moved: PrimFunc = substitute(func, pointers)
    return moved
