"""Builds recipes as tensor expressions; ``te.create_prim_func`` makes the same program of them."""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import PrimExpr, Range, const
from tilesmith.testing.fuzz.expressions import ExpressionBuilder
from tilesmith.testing.fuzz.recipe import Recipe, Sizes, parameters_of, unbound_sizes
from tilesmith.tir import PrimFunc

__all__ = ["TENSOR_STAGES", "build_tensors"]

TENSOR_STAGES = (
    "compute", "reduce", "contraction", "convolution", "epilogue", "padding", "pooling",
)  # fmt: skip
"""Stages that the generator draws for such programs: one expression per element."""

_REDUCERS = {"sum": te.sum, "max": te.max, "min": te.min}


class _Expressions(ExpressionBuilder):
    """Builds expressions whose loads are elements of tensors."""

    def make_load(self, name: str, *indices: Any) -> PrimExpr:
        """Return an element of a tensor."""
        tensor: Any = self.buffers[name]
        return tensor(*[self.make(index) for index in indices])


def build_tensors(recipe: Recipe) -> PrimFunc:
    """Return the function that ``te.create_prim_func`` makes of a recipe."""
    sizes = Sizes(recipe)
    tensors: dict[str, Any] = {}
    for one in recipe["inputs"]:
        shape = [sizes.expr(size) for size in one["shape"]]
        tensors[one["name"]] = te.placeholder(shape, one["dtype"], name=one["name"])
    for stage in recipe["stages"]:
        (made,) = stage["tensors"]
        tensors[made["name"]] = _stage(stage, tensors, sizes, recipe["index"])
    scalars: list[Any] = [sizes.variables[name] for name in unbound_sizes(recipe)]
    return te.create_prim_func(scalars + [tensors[name] for name in parameters_of(recipe)])


def _stage(stage: dict[str, Any], tensors: dict[str, Any], sizes: Any, index: str) -> Any:
    axes, (made,) = stage["axes"], stage["tensors"]
    reduced = {
        k: te.reduce_axis(
            Range.from_min_extent(const(0, index), sizes.expr(axis["size"])), name=f"r{k}"
        )
        for k, axis in enumerate(axes)
        if axis["type"] == "R"
    }
    places = [place[1] for place in stage["indices"] if place[0] == "axis"]

    def element(*variables: Any) -> PrimExpr:
        values: dict[int, PrimExpr] = dict(zip(places, variables))
        values.update({k: axis.var for k, axis in reduced.items()})
        builder = _Expressions(tensors, values, sizes, index)
        value = builder.make(stage["value"])
        if stage.get("condition") is not None:
            condition, other = builder.make(stage["condition"]), builder.make(stage["other"])
            value = te.if_then_else(condition, value, other)
        if not reduced:
            return value
        return _REDUCERS[stage["combiner"]](value, axis=list(reduced.values()))

    shape = [sizes.expr(size) for size in made["shape"]]
    return te.compute(shape, element, name=made["name"])
