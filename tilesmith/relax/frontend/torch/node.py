"""What a converter sees of a call of an ATen operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.ir import PrimExpr
from tilesmith.relax import op
from tilesmith.relax.expr import Constant, RelaxExpr, ShapeExpr, known_struct_info
from tilesmith.relax.frontend.onnx.values import (
    as_array,
    dtype_of,
    is_static,
    product,
    rank_of,
    scalar,
    shape_of,
    vector,
)
from tilesmith.relax.frontend.torch.tensors import dtype_name
from tilesmith.relax.relations import describe
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import OpAttributeUnImplemented, ShapeError

__all__ = [
    "AtenNode", "as_array", "cast", "dtype_of", "full_like_shape", "is_static", "normal_axis",
    "product", "rank_of", "reshape", "scalar", "shape_of", "vector",
]  # fmt: skip

_MISSING = object()


class AtenNode:
    """A call of an ATen operator: its arguments by the names of the schema, and what torch knows of
    its result.
    """

    def __init__(self, importer: Any, fx_node: Any, arguments: dict[str, Any]) -> None:
        self.importer = importer
        self.fx_node = fx_node
        self.arguments = arguments
        self.operator = str(fx_node.target)

    # Arguments

    def __getitem__(self, name: str) -> Any:
        """Return an argument: an expression, a number, a list, or None."""
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument, or ``default`` if it is absent or None."""
        value = self.arguments.get(name)
        return default if value is None else value

    def has(self, name: str) -> bool:
        """Return whether an argument is there and not None."""
        return self.arguments.get(name) is not None

    def tensor(self, name: str, dtype: Any = None) -> Any:
        """Return an argument as a tensor (numbers: of rank 0), converted to ``dtype`` if given."""
        return self.as_tensor(self.arguments[name], dtype)

    def as_tensor(self, value: Any, dtype: Any = None) -> Any:
        """Return a value as a tensor, converted to ``dtype`` if given."""
        if isinstance(value, RelaxExpr):
            return value if dtype is None else cast(value, dtype)
        wanted = dtype or self.dtype
        if isinstance(value, PrimExpr):
            return cast(self.emit(self.importer.tensor_of_scalar(value)), wanted)
        return number(value, wanted)

    def ints(self, name: str, count: int | None = None) -> list[Any]:
        """Return a list of integers or sizes; one number stands for ``count`` equal ones."""
        value = self.get(name, ())
        found = list(value) if isinstance(value, (list, tuple)) else [value]
        if count is not None and len(found) == 1:
            found *= count
        return found

    def axis(self, name: str, rank: int, default: int | None = None) -> int:
        """Return an argument that names an axis, counted from the front."""
        return normal_axis(self.get(name, default), rank)

    def axes(self, name: str, rank: int) -> list[int]:
        """Return axes, counted from the front; all if the argument is absent or empty."""
        value = self.get(name)
        if value is None:
            return list(range(rank))
        found = list(value) if isinstance(value, (list, tuple)) else [value]
        return sorted({normal_axis(axis, rank) for axis in found}) if found else list(range(rank))

    def meta(self, name: str) -> Any:
        """Return torch's own description of an argument: a fake tensor, or a number."""
        return self.importer.described(self.fx_node, name)

    def promoted(self, *names: str) -> str:
        """Return the dtype to which torch converts two arguments before it combines them."""
        import torch

        first, second = [self.meta(name) for name in names]
        return dtype_name(torch.result_type(_plain(first), _plain(second)))

    # Result

    @property
    def result(self) -> Any:
        """The description of the (first) result."""
        found = self.fx_node.meta["val"]
        return found[0] if isinstance(found, (list, tuple)) else found

    @property
    def dtype(self) -> str:
        """The dtype of the (first) result."""
        return dtype_name(self.result.dtype)

    @property
    def shape(self) -> list[Any]:
        """The sizes of the (first) result."""
        return self.sizes(self.result)

    def sizes(self, described: Any) -> list[Any]:
        """Return the sizes of a tensor that torch describes."""
        return [self.importer.symbols.size(size) for size in described.shape]

    def wants(self, index: int) -> bool:
        """Return whether one of several results is used."""
        import operator

        users = [user for user in self.fx_node.users if user.target is operator.getitem]
        if len(users) != len(self.fx_node.users):
            return True
        return any(user.args[1] == index for user in users)

    # Output

    def emit(self, expr: Any) -> Any:
        """Bind an expression to a variable."""
        return self.importer.emit(expr)

    def call_te(self, function: Any, *args: Any, **options: Any) -> Any:
        """Return a call of the kernel that a function of tensor expressions describes."""
        return self.importer.block_builder.call_te(function, *args, **options)

    def unsupported(self, what: str, *notes: str) -> OpAttributeUnImplemented:
        """Return the error for an unsupported use of the operator."""
        return OpAttributeUnImplemented(f"{what} is not supported", notes=notes)

    def static(self, sizes: Sequence[Any], what: str) -> list[int]:
        """Return sizes as integers; raises if one is symbolic."""
        if not is_static(sizes):
            shown = ", ".join([str(size) for size in sizes])
            raise self.unsupported(
                f"{what} with symbolic sizes ({shown})", "export the model with fixed sizes there"
            )
        return list(sizes)

    def describe_inputs(self) -> str:
        """Return the arguments with dtypes and shapes, for errors."""
        return ", ".join([f"{name}: {_shown(value)}" for name, value in self.arguments.items()])


