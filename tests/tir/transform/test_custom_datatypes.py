"""Data types that a library defines: fixed-point numbers with eight binary places, in 16 bits."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply
from tilesmith.ir import Call, Cast, FloatImm, Var
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import (
    ConfigError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.target import datatype
from tilesmith.tir import For, ForKind, PrimFunc, decl_buffer, if_then_else, min_value, transform
from tilesmith.tir.interpreter import run
from tilesmith.tir.stmt import BufferStore

FIXED = "custom[fixed]16"


@pytest.fixture(scope="module", autouse=True)
def fixed_point():
    datatype.register("fixed", 150)
    make = datatype.create_lower_func
    datatype.register_op(make({(32, 16): "FloatToFixed"}), "Cast", "llvm", "float", "fixed")
    datatype.register_op(make({(16, 32): "FixedToFloat"}), "Cast", "llvm", "fixed", "float")
    for name in ("Add", "Mul", "LT"):
        datatype.register_op(make({16: f"Fixed{name}"}), name, "llvm", "fixed")
    datatype.register_op(
        make({16: "FixedSqrt"}), "Call", "llvm", "fixed", intrinsic_name="tir.sqrt"
    )
    least = datatype.create_min_lower_func({16: "FixedMin"}, "fixed")
    datatype.register_min_func(least, "fixed")


LIBRARY = {
    "FloatToFixed": lambda x: int(round(x * 256)),
    "FixedToFloat": lambda x: x / 256,
    "FixedAdd": lambda a, b: a + b,
    "FixedMul": lambda a, b: a * b >> 8,
    "FixedLT": lambda a, b: a < b,
    "FixedSqrt": lambda a: int(round((a / 256) ** 0.5 * 256)),
}


def loop(parameters, target, value):
    i = Var("i", "int32")
    body = For(i, 0, 8, ForKind.SERIAL, BufferStore(target, value(i), [i]))
    return PrimFunc(parameters, body, attrs={"global_symbol": "main"})


def test_operations_become_calls_of_the_library():
    a, b = decl_buffer((8,), FIXED, "A"), decl_buffer((8,), FIXED, "B")
    c = decl_buffer((8,), "float32", "C")

    def value(i):
        product = a[i] * b[i] + FloatImm(FIXED, 1.5)
        chosen = if_then_else(product < b[i], product, a[i])
        return Cast("float32", Call(FIXED, "tir.sqrt", (chosen,)))

    func = loop([a, b, c], c, value)
    got = apply(func, transform.LowerCustomDatatypes())
    text = got.script()
    assert "custom[" not in text and 'T.Buffer((8,), "uint16")' in text
    random = np.random.default_rng(0)
    first = (random.random(8) * 1024).astype("uint16")
    second = (random.random(8) * 4096).astype("uint16")
    result = np.zeros(8, "float32")
    run(got, first, second, result, externs=LIBRARY)
    x, y = first.astype(int), second.astype(int)
    product = (x * y >> 8) + 384
    chosen = np.where(product < y, product, x)
    np.testing.assert_allclose(result, np.round((chosen / 256) ** 0.5 * 256) / 256)


def test_the_least_value_of_a_type():
    call = min_value(FIXED)
    assert call.dtype == FIXED and call.args[0].value == "FixedMin"
    with pytest.raises(ConfigError, match="24 bits"):
        min_value("custom[fixed]24")


def test_names_and_codes():
    assert datatype.get_type_code("fixed") == 150 and datatype.get_type_name(150) == "fixed"
    assert datatype.get_type_registered(150) and not datatype.get_type_registered(151)
    dtype = DataType(FIXED)
    assert (dtype.bits, dtype.type_code, dtype.nbytes, dtype.is_custom) == (16, 150, 2, True)
    assert DataType(f"{FIXED}x4").element is dtype and dtype.with_bits(32).bits == 32


def test_mistakes():
    with pytest.raises(TypeMismatchError, match="unknown"):
        DataType("custom[nothing]8")
    with pytest.raises(TypeMismatchError, match="numpy"):
        DataType(FIXED).numpy()
    with pytest.raises(ConfigError, match="129"):
        datatype.register("other", 3)
    with pytest.raises(ConfigError, match="'fixed'"):
        datatype.register("other", 150)
    with pytest.raises(UnknownNameError, match="'other'"):
        datatype.register_op(datatype.lower_ite, "Add", "llvm", "other")
    with pytest.raises(ConfigError, match="dest_type_name"):
        datatype.register_op(datatype.lower_ite, "Cast", "llvm", "fixed")
    a, c = decl_buffer((8,), FIXED, "A"), decl_buffer((8,), FIXED, "C")
    with pytest.raises(UnsupportedError, match="Sub fixed"):
        apply(loop([a, c], c, lambda i: a[i] - a[0]), transform.LowerCustomDatatypes())
