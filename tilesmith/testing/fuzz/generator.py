"""Draws random recipes of programs from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tilesmith.runtime.dtype import DataType
from tilesmith.testing.fuzz.draw import Expressions
from tilesmith.testing.fuzz.recipe import Recipe, number_of
from tilesmith.testing.fuzz.values import (
    DTYPES,
    Known,
    exact_limit,
    fits,
    is_narrow,
    range_of,
    wraps,
)

__all__ = ["MORE_STAGES", "NARROW_STAGES", "STAGES", "Generator", "Stages", "generate"]

_MOST_ITERATIONS = 700
_SIZES = (1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 8, 9, 11, 12, 13, 16, 17)


class Generator:
    """Draws one recipe."""

    def __init__(
        self, rng: random.Random, stages: Stages | None = None, dtypes: tuple[str, ...] = DTYPES,
        tables: bool = False,
    ) -> None:  # fmt: skip
        self.rng = rng
        self.tables = tables  # whether blocks may read constant memory of their own
        self.among = dtypes
        self.stages = STAGES if stages is None else stages
        self.recipe: Recipe = {
            "index": rng.choice(["int32", "int32", "int64"]),
            "dims": {}, "symbolic": [], "inputs": [], "stages": [],
        }  # fmt: skip
        for name in "abcd":
            self.recipe["dims"][name] = rng.choice(_SIZES)
        if rng.random() < 0.3:
            self.recipe["symbolic"] = rng.sample("abcd", rng.choice([1, 1, 2]))
        self.dtypes = [rng.choice(dtypes) for _ in range(2)]
        self.left = _MOST_ITERATIONS
        self.tensors: list[dict[str, Any]] = []

    @property
    def dims(self) -> dict[str, int]:
        return self.recipe["dims"]

    def draw(self, count: int | None = None) -> Recipe:
        """Return the recipe, with a number of stages (None: drawn)."""
        for _ in range(self.rng.choice([1, 1, 2])):
            self.input([self.dim() for _ in range(self.rng.choice([1, 2, 2, 3]))])
        for _ in range(self.rng.choice([1, 2, 2, 3, 3, 4]) if count is None else count):
            weights = [weight for weight, _ in self.stages.values()]
            kind = self.rng.choices(list(self.stages), weights)[0]
            self.stages[kind][1](self)
        return self.recipe

    # Pieces.

    def dim(self) -> Any:
        """Return a size, mostly the name of a dimension."""
        drawn = self.rng.random()
        name = self.rng.choice("abcd")
        if drawn < 0.85:
            return name
        if drawn < 0.93:
            return ["+", name, self.rng.choice([1, 2, 3])]
        return self.rng.choice([1, 2, 4])

    def dtype(self) -> str:
        """Return a dtype, mostly one of this program."""
        return self.rng.choice(self.dtypes if self.rng.random() < 0.85 else self.among)

    def input(self, shape: list[Any], dtype: str | None = None, **more: Any) -> dict[str, Any]:
        """Add a parameter."""
        dtype = dtype or self.dtype()
        least, most = range_of(dtype)
        tensor = {
            "name": f"A{len(self.recipe['inputs'])}", "shape": shape, "dtype": dtype,
            "low": max(least, -4), "high": min(most, 5), "ulp": None, **more,
        }  # fmt: skip
        self.recipe["inputs"].append(tensor)
        self.tensors.append(tensor)
        return tensor

    def with_shape(self, shape: list[Any], dtype: str) -> dict[str, Any]:
        """Return a tensor of a shape with exact values: an existing one, or a new input."""
        known = [t for t in self.tensors if t["shape"] == shape and t["ulp"] is None]
        if known and self.rng.random() < 0.7:
            return self.rng.choice(known)
        return self.input(shape, dtype)

    def axes(self, sizes: list[Any], kinds: str) -> list[dict[str, Any]]:
        """Return axes within the program's budget of iterations; larger sizes become small
        numbers.
        """
        made, total = [], 1
        for size, kind in zip(sizes, kinds):
            number = number_of(size, self.dims)
            if total * number > self.left:
                size, number = 2, 2
            total *= number
            made.append({"size": size, "type": kind})
        self.left = max(40, self.left - total)
        return made

    def expressions(self, axes: list[dict[str, Any]]) -> Expressions:
        """Return the source of expressions over these axes."""
        draw = Expressions(self.rng, self.tensors, axes, self.dims, self.recipe["index"])
        draw.tables, draw.checks = self.tables, self.tables
        if self.recipe["stages"] and self.rng.random() < 0.6:
            tensor = self.recipe["stages"][-1]["tensors"][-1]
            draw.focus = tensor if tensor["ulp"] is None else None
        return draw

    def add(self, stage: dict[str, Any], shape: list[Any], known: list[Known]) -> None:
        """Append a stage that computes one tensor for each of ``known``."""
        number = len(self.recipe["stages"])
        stage["name"] = f"B{number}"
        stage["tensors"] = [
            {
                "name": f"T{number}" + ("" if k == 0 else f"_{k}"), "shape": shape,
                "dtype": one.dtype, "low": one.low, "high": one.high, "ulp": one.ulp,
            }
            for k, one in enumerate(known)
        ]  # fmt: skip
        stage["out"] = self.rng.random() < 0.15
        stage.setdefault("binding", "plain")
        stage["factor"] = self.rng.choice([2, 3, 4])
        if self.tables and self.rng.random() < 0.5:
            stage["tables_outside"] = True
        if self.rng.random() < 0.15:
            order = list(range(len(stage["axes"])))
            self.rng.shuffle(order)
            stage["loop_order"] = order
        self.recipe["stages"].append(stage)
        self.tensors += stage["tensors"]

    def binding(self) -> str:
        """Return how loops drive a spatial block."""
        return self.rng.choice(["plain"] * 7 + ["fused", "tiled", "tiled", "inner"])


def _compute(make: Generator) -> None:
    rng = make.rng
    if rng.random() < 0.7 and make.tensors:
        latest = make.tensors[-1:] if rng.random() < 0.5 else make.tensors
        sizes = list(rng.choice(latest)["shape"])
        if rng.random() < 0.2:
            rng.shuffle(sizes)
    else:
        sizes = [make.dim() for _ in range(rng.choice([1, 2, 2, 3]))]
    axes = make.axes(sizes, "S" * len(sizes))
    draw = make.expressions(axes)
    dtype = make.dtype()
    places = list(range(len(axes)))
    if rng.random() < 0.2:
        rng.shuffle(places)
    stage: dict[str, Any] = {
        "kind": "compute", "axes": axes, "indices": [["axis", k] for k in places],
        "binding": make.binding(),
    }  # fmt: skip
    if DataType(dtype).is_float and rng.random() < (0.4 if is_narrow(dtype) else 0.2):
        stage["value"], known = draw.inexact(dtype, 2)
    else:
        stage["value"], known = draw.value(dtype, rng.choice([1, 2, 2, 3]))
        if rng.random() < 0.15:
            stage["condition"] = draw.condition(1)
            stage["other"], more = draw.value(dtype, 1)
            known = Known(dtype, min(known.low, more.low), max(known.high, more.high))
        elif rng.random() < 0.15:
            stage["let"] = True
    make.add(stage, [axes[k]["size"] for k in places], [known])


def _accumulated(known: Known, axes: list[dict[str, Any]], draw: Expressions) -> Known | None:
    """Return the range of a sum over the reduction axes, or None if it would not be exact."""
    count = 1
    for axis in axes:
        count *= draw.most(axis["size"]) if axis["type"] == "R" else 1
    low, high = min(known.low * count, 0), max(known.high * count, 0)
    if fits(known.dtype, low, high):
        return Known(known.dtype, low, high)
    return Known(known.dtype, *range_of(known.dtype)) if wraps(known.dtype) else None


def _reduce(make: Generator) -> None:
    rng = make.rng
    source = rng.choice(make.tensors[-2:] if rng.random() < 0.5 else make.tensors)
    sizes = list(source["shape"]) if rng.random() < 0.7 else [make.dim(), make.dim()]
    kinds = [rng.choice("SSR") for _ in sizes]
    if "R" not in kinds:
        kinds[rng.randrange(len(kinds))] = "R"
    axes = make.axes(sizes, "".join(kinds))
    draw = make.expressions(axes)
    dtype = make.dtype()
    value, known = draw.value(dtype if dtype != "bool" else "int32", rng.choice([1, 1, 2]))
    combiner = rng.choice(["sum", "sum", "max", "min"])
    total = _accumulated(known, axes, draw) if combiner == "sum" else None
    if total is None and combiner == "sum":
        combiner = "max"
    if combiner != "sum":
        total = known
    assert total is not None
    _finish_reduction(make, axes, value, total, combiner)


def _finish_reduction(
    make: Generator, axes: list[dict[str, Any]], value: Any, known: Known, combiner: str
) -> None:
    spatial = [k for k, axis in enumerate(axes) if axis["type"] == "S"]
    stage = {
        "kind": "reduce", "axes": axes, "value": value, "combiner": combiner,
        "indices": [["axis", k] for k in spatial] or [["int", 0]],
        "binding": make.rng.choice(["plain", "plain", "plain", "tiled", "fused"]),
    }  # fmt: skip
    if make.rng.random() < 0.3:
        known = _start(make, stage, spatial, known)
    make.add(stage, [axes[k]["size"] for k in spatial] or [1], [known])


def _start(make: Generator, stage: dict[str, Any], spatial: list[int], known: Known) -> Known:
    """Let a reduction start from other values than its identity; return the range of its result."""
    leading = spatial == list(range(len(spatial)))
    draw = make.expressions(stage["axes"][: len(spatial)] if leading else [])
    draw.focus, draw.tables = None, False
    value, start = draw.leaf(known.dtype)
    if make.rng.random() < 0.5:
        number = make.rng.choice([1, 2, 3])
        value, start = ["const", known.dtype, number], Known(known.dtype, number, number)
    low, high = min(known.low, start.low), max(known.high, start.high)
    if stage["combiner"] == "sum":
        low, high = known.low + start.low, known.high + start.high
    if not fits(known.dtype, low, high):
        if not wraps(known.dtype):
            return known
        low, high = range_of(known.dtype)
    stage["start"] = value
    return known._replace(low=low, high=high)


def _contraction(make: Generator) -> None:
    rng = make.rng
    batch = [make.dim()] if rng.random() < 0.2 else []
    i, j, k = make.dim(), make.dim(), make.dim()
    axes = make.axes([*batch, i, j, k], "S" * len(batch) + "SSR")
    sizes = [axis["size"] for axis in axes]
    n = len(batch)
    left = make.with_shape([*sizes[:n], sizes[n], sizes[n + 2]], make.dtype())
    transposed = rng.random() < 0.3
    inner = [sizes[n + 1], sizes[n + 2]] if transposed else [sizes[n + 2], sizes[n + 1]]
    right = make.with_shape([*sizes[:n], *inner], left["dtype"])
    first: list[Any] = [["axis", q] for q in range(n)]
    places = [n + 1, n + 2] if transposed else [n + 2, n + 1]
    one = ["load", left["name"], *first, ["axis", n], ["axis", n + 2]]
    other = ["load", right["name"], *first, *[["axis", q] for q in places]]
    _multiply(make, axes, (one, left), (other, right))


def _multiply(make: Generator, axes: list[dict[str, Any]], left: Any, right: Any) -> None:
    """Add a sum of products in a dtype that holds it, widened where the factors' dtype does not."""
    draw = make.expressions(axes)
    own = left[1]["dtype"]
    candidates = [own, "float32", "int32", "float64", "int64"]
    if make.rng.random() < 0.3:
        candidates.reverse()
    for dtype in candidates:
        if dtype == "bool":
            continue
        factors = []
        for expr, tensor in (left, right):
            known = Known(tensor["dtype"], tensor["low"], tensor["high"])
            factors.append(draw.converted((expr, known), dtype))
        value, known = draw.combine("mul", factors[0], factors[1])
        total = _accumulated(known, axes, draw)
        if total is not None and value[0] == "mul":
            _finish_reduction(make, axes, value, total, "sum")
            return
    value, known = draw.value("int8", 1)
    _finish_reduction(make, axes, value, Known("int8", *range_of("int8")), "sum")


