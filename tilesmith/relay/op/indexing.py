"""Operators that select elements: slices, gathers, scatters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import (
    Schema,
    boolean,
    integer,
    ints,
    optional_integer,
    optional_ints,
    text,
)
from tilesmith.relax.expr import RelaxExpr, as_expr
from tilesmith.relax.spec import topi
from tilesmith.relay.expr import TupleWrapper, const
from tilesmith.relay.op.movement import plain_sizes
from tilesmith.relay.op.tensor import dtype_of, tuple_of
from tilesmith.relay.op.view import (
    axis_of,
    computed,
    define,
    function,
    make_call,
    rank_of,
    same,
    sizes,
)
from tilesmith.support.errors import OpAttributeInvalid, UnsupportedError

# Slices


def _strided_slice(attrs: Any, data: Any) -> Any:
    axes = list(range(len(attrs.begin))) if attrs.axes is None else list(attrs.axes)
    strides = list(attrs.strides or [1] * len(axes))
    if attrs.slice_mode not in ("end", "size"):
        raise OpAttributeInvalid(f"slice_mode is 'end' or 'size', not '{attrs.slice_mode}'")
    begin, end = list(attrs.begin), list(attrs.end)
    if len(strides) == 1:
        strides *= len(axes)
    if attrs.slice_mode == "size":
        shape = sizes(data)
        end = [
            shape[axis] if size < 0 else first + size for axis, first, size in zip(axes, begin, end)
        ]
        strides = [1] * len(axes)
    return relax.strided_slice(data, axes, begin, end, strides)


define(
    "strided_slice",
    "data",
    _strided_slice,
    level=4,
    schema=Schema(
        begin=ints(),
        end=ints(),
        strides=optional_ints(),
        slice_mode=text("end"),
        axes=optional_ints(),
    ),
    record=relax.strided_slice.op.spec,
)


@function("strided_slice")
def strided_slice(
    data: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    axes: Any = None,
    slice_mode: str = "end",
) -> Any:
    """Return a part of a tensor: from ``begin`` to ``end`` in steps, along the first axes or along
    ``axes``. With ``slice_mode="size"``, ``end`` gives sizes (-1: all that is left).
    """
    attributes = {
        "begin": plain_sizes(begin, "begin"),
        "end": plain_sizes(end, "end"),
        "strides": plain_sizes((1,) if strides is None else strides, "strides"),
        "slice_mode": slice_mode,
        "axes": axes,
    }
    return make_call("strided_slice", [data], attributes)


computed(
    "strided_set",
    "data v begin end strides",
    lambda attrs, data, v, begin, end, strides: topi.strided_set(data, v, begin, end, strides),
    level=4,
    description="A tensor with a part replaced: from begin to end, in steps.",
)


@function("strided_set")
def strided_set(data: Any, v: Any, begin: Any, end: Any, strides: Any = None) -> Any:
    """Return ``data`` with the part from ``begin`` to ``end`` (in steps) replaced by ``v``."""
    if strides is None:
        strides = [1] * rank_of(data)
    bounds = [
        one if isinstance(one, RelaxExpr) else const(list(one), "int32")
        for one in (begin, end, strides)
    ]
    return make_call("strided_set", [data, v, *bounds])


def _slice_like(attrs: Any, data: Any, like: Any) -> Any:
    wanted, rank = sizes(like), rank_of(data)
    axes = range(len(wanted)) if not attrs.axes else [axis_of(axis, rank) for axis in attrs.axes]
    axes = list(axes)
    return relax.strided_slice(data, axes, [0] * len(axes), [wanted[axis] for axis in axes])


define(
    "slice_like",
    "data shape_like",
    _slice_like,
    level=10,
    schema=Schema(axes=optional_ints()),
    description="The beginning of a tensor, as large as the second one (along some axes).",
)


# Indices


def _take(attrs: Any, data: Any, indices: Any) -> Any:
    if attrs.batch_dims:
        raise UnsupportedError(
            "take with batch_dims is not supported", notes=("use relay.gather or gather_nd",)
        )
    if attrs.axis is None and rank_of(data) != 1:  # of all elements in one row
        return relax.take(relax.flatten(data), indices, 0, attrs.mode)
    return relax.take(data, indices, attrs.axis, attrs.mode)


define(
    "take",
    "data indices",
    _take,
    level=3,
    schema=Schema(axis=optional_integer(), batch_dims=integer(0), mode=text("clip")),
    record=relax.take.op.spec,
)
same("gather", "data indices", record="gather_elements", level=3, schema=Schema(axis=integer()))


def _tuples_last(indices: Any) -> Any:
    """Return indices in numpy as relax has them: their tuples along the last axis."""
    return numpy.moveaxis(indices, 0, -1)


_NUMPY_GATHER = relax.gather_nd.op.spec.evaluate
_NUMPY_SCATTER = relax.scatter_nd.op.spec.evaluate
computed(
    "gather_nd",
    "data indices",
    lambda attrs, data, indices: topi.gather_nd(data, indices, attrs.batch_dims),
    level=3,
    schema=Schema(batch_dims=integer(0), index_rank=optional_integer()),
    evaluate=lambda attrs, data, indices: _NUMPY_GATHER(attrs, data, _tuples_last(indices)),
    description="The elements at coordinates, which lie along the first axis of the indices.",
)
same(
    "scatter_elements",
    "data indices updates",
    level=3,
    schema=Schema(axis=integer(0), reduction=text("update")),
)
computed(
    "scatter_nd",
    "data indices updates",
    lambda attrs, data, indices, updates: topi.scatter_nd(data, indices, updates, attrs.mode),
    level=3,
    schema=Schema(mode=text("update")),
    evaluate=lambda attrs, data, indices, updates: _NUMPY_SCATTER(
        SimpleNamespace(reduction=attrs.mode), data, _tuples_last(indices), updates
    ),
    description="Write at coordinates, which lie along the first axis of the indices.",
)


@function("gather")
def gather(data: Any, axis: int, indices: Any) -> Any:
    """Return the elements at the places along ``axis`` that the indices name."""
    return make_call("gather", [data, indices], {"axis": axis})


def _define_scatter(name: str, reduction: str) -> None:
    def translate(attrs: Any, data: Any, indices: Any, updates: Any) -> Any:
        return relax.scatter_elements(data, indices, updates, attrs.axis, reduction)

    define(
        name,
        "data indices updates",
        translate,
        level=10,
        schema=Schema(axis=integer(0)),
        record=relax.scatter_elements.op.spec,
    )


_define_scatter("scatter", "update")
_define_scatter("scatter_add", "add")


def _argwhere(attrs: Any, condition: Any) -> Any:
    return relax.astype(relax.permute_dims(relax.nonzero(condition)), "int32")


define(
    "argwhere",
    "condition",
    _argwhere,
    level=10,
    description="The coordinates of the elements that are not 0, one row each.",
)
computed(
    "adv_index",
    "inputs",
    lambda attrs, inputs: topi.adv_index(inputs[0], list(inputs[1:])),
    level=3,
    description="Numpy's ``data[indices]``, of a tuple of the tensor and its index tensors.",
)


@function("adv_index")
def adv_index(inputs: Any) -> Any:
    """Return numpy's ``inputs[0][inputs[1:]]``."""
    return make_call("adv_index", [tuple_of(inputs)])


