"""The dtypes that operators of tensor expressions give, against a table of what users know."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import te, topi
from tilesmith.support.errors import TilesmithError, TypeMismatchError
from tilesmith.tir import interpreter

OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lt": operator.lt,
    "eq": operator.eq,
    "if_then_else": lambda a, b: te.if_then_else(te.var("c", "bool"), a, b),
    **{
        "te." + name: getattr(te, name)
        for name in (
            "max", "min", "div", "power", "truncdiv", "floordiv", "floormod", "indexdiv", "indexmod"
        )
    },
}  # fmt: skip
NUMBERS = {"True": True, "2**40": 2**40, "1": 1, "-1": -1, "300": 300, "1.5": 1.5, "1e10": 1e10}

# Neither of the two represents all values of the other; users' compiler takes float16, which
# turns large bfloat16 values into infinities.
FLOAT32 = {("float16", "bfloat16"), ("bfloat16", "float16")}


def tables() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """One row after the other: the operator, the left operand, (right operand, dtype) pairs."""
    text = (Path(__file__).parent / "arithmetic_dtypes.txt").read_text()
    for block in text.split("\n\n")[1:]:
        lines = block.splitlines()
        columns = lines[1].split()[1:]
        for name in lines[0].split()[1:]:
            for line in lines[2:]:
                left, *cells = line.split()
                yield name, left, [pair for pair in zip(columns, cells) if pair[1] != "."]


def operand(kind: str, name: str) -> Any:
    return NUMBERS[kind] if kind in NUMBERS else te.var(name, kind)


def dtype_of(name: str, left: str, right: str) -> str:
    result = OPERATORS[name](operand(left, "a"), operand(right, "b"))
    return str(result.a.dtype if name in ("lt", "eq") else result.dtype)


def is_stricter(name: str, left: str, right: str) -> bool:
    """True where users' compiler cuts a number off that does not fit the other operand of a shift
    or a bitwise operator (here the result is wider), or shifts by more bits than there are (an
    error here).
    """
    if name in ("lshift", "rshift") and right in ("300", "-1"):
        return True
    return name in ("lshift", "rshift", "and", "or", "xor") and "2**40" in (left, right)


@pytest.mark.parametrize(("left", "right"), [("int8", "300"), ("int16", "-1"), ("uint64", "300")])
def test_shifts_by_more_bits_than_there_are(left: str, right: str):
    with pytest.raises(TypeMismatchError, match="bits"):
        dtype_of("lshift", left, right)


def test_a_number_that_does_not_fit_keeps_its_value():
    masked = te.var("a", "int8") & 2**40
    assert masked.dtype == "int64" and masked.args[1].value == 2**40


@pytest.mark.parametrize(
    ("name", "left", "row"), [pytest.param(*row, id=f"{row[0]} {row[1]}") for row in tables()]
)
def test_dtypes(name: str, left: str, row: list[tuple[str, str]]):
    found = {}
    for right, dtype in row:
        if dtype == "!" or is_stricter(name, left, right):
            continue
        wanted = "float32" if (left, right) in FLOAT32 else dtype
        got = dtype_of(name, left, right)
        if got != wanted:
            found[right] = (got, wanted)
    assert not found


@pytest.mark.parametrize(("left", "right"), [
    ("int8", "int8"), ("int32", "int64"), ("int32", "1"), ("1", "int8"), ("int64", "True"),
])  # fmt: skip
def test_division_of_signed_integers_names_the_divisions(left: str, right: str):
    with pytest.raises(TypeMismatchError, match=r"`//`.*truncdiv.*indexdiv"):
        dtype_of("div", left, right)


def test_errors_of_the_table_for_signed_integers():
    for name, left, row in tables():
        for right, dtype in row if name == "div" else ():
            signed = not {left, right} & {"-1", "2**40"} and not {"uint", "bool", "float"} & {
                kind.rstrip("0123456789") for kind in (left, right)
            }
            if dtype == "!" and signed:
                with pytest.raises(TilesmithError):
                    dtype_of("div", left, right)


@pytest.mark.parametrize(
    "divide", [operator.truediv, lambda a, b: te.compute((4,), lambda i: a[i] / b)]
)
def test_division_of_a_tensor_of_integers(divide: Callable[..., Any]):
    with pytest.raises(TypeMismatchError, match=r"`//`.*truncdiv.*indexdiv"):
        divide(te.placeholder((4,), "int32"), 2)


def test_unsigned_integers_have_one_division():
    a = te.placeholder((3,), "uint8")
    b = te.compute((3,), lambda i: a[i] / 2)
    assert b.dtype == "int32"
    given, result = np.array([255, 1, 8], "uint8"), np.zeros(3, "int32")
    interpreter.run(te.create_prim_func([a, b]), given, result)
    assert result.tolist() == [127, 0, 4]


@pytest.mark.parametrize(
    ("dtype", "make", "wanted"),
    [
        ("int8", lambda a: a + 1, "int32"),
        ("int8", lambda a: topi.multiply(2, a), "int32"),
        ("uint8", lambda a: topi.maximum(a, 0), "int32"),
        ("int8", lambda a: topi.clip(a, 0, 6), "int8"),
        ("int8", lambda a: topi.left_shift(a, 1), "int32"),
        ("float16", lambda a: a + 1, "float16"),
        ("float16", lambda a: a * 0.5, "float32"),
        ("float16", lambda a: topi.nn.leaky_relu(a, 0.1), "float16"),
        ("bfloat16", lambda a: 2.0 * a, "float32"),
        ("bool", lambda a: a + 1, "int32"),
        ("int8", lambda a: a + np.int8(1), "int8"),
        ("float16", lambda a: a * np.float16(0.5), "float16"),
    ],
)
def test_numbers_beside_tensors(dtype: str, make: Callable[..., Any], wanted: str):
    assert make(te.placeholder((4,), dtype)).dtype == wanted


def test_nothing_overflows_beside_a_number():
    a = te.placeholder((4,), "int8", "A")
    b = te.compute((4,), lambda i: (a[i] + 127) // 2, "B")
    given = ts.nd.array(np.array([127, -128, 0, 5], "int8"))
    result = ts.nd.array(np.zeros(4, "int32"))
    ts.build(te.create_prim_func([a, b]), target="llvm")(given, result)
    assert result.numpy().tolist() == [127, -1, 63, 66]