def _convolution(make: Generator) -> None:
    rng = make.rng
    rank = rng.choice([1, 1, 2])
    kernel = [rng.choice([2, 3]) for _ in range(rank)]
    outer = [rng.choice("abcd") for _ in range(rank)]
    channels = make.dim()
    with_inputs = rng.random() < 0.5
    sizes = [channels, *outer, *kernel] + ([rng.choice("abcd")] if with_inputs else [])
    axes = make.axes(sizes, "S" * (1 + rank) + "R" * (rank + with_inputs))
    if any(axis["size"] != size for axis, size in zip(axes, sizes)):
        return _reduce(make)  # the program is large enough
    lead = [sizes[-1]] if with_inputs else []
    lead_axis: list[Any] = [["axis", len(axes) - 1]] if with_inputs else []
    padded = rng.random() < 0.5
    dtype = make.dtype()
    shape = [*lead, *([*outer] if padded else [["+", o, k - 1] for o, k in zip(outer, kernel)])]
    image = make.with_shape(shape, dtype)
    weight = make.with_shape([channels, *lead, *kernel], image["dtype"])
    places: list[Any] = [["add", ["axis", 1 + r], ["axis", 1 + rank + r]] for r in range(rank)]
    guard = None
    if padded:
        places = [["sub", place, ["int", 1]] for place in places]
        for place, size in zip(places, outer):
            inside = ["land", ["le", ["int", 0], place], ["lt", place, ["size", size]]]
            guard = inside if guard is None else ["land", guard, inside]
    value: list[Any] = ["load", image["name"], *lead_axis, *places]
    if guard is not None:
        value = ["if", guard, value, ["const", image["dtype"], 0]]
        image = {**image, "low": min(0, image["low"]), "high": max(0, image["high"])}
    taps = [["axis", 1 + rank + r] for r in range(rank)]
    other = ["load", weight["name"], ["axis", 0], *lead_axis, *taps]
    _multiply(make, axes, (value, image), (other, weight))
    return None


