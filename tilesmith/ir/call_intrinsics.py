"""Builds calls with side effects: of functions, on memory, between threads.

The operators are registered in ``intrinsic_table``; mathematics is in ``intrinsics``.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import operators
from tilesmith.ir.expr import Call, GlobalVar, IntImm, PrimExpr, StringImm, convert
from tilesmith.ir.intrinsic_table import intrinsic_call
from tilesmith.runtime.dtype import DataType

__all__ = [
    "TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace", "anylist_getitem", "anylist_resetitem",
    "anylist_setitem_call_cpacked", "anylist_setitem_call_packed", "call_extern", "call_intrin",
    "call_llvm_intrin", "call_llvm_pure_intrin", "call_pure_extern", "call_tir",
    "end_profile_intrinsic", "get_active_lane_mask", "get_vscale_expr", "handle_add_byte_offset",
    "lookup_param", "ret", "start_profile_intrinsic", "tvm_access_ptr", "tvm_check_return",
    "tvm_stack_alloca", "tvm_stack_make_array", "tvm_stack_make_shape", "tvm_storage_sync",
    "tvm_struct_get", "tvm_struct_set", "tvm_thread_allreduce", "tvm_thread_invariant",
    "tvm_throw_last_error", "tvm_tuple", "tvm_warp_activemask", "tvm_warp_shuffle",
    "tvm_warp_shuffle_down", "tvm_warp_shuffle_up", "type_annotation", "vscale",
]  # fmt: skip


# Calls and returns.


def ret(val: Any, span: Any = None) -> PrimExpr:
    """Leave the function with a value."""
    val = convert(val)
    return Call(val.dtype, "tir.ret", (val,))


def call_intrin(dtype: Any, func_name: Any, *args: Any, span: Any = None) -> PrimExpr:
    """Return a call of an operator by its full name (``"tir.exp"``)."""
    return Call(dtype, func_name, tuple([convert(arg) for arg in args]))


def call_extern(dtype: Any, func_name: str, *args: Any, span: Any = None) -> PrimExpr:
    """Return a call of a C function by its symbol."""
    return intrinsic_call(dtype, "call_extern", StringImm(func_name), *args)


def call_pure_extern(dtype: Any, func_name: str, *args: Any, span: Any = None) -> PrimExpr:
    """Return a call of a C function that has no side effects."""
    return intrinsic_call(dtype, "call_pure_extern", StringImm(func_name), *args)


def _llvm_arguments(name: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    # Older programs give, as an unsigned constant, the number of arguments that choose the
    # overload before the arguments; the full name makes it redundant.
    if args and isinstance(args[0], IntImm) and args[0].dtype == "uint32":
        args = args[1:]
    return (StringImm(name) if isinstance(name, str) else name, *args)


def call_llvm_intrin(dtype: Any, name: str, *args: Any, span: Any = None) -> PrimExpr:
    """Return a call of an LLVM intrinsic by its name (``"llvm.prefetch"``)."""
    return intrinsic_call(dtype, "call_llvm_intrin", *_llvm_arguments(name, args))


def call_llvm_pure_intrin(dtype: Any, name: str, *args: Any, span: Any = None) -> PrimExpr:
    """Return a call of an LLVM intrinsic that has no side effects."""
    return intrinsic_call(dtype, "call_llvm_pure_intrin", *_llvm_arguments(name, args))


def call_tir(global_var: GlobalVar, *args: Any) -> PrimExpr:
    """Return a call of a function of the module from inside another PrimFunc."""
    return Call("void", global_var, tuple([convert(arg) for arg in args]))


def tvm_check_return(expected: int, return_unexpected: int, nested_call: PrimExpr) -> PrimExpr:
    """Call ``nested_call``; leave the function with ``return_unexpected`` unless the result is
    ``expected``.
    """
    return intrinsic_call("int32", "tvm_check_return", expected, return_unexpected, nested_call)


def tvm_throw_last_error() -> PrimExpr:
    """Leave the function with the error that was set last."""
    return Call("handle", "tir.tvm_throw_last_error", ())


def tvm_tuple(*value: Any) -> PrimExpr:
    """Pack several values into one argument of an attribute."""
    return intrinsic_call("handle", "tvm_tuple", *value)


def start_profile_intrinsic(id: int) -> PrimExpr:
    """Mark the beginning of a profiled region."""
    return intrinsic_call("handle", "start_profile_intrinsic", id)


def end_profile_intrinsic(id: int) -> PrimExpr:
    """Mark the end of a profiled region."""
    return intrinsic_call("handle", "end_profile_intrinsic", id)


def anylist_getitem(list_handle: Any, index: Any) -> PrimExpr:
    """Return an item of a list of values of the virtual machine."""
    return intrinsic_call("handle", "anylist_getitem", list_handle, index)


def anylist_resetitem(list_handle: Any, index: Any) -> PrimExpr:
    """Drop an item of a list of values."""
    return intrinsic_call("int32", "anylist_resetitem", list_handle, index)


def anylist_setitem_call_packed(
    list_handle: Any, index: Any, func_name: Any, *args: Any
) -> PrimExpr:
    """Set an item of a list of values to what a registered function returns."""
    return intrinsic_call(
        "int32", "anylist_setitem_call_packed", list_handle, index, func_name, *args
    )


def anylist_setitem_call_cpacked(
    list_handle: Any, index: Any, func_name: Any, *args: Any
) -> PrimExpr:
    """Set an item of a list of values to what a function with packed arguments returns."""
    return intrinsic_call(
        "int32", "anylist_setitem_call_cpacked", list_handle, index, func_name, *args
    )


# Memory and runtime structures.


def type_annotation(dtype: Any) -> PrimExpr:
    """Return a dtype as an argument of a call."""
    return Call(dtype, "tir.type_annotation", ())


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: Any) -> PrimExpr:
    """Return a pointer to ``extent`` elements from ``offset``, with the accesses it is for (1 read,
    2 write, 3 both).
    """
    if isinstance(ptype, str):
        ptype = type_annotation(ptype)
    return intrinsic_call("handle", "tvm_access_ptr", ptype, data, offset, extent, rw_mask)


def handle_add_byte_offset(handle: Any, offset: Any) -> PrimExpr:
    """Return a pointer moved by a number of bytes."""
    return intrinsic_call("handle", "handle_add_byte_offset", handle, offset)


def tvm_struct_get(arr: Any, index: Any, field: Any, dtype: Any) -> PrimExpr:
    """Return a field (see ``tir.struct_fields``) of element ``index`` of an array of structures."""
    return intrinsic_call(dtype, "tvm_struct_get", arr, index, field)


def tvm_struct_set(arr: Any, index: Any, field: Any, value: Any) -> PrimExpr:
    """Set a field of element ``index`` of an array of runtime structures."""
    return intrinsic_call("int32", "tvm_struct_set", arr, index, field, value)


def lookup_param(param_name: str, span: Any = None) -> PrimExpr:
    """Return the address of a parameter that is linked into the library."""
    return intrinsic_call("handle", "lookup_param", param_name)


def tvm_stack_alloca(dtype_str: str, num: Any) -> PrimExpr:
    """Reserve space on the stack for ``num`` structures: "shape", "arg_value", "arg_tcode" or
    "array".
    """
    return intrinsic_call("handle", "tvm_stack_alloca", dtype_str, num)


def tvm_stack_make_shape(*args: Any) -> PrimExpr:
    """Make a shape (int64 numbers) on the stack."""
    return intrinsic_call("handle", "tvm_stack_make_shape", *args)


def tvm_stack_make_array(
    data: Any, shape: Any, strides: Any, ndim: Any, arr_dtype: Any, elem_offset: Any
) -> PrimExpr:
    """Make a DLTensor on the stack; ``arr_dtype`` is a zero of the element type."""
    arguments = (data, shape, strides, ndim, arr_dtype, elem_offset)
    return intrinsic_call("handle", "tvm_stack_make_array", *arguments)


def TVMBackendAllocWorkspace(
    device_type: Any, device_id: Any, nbytes: Any, dtype_code_hint: Any, dtype_bits_hint: Any
) -> PrimExpr:
    """Allocate temporary memory from the runtime's pool."""
    arguments = (device_type, device_id, nbytes, dtype_code_hint, dtype_bits_hint)
    return intrinsic_call("handle", "TVMBackendAllocWorkspace", *arguments)


