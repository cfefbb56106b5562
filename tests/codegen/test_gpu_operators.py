"""Every operator on every dtype and pairs of edge values, as OpenCL C on a device, gives what the
interpreter gives.
"""

import numpy as np

from tests.codegen.differential import all_pairs, edge_values
from tests.codegen.harness import like
from tests.codegen.opencl_harness import OnDevice, needs_opencl
from tilesmith import tir
from tilesmith.ir import Call, Cast, Not, Select
from tilesmith.runtime.dtype import DataType

SIGNED = ["int8", "int16", "int32", "int64"]
INTEGERS = [*SIGNED, "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2"]
ARITHMETIC = ["Add", "Sub", "Mul", "Min", "Max"]
COMPARISONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
DIVISIONS = ["Div", "Mod", "FloorDiv", "FloorMod"]
EXACT = ["floor", "ceil", "trunc", "nearbyint", "round", "fabs", "sqrt"]
ONE = {
    "exp": 4, "exp2": 4, "exp10": 5, "log": 4, "log2": 4, "log10": 4, "log1p": 4, "sin": 5,
    "cos": 5, "tan": 6, "asin": 5, "acos": 5, "atan": 6, "sinh": 5, "cosh": 5, "tanh": 7,
    "asinh": 5, "acosh": 5, "atanh": 6, "erf": 17, "sigmoid": 6, "rsqrt": 3,
}  # fmt: skip

pytestmark = needs_opencl


def call(name, dtype=None):
    """`tir.NAME` of its arguments, in the dtype of the first or another one."""

    def make(*args):
        kind = args[0].dtype if dtype is None else DataType(dtype).with_lanes(args[0].dtype.lanes)
        return Call(kind, "tir." + name, args)

    return make


def add_arithmetic(batch, dtype):
    a, b = all_pairs(edge_values(dtype), edge_values(dtype))
    for name in ARITHMETIC:
        batch.add(f"{dtype} {name}", getattr(tir, name), [a, b], dtype)
    for name in COMPARISONS:
        batch.add(f"{dtype} {name}", getattr(tir, name), [a, b], "bool")
    batch.add(f"{dtype} Select", lambda x, y: Select(tir.LT(x, y), x, y), [a, b], dtype)


def add_divisions(batch, dtype):
    a, b = all_pairs(edge_values(dtype), edge_values(dtype))
    kind = DataType(dtype)
    if not kind.is_float:  # what has no value in C has none here
        good = b != 0
        if kind.is_int:
            good &= ~((a == kind.min_value) & (b == np.array(-1, b.dtype)))
        a, b = a[good], b[good]
    for name in DIVISIONS:
        batch.add(f"{dtype} {name}", getattr(tir, name), [a, b], dtype)
    for divisor in [] if kind.is_float else [1, 3, 16] + ([-3] if kind.is_int else []):
        for name in DIVISIONS:
            operator = getattr(tir, name)
            batch.add(
                f"{dtype} {name} by {divisor}",
                lambda x, op=operator, d=divisor: op(x, like(d, x)), [edge_values(dtype)], dtype,
            )  # fmt: skip


def add_bits(batch, dtype):
    a, b = all_pairs(edge_values(dtype), edge_values(dtype))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        batch.add(f"{dtype} {name}", call(name), [a, b], dtype)
    batch.add(f"{dtype} bitwise_not", call("bitwise_not"), [a], dtype)
    if dtype == "bool":
        return
    kind = DataType(dtype)
    amounts = np.array([0, 1, kind.bits // 2, kind.bits - 1], kind.numpy())
    c, amount = all_pairs(edge_values(dtype), amounts)
    batch.add(f"{dtype} shift_left", call("shift_left"), [c, amount], dtype)
    batch.add(f"{dtype} shift_right", call("shift_right"), [c, amount], dtype)
    batch.add(f"{dtype} popcount", call("popcount"), [a], dtype)
    batch.add(f"{dtype} clz", call("clz", "int32"), [a], "int32")
    base, power = all_pairs(edge_values(dtype), np.array([0, 1, 2, 3, 5], kind.numpy()))
    batch.add(f"{dtype} pow", call("pow"), [base, power], dtype)


def test_arithmetic_and_comparisons():
    batch = OnDevice()
    for dtype in [*INTEGERS, *FLOATS, *FLOAT8]:
        add_arithmetic(batch, dtype)
    batch.check()


def test_divisions():
    batch = OnDevice()
    for dtype in [*INTEGERS, *FLOATS]:
        add_divisions(batch, dtype)
    batch.check()


def test_bits_and_logic():
    batch, (a, b) = OnDevice(), all_pairs(edge_values("bool"), edge_values("bool"))
    for name in ("And", "Or", "Add", "Sub", "Mul", "Min", "Max", "EQ", "NE", "LT", "GE"):
        batch.add(name, getattr(tir, name), [a, b], "bool")
    batch.add("Not", Not, [a], "bool")
    for dtype in ["bool", *INTEGERS]:
        add_bits(batch, dtype)
    batch.check()


def test_functions_of_floats():
    batch = OnDevice()
    for dtype in FLOATS:
        a = edge_values(dtype)
        for name in EXACT:
            batch.add(f"{dtype} {name}", call(name), [a], dtype)
        for name in ("isnan", "isinf", "isfinite"):
            batch.add(f"{dtype} {name}", call(name, "bool"), [a], "bool")
        some = np.random.default_rng(0).uniform(-9, 9, 24).astype(DataType(dtype).numpy())
        for name, ulps in ONE.items():
            batch.add(f"{dtype} {name}", call(name), [some], dtype, ulps)
    batch.check()


def castable(values, target):
    """Values that the target has: a float that does not fit an integer has no value there."""
    source, target = DataType(values.dtype), DataType(target)
    if not source.is_float or not target.is_integer:
        return values
    wide = np.trunc(values.astype("f8"))
    return values[(wide >= float(target.min_value)) & (wide < float(target.max_value) + 1.0)]


def test_casts():
    batch = OnDevice()
    kinds = ["bool", "int8", "int32", "int64", "uint8", "uint16", "uint32", *FLOATS, *FLOAT8]
    for source in kinds:
        for kind in kinds:
            batch.add(
                f"{source} to {kind}",
                lambda x, kind=kind: Cast(DataType(kind).with_lanes(x.dtype.lanes), x),
                [castable(edge_values(source), kind)], kind,
            )  # fmt: skip
    for source, result in [
        ("float32", "int32"), ("int64", "float64"), ("uint16", "float16"), ("bfloat16", "uint16"),
        ("uint8", "int8"), ("uint8", "float8_e4m3fn"), ("uint32", "float32"),
    ]:  # fmt: skip
        values = edge_values(source)
        batch.add(f"{source} as {result}", call("reinterpret", result), [values], result)
    batch.check()
