"""The table of operators and the functions that make calls of them."""

import pytest

from tilesmith import tir
from tilesmith.ir import (
    Broadcast,
    Call,
    CallEffectKind,
    FloatImm,
    GlobalVar,
    IntImm,
    Op,
    Select,
    StringImm,
    Var,
    const,
    is_const,
)
from tilesmith.ir.intrinsic_table import INTRINSICS
from tilesmith.ir.intrinsics import effect_of
from tilesmith.support.errors import TypeMismatchError
from tilesmith.tir import IterVar, Reduce, decl_buffer

X = Var("x", "float32")
N = Var("n", "int32")


@pytest.mark.parametrize("record", INTRINSICS, ids=lambda record: record.name)
def test_each_operator_is_registered(record):
    op = Op.get("tir." + record.name)
    assert op.get_attr("TCallEffectKind") is record.effect
    assert op.has_attr("TVectorizable") == record.vectorizable
    assert op.get_attr("TScriptPrinterName") == (record.script_name or record.name)


def test_names_are_unique():
    assert len({record.name for record in INTRINSICS}) == len(INTRINSICS)


UNARY = (
    "exp exp2 exp10 erf tanh sigmoid log log2 log10 log1p tan cos cosh acos acosh sin sinh asin "
    "asinh atan atanh sqrt rsqrt"
).split()


@pytest.mark.parametrize("name", UNARY)
def test_mathematics(name):
    function = getattr(tir, name)
    call = function(X)
    assert isinstance(call, Call) and call.op is Op.get("tir." + name) and call.dtype == "float32"
    assert function(1.5).args[0].dtype == "float32"
    assert function(2).dtype == "float32"  # integers become floats
    assert function(N).dtype == "float32"
    assert function(Var("l", "int64")).dtype == "float64"
    assert function(const(1.0, "float16x4")).dtype == "float16x4"
    with pytest.raises(TypeMismatchError):
        function(Var("p", "handle"))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "nearbyint"])
def test_rounding_leaves_integers(name):
    assert getattr(tir, name)(N) is N
    assert getattr(tir, name)(X).dtype == "float32"


@pytest.mark.parametrize(
    "name", ["atan2", "fmod", "hypot", "copysign", "nextafter", "power", "pow"]
)
def test_functions_of_two(name):
    function = getattr(tir, name)
    assert function(X, 2).args[1].dtype == "float32"
    assert function(2.0, X).dtype == "float32"
    assert function(X, const(1.0, "float32x4")).dtype == "float32x4"


def test_absolute_values_and_kinds_of_numbers():
    assert tir.abs(X).op is Op.get("tir.fabs") and tir.fabs(X).op is Op.get("tir.fabs")
    assert isinstance(tir.abs(N), Select)
    unsigned = Var("u", "uint8")
    assert tir.abs(unsigned) is unsigned
    assert is_const(tir.isnan(N), 0) and is_const(tir.isfinite(N), 1) and is_const(tir.isinf(N), 0)
    assert tir.isnan(const(1.0, "float32x4")).dtype == "boolx4"


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int8", -128, 127), ("uint16", 0, 65535), ("bool", 0, 1), ("int64", -(2**63), 2**63 - 1),
        ("float16", -65504.0, 65504.0), ("float8_e4m3fn", -448.0, 448.0),
    ],
)  # fmt: skip
def test_limits(dtype, low, high):
    assert tir.min_value(dtype).value == low and tir.max_value(dtype).value == high
    assert tir.min_value(dtype).dtype == dtype


def test_infinity():
    assert tir.infinity("float32").value == float("inf")
    assert isinstance(tir.infinity("float32x4"), Broadcast)


def test_choice():
    call = tir.if_then_else(N < 3, X, 0)
    assert call.dtype == "float32" and call.args[2].dtype == "float32"
    assert tir.if_then_else(N, 1, 2.5).dtype == "float32"
    assert str(tir.if_then_else(True, 1, X)) == "T.float32(1.0)"  # it is decided
    with pytest.raises(TypeMismatchError, match="Select"):
        tir.if_then_else(const(True, "boolx4"), X, X)
    assert tir.likely(N < 3).dtype == "bool"
    assert tir.all(N < 3, True).dtype == "bool"
    assert is_const(tir.any(), 0)


