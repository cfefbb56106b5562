"""Choosing boxes, against a plain program."""

import numpy as np
import pytest

from tests.topi.harness import Case, check
from tilesmith import te, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

RANDOM = np.random.default_rng(3)
SIZE = 14
BOXES = np.zeros((2, SIZE, 6), "float32")
BOXES[..., 0] = RANDOM.integers(-1, 3, (2, SIZE))
BOXES[..., 1] = RANDOM.uniform(-0.2, 1, (2, SIZE)).round(2)
BOXES[..., 2:4] = RANDOM.uniform(0, 5, (2, SIZE, 2))
BOXES[..., 4:6] = BOXES[..., 2:4] + RANDOM.uniform(1, 4, (2, SIZE, 2))


def valid(data, least=0.1, kind=0):
    """`get_valid_counts` in numpy."""
    counts, boxes = [], np.full_like(data, -1)
    numbers = np.full(data.shape[:2], -1, "int32")
    for n, rows in enumerate(data):
        kept = [k for k, row in enumerate(rows) if row[1] > least and (kind < 0 or row[kind] >= 0)]
        counts.append(len(kept))
        boxes[n, : len(kept)], numbers[n, : len(kept)] = rows[kept], kept
    return [np.int32(counts), boxes, numbers]


def shared(a, b):
    """The part of their union that two boxes share."""
    sides = np.minimum(a[4:6], b[4:6]) - np.maximum(a[2:4], b[2:4])
    common = np.prod(np.maximum(sides, 0))
    union = np.prod(a[4:6] - a[2:4]) + np.prod(b[4:6] - b[2:4]) - common
    return common / union


def suppressed(boxes, counts, numbers, most=-1, best=-1, threshold=0.3, all_kinds=False, kind=0):
    """The chosen rows of each batch in the order of scores: (place in that order, row)."""
    chosen = []
    for rows, count in zip(boxes, counts):
        order = sorted(range(count), key=lambda k: -rows[k][1])
        order = order[:best] if best > 0 else order
        own = []
        for place, k in enumerate(order):
            rivals = [rows[j] for _, j in own if all_kinds or kind < 0 or rows[j][0] == rows[k][0]]
            full = most > 0 and len(own) == most
            if not full and all(shared(rows[k], rival) < threshold for rival in rivals):
                own.append((place, k))
        chosen.append(own)
    return chosen


COUNTS, SORTED, NUMBERS = valid(BOXES)
SETTINGS = [
    ({}, {}),
    ({"force_suppress": True}, {"all_kinds": True}),
    ({"max_output_size": 2}, {"most": 2}),
    ({"top_k": 3}, {"best": 3}),
    ({"id_index": -1}, {"kind": -1}),
    ({"iou_threshold": 0.1}, {"threshold": 0.1}),
]


@pytest.mark.parametrize("kind, least", [(0, 0.1), (-1, 0.4)])
def test_boxes_that_count_come_first(kind, least):
    case = Case(
        "valid",
        lambda x: topi.vision.get_valid_counts(x, least, kind, 1),
        lambda x: valid(x, least, kind),
        (BOXES,),
    )
    check(case)


@pytest.mark.parametrize("options, meaning", SETTINGS)
def test_numbers_of_the_chosen_boxes(options, meaning):
    def numbers(boxes, counts, given):
        rows = suppressed(boxes, counts, given, **meaning)
        out = np.full(given.shape, -1, "int32")
        for n, own in enumerate(rows):
            out[n, : len(own)] = [given[n, k] for _, k in own]
        return [out, np.int32([[len(own)] for own in rows])]

    case = Case(
        "numbers",
        lambda x, v, i: topi.vision.non_max_suppression(
            x, v, i, **{"iou_threshold": 0.3, **options}
        ),
        numbers,
        (SORTED, COUNTS, NUMBERS),
    )
    check(case)


def test_counts_beyond_the_boxes():
    def number(boxes, counts, given):
        own = suppressed(boxes, [SIZE, 0], given)
        return [np.int32([[len(rows)] for rows in own])]

    case = Case(
        "counts",
        lambda x, v, i: topi.vision.non_max_suppression(x, v, i, iou_threshold=0.3)[1:],
        number,
        (np.abs(BOXES), np.int32([SIZE + 90, -3]), NUMBERS),
    )
    check(case)


@pytest.mark.parametrize("to_front", [False, True])
def test_the_chosen_boxes(to_front):
    def kept(boxes, counts, given):
        out = np.full_like(boxes, -1)
        for n, own in enumerate(suppressed(boxes, counts, given, most=3)):
            for number, (place, k) in enumerate(own):
                out[n, number if to_front else place] = boxes[n, k]
        return out

    case = Case(
        "boxes",
        lambda x, v, i: topi.vision.non_max_suppression(
            x, v, i, 3, 0.3, return_indices=False, invalid_to_bottom=to_front
        ),
        kept,
        (SORTED, COUNTS, NUMBERS),
    )
    check(case)


def test_what_does_not_fit_is_refused():
    x, v = te.placeholder((2, 5, 5), name="x"), te.placeholder((2,), "int32", "v")
    i = te.placeholder((2, 5), "int32", "i")
    with pytest.raises(ShapeError, match="no corners from value 2"):
        topi.vision.non_max_suppression(x, v, i)
    with pytest.raises(ShapeError, match="with counts of shape"):
        topi.vision.non_max_suppression(
            te.placeholder((2, 5, 6)), v, te.placeholder((2, 4), "int32")
        )
    with pytest.raises(OpAttributeInvalid, match="max_output_size is a number"):
        topi.vision.non_max_suppression(x, v, i, v)
    with pytest.raises(ShapeError):
        topi.vision.get_valid_counts(i)


def test_a_threshold_may_be_a_tensor():
    case = Case(
        "valid",
        lambda x, t: topi.vision.hybrid_get_valid_counts(x, t, 0, 1, None, 2, SIZE),
        lambda x, t: valid(x, 0.4),
        (BOXES, np.array([0.4], "float32")),
    )
    check(case)


@pytest.mark.parametrize("with_numbers", [False, True])
@pytest.mark.parametrize("options, meaning", SETTINGS)
def test_an_order_may_be_given(options, meaning, with_numbers):
    order = np.argsort(-SORTED[..., 1], axis=1, kind="stable").astype("int32")
    given = {
        "max_output_size": -1, "iou_threshold": 0.3, "force_suppress": False, "top_k": -1,
        "coord_start": 2, "score_index": 1, "id_index": 0, **options,
    }  # fmt: skip

    def wanted(boxes, order, counts, numbers):
        rows = suppressed(boxes, counts, numbers, **meaning)
        made, places = np.full_like(boxes, -1), np.full(numbers.shape, -1)
        for n, own in enumerate(rows):
            for place, k in own:
                made[n, place] = boxes[n, k]
                places[n, place] = numbers[n, k] if with_numbers else k
        return [made, places]

    case = Case(
        "nms",
        lambda x, o, v, i: topi.vision.hybrid_nms(
            x, o, v, i, 2, SIZE, **given, return_indices=with_numbers, zero=None, one=None
        ),
        wanted,
        (SORTED, order, COUNTS, NUMBERS),
    )
    check(case)
