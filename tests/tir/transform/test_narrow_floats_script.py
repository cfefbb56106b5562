"""bfloat16 and float8: arithmetic in wider floats, storage as integers."""

import ml_dtypes
import numpy as np
import pytest

from tests.tir.transform.harness import apply, arrays_for, outputs
from tilesmith.ir import Cast
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.runtime.dtype import DataType
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, UnsupportedError
from tilesmith.tir import For, ForKind, PrimFunc, Var, decl_buffer, transform
from tilesmith.tir.interpreter import run
from tilesmith.tir.stmt import BufferStore
from tilesmith.tir.transform.dtypes.float_bits import FORMATS, decode, encode, storage_dtype


def as_bits(array):
    return array.view(f"uint{array.itemsize * 8}")


def loop(count, source, target, value):
    i = Var("i", "int32")
    body = For(i, 0, count, ForKind.SERIAL, BufferStore(target, value(source[i]), [i]))
    return PrimFunc([source, target], body, attrs={"global_symbol": "main"})


@pytest.mark.parametrize("name", FORMATS)
def test_codes_are_decoded(name):
    dtype = DataType(name)
    stored = storage_dtype(dtype)
    count = min(1 << dtype.bits, 4096)
    source = decl_buffer((count,), stored, "A")
    target = decl_buffer((count,), "float32", "B")
    codes = np.linspace(0, (1 << dtype.bits) - 1, count).astype(stored.numpy())
    got = np.zeros(count, "float32")
    run(loop(count, source, target, lambda code: decode(code, dtype)), codes, got)
    np.testing.assert_array_equal(got, codes.view(dtype.numpy()).astype("float32"))


def values_around(dtype):
    """Values that are hard to round: halves between codes, limits, very small and very large."""
    codes = np.arange(1 << min(dtype.bits, 8)).astype(f"uint{dtype.bits}")
    if dtype.bits == 16:
        codes = (np.arange(0, 1 << 16, 37)).astype("uint16")
    exact = codes.view(dtype.numpy()).astype("float32")
    exact = np.sort(exact[np.isfinite(exact)])
    with np.errstate(over="ignore"):
        halves = (exact[:-1] + exact[1:]) / np.float32(2)
    random = np.random.default_rng(0)
    wild = random.standard_normal(500).astype("float32") * np.exp2(
        random.integers(-30, 30, 500)
    ).astype("float32")
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38], "float32")
    up, down = np.nextafter(halves, np.float32(np.inf)), np.nextafter(halves, np.float32(-np.inf))
    return np.concatenate([exact, halves, up, down, wild, special])


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "float8_e8m0fnu"])
def test_values_are_rounded_to_the_nearest_code(name):
    dtype = DataType(name)
    values = values_around(dtype)
    count = len(values)
    source = decl_buffer((count,), "float32", "A")
    target = decl_buffer((count,), storage_dtype(dtype), "B")
    got = np.zeros(count, storage_dtype(dtype).numpy())
    run(loop(count, source, target, lambda value: encode(value, dtype)), values, got)
    with np.errstate(over="ignore", invalid="ignore"):
        want = values.astype(dtype.numpy())
    is_nan = np.isnan(want.astype("float32"))
    np.testing.assert_array_equal(np.isnan(got.view(dtype.numpy()).astype("float32")), is_nan)
    np.testing.assert_array_equal(got[~is_nan], as_bits(want)[~is_nan])


def test_powers_of_two_as_scales():
    dtype = DataType("float8_e8m0fnu")
    values = np.array([1.0, 2.0, 0.5, 3.1, 1.4, np.nan, 2.0**127, 2.0**-127], "float32")
    source = decl_buffer((len(values),), "float32", "A")
    target = decl_buffer((len(values),), "uint8", "B")
    got = np.zeros(len(values), "uint8")
    run(loop(len(values), source, target, lambda value: encode(value, dtype)), values, got)
    np.testing.assert_array_equal(got, as_bits(values.astype(ml_dtypes.float8_e8m0fnu)))


# bfloat16.


@T.prim_func
def sum_of_products(
    A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16"), C: T.Buffer((16,), "bfloat16")
):
    T.func_attr({"global_symbol": "main"})
    for i in range(16):
        C[i] = T.exp(A[i] * B[i] + T.bfloat16(1)) - T.max(A[i], B[i])


def test_bfloat16_is_computed_in_float32():
    @T.prim_func
    def expected(
        A: T.Buffer((16,), "bfloat16"),
        B: T.Buffer((16,), "bfloat16"),
        C: T.Buffer((16,), "bfloat16"),
    ):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            C[i] = T.Cast(
                "bfloat16",
                T.exp(T.Cast("float32", A[i]) * T.Cast("float32", B[i]) + T.float32(1))
                - T.max(T.Cast("float32", A[i]), T.Cast("float32", B[i])),
            )

    got = apply(sum_of_products, transform.BF16ComputeLegalize())
    assert_structural_equal(got, expected)
    arrays = arrays_for(got)
    a, b = (array.astype("float32") for array in arrays[:2])
    want = (np.exp(a * b + 1) - np.maximum(a, b)).astype(ml_dtypes.bfloat16).astype("float32")
    found = outputs(got, arrays)[2].astype("float32")
    np.testing.assert_allclose(found, want, rtol=0.008)
    assert (found == want).mean() > 0.8


