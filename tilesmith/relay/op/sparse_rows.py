"""Sparse tensors as rows of indices with values, and sums of segments."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op as relax
from tilesmith.relax.expr import Constant
from tilesmith.relax.spec import topi
from tilesmith.relay.expr import TupleWrapper, const
from tilesmith.relay.op.dyn.declaration import Place, int64, of_unknown_sizes
from tilesmith.relay.op.view import computed, find_function, function, make_call, rank_of, sizes


def _fill_empty_rows(
    place: Place, attrs: Any, indices: Any, values: Any, shape: Any, default: Any
) -> Any:
    """Count the rows that have no value, then fill them."""
    one, zero = [Constant(numpy.asarray([number], "int64")) for number in (1, 0)]
    count = relax.strided_slice(int64(shape), [0], [0], [1])
    (rows,) = place.sizes(count, "rows")
    number = sizes(values)[0]
    of_values = relax.reshape(int64(relax.strided_slice(indices, [1], [0], [1])), [number])
    seen = relax.scatter_elements(
        relax.full([rows], Constant(numpy.asarray(0, "int64"))),
        of_values,
        relax.full([number], Constant(numpy.asarray(1, "int64"))),
        0,
        "update",
    )
    missing = relax.sum(relax.subtract(one, relax.maximum(seen, zero)), [0], keepdims=True)
    (added,) = place.sizes(missing, "empty")
    total, rank = number + added, sizes(indices)[1]

    def expression(*inputs: Any) -> Any:
        return topi.sparse_fill_empty_rows(*inputs, [total, rank], [total], [rows])

    return place.compute("sparse_fill_empty_rows", expression, indices, values, shape, default)


of_unknown_sizes(
    "sparse_fill_empty_rows",
    "sparse_indices sparse_values dense_shape default_value",
    _fill_empty_rows,
    level=3,
    description="A value for each row of a sparse tensor that has none.",
)
computed(
    "sparse_reshape",
    "sparse_indices prev_shape new_shape",
    lambda attrs, indices, before, after: topi.sparse_reshape(
        indices, before, after, [indices.shape[0], after.shape[0]], [after.shape[0]]
    ),
    level=3,
    description="The indices of a sparse tensor in another shape, and this shape.",
)


@function("sparse_fill_empty_rows")
def sparse_fill_empty_rows(
    sparse_indices: Any, sparse_values: Any, dense_shape: Any, default_value: Any
) -> TupleWrapper:
    """Give each row that has no value the default one. Return the indices and values, row by row,
    and which rows had none.
    """
    operands = [sparse_indices, sparse_values, dense_shape, default_value]
    return TupleWrapper(make_call("sparse_fill_empty_rows", operands), 3)


@function("sparse_reshape")
def sparse_reshape(sparse_indices: Any, prev_shape: Any, new_shape: Any) -> TupleWrapper:
    """Return the indices that the values of a sparse tensor have in another shape, and this shape;
    one size may be -1.
    """
    return TupleWrapper(make_call("sparse_reshape", [sparse_indices, prev_shape, new_shape]), 2)


@function("segment_sum")
def segment_sum(data: Any, segment_ids: Any, num_segments: Any = None) -> Any:
    """Return the sums of the parts of a tensor along its first axis that have the same number in
    ``segment_ids``: as many as ``num_segments``, by default one more than the greatest number.
    """
    rank = rank_of(data)
    call = find_function
    ids = segment_ids
    if rank > 1:
        ids = call("expand_dims")(ids, axis=1, num_newaxis=rank - 1)
        ids = call("broadcast_to_like")(ids, data)
    if isinstance(num_segments, int):
        shape: Any = (num_segments, *sizes(data)[1:])
    else:
        count = num_segments
        if count is None:
            last = call("cast")(call("max")(segment_ids), "int64")
            count = call("add")(last, const(1, "int64"))
        count = call("reshape")(call("cast")(count, "int64"), (1,))
        rest = [int(size) for size in sizes(data)[1:]]
        shape = call("concatenate")([count, const(rest, "int64")], 0) if rest else count
    zeros = call("zeros")(shape, str(data.struct_info.dtype))
    return call("scatter_elements")(zeros, ids, data, 0, "add")
