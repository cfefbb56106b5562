"""The operators that a scalar ``Call`` can name, and the functions that make such calls.

``INTRINSICS`` has one record per operator: its name, what evaluating it may do, whether it works
lane by lane on vectors, its name in TVMScript, and whether the script writes the dtype of the
result as the first or last argument. Importing this file registers them all.

The functions accept Python scalars and fold nothing beyond what Python operators do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.ir import operators
from tilesmith.ir.expr import (
    Call,
    FloatImm,
    GlobalVar,
    IntImm,
    Or,
    PrimExpr,
    Select,
    StringImm,
    convert,
)
from tilesmith.ir.op import CallEffectKind, Op
from tilesmith.ir.operators import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    const,
    floordiv,
    floormod,
    match_types,
    shift_left,
    shift_right,
    truncdiv,
    truncmod,
)  # fmt: skip
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TypeMismatchError

__all__ = [
    "TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace", "abs", "acos", "acosh", "all", "any",
    "anylist_getitem", "anylist_resetitem", "anylist_setitem_call_cpacked",
    "anylist_setitem_call_packed", "asin", "asinh", "assume", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "call_extern", "call_intrin",
    "call_llvm_intrin", "call_llvm_pure_intrin", "call_pure_extern", "call_tir", "cast", "ceil",
    "ceildiv", "clz", "copysign", "cos", "cosh", "div", "end_profile_intrinsic", "erf", "exp",
    "exp10", "exp2", "fabs", "floor", "floordiv", "floormod", "fmod", "get_active_lane_mask",
    "get_vscale_expr", "handle_add_byte_offset", "hypot", "if_then_else", "indexdiv", "indexmod",
    "infinity", "isfinite", "isinf", "isnan", "isnullptr", "large_uint_imm", "ldexp", "likely",
    "log", "log10", "log1p", "log2", "lookup_param", "max_value", "min_value", "nearbyint",
    "nextafter", "popcount", "pow", "power", "prefetch", "q_multiply_shift",
    "q_multiply_shift_per_axis", "reinterpret", "ret", "round", "rsqrt", "shift_left",
    "shift_right", "sigmoid", "sin", "sinh", "sqrt", "start_profile_intrinsic", "tan", "tanh",
    "trunc", "truncdiv", "truncmod", "tvm_access_ptr", "tvm_check_return", "tvm_stack_alloca",
    "tvm_stack_make_array", "tvm_stack_make_shape", "tvm_storage_sync", "tvm_struct_get",
    "tvm_struct_set", "tvm_thread_allreduce", "tvm_thread_invariant", "tvm_throw_last_error",
    "tvm_tuple", "tvm_warp_activemask", "tvm_warp_shuffle", "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up", "type_annotation", "undef", "vscale",
]  # fmt: skip

PURE = CallEffectKind.Pure
READ = CallEffectKind.ReadState
UPDATE = CallEffectKind.UpdateState
ANNOTATION = CallEffectKind.ExprAnnotation
ARGUMENT = CallEffectKind.SpecialCallArg
EMBED = CallEffectKind.EmbedInfo
JUMP = CallEffectKind.ControlJump


class Intrinsic(NamedTuple):
    """One operator; without a ``script_name`` the script says the name without ``tir.``."""

    name: str
    effect: CallEffectKind
    vectorizable: bool = False
    script_name: str = ""
    dtype_place: str = ""  # where the script writes the dtype of the result: "", "first" or "last"


INTRINSICS: tuple[Intrinsic, ...] = (
    # mathematics, lane by lane
    Intrinsic("acos", PURE, True),
    Intrinsic("acosh", PURE, True),
    Intrinsic("asin", PURE, True),
    Intrinsic("asinh", PURE, True),
    Intrinsic("atan", PURE, True),
    Intrinsic("atan2", PURE, True),
    Intrinsic("atanh", PURE, True),
    Intrinsic("ceil", PURE, True),
    Intrinsic("copysign", PURE, True),
    Intrinsic("cos", PURE, True),
    Intrinsic("cosh", PURE, True),
    Intrinsic("erf", PURE, True),
    Intrinsic("exp", PURE, True),
    Intrinsic("exp10", PURE, True),
    Intrinsic("exp2", PURE, True),
    Intrinsic("fabs", PURE, True, "fabs"),
    Intrinsic("floor", PURE, True),
    Intrinsic("fma", PURE, True),  # a * b + c rounded once
    Intrinsic("fmod", PURE, True),  # remainder of a division rounded toward zero, as in C
    Intrinsic("hypot", PURE, True),
    Intrinsic("isfinite", PURE, True),
    Intrinsic("isinf", PURE, True),
    Intrinsic("isnan", PURE, True),
    Intrinsic("ldexp", PURE, True),
    Intrinsic("log", PURE, True),
    Intrinsic("log10", PURE, True),
    Intrinsic("log1p", PURE, True),
    Intrinsic("log2", PURE, True),
    Intrinsic("nearbyint", PURE, True),  # halves to the even neighbour
    Intrinsic("nextafter", PURE, True),
    Intrinsic("pow", PURE, True),
    Intrinsic("round", PURE, True),  # halves away from zero, as in C
    Intrinsic("rsqrt", PURE, True),
    Intrinsic("sigmoid", PURE, True),
    Intrinsic("sin", PURE, True),
    Intrinsic("sinh", PURE, True),
    Intrinsic("sqrt", PURE, True),
    Intrinsic("tan", PURE, True),
    Intrinsic("tanh", PURE, True),
    Intrinsic("trunc", PURE, True),
    # bits
    Intrinsic("bitwise_and", PURE, True),
    Intrinsic("bitwise_not", PURE, True),
    Intrinsic("bitwise_or", PURE, True),
    Intrinsic("bitwise_xor", PURE, True),
    Intrinsic("clz", PURE, True),
    Intrinsic("popcount", PURE, True),
    Intrinsic("shift_left", PURE, True),
    Intrinsic("shift_right", PURE, True),
    Intrinsic("reinterpret", PURE, True, "", "first"),
    Intrinsic("large_uint_imm", PURE),
    Intrinsic("q_multiply_shift", PURE, True),
    Intrinsic("q_multiply_shift_per_axis", PURE, True),
    Intrinsic("dp4a", PURE, False, "", "first"),
    # choice and hints
    Intrinsic("if_then_else", PURE),
    Intrinsic("likely", ANNOTATION, True),
    Intrinsic("assume", EMBED),
    Intrinsic("undef", READ),
    Intrinsic("tvm_thread_invariant", PURE),
    Intrinsic("prefetch", UPDATE),
    Intrinsic("isnullptr", PURE),
    Intrinsic("type_annotation", PURE, False, "", "first"),
    # vectors
    Intrinsic("vectorlow", PURE, False, "", "first"),
    Intrinsic("vectorhigh", PURE, False, "", "first"),
    Intrinsic("vectorcombine", PURE, False, "", "first"),
    Intrinsic("vscale", PURE),
    Intrinsic("get_active_lane_mask", PURE, False, "", "first"),
    # memory
    Intrinsic("address_of", PURE),
    Intrinsic("handle_add_byte_offset", PURE),
    Intrinsic("tvm_access_ptr", ARGUMENT),
    Intrinsic("tvm_struct_get", READ, False, "", "last"),
    Intrinsic("tvm_struct_set", UPDATE),
    Intrinsic("lookup_param", UPDATE),
    Intrinsic("tvm_stack_alloca", UPDATE),
    Intrinsic("tvm_stack_make_shape", READ),
    Intrinsic("tvm_stack_make_array", READ),
    Intrinsic("TVMBackendAllocWorkspace", UPDATE),
    Intrinsic("TVMBackendFreeWorkspace", UPDATE),
    Intrinsic("nd_mem_alloc_with_scope", UPDATE),
    Intrinsic("texture2d_store", UPDATE, True),
    Intrinsic("texture2d_load", UPDATE, True),
    Intrinsic("mem_copy", UPDATE),
    # calls and returns
    Intrinsic("ret", JUMP),
    Intrinsic("call_extern", UPDATE, False, "", "first"),
    Intrinsic("call_pure_extern", PURE, False, "", "first"),
    Intrinsic("call_llvm_intrin", UPDATE, True, "", "first"),
    Intrinsic("call_llvm_pure_intrin", PURE, True, "", "first"),
    Intrinsic("call_spirv_pure_glsl450", PURE, False, "", "first"),
    Intrinsic("tvm_call_packed", UPDATE, False, "call_packed"),
    Intrinsic("tvm_call_cpacked", UPDATE, False, "call_cpacked"),
    Intrinsic("tvm_call_trace_packed", UPDATE),
    Intrinsic("tvm_call_packed_lowered", UPDATE, False, "call_packed_lowered"),
    Intrinsic("tvm_call_cpacked_lowered", UPDATE, False, "call_cpacked_lowered"),
    Intrinsic("tvm_call_trace_packed_lowered", UPDATE),
    Intrinsic("tvm_check_return", UPDATE),
    Intrinsic("tvm_throw_last_error", UPDATE),
    Intrinsic("tvm_context_id", READ),
    Intrinsic("tvm_static_handle", UPDATE),
    Intrinsic("tvm_tuple", EMBED),
    Intrinsic("anylist_getitem", READ),
    Intrinsic("anylist_resetitem", UPDATE),
    Intrinsic("anylist_setitem_call_packed", UPDATE),
    Intrinsic("anylist_setitem_call_cpacked", UPDATE),
    Intrinsic("start_profile_intrinsic", PURE),
    Intrinsic("end_profile_intrinsic", PURE),
    # threads of a GPU
    Intrinsic("tvm_thread_allreduce", UPDATE),
    Intrinsic("tvm_storage_sync", UPDATE),
    Intrinsic("tvm_global_barrier_kinit", UPDATE),
    Intrinsic("tvm_warp_shuffle", UPDATE),
    Intrinsic("tvm_warp_shuffle_up", UPDATE),
    Intrinsic("tvm_warp_shuffle_down", UPDATE),
    Intrinsic("tvm_warp_activemask", UPDATE),
    Intrinsic("create_barriers", UPDATE),
    # matrix units
    Intrinsic("tvm_load_matrix_sync", UPDATE),
    Intrinsic("tvm_mma_sync", UPDATE),
    Intrinsic("tvm_bmma_sync", UPDATE),
    Intrinsic("tvm_fill_fragment", UPDATE),
    Intrinsic("tvm_store_matrix_sync", UPDATE),
    Intrinsic("ptx_mma", UPDATE, False, "", "first"),
    Intrinsic("ptx_mma_sp", UPDATE, False, "", "first"),
    Intrinsic("ptx_ldmatrix", UPDATE, False, "", "first"),
    Intrinsic("mma_store", UPDATE, False, "", "first"),
    Intrinsic("mma_fill", UPDATE, False, "", "first"),
    Intrinsic("ptx_cp_async", UPDATE, False, "", "first"),
    Intrinsic("ptx_cp_async_bulk", UPDATE, False, "", "first"),
    Intrinsic("ptx_commit_group", UPDATE),
    Intrinsic("ptx_wait_group", UPDATE),
    Intrinsic("ptx_cp_async_barrier", UPDATE),
    Intrinsic("ptx_init_barrier_thread_count", UPDATE),
    Intrinsic("ptx_arrive_barrier", UPDATE),
    Intrinsic("ptx_arrive_barrier_expect_tx", UPDATE),
    Intrinsic("ptx_wait_barrier", UPDATE),
    Intrinsic("ptx_ldg32", PURE),
    Intrinsic("make_filled_simdgroup_matrix", UPDATE),
    Intrinsic("simdgroup_load", UPDATE),
    Intrinsic("simdgroup_store", UPDATE),
    Intrinsic("simdgroup_multiply_accumulate", UPDATE),
    # copies in the background
    Intrinsic("dma_copy", UPDATE),
    Intrinsic("dma_wait", UPDATE),
    Intrinsic("dma_start_group", UPDATE),
    Intrinsic("dma_end_group", UPDATE),
)


def _register() -> None:
    for record in INTRINSICS:
        op = Op.register(
            "tir." + record.name,
            TCallEffectKind=record.effect,
            TScriptPrinterName=record.script_name or record.name,
        )
        if record.vectorizable:
            op.set_attr("TVectorizable", True)
        if record.dtype_place:
            op.set_attr("TScriptDtypePrintLocation", record.dtype_place)


_register()


def effect_of(call: Call) -> CallEffectKind:
    """What evaluating a call may do; a call of a function of the module may change memory."""
    if isinstance(call.op, GlobalVar):
        return UPDATE
    return call.op.get_attr("TCallEffectKind", UPDATE)


def _floating(value: Any) -> PrimExpr:
    """An argument of a mathematical function: integers become float32 (float64 from 64 bits)."""
    value = convert(value)
    if value.dtype.is_float:
        return value
    if not (value.dtype.is_integer or value.dtype.is_bool):
        raise TypeMismatchError(f"a number is needed here, got {value.dtype}")
    element = DataType("float64" if value.dtype.bits == 64 else "float32")
    return cast(element.with_lanes(value.dtype.lanes), value)


def _unary(name: str, x: Any) -> PrimExpr:
    x = _floating(x)
    return Call(x.dtype, "tir." + name, (x,))


def _binary(name: str, x1: Any, x2: Any) -> PrimExpr:
    x1, x2 = match_types(convert(x1), x2)
    x1, x2 = _floating(x1), _floating(x2)
    return Call(x1.dtype, "tir." + name, (x1, x2))


def _call(dtype: Any, name: str, *args: Any) -> PrimExpr:
    return Call(dtype, "tir." + name, tuple([convert(arg) for arg in args]))


def _bool_like(value: PrimExpr) -> DataType:
    return DataType("bool").with_lanes(value.dtype.lanes)


# Mathematics.


def exp(x: Any) -> PrimExpr:
    """The exponential of ``x``."""
    return _unary("exp", x)


def exp2(x: Any) -> PrimExpr:
    """Two to the power ``x``."""
    return _unary("exp2", x)


def exp10(x: Any) -> PrimExpr:
    """Ten to the power ``x``."""
    return _unary("exp10", x)


def erf(x: Any) -> PrimExpr:
    """The Gauss error function."""
    return _unary("erf", x)


def tanh(x: Any) -> PrimExpr:
    """The hyperbolic tangent."""
    return _unary("tanh", x)


def sigmoid(x: Any) -> PrimExpr:
    """``1 / (1 + exp(-x))``."""
    return _unary("sigmoid", x)


def log(x: Any) -> PrimExpr:
    """The natural logarithm."""
    return _unary("log", x)


def log2(x: Any) -> PrimExpr:
    """The logarithm to base two."""
    return _unary("log2", x)


def log10(x: Any) -> PrimExpr:
    """The logarithm to base ten."""
    return _unary("log10", x)


def log1p(x: Any) -> PrimExpr:
    """``log(1 + x)``, exact near zero."""
    return _unary("log1p", x)


def tan(x: Any) -> PrimExpr:
    """The tangent."""
    return _unary("tan", x)


def cos(x: Any) -> PrimExpr:
    """The cosine."""
    return _unary("cos", x)


def cosh(x: Any) -> PrimExpr:
    """The hyperbolic cosine."""
    return _unary("cosh", x)


def acos(x: Any) -> PrimExpr:
    """The inverse cosine."""
    return _unary("acos", x)


def acosh(x: Any) -> PrimExpr:
    """The inverse hyperbolic cosine."""
    return _unary("acosh", x)


def sin(x: Any) -> PrimExpr:
    """The sine."""
    return _unary("sin", x)


def sinh(x: Any) -> PrimExpr:
    """The hyperbolic sine."""
    return _unary("sinh", x)


def asin(x: Any) -> PrimExpr:
    """The inverse sine."""
    return _unary("asin", x)


def asinh(x: Any) -> PrimExpr:
    """The inverse hyperbolic sine."""
    return _unary("asinh", x)


def atan(x: Any) -> PrimExpr:
    """The inverse tangent."""
    return _unary("atan", x)


def atanh(x: Any) -> PrimExpr:
    """The inverse hyperbolic tangent."""
    return _unary("atanh", x)


def atan2(x1: Any, x2: Any) -> PrimExpr:
    """The angle of the point ``(x2, x1)``."""
    return _binary("atan2", x1, x2)


def sqrt(x: Any) -> PrimExpr:
    """The square root."""
    return _unary("sqrt", x)


def rsqrt(x: Any) -> PrimExpr:
    """One over the square root."""
    return _unary("rsqrt", x)


def _rounding(name: str, x: Any) -> PrimExpr:
    x = convert(x)
    return x if x.dtype.is_integer or x.dtype.is_bool else _unary(name, x)


def floor(x: Any, span: Any = None) -> PrimExpr:
    """The largest whole number not above ``x``; an integer stays as it is."""
    return _rounding("floor", x)


def ceil(x: Any, span: Any = None) -> PrimExpr:
    """The smallest whole number not below ``x``; an integer stays as it is."""
    return _rounding("ceil", x)


def trunc(x: Any, span: Any = None) -> PrimExpr:
    """``x`` rounded toward zero; an integer stays as it is."""
    return _rounding("trunc", x)


def round(x: Any, span: Any = None) -> PrimExpr:
    """``x`` rounded to the nearest whole number, halves away from zero."""
    return _rounding("round", x)


def nearbyint(x: Any, span: Any = None) -> PrimExpr:
    """``x`` rounded to the nearest whole number, halves to the even one."""
    return _rounding("nearbyint", x)


def abs(x: Any, span: Any = None) -> PrimExpr:
    """The absolute value."""
    x = convert(x)
    if x.dtype.is_float:
        return _unary("fabs", x)
    if x.dtype.is_uint or x.dtype.is_bool:
        return x
    return Select(operators.greater_equal(x, const(0, x.dtype)), x, operators.negate(x))


fabs = abs


def nextafter(x1: Any, x2: Any) -> PrimExpr:
    """The next representable value after ``x1`` in the direction of ``x2``."""
    return _binary("nextafter", x1, x2)


def hypot(x1: Any, x2: Any) -> PrimExpr:
    """``sqrt(x1 * x1 + x2 * x2)`` without overflow."""
    return _binary("hypot", x1, x2)


def copysign(x1: Any, x2: Any) -> PrimExpr:
    """The magnitude of ``x1`` with the sign of ``x2``."""
    return _binary("copysign", x1, x2)


def ldexp(x1: Any, x2: Any) -> PrimExpr:
    """``x1`` times two to the integer power ``x2``."""
    x1, x2 = _floating(x1), convert(x2)
    return Call(x1.dtype, "tir.ldexp", (x1, x2))


def fmod(x: Any, y: Any) -> PrimExpr:
    """The remainder of ``x / y`` with the sign of ``x``."""
    return _binary("fmod", x, y)


def power(x: Any, y: Any, span: Any = None) -> PrimExpr:
    """``x`` to the power ``y``; integers stay integers."""
    x, y = match_types(convert(x), y)
    return Call(x.dtype, "tir.pow", (x, y))


pow = power


def isnan(x: Any, span: Any = None) -> PrimExpr:
    """Whether ``x`` is not a number; no integer is."""
    x = convert(x)
    if not x.dtype.is_float:
        return const(False, _bool_like(x))
    return Call(_bool_like(x), "tir.isnan", (x,))


def isinf(x: Any, span: Any = None) -> PrimExpr:
    """Whether ``x`` is infinite; no integer is."""
    x = convert(x)
    if not x.dtype.is_float:
        return const(False, _bool_like(x))
    return operators.equal(abs(x), infinity(x.dtype))


def isfinite(x: Any, span: Any = None) -> PrimExpr:
    """Whether ``x`` is neither infinite nor NaN; each integer is finite."""
    x = convert(x)
    if not x.dtype.is_float:
        return const(True, _bool_like(x))
    return operators.less(abs(x), infinity(x.dtype))


# Integers and bits.


def clz(x: Any) -> PrimExpr:
    """The number of leading zero bits of an integer, as int32."""
    x = convert(x)
    return Call(DataType("int32").with_lanes(x.dtype.lanes), "tir.clz", (x,))


def popcount(x: Any) -> PrimExpr:
    """The number of bits that are set, in the dtype of ``x``."""
    x = convert(x)
    return Call(x.dtype, "tir.popcount", (x,))


def div(a: Any, b: Any, span: Any = None) -> PrimExpr:
    """``a / b`` as C has it: integers round toward zero."""
    a, b = match_types(convert(a), b)
    return truncdiv(a, b) if a.dtype.is_integer or a.dtype.is_bool else operators.divide(a, b)


def indexdiv(a: Any, b: Any, span: Any = None) -> PrimExpr:
    """``a // b`` of non-negative indices."""
    return floordiv(a, b)


