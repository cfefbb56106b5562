"""The operators of drawn graphs: each function takes values that fit, and adds nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.testing.fuzz.models.graph import Graph, Size, Value, combined, grower
from tilesmith.testing.fuzz.models.pick import NotApplicable, Pick

__all__ = ["broadcast"]

_BOUNDED = {"Tanh": 1.0, "Sigmoid": 1.0, "Erf": 1.0, "HardSigmoid": 1.0, "Softsign": 1.0,
            "Sin": 1.0, "Cos": 1.0, "Atan": 1.6}  # fmt: skip
_KEEPING = ("Relu", "Abs", "Neg", "LeakyRelu", "Identity")
_GROWING = ("Elu", "Selu", "Softplus", "HardSwish", "Mish", "Celu")


def broadcast(a: Sequence[Size], b: Sequence[Size]) -> tuple[Size, ...]:
    """Return the shape of an elementwise result; raise NotApplicable if there is none."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    shape = list(longer)
    for place in range(1, len(shorter) + 1):
        one, other = shorter[-place], longer[-place]
        if one != other and 1 not in (one, other):
            raise NotApplicable
        shape[-place] = other if one == 1 else one
    return tuple(shape)


def _axis(pick: Pick, value: Value, suits: Any = lambda size: True) -> int:
    return pick.one([axis for axis, size in enumerate(value.shape) if suits(size)])


def _is_static(size: Size) -> bool:
    return isinstance(size, int)


def _is_above(size: Size, least: int) -> bool:
    """Return whether a size is known and larger than ``least``."""
    return isinstance(size, int) and size > least