def _argmax(make: Generator) -> None:
    rng = make.rng
    sizes = [make.dim(), make.dim()] if rng.random() < 0.7 else [make.dim()]
    axes = make.axes(sizes, "S" * (len(sizes) - 1) + "R")
    shape = [axis["size"] for axis in axes]
    dtype = rng.choice(["float32", "float32", "int32", "float64"])
    source = make.input(shape, dtype, distinct=True, low=0, high=min(500, exact_limit(dtype)))
    stage = {
        "kind": "argmax", "axes": axes,
        "value": ["load", source["name"], *[["axis", k] for k in range(len(axes))]],
        "indices": [["axis", k] for k in range(len(axes) - 1)] or [["int", 0]],
    }  # fmt: skip
    most = make.expressions(axes).most(shape[-1])
    make.add(stage, shape[:-1] or [1], [Known("int32", -1, most), Known(dtype, 0, 500)])


def _scan(make: Generator) -> None:
    sizes = [make.dim(), make.dim()] if make.rng.random() < 0.7 else [make.dim()]
    axes = make.axes(sizes, "S" * len(sizes))
    draw = make.expressions(axes)
    dtype = make.rng.choice(["int32", "float32", "int8", "float64"])
    value, known = draw.value(dtype, 1)
    counted = [{**axis, "type": "R" if k == len(axes) - 1 else "S"} for k, axis in enumerate(axes)]
    total = _accumulated(known, counted, draw)
    if total is None:
        return
    stage = {
        "kind": "scan", "axes": axes, "value": value, "while": make.rng.random() < 0.3,
        "indices": [["axis", k] for k in range(len(axes))],
    }  # fmt: skip
    make.add(stage, [axis["size"] for axis in axes], [total])


