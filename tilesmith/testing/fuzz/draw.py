"""Draws random expressions for recipes, together with the ranges of their values."""

from __future__ import annotations

import random
from typing import Any

from tilesmith.runtime.dtype import DataType
from tilesmith.testing.fuzz.values import (
    FUNCTION_ULP,
    Known,
    fits,
    is_narrow,
    range_of,
    wraps,
)

__all__ = ["Expressions", "Value"]

Value = tuple[list[Any], Known]
TABLES = ("int32", "float32", "int8", "int64", "float64", "float16", "uint8")
"""Dtypes of constant memory."""

_FLOATS = ("float32", "float16", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2")


class Expressions:
    """Draws expressions over the axes of a stage and the existing tensors."""

    def __init__(
        self, rng: random.Random, tensors: list[dict[str, Any]], axes: list[dict[str, Any]],
        largest: dict[str, int], index: str = "int32",
    ) -> None:  # fmt: skip
        self.rng = rng
        self.tensors = tensors
        self.axes = axes
        self.largest = largest  # the largest number that each dimension may stand for
        self.index_dtype = index
        self.tables = False  # whether constant memory may be read
        self.checks = False  # whether indices may be checked where they are used
        self.gathers = True
        self.focus: dict[str, Any] | None = None  # a tensor that is read more often than others

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.rng.random() < probability

    # Places.

    def index(self, size: Any) -> tuple[list[Any], list[Any] | None]:
        """Return an index into a dimension, and the condition under which it is in bounds (None:
        always).
        """
        same = [k for k, axis in enumerate(self.axes) if axis["size"] == size]
        if same:
            k = self.rng.choice(same)
            axis: list[Any] = ["axis", k]
            drawn = self.rng.random()
            if drawn < 0.65:
                return axis, None
            if drawn < 0.75:
                return ["sub", ["sub", ["size", size], ["int", 1]], axis], None
            moved = self.moved(axis, self.rng.choice([-2, -1, 1, 2]))
            if drawn < 0.87:
                last = ["sub", ["size", size], ["int", 1]]
                return ["max", ["min", moved, last], ["int", 0]], None
            inside = ["land", ["le", ["int", 0], moved], ["lt", moved, ["size", size]]]
            return moved, inside
        if size == 1 or self.chance(0.2):
            return ["int", 0], None
        place = ["floormod", self.any_integer(), ["size", size]]
        if self.checks and self.chance(0.3):
            return ["checked", place, ["lt", place, ["size", size]]], None
        return place, None

    def moved(self, axis: list[Any], by: int) -> list[Any]:
        """Return an axis plus a number."""
        return ["add", axis, ["int", by]] if by > 0 else ["sub", axis, ["int", -by]]

    def any_integer(self) -> list[Any]:
        """Return an index expression of any value."""
        if not self.axes:
            return ["int", self.rng.randint(0, 9)]
        axis: list[Any] = ["axis", self.rng.randrange(len(self.axes))]
        drawn = self.rng.randrange(10)
        number = ["int", self.rng.choice([2, 3, 5])]
        if drawn == 9:
            return self.called(axis)
        if drawn == 0:
            return ["sub", ["mul", axis, number], ["int", self.rng.randint(0, 7)]]
        if drawn == 1:
            return ["floordiv", self.moved(axis, self.rng.choice([-3, 2])), number]
        if drawn == 2:
            other = ["axis", self.rng.randrange(len(self.axes))]
            return ["add", ["mul", axis, number], other]
        if drawn == 3:
            return ["truncdiv", self.moved(axis, self.rng.choice([-3, 1])), number]
        gathered = [t for t in self.tensors if t["ulp"] is None and _is_whole(t["dtype"])]
        if drawn == 4 and self.gathers and gathered:
            return ["index", self.load(self.rng.choice(gathered))[0]]
        if drawn == 5:
            return self.smaller_or_larger(axis)
        if drawn == 6 and self.index_dtype == "int64":
            return self.large_product(axis)
        return axis

    def called(self, axis: list[Any]) -> list[Any]:
        """Return a call (of bits, a choice, an absolute value) whose argument is an axis itself."""
        number = self.rng.choice([1, 2, 3, 6, *([33] if self.index_dtype == "int64" else [])])
        kind = self.rng.choice(["shl", "shr", "bitand", "bitor", "bitxor", "if", "abs"])
        if kind == "abs":
            return ["call", "abs", axis]
        if kind == "if":
            return ["if", ["lt", axis, ["int", number]], axis, ["int", number]]
        if kind in ("shl", "shr"):
            return [kind, axis, ["int", number]]
        return [kind, axis, ["int", number if number < 9 else -2]]

    def smaller_or_larger(self, axis: list[Any]) -> list[Any]:
        """Return a minimum or maximum of expressions of either sign that have much in common."""
        number, more = ["int", self.rng.randint(0, 5)], ["int", self.rng.randint(-2, 5)]
        other = ["axis", self.rng.randrange(len(self.axes))]
        pairs = [
            (["sub", number, axis], more), (["add", axis, number], more),
            (["sub", axis, other], ["sub", axis, number]),
            (["sub", other, axis], ["sub", number, axis]),
            (["add", axis, other], ["add", axis, number]),
            (["mul", axis, number], ["mul", axis, more]),
        ]  # fmt: skip
        pair = list(self.rng.choice(pairs))
        self.rng.shuffle(pair)
        made = [self.rng.choice(["min", "max"]), *pair]
        if self.chance(0.3):
            limits = [made, ["int", self.rng.randint(-3, 6)]]
            self.rng.shuffle(limits)
            made = [self.rng.choice(["min", "max"]), *limits]
        return made

    def large_product(self, axis: list[Any]) -> list[Any]:
        """Return the small rest or quotient of a product beyond 32 bits."""
        factor, divisor = self.rng.choice([3000000019, 1 << 32, 1 << 30, -2500000001]), 0
        moved = self.moved(axis, self.rng.choice([-1, 1, 2, 3]))
        product = ["mul", moved, ["int", factor]]
        if self.chance(0.5):
            divisor = self.rng.choice([7, 97, 1000, (1 << 31) + 11])
            return ["floormod", ["floordiv", product, ["int", 3]], ["int", divisor]]
        return ["floordiv", product, ["int", abs(factor) // self.rng.choice([1, 2, 3])]]

    def load(self, tensor: dict[str, Any]) -> Value:
        """Return an element of a tensor; 0 (or a constant) where the index is out of bounds."""
        indices, conditions = [], []
        plain = self.plain_indices(tensor["shape"]) if self.chance(0.5) else None
        if plain is not None:
            known = Known(tensor["dtype"], tensor["low"], tensor["high"], tensor["ulp"])
            return ["load", tensor["name"], *plain], known
        for size in tensor["shape"]:
            gathers, self.gathers = self.gathers, False  # at most one level deep
            if gathers and self.chance(0.3):
                self.gathers = True
            index, condition = self.index(size)
            self.gathers = gathers
            indices.append(index)
            conditions += [] if condition is None else [condition]
        known = Known(tensor["dtype"], tensor["low"], tensor["high"], tensor["ulp"])
        expr: list[Any] = ["load", tensor["name"], *indices]
        if not conditions:
            return expr, known
        guard = conditions[0]
        for condition in conditions[1:]:
            guard = ["land", guard, condition]
        if self.chance(0.15):
            guard = ["likely", guard]
        return ["if", guard, expr, ["const", known.dtype, 0]], known._replace(
            low=min(known.low, 0), high=max(known.high, 0)
        )

    def plain_indices(self, shape: list[Any]) -> list[list[Any]] | None:
        """Return a separate axis for each dimension, or None if there are not enough."""
        free = list(range(len(self.axes)))
        indices: list[list[Any]] = []
        for size in shape:
            fitting = [k for k in free if self.axes[k]["size"] == size]
            if not fitting and size != 1:
                return None
            if fitting:
                free.remove(fitting[0])
            indices.append(["axis", fitting[0]] if fitting else ["int", 0])
        return indices

    # Values.

    def value(self, dtype: str, depth: int) -> Value:
        """Return an exact expression of a dtype."""
        drawn = self.rng.random()
        if depth <= 0 or drawn < 0.15:
            return self.leaf(dtype)
        if drawn < 0.65:
            return self.arithmetic(dtype, depth)
        if drawn < 0.75:
            return self.choice(dtype, depth)
        if drawn < 0.85:
            return self.converted(self.value(self.other_dtype(), depth - 1), dtype)
        if drawn < 0.9:
            bound, known = self.value(dtype, depth - 1)
            other, more = self.value(dtype, 0)
            combined = self.combine("max", (["var"], known), (other, more))
            return ["let", bound, combined[0]], combined[1]
        return self.unary(dtype, depth)

    def other_dtype(self) -> str:
        """Return a dtype, mostly that of one of the tensors."""
        if self.tensors and self.chance(0.8):
            return self.rng.choice(self.tensors)["dtype"]
        return self.rng.choice(["float32", "int32", "int8", "uint8"])

    def leaf(self, dtype: str) -> Value:
        """Return a constant, an axis, or an element of a tensor of that dtype."""
        fitting = [t for t in self.tensors if t["dtype"] == dtype and t["ulp"] is None]
        if self.focus is not None and self.chance(0.5):
            return self.converted(self.load(self.focus), dtype)
        if self.tables and dtype in TABLES and self.chance(0.15):
            return self.table(dtype)
        if fitting and self.chance(0.8):
            return self.load(self.rng.choice(fitting))
        if self.axes and self.chance(0.2):
            k = self.rng.randrange(len(self.axes))
            most = self.most(self.axes[k]["size"])
            if fits(dtype, 0, most):
                return ["cast", dtype, ["axis", k]], Known(dtype, 0, most)
        if fitting or not self.tensors or self.chance(0.3):
            low, high = range_of(dtype)
            number = self.rng.randint(max(low, -4), min(high, 5))
            if wraps(dtype) and self.chance(0.2):  # sums of these wrap around
                number = self.rng.choice([low, high, high - 3, high // 2 + 1])
            return ["const", dtype, number], Known(dtype, number, number)
        usable = [t for t in self.tensors if t["ulp"] is None]
        if not usable:
            return ["const", dtype, 1], Known(dtype, 1, 1)
        return self.converted(self.load(self.rng.choice(usable)), dtype)

    def table(self, dtype: str) -> Value:
        """Return an element of constant memory."""
        low = 0 if DataType(dtype).is_uint else -4
        numbers = [self.rng.randint(low, 5) for _ in range(self.rng.choice([1, 2, 3, 5]))]
        index: list[Any] = ["floormod", self.any_integer(), ["int", len(numbers)]]
        return ["table", dtype, numbers, index], Known(dtype, min(numbers), max(numbers))

    def most(self, size: Any) -> int:
        """Return the largest number that a size may stand for."""
        from tilesmith.testing.fuzz.recipe import number_of

        return number_of(size, self.largest)

    def converted(self, value: Value, dtype: str) -> Value:
        """Cast a value to another dtype; reduce its range first where the cast would lose it."""
        expr, known = value
        if known.dtype == dtype:
            return value
        if dtype == "bool":
            return ["ne", expr, ["const", known.dtype, 0]], Known("bool", 0, 1)
        if not fits(dtype, known.low, known.high):
            if wraps(dtype) and DataType(known.dtype).is_integer:
                return ["cast", dtype, expr], Known(dtype, *range_of(dtype))
            low, high = range_of(dtype)
            low, high = max(low, -9, range_of(known.dtype)[0]), min(high, 20)
            expr = ["max", ["min", expr, ["const", known.dtype, high]],
                    ["const", known.dtype, low]]  # fmt: skip
            known = Known(
                known.dtype, max(low, min(known.low, high)), min(high, max(known.high, low))
            )
        return ["cast", dtype, expr], Known(dtype, known.low, known.high)

    def arithmetic(self, dtype: str, depth: int) -> Value:
        """Return two operands under an operator that stays exact."""
        left, right = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        if dtype == "bool":
            kind = self.rng.choice(["land", "lor", "ne"])
            return [kind, left[0], right[0]], Known("bool", 0, 1)
        kinds = ["add", "sub", "mul", "min", "max"]
        if _is_whole(dtype):
            kinds += ["floordiv", "floormod", "truncdiv", "truncmod", "bits", "shift"]
        return self.combine(self.rng.choice(kinds), left, right)

    def combine(self, kind: str, left: Value, right: Value) -> Value:
        """Return two values under an operator; a minimum where the operator would not stay
        exact.
        """
        (one, a), (other, b) = left, right
        dtype = a.dtype
        if kind in ("add", "sub", "mul"):
            low, high = _range(kind, a, b)
            if fits(dtype, low, high):
                return [kind, one, other], Known(dtype, low, high)
            if wraps(dtype):
                return [kind, one, other], Known(dtype, *range_of(dtype))
            kind = "min"
        if kind in ("floordiv", "floormod", "truncdiv", "truncmod"):
            return self.division(kind, left)
        if kind == "bits":
            kind = self.rng.choice(["bitand", "bitor", "bitxor"])
            return [kind, one, other], Known(dtype, *_bits_range(a, b, dtype))
        if kind == "shift":
            if self.chance(0.4):
                return self.shift_by_data(left, right)
            number = self.rng.randint(0, 3)
            if fits(dtype, a.low << number, a.high << number):
                return ["shl", one, ["const", dtype, number]], Known(
                    dtype, a.low << number, a.high << number
                )
            return ["shr", one, ["const", dtype, number]], Known(
                dtype, a.low >> number, a.high >> number
            )
        pick = min if kind == "min" else max
        return [kind, one, other], Known(dtype, pick(a.low, b.low), pick(a.high, b.high))

    def shift_by_data(self, left: Value, right: Value) -> Value:
        """Return a value shifted by 0 to 3 places, where the number of places depends on data."""
        (one, a), (other, _) = left, right
        places = ["bitand", other, ["const", a.dtype, 3]]
        low, high = min(a.low << 3, a.low), max(a.high << 3, a.high)
        if self.chance(0.5) and fits(a.dtype, low, high):
            return ["shl", one, places], Known(a.dtype, low, high)
        low, high = min(a.low, a.low >> 3), max(a.high, a.high >> 3)
        return ["shr", one, places], Known(a.dtype, low, high)

    def division(self, kind: str, value: Value) -> Value:
        """Return a division or remainder by a constant of either sign."""
        expr, known = value
        signed = not DataType(known.dtype).is_uint
        number = self.rng.choice([2, 3, 4, 5, 7, 8] + ([-2, -3, -4] if signed else []))
        most = max(abs(known.low), abs(known.high))
        low = -most if signed else 0
        if kind.endswith("mod"):
            low, most = (-abs(number) if signed else 0), abs(number)
        return [kind, expr, ["const", known.dtype, number]], Known(known.dtype, low, most)

    def condition(self, depth: int) -> list[Any]:
        """Return a boolean expression."""
        if self.axes and self.chance(0.12):
            return self.wrapping_condition()
        if self.axes and self.chance(0.5):
            k = self.rng.randrange(len(self.axes))
            number = ["int", self.rng.randint(0, 6)]
            kind = self.rng.choice(["lt", "ge", "eq", "ne"])
            if self.chance(0.4):
                rest = ["floormod", ["axis", k], ["int", self.rng.choice([2, 3])]]
                return ["eq", rest, ["int", self.rng.randint(0, 1)]]
            if self.largest and self.chance(0.25):
                number = ["size", self.rng.choice(sorted(self.largest))]
                if self.chance(0.5):
                    number = self.moved(number, self.rng.choice([-2, -1, 1]))
                made = [self.rng.choice(["lt", "ge"]), ["axis", k], number]
                return ["likely", made] if self.chance(0.6) else made
            made = [kind, ["axis", k], number]
            if self.chance(0.4):
                made = [self.rng.choice(["lt", "ge"]), self.any_integer(), number]
            return ["likely", made] if self.chance(0.2) else made
        dtype = self.other_dtype()
        left, right = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        if dtype == "bool":
            return left[0]
        made = [self.rng.choice(["lt", "le", "gt", "ge", "eq", "ne"]), left[0], right[0]]
        return ["not", made] if self.chance(0.2) else made

    def wrapping_condition(self) -> list[Any]:
        """Return a comparison of a sum that wraps around for some values of an axis."""
        dtype = self.rng.choice(["int8", "uint8", "int16"])
        low, high = range_of(dtype)
        axis: list[Any] = ["cast", dtype, ["axis", self.rng.randrange(len(self.axes))]]
        limit = self.rng.choice([high, high - 2, low, low + 2])
        made = [self.rng.choice(["add", "sub"]), axis, ["const", dtype, limit]]
        bound = self.rng.choice([high // 2, low // 2, low + 1, high - 1, 0])
        return [self.rng.choice(["lt", "ge"]), made, ["const", dtype, bound]]

    def choice(self, dtype: str, depth: int) -> Value:
        """Return a select or conditional expression."""
        (one, a), (other, b) = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        kind = self.rng.choice(["select", "if"])
        known = Known(dtype, min(a.low, b.low), max(a.high, b.high))
        return [kind, self.condition(depth - 1), one, other], known

    def unary(self, dtype: str, depth: int) -> Value:
        """Return a function of one value that stays exact."""
        expr, known = self.value(dtype, depth - 1)
        if dtype == "bool":
            return ["not", expr], known
        if dtype in _FLOATS:
            name = self.rng.choice(["floor", "ceil", "trunc", "round", "nearbyint", "fabs", "neg"])
        else:
            name = "neg" if DataType(dtype).is_int else "abs"
        if name in ("fabs", "abs"):
            if DataType(dtype).is_uint:
                return expr, known
            most = max(abs(known.low), abs(known.high))
            return ["call", name, expr], Known(dtype, 0, most)
        if name == "neg":
            if not fits(dtype, -known.high, -known.low):
                return ["min", expr, ["const", dtype, 3]], known._replace(
                    low=min(known.low, 3), high=min(known.high, 3)
                )
            return ["neg", expr], Known(dtype, -known.high, -known.low)
        return ["call", name, expr], known

    def inexact(self, dtype: str, depth: int) -> Value:
        """Return a function of an exact value that is rounded; ``dtype`` is a float."""
        expr, known = self.value(dtype, depth - 1)
        small = ["max", ["min", expr, ["const", dtype, 6]], ["const", dtype, -6]]
        positive = ["max", expr, ["const", dtype, 1]]
        name = self.rng.choice(
            ["sqrt", "exp", "exp2", "log", "tanh", "sigmoid", "erf", "rsqrt", "sin", "divide"]
            + ["fraction"] * (10 if is_narrow(dtype) else 3)
        )
        if name == "fraction":
            return self.with_fraction(expr, dtype)
        ulp = FUNCTION_ULP[name]
        if name == "divide":
            divisor = ["max", self.value(dtype, 0)[0], ["const", dtype, 1]]
            made: list[Any] = ["div", expr, divisor]
        elif name in ("sqrt", "log", "rsqrt"):
            made = ["call", name, positive]
        else:
            made = ["call", name, small]
        if self.chance(0.3):
            made, ulp = ["mul", made, ["const", dtype, self.rng.choice([-3, 3, 5])]], ulp * 2 + 1
        if self.chance(0.3):
            made = ["max", made, ["const", dtype, self.rng.choice([-1, 0, 2])]]
        return made, Known(dtype, -500, 500, ulp)

    def with_fraction(self, expr: list[Any], dtype: str) -> Value:
        """Return an exact value and a constant that the dtype has to round, under an operator whose
        result is rounded once, wherever it is computed."""
        number, known = self.rng.randint(-999, 999) / 300, Known(dtype, -500, 500, 0)
        if dtype in ("float16", "bfloat16") and self.chance(0.25):
            wide = ["mul", ["cast", "float32", expr], ["const", "float32", number]]
            return ["cast", dtype, wide], known
        kind = self.rng.choice(["mul", "mul", "mul", "add", "sub", "max", "select"])
        operands = [expr, ["const", dtype, number]]
        self.rng.shuffle(operands)
        first = [self.condition(0)] if kind == "select" else []
        return [kind, *first, *operands], known


def _is_whole(dtype: str) -> bool:
    return DataType(dtype).is_integer and dtype != "bool"


def _range(kind: str, a: Known, b: Known) -> tuple[int, int]:
    if kind == "add":
        return a.low + b.low, a.high + b.high
    if kind == "sub":
        return a.low - b.high, a.high - b.low
    products = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(products), max(products)


def _bits_range(a: Known, b: Known, dtype: str) -> tuple[int, int]:
    most = max(abs(a.low), abs(a.high), abs(b.low), abs(b.high))
    bits = (1 << most.bit_length()) - 1
    low = 0 if min(a.low, b.low) >= 0 else -bits - 1
    least, largest = range_of(dtype)
    return max(low, least), min(bits, largest)
