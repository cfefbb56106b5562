"""LowerIntrin: accuracy of the formulas against float64, special values, rules of users."""

import math

import numpy as np
import pytest

import tilesmith as ts
from tests.tir.transform.harness import apply, outputs
from tilesmith.arith import Analyzer
from tilesmith.ir import Call, Min, Var, const, register_intrin_lowering
from tilesmith.ir.op import Op
from tilesmith.lowering import build
from tilesmith.runtime.dtype import DataType
from tilesmith.target import Target
from tilesmith.target.features import architecture
from tilesmith.tir import BufferStore, For, ForKind, PrimFunc, transform
from tilesmith.tir import decl_buffer as declare
from tilesmith.tir.transform.intrinsics.float32 import FLOAT32_RULES, SCALING_RULES
from tilesmith.tir.transform.intrinsics.lets import Formula

erf = np.vectorize(math.erf, otypes=["float64"])
FUNCTIONS = {
    "exp": (np.exp, 1.1),
    "exp2": (np.exp2, 1.1),
    "exp10": (lambda x: 10.0**x, 1.3),
    "log": (np.log, 1.0),
    "log2": (np.log2, 1.3),
    "log10": (np.log10, 2.0),
    "log1p": (np.log1p, 2.0),
    "tanh": (np.tanh, 5.5),
    "erf": (erf, 6.5),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 3.0),
}
SPECIAL = [math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0, -1.0]