def indexmod(a: Any, b: Any, span: Any = None) -> PrimExpr:
    """``a % b`` of non-negative indices."""
    return floormod(a, b)


def ceildiv(lhs: Any, rhs: Any, span: Any = None) -> PrimExpr:
    """``lhs / rhs`` of integers, rounded up."""
    lhs, rhs = match_types(convert(lhs), rhs)
    if lhs.dtype.is_float:
        return ceil(operators.divide(lhs, rhs))
    return floordiv(operators.add(lhs, operators.subtract(rhs, 1)), rhs)


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> PrimExpr:
    """The product with a fixed-point number: ``round(x * y * 2**-s)``, ``y`` having ``q`` fractional bits."""
    x = convert(x)
    return Call(x.dtype, "tir.q_multiply_shift", (x, convert(y), convert(q), convert(s)))


def q_multiply_shift_per_axis(
    x: Any, y: Any, ls: Any, rs: Any, q: Any, is_lshift_required: Any, is_rshift_required: Any
) -> PrimExpr:
    """Like ``q_multiply_shift``, with shifts to the left and to the right of their own."""
    x = convert(x)
    arguments = (y, ls, rs, q, is_lshift_required, is_rshift_required)
    return _call(x.dtype, "q_multiply_shift_per_axis", x, *arguments)