def _replaced(shape: Sequence[Size], axis: int, size: Size) -> tuple[Size, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


# Elementwise


@grower
def unary(graph: Graph, pick: Pick) -> None:
    """A function of each element."""
    x = graph.value(pick)
    name = pick.one([*_BOUNDED, *_KEEPING, *_GROWING])
    bound = _BOUNDED.get(name, x.bound if name in _KEEPING else 2 * x.bound + 2)
    exact = x.is_exact and name in ("Relu", "Abs", "Neg", "Identity")
    graph.add(graph.node(name, [x])[0], x.shape, bound, exact)


@grower
def guarded(graph: Graph, pick: Pick) -> None:
    """A function that is defined for positive numbers, or grows fast."""
    x = graph.value(pick, lambda one: one.bound < 20)
    name = pick.one(["Sqrt", "Log", "Reciprocal", "Exp", "Pow"])
    if name == "Exp":
        if x.bound > 6:
            raise NotApplicable
        graph.add(graph.node("Exp", [x])[0], x.shape, math.exp(x.bound))
        return
    offset = graph.constant(numpy.float32(0.25))
    (positive,) = graph.node("Add", [graph.node("Abs", [x])[0], offset])
    inputs: list[Value | str] = [positive]
    if name == "Pow":
        inputs.append(graph.constant(numpy.float32(pick.one([2.0, 0.5, 3.0, -1.0]))))
    bound = {"Pow": max((x.bound + 1) ** 3, 4.0), "Reciprocal": 4.0}.get(name, x.bound + 4)
    graph.add(graph.node(name, inputs)[0], x.shape, bound)


@grower
def clip(graph: Graph, pick: Pick) -> None:
    """Limits on both sides."""
    x = graph.value(pick)
    low, high = numpy.float32(-pick.random()), numpy.float32(pick.random() + 0.5)
    inputs: list[Value | str] = [x, graph.constant(low), graph.constant(high)]
    graph.add(graph.node("Clip", inputs)[0], x.shape, 1.5, x.is_exact)


@grower
def binary(graph: Graph, pick: Pick) -> None:
    """Two values, or a value and weights, of shapes that are broadcast."""
    x = graph.value(pick)
    name = pick.one(["Add", "Sub", "Mul", "Max", "Min", "Div", "PRelu"])
    if name != "PRelu" and pick.random() < 0.5:
        y = graph.value(pick)
        other, shape, bound, exact = y.name, broadcast(x.shape, y.shape), y.bound, y.is_exact
    else:
        kept = pick.randint(0, x.rank)
        sizes = [
            size if isinstance(size, int) and pick.random() < 0.7 else 1
            for size in x.shape[x.rank - kept :]
        ]
        other, shape, bound, exact = graph.weight(pick, sizes), x.shape, 1.0, True
    if name == "Div":
        (other,) = graph.node("Abs", [other])
        (other,) = graph.node("Add", [other, graph.constant(numpy.float32(0.5))])
    first: Value | str = x
    if name in ("Sub", "Max") and pick.random() < 0.3:
        first, other = other, x.name
    bounds = {"Add": x.bound + bound, "Sub": x.bound + bound, "Div": 2 * x.bound,
              "Max": max(x.bound, bound), "Min": max(x.bound, bound)}  # fmt: skip
    is_exact = x.is_exact and exact and name in ("Max", "Min")
    graph.add(
        graph.node(name, [first, other])[0], shape, bounds.get(name, x.bound * bound), is_exact
    )


@grower
def choice(graph: Graph, pick: Pick) -> None:
    """One of two values, by a comparison of exact ones."""
    x = graph.value(pick, lambda one: one.is_exact)
    y = graph.value(pick)
    limit = graph.constant(numpy.float32(pick.random()))
    (condition,) = graph.node(pick.one(["Greater", "LessOrEqual"]), [x, limit])
    if pick.random() < 0.3:
        (condition,) = graph.node("Not", [condition])
    shape = broadcast(x.shape, y.shape)
    made = graph.node("Where", [condition, y, graph.constant(numpy.float32(-0.5))])
    graph.add(made[0], shape, max(y.bound, 0.5))


@grower
def steps(graph: Graph, pick: Pick) -> None:
    """Functions that jump, of exact values."""
    x = graph.value(pick, lambda one: one.is_exact)
    name = pick.one(["Floor", "Ceil", "Round", "Sign"])
    graph.add(graph.node(name, [x])[0], x.shape, x.bound + 1, is_exact=True)


# Products and windows


@grower
def product(graph: Graph, pick: Pick) -> None:
    """A product with weights."""
    x = graph.value(pick, lambda one: one.rank >= 2 and _is_static(one.shape[-1]))
    inner, columns = int(x.shape[-1]), pick.one([1, 2, 3, 8, 16, 17])
    weight = graph.weight(pick, (inner, columns))
    shape = (*x.shape[:-1], columns)
    if x.rank == 2 and pick.random() < 0.4:
        made = graph.node("Gemm", [x, weight, graph.weight(pick, (columns,))], beta=0.5)
    else:
        made = graph.node("MatMul", [x, weight])
    graph.add(made[0], shape, x.bound * inner + 1)


@grower
def product_of_values(graph: Graph, pick: Pick) -> None:
    """A product of a value with itself, transposed, or with another one."""
    x = graph.value(pick, lambda one: one.rank >= 2)
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    (turned,) = graph.node("Transpose", [x], perm=order)
    shape = (*x.shape[:-2], x.shape[-2], x.shape[-2])
    made = graph.node("MatMul", [x, turned])
    graph.add(made[0], shape, x.bound**2 * graph.number(x.shape[-1]))


@grower
def einsum(graph: Graph, pick: Pick) -> None:
    """A contraction written in letters."""
    x = graph.value(pick, lambda one: one.rank in (2, 3))
    letters = "abc"[: x.rank]
    kept = "".join([one for one in letters if pick.random() < 0.6])
    equation = f"{letters},{letters}->{kept}"
    shape = [size for size, letter in zip(x.shape, letters) if letter in kept]
    bound = x.bound**2 * graph.elements(x.shape)
    graph.add(graph.node("Einsum", [x, x], equation=equation)[0], shape, bound)


def _window(pick: Pick, graph: Graph, size: Size, most: int = 3) -> dict[str, int]:
    """Return kernel, stride, padding and dilation along one axis."""
    length = graph.number(size)
    kernel = pick.randint(1, most)
    padding = pick.randint(0, kernel - 1)
    dilation = pick.one([1, 1, 2])
    if (kernel - 1) * dilation + 1 > length + 2 * padding:
        raise NotApplicable
    if not _is_static(size) and (kernel > 1 and padding == 0):
        raise NotApplicable  # it might not fit another size
    return {"kernel": kernel, "stride": pick.one([1, 1, 2]), "pad": padding, "dilation": dilation}


def _windowed(graph: Graph, size: Size, window: dict[str, int]) -> Size:
    """Return the size after a window has moved along an axis."""
    extent = (window["kernel"] - 1) * window["dilation"]
    added = 2 * window["pad"] - extent
    if window["stride"] == 1 and added == 0:
        return size
    if not _is_static(size):
        raise NotApplicable  # labels have no differences
    return (int(size) + added - 1) // window["stride"] + 1


def _options(windows: Sequence[dict[str, int]]) -> dict[str, list[int]]:
    pads = [window["pad"] for window in windows]
    return {
        "kernel_shape": [window["kernel"] for window in windows],
        "strides": [window["stride"] for window in windows],
        "pads": [*pads, *pads],
        "dilations": [window["dilation"] for window in windows],
    }


@grower
def convolution(graph: Graph, pick: Pick) -> None:
    """A convolution of one or two axes: full, grouped or depthwise."""
    x = graph.value(pick, lambda one: one.rank in (3, 4) and _is_static(one.shape[1]))
    channels = int(x.shape[1])
    groups = pick.one([1, 1, channels, 2 if channels % 2 == 0 else 1])
    out = groups * pick.one([1, 2, 3, 8])
    windows = [_window(pick, graph, size) for size in x.shape[2:]]
    sizes = [_windowed(graph, size, one) for size, one in zip(x.shape[2:], windows)]
    options: dict[str, Any] = _options(windows)
    weight = graph.weight(pick, (out, channels // groups, *options["kernel_shape"]))
    inputs: list[Value | str] = [x, weight]
    inputs += [graph.weight(pick, (out,))] if pick.random() < 0.5 else []
    made = graph.node("Conv", inputs, group=groups, **options)
    bound = x.bound * channels // groups * math.prod(options["kernel_shape"]) + 1
    graph.add(made[0], (x.shape[0], out, *sizes), bound)


@grower
def transposed_convolution(graph: Graph, pick: Pick) -> None:
    """A transposed convolution of sizes that are known."""
    x = graph.value(
        pick, lambda one: one.rank in (3, 4) and all(_is_static(size) for size in one.shape[1:])
    )
    channels, out = int(x.shape[1]), pick.one([1, 2, 3])
    kernel, stride = pick.randint(1, 3), pick.one([1, 2])
    sizes = [stride * (int(size) - 1) + kernel for size in x.shape[2:]]
    weight = graph.weight(pick, (channels, out, *[kernel] * len(sizes)))
    made = graph.node("ConvTranspose", [x, weight], strides=[stride] * len(sizes))
    bound = x.bound * channels * kernel ** len(sizes)
    graph.add(made[0], (x.shape[0], out, *sizes), bound)


@grower
def pooling(graph: Graph, pick: Pick) -> None:
    """Maxima or means of windows, or of all pixels."""
    x = graph.value(pick, lambda one: one.rank in (3, 4))
    if pick.random() < 0.3:
        name = pick.one(["GlobalAveragePool", "GlobalMaxPool"])
        shape: list[Size] = [*x.shape[:2], *[1] * (x.rank - 2)]
        graph.add(graph.node(name, [x])[0], shape, x.bound, x.is_exact and "Max" in name)
        return
    windows = [_window(pick, graph, size) for size in x.shape[2:]]
    name = pick.one(["MaxPool", "AveragePool"])
    if name == "AveragePool":
        windows = [{**one, "dilation": 1} for one in windows]
    # each window has to see an element: of padding alone the greatest is not defined
    windows = [
        {**one, "pad": 0 if one["dilation"] > 1 else min(one["pad"], one["kernel"] // 2)}
        for one in windows
    ]
    for size, one in zip(x.shape[2:], windows):
        if (one["kernel"] - 1) * one["dilation"] + 1 > graph.number(size) + 2 * one["pad"]:
            raise NotApplicable
    sizes = [_windowed(graph, size, one) for size, one in zip(x.shape[2:], windows)]
    options: dict[str, Any] = _options(windows)
    if name == "AveragePool":
        options["count_include_pad"] = pick.randint(0, 1)
        del options["dilations"]
    made = graph.node(name, [x], **options)
    graph.add(made[0], (*x.shape[:2], *sizes), x.bound, x.is_exact and name == "MaxPool")


# Normalisations and reductions


@grower
def normalization(graph: Graph, pick: Pick) -> None:
    """Normalisation over channels, layers or instances."""
    name = pick.one(["BatchNormalization", "LayerNormalization", "InstanceNormalization"])
    axis = -1 if name == "LayerNormalization" else 1
    least = 3 if name == "InstanceNormalization" else 2
    x = graph.value(pick, lambda one: one.rank >= least and _is_static(one.shape[axis]))
    channels = (int(x.shape[axis]),)
    inputs: list[Value | str] = [x, graph.weight(pick, channels), graph.weight(pick, channels)]
    if name == "BatchNormalization":
        variance = graph.constant(numpy.linspace(0.5, 2, *channels).astype("float32"))
        inputs += [graph.weight(pick, channels), variance]
    # a small epsilon would enlarge the rounding errors of nearly equal elements
    made = graph.node(name, inputs, epsilon=0.1)
    rows = math.sqrt(graph.elements(x.shape))
    graph.add(made[0], x.shape, 2 * x.bound + 2 if "Batch" in name else rows + 1)


@grower
def softmax(graph: Graph, pick: Pick) -> None:
    """Softmax, or its logarithm, along an axis."""
    x = graph.value(pick, lambda one: one.rank > 0)
    name = pick.one(["Softmax", "LogSoftmax"])
    bound = 1.0 if name == "Softmax" else 2 * x.bound + 8
    graph.add(graph.node(name, [x], axis=_axis(pick, x))[0], x.shape, bound)


@grower
def reduction(graph: Graph, pick: Pick) -> None:
    """A reduction over one axis, two, or all."""
    x = graph.value(pick, lambda one: one.rank > 0)
    name = pick.one(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2",
                     "ReduceSumSquare", "ReduceLogSumExp"])  # fmt: skip
    if name == "ReduceLogSumExp" and x.bound > 50:
        raise NotApplicable
    axes = sorted({_axis(pick, x) for _ in range(pick.one([1, 1, 2]))})
    keep = pick.randint(0, 1)
    inputs: list[Value | str] = [
        x,
        graph.integers(*[axis - x.rank * pick.randint(0, 1) for axis in axes]),
    ]
    shape: list[Size] = [
        1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes
    ]
    count = graph.elements([x.shape[axis] for axis in axes])
    bounds = {"ReduceMax": x.bound, "ReduceMin": x.bound, "ReduceMean": x.bound,
              "ReduceSumSquare": count * x.bound**2}  # fmt: skip
    exact = x.is_exact and name in ("ReduceMax", "ReduceMin")
    made = graph.node(name, inputs, keepdims=keep)
    graph.add(made[0], shape, bounds.get(name, count * x.bound + 8), exact)


@grower
def places(graph: Graph, pick: Pick) -> None:
    """Places of the largest, as floats; of exact values."""
    x = graph.value(pick, lambda one: one.rank > 0 and one.is_exact)
    axis, keep = _axis(pick, x), pick.randint(0, 1)
    (made,) = graph.node(pick.one(["ArgMax", "ArgMin"]), [x], axis=axis, keepdims=keep)
    shape = _replaced(x.shape, axis, 1) if keep else (*x.shape[:axis], *x.shape[axis + 1 :])
    size = graph.number(x.shape[axis])
    graph.add(graph.node("Cast", [made], to=1)[0], shape, float(size), is_exact=True)


@grower
def largest(graph: Graph, pick: Pick) -> None:
    """The largest elements along an axis, in order."""
    x = graph.value(pick, lambda one: any(_is_static(size) for size in one.shape))
    axis = _axis(pick, x, _is_static)
    count = pick.randint(1, int(x.shape[axis]))
    attributes = {"axis": axis, "largest": pick.randint(0, 1), "sorted": 1}
    made = graph.node("TopK", [x, graph.integers(count)], 2, **attributes)
    graph.add(made[0], _replaced(x.shape, axis, count), x.bound, x.is_exact)


@grower
def running_sum(graph: Graph, pick: Pick) -> None:
    """Sums up to each place."""
    x = graph.value(pick, lambda one: one.rank > 0)
    axis = _axis(pick, x)
    flags = {"exclusive": pick.randint(0, 1), "reverse": pick.randint(0, 1)}
    made = graph.node("CumSum", [x, graph.constant(numpy.int64(axis))], **flags)
    graph.add(made[0], x.shape, x.bound * graph.number(x.shape[axis]))


# Moving data


@grower
def transposition(graph: Graph, pick: Pick) -> None:
    """Another order of the axes."""
    x = graph.value(pick, lambda one: one.rank > 1)
    order = list(range(x.rank))
    pick.shuffle(order)
    made = graph.node("Transpose", [x], perm=order)
    graph.add(made[0], [x.shape[axis] for axis in order], x.bound, x.is_exact)


@grower
def reshaping(graph: Graph, pick: Pick) -> None:
    """Two axes made one, one made two, or all after the first made one."""
    x = graph.value(pick, lambda one: one.rank > 0)
    kind = pick.one(["merge", "split", "flatten"])
    if kind == "flatten":
        axis = pick.randint(0, x.rank)
        shape: list[Size] = [
            combined("*", 1, *x.shape[:axis]), combined("*", 1, *x.shape[axis:])
        ]  # fmt: skip
        graph.add(graph.node("Flatten", [x], axis=axis)[0], shape, x.bound, x.is_exact)
        return
    if kind == "merge" and x.rank > 1:
        axis = pick.randint(0, x.rank - 2)
        shape = [*x.shape[:axis], combined("*", *x.shape[axis : axis + 2]), *x.shape[axis + 2 :]]
        numbers = [0 if n < axis else size for n, size in enumerate(shape)]
    else:
        axis = _axis(pick, x, lambda size: _is_static(size) and size % 2 == 0)
        half = int(x.shape[axis]) // 2
        shape = [*x.shape[:axis], 2, half, *x.shape[axis + 1 :]]
        numbers = [0 if n < axis else size for n, size in enumerate(shape)]
    target = [number if isinstance(number, int) else -1 for number in numbers]
    if target.count(-1) > 1:
        raise NotApplicable
    made = graph.node("Reshape", [x, graph.integers(*target)])
    graph.add(made[0], shape, x.bound, x.is_exact)


@grower
def reshaping_by_sizes(graph: Graph, pick: Pick) -> None:
    """The first two axes made one, by sizes that the model computes."""
    x = graph.value(pick, lambda one: one.rank > 1)
    (sizes,) = graph.node("Shape", [x])
    (first,) = graph.node("Slice", [sizes, graph.integers(0), graph.integers(2)])
    (whole,) = graph.node("ReduceProd", [first, graph.integers(0)], keepdims=1)
    (rest,) = graph.node("Slice", [sizes, graph.integers(2), graph.integers(9)])
    (target,) = graph.node("Concat", [whole, rest], axis=0)
    shape = [combined("*", *x.shape[:2]), *x.shape[2:]]
    graph.add(graph.node("Reshape", [x, target])[0], shape, x.bound, x.is_exact)


@grower
def new_axis(graph: Graph, pick: Pick) -> None:
    """One axis of size 1 more, or all less."""
    x = graph.value(pick, lambda one: one.rank < 5)
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    if ones and pick.random() < 0.5:
        shape: list[Size] = [size for size in x.shape if size != 1]
        made = graph.node("Squeeze", [x, graph.integers(*ones)])
    else:
        axis = pick.randint(0, x.rank)
        shape = [*x.shape[:axis], 1, *x.shape[axis:]]
        made = graph.node("Unsqueeze", [x, graph.integers(axis)])
    graph.add(made[0], shape, x.bound, x.is_exact)


@grower
def joining(graph: Graph, pick: Pick) -> None:
    """A value beside another one of the same other sizes, or beside itself."""
    x = graph.value(pick, lambda one: one.rank > 0)
    axis = _axis(pick, x)

    def fits(one: Value) -> bool:
        return one.rank == x.rank and all(
            a == b for n, (a, b) in enumerate(zip(one.shape, x.shape)) if n != axis
        )

    y = graph.value(pick, fits)
    shape = _replaced(x.shape, axis, combined("+", x.shape[axis], y.shape[axis]))
    exact = x.is_exact and y.is_exact
    made = graph.node("Concat", [x, y], axis=axis)
    graph.add(made[0], shape, max(x.bound, y.bound), exact)


@grower
def dividing(graph: Graph, pick: Pick) -> None:
    """A value in two parts."""
    x = graph.value(pick, lambda one: any(_is_above(size, 1) for size in one.shape))
    axis = _axis(pick, x, lambda size: _is_above(size, 1))
    size = int(x.shape[axis])
    first = pick.randint(1, size - 1)
    made = graph.node("Split", [x, graph.integers(first, size - first)], 2, axis=axis)
    for name, part in zip(made, (first, size - first)):
        graph.add(name, _replaced(x.shape, axis, part), x.bound, x.is_exact)


@grower
def slicing(graph: Graph, pick: Pick) -> None:
    """A part of an axis, with steps forward or back; all but the first of a size with a label is
    not drawn, since labels have no differences.
    """
    x = graph.value(pick, lambda one: one.rank > 0)
    axis = _axis(pick, x)
    if not _is_static(x.shape[axis]):
        made = graph.node("Slice", [x, graph.integers(-1), graph.integers(-(2**31)),
                                    graph.integers(axis), graph.integers(-1)])  # fmt: skip
        graph.add(made[0], x.shape, x.bound, x.is_exact)
        return
    size = int(x.shape[axis])
    step = pick.one([1, 1, 2, -1, -2])
    start, end = sorted([pick.randint(0, size), pick.randint(0, size)])
    if start == end:
        raise NotApplicable
    begin, stop = (start, end) if step > 0 else (end - 1, start - 1 if start else -(2**31))
    count = len(range(start, end)) if abs(step) == 1 else (end - start + 1) // 2
    made = graph.node("Slice", [x, graph.integers(begin), graph.integers(stop),
                                graph.integers(axis), graph.integers(step)])  # fmt: skip
    graph.add(made[0], _replaced(x.shape, axis, count), x.bound, x.is_exact)


@grower
def picking(graph: Graph, pick: Pick) -> None:
    """Elements by indices: of an axis, or of places in it."""
    x = graph.value(pick, lambda one: any(_is_above(size, 0) for size in one.shape))
    axis = _axis(pick, x, lambda size: _is_above(size, 0))
    size = int(x.shape[axis])
    count = pick.randint(1, 4)
    indices = [pick.randint(-size, size - 1) for _ in range(count)]
    made = graph.node("Gather", [x, graph.integers(*indices)], axis=axis)
    graph.add(made[0], _replaced(x.shape, axis, count), x.bound, x.is_exact)


@grower
def padding(graph: Graph, pick: Pick) -> None:
    """More elements at the ends of an axis."""
    x = graph.value(pick, lambda one: any(_is_above(size, 1) for size in one.shape))
    axis = _axis(pick, x, lambda size: _is_above(size, 1))
    before, after = pick.randint(0, 1), pick.randint(0, 1)
    widths = [0] * (2 * x.rank)
    widths[axis], widths[axis + x.rank] = before, after
    mode = pick.one(["constant", "reflect", "edge"])
    made = graph.node("Pad", [x, graph.integers(*widths)], mode=mode)
    size = int(x.shape[axis]) + before + after
    graph.add(made[0], _replaced(x.shape, axis, size), x.bound, x.is_exact)


@grower
def repeating(graph: Graph, pick: Pick) -> None:
    """Copies beside one another, or along a new size."""
    x = graph.value(pick, lambda one: one.rank > 0)
    axis, count = _axis(pick, x), pick.randint(1, 3)
    if x.shape[axis] == 1 and pick.random() < 0.5:
        target = [1] * x.rank
        target[axis] = count
        made, size = graph.node("Expand", [x, graph.integers(*target)]), count
        graph.add(made[0], _replaced(x.shape, axis, size), x.bound, x.is_exact)
        return
    repeats = [1] * x.rank
    repeats[axis] = count
    made = graph.node("Tile", [x, graph.integers(*repeats)])
    shape = _replaced(x.shape, axis, combined("*", x.shape[axis], count))
    graph.add(made[0], shape, x.bound, x.is_exact)


@grower
def enlarging(graph: Graph, pick: Pick) -> None:
    """An image of twice the size."""
    x = graph.value(pick, lambda one: one.rank == 4)
    mode = pick.one(["nearest", "linear"])
    scales = graph.constant(numpy.array([1, 1, 2, 2], "float32"))
    shape = [*x.shape[:2], *[combined("*", size, 2) for size in x.shape[2:]]]
    options: dict[str, Any] = {}
    if mode == "nearest":
        options = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    made = graph.node("Resize", [x, "", scales], mode=mode, **options)
    graph.add(made[0], shape, x.bound, x.is_exact and mode == "nearest")


@grower
def halves(graph: Graph, pick: Pick) -> None:
    """Elements of half the width, and back."""
    x = graph.value(pick, lambda one: one.is_exact and one.bound < 100)
    (narrow,) = graph.node("Cast", [x], to=10)
    graph.add(graph.node("Cast", [narrow], to=1)[0], x.shape, x.bound, is_exact=True)


@grower
def bytes_and_back(graph: Graph, pick: Pick) -> None:
    """Quantised to bytes, and back; of exact values."""
    x = graph.value(pick, lambda one: one.is_exact)
    scale = graph.constant(numpy.float32(pick.one([0.03, 0.1, 0.25])))
    zero = graph.constant(pick.one([numpy.uint8(128), numpy.int8(3)]))
    (narrow,) = graph.node("QuantizeLinear", [x, scale, zero])
    graph.add(graph.node("DequantizeLinear", [narrow, scale, zero])[0], x.shape, 64.0, True)


@grower
def triangle(graph: Graph, pick: Pick) -> None:
    """The part of matrices above or below a diagonal."""
    x = graph.value(pick, lambda one: one.rank >= 2)
    diagonal = graph.constant(numpy.int64(pick.randint(-2, 2)))
    made = graph.node("Trilu", [x, diagonal], upper=pick.randint(0, 1))
    graph.add(made[0], x.shape, x.bound, x.is_exact)
