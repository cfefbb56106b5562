"""Choosing boxes that do not overlap, from rows of (class, score, corners, ...)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar
from tilesmith.topi.compute import compute
from tilesmith.topi.procedure import flat_load, local, loops, pointers
from tilesmith.topi.sort import argsort
from tilesmith.topi.utils import Number, get_const_int, lowest, same_size

__all__ = [
    "get_valid_counts", "hybrid_get_valid_counts", "hybrid_nms", "non_max_suppression",
    "shared_part",
]  # fmt: skip


def get_valid_counts(
    data: Tensor,
    score_threshold: Tensor | Number = 0,
    id_index: int = 0,
    score_index: int = 1,
) -> list[Tensor]:
    """Return how many boxes of each batch count, these boxes in front of rows of -1, and the
    numbers that they had, followed by -1.

    ``data`` (batch, boxes, values). A box counts if its score is above ``score_threshold`` and,
    unless ``id_index`` is -1, its class is not negative. The threshold may be a tensor of
    one value.
    """
    if len(data.shape) != 3:
        raise ShapeError("get_valid_counts takes (batch, boxes, values)")
    batch, size, width = data.shape
    id_index, score_index = get_const_int(id_index), get_const_int(score_index)
    given = [score_threshold] if isinstance(score_threshold, Tensor) else []

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, *thresholds, counted, boxes, numbers = pointers(builder, [*inputs, *outputs])
        least = flat_load(thresholds[0], const(0, "int32")) if given else convert(score_threshold)
        least = op.cast(data.dtype, least)
        with ExitStack() as stack:
            (n,) = loops(builder, stack, [batch], "n")
            count = local(builder, "int32", "count", const(0, "int32"))
            with builder.for_range(const(0, size.dtype), size, "k") as k:
                numbers[[n, k]] = const(-1, "int32")
                with builder.for_range(const(0, width.dtype), width, "v") as v:
                    boxes[[n, k, v]] = const(-1, data.dtype)
                counts = source[[n, k, score_index]] > least
                if id_index >= 0:
                    counts = tir.And(counts, source[[n, k, id_index]] >= const(0, data.dtype))
                with builder.if_scope(counts):
                    with builder.for_range(const(0, width.dtype), width, "v") as v:
                        boxes[[n, count[0], v]] = source[[n, k, v]]
                    numbers[[n, count[0]]] = op.cast("int32", k)
                    count[0] = count[0] + 1
            counted[n] = count[0]
        return builder.get()

    made: list[Tensor] = te.extern(
        [(batch,), data.shape, (batch, size)], [data, *given], body, "get_valid_counts",
        ["int32", data.dtype, "int32"],
    )  # fmt: skip
    return made


def shared_part(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> PrimExpr:
    """Return which part of their union two boxes share, given by opposite corners."""
    dtype = a[0].dtype
    zero, one = const(0, dtype), const(1, dtype)
    common, areas = one, [one, one]
    for axis in (0, 1):
        sides = []
        for number, box in enumerate((a, b)):
            low = op.minimum(box[axis], box[axis + 2])
            high = op.maximum(box[axis], box[axis + 2])
            areas[number] = areas[number] * (high - low)
            sides.append((low, high))
        low = op.maximum(sides[0][0], sides[1][0])
        common = common * op.maximum(op.minimum(sides[0][1], sides[1][1]) - low, zero)
    union = areas[0] + areas[1] - common
    safe = tir.Select(union > zero, union, one)
    return tir.Select(union > zero, common / safe, zero)


@dataclass(frozen=True)
class _Rule:
    """What decides which boxes are chosen."""

    most: int
    best: int
    threshold: Number
    first_corner: int
    kind: int
    """The place of the class, negative where boxes have none."""
    all_kinds: bool
    to_front: bool

    def is_suppressed(
        self, boxes: BufferVar, a: list[PrimExpr], b: list[PrimExpr], is_kept: PrimExpr
    ) -> PrimExpr:
        """Return whether a box must go because of a better one, if that one is kept."""
        corners = [[boxes[[*box, self.first_corner + v]] for v in range(4)] for box in (a, b)]
        hit = shared_part(*corners) >= op.cast(boxes.dtype, convert(self.threshold))
        if self.kind >= 0 and not self.all_kinds:
            same = op.equal(boxes[[*a, self.kind]], boxes[[*b, self.kind]])
            hit = tir.And(hit, same)
        return tir.And(hit, op.equal(is_kept, const(1, "int32")))

    def fill(self, inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        """Return the program: it decides box by box, in the order of their scores."""
        builder = ir_builder.create()
        boxes, valid, numbers, places, chosen, found, made, flags = pointers(
            builder, [*inputs, *outputs]
        )
        batch, size, width = inputs[0].shape
        with builder.for_range(const(0, batch.dtype), batch, "n") as n:
            count = local(builder, "int32", "count", const(0, "int32"))
            used = op.minimum(valid[n], op.cast("int32", size))
            if self.best > 0:
                used = op.minimum(used, const(self.best, "int32"))
            used = builder.let("used", used)
            with builder.for_range(const(0, size.dtype), size, "k") as k:
                chosen[[n, k]] = const(-1, "int32")
                flags[[n, k]] = const(0, "int32")
                with builder.for_range(const(0, width.dtype), width, "v") as v:
                    made[[n, k, v]] = const(-1, made.dtype)
            with builder.for_range(const(0, "int32"), used, "k") as k:
                own = builder.let("own", places[[n, k]])
                keeps = local(builder, "int32", "keeps", const(1, "int32"))
                if self.kind >= 0:
                    has_class = boxes[[n, own, self.kind]] >= const(0, boxes.dtype)
                    keeps[0] = op.cast("int32", has_class)
                if self.most > 0:
                    keeps[0] = tir.Select(count[0] < self.most, keeps[0], const(0, "int32"))
                with builder.for_range(const(0, "int32"), k, "j") as j:
                    other = builder.let("other", places[[n, j]])
                    gone = self.is_suppressed(boxes, [n, own], [n, other], flags[[n, j]])
                    keeps[0] = tir.Select(gone, const(0, "int32"), keeps[0])
                flags[[n, k]] = keeps[0]
                with builder.if_scope(op.equal(keeps[0], const(1, "int32"))):
                    row = builder.let("row", count[0] if self.to_front else k)
                    with builder.for_range(const(0, width.dtype), width, "v") as v:
                        made[[n, row, v]] = boxes[[n, own, v]]
                    chosen[[n, count[0]]] = numbers[[n, own]]
                    count[0] = count[0] + 1
            found[[n, 0]] = count[0]
        return builder.get()


def non_max_suppression(
    data: Tensor,
    valid_count: Tensor,
    indices: Tensor,
    max_output_size: int = -1,
    iou_threshold: float = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Tensor | list[Tensor]:
    """Choose boxes in the order of their scores, none of which shares ``iou_threshold`` or more of
    its union with a better one of its class (with ``force_suppress``: of any class).

    The inputs are what `get_valid_counts` gives: boxes, how many of them count, their numbers.
    Only the best ``top_k`` are looked at, and at most ``max_output_size`` chosen, unless negative.
    Returns the numbers of the chosen boxes, followed by -1, and how many there are; without
    ``return_indices`` the boxes in the order of their scores, with rows of -1 for those not chosen,
    which come last with ``invalid_to_bottom``.
    """
    for value, what in ((max_output_size, "max_output_size"), (top_k, "top_k")):
        if not isinstance(value, (int, tir.IntImm)):
            raise OpAttributeInvalid(f"non_max_suppression: {what} is a number, got {value!r}")
    batch, size, _ = data.shape
    _check_boxes(data, valid_count, indices, coord_start)
    rule = _Rule(
        int(max_output_size), int(top_k), iou_threshold, coord_start, id_index,
        force_suppress, invalid_to_bottom,
    )  # fmt: skip

    def score(n: PrimExpr, k: PrimExpr) -> PrimExpr:
        counts = op.less(op.cast("int32", k), valid_count(n))
        value: PrimExpr = tir.if_then_else(counts, data(n, k, score_index), lowest(data.dtype))
        return value

    scores = compute((batch, size), score, name="nms_scores")
    order = argsort(scores, axis=1, is_ascend=False, dtype="int32")
    numbers, found, boxes, _ = _suppress(rule, data, valid_count, indices, order)
    return [numbers, found] if return_indices else boxes


def _suppress(
    rule: _Rule, data: Tensor, valid_count: Tensor, indices: Tensor, order: Tensor
) -> list[Tensor]:
    """Return the numbers of the chosen boxes in front, how many there are, the boxes in the order
    of their scores, and whether each of them is chosen.
    """
    batch, size, _ = data.shape
    results: list[Tensor] = te.extern(
        [(batch, size), (batch, 1), data.shape, (batch, size)],
        [data, valid_count, indices, order], rule.fill, "non_max_suppression",
        ["int32", "int32", data.dtype, "int32"],
    )  # fmt: skip
    return results


def _check_boxes(data: Tensor, valid_count: Tensor, indices: Tensor, coord_start: int) -> None:
    width = data.shape[2]
    given = [(data.shape[:1], valid_count.shape), (data.shape[:2], indices.shape)]
    for own, other in given:
        differs = [op.is_const(a - b) and not same_size(a, b) for a, b in zip(own, other)]
        if len(own) != len(other) or any(differs):
            raise ShapeError(
                f"non_max_suppression: boxes of shape {list(data.shape)} with counts of shape "
                f"{list(valid_count.shape)} and numbers of shape {list(indices.shape)}"
            )
    if get_const_int(width) < coord_start + 4:
        raise ShapeError(f"non_max_suppression: no corners from value {coord_start} of {width} on")


def hybrid_get_valid_counts(
    data: Tensor,
    score_threshold: Tensor | Number,
    id_index: int,
    score_index: int,
    one: object,
    batch_size: object,
    num_anchors: object,
) -> list[Tensor]:
    """Do what `get_valid_counts` does; the sizes are those of ``data``, whatever the last
    parameters are.
    """
    return get_valid_counts(data, score_threshold, id_index, score_index)


def hybrid_nms(
    data: Tensor,
    sorted_index: Tensor,
    valid_count: Tensor,
    indices: Tensor,
    batch_size: object,
    num_anchors: object,
    max_output_size: int,
    iou_threshold: Number,
    force_suppress: bool,
    top_k: int,
    coord_start: int,
    score_index: int,
    id_index: int,
    return_indices: bool,
    zero: object,
    one: object,
) -> list[Tensor]:
    """Choose boxes as `non_max_suppression` does, in an order that is given: the places of the
    boxes by their scores.

    Returns the boxes in this order, with rows of -1 for those not chosen, and where each stood in
    ``data`` (with ``return_indices``, its number in ``indices``), with -1 for those not chosen. The
    sizes are those of the tensors, whatever these parameters are.
    """
    first, kind, most, best = [
        get_const_int(value) for value in (coord_start, id_index, max_output_size, top_k)
    ]
    _check_boxes(data, valid_count, indices, first)
    rule = _Rule(most, best, iou_threshold, first, kind, bool(force_suppress), False)
    _, _, boxes, flags = _suppress(rule, data, valid_count, indices, sorted_index)

    def place(n: PrimExpr, k: PrimExpr) -> PrimExpr:
        is_chosen = op.equal(flags(n, k), const(1, "int32"))
        own = sorted_index(n, k)
        number = indices(n, own) if return_indices else op.cast("int32", own)
        chosen: PrimExpr = tir.if_then_else(is_chosen, op.cast("int32", number), -1)
        return chosen

    return [boxes, compute(indices.shape, place, name="nms_numbers")]