def reinterpret(dtype: Any, value: Any, span: Any = None) -> PrimExpr:
    """The bits of ``value`` read as ``dtype``, which has as many."""
    return _call(dtype, "reinterpret", value)


def large_uint_imm(dtype: Any, low: int, high: int) -> PrimExpr:
    """An unsigned constant from its two 32-bit halves."""
    return const((int(high) << 32) | int(low), dtype)


# Limits.


def min_value(dtype: Any, span: Any = None) -> PrimExpr:
    """The smallest value of a dtype (of floats: the finite one)."""
    dtype = DataType(dtype)
    if dtype.is_float:
        return const(-_largest_float(dtype.element), dtype)
    return const(dtype.min_value, dtype)


def max_value(dtype: Any, span: Any = None) -> PrimExpr:
    """The largest value of a dtype (of floats: the finite one)."""
    dtype = DataType(dtype)
    if dtype.is_float:
        return const(_largest_float(dtype.element), dtype)
    return const(dtype.max_value, dtype)


_LARGEST = {
    "float16": 65504.0,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
    "bfloat16": 3.3895313892515355e38,
}


def _largest_float(dtype: DataType) -> float:
    largest = _LARGEST.get(dtype)
    if largest is None:
        import ml_dtypes

        largest = float(ml_dtypes.finfo(dtype.numpy()).max)
    return largest