def test_divisions():
    assert str(tir.div(N, 2)) == str(tir.truncdiv(N, 2))
    assert tir.div(X, 2).dtype == "float32"
    assert is_const(tir.ceildiv(const(7, "int32"), 2), 4)
    assert str(tir.indexmod(N, 4)) == str(N % 4)


def test_calls():
    call = tir.call_extern("int32", "f", 1, X, "text")
    assert call.args[0].value == "f" and isinstance(call.args[3], StringImm)
    assert tir.call_llvm_pure_intrin("float32", "llvm.fabs", X).args == (StringImm("llvm.fabs"), X)
    counted = tir.call_llvm_pure_intrin("float32", "llvm.fabs", const(1, "uint32"), X)
    assert counted.args[1] is X and len(counted.args) == 2
    assert tir.call_intrin("float32", "tir.exp", X).op is Op.get("tir.exp")
    assert tir.call_tir(GlobalVar("f"), X).dtype == "void"
    assert isinstance(tir.ret(3).args[0], IntImm) and isinstance(tir.ret(3.0).args[0], FloatImm)


def test_buffers_as_arguments():
    a = decl_buffer((3, N), "int8", strides=[N, 1])
    array = tir.call_packed("f", a).args[1]
    assert array.op is Op.get("tir.tvm_stack_make_array")
    data, shape, strides, ndim, zero, offset = array.args
    assert data is a.data and shape.args == a.shape and strides.args == a.strides
    assert is_const(ndim, 2) and zero.dtype == "int8" and offset is a.elem_offset
    address = tir.address_of(a)
    assert address.args[0].buffer is a and all(is_const(i, 0) for i in address.args[0].indices)
    with pytest.raises(TypeMismatchError, match="name"):
        tir.call_packed(X)


def test_effects():
    assert effect_of(tir.exp(X)) is CallEffectKind.Pure
    assert effect_of(tir.call_extern("int32", "f")) is CallEffectKind.UpdateState
    assert effect_of(tir.call_pure_extern("int32", "f")) is CallEffectKind.Pure
    assert effect_of(tir.call_tir(GlobalVar("f"))) is CallEffectKind.UpdateState


K = IterVar((0, 8), "k", IterVar.CommReduce)


def test_reductions():
    total = tir.sum(X, axis=K)
    assert isinstance(total, Reduce) and is_const(total.combiner.identity_element[0], 0)
    least = tir.min(X, axis=[K], where=K < 3)
    assert str(least.combiner.identity_element[0]) == str(tir.max_value("float32"))
    assert least.condition.dtype == "bool"
    assert tir.sum(N, axis=K, init=3).init[0].dtype == "int32"
    with pytest.raises(TypeMismatchError, match="not a reduction axis"):
        tir.sum(X, axis=IterVar((0, 8), "i", 0))


def test_smallest_and_largest_of_several():
    assert str(tir.max(X, 0)) == str(tir.Max(X, const(0.0, "float32")))
    assert is_const(tir.min(3, 2, 5), 2)
    assert is_const(tir.max(3, 2), 3)


def test_reducers_of_tuples():
    def combine(a, b):
        return tir.Select(a[0] > b[0], a[0], b[0]), tir.Select(a[0] > b[0], a[1], b[1])

    argmax = tir.comm_reducer(
        combine, lambda t0, t1: (tir.min_value(t0), const(-1, t1)), name="argmax"
    )
    value, index = argmax((X, N), axis=K)
    assert (value.dtype, index.dtype) == ("float32", "int32")
    assert value.combiner is index.combiner and index.value_index == 1
    with pytest.raises(TypeMismatchError, match="as many results"):
        tir.comm_reducer(lambda a, b: (a[0],), lambda *t: (0, 0))((X, N), axis=K)
