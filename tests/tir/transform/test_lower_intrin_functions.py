"""Trigonometric and hyperbolic functions and powers: accuracy against float64, special values."""

import math

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.ir import Call, Var
from tilesmith.lowering import build
from tilesmith.tir import BufferStore, For, ForKind, PrimFunc
from tilesmith.tir import decl_buffer as declare
from tilesmith.tir.transform.intrinsics.hyperbolic import HYPERBOLIC_RULES
from tilesmith.tir.transform.intrinsics.power import POWER_RULES
from tilesmith.tir.transform.intrinsics.trigonometric import TRIGONOMETRIC_RULES

COUNT = 40000
INF, NAN = math.inf, math.nan
# name: (the same in numpy, largest error in units in the last place, dense interval of samples)
FUNCTIONS = {
    "sin": (np.sin, 1.5, 40.0), "cos": (np.cos, 1.5, 40.0), "tan": (np.tan, 2.7, 40.0),
    "asin": (np.arcsin, 2.0, 1.0), "acos": (np.arccos, 2.0, 1.0), "atan": (np.arctan, 1.7, 8.0),
    "sinh": (np.sinh, 2.6, 12.0), "cosh": (np.cosh, 2.1, 12.0), "asinh": (np.arcsinh, 3.6, 12.0),
    "acosh": (np.arccosh, 3.6, 12.0), "atanh": (np.arctanh, 3.6, 1.0),
}  # fmt: skip
SPECIAL = [
    INF,
    -INF,
    NAN,
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    1e38,
    -1e38,
    1e-40,
    3e5,
    0.5,
    -0.5,
    88.9,
]