def infinity(dtype: Any, span: Any = None) -> PrimExpr:
    """Plus infinity."""
    return const(float("inf"), dtype)


# Choice, hints, conditions.


def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> PrimExpr:
    """``t`` where the condition holds, else ``f``; only the one that is taken is evaluated."""
    cond = convert(cond)
    if not cond.dtype.is_bool:
        cond = operators.not_equal(cond, 0)
    if cond.dtype.lanes != 1:
        raise TypeMismatchError("if_then_else needs a scalar condition; use Select for vectors")
    t, f = match_types(t if isinstance(t, PrimExpr) else _like(t, f), f)
    return Call(t.dtype, "tir.if_then_else", (cond, t, f))


def _like(value: Any, other: Any) -> PrimExpr:
    return match_types(value, other)[0] if isinstance(other, PrimExpr) else convert(value)


def likely(cond: Any, span: Any = None) -> PrimExpr:
    """``cond``, marked as mostly true: loops are divided along it."""
    cond = convert(cond)
    return cond if isinstance(cond, (IntImm, FloatImm)) else Call(cond.dtype, "tir.likely", (cond,))


def all(*args: Any, span: Any = None) -> PrimExpr:
    """All of the conditions hold; both sides are expressions (``tir.all(a < b, c)``)."""
    return operators.all_of(*args)