def test_memory_of_the_function_becomes_wide():
    @T.prim_func
    def before(A: T.Buffer((16,), "bfloat16"), C: T.Buffer((1,), "bfloat16")):
        T.func_attr({"global_symbol": "main"})
        S = T.alloc_buffer((1,), "bfloat16")
        S[0] = T.bfloat16(0)
        for i in range(16):
            x: T.bfloat16 = A[i] * A[i]
            S[0] = S[0] + x
        C[0] = S[0]

    @T.prim_func
    def expected(A: T.Buffer((16,), "bfloat16"), C: T.Buffer((1,), "bfloat16")):
        T.func_attr({"global_symbol": "main"})
        S = T.alloc_buffer((1,), "float32")
        S[0] = T.float32(0)
        for i in range(16):
            x: T.float32 = T.Cast("float32", A[i]) * T.Cast("float32", A[i])
            S[0] = S[0] + x
        C[0] = T.Cast("bfloat16", S[0])

    got = apply(before, transform.BF16ComputeLegalize())
    assert_structural_equal(got, expected)
    arrays = arrays_for(got)
    want = (arrays[0].astype("float32") ** 2).sum()
    assert float(outputs(got, arrays)[1][0]) == float(ml_dtypes.bfloat16(want))


def test_values_that_are_only_moved_stay_narrow():
    @T.prim_func
    def func(A: T.Buffer((16,), "bfloat16"), C: T.Buffer((16,), "bfloat16")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            C[i] = T.if_then_else(i < 4, A[i], A[15 - i])

    assert apply(func, transform.BF16ComputeLegalize()) is func


@pytest.mark.parametrize("lanes", [1, 4])
def test_storage_of_bfloat16(lanes):
    @T.prim_func
    def scalar(A: T.Buffer((16,), "bfloat16"), C: T.Buffer((16,), "bfloat16")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            C[i] = T.Cast("bfloat16", T.Cast("float32", A[i]) * T.float32(1.7))

    @T.prim_func
    def vector(A: T.Buffer((16,), "bfloat16"), C: T.Buffer((16,), "bfloat16")):
        T.func_attr({"global_symbol": "main"})
        for i in T.vectorized(16):
            C[i] = T.Cast("bfloat16", T.Cast("float32", A[i]) * T.float32(1.7))

    func = scalar if lanes == 1 else apply(vector, transform.VectorizeLoop())
    got = apply(func, transform.BF16StorageLegalize())
    assert "bfloat16" not in got.body.script().split("decl_buffer")[-1]
    arrays = arrays_for(func)
    np.testing.assert_array_equal(
        as_bits(outputs(got, arrays)[1]), as_bits(outputs(func, arrays)[1])
    )


def test_arithmetic_has_to_be_gone_before_storage_changes():
    with pytest.raises(UnsupportedError, match="arithmetic"):
        apply(sum_of_products, transform.BF16StorageLegalize())


def test_the_older_steps_round_after_each_operation():
    promoted = apply(sum_of_products, transform.BF16Promote())
    arrays = arrays_for(promoted)
    want = outputs(sum_of_products, arrays)[2]
    np.testing.assert_array_equal(as_bits(outputs(promoted, arrays)[2]), as_bits(want))
    eliminated = apply(promoted, transform.BF16CastElimination())

    def casts(node):
        return isinstance(node, Cast) + sum(casts(child) for child in node.children())

    assert casts(eliminated.body) < casts(promoted.body)
    lowered = apply(eliminated, transform.BF16TypeLowering())
    whole = apply(sum_of_products, transform.BF16Legalize())
    assert_structural_equal(lowered, whole)
    np.testing.assert_array_equal(
        as_bits(outputs(whole, arrays)[2]), as_bits(outputs(eliminated, arrays)[2])
    )


# float8.


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("wide", ["float16", "float32"])
def test_float8(kind, wide):
    a, b = decl_buffer((32,), kind, "A"), decl_buffer((32,), kind, "B")
    c = decl_buffer((32,), kind, "C")
    i = Var("i", "int32")
    body = For(i, 0, 32, ForKind.SERIAL, BufferStore(c, a[i] * b[i] + a[i], [i]))
    func = PrimFunc([a, b, c], body, attrs={"global_symbol": "main"})
    computed = apply(func, transform.FP8ComputeLegalize(wide))
    assert f'T.Cast("{wide}"' in computed.script()
    stored = apply(computed, transform.FP8StorageLegalize())
    arrays = arrays_for(func)
    first, second = (array.astype(wide) for array in arrays[:2])
    want = (first * second + first).astype(DataType(kind).numpy())
    for new in (computed, stored):
        np.testing.assert_array_equal(as_bits(outputs(new, arrays)[2]), as_bits(want))


def test_float8_is_not_computed_in_anything():
    with pytest.raises(ConfigError, match="float64"):
        transform.FP8ComputeLegalize("float64")