def function_of(name, arity, lanes=8, dtype="float32", count=COUNT):
    """`out[i] = name(in0[i], ...)` in vectors."""
    inputs = [declare((count,), dtype, f"in{n}") for n in range(arity)]
    out = declare((count,), dtype, "out")
    i, j = Var("i", "int32"), Var("j", "int32")
    place = i * lanes + j
    value = Call(dtype, "tir." + name, tuple([buffer[place] for buffer in inputs]))
    inner = For(j, 0, lanes, ForKind.VECTORIZED, BufferStore(out, value, (place,)))
    loop = For(i, 0, count // lanes, ForKind.SERIAL, inner)
    return PrimFunc([*inputs, out], loop, attrs={"global_symbol": "main"})


def computed(name, *inputs, lanes=8):
    count = len(inputs[0])
    out = np.zeros(count, inputs[0].dtype)
    dtype = str(inputs[0].dtype)
    module = build(function_of(name, len(inputs), lanes, dtype, count), target="llvm")
    module(*inputs, out)
    return out


def errors(got, exact):
    """Errors in units in the last place of float32; infinities and NaN have to agree."""
    with np.errstate(all="ignore"):
        rounded = exact.astype("f4")
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    unit = np.spacing(np.maximum(np.abs(rounded), np.float32(1.2e-38))).astype("f8")
    return np.where(finite, np.abs(got.astype("f8") - np.where(finite, exact, 0)) / unit, 0)


def samples(span):
    random = np.random.default_rng(0)
    wide = np.exp2(random.uniform(-60, 60, COUNT // 2)) * random.choice([-1, 1], COUNT // 2)
    dense = random.uniform(-span, span, COUNT - COUNT // 2 - len(SPECIAL))
    return np.concatenate([SPECIAL, wide, dense]).astype("f4")


def test_every_rule_is_tested():
    names = {*TRIGONOMETRIC_RULES, *HYPERBOLIC_RULES, *POWER_RULES}
    assert names == {"tir." + name for name in [*FUNCTIONS, "atan2", "pow"]}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name):
    function, allowed, span = FUNCTIONS[name]
    x = samples(span)
    if name == "acosh":
        x = np.abs(x) + np.float32(1) * (np.arange(COUNT) % 2 == 0).astype("f4")
    with np.errstate(all="ignore"):
        exact = function(x.astype("f8"))
    found = errors(computed(name, x), exact)
    assert found.max() <= allowed, (x[found.argmax()], found.max())


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_multiples_of_half_pi(name):
    """Next to them the result is as small as the distance: the reduction must know that exactly."""
    near = (np.arange(-20000, 20000) * (math.pi / 2)).astype("f4")
    exact = FUNCTIONS[name][0](near.astype("f8"))
    found = errors(computed(name, near), exact)
    assert found.max() <= FUNCTIONS[name][1], near[found.argmax()]


@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan", "sinh", "asinh", "atanh"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_zero_keeps_its_sign(name, lanes):
    x = np.resize(np.array([0.0, -0.0], "f4"), 16)
    np.testing.assert_array_equal(np.signbit(computed(name, x, lanes=lanes)), np.signbit(x))


@pytest.mark.parametrize("name, allowed", [("atan2", 2.4), ("pow", 0.7)])
def test_functions_of_two(name, allowed):
    function = {"atan2": np.arctan2, "pow": np.power}[name]
    pairs = np.array([(a, b) for a in SPECIAL for b in [*SPECIAL, 3.0, 16777217.0]])
    random = np.random.default_rng(1)
    count = 16 * ((COUNT - len(pairs)) // 16) - len(pairs) % 16
    wide = np.exp2(random.uniform(-40, 40, (count, 2))) * random.choice([-1, 1], (count, 2))
    if name == "pow":  # moderate exponents, whole ones among them
        wide[:, 1] = random.uniform(-12, 12, count)
        wide[::3, 1] = np.round(wide[::3, 1])
        wide[1::2, 0] = np.abs(random.uniform(0.5, 2, len(wide[1::2])))
        wide[1::4, 1] *= 20
    x, y = np.ascontiguousarray(np.concatenate([pairs, wide]).astype("f4").T)
    assert len(x) % 8 == 0
    with np.errstate(all="ignore"):
        exact = function(x.astype("f8"), y.astype("f8"))
    got = computed(name, x, y)
    found = errors(got, exact)
    assert found.max() <= allowed, (x[found.argmax()], y[found.argmax()], found.max())
    certain = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(got)[certain], np.signbit(exact)[certain])


@pytest.mark.parametrize("name", ["sin", "acosh", "atan"])
def test_float16_goes_through_float32(name):
    x = np.linspace(1, 9, 64).astype("float16")
    exact = FUNCTIONS[name][0](x.astype("f8"))
    np.testing.assert_array_equal(computed(name, x), exact.astype("f4").astype("float16"))


def test_far_arguments_ask_the_library_and_near_ones_do_not():
    module = build(function_of("cos", 1, count=16), target="llvm")
    code = module.get_source("ll")
    assert "@cosf(" in code and "llvm.vector.reduce.or" in code
    x = np.array([1e6, 1, 2, 3, 4, 5, 6, 7] + [0.5] * 8, "f4")
    out = np.zeros(16, "f4")
    module(x, out)
    np.testing.assert_allclose(out, np.cos(x.astype("f8")), rtol=3e-7)


@pytest.mark.parametrize("name", ["sin", "tan", "pow", "atan2", "asinh"])
def test_lowered_functions_still_mean_the_same_to_the_interpreter(name):
    from tilesmith.target import Target
    from tilesmith.tir.interpreter import run
    from tilesmith.tir.transform import LowerIntrin, VectorizeLoop

    arity = 2 if name in ("pow", "atan2") else 1
    function = function_of(name, arity, count=16).with_attr("target", Target("llvm"))
    module = ts.IRModule({"main": function})
    lowered = LowerIntrin()(VectorizeLoop()(module))["main"]
    x = np.linspace(0.2, 3.2, 16).astype("f4")
    inputs, first, second = [x, x[::-1].copy()][:arity], np.zeros(16, "f4"), np.zeros(16, "f4")
    run(function, *inputs, first)
    run(lowered, *inputs, second)
    np.testing.assert_allclose(second, first, rtol=1e-6)