def any(*args: Any, span: Any = None) -> PrimExpr:
    """Some of the conditions hold."""
    return operators.any_of(*args)


def logical_implies(premise: Any, conclusion: Any) -> PrimExpr:
    """``conclusion`` holds wherever ``premise`` does."""
    return Or(operators.logical_not(premise), convert(conclusion))


def assume(cond: Any = None) -> PrimExpr:
    """A promise that the condition holds here."""
    return _call("bool", "assume", True if cond is None else cond)


def undef() -> PrimExpr:
    """A value of which nothing is known, for stores that only mark memory as initialised."""
    return Call("int32", "tir.undef", ())


def isnullptr(x: Any, span: Any = None) -> PrimExpr:
    """Whether a pointer is null."""
    return _call("bool", "isnullptr", x)


def prefetch(address: Any, rw: Any = 0, locality: Any = 3, cache: Any = 1) -> PrimExpr:
    """A hint that memory is wanted soon; arguments as those of ``llvm.prefetch``."""
    return _call("void", "prefetch", address, rw, locality, cache)


# Calls and returns.


def ret(val: Any, span: Any = None) -> PrimExpr:
    """Leave the function with a value."""
    val = convert(val)
    return Call(val.dtype, "tir.ret", (val,))


def call_intrin(dtype: Any, func_name: Any, *args: Any, span: Any = None) -> PrimExpr:
    """A call of an operator by its full name (``"tir.exp"``)."""
    return Call(dtype, func_name, tuple([convert(arg) for arg in args]))