def _update(make: Generator) -> None:
    """Add an update in place of a tensor that an earlier stage computes."""
    computed = [
        tensor
        for stage in make.recipe["stages"]
        for tensor in stage["tensors"]
        if tensor["ulp"] is None and tensor["dtype"] != "bool" and stage["kind"] != "argmax"
    ]
    if not computed:
        return _compute(make)
    rng = make.rng
    target = rng.choice(computed)
    axes = make.axes(target["shape"], "S" * len(target["shape"]))
    if [axis["size"] for axis in axes] != target["shape"]:
        return None
    others = [tensor for tensor in make.tensors if tensor["name"] != target["name"]]
    draw = Expressions(rng, others, axes, make.dims, make.recipe["index"])
    value, known = draw.value(target["dtype"], 1)
    old = Known(target["dtype"], target["low"], target["high"])
    combiner = rng.choice(["sum", "max", "min"])
    low, high = old.low + min(known.low, 0), old.high + max(known.high, 0)
    if combiner != "sum":
        low, high = min(old.low, known.low), max(old.high, known.high)
    if not fits(target["dtype"], low, high):
        if not wraps(target["dtype"]):
            return None
        low, high = range_of(target["dtype"])
    stage = {
        "kind": "update", "axes": axes, "value": value, "combiner": combiner, "update": True,
        "indices": [["axis", k] for k in range(len(axes))], "binding": make.binding(),
    }  # fmt: skip
    if rng.random() < 0.5:
        stage["condition"] = draw.condition(1)
    number = len(make.recipe["stages"])
    make.add(stage, target["shape"], [Known(target["dtype"], low, high)])
    # The same buffer under its old name, with the new range of its values.
    for tensor in [*make.recipe["stages"][number]["tensors"]]:
        make.tensors.remove(tensor)
        tensor["name"] = target["name"]
    target["low"], target["high"] = low, high
    return None


