"""Operators that look for values: places in sorted sequences, elements that are not 0, distinct
values. Those whose sizes depend on the data give room for all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.dynamic import nonzero_places, unique_groups
from tilesmith.topi.procedure import flat_load, local, loops, pointers
from tilesmith.topi.sort import argsort
from tilesmith.topi.utils import DType, Shape, get_const_int, same_size
from tilesmith.topi.variants import variant

__all__ = [
    "argwhere", "binary_search", "hybrid_argwhere_1d", "hybrid_argwhere_2d", "hybrid_argwhere_3d",
    "hybrid_argwhere_4d", "hybrid_argwhere_5d", "searchsorted", "unique",
]  # fmt: skip


def _insertion_place(
    builder: IRBuilder,
    element: Callable[[PrimExpr], PrimExpr],
    size: PrimExpr,
    value: PrimExpr,
    right: bool,
) -> PrimExpr:
    """Emit a binary search in ``size`` elements; return where ``value`` would be inserted."""
    low = local(builder, size.dtype, "low", const(0, size.dtype))
    high = local(builder, size.dtype, "high", size)
    with builder.while_loop(op.less(low[0], high[0])):
        middle = builder.let("middle", low[0] + op.floordiv(high[0] - low[0], 2))
        before = op.less_equal if right else op.less
        is_before = builder.let("is_before", before(element(middle), value))
        low[0] = tir.Select(is_before, middle + 1, low[0])
        high[0] = tir.Select(is_before, high[0], middle)
    return low[0]


def binary_search(
    ib: IRBuilder,
    sequence_offset: int | PrimExpr,
    search_range: int | PrimExpr,
    sorted_sequence: BufferVar,
    value: PrimExpr,
    right: bool,
    out_dtype: DType,
) -> PrimExpr:
    """Emit a search in a part of a buffer whose elements ascend; return where ``value`` would be
    inserted, counted from the beginning of the part: see `searchsorted`.

    The part has ``search_range`` elements from the flat position ``sequence_offset`` on.
    """
    size = convert(search_range)

    def element(place: PrimExpr) -> PrimExpr:
        return flat_load(sorted_sequence, place + sequence_offset)

    return op.cast(out_dtype, _insertion_place(ib, element, size, value, right))


def searchsorted(
    sorted_sequence: Tensor, values: Tensor, right: bool = False, out_dtype: DType = "int64"
) -> Tensor:
    """Return where ``values`` would have to be inserted into a sorted sequence to keep its order:
    before equal elements, or behind them with ``right``.

    The sequence is a vector; or it has one sequence along its last axis for each row of ``values``,
    and the other axes agree.
    """
    outer = len(sorted_sequence.shape) - 1
    rows = list(zip(sorted_sequence.shape[:-1], values.shape[:-1]))
    if outer and (
        len(values.shape) != outer + 1 or not all(same_size(one, other) for one, other in rows)
    ):
        raise ShapeError(
            "searchsorted: sequences and values differ in an axis other than the last one"
        )
    size = sorted_sequence.shape[-1]

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        sequence, wanted, out = pointers(builder, [*inputs, *outputs])
        with ExitStack() as stack:
            at = loops(builder, stack, values.shape, "i")
            place = _insertion_place(
                builder, lambda k: sequence[[*at[:outer], k]], size, wanted[at], right
            )
            out[at] = op.cast(out_dtype, place)
        return builder.get()

    made: Tensor = te.extern(
        [values.shape], [sorted_sequence, values], body, "searchsorted", [out_dtype]
    )
    return made


def argwhere(output_shape: Shape, condition: Tensor) -> Tensor:
    """Return the places of the elements that are not 0, a row of int32 indices for each.

    ``output_shape`` is (how many there are, dimensions); rows beyond their number are not defined.
    """
    if get_const_int(output_shape[1]) != len(condition.shape):
        raise ShapeError(
            f"argwhere: rows of {output_shape[1]} indices for {len(condition.shape)} dimensions"
        )
    _, planes = nonzero_places(condition)
    return compute(
        tuple(output_shape),
        lambda i, j: op.cast("int32", planes(j, i)),
        name="argwhere",
        tag=tag.INJECTIVE,
    )


def _argwhere_of_rank(rank: int, output_shape: Shape, condition: Tensor) -> Tensor:
    if len(condition.shape) != rank:
        raise ShapeError(
            f"hybrid_argwhere_{rank}d takes {rank} dimensions, got {len(condition.shape)}",
            notes=("argwhere takes any number of them",),
        )
    return argwhere(output_shape, condition)


(
    hybrid_argwhere_1d,
    hybrid_argwhere_2d,
    hybrid_argwhere_3d,
    hybrid_argwhere_4d,
    hybrid_argwhere_5d,
) = [
    variant(
        f"hybrid_argwhere_{rank}d", _argwhere_of_rank, rank, f"`argwhere` of {rank} dimensions."
    )
    for rank in range(1, 6)
]


def unique(data: Tensor, is_sorted: bool = True, return_counts: bool = False) -> list[Tensor]:
    """Return the distinct values of a vector: these, the place of the first one of each, which of
    them each element is, how many there are, and with ``return_counts`` how often each one occurs.

    They ascend, or stand in the order in which they occur first. All results but the number have as
    many elements as the data; what lies beyond the number of distinct values is not defined. The
    indices are int32.
    """
    if len(data.shape) != 1:
        raise ShapeError(f"unique takes a vector, got {len(data.shape)} dimensions")
    count, first, members, group_of = unique_groups(data, None)
    size = data.shape[0]

    def ranked(k: PrimExpr) -> PrimExpr:
        used = op.less(op.cast("int64", k), count(0))
        return tir.if_then_else(used, first(k), op.cast("int64", size))

    order: Tensor | None = None
    if not is_sorted:
        occurrence = compute((size,), ranked, name="unique_occurrence")
        order = argsort(occurrence, axis=0, dtype="int32")
        rank = argsort(order, axis=0, dtype="int32")

    def group(k: PrimExpr) -> PrimExpr:
        return k if order is None else order(k)

    def inside(k: PrimExpr, value: PrimExpr) -> PrimExpr:
        """Return a value of a group, 0 behind the last one."""
        used = op.less(op.cast("int64", k), count(0))
        return tir.if_then_else(used, value, const(0, value.dtype))

    def inverse(k: PrimExpr) -> PrimExpr:
        found = group_of(k)
        return op.cast("int32", found if order is None else rank(found))

    parts = {
        "unique": lambda k: inside(k, data(first(group(k)))),
        "unique_first": lambda k: inside(k, op.cast("int32", first(group(k)))),
        "unique_inverse": inverse,
    }
    results = [compute((size,), part, name=name) for name, part in parts.items()]
    results.append(compute((1,), lambda k: op.cast("int32", count(k)), name="unique_number"))
    if return_counts:
        results.append(
            compute(
                (size,),
                lambda k: inside(k, op.cast("int32", members(group(k)))),
                name="unique_counts",
            )
        )
    return results
