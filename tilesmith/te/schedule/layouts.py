"""Changes the layout of a stage's tensor in memory, and the loops that follow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilesmith.ir import IntImm, PrimExpr, Range, Var, const
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError
from tilesmith.te.schedule.refusals import position, refuse
from tilesmith.te.schedule.relations import Transform
from tilesmith.te.tensor import ComputeOp
from tilesmith.tir.expr import IterVar
from tilesmith.tir.index_map import IndexMap

if TYPE_CHECKING:
    from tilesmith.te.schedule.stage import Stage

__all__ = ["transform_layout"]


def transform_layout(stage: Stage, mapping_function: Callable[..., Any]) -> list[IterVar] | None:
    """Lay the tensors of a stage out by an index map; see ``Stage.transform_layout``."""
    shape = list(stage.op.output(0).shape)
    for layout in stage.layout_transforms:
        shape = layout.map_shape(shape)
    index_map, separators = _index_map(stage, mapping_function, shape)
    loops = None
    if isinstance(stage.op, ComputeOp):
        loops = _transform_loops(stage, index_map, shape)
    else:
        _inverse(stage, index_map, shape)  # an input's elements need a place each as well
    stage.layout_transforms.append(index_map)
    stage.axis_separators = tuple(separators)
    return loops


def _index_map(
    stage: Stage, mapping_function: Callable[..., Any], shape: list[PrimExpr]
) -> tuple[IndexMap, list[int]]:
    if isinstance(mapping_function, IndexMap):
        separators = list(mapping_function.axis_separators)
        made = mapping_function
    else:
        try:
            made, separators = IndexMap.from_func_with_separators(
                mapping_function, ndim=len(shape), index_dtype="int32"
            )
        except ShapeError as error:
            raise refuse(
                "transform_layout", stage, error.message, None,
                f"the function takes the {len(shape)} indices of the tensor",
            ) from None  # fmt: skip
    if len(made.initial_indices) != len(shape):
        raise refuse(
            "transform_layout", stage,
            f"the function takes {len(made.initial_indices)} indices, the tensor has {len(shape)}",
        )  # fmt: skip
    return made, separators


def _inverse(stage: Stage, index_map: IndexMap, shape: list[PrimExpr]) -> IndexMap:
    try:
        return index_map.inverse(shape)
    except (ShapeError, TypeMismatchError, UnsupportedError) as error:
        sizes = ", ".join([str(size) for size in shape])
        raise refuse(
            "transform_layout", stage, f"{error.message} (shape: {sizes})", None,
            "each element needs a place of its own, and each place an element: choose factors that "
            "divide the shape, or pad the tensor by a stage of its own",
        ) from None  # fmt: skip


def _transform_loops(stage: Stage, index_map: IndexMap, shape: list[PrimExpr]) -> list[IterVar]:
    """Put loops over the new axes in the place of those over the old ones."""
    earlier = [one for one in stage.relations if isinstance(one, Transform)]
    old = earlier[-1].transformed_variables if earlier else stage.op.axis
    where = [position(stage.leaf_iter_vars, axis) for axis in old]
    gone = next((axis for axis, place in zip(old, where) if place is None), None)
    if gone is not None or any(a + 1 != b for a, b in zip(where, where[1:])):  # type: ignore[operator]
        raise refuse(
            "transform_layout", stage, "its loops are not those of the tensor's axes any more",
            gone, "change the layout first: it returns the loops to split, fuse and reorder",
        )  # fmt: skip
    inverse = _inverse(stage, index_map, shape)
    dtype = max([axis.var.dtype for axis in old], key=lambda one: one.bits, default="int32")
    new = []
    for variable, size in zip(inverse.initial_indices, index_map.map_shape(shape)):
        extent = const(size.value, dtype) if isinstance(size, IntImm) else size
        domain = Range.from_min_extent(const(0, extent.dtype), extent)
        new.append(IterVar(domain, Var(variable.name, extent.dtype), IterVar.DataPar))
    stage.relate(Transform(old, tuple(new), index_map, inverse), where[0] or 0 if where else 0)
    return new