def call_extern(dtype: Any, func_name: str, *args: Any, span: Any = None) -> PrimExpr:
    """A call of a C function by its symbol."""
    return _call(dtype, "call_extern", StringImm(func_name), *args)


def call_pure_extern(dtype: Any, func_name: str, *args: Any, span: Any = None) -> PrimExpr:
    """A call of a C function that has no effects."""
    return _call(dtype, "call_pure_extern", StringImm(func_name), *args)


def _llvm_arguments(name: Any, args: tuple) -> tuple:
    # Programs of the time when LLVM's overloads had to be counted give the number of arguments
    # that choose the overload first, as an unsigned constant; the full name says the same.
    if args and isinstance(args[0], IntImm) and args[0].dtype == "uint32":
        args = args[1:]
    return (StringImm(name) if isinstance(name, str) else name, *args)


def call_llvm_intrin(dtype: Any, name: str, *args: Any, span: Any = None) -> PrimExpr:
    """A call of an LLVM intrinsic by its name (``"llvm.prefetch"``)."""
    return _call(dtype, "call_llvm_intrin", *_llvm_arguments(name, args))


def call_llvm_pure_intrin(dtype: Any, name: str, *args: Any, span: Any = None) -> PrimExpr:
    """A call of an LLVM intrinsic that has no effects."""
    return _call(dtype, "call_llvm_pure_intrin", *_llvm_arguments(name, args))