def unary(name, count, dtype="float32", lanes=8, change=lambda element: element):
    """``B[i] = name(change(A[i]))`` in vectors."""
    a, b = declare((count,), dtype, "A"), declare((count,), dtype, "B")
    i, j = Var("i", "int32"), Var("j", "int32")
    place = i * lanes + j
    store = BufferStore(b, Call(dtype, "tir." + name, (change(a[place]),)), (place,))
    inner = For(j, 0, lanes, ForKind.VECTORIZED, store)
    loop = For(i, 0, count // lanes, ForKind.SERIAL, inner)
    return PrimFunc([a, b], loop, attrs={"global_symbol": "main"})


def samples(name, count):
    if name == "log1p":
        parts = [-np.logspace(-20, -1e-3, count // 4), np.logspace(-20, 38, count // 2),
                 np.linspace(-0.99, 1, count - count // 4 - count // 2)]  # fmt: skip
    elif name.startswith("log"):
        parts = [np.logspace(-44, 38.5, count // 2), np.linspace(0.3, 3, count - count // 2)]
    else:
        parts = [np.linspace(-110, 100, count // 2), np.linspace(-5, 5, count // 4),
                 np.logspace(-30, 0, count - count // 4 - count // 2)]  # fmt: skip
    return np.concatenate(parts).astype("float32")


def test_the_table_has_no_function_that_is_not_tested():
    assert {name.removeprefix("tir.") for name in FLOAT32_RULES} == set(FUNCTIONS)


WIDE_AND_PLAIN = [  # exp and what goes through it is made of other instructions there
    *[(name, 16, "llvm") for name in SCALING_RULES],
    *[
        (name, 8, "llvm -mcpu=x86-64-v3")
        for name in SCALING_RULES
        if architecture(Target("llvm")) == "x86"
    ],
]


@pytest.mark.parametrize(
    "name, lanes, target",
    [*[(name, 8, "llvm") for name in FUNCTIONS],
     *[(name.removeprefix("tir."), *rest) for name, *rest in WIDE_AND_PLAIN]],
)  # fmt: skip
def test_accuracy(name, lanes, target):
    function, allowed = FUNCTIONS[name]
    count = 40000
    x = samples(name, count)
    result = ts.nd.array(np.zeros(count, "float32"))
    build(unary(name, count, lanes=lanes), target=target)(ts.nd.array(x), result)
    got = result.numpy()
    with np.errstate(all="ignore"):
        exact = function(x.astype("float64"))
        rounded = exact.astype("float32")
    # what is below the normal numbers counts in units of the smallest of these
    unit = np.spacing(np.maximum(np.abs(rounded), np.float32(1.2e-38))).astype("float64")
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    error = np.abs(got[finite] - exact[finite]) / unit[finite]
    if name == "sigmoid":  # below exp's range the result is zero instead of a subnormal number
        error = error[x[finite] > -88.0]
    assert error.max() <= allowed, x[finite][error.argmax()]


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3"])
def test_sigmoid_at_the_ends_of_the_range_of_exp(target):
    """Where exp(-x) overflows the result is zero, and it never falls as x grows."""
    if "v3" in target and architecture(Target("llvm")) != "x86":
        pytest.skip("needs an x86 machine")
    x = np.concatenate([np.linspace(-90, -86, 4096), np.linspace(80, 92, 4096)]).astype("f4")
    result = ts.nd.array(np.zeros(len(x), "f4"))
    build(unary("sigmoid", len(x)), target=target)(ts.nd.array(x), result)
    got = result.numpy()
    assert (got[x < -89] == 0).all() and (got[x > 80] == 1).all()
    assert (np.diff(got[:4096].astype("f8")) >= -2e-45).all()
    np.testing.assert_allclose(got[:4096], np.exp(x[:4096].astype("f8")), rtol=3e-7, atol=6e-39)


def test_plain_machines_compute_sigmoid_with_one_division_and_one_power_of_two():
    func = apply(unary("sigmoid", 8), transform.VectorizeLoop(),
                 transform.BindTarget("llvm -mcpu=x86-64-v3"), transform.LowerIntrin())  # fmt: skip
    text = func.script()
    assert text.count(" / ") == 1 and text.count("T.shift_left(") == 1, text


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize(
    "target",
    [
        "llvm",
        *(["llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"] * (architecture(Target("llvm")) == "x86")),
    ],
)
def test_exp_of_what_is_not_positive(target, lanes):
    """Accurate down to the last subnormal number; NaN stays NaN."""
    count = 40000
    special = [-math.inf, math.nan, 0.0, -0.0, 1.0, math.inf, -103.9, -104.1]
    ranges = [np.linspace(-110, 0, count // 2), np.linspace(-5, 0, count // 2 - len(special))]
    x = np.concatenate([special, *ranges]).astype("f4")
    result = ts.nd.array(np.zeros(count, "f4"))
    function = unary("exp", count, lanes=lanes, change=lambda one: Min(one, const(0.0, "float32")))
    build(function, target=target)(ts.nd.array(x), result)
    got, exact = result.numpy(), np.exp(np.minimum(x.astype("f8"), 0.0))
    assert np.isnan(got[1])
    unit = np.spacing(np.maximum(exact.astype("f4"), np.float32(1.2e-38))).astype("f8")
    error = np.delete(np.abs(got - exact) / unit, 1)
    assert error.max() <= 1.1, np.delete(x, 1)[error.argmax()]


def test_exp_of_what_is_not_positive_takes_one_power_of_two():
    func = apply(unary("exp", 8, change=lambda one: Min(one, const(0.0, "float32"))),
                 transform.VectorizeLoop(), transform.BindTarget("llvm -mcpu=x86-64-v3"),
                 transform.LowerIntrin())  # fmt: skip
    text = func.script()
    assert text.count("T.shift_left(") == 1 and text.count("T.min(") == 1, text


@pytest.mark.parametrize("degree", [0, 1, 4, 5])
def test_polynomials_in_pairs_have_the_same_value(degree):
    formula = Formula(DataType("float64"))
    coefficients = tuple(float(k + 1) for k in range(degree + 1))
    x = const(0.75, "float64")
    pairs = formula.polynomial_in_pairs(x, x * x, coefficients)
    one_by_one = formula.polynomial(x, coefficients)
    simplify = Analyzer().simplify
    assert simplify(pairs).value == pytest.approx(simplify(one_by_one).value, rel=1e-15)


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name, lanes):
    function, _ = FUNCTIONS[name]
    x = np.array([*SPECIAL, 1e-45] * (lanes // 8), "float32")
    result = ts.nd.array(np.zeros(lanes, "float32"))
    build(unary(name, lanes, lanes=lanes), target="llvm")(ts.nd.array(x), result)
    with np.errstate(all="ignore"):
        want = function(x.astype("float64")).astype("float32")
    np.testing.assert_allclose(result.numpy(), want, rtol=1e-6, atol=1e-44)


@pytest.mark.parametrize(
    "name, lanes", [("exp", 8), ("exp", 16), ("tanh", 8), ("log", 8), ("erf", 8)]
)
def test_the_interpreter_agrees(name, lanes):
    func = unary(name, 64, lanes=lanes)
    x = samples(name, 64)
    before = outputs(func, [x, np.zeros(64, "float32")])[1]
    after = apply(func, transform.VectorizeLoop(), transform.BindTarget("llvm"),
                  transform.LowerIntrin())  # fmt: skip
    assert "tir." + name not in after.script() and f"T.{name}(" not in after.script()
    got = outputs(after, [x, np.zeros(64, "float32")])[1]
    np.testing.assert_allclose(got, before, rtol=2e-6, atol=1e-37)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_go_through_float32(dtype):
    import ml_dtypes  # noqa: F401 - numpy learns bfloat16 from it

    kind = DataType(dtype).numpy()
    x = np.linspace(-4, 4, 64).astype(kind)
    result = ts.nd.array(np.zeros(64, kind))
    build(unary("exp", 64, dtype), target="llvm")(ts.nd.array(x), result)
    want = np.exp(x.astype("float32"))
    np.testing.assert_allclose(result.numpy().astype("float32"), want, rtol=1e-2)


def test_float64_stays_a_call():
    func = apply(unary("exp", 8, "float64"), transform.BindTarget("llvm"), transform.LowerIntrin())
    assert "T.exp" in func.script()
    x = np.linspace(-3, 3, 8)
    result = ts.nd.array(np.zeros(8))
    build(unary("exp", 8, "float64"))(ts.nd.array(x), result)
    np.testing.assert_allclose(result.numpy(), np.exp(x), rtol=1e-14)


@pytest.mark.parametrize("power", [0, 1, 2, 3, 5, 16, 0.5, -1, 2.5, math.inf, -math.inf, math.nan])
def test_powers(power):
    a, b = declare((8,), name="A"), declare((8,), name="B")
    i = Var("i", "int32")
    value = Call("float32", "tir.pow", (a[i], const(power, "float32")))
    func = PrimFunc([a, b], For(i, 0, 8, 0, BufferStore(b, value, (i,))),
                    attrs={"global_symbol": "main"})  # fmt: skip
    x = np.linspace(0.25, 3, 8).astype("float32")
    result = ts.nd.array(np.zeros(8, "float32"))
    build(func)(ts.nd.array(x), result)
    np.testing.assert_allclose(result.numpy(), x ** np.float32(power), rtol=3e-6)
    lowered = apply(func, transform.BindTarget("llvm"), transform.LowerIntrin()).script()
    assert ("T.pow" in lowered or "T.power" in lowered) is (power not in range(17))


def test_rules_of_users_come_first():
    register_intrin_lowering("tir.cosh", "llvm", f=lambda call: call.args[0] * 2.0)
    try:
        func = apply(unary("cosh", 8), transform.BindTarget("llvm"), transform.LowerIntrin())
        x = np.arange(8, dtype="float32")
        np.testing.assert_array_equal(outputs(func, [x, np.zeros(8, "float32")])[1], x * 2)
    finally:
        Op.get("tir.cosh").reset_attr("llvm.FLowerIntrinsic")
