"""Parts by index as tensor expressions."""

from __future__ import annotations

from typing import Any

from tilesmith import te, topi
from tilesmith.relax.op.index import slice_bounds
from tilesmith.topi import tag


def take(attrs: Any, x: Any, indices: Any) -> Any:
    """Parts along an axis."""
    axis = 0 if attrs.axis is None else attrs.axis
    return topi.take(x, indices, axis, mode=attrs.mode)


def gather_elements(attrs: Any, data: Any, indices: Any) -> Any:
    """Elements whose index along an axis is given for each place."""
    return topi.gather(data, attrs.axis, indices)


def gather_nd(attrs: Any, data: Any, indices: Any) -> Any:
    """Parts at places whose indices are the last axis."""
    last = len(indices.shape) - 1
    turned = topi.transpose(indices, [last, *range(last)])
    return topi.gather_nd(data, turned, attrs.batch_dims)


def strided_slice(attrs: Any, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
    """A part of each axis by Python's rule."""
    ndim = len(x.shape)
    strides = [1] * len(axes) if strides is None else [int(stride) for stride in strides]
    first: dict[int, Any] = {}
    shape = list(x.shape)
    for axis, low, high, stride in zip(axes, begin, end, strides):
        axis = int(axis) % ndim
        start, count = slice_bounds(shape[axis], low, high, stride, attrs.assume_inbound)
        first[axis], shape[axis] = (start, stride), count

    def element(*i: Any) -> Any:
        place = [
            index if axis not in first else index * first[axis][1] + first[axis][0]
            for axis, index in enumerate(i)
        ]
        return x(*place)

    return te.compute(shape, element, name="T_strided_slice", tag=tag.INJECTIVE)