def call_tir(global_var: GlobalVar, *args: Any) -> PrimExpr:
    """A call of a function of the module from inside another PrimFunc."""
    return Call("void", global_var, tuple([convert(arg) for arg in args]))


def tvm_check_return(expected: int, return_unexpected: int, nested_call: PrimExpr) -> PrimExpr:
    """``nested_call``; leaves with ``return_unexpected`` unless it gives ``expected``."""
    return _call("int32", "tvm_check_return", expected, return_unexpected, nested_call)


def tvm_throw_last_error() -> PrimExpr:
    """Leave the function with the error that was set last."""
    return Call("handle", "tir.tvm_throw_last_error", ())


def tvm_tuple(*value: Any) -> PrimExpr:
    """Several values as one argument of an attribute."""
    return _call("handle", "tvm_tuple", *value)


def start_profile_intrinsic(id: int) -> PrimExpr:
    """Mark the beginning of a profiled stretch."""
    return _call("handle", "start_profile_intrinsic", id)


def end_profile_intrinsic(id: int) -> PrimExpr:
    """Mark the end of a profiled stretch."""
    return _call("handle", "end_profile_intrinsic", id)


def anylist_getitem(list_handle: Any, index: Any) -> PrimExpr:
    """An item of a list of values of the virtual machine."""
    return _call("handle", "anylist_getitem", list_handle, index)


def anylist_resetitem(list_handle: Any, index: Any) -> PrimExpr:
    """Drop an item of a list of values."""
    return _call("int32", "anylist_resetitem", list_handle, index)


def anylist_setitem_call_packed(
    list_handle: Any, index: Any, func_name: Any, *args: Any
) -> PrimExpr:
    """Set an item of a list of values to what a registered function returns."""
    return _call("int32", "anylist_setitem_call_packed", list_handle, index, func_name, *args)


def anylist_setitem_call_cpacked(
    list_handle: Any, index: Any, func_name: Any, *args: Any
) -> PrimExpr:
    """Set an item of a list of values to what a function with packed arguments returns."""
    return _call("int32", "anylist_setitem_call_cpacked", list_handle, index, func_name, *args)


# Memory and runtime structures.


def type_annotation(dtype: Any) -> PrimExpr:
    """A dtype as an argument of a call."""
    return Call(dtype, "tir.type_annotation", ())


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: Any) -> PrimExpr:
    """A pointer to ``extent`` elements from ``offset``, and what it is for (1 read, 2 write)."""
    if isinstance(ptype, str):
        ptype = type_annotation(ptype)
    return _call("handle", "tvm_access_ptr", ptype, data, offset, extent, rw_mask)


def handle_add_byte_offset(handle: Any, offset: Any) -> PrimExpr:
    """A pointer moved by a number of bytes."""
    return _call("handle", "handle_add_byte_offset", handle, offset)


