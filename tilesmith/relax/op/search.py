"""Sorting, sets of values, one-hot."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import (
    Schema,
    boolean,
    integer,
    optional_integer,
    scalar,
    text,
)
from tilesmith.relax.attrs import dtype as dtype_attribute
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import (
    check_axis,
    result,
    size,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.declaration import define
from tilesmith.relax.spec import topi
from tilesmith.relax.struct_info import TupleStructInfo
from tilesmith.support.errors import OpAttributeInvalid

# Sorting


def _sorted_indices(x: Any, axis: int, descending: bool) -> Any:
    if not descending:
        return numpy.argsort(x, axis=axis, kind="stable")
    # Stable in descending order too: equal elements keep their order.
    turned = numpy.flip(x, axis)
    order = numpy.flip(numpy.argsort(turned, axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - order


def _infer_sort(call: Call) -> Any:
    info = tensor(call, 0)
    check_axis(call, call.attrs.axis, info.ndim)
    return info


def _infer_argsort(call: Call) -> Any:
    info = _infer_sort(call)
    return result(sizes_of(info), call.attrs.dtype, info.ndim)


def _sort(attrs: Any, x: Any) -> Any:
    order = _sorted_indices(x, attrs.axis, attrs.descending)
    return numpy.take_along_axis(x, order, attrs.axis)


sort = define(
    "sort",
    "x",
    _infer_sort,
    description="The elements in order along an axis.",
    schema=Schema(axis=integer(-1), descending=boolean(False)),
    compute=lambda attrs, x: topi.sort(x, attrs.axis, not attrs.descending),
    evaluate=_sort,
)
argsort = define(
    "argsort",
    "data",
    _infer_argsort,
    description="The indices that put the elements in order along an axis.",
    schema=Schema(axis=integer(-1), descending=boolean(False), dtype=dtype_attribute("int32")),
    compute=lambda attrs, x: topi.argsort(
        x, axis=attrs.axis, is_ascend=not attrs.descending, dtype=attrs.dtype
    ),
    evaluate=lambda attrs, x: _sorted_indices(x, attrs.axis, attrs.descending),
)


def _infer_topk(call: Call) -> Any:
    info, attrs = tensor(call, 0), call.attrs
    axis = check_axis(call, attrs.axis, info.ndim)
    sizes = sizes_of(info)
    if sizes is not None:
        extent = sizes[axis] if attrs.k < 1 else size(attrs.k)
        sizes = [*sizes[:axis], extent, *sizes[axis + 1 :]]
    values = result(sizes, info.dtype, info.ndim)
    indices = result(sizes, attrs.dtype, info.ndim)
    if attrs.ret_type not in ("both", "values", "indices"):
        raise OpAttributeInvalid("topk: ret_type is 'both', 'values' or 'indices'")
    if attrs.ret_type == "both":
        return TupleStructInfo((values, indices))
    return values if attrs.ret_type == "values" else indices


def _topk(attrs: Any, x: Any) -> Any:
    order = _sorted_indices(x, attrs.axis, attrs.largest)
    if attrs.k >= 1:
        order = numpy.take(order, range(attrs.k), attrs.axis)
    values = numpy.take_along_axis(x, order, attrs.axis)
    return {"both": (values, order), "values": values, "indices": order}[attrs.ret_type]


topk = define(
    "topk",
    "data",
    _infer_topk,
    description=(
        "The ``k`` largest (smallest) elements along an axis: values, indices, or a tuple of both."
    ),
    schema=Schema(
        k=integer(1),
        axis=integer(-1),
        ret_type=text("both"),
        largest=boolean(True),
        dtype=dtype_attribute("int32"),
    ),
    compute=lambda attrs, x: topi.topk(
        x, attrs.k, attrs.axis, attrs.ret_type, not attrs.largest, attrs.dtype
    ),
    evaluate=_topk,
)


# Sets: sizes depend on the data


def _infer_unique(call: Call) -> Any:
    info, attrs = tensor(call, 0), call.attrs
    values = result(None, info.dtype, 1 if attrs.axis is None else info.ndim)
    fields = [values]
    for wanted in (attrs.return_index, attrs.return_inverse, attrs.return_counts):
        if wanted:
            fields.append(result(None, "int64", 1))
    return values if len(fields) == 1 else TupleStructInfo(tuple(fields))


def numpy_unique(
    x: Any,
    sorted: Any,
    return_index: Any,
    return_inverse: Any,
    return_counts: Any,
    axis: Any = None,
) -> Any:
    """Return the distinct values of an array."""
    found = numpy.unique(
        numpy.asarray(x),
        return_index=bool(return_index),
        return_inverse=bool(return_inverse),
        return_counts=bool(return_counts),
        axis=axis,
    )
    return found


def _unique_results(attrs: Any, sizes: Any, x: Any, *groups: Any) -> Any:
    wanted = (attrs.return_index, attrs.return_inverse, attrs.return_counts)
    found = topi.unique_results(sizes[0], x, groups, _unique_axis(attrs, x), wanted)
    return found[0] if len(found) == 1 else found


def _unique_axis(attrs: Any, x: Any) -> int | None:
    return None if attrs.axis is None else attrs.axis % len(x.shape)


unique = define(
    "unique",
    "x",
    _infer_unique,
    description="""The values that occur (of ``axis``: the slices), in ascending order, also without
    ``sorted``; then what else is asked for: the place of the first one, where each element of ``x``
    is in the result, how many there are.""",
    counts=lambda attrs, x: topi.unique_groups(x, _unique_axis(attrs, x)),
    compute=_unique_results,
    schema=Schema(
        sorted=boolean(True),
        return_index=boolean(False),
        return_inverse=boolean(False),
        return_counts=boolean(False),
        axis=optional_integer(),
    ),
    evaluate=lambda attrs, x: numpy_unique(
        x, True, attrs.return_index, attrs.return_inverse, attrs.return_counts, attrs.axis
    ),
)


def _infer_nonzero(call: Call) -> Any:
    tensor(call, 0)
    return result(None, "int64", 2)


def numpy_nonzero(x: Any) -> Any:
    """Return the indices of the nonzero elements, one row per axis."""
    return numpy.stack(numpy.nonzero(numpy.asarray(x)))


nonzero = define(
    "nonzero",
    "x",
    _infer_nonzero,
    description="The indices of the elements that are not 0, one row per axis.",
    counts=lambda attrs, x: topi.nonzero_places(x),
    compute=lambda attrs, sizes, x, places: topi.nonzero(sizes[0], places),
    evaluate=lambda attrs, x: numpy_nonzero(x),
)


# One-hot


def _infer_one_hot(call: Call) -> Any:
    info, value = tensor(call, 0), call.attrs
    ndim = info.ndim
    axis = check_axis(call, value.axis, -1 if ndim == -1 else ndim + 1)
    sizes = sizes_of(info)
    if sizes is None:
        return result(None, value.dtype, -1 if ndim == -1 else ndim + 1)
    return result([*sizes[:axis], size(value.depth), *sizes[axis:]], value.dtype)


def _one_hot(attrs: Any, indices: Any) -> Any:
    axis = attrs.axis % (indices.ndim + 1)
    classes = numpy.arange(attrs.depth).reshape(
        [-1 if i == axis else 1 for i in range(indices.ndim + 1)]
    )
    hit = numpy.expand_dims(indices, axis) == classes
    return numpy.where(hit, attrs.on_value, attrs.off_value).astype(attrs.dtype.numpy())


one_hot = define(
    "one_hot",
    "indices",
    _infer_one_hot,
    description="""``on_value`` at the places that the indices name along a new axis, ``off_value``
    elsewhere.""",
    schema=Schema(
        on_value=scalar(),
        off_value=scalar(),
        depth=integer(),
        axis=integer(-1),
        dtype=dtype_attribute("float32"),
    ),
    compute="topi.one_hot",
    evaluate=_one_hot,
)
