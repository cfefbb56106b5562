"""Detectors: boxes made, moved and chosen, against plain programs."""

import numpy as np
import pytest

from tests.topi.harness import Case, check, real
from tilesmith import te, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError
from tilesmith.tir import const, ir_builder
from tilesmith.topi import vision
from tilesmith.topi.vision import nms_util, rcnn

RANDOM = np.random.default_rng(7)


def random_boxes(*shape, low=0.0, high=1.0):
    """Boxes of (low, low, high, high) corners."""
    first = RANDOM.uniform(low, high, (*shape, 2))
    return np.concatenate([first, first + RANDOM.uniform(0.1, 0.6, (*shape, 2))], -1).astype("f4")


def shared(a, b, more=0.0):
    """The part of their union that two boxes share; ``more`` 1 if the ends belong to them."""
    sides = np.minimum(a[2:4], b[2:4]) - np.maximum(a[:2], b[:2]) + more
    common = np.prod(np.maximum(sides, 0))
    areas = [np.prod(box[2:4] - box[:2] + more) for box in (a, b)]
    return common / (sum(areas) - common)


# Boxes of a single-shot detector


def priors(shape, sizes, ratios, steps=(-1, -1), offsets=(0.5, 0.5), clip=False):
    height, width = shape[2:]
    steps = [step if step > 0 else 1 / size for step, size in zip(steps, (height, width))]
    kinds = [(size, 1) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    rows = []
    for y, x in np.ndindex(height, width):
        middle = (x + offsets[1]) * steps[1], (y + offsets[0]) * steps[0]
        for size, ratio in kinds:
            half = size * ratio**0.5 * height / width / 2, size / ratio**0.5 / 2
            rows.append([middle[0] - half[0], middle[1] - half[1],
                         middle[0] + half[0], middle[1] + half[1]])  # fmt: skip
    made = np.array(rows, "float32")[None]
    return np.clip(made, 0, 1) if clip else made


@pytest.mark.parametrize(
    "settings",
    [
        {"sizes": (1,), "ratios": (1,)},
        {"sizes": (0.3, 0.7), "ratios": (1, 2, 0.5), "clip": True},
        {"sizes": (0.3,), "ratios": (1, 3), "steps": (0.2, 0.3), "offsets": (0.25, 0.75)},
    ],
)
def test_boxes_at_each_pixel(settings):
    case = Case(
        "prior",
        lambda x: vision.multibox_prior(x, **settings),
        lambda x: priors(x.shape, **settings),
        (real(1, 2, 3, 5),),
    )
    check(case)


def moved(box, move, variances, clip):
    size, middle = box[2:] - box[:2], (box[:2] + box[2:]) / 2
    middle = move[:2] * variances[:2] * size + middle
    half = np.exp(move[2:] * variances[2:]) * size / 2
    made = np.concatenate([middle - half, middle + half])
    return np.clip(made, 0, 1) if clip else made


def located(chances, moves, anchors, clip, least, variances, background):
    first = 0 if background else 1
    batch, _, size = chances.shape
    out, counts = np.full((batch, size, 6), -1.0), np.zeros(batch)
    for n, k in np.ndindex(batch, size):
        kind = int(np.argmax(chances[n, first:, k]))
        score = chances[n, kind + first, k]
        if score >= least:
            box = moved(anchors[0, k], moves[n, 4 * k : 4 * k + 4], np.array(variances), clip)
            out[n, int(counts[n])] = [kind, score, *box]
            counts[n] += 1
    return [out, counts]


CHANCES = RANDOM.uniform(0, 1, (2, 3, 7)).astype("float32")
MOVES, ANCHORS = real(2, 28, seed=4), random_boxes(1, 7)


@pytest.mark.parametrize(
    "clip, least, variances, background",
    [(True, 0.01, (0.1, 0.1, 0.2, 0.2), False), (False, 0.6, (0.2, 0.3, 0.1, 0.4), False),
     (True, 0.7, (0.1, 0.1, 0.2, 0.2), True)],
)  # fmt: skip
def test_boxes_are_moved_to_objects(clip, least, variances, background):
    case = Case(
        "transform",
        lambda *xs: vision.multibox_transform_loc(*xs, clip, least, variances, background),
        lambda *xs: located(*xs, clip, least, variances, background),
        (CHANCES, MOVES, ANCHORS),
        1e-4,
    )
    check(case)


@pytest.mark.parametrize("all_kinds, best", [(False, -1), (True, -1), (False, 3)])
def test_boxes_of_objects_do_not_overlap(all_kinds, best):
    def meaning(*xs):
        rows, counts = located(*xs, True, 0.3, (0.1, 0.1, 0.2, 0.2), False)
        out = np.full_like(rows, -1)
        for n, count in enumerate(counts.astype(int)):
            order = np.argsort(-rows[n, :count, 1], kind="stable")
            order = order[:best] if best > 0 else order
            kept = []
            for place, k in enumerate(order):
                rivals = [j for j in kept if all_kinds or rows[n, j, 0] == rows[n, k, 0]]
                if all(shared(rows[n, k, 2:], rows[n, j, 2:]) < 0.4 for j in rivals):
                    kept.append(k)
                    out[n, place] = rows[n, k]
        return out

    case = Case(
        "detection",
        lambda *xs: vision.multibox_detection(*xs, True, 0.3, 0.4, all_kinds, nms_topk=best),
        meaning,
        (CHANCES, MOVES, ANCHORS),
        1e-4,
    )
    check(case)


# Regions that may hold objects

SCALES, RATIOS, STRIDE = (2, 4), (0.5, 1, 2), 4


@pytest.mark.parametrize(
    "ratio, scale, want",
    [(0.5, 8, (-84, -40, 99, 55)), (1, 8, (-56, -56, 71, 71)), (2, 16, (-80, -168, 95, 183))],
)
def test_the_boxes_of_faster_rcnn(ratio, scale, want):
    """Those that the program of the paper prints for a base of 16 pixels, counted from 0."""
    assert rcnn.generate_anchor(ratio, scale, 16) == want


def predicted(chances, moves, info, least, by_ends):
    batch, _, height, width = chances.shape
    anchors = [rcnn.generate_anchor(r, s, STRIDE) for r in RATIOS for s in SCALES]
    out = np.zeros((batch, height * width * len(anchors), 5))
    for n, y, x in np.ndindex(batch, height, width):
        for k, anchor in enumerate(anchors):
            box = np.array(anchor) + STRIDE * np.array([x, y, x, y])
            move = moves[n, 4 * k : 4 * k + 4, y, x].astype("float64")
            if by_ends:
                box = box + move
            else:
                size = box[2:] - box[:2] + 1
                middle = move[:2] * size + box[:2] + (size - 1) / 2
                reach = (np.exp(move[2:]) * size - 1) / 2
                box = np.concatenate([middle - reach, middle + reach])
            box = np.clip(box, 0, [info[n, 1] - 1, info[n, 0] - 1] * 2)
            score = chances[n, len(anchors) + k, y, x]
            smallest = least * info[n, 2]
            if min(box[2:] - box[:2] + 1) < smallest:
                box, score = box + smallest / 2 * np.array([-1, -1, 1, 1]), -1
            if x >= info[n, 1] // STRIDE or y >= info[n, 0] // STRIDE:
                score = -1
            out[n, (y * width + x) * len(anchors) + k] = [*box, score]
    return out


def proposed(chances, moves, info, overlap, best, count, least, by_ends):
    out = []
    for n, rows in enumerate(predicted(chances, moves, info, least, by_ends)):
        rows = rows[np.argsort(-rows[:, 4], kind="stable")]
        rows, kept = rows[:best] if best > 0 else rows, []
        for row in rows:
            if all(shared(row, other, 1.0) <= overlap for other in kept):
                kept.append(row)
        out += [[n, *kept[k % len(kept)][:4]] for k in range(count)]
    return np.array(out)


@pytest.mark.parametrize(
    "overlap, best, count, least, by_ends",
    [(0.3, 20, 5, 4, False), (0.7, -1, 8, 2, True), (0.1, 6, 9, 6, False)],
)
def test_proposals(overlap, best, count, least, by_ends):
    chances = RANDOM.uniform(0, 1, (2, 12, 3, 4)).astype("float32")
    moves, info = real(2, 24, 3, 4, low=-0.4, high=0.4), np.float32([[12, 16, 1], [9, 14, 1.5]])
    settings = (SCALES, RATIOS, STRIDE, overlap, best, count, least, by_ends)
    case = Case(
        "proposal",
        lambda *xs: vision.proposal(*xs, *settings),
        lambda *xs: proposed(*xs, overlap, best, count, least, by_ends),
        (chances, moves, info),
        1e-4,
    )
    check(case)


# Boxes of all classes

BOXES, POINTS = random_boxes(2, 9), RANDOM.uniform(-1, 1, (2, 3, 9)).astype("float32")


def chosen(boxes, points, most, overlap, least):
    """Rows (batch, class, box), class by class in the order of scores."""
    rows = []
    for n, c in np.ndindex(points.shape[:2]):
        own = []
        for k in np.argsort(-points[n, c], kind="stable"):
            free = all(shared(boxes[n, k], boxes[n, j]) <= overlap for j in own)
            if points[n, c, k] > least and free and len(own) < most:
                own.append(k)
        rows += [(n, c, k) for k in own]
    return rows


def put_together(boxes, points, most, overlap, least, with_scores):
    """All parts of `nms_util`, as users connect them."""
    batch, classes, size = [int(extent) for extent in points.shape]
    flat = topi.reshape(points, (batch * classes, size))
    scores = topi.sort(flat, 1, False)
    order = topi.argsort(flat, axis=1, is_ascend=False, dtype="int32")

    def count(inputs, outputs):
        builder = ir_builder.create()
        source, out = builder.buffer_ptr(inputs[0]), builder.buffer_ptr(outputs[0])
        with builder.for_range(0, batch * classes, "r") as r:
            vision.binary_search(builder, r, size, source, least, out)
        return builder.get()

    valid = te.extern([(batch * classes,)], [scores], count, "valid", ["int32"])
    found = vision.run_all_class_nms(
        boxes, scores, order, valid, most, overlap, nms_util.nms_loop, with_scores
    )
    offsets = topi.cumsum(found[-1], exclusive=True)
    if with_scores:
        two = [topi.reshape(x, (batch, classes)) for x in (found[2], offsets)]
        starts = te.compute(
            (batch, classes), lambda n, c: two[1][n, c] - two[1][n, 0], name="starts"
        )
        total = topi.sum(two[0], 1)
        return vision.collect_selected_indices_and_scores(
            found[0], found[1], two[0], starts, total, collect_by_image
        ) + [total]
    return vision.collect_selected_indices(classes, found[0], found[-1], offsets, collect)


def collect(classes, indices, counts, offsets, out):
    builder = ir_builder.create()
    source, number, first, rows = [builder.buffer_ptr(b) for b in (indices, counts, offsets, out)]
    with builder.for_range(0, out.shape[0], "k") as k, builder.for_range(0, 3, "v") as v:
        rows[k, v] = const(0, "int64")
    with builder.for_range(0, indices.shape[0], "r") as r:
        with builder.for_range(0, number[r], "k") as k:
            for column, value in enumerate((r // classes, r % classes, source[r, k])):
                rows[first[r] + k, column] = value.astype("int64")
    return builder.get()


def collect_by_image(indices, scores, counts, offsets, totals, out, out_scores):
    builder = ir_builder.create()
    given = [builder.buffer_ptr(b) for b in (indices, scores, counts, offsets, out, out_scores)]
    source, points, number, first, rows, found = given
    batch, classes = counts.shape
    with builder.for_range(0, batch, "n") as n, builder.for_range(0, out.shape[1], "k") as k:
        found[n, k] = const(0, "float32")
        for v in range(2):
            rows[n, k, v] = const(0, "int64")
    with builder.for_range(0, batch, "n") as n, builder.for_range(0, classes, "c") as c:
        with builder.for_range(0, number[n, c], "k") as k:
            place = first[n, c] + k
            rows[n, place, 0] = c.astype("int64")
            rows[n, place, 1] = source[n * classes + c, k].astype("int64")
            found[n, place] = points[n * classes + c, k]
    return builder.get()


def by_image(rows, points):
    batch, classes, size = points.shape
    out, scores = np.zeros((batch, classes * size, 2)), np.zeros((batch, classes * size))
    counts = np.zeros(batch, int)
    for n, c, k in rows:
        out[n, counts[n]], scores[n, counts[n]] = (c, k), points[n, c, k]
        counts[n] += 1
    return [out, scores, counts]


LIMITS = [(9, 0.3, 0.0), (2, 0.1, -0.5), (1, 0.9, 0.2)]


@pytest.mark.parametrize("most, overlap, least", LIMITS)
def test_parts_put_together_choose_boxes(most, overlap, least):
    def meaning(boxes, points):
        rows = chosen(boxes, points, most, overlap, least)
        return np.array(rows + [(0, 0, 0)] * (points.size - len(rows)))

    build = lambda b, s: put_together(b, s, most, overlap, least, False)
    check(Case("one list", build, meaning, (BOXES, POINTS)))


@pytest.mark.parametrize("most, overlap, least", LIMITS)
def test_boxes_of_each_image(most, overlap, least):
    meaning = lambda b, s: by_image(chosen(b, s, most, overlap, least), s)
    build = lambda b, s: put_together(b, s, most, overlap, least, True)
    check(Case("parts", build, meaning, (BOXES, POINTS)))
    build = lambda b, s: vision.all_class_non_max_suppression(
        b, s, most, overlap, least, "tensorflow"
    )
    check(Case("whole", build, meaning, (BOXES, POINTS)))


def test_the_part_that_boxes_share():
    flat = random_boxes(4).reshape(-1)
    flat[4:8] = flat[[6, 7, 4, 5]]  # corners in the other order

    def build(x):
        def body(inputs, outputs):
            builder = ir_builder.create()
            boxes, out = builder.buffer_ptr(inputs[0]), builder.buffer_ptr(outputs[0])
            with builder.for_range(0, 4, "i") as i, builder.for_range(0, 4, "j") as j:
                out[i, j] = vision.calculate_overlap(boxes, i * 4, j * 4)
            return builder.get()

        return te.extern([(4, 4)], [x], body, "overlap", ["float32"])

    boxes = flat.reshape(4, 4)[:, [0, 1, 2, 3]].copy()
    boxes[1] = boxes[1][[2, 3, 0, 1]]
    want = np.array([[shared(a, b) for b in boxes] for a in boxes])
    check(Case("overlap", build, lambda x: want, (flat,)))


def regular(boxes, scores, each, most, classes, overlap, least):
    batch, size, given = scores.shape
    found = [np.zeros((batch, most, 4)), np.zeros((batch, most)), np.zeros((batch, most))]
    counts = np.zeros(batch)
    for n in range(batch):
        rows = []
        for c in range(classes):
            points, own = scores[n, :, given - classes + c], []
            for k in np.argsort(-points, kind="stable"):
                free = all(shared(boxes[n, k], boxes[n, j]) <= overlap for j in own)
                if points[k] >= least and free and len(own) < each:
                    own.append(k)
            rows += [(-points[k], c, k) for k in own]
        rows = sorted(rows)[:most]
        counts[n] = len(rows)
        for place, (score, c, k) in enumerate(rows):
            found[0][n, place] = boxes[n, k]
            found[1][n, place], found[2][n, place] = c, -score
    return [*found, counts]


@pytest.mark.parametrize("each, most, classes", [(2, 5, 3), (1, 9, 2), (9, 30, 4)])
@pytest.mark.parametrize("overlap, least", [(0.2, 0.1), (0.6, -1.0)])
def test_boxes_of_each_class_then_the_best(each, most, classes, overlap, least):
    points = POINTS.transpose(0, 2, 1).copy()
    points = np.concatenate([points[..., :1] * 2, points], -1)
    meaning = lambda b, s: regular(b, s, each, most, classes, overlap, least)
    build = lambda b, s: vision.regular_non_max_suppression(
        b, s, each, most, classes, overlap, least
    )
    check(Case("regular", build, meaning, (BOXES, points)))


def test_the_names_of_hybrid_programs_do_the_same():
    points = POINTS.transpose(0, 2, 1).copy()
    case = Case(
        "regular",
        lambda b, s: vision.hybrid_regular_nms(
            b, s, 2, 5, const(2, "int32"), const(9, "int32"), 2, 3, const(0.2, "float32"),
            const(0.1, "float32"),
        ),
        lambda b, s: regular(b, s, 2, 5, 2, 0.2, 0.1),
        (BOXES, points),
    )  # fmt: skip
    check(case)
    settings = ((0.3,), (1, 2), (-1, -1), (0.5, 0.5))
    case = Case(
        "prior",
        lambda x: vision.hybrid_multibox_prior(x, *settings),
        lambda x: priors(x.shape, *settings),
        (real(1, 1, 2, 3),),
    )
    check(case)
    variances = (0.1, 0.1, 0.2, 0.2)
    case = Case(
        "transform",
        lambda *xs: vision.hybrid_multibox_transform_loc(
            *xs, const(True, "bool"), const(0.3, "float32"), variances, const(False, "bool")
        ),
        lambda *xs: located(*xs, True, np.float32(0.3), variances, False),
        (CHANCES, MOVES, ANCHORS),
        1e-4,
    )
    check(case)


ROWS = np.full((2, 5, 3), -1, "float32")
ROWS[0, [1, 3], 0], ROWS[1, [0, 4], 0], ROWS[..., 1] = 0.5, 1.5, np.arange(5)


def test_what_counts_moves_to_the_front():
    def boxes(rows):
        out = np.full_like(rows, -1)
        for n, own in enumerate(rows):
            kept = own[own[:, 0] >= 0]
            out[n, : len(kept)] = kept
        return out

    case = Case("boxes", lambda x: vision.hybrid_rearrange_box_out(x, 1, 2, 5), boxes, (ROWS,))
    check(case)
    numbers = np.array([[3, -1, 0, -1], [-1, -1, -1, -1], [-1, 2, 1, 5]], "int32")
    case = Case(
        "numbers",
        lambda x: vision.hybrid_rearrange_indices_out(x, 1, 3, 4),
        lambda x: [
            np.array([[3, 0, -1, -1], [-1] * 4, [2, 1, 5, -1]]),
            np.array([[2], [0], [3]]),
        ],
        (numbers,),
    )
    check(case)


@pytest.mark.parametrize(
    "build, error",
    [
        (lambda x: vision.multibox_prior(x, (), (1,)), OpAttributeInvalid),
        (lambda x: vision.multibox_prior(te.placeholder((3, 4))), ShapeError),
        (lambda x: vision.multibox_transform_loc(te.placeholder((1, 2, 3)), x, x), ShapeError),
        (lambda x: vision.proposal(x, x, x, (1,), (1,), 4, 0.5, 9, 9, 1, False), ShapeError),
        (
            lambda x: vision.all_class_non_max_suppression(x, x, 1, 0.5, 0.5, "caffe"),
            UnsupportedError,
        ),
        (
            lambda x: vision.regular_non_max_suppression(
                te.placeholder((1, 3, 4)), te.placeholder((1, 3, 2)), 1, 1, 3, 0.5, 0.5
            ),
            ShapeError,
        ),
        (
            lambda x: vision.regular_non_max_suppression(
                te.placeholder((1, 3, 4)), te.placeholder((1, 3, 2)), 0, 1, 2, 0.5, 0.5
            ),
            OpAttributeInvalid,
        ),
        (lambda x: vision.hybrid_rearrange_box_out(te.placeholder((3, 4)), 1, 3, 4), ShapeError),
    ],
)
def test_what_does_not_fit_is_refused(build, error):
    with pytest.raises(error):
        build(te.placeholder((2, 4, 7, 6), name="x"))