def _epilogue(make: Generator) -> None:
    """Add to (or compare with) the result of the reduction before it."""
    rng = make.rng
    last = make.recipe["stages"][-1] if make.recipe["stages"] else None
    if last is None or last["kind"] != "reduce" or last["tensors"][0]["ulp"] is not None:
        return _reduce(make)
    source = last["tensors"][0]
    axes = make.axes(source["shape"], "S" * len(source["shape"]))
    if [axis["size"] for axis in axes] != source["shape"]:
        return None
    draw = make.expressions(axes)
    others = [tensor for tensor in make.tensors if tensor is not source]
    own = ["load", source["name"], *[["axis", k] for k in range(len(axes))]]
    known = Known(source["dtype"], source["low"], source["high"])
    draw.tensors, draw.focus = others, None
    kind = {"sum": "add"}.get(last["combiner"], last["combiner"])
    if rng.random() < 0.2:
        kind = rng.choice(["add", "max", "min", "sub"])
    value, result = draw.combine(kind, (own, known), draw.value(source["dtype"], 1))
    stage = {
        "kind": "compute", "axes": axes, "indices": [["axis", k] for k in range(len(axes))],
        "value": value,
    }  # fmt: skip
    make.add(stage, source["shape"], [result])
    return None


def _padding(make: Generator) -> None:
    """Pad a tensor."""
    rng = make.rng
    source = rng.choice(make.tensors)
    pads = [(rng.choice([0, 0, 1, 2]), rng.choice([0, 1, 2])) for _ in source["shape"]]
    sizes = [
        ["+", size, sum(pad)] if sum(pad) else size for size, pad in zip(source["shape"], pads)
    ]
    axes = make.axes(sizes, "S" * len(sizes))
    if [axis["size"] for axis in axes] != sizes:
        return
    indices, guard = [], None
    for k, (size, (before, after)) in enumerate(zip(source["shape"], pads)):
        place = ["sub", ["axis", k], ["int", before]] if before else ["axis", k]
        indices.append(place)
        inside: list[Any] = [["le", ["int", before], ["axis", k]]] if before else []
        inside += [["lt", ["axis", k], ["add", ["size", size], ["int", before]]]] if after else []
        for condition in inside:
            guard = condition if guard is None else ["land", guard, condition]
    value: list[Any] = ["load", source["name"], *indices]
    constant = rng.choice([0, 0, 1])
    if guard is not None:
        value = ["if", guard, value, ["const", source["dtype"], constant]]
    known = Known(source["dtype"], min(source["low"], 0), max(source["high"], 1), source["ulp"])
    stage = {
        "kind": "compute", "axes": axes, "indices": [["axis", k] for k in range(len(axes))],
        "value": value,
    }  # fmt: skip
    make.add(stage, sizes, [known])


def _pooling(make: Generator) -> None:
    """Pool windows over the previous tensor, which is padded for them."""
    rng = make.rng
    window, outer = rng.choice([2, 3]), rng.choice("abcd")
    inner = make.axes([["+", outer, window - 1], make.dim()], "SS")
    if inner[0]["size"] != ["+", outer, window - 1]:
        return
    draw = make.expressions(inner)
    value, known = draw.value(rng.choice(["float32", "int32", "float64"]), 1)
    stage = {
        "kind": "compute", "axes": inner, "value": value, "indices": [["axis", 0], ["axis", 1]],
    }  # fmt: skip
    make.add(stage, [axis["size"] for axis in inner], [known])
    source = make.recipe["stages"][-1]["tensors"][0]
    axes = make.axes([outer, inner[1]["size"], window], "SSR")
    if axes[0]["size"] != outer:
        return
    taken = ["load", source["name"], ["add", ["axis", 0], ["axis", 2]], ["axis", 1]]
    _finish_reduction(make, axes, taken, known, rng.choice(["max", "min"]))


