"""Floats of 8 bits, integers of fewer than 8 bits: every code, every access, against ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

import tilesmith
from tests.codegen.harness import Compiled, kernel, run_elementwise
from tilesmith import tir
from tilesmith.ir import Broadcast, Cast, Ramp, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import pack, unpack
from tilesmith.tir import (
    Allocate,
    AllocateConst,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    decl_buffer,
    stmt_seq,
)

FLOAT8 = [
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip
PACKED = ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"]


def cast_to(dtype):
    return lambda x: Cast(DataType(dtype).with_lanes(x.dtype.lanes), x)


def same_codes(got, expected):
    """Equal bit by bit; a NaN may have any sign and digits."""
    nan = np.isnan(expected.astype("f4"))
    np.testing.assert_array_equal(np.isnan(got.astype("f4")), nan)
    bits = f"u{expected.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(bits)[~nan], expected.view(bits)[~nan])


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_float8_both_ways(dtype, lanes):
    kind = DataType(dtype).numpy()
    codes = np.arange(256, dtype="u1").view(kind)
    back = run_elementwise(cast_to("float32"), [codes], "float32", lanes)
    same_codes(back, codes.astype("f4"))
    # all patterns of the upper 13 bits, random ones, and the halves between neighbours
    random = np.random.default_rng(0)
    bits = np.concatenate(
        [np.arange(1 << 13) << 19, random.integers(0, 1 << 32, 8192), np.arange(1 << 14) << 18]
    )
    values = bits.astype("u4").view("f4")
    with np.errstate(all="ignore"):
        same_codes(run_elementwise(cast_to(dtype), [values], dtype, lanes), values.astype(kind))


@pytest.mark.parametrize("dtype", FLOAT8[:-1])
def test_float8_arithmetic_is_rounded_once(dtype):
    kind = DataType(dtype).numpy()
    random = np.random.default_rng(1)
    a, b = random.standard_normal((2, 64)).astype("f4").astype(kind)
    for lanes in (1, 8):
        for operator, numpy_operator in ((tir.Add, np.add), (tir.Mul, np.multiply)):
            got = run_elementwise(operator, [a, b], dtype, lanes)
            same_codes(got, numpy_operator(a.astype("f4"), b.astype("f4")).astype(kind))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", *FLOAT8[:-1]])
@pytest.mark.parametrize("operator", [tir.Mul, tir.Add, tir.Max])
def test_constants_are_rounded_to_their_dtype(dtype, operator):
    """0.7 is no number of these dtypes: the nearest one is what takes part."""
    kind = DataType(dtype).numpy()
    values = (np.random.default_rng(2).standard_normal(64) * 3).astype(kind)
    got = run_elementwise(lambda x: operator(x, const(0.7, x.dtype)), [values], dtype, 1)
    functions = {tir.Mul: np.multiply, tir.Add: np.add, tir.Max: np.maximum}
    constant = np.array(0.7, kind).astype("f4")
    same_codes(got, functions[operator](values.astype("f4"), constant).astype(kind))


@pytest.mark.parametrize("target", ["bfloat16", "float16"])
def test_integers_become_narrow_floats_with_one_rounding(target):
    """16777729 lies just above the middle between two bfloat16: by way of float32 it is lost."""
    values = np.array([16777729, 33685505, -16777729, 2049, 4097, 65519, 65520, 1], "i4")
    got = run_elementwise(cast_to(target), [values], target, 1)
    expected = values.astype("f8")
    with np.errstate(invalid="ignore"):
        candidates = np.arange(1 << 16, dtype="u2").view(DataType(target).numpy()).astype("f8")
    candidates = candidates[np.isfinite(candidates)]
    for value, found in zip(expected, got.astype("f8")):
        if np.isfinite(found):
            assert abs(found - value) == np.abs(candidates - value).min()


def packed_values(dtype, count, seed=0):
    kind = DataType(dtype)
    bytes_ = np.random.default_rng(seed).integers(0, 256, count, dtype="u1")
    return unpack(pack(bytes_, kind), kind, (count,))


def copy_function(dtype, index, lanes, count, extent, kind=ForKind.SERIAL, predicate=None):
    """`b[index] = a[index]` for each `i < extent`; `index` and `predicate` are functions of i."""
    a, b = decl_buffer((count,), dtype, "a"), decl_buffer((count,), dtype, "b")
    i = Var("i", "int32")
    mask = None if predicate is None else predicate(i)
    load = BufferLoad(a, [index(i)], mask)
    return kernel([a, b], For(i, 0, extent, kind, BufferStore(b, load, [index(i)], mask)))


@pytest.mark.parametrize("dtype", PACKED)
@pytest.mark.parametrize(
    "index, lanes, extent",
    [
        (lambda i: i, 1, 31),
        (lambda i: Ramp(i * 8, 1, 8), 8, 3),
        (lambda i: Ramp(i * 8 + 3, 1, 8), 8, 3),  # begins inside a byte
        (lambda i: Ramp(i, 3, 8), 8, 3),
        (lambda i: Ramp(30 - i, -1, 4), 4, 5),
    ],
)
def test_packed_elements_are_copied(dtype, index, lanes, extent):
    count, kind = 32, DataType(dtype)
    values, before = packed_values(dtype, count), packed_values(dtype, count, 1)
    expected = before.copy()
    for i in range(extent):
        place = index(const(i, "int32"))
        if lanes == 1:
            picked = [place.value]
        else:
            base = tilesmith.arith.Analyzer().simplify(place.base).value
            picked = base + place.stride.value * np.arange(lanes)
        expected[picked] = values[picked]
    source, target = pack(values, kind), pack(before, kind)
    assert Compiled(copy_function(dtype, index, lanes, count, extent))(source, target) == 0
    np.testing.assert_array_equal(target, pack(expected, kind))


def test_masks_of_packed_elements():
    values, before = packed_values("int4", 32), packed_values("int4", 32, 1)
    source, target = pack(values, DataType("int4")), pack(before, DataType("int4"))
    function = copy_function(
        "int4", lambda i: Ramp(i * 8, 1, 8), 8, 32, 5,
        predicate=lambda i: tir.LT(Ramp(i * 8, 1, 8), Broadcast(const(29, "int32"), 8)),
    )  # fmt: skip
    assert Compiled(function)(source, target) == 0
    expected = before.copy()
    expected[:29] = values[:29]
    np.testing.assert_array_equal(target, pack(expected, DataType("int4")))


def test_threads_may_share_a_byte():
    values = packed_values("uint2", 999)
    source, target = pack(values, DataType("uint2")), np.zeros(250, "u1")
    function = copy_function("uint2", lambda i: i, 1, 999, 999, ForKind.PARALLEL)
    compiled = Compiled(function)
    for _ in range(20):
        target[:] = 0
        assert compiled(source, target) == 0
        np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_arithmetic_of_few_bits_wraps(dtype):
    kind, count = DataType(dtype), 64
    a, b = packed_values(dtype, count), packed_values(dtype, count, 1)
    wide = [part.astype("i4") for part in (a, b)]
    low = wide[0] * wide[1] - 3
    expected = ((low - kind.min_value) % (1 << kind.bits) + kind.min_value).astype("i4")
    for lanes in (1, 8):
        first, second = decl_buffer((count,), dtype, "a"), decl_buffer((count,), dtype, "b")
        out = decl_buffer((count,), "int32", "out")
        i = Var("i", "int32")
        index = Ramp(i * lanes, 1, lanes) if lanes > 1 else i
        x, y = BufferLoad(first, [index]), BufferLoad(second, [index])
        three = const(3 % (1 << kind.bits) if kind.is_uint else -1 if kind.bits == 2 else 3, dtype)
        value = Cast(DataType("int32").with_lanes(lanes), x * y - three)
        body = For(i, 0, count // lanes, ForKind.SERIAL, BufferStore(out, value, [index]))
        got = np.zeros(count, "i4")
        assert Compiled(kernel([first, second, out], body))(pack(a, kind), pack(b, kind), got) == 0
        np.testing.assert_array_equal(got, expected)


def test_packed_memory_inside_a_function():
    constant = packed_values("int4", 9)
    table, memory = decl_buffer((9,), "int4", "table"), decl_buffer((9,), "int4", "memory")
    out, i = decl_buffer((9,), "int32", "out"), Var("i", "int32")
    j = Var("j", "int32")
    body = stmt_seq(
        For(i, 0, 9, ForKind.SERIAL, BufferStore(memory, BufferLoad(table, [i]), [i])),
        For(j, 0, 9, ForKind.SERIAL, BufferStore(out, Cast("int32", BufferLoad(memory, [j])), [j])),
    )
    body = Allocate(memory.data, "int4", [9], const(True, "bool"), body)
    body = AllocateConst(table.data, "int4", [9], constant, body)
    got = np.zeros(9, "i4")
    assert Compiled(kernel([out], body))(got) == 0
    np.testing.assert_array_equal(got, constant.astype("i4"))


def test_tensors_of_packed_elements():
    values = np.arange(-8, 7).reshape(3, 5).astype("i1").astype(ml_dtypes.int4)
    tensor = tilesmith.nd.array(values)
    assert tensor.nbytes == 8 and tensor.shape == (3, 5)
    np.testing.assert_array_equal(tensor.numpy(), values)
    other = tilesmith.nd.empty((3, 5), "int4").copyfrom(values[::-1])
    np.testing.assert_array_equal(np.asarray(other), values[::-1])
    tensor.copyto(other)
    np.testing.assert_array_equal(other.numpy(), values)
    turned = tensor._create_view((5, 3))
    np.testing.assert_array_equal(turned.numpy().reshape(-1), values.reshape(-1))
    pairs = tilesmith.nd.array(np.zeros((3, 4), "u1").astype(ml_dtypes.uint4), dtype="uint4x4")
    assert pairs.shape == (3,) and pairs.numpy().shape == (3, 4)
