"""``relay.op.dyn``: operators that reshape, repeat, fill, slice and select by computed sizes."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import REQUIRED, Schema, boolean, dtype, integer, text
from tilesmith.relax.expr import Constant, Tuple, TupleGetItem
from tilesmith.relax.spec import topi
from tilesmith.relax.struct_info import ShapeExpr
from tilesmith.relay.op import algorithm, indexing, movement  # noqa: F401 - the static operators
from tilesmith.relay.op.dyn.declaration import Place, count_of, dynamic, int64
from tilesmith.relay.op.tensor import dtype_of
from tilesmith.relay.op.view import axis_of, name_or_empty, rank_of
from tilesmith.support.errors import ShapeError, UnsupportedError

_FAR = 2**63 - 1


def numbers(*values: int) -> Constant:
    """Return a vector of sizes."""
    return Constant(numpy.asarray(values, "int64"))


def _number(value: int) -> Constant:
    return Constant(numpy.asarray(value, "int64"))


def _shape(data: Any) -> Any:
    return relax.shape_to_tensor(relax.shape_of(data))


def _resized(sizes: Any, count: int, filler: int) -> Any:
    """Return a vector with ``count`` elements: its first ones, or with fillers behind."""
    own = count_of(sizes)
    joined = relax.concat([sizes, numbers(filler)], 0)
    return relax.take(joined, numbers(*[min(place, own) for place in range(count)]), 0)


# Shapes


def reshaped(place: Place, attrs: Any, data: Any, newshape: Any) -> Any:
    """Return a tensor in the shape that a vector states: 0 keeps a size, -1 is what remains."""
    wanted, own = int64(newshape), _shape(data)
    if not attrs.allowzero:
        same = _resized(own, count_of(wanted), 1)
        wanted = relax.where(relax.equal(wanted, _number(0)), same, wanted)
    is_open = relax.equal(wanted, _number(-1))
    known = relax.prod(relax.where(is_open, _number(1), wanted))
    rest = relax.floor_divide(relax.prod(own), relax.maximum(known, _number(1)))
    sizes = place.sizes(relax.where(is_open, rest, wanted), "size")
    return relax.reshape(data, ShapeExpr(sizes))


def _squeeze(place: Place, attrs: Any, data: Any, axis: Any) -> Any:
    raise UnsupportedError(
        "squeeze needs to know its axes: with computed ones the sizes that are left have no order",
        notes=("make the axes constant, or reshape(x, shape) by a computed shape",),
    )


def _expand_dims(place: Place, attrs: Any, data: Any, axis: Any) -> Any:
    count = attrs.num_newaxis
    rank = rank_of(data) + count
    places = numbers(*range(rank))
    first = relax.reshape(int64(axis), [])
    first = relax.where(relax.less(first, _number(0)), relax.add(first, _number(rank_of(data) + 1)),
                        first)  # fmt: skip
    is_before = relax.less(places, first)
    moved = relax.subtract(places, _number(count))
    source = relax.where(is_before, places, relax.maximum(moved, _number(0)))
    is_new = relax.logical_and(relax.greater_equal(places, first), relax.less(moved, first))
    own = relax.take(_resized(_shape(data), rank, 1), source, 0)
    sizes = place.sizes(relax.where(is_new, _number(1), own), "size")
    return relax.reshape(data, ShapeExpr(sizes))


def _tile(place: Place, attrs: Any, data: Any, reps: Any) -> Any:
    return place.compute("tile", topi.tile, data, place.sizes(reps, "reps"))


def _broadcast_to(place: Place, attrs: Any, data: Any, shape: Any) -> Any:
    return relax.broadcast_to(data, ShapeExpr(place.sizes(shape, "size")))


dynamic(
    "dyn.reshape",
    "data newshape",
    reshaped,
    level=3,
    static="reshape",
    values="newshape",
    schema=Schema(allowzero=boolean(False)),
    description="The same elements in a computed shape: 0 keeps a size, -1 is what remains.",
)
dynamic(
    "dyn.squeeze",
    "data axis",
    _squeeze,
    level=3,
    static="squeeze",
    values="axis",
    description="The same elements without some axes of size 1; the axes have to become constant.",
)
dynamic(
    "dyn.expand_dims",
    "data axis",
    _expand_dims,
    level=3,
    static="expand_dims",
    values="axis",
    schema=Schema(num_newaxis=integer(1)),
    description="The same elements with new axes of size 1 at a computed place.",
)
dynamic(
    "dyn.tile",
    "data reps",
    _tile,
    level=3,
    static="tile",
    values="reps",
    description="A tensor repeated as a whole, as often as computed.",
)
dynamic(
    "dyn.broadcast_to",
    "data shape",
    _broadcast_to,
    level=4,
    static="broadcast_to",
    values="shape",
    description="Repeat elements along axes until the shape is a computed one.",
)


# Tensors of one value


def _fill(place: Place, dtype: Any, value: Any, shape: Any) -> Any:
    return relax.full(ShapeExpr(place.sizes(shape, "size")), value, dtype or None)


def _full(place: Place, attrs: Any, fill_value: Any, shape: Any) -> Any:
    return _fill(place, attrs.dtype, fill_value, shape)


dynamic(
    "dyn.full",
    "fill_value:number shape",
    _full,
    level=3,
    static="full",
    values="shape",
    schema=Schema(dtype=name_or_empty()),
    description="A tensor of one value in a computed shape.",
    dtypes={"fill_value": lambda given: given["dtype"] or None},
)


def _define_filled(name: str, value: int) -> None:
    def translate(place: Place, attrs: Any, shape: Any) -> Any:
        return _fill(place, None, Constant(numpy.asarray(value, attrs.dtype.numpy())), shape)

    dynamic(
        "dyn." + name,
        "shape",
        translate,
        level=3,
        static=name,
        values="shape",
        schema=Schema(dtype=dtype(REQUIRED)),
        description=f"A tensor of {name} in a computed shape.",
    )


_define_filled("zeros", 0)
_define_filled("ones", 1)


# Selections


def _size_of(place: Place, number: Any, name: str) -> Any:
    """Return a computed number as a size."""
    (size,) = place.sizes(relax.reshape(int64(number), [1]), name)
    return size


def _topk(place: Place, attrs: Any, data: Any, k: Any) -> Any:
    axis = axis_of(attrs.axis, rank_of(data))
    size = _size_of(place, k, "k")

    def first(values: Any) -> Any:
        return relax.strided_slice(values, [axis], [0], [size])

    found = relax.topk(data, 0, attrs.axis, attrs.ret_type, not attrs.is_ascend, attrs.dtype)
    if attrs.ret_type != "both":
        return first(found)
    return Tuple([first(TupleGetItem(found, place_)) for place_ in range(2)])


def _one_hot(
    place: Place, attrs: Any, indices: Any, on_value: Any, off_value: Any, depth: Any
) -> Any:
    rank = rank_of(indices) + 1
    axis = axis_of(attrs.axis, rank)
    size = _size_of(place, depth, "depth")
    along = [size if place_ == axis else 1 for place_ in range(rank)]
    places = relax.reshape(relax.arange(0, size, 1, dtype_of(indices)), along)
    chosen = relax.equal(relax.expand_dims(indices, axis), places)
    on, off = [_in(attrs.dtype, one) for one in (on_value, off_value)]
    return relax.where(chosen, on, off)


def _in(wanted: Any, value: Any) -> Any:
    return value if dtype_of(value) == wanted else relax.astype(value, wanted)


def _strided_slice(place: Place, attrs: Any, data: Any, begin: Any, end: Any, strides: Any) -> Any:
    rank = rank_of(data)
    begin, end, strides = [int64(one) for one in (begin, end, strides)]
    if count_of(strides) == 1 < count_of(begin):
        strides = relax.broadcast_to(strides, ShapeExpr([count_of(begin)]))
    own = _shape(data)
    begin = _resized(begin, rank, 0)
    if attrs.slice_mode == "size":
        sizes = _resized(end, rank, -1)
        far = relax.less(sizes, _number(0))
        end = relax.where(far, own, relax.add(begin, sizes))
        strides = numbers(*[1] * rank)
    elif attrs.slice_mode == "end":
        end = _resized(end, rank, _FAR)
        strides = _resized(strides, rank, 1)
    else:
        raise ShapeError(f"slice_mode is 'end' or 'size', not '{attrs.slice_mode}'")
    return relax.dynamic_strided_slice(data, begin, end, strides)


def _sparse_to_dense(
    place: Place, attrs: Any, indices: Any, shape: Any, values: Any, default: Any
) -> Any:
    sizes = place.sizes(shape, "size")
    return place.compute("sparse_to_dense", topi.sparse_to_dense, indices, sizes, values, default)


dynamic(
    "dyn.topk",
    "data k",
    _topk,
    level=6,
    static="topk",
    values="k",
    schema=Schema(
        axis=integer(-1), ret_type=text("both"), is_ascend=boolean(False), dtype=dtype("int32")
    ),
    description="The greatest elements along an axis, as many as computed.",
)
dynamic(
    "dyn.one_hot",
    "indices on_value off_value depth",
    _one_hot,
    level=10,
    static="one_hot",
    values="depth",
    schema=Schema(axis=integer(-1), dtype=dtype("float32")),
    description="Vectors of a computed size that have ``on_value`` at one place each.",
    dtypes=dict.fromkeys(("on_value", "off_value"), lambda given: given["dtype"]),
)
dynamic(
    "dyn.strided_slice",
    "data begin end strides",
    _strided_slice,
    level=4,
    static="strided_slice",
    values="begin end strides",
    schema=Schema(slice_mode=text("end")),
    description="The part of a tensor between computed bounds, in steps.",
    static_only=("axes",),
)
dynamic(
    "dyn.sparse_to_dense",
    "sparse_indices output_shape sparse_values default_value:number",
    _sparse_to_dense,
    level=3,
    static="sparse_to_dense",
    values="output_shape",
    description="A tensor of a computed shape with values at some places, a default elsewhere.",
    dtypes={"default_value": lambda given: dtype_of(given["sparse_values"])},
)
