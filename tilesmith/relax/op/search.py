"""Choosing and finding: where, argmax, sorting, unique values, dtype conversion, one-hot."""

from __future__ import annotations

from collections.abc import Callable
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
from tilesmith.relax.expr import Call, PrimValue
from tilesmith.relax.op.common import (
    broadcast_sizes,
    check_axis,
    check_dtypes,
    result,
    size,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.spec import FusionKind, call, define, operand, topi
from tilesmith.relax.op.statistical import infer_reduction
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import OpAttributeInvalid, TypeMismatchError

# Dtypes


def _infer_astype(call: Call) -> Any:
    info = tensor(call, 0)
    return TensorStructInfo(info.shape, call.attrs.dtype, info.vdevice, info.ndim)


def _astype(attrs: Any, x: Any) -> Any:
    return x.astype(attrs.dtype.numpy())


_ASTYPE = define(
    "astype",
    "x",
    _infer_astype,
    schema=Schema(dtype=dtype_attribute()),
    compute="topi.cast",
    kind=FusionKind.ELEMWISE,
    evaluate=_astype,
)


def astype(x: Any, dtype: Any) -> Call:
    """``x`` converted to a dtype; floats become integers by truncation."""
    return call(_ASTYPE, x, dtype=dtype)


_WRAP_PARAM = define(
    "wrap_param",
    "data",
    _infer_astype,
    schema=Schema(dtype=dtype_attribute("float32")),
    compute="topi.cast",
    kind=FusionKind.ELEMWISE,
    evaluate=_astype,
)


def wrap_param(data: Any, dtype: Any = "float32") -> Call:
    """A parameter of the model converted to a dtype."""
    return call(_WRAP_PARAM, data, dtype=dtype)


# Choice


def _infer_where(call: Call) -> Any:
    condition, a, b = (tensor(call, index) for index in range(3))
    if not condition.dtype.is_void and not condition.dtype.is_bool:
        raise TypeMismatchError(
            f"where needs a condition of booleans, got {condition.dtype}",
            notes=("compare it first, or convert it with astype",),
        )
    out = check_dtypes(call, (a, b))
    infos = (condition, a, b)
    ndim = -1 if -1 in [info.ndim for info in infos] else max([info.ndim for info in infos])
    shapes = [sizes_of(info) for info in infos]
    if any(shape is None for shape in shapes):
        return result(None, out, ndim)
    both = broadcast_sizes(call, shapes[1], shapes[2])
    sizes = None if both is None else broadcast_sizes(call, shapes[0], both)
    return result(sizes, out, ndim)


_WHERE = define(
    "where",
    "condition x1 x2",
    _infer_where,
    compute="topi.where",
    kind=FusionKind.BROADCAST,
    evaluate=lambda attrs, condition, a, b: numpy.where(condition, a, b),
)


def where(condition: Any, x1: Any, x2: Any) -> Call:
    """``x1`` where the condition holds, else ``x2``, elementwise with broadcasting."""
    return call(_WHERE, condition, operand(x1, x2), operand(x2, x1))


def masked_fill(x: Any, mask: Any, value: Any) -> Call:
    """``value`` where the mask holds, else ``x``."""
    return where(mask, operand(value, x), x)


# Places of extreme values


def _arg_expression(name: str) -> Callable[..., Any]:
    def expression(attrs: Any, x: Any) -> Any:
        found = getattr(topi, name)(x, attrs.axis, attrs.keepdims)
        return found if found.dtype == "int64" else topi.cast(found, "int64")

    return expression


def _arg_reduction(name: str, evaluate: Any, word: str) -> Callable[..., Call]:
    def arg(attrs: Any, x: Any) -> Any:
        if attrs.axis is None:
            found = evaluate(x)
            return numpy.reshape(found, (1,) * x.ndim) if attrs.keepdims else found
        return evaluate(x, axis=attrs.axis, keepdims=attrs.keepdims)

    op = define(
        name,
        "x",
        lambda call: infer_reduction(call, "int64"),
        schema=Schema(axis=optional_integer(), keepdims=boolean(False)),
        compute=_arg_expression(name),
        kind=FusionKind.COMM_REDUCE,
        evaluate=arg,
    )

    def function(x: Any, axis: int | None = None, keepdims: bool = False) -> Call:
        return call(op, x, axis=axis, keepdims=keepdims)

    function.__name__ = name
    function.__doc__ = (
        f"The index (int64) of the {word} value along an axis, the first if there are several."
    )
    return function


argmax = _arg_reduction("argmax", numpy.argmax, "largest")
argmin = _arg_reduction("argmin", numpy.argmin, "smallest")


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


_SORT = define(
    "sort",
    "x",
    _infer_sort,
    schema=Schema(axis=integer(-1), descending=boolean(False)),
    compute=lambda attrs, x: topi.sort(x, attrs.axis, not attrs.descending),
    evaluate=_sort,
)
_ARGSORT = define(
    "argsort",
    "data",
    _infer_argsort,
    schema=Schema(axis=integer(-1), descending=boolean(False), dtype=dtype_attribute("int32")),
    compute=lambda attrs, x: topi.argsort(
        x, axis=attrs.axis, is_ascend=not attrs.descending, dtype=attrs.dtype
    ),
    evaluate=lambda attrs, x: _sorted_indices(x, attrs.axis, attrs.descending),
)


def sort(x: Any, axis: int = -1, descending: bool = False) -> Call:
    """The elements in order along an axis."""
    return call(_SORT, x, axis=axis, descending=descending)


def argsort(data: Any, axis: int = -1, descending: bool = False, dtype: Any = "int32") -> Call:
    """The indices that put the elements in order along an axis."""
    return call(_ARGSORT, data, axis=axis, descending=descending, dtype=dtype)


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


_TOPK = define(
    "topk",
    "data",
    _infer_topk,
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


def topk(
    data: Any,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: Any = "int32",
) -> Call:
    """The ``k`` largest (smallest) elements along an axis: values, indices, or a tuple of both."""
    return call(_TOPK, data, k=k, axis=axis, ret_type=ret_type, largest=largest, dtype=dtype)


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
    """The values that occur in an array (a registered function: sizes depend on the data)."""
    found = numpy.unique(
        numpy.asarray(x),
        return_index=bool(return_index),
        return_inverse=bool(return_inverse),
        return_counts=bool(return_counts),
        axis=axis,
    )
    return found


_UNIQUE = define(
    "unique",
    "x",
    _infer_unique,
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


def _flag(value: Any) -> Any:
    if isinstance(value, PrimValue):
        return value.value.value
    return value


def unique(
    x: Any,
    sorted: Any = True,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
) -> Call:
    """The values that occur, in order, with what else is asked for."""
    return call(
        _UNIQUE,
        x,
        sorted=_flag(sorted),
        return_index=_flag(return_index),
        return_inverse=_flag(return_inverse),
        return_counts=_flag(return_counts),
        axis=_flag(axis),
    )


def _infer_nonzero(call: Call) -> Any:
    info = tensor(call, 0)
    if info.ndim == -1:
        return result(None, "int64", 2)
    return TensorStructInfo(None, "int64", None, 2)


def numpy_nonzero(x: Any) -> Any:
    """The indices of the elements that are not 0, one row per axis."""
    return numpy.stack(numpy.nonzero(numpy.asarray(x)))


_NONZERO = define("nonzero", "x", _infer_nonzero, evaluate=lambda attrs, x: numpy_nonzero(x))


def nonzero(x: Any) -> Call:
    """The indices of the elements that are not 0, one row per axis."""
    return call(_NONZERO, x)


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


_ONE_HOT = define(
    "one_hot",
    "indices",
    _infer_one_hot,
    schema=Schema(
        depth=integer(),
        on_value=scalar(1),
        off_value=scalar(0),
        axis=integer(-1),
        dtype=dtype_attribute("float32"),
    ),
    compute="topi.one_hot",
    kind=FusionKind.INJECTIVE,
    evaluate=_one_hot,
)


def one_hot(
    indices: Any,
    on_value: Any,
    off_value: Any,
    depth: int,
    axis: int = -1,
    dtype: Any = "float32",
) -> Call:
    """``on_value`` at the places that the indices name along a new axis, ``off_value``
    elsewhere."""
    return call(
        _ONE_HOT,
        indices,
        depth=depth,
        on_value=_flag(on_value),
        off_value=_flag(off_value),
        axis=axis,
        dtype=dtype,
    )
