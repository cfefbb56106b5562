"""Queries about functions and modules, for passes and users."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IntImm, IRModule, PrimExpr
from tilesmith.relax.analysis.variables import all_global_vars, bindings_of, used_vars
from tilesmith.relax.expr import Function, ShapeExpr, Var, known_struct_info
from tilesmith.relax.relations import (
    definable_symbolic_vars,
    symbolic_vars,
)
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = [
    "collect_non_negative_expressions", "computable_at_compile_time",
    "definable_tir_vars_in_struct_info", "defined_symbolic_vars", "detect_recursion",
    "free_symbolic_vars", "get_static_type", "tensor_bytes", "tir_vars_in_struct_info",
]  # fmt: skip


def get_static_type(sinfo: StructInfo) -> StructInfo:
    """Return a struct info without sizes and values: only kinds, ranks and dtypes."""
    if isinstance(sinfo, TensorStructInfo):
        return TensorStructInfo(None, sinfo.dtype, None, sinfo.ndim)
    if isinstance(sinfo, ShapeStructInfo):
        return ShapeStructInfo(None, sinfo.ndim)
    if isinstance(sinfo, PrimStructInfo):
        return PrimStructInfo(sinfo.dtype)
    if isinstance(sinfo, TupleStructInfo):
        return TupleStructInfo(tuple([get_static_type(field) for field in sinfo.fields]))
    if isinstance(sinfo, FuncStructInfo) and sinfo.params is not None:
        params = [get_static_type(param) for param in sinfo.params]
        return FuncStructInfo(params, get_static_type(sinfo.ret), sinfo.purity)
    return sinfo


def tir_vars_in_struct_info(sinfo: StructInfo) -> list[Any]:
    """Return the symbolic sizes in a struct info, in order of occurrence."""
    return symbolic_vars(sinfo)


def definable_tir_vars_in_struct_info(sinfo: StructInfo) -> list[Any]:
    """Return the symbolic sizes that stand alone in a struct info: a matching value defines
    them.
    """
    return definable_symbolic_vars(sinfo)


def collect_non_negative_expressions(sinfo: StructInfo) -> list[PrimExpr]:
    """Return the sizes that occur, which are never negative."""
    found: list[PrimExpr] = []
    if isinstance(sinfo, TupleStructInfo):
        for field in sinfo.fields:
            found += collect_non_negative_expressions(field)
    elif isinstance(sinfo, (TensorStructInfo, ShapeStructInfo)):
        if isinstance(sinfo.shape, ShapeExpr):
            found += [size for size in sinfo.shape if not isinstance(size, IntImm)]
    return found


def defined_symbolic_vars(func: Function) -> list[Any]:
    """Return the symbolic sizes that the parameters of a function bind."""
    found: dict[Any, None] = {}
    for param in func.params:
        found.update(dict.fromkeys(definable_symbolic_vars(known_struct_info(param))))
    return list(found)


def free_symbolic_vars(func: Function) -> list[Any]:
    """Return the symbolic sizes of a function that nothing in it binds."""
    bound = set(defined_symbolic_vars(func))
    used: dict[Any, None] = {}
    for param in func.params:
        used.update(dict.fromkeys(symbolic_vars(known_struct_info(param))))
    for binding in bindings_of(func):
        info = known_struct_info(binding.var)
        if hasattr(binding, "struct_info"):
            bound.update(definable_symbolic_vars(info))
        used.update(dict.fromkeys([*symbolic_vars(info), *symbolic_vars(binding.value)]))
    return [var for var in used if var not in bound]


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """Return groups of functions that call each other in a cycle (or one that calls itself)."""
    callees = {
        name: [callee for callee in all_global_vars(function) if callee in mod.functions]
        if isinstance(function, Function)
        else []
        for name, function in mod.functions.items()
    }
    reach = {name: _reachable(name, callees) for name in callees}
    groups, seen = [], set()
    for name in callees:
        if name in seen or name not in reach[name]:
            continue
        group = [other for other in reach[name] if name in reach[other]]
        seen.update(group)
        groups.append(group)
    return groups


def _reachable(name: GlobalVar, callees: dict[GlobalVar, list[GlobalVar]]) -> dict[GlobalVar, None]:
    found: dict[GlobalVar, None] = {}
    pending = list(callees[name])
    while pending:
        current = pending.pop()
        if current not in found:
            found[current] = None
            pending += callees[current]
    return found


def computable_at_compile_time(func: Function) -> list[Var]:
    """Return the variables that depend only on the parameters after the first ``num_input``
    ones.
    """
    count = int(func.attrs.get("num_input", len(func.params)))
    known = set(func.params[count:])
    found = []
    for binding in bindings_of(func):
        if all(var in known for var in used_vars(binding.value)):
            known.add(binding.var)
            found.append(binding.var)
    return found


def tensor_bytes(info: StructInfo) -> int | None:
    """Return the bytes of a tensor (of all fields of a tuple), or None if a size is not
    constant.
    """
    if isinstance(info, TupleStructInfo):
        total = 0
        for field in info.fields:
            part = tensor_bytes(field)
            if part is None:
                return None
            total += part
        return total
    if not isinstance(info, TensorStructInfo):
        return 0
    shape = info.concrete_shape
    if shape is None or info.dtype.is_void:
        return None
    count = 1
    for extent in shape:
        count *= extent
    return (
        (count * info.dtype.bits * info.dtype.lanes + 7) // 8 if not info.dtype.is_bool else count
    )
