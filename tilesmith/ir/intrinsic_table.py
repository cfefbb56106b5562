"""Registers the operators that a scalar ``Call`` can name: one record each.

A record holds the name, the side effects, whether the operator works lane by lane on vectors, its
name in TVMScript, and whether the script writes the dtype of the result as the first or last
argument. Importing this file registers them all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.ir.expr import Call, PrimExpr, convert
from tilesmith.ir.op import CallEffectKind, Op

__all__ = ["INTRINSICS", "Intrinsic", "intrinsic_call"]

PURE = CallEffectKind.Pure
READ = CallEffectKind.ReadState
UPDATE = CallEffectKind.UpdateState
ANNOTATION = CallEffectKind.ExprAnnotation
ARGUMENT = CallEffectKind.SpecialCallArg
EMBED = CallEffectKind.EmbedInfo
JUMP = CallEffectKind.ControlJump


class Intrinsic(NamedTuple):
    """One operator; without a ``script_name``, TVMScript uses the name without ``tir.``."""

    name: str
    effect: CallEffectKind
    vectorizable: bool = False
    script_name: str = ""
    dtype_place: str = ""  # where the script writes the dtype of the result: "", "first" or "last"
    element_only: bool = False  # of the memory behind an address, it accesses that element only


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
    Intrinsic("dot_bf16bf16", PURE, True),  # of two bfloat16 each
    Intrinsic("dot_i16i16", PURE, True),  # of two int16 each
    Intrinsic("dot_i8i8", PURE, True),  # of four bytes each, both signed
    Intrinsic("dot_u8i8", PURE, True),  # of four bytes each, unsigned and signed
    # choice and hints
    Intrinsic("if_then_else", PURE),
    Intrinsic("likely", ANNOTATION, True),
    Intrinsic("assume", EMBED),
    Intrinsic("checked", READ, True),  # reads: it can fail, so it stays behind its conditions
    Intrinsic("undef", READ),
    Intrinsic("tvm_thread_invariant", PURE),
    Intrinsic("prefetch", UPDATE, element_only=True),
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
    # of a pointer and a value; returns the previous value
    Intrinsic("atomic_add", UPDATE, element_only=True),
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
    # the tasks of a parallel region (LowerParallelRegions)
    Intrinsic("parallel_tasks", READ),
    Intrinsic("parallel_barrier", UPDATE),
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
    Intrinsic("ptx_wgmma", UPDATE, False, "", "first"),  # operands: tir/warpgroup_products.py
    Intrinsic("ptx_wgmma_fence", UPDATE),
    Intrinsic("ptx_wgmma_commit_group", UPDATE),
    Intrinsic("ptx_wgmma_wait_group", UPDATE),
    Intrinsic("ptx_fence_proxy_async", UPDATE),
    Intrinsic("round_to_tf32", PURE, True),  # to 10 bits behind the point, halves away from zero
    Intrinsic("mma_store", UPDATE, False, "", "first"),
    Intrinsic("mma_fill", UPDATE, False, "", "first"),
    Intrinsic("ptx_cp_async", UPDATE, False, "", "first"),
    Intrinsic("ptx_cp_async_bulk", UPDATE, False, "", "first"),
    Intrinsic("ptx_cp_async_bulk_tensor", UPDATE, False, "", "first"),  # tir/tensor_copies.py
    Intrinsic("ptx_commit_group", UPDATE),
    Intrinsic("ptx_wait_group", UPDATE),
    Intrinsic("ptx_cp_async_barrier", UPDATE),
    Intrinsic("ptx_init_barrier_thread_count", UPDATE),
    Intrinsic("ptx_arrive_barrier", UPDATE),
    Intrinsic("ptx_arrive_barrier_expect_tx", UPDATE),
    Intrinsic("ptx_wait_barrier", UPDATE),
    Intrinsic("ptx_ldg32", UPDATE),  # it writes a register
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
        if record.element_only:
            op.set_attr("TAccessesElementOnly", True)
        if record.dtype_place:
            op.set_attr("TScriptDtypePrintLocation", record.dtype_place)


_register()


def intrinsic_call(dtype: Any, name: str, *args: Any) -> PrimExpr:
    """Return a call of the operator ``tir.NAME``; Python scalars become constants."""
    return Call(dtype, "tir." + name, tuple([convert(arg) for arg in args]))