def _sparse_to_dense(attrs: Any, indices: Any, values: Any, default: Any) -> Any:
    return topi.sparse_to_dense(indices, list(attrs.output_shape), values, default)


computed(
    "sparse_to_dense",
    "sparse_indices sparse_values default_value:number",
    _sparse_to_dense,
    level=3,
    schema=Schema(output_shape=ints()),
    description="A tensor with values at some places and a default elsewhere.",
)


@function("sparse_to_dense")
def sparse_to_dense(
    sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0
) -> Any:
    """Return a tensor with values at some places and a default elsewhere."""
    values = as_expr(sparse_values)
    if not isinstance(default_value, RelaxExpr):
        default_value = const(default_value, dtype_of(values))
    attributes = {"output_shape": plain_sizes(output_shape, "output_shape")}
    return make_call("sparse_to_dense", [sparse_indices, values, default_value], attributes)


computed(
    "unique",
    "data",
    lambda attrs, data: topi.unique(data, attrs.sorted, attrs.return_counts),
    level=3,
    schema=Schema(sorted=boolean(True), return_counts=boolean(False)),
    description="The different elements of a vector, their places, and how many there are.",
)


@function("unique")
def unique(data: Any, is_sorted: bool = True, return_counts: bool = False) -> Any:
    """Return the different elements, the first place of each, for each element the number of its
    value, and how many values there are (then the counts): vectors as long as the input.
    """
    attributes = {"sorted": is_sorted, "return_counts": return_counts}
    return TupleWrapper(make_call("unique", [data], attributes), 5 if return_counts else 4)