def tvm_struct_get(arr: Any, index: Any, field: Any, dtype: Any) -> PrimExpr:
    """A field (see ``tir.struct_fields``) of element ``index`` of an array of structures."""
    return _call(dtype, "tvm_struct_get", arr, index, field)


def tvm_struct_set(arr: Any, index: Any, field: Any, value: Any) -> PrimExpr:
    """Set a field of element ``index`` of an array of runtime structures."""
    return _call("int32", "tvm_struct_set", arr, index, field, value)


def lookup_param(param_name: str, span: Any = None) -> PrimExpr:
    """The address of a parameter that is linked into the library."""
    return _call("handle", "lookup_param", param_name)


def tvm_stack_alloca(dtype_str: str, num: Any) -> PrimExpr:
    """Space on the stack for ``num`` structures: "shape", "arg_value", "arg_tcode" or "array"."""
    return _call("handle", "tvm_stack_alloca", dtype_str, num)


def tvm_stack_make_shape(*args: Any) -> PrimExpr:
    """A shape (int64 numbers) on the stack."""
    return _call("handle", "tvm_stack_make_shape", *args)


def tvm_stack_make_array(
    data: Any, shape: Any, strides: Any, ndim: Any, arr_dtype: Any, elem_offset: Any
) -> PrimExpr:
    """A DLTensor on the stack; ``arr_dtype`` is a zero of the element type."""
    arguments = (data, shape, strides, ndim, arr_dtype, elem_offset)
    return _call("handle", "tvm_stack_make_array", *arguments)


def TVMBackendAllocWorkspace(  # noqa: N802 - the name users know
    device_type: Any, device_id: Any, nbytes: Any, dtype_code_hint: Any, dtype_bits_hint: Any
) -> PrimExpr:
    """Memory from the runtime's pool of temporary space."""
    arguments = (device_type, device_id, nbytes, dtype_code_hint, dtype_bits_hint)
    return _call("handle", "TVMBackendAllocWorkspace", *arguments)


def TVMBackendFreeWorkspace(device_type: Any, device_id: Any, ptr: Any) -> PrimExpr:  # noqa: N802
    """Give temporary space back to the runtime's pool."""
    return _call("int32", "TVMBackendFreeWorkspace", device_type, device_id, ptr)


# Vectors of a length that is not known at compile time.


def vscale() -> PrimExpr:
    """The factor by which scalable vectors are longer than their smallest size."""
    return Call("int32", "tir.vscale", ())


def get_active_lane_mask(dtype: Any, base: Any, limit: Any) -> PrimExpr:
    """Lane ``i`` is on where ``base + i < limit``."""
    return _call(dtype, "get_active_lane_mask", base, limit)


def get_vscale_expr(dtype: Any, min_size: int = 128) -> PrimExpr:
    """The number of elements in a scalable vector whose smallest size is ``min_size`` bits."""
    return operators.multiply(min_size // DataType(dtype).bits, vscale())


# Threads of a GPU.


def tvm_thread_allreduce(*freduce_args: Any) -> PrimExpr:
    """A reduction over the threads of a block."""
    return _call("handle", "tvm_thread_allreduce", *freduce_args)


def tvm_thread_invariant(cond: Any) -> PrimExpr:
    """``cond``, promised to be the same for all threads."""
    cond = convert(cond)
    return Call(cond.dtype, "tir.tvm_thread_invariant", (cond,))


def tvm_storage_sync(storage_scope: str) -> PrimExpr:
    """Wait until all threads see what was written in a storage scope."""
    return _call("int32", "tvm_storage_sync", storage_scope)


def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: Any, warp_size: Any) -> PrimExpr:
    """The value that another thread of the warp holds."""
    value = convert(value)
    return _call(value.dtype, "tvm_warp_shuffle", mask, value, warp_id, width, warp_size)


def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> PrimExpr:
    """The value of the thread that lies ``offset`` lower."""
    value = convert(value)
    return _call(value.dtype, "tvm_warp_shuffle_up", mask, value, offset, width, warp_size)


def tvm_warp_shuffle_down(
    mask: Any, value: Any, offset: Any, width: Any, warp_size: Any
) -> PrimExpr:
    """The value of the thread that lies ``offset`` higher."""
    value = convert(value)
    return _call(value.dtype, "tvm_warp_shuffle_down", mask, value, offset, width, warp_size)


def tvm_warp_activemask() -> PrimExpr:
    """Which threads of the warp are at work."""
    return Call("uint32", "tir.tvm_warp_activemask", ())
