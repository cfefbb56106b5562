import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesmith.runtime.dtype import DataType, DataTypeCode
from tilesmith.support.errors import TypeMismatchError

RECORDS = [  # name, code, bits, lanes, nbytes
    ("float32", "float", 32, 1, 4),
    ("float16x8", "float", 16, 8, 16),
    ("bfloat16", "bfloat", 16, 1, 2),
    ("int8", "int", 8, 1, 1),
    ("int4x8", "int", 4, 8, 4),
    ("uint64", "uint", 64, 1, 8),
    ("bool", "bool", 1, 1, 1),
    ("boolx4", "bool", 1, 4, 4),
    ("handle", "handle", 64, 1, 8),
    ("void", "void", 0, 1, 0),
    ("float8_e4m3fn", "float8_e4m3fn", 8, 1, 1),
    ("float8_e5m2x4", "float8_e5m2", 8, 4, 4),
    ("float4_e2m1fn", "float4_e2m1fn", 4, 1, 1),
]


@pytest.mark.parametrize("name, code, bits, lanes, nbytes", RECORDS)
def test_parts(name, code, bits, lanes, nbytes):
    dtype = DataType(name)
    assert (dtype.code, dtype.bits, dtype.lanes, dtype.nbytes) == (code, bits, lanes, nbytes)
    assert dtype == name and hash(dtype) == hash(name)
    assert DataType(name) is dtype and DataType(dtype) is dtype
    assert dtype.itemsize == nbytes
    assert dtype.is_vector == (lanes > 1)
    assert dtype.with_lanes(lanes) is dtype
    assert dtype.element.lanes == 1 and dtype.with_lanes(1) is dtype.element
    assert dtype.element.with_lanes(lanes) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype and copy.copy(dtype) is dtype
    if code in ("int", "uint", "float", "bfloat"):
        assert DataType.make(code, bits, lanes) is dtype
        assert dtype.with_bits(bits) is dtype


def test_predicates():
    names = ["is_float", "is_int", "is_uint", "is_integer", "is_bool", "is_handle", "is_void"]
    expected = {
        "float32": ["is_float"],
        "bfloat16": ["is_float"],
        "float8_e5m2": ["is_float"],
        "int32": ["is_int", "is_integer"],
        "uint8x4": ["is_uint", "is_integer"],
        "bool": ["is_bool"],
        "handle": ["is_handle"],
        "void": ["is_void"],
    }
    for dtype, true in expected.items():
        assert [name for name in names if getattr(DataType(dtype), name)] == true


@pytest.mark.parametrize(
    "other, name",
    [
        (np.float32, "float32"),
        (np.dtype("int8"), "int8"),
        (np.bool_, "bool"),
        (bool, "bool"),
        (int, "int32"),
        (float, "float32"),
        ("uint1", "bool"),
        ("float", "float32"),
        ("", "void"),
        ("e4m3_float8", "float8_e4m3fn"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype(ml_dtypes.int4), "int4"),
        (np.zeros(1, "int16"), "int16"),
    ],
)
def test_other_spellings(other, name):
    assert DataType(other) is DataType(name)
    assert DataType.of(other) is DataType(name)


@pytest.mark.parametrize(
    "name",
    ["bool", "int8", "uint32", "float16", "float64", "bfloat16", "float8_e4m3fn", "int4"],
)
def test_numpy_round_trip(name):
    assert DataType(DataType(name).numpy()) is DataType(name)


def test_vectors_are_subarrays_to_numpy():
    assert np.zeros(3, DataType("float32x4").numpy()).shape == (3, 4)


@pytest.mark.parametrize(
    "bad", ["flot32", "float31", "int0", "int32x0", "x4", "int999", "complex64", None, 3]
)
def test_unknown(bad):
    with pytest.raises(TypeMismatchError, match="data type"):
        DataType(bad)


@pytest.mark.parametrize("name", ["handle", "void", "float128x2"])
def test_no_numpy_dtype(name):
    if name == "float128x2" and hasattr(np, "float128"):
        pytest.skip("this machine has it")
    with pytest.raises(TypeMismatchError):
        DataType(name).numpy()


@given(st.sampled_from(["int", "uint"]), st.sampled_from([1, 4, 8, 16, 32, 64]))
def test_bounds_of_integers(code, bits):
    dtype = DataType(f"{code}{bits}")
    if bits in (8, 16, 32, 64):
        info = np.iinfo(dtype.numpy())
        assert (dtype.min_value, dtype.max_value) == (info.min, info.max)
    assert dtype.max_value - dtype.min_value == 2**bits - 1
    with pytest.raises(TypeMismatchError):
        assert DataType("float32").min_value


def test_codes_are_dlpack_numbers():
    assert DataType("float32").type_code == DataTypeCode.FLOAT == 2
    assert DataType("bool").type_code == DataTypeCode.BOOL == 6
    assert DataType("float8_e4m3fn").type_code == DataTypeCode.E4M3FNFloat == 10