def TVMBackendFreeWorkspace(device_type: Any, device_id: Any, ptr: Any) -> PrimExpr:
    """Return temporary memory to the runtime's pool."""
    return intrinsic_call("int32", "TVMBackendFreeWorkspace", device_type, device_id, ptr)


# Vectors of a length that is not known at compile time.


def vscale() -> PrimExpr:
    """Return the factor by which scalable vectors are longer than their smallest size."""
    return Call("int32", "tir.vscale", ())


def get_active_lane_mask(dtype: Any, base: Any, limit: Any) -> PrimExpr:
    """Return a mask whose lane ``i`` is true where ``base + i < limit``."""
    return intrinsic_call(dtype, "get_active_lane_mask", base, limit)


def get_vscale_expr(dtype: Any, min_size: int = 128) -> PrimExpr:
    """Return the number of elements in a scalable vector whose smallest size is ``min_size``
    bits.
    """
    return operators.multiply(min_size // DataType(dtype).bits, vscale())


# Threads of a GPU.


def tvm_thread_allreduce(*freduce_args: Any) -> PrimExpr:
    """Reduce over the threads of a block."""
    return intrinsic_call("handle", "tvm_thread_allreduce", *freduce_args)


def tvm_thread_invariant(cond: Any) -> PrimExpr:
    """Return ``cond`` with the promise that it is the same for all threads."""
    cond = convert(cond)
    return Call(cond.dtype, "tir.tvm_thread_invariant", (cond,))


def tvm_storage_sync(storage_scope: str) -> PrimExpr:
    """Wait until all threads see what was written in a storage scope."""
    return intrinsic_call("int32", "tvm_storage_sync", storage_scope)


def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: Any, warp_size: Any) -> PrimExpr:
    """Return the value that another thread of the warp holds."""
    value = convert(value)
    return intrinsic_call(value.dtype, "tvm_warp_shuffle", mask, value, warp_id, width, warp_size)


def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> PrimExpr:
    """Return the value of the thread whose number is lower by ``offset``."""
    value = convert(value)
    return intrinsic_call(value.dtype, "tvm_warp_shuffle_up", mask, value, offset, width, warp_size)


def tvm_warp_shuffle_down(
    mask: Any, value: Any, offset: Any, width: Any, warp_size: Any
) -> PrimExpr:
    """Return the value of the thread whose number is higher by ``offset``."""
    value = convert(value)
    return intrinsic_call(
        value.dtype, "tvm_warp_shuffle_down", mask, value, offset, width, warp_size
    )


def tvm_warp_activemask() -> PrimExpr:
    """Return the mask of active threads in the warp."""
    return Call("uint32", "tir.tvm_warp_activemask", ())
