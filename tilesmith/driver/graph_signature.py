"""What the runtime gets to know of a lowered graph function: metadata, and code for sizes.

main(x: (n, m), …) -> (m, n)   →   main_shapes(x, sizes): sizes[0] = m; sizes[1] = n; …
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilesmith.driver.graph_values import (
    ScalarValue,
    ShapeValue,
    TensorValue,
    TupleValue,
    static_shape,
)
from tilesmith.ir import IntImm, PrimExpr, SizeVar, Var, const
from tilesmith.ir.operators import cast
from tilesmith.relax import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.tir import BufferStore, PrimFunc, decl_buffer, stmt_seq
from tilesmith.tir.functor import substitute

__all__ = [
    "GraphFunction", "describe_input", "describe_value", "extents_of", "known_sizes",
    "sizes_function",
]  # fmt: skip


@dataclass
class GraphFunction:
    """A lowered graph function: its code, and the metadata that `runtime.signature` reads."""

    function: PrimFunc
    shapes_function: PrimFunc | None
    metadata: dict[str, Any]


def _extent_text(extent: PrimExpr) -> int | str:
    if isinstance(extent, IntImm):
        return extent.value
    return extent.name if isinstance(extent, (Var, SizeVar)) else str(extent)


def describe_input(name: str, info: StructInfo) -> dict[str, Any]:
    """Return the metadata of a parameter in the form that ``runtime.signature`` reads."""
    if isinstance(info, TupleStructInfo):
        fields = [describe_input(f"{name}_{k}", one) for k, one in enumerate(info.fields)]
        return {"name": name, "kind": "tuple", "fields": fields}
    if isinstance(info, TensorStructInfo):
        shape = [_extent_text(extent) for extent in static_shape(info) or ()]
        return {"name": name, "kind": "tensor", "shape": shape, "dtype": str(info.dtype)}
    if isinstance(info, ShapeStructInfo):
        return {
            "name": name,
            "kind": "shape",
            "shape": [_extent_text(e) for e in info.values or ()],
        }
    return {"name": name, "kind": "prim", "dtype": str(info.dtype)}


def describe_value(
    value: Any, made_inside: Collection[int] = (), same_as: Mapping[int, int] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the metadata of a result in the form that ``runtime.signature`` reads.

    ``made_inside`` are the numbers of its leaves whose sizes are known only when it is called,
    ``same_as`` tells which leaves are arguments.
    """
    return _Description(made_inside, same_as).of(value)


class _Description:
    def __init__(self, made_inside: Collection[int], same_as: Mapping[int, int]) -> None:
        self._made_inside = made_inside
        self._same_as = same_as
        self._leaves = 0

    def of(self, value: Any) -> dict[str, Any]:
        if isinstance(value, TupleValue):
            return {"kind": "tuple", "fields": [self.of(one) for one in value.fields]}
        entry = self._leaf(value)
        if self._leaves in self._made_inside:
            entry["made_inside"] = True
        if self._leaves in self._same_as:
            entry["argument"] = self._same_as[self._leaves]
        self._leaves += 1
        return entry

    def _leaf(self, value: Any) -> dict[str, Any]:
        if isinstance(value, ShapeValue):
            return {"kind": "shape", "shape": [_extent_text(extent) for extent in value.values]}
        if isinstance(value, ScalarValue):
            return {"kind": "prim", "dtype": str(value.value.dtype)}
        shape = [_extent_text(extent) for extent in value.shape]
        return {"kind": "tensor", "shape": shape, "dtype": str(value.dtype)}


def extents_of(values: Sequence[Any]) -> list[PrimExpr]:
    """Return the sizes of tensors and shapes in order."""
    extents: list[PrimExpr] = []
    for value in values:
        if isinstance(value, TensorValue):
            extents += value.shape
        elif isinstance(value, ShapeValue):
            extents += value.values
    return extents


def sizes_function(
    name: str, inputs: Sequence[Any], results: Sequence[Any], workspace: Sequence[PrimExpr]
) -> PrimFunc:
    """Make the function that computes the sizes of results and of the workspace from inputs."""
    extents = [*extents_of(results), *workspace]
    # Two functions must not share variables.
    mapping: dict[Var, PrimExpr] = {}
    params: list[Any] = []
    for param in inputs:
        if isinstance(param, Var):
            mapping[param] = Var(param.name, param.dtype)
            params.append(mapping[param])
            continue
        for extent in param.shape:
            if isinstance(extent, Var):
                mapping.setdefault(extent, type(extent)(extent.name, extent.dtype))
        shape = [substitute(extent, mapping) for extent in param.shape]
        params.append(
            decl_buffer(shape, param.dtype, param.name, data_alignment=param.dtype.nbytes)
        )
    buffer = decl_buffer((len(extents),), "int64", "sizes", data_alignment=8)
    stores = [
        BufferStore(buffer, cast("int64", substitute(extent, mapping)), [const(k, "int64")])
        for k, extent in enumerate(extents)
    ]
    attrs = {"global_symbol": name, "tir.noalias": False, "tir.is_scheduled": True,
             "tir.any_device": True}  # fmt: skip
    return PrimFunc([*params, buffer], stmt_seq(*stores), attrs=attrs)


def known_sizes(inputs: Sequence[Any]) -> set[Var]:
    """Return the variables that the inputs of a function define."""
    found = {param for param in inputs if isinstance(param, Var)}
    buffers = [param for param in inputs if not isinstance(param, Var)]
    return found | {extent for one in buffers for extent in one.shape if isinstance(extent, Var)}