def _scatter(make: Generator) -> None:
    """Add up values at indices that depend on data."""
    axes = make.axes([make.dim() for _ in range(make.rng.choice([1, 1, 2]))], "SS")
    draw = make.expressions(axes)
    place = make.dim()
    value, known = draw.value(make.rng.choice(["int32", "float32", "int64", "uint8"]), 1)
    total = _accumulated(known, [{**axis, "type": "R"} for axis in axes], draw)
    if total is None:
        return
    stage = {
        "kind": "scatter", "axes": axes, "value": value,
        "indices": [["floormod", draw.any_integer(), ["size", place]]],
    }  # fmt: skip
    make.add(stage, [place], [total])


def _until(make: Generator) -> None:
    """Add up a value as often as the data say, at most four times."""
    axes = make.axes([make.dim() for _ in range(make.rng.choice([1, 2]))], "SS")
    draw = make.expressions(axes)
    value, known = draw.value(make.rng.choice(["int32", "float32", "int8"]), 1)
    total = _accumulated(known, [{"size": 4, "type": "R"}], draw)
    if total is None:
        return
    stage = {
        "kind": "until", "axes": axes, "value": value, "condition": draw.any_integer(),
        "indices": [["axis", k] for k in range(len(axes))],
    }  # fmt: skip
    make.add(stage, [axis["size"] for axis in axes], [total])


def _carry(make: Generator) -> None:
    """Combine each row of a tensor with the row before it, which an earlier iteration has left."""
    axes = make.axes([make.dim() for _ in range(make.rng.choice([1, 2, 2]))], "SS")
    dtype = make.rng.choice(["int32", "float32", "int8", "float64"])
    value, known = make.expressions(axes).value(dtype, 1)
    kept = f"T{len(make.recipe['stages'])}_1"
    places: list[list[Any]] = [["axis", k] for k in range(len(axes))]
    before = ["load", kept, ["sub", places[0], ["int", 1]], *places[1:]]
    begin = make.rng.choice([1, 1, 2])
    old = ["if", ["le", ["int", begin], places[0]], before, ["const", dtype, 0]]
    stage = {
        "kind": "carry", "axes": axes, "value": value, "indices": places,
        "other": [make.rng.choice(["max", "min"]), ["load", kept, *places], old],
        "ordered": make.rng.random() < 0.5,
    }  # fmt: skip
    result = known._replace(low=min(known.low, 0), high=max(known.high, 0))
    make.add(stage, [axis["size"] for axis in axes], [result, known])


_CONVERTED = (
    "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float8_e4m3",
    "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz",
)  # fmt: skip


def _conversion(make: Generator) -> None:
    """Convert any numbers, also what has no integer near it, to a small float, or back."""
    axes = make.axes([make.dim() for _ in range(make.rng.choice([1, 2]))], "SS")
    shape = [axis["size"] for axis in axes]
    pair = [make.rng.choice(_CONVERTED), make.rng.choice(["float32", "float32", "float64"])]
    if make.rng.random() < 0.7:
        pair.reverse()
    source = make.input(shape, pair[0], ulp=0, special=True)
    places: list[list[Any]] = [["axis", k] for k in range(len(axes))]
    stage = {
        "kind": "compute", "axes": axes, "indices": places, "binding": make.binding(),
        "value": ["cast", pair[1], ["load", source["name"], *places]],
    }  # fmt: skip
    make.add(stage, shape, [Known(pair[1], -500, 500, 0)])


Stages = dict[str, tuple[float, Callable[[Generator], None]]]
STAGES: Stages = {
    "compute": (6, _compute), "reduce": (4, _reduce), "contraction": (3, _contraction),
    "convolution": (2, _convolution), "argmax": (1, _argmax), "scan": (1, _scan),
    "update": (1, _update), "epilogue": (2, _epilogue),
    "padding": (1, _padding), "pooling": (1, _pooling),
}  # fmt: skip
"""Kinds of stages: how often each is drawn, and the function that draws it."""

MORE_STAGES: Stages = {
    **STAGES, "scatter": (2, _scatter), "until": (2, _until), "carry": (2, _carry),
}  # fmt: skip
"""The same with stages whose blocks are opaque to the schedule."""

NARROW_STAGES: Stages = {**STAGES, "conversion": (5, _conversion)}
"""The same with conversions between floats."""


def generate(seed: int) -> Recipe:
    """Return the recipe of a seed: the same in every process."""
    return Generator(random.Random(seed)).draw()
