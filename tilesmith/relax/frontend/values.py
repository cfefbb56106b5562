"""Values that the names of an imported graph are bound to, and queries about tensors.

A value is one of

* a graph expression (a variable, or a ``Constant`` where the value is known),
* ``Sizes``: integers of which some depend on symbolic sizes, known as scalar expressions,
* ``Weight``: an initializer that stays a parameter of the function,
* a Python list of values (a sequence), or None (an output that is not there, an empty optional).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.relax import op
from tilesmith.relax.expr import Constant, RelaxExpr, ShapeExpr, known_struct_info
from tilesmith.relax.relations import describe, simplify_size, sizes_of
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TypeMismatchError

__all__ = [
    "Size", "Sizes", "Weight", "as_array", "as_size", "dtype_of", "integer", "is_one", "is_static",
    "product", "rank_of", "scalar", "shape_of", "static_shape", "tensor_info", "vector",
]  # fmt: skip

Size = int | PrimExpr


def is_one(size: Size) -> bool:
    """Return whether a size is known to be 1, so that its axis broadcasts."""
    return isinstance(size, int) and size == 1


class Sizes:
    """Integers of which at least one is a scalar expression; ``values`` is an array of objects."""

    __slots__ = ("dtype", "values")

    def __init__(self, values: Any, dtype: Any = "int64") -> None:
        self.values = values
        self.dtype = DataType(dtype)

    def tensor(self) -> RelaxExpr:
        """Return the integers as a tensor of the graph."""
        flat = [as_size(value) for value in self.values.ravel()]
        found: RelaxExpr = op.shape_to_tensor(ShapeExpr(flat))
        if self.values.ndim != 1:
            found = op.reshape(found, list(self.values.shape))
        return found if self.dtype == "int64" else op.astype(found, self.dtype)


class Weight:
    """An initializer that becomes a parameter of the function once it is used as a tensor."""

    __slots__ = ("array", "name", "variable")

    def __init__(self, name: str, array: Any) -> None:
        self.name = name
        self.array = array
        self.variable: Any = None


def as_size(value: Any) -> Any:
    """Return a Python integer or scalar expression as a size."""
    if isinstance(value, PrimExpr):
        if value.dtype.is_bool:
            from tilesmith.ir.operators import cast

            return cast("int64", value)
        return value
    return int(value)


def integer(value: Any) -> Size:
    """Return a size as a Python integer if it is one, else unchanged."""
    if isinstance(value, IntImm):
        return int(value.value)
    if isinstance(value, PrimExpr):
        simple = simplify_size(value)
        return int(simple.value) if isinstance(simple, IntImm) else simple
    return int(value)


def tensor_info(expr: Any) -> TensorStructInfo:
    """Return the struct info of a tensor; raises TypeMismatchError for anything else."""
    info = known_struct_info(expr)
    if not isinstance(info, TensorStructInfo):
        raise TypeMismatchError(f"expected a tensor, got {describe(info)}")
    return info


def dtype_of(expr: Any) -> DataType:
    """Return the dtype of a tensor."""
    return tensor_info(expr).dtype


def rank_of(expr: Any) -> int:
    """Return the rank of a tensor; raises ShapeError if it is not known."""
    ndim = tensor_info(expr).ndim
    if ndim < 0:
        raise ShapeError("the rank of the tensor is not known at import")
    return ndim


class SizeList(list[Any]):
    """The sizes of a tensor; asking for an axis that it does not have raises ShapeError."""

    def __getitem__(self, place: Any) -> Any:
        try:
            return super().__getitem__(place)
        except IndexError:
            shown = ", ".join([str(size) for size in self])
            raise ShapeError(
                f"it takes axis {place} of a tensor that has only {len(self)}: ({shown})"
            ) from None


def shape_of(expr: Any, rank: int | None = None) -> list[Size]:
    """Return the sizes of a tensor; raises ShapeError if unknown, or if not ``rank`` ones."""
    sizes = sizes_of(tensor_info(expr))
    if sizes is None:
        raise ShapeError(
            f"the shape of the tensor ({describe(tensor_info(expr))}) is not known at import",
            notes=("give the shapes of the model's inputs with shape_dict",),
        )
    if rank is not None and len(sizes) != rank:
        raise ShapeError(f"it has a tensor of rank {len(sizes)} where it needs one of rank {rank}")
    return SizeList([int(size.value) if isinstance(size, IntImm) else size for size in sizes])


def is_static(sizes: Sequence[Size]) -> bool:
    """Return whether all sizes are Python integers."""
    return all(isinstance(size, int) for size in sizes)


def static_shape(expr: Any, what: str, rank: int | None = None) -> list[int]:
    """Return the sizes as integers; raises ShapeError (``what`` needs them) if one is symbolic, or
    if there are not ``rank`` ones.
    """
    sizes = shape_of(expr, rank)
    if not is_static(sizes):
        shown = ", ".join([str(size) for size in sizes])
        raise ShapeError(
            f"{what} needs constant sizes, got ({shown})",
            notes=("give the shapes of the model's inputs with shape_dict",),
        )
    return sizes  # type: ignore[return-value]


def product(sizes: Sequence[Size]) -> Size:
    """Return the number of elements of a shape."""
    total: Any = 1
    for size in sizes:
        total = size if isinstance(total, int) and total == 1 else total * size
    return total if isinstance(total, int) else integer(total)


def as_array(constant: Constant) -> Any:
    """Return the contents of a constant as a numpy array (a view, not to be written)."""
    return numpy.asarray(constant.data)


def scalar(value: Any, dtype: Any) -> Constant:
    """Return a constant of rank 0."""
    return Constant(numpy.asarray(value).astype(DataType(dtype).numpy()))


def vector(values: Any, dtype: Any = "int64") -> Constant:
    """Return a constant from a list of numbers."""
    return Constant(numpy.asarray(values).astype(DataType(dtype).numpy()))