def _shown(value: Any) -> str:
    if isinstance(value, RelaxExpr):
        return describe(known_struct_info(value))
    if isinstance(value, (list, tuple)) and any(isinstance(item, RelaxExpr) for item in value):
        return f"[{', '.join([_shown(item) for item in value])}]"
    return str(value)


def _plain(value: Any) -> Any:
    kind = type(value).__name__
    return {"SymInt": 1, "SymFloat": 1.0, "SymBool": True}.get(kind, value)


def number(value: Any, dtype: Any) -> Constant:
    """Return a number as a constant of rank 0, wrapped around as torch does."""
    dtype = DataType(dtype)
    if dtype.is_bool:
        return scalar(bool(value), dtype)
    if not dtype.is_float and isinstance(value, float):
        value = int(value)
    with numpy.errstate(over="ignore", invalid="ignore"):
        return scalar(value, dtype)


def cast(x: Any, dtype: Any) -> Any:
    """Convert a tensor as torch does: everything but zero is true."""
    source, dtype = dtype_of(x), DataType(dtype)
    if source == dtype:
        return x
    if dtype.is_bool:
        return op.not_equal(x, scalar(0, source))
    return op.astype(x, dtype)


def normal_axis(axis: Any, rank: int) -> int:
    """Return an axis counted from the front; a tensor of rank 0 has one axis to torch."""
    axis, count = int(axis), max(rank, 1)
    if not -count <= axis < count:
        raise ShapeError(f"there is no axis {axis} in a tensor of rank {rank}")
    return int(axis % count)


def reshape(x: Any, sizes: Sequence[Any]) -> Any:
    """Reshape a tensor unless it has that shape."""
    old = shape_of(x)
    if len(old) == len(sizes) and all(
        a is b or (isinstance(a, int) and isinstance(b, int) and a == b) for a, b in zip(old, sizes)
    ):
        return x
    return op.reshape(x, ShapeExpr(list(sizes)))


def full_like_shape(sizes: Sequence[Any], value: Any, dtype: Any) -> Any:
    """Return a tensor of equal elements; ``value`` is a number or a tensor of rank 0."""
    filler = value if isinstance(value, RelaxExpr) else number(value, dtype)
    return op.full(ShapeExpr(list(sizes)), filler, dtype)


__all__ += ["number"]
