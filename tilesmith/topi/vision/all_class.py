"""Choosing boxes of all classes at once."""

from __future__ import annotations

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.digit_sort import DigitSort, sortable, sortable_dtype
from tilesmith.topi.procedure import Row, index_dtype, local, pointers
from tilesmith.topi.tensor import full
from tilesmith.topi.utils import DType, Number

__all__ = ["all_class_non_max_suppression"]


def _overlaps(
    boxes: BufferVar, batch: PrimExpr, a: PrimExpr, b: PrimExpr, most: PrimExpr
) -> PrimExpr:
    """Return whether the boxes ``a`` and ``b`` share more than a part ``most`` of their union."""

    def side(place: PrimExpr, axis: int) -> tuple[PrimExpr, PrimExpr]:
        one, other = boxes[[batch, place, axis]], boxes[[batch, place, axis + 2]]
        return op.minimum(one, other), op.maximum(one, other)

    common: PrimExpr = const(1, boxes.dtype)
    areas = [common, common]
    for axis in (0, 1):
        sides = side(a, axis), side(b, axis)
        low = op.maximum(sides[0][0], sides[1][0])
        high = op.minimum(sides[0][1], sides[1][1])
        common = common * op.maximum(high - low, const(0, boxes.dtype))
        areas = [area * (end - begin) for area, (begin, end) in zip(areas, sides)]
    union = areas[0] + areas[1] - common
    zero = const(0, boxes.dtype)
    is_box = tir.And(tir.And(areas[0] > zero, areas[1] > zero), union > zero)
    # Without a division: what is no box overlaps with nothing.
    return tir.And(is_box, common > op.cast(boxes.dtype, most) * union)


def _choose_boxes(
    builder: IRBuilder, boxes: BufferVar, points: BufferVar, selected: BufferVar, rows: DigitSort,
    plane: PrimExpr, count: BufferVar, at: tuple[PrimExpr, PrimExpr],
    limits: tuple[PrimExpr, PrimExpr, PrimExpr], size: PrimExpr,
) -> None:  # fmt: skip
    """Choose boxes of one class in the order of their scores."""
    most_boxes, most_overlap, least_score = limits
    start = local(builder, "int64", "start", count[0])
    k = local(builder, size.dtype, "k", const(0, size.dtype))
    enough = tir.And(k[0] < size, (count[0] - start[0]) < most_boxes)
    with builder.while_loop(enough):
        place = builder.let("place", rows.place(plane, k[0]))
        fits = local(builder, "int32", "fits", const(1, "int32"))
        earlier = local(builder, "int64", "earlier", start[0])
        with builder.while_loop(tir.And(earlier[0] < count[0], op.equal(fits[0], 1))):
            other = builder.let("other", op.cast(place.dtype, selected[[earlier[0], 2]]))
            overlaps = _overlaps(boxes, at[0], place, other, most_overlap)
            fits[0] = tir.Select(overlaps, const(0, "int32"), fits[0])
            earlier[0] = earlier[0] + 1
        score = builder.let("score", points[[*at, place]])
        with builder.if_scope(score > op.cast(boxes.dtype, least_score)):
            with builder.if_scope(op.equal(fits[0], 1)):
                for column, value in enumerate((*at, place)):
                    selected[[count[0], column]] = op.cast("int64", value)
                count[0] = count[0] + 1
            k[0] = k[0] + 1
        with builder.else_scope():
            # All that follow have a lower score, unless this one is NaN: these come first.
            k[0] = tir.Select(tir.isnan(score), k[0] + 1, size)


def all_class_non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Tensor | Number,
    iou_threshold: Tensor | Number,
    score_threshold: Tensor | Number,
    output_format: str = "onnx",
) -> list[Tensor]:
    """Choose boxes (batch, box, corners) by scores (batch, class, box), none of which overlaps with
    a better one of its class.

    The limits are numbers, or tensors of one. Returns rows (batch, class, box), with room for all,
    and how many of them are filled. For the ``output_format`` "tensorflow": rows (class, box) of
    each image, their scores, and how many there are of each image; zeros follow them.
    """
    if output_format not in ("onnx", "tensorflow"):
        raise UnsupportedError(
            f"non-maximum suppression: output_format '{output_format}' is neither onnx nor "
            "tensorflow"
        )
    limits = [
        _as_tensor(max_output_boxes_per_class, "int64"),
        _as_tensor(iou_threshold, boxes.dtype),
        _as_tensor(score_threshold, boxes.dtype),
    ]
    batches, classes, size = scores.shape
    kind = index_dtype([size])

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        corners, points, most_boxes, overlap, least, selected, found, keys, order = pointers(
            builder, [*inputs, *outputs]
        )
        limits = op.cast("int64", most_boxes[0]), overlap[0], least[0]
        count = local(builder, "int64", "count", const(0, "int64"))
        rows = DigitSort(builder, keys, order, Row([], 0), False)
        with builder.for_range(0, batches, "batch") as batch:
            with builder.for_range(0, classes, "class") as number:
                plane = rows.sort(lambda k: sortable(points[[batch, number, k]]), lambda k: k, size)
                _choose_boxes(
                    builder, corners, points, selected, rows, plane[0], count, (batch, number),
                    limits, size,
                )  # fmt: skip
        found[0] = count[0]
        return builder.get()

    room = batches * classes * size
    made: list[Tensor] = te.extern(
        [(room, 3), (1,), (2, size), (2, size)],
        [boxes, scores, *limits],
        body, name="all_class_non_max_suppression",
        dtype=["int64", "int64", sortable_dtype(scores.dtype), kind],
    )  # fmt: skip
    return made[:2] if output_format == "onnx" else _by_image(made[0], made[1], scores)


def _as_tensor(value: Tensor | Number, dtype: DType) -> Tensor:
    return value if isinstance(value, Tensor) else full((1,), dtype, value)


def _by_image(rows: Tensor, number: Tensor, scores: Tensor) -> list[Tensor]:
    """Return the chosen boxes of each image, their scores, and how many there are."""
    batches, classes, size = scores.shape
    room = classes * size

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        chosen, filled, points, found, found_scores, counted = pointers(
            builder, [*inputs, *outputs]
        )
        with builder.for_range(const(0, batches.dtype), batches, "batch") as batch:
            counted[batch] = const(0, "int32")
            with builder.for_range(const(0, room.dtype), room, "k") as k:
                found_scores[[batch, k]] = const(0, scores.dtype)
                for column in range(2):
                    found[[batch, k, column]] = const(0, "int64")
        with builder.for_range(const(0, "int64"), filled[0], "row") as row:
            owner, kind, box = [
                builder.let(name, op.cast("int32", chosen[[row, column]]))
                for column, name in enumerate(("owner", "kind", "box"))
            ]
            place = builder.let("place", counted[owner])
            found[[owner, place, 0]] = op.cast("int64", kind)
            found[[owner, place, 1]] = op.cast("int64", box)
            found_scores[[owner, place]] = points[[owner, kind, box]]
            counted[owner] = place + 1
        return builder.get()

    made: list[Tensor] = te.extern(
        [(batches, room, 2), (batches, room), (batches,)], [rows, number, scores], body,
        "boxes_by_image", ["int64", scores.dtype, "int32"],
    )  # fmt: skip
    return made
