"""Sorting for operators, by numpy: the order is stable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesmith.support.errors import ShapeError, UnsupportedError

if TYPE_CHECKING:
    import numpy

    from tilesmith.runtime.ndarray import NDArray

__all__ = ["argsort", "argsort_nms", "sort", "topk"]


def _order(values: numpy.ndarray, axis: int, is_ascend: bool) -> numpy.ndarray:
    """Return the positions of the elements in order; among equal ones the first comes first."""
    import numpy

    if not -values.ndim <= axis < values.ndim:
        raise ShapeError(f"sort: a tensor of {values.ndim} dimensions has no axis {axis}")
    if is_ascend:
        return numpy.argsort(values, axis=axis, kind="stable")
    turned = numpy.argsort(numpy.flip(values, axis), axis=axis, kind="stable")
    return numpy.flip(values.shape[axis] - 1 - turned, axis)


def argsort(data: NDArray, out: NDArray, axis: int = -1, is_ascend: bool = True) -> None:
    """Store the positions of the elements in order along an axis."""
    out.copyfrom(_order(data.numpy(), axis, is_ascend))


def sort(data: NDArray, out: NDArray, axis: int = -1, is_ascend: bool = True) -> None:
    """Store the elements in order along an axis."""
    import numpy

    values = data.numpy()
    out.copyfrom(numpy.take_along_axis(values, _order(values, axis, is_ascend), axis))


def argsort_nms(
    data: NDArray, sort_num: NDArray, out: NDArray, axis: int = -1, is_ascend: bool = False
) -> None:
    """Store the positions in order along an axis, of which ``sort_num`` says for each row how many
    elements are sorted; the others keep their positions.
    """
    import numpy

    values = numpy.moveaxis(data.numpy(), axis, -1)
    counts = sort_num.numpy().reshape(-1)
    rows = values.reshape(-1, values.shape[-1])
    if len(counts) != len(rows):
        raise ShapeError(f"argsort_nms: {len(counts)} counts for {len(rows)} rows")
    places = numpy.tile(numpy.arange(rows.shape[-1]), (len(rows), 1))
    for row, count, place in zip(rows, counts, places):
        place[:count] = _order(row[: int(count)], 0, is_ascend)
    out.copyfrom(numpy.moveaxis(places.reshape(values.shape), -1, axis))


def topk(data: NDArray, *rest: Any) -> None:
    """Store the first ``k`` elements in order along an axis, their positions, or both.

    ``rest``: the outputs (values, positions, or one of them), then `k`, `axis`, `ret_type` ("both",
    "values" or "indices") and `is_ascend`; a ``k`` below 1 stands for all elements.
    """
    import numpy

    *outputs, k, axis, ret_type, is_ascend = rest
    if ret_type not in ("both", "values", "indices"):
        raise UnsupportedError(f"topk: ret_type is both, values or indices, not '{ret_type}'")
    values = data.numpy()
    order = _order(values, axis, is_ascend)
    count = k if k > 0 else values.shape[axis]
    first = numpy.take(order, range(min(count, values.shape[axis])), axis)
    found = {"values": numpy.take_along_axis(values, first, axis), "indices": first}
    wanted = ("values", "indices") if ret_type == "both" else (ret_type,)
    for name, out in zip(wanted, outputs):
        out.copyfrom(found[name])
