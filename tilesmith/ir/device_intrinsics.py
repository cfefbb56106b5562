"""Builds calls of the matrix units and asynchronous copies of GPUs.

Arguments are those of the instruction of that name; the operators are registered in
``intrinsic_table``.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir.expr import Call, IntImm, PrimExpr, convert
from tilesmith.ir.intrinsic_table import intrinsic_call

__all__ = [
    "create_barriers", "dp4a", "make_filled_simdgroup_matrix", "mma_fill", "mma_store",
    "ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx", "ptx_commit_group", "ptx_cp_async",
    "ptx_cp_async_barrier", "ptx_cp_async_bulk", "ptx_cp_async_bulk_tensor",
    "ptx_init_barrier_thread_count", "ptx_ldmatrix",
    "ptx_fence_proxy_async", "ptx_mma", "ptx_mma_sp", "ptx_wait_barrier", "ptx_wait_group",
    "ptx_wgmma", "ptx_wgmma_commit_group", "ptx_wgmma_fence", "ptx_wgmma_wait_group",
    "simdgroup_load", "simdgroup_multiply_accumulate", "simdgroup_store", "tvm_bmma_sync",
    "tvm_fill_fragment", "tvm_load_matrix_sync", "tvm_mma_sync", "tvm_store_matrix_sync",
    "vectorcombine", "vectorhigh", "vectorlow",
]  # fmt: skip


def tvm_load_matrix_sync(
    fragment: Any, m: Any, n: Any, k: Any, index: Any, buffer_ptr: Any, stride: Any, layout: Any
) -> PrimExpr:
    """Load a fragment of a matrix."""
    arguments = (fragment, m, n, k, index, buffer_ptr, stride, layout)
    return intrinsic_call("handle", "tvm_load_matrix_sync", *arguments)


def tvm_mma_sync(
    fragment_d: Any, index_d: Any, fragment_a: Any, index_a: Any,
    fragment_b: Any, index_b: Any, fragment_c: Any, index_c: Any,
) -> PrimExpr:  # fmt: skip
    """``d = a * b + c`` of fragments."""
    arguments = (
        fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c,
    )  # fmt: skip
    return intrinsic_call("handle", "tvm_mma_sync", *arguments)


def tvm_bmma_sync(
    fragment_d: Any, index_d: Any, fragment_a: Any, index_a: Any,
    fragment_b: Any, index_b: Any, fragment_c: Any, index_c: Any,
) -> PrimExpr:  # fmt: skip
    """``d = a * b + c`` of fragments of bits."""
    arguments = (
        fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c,
    )  # fmt: skip
    return intrinsic_call("handle", "tvm_bmma_sync", *arguments)


def tvm_fill_fragment(fragment: Any, m: Any, n: Any, k: Any, index: Any, value: Any) -> PrimExpr:
    """Fill a fragment with a value."""
    return intrinsic_call("handle", "tvm_fill_fragment", fragment, m, n, k, index, value)


def tvm_store_matrix_sync(
    fragment: Any, m: Any, n: Any, k: Any, index: Any, buffer_ptr: Any, stride: Any, layout: Any
) -> PrimExpr:
    """Store a fragment of a matrix."""
    arguments = (fragment, m, n, k, index, buffer_ptr, stride, layout)
    return intrinsic_call("handle", "tvm_store_matrix_sync", *arguments)


def ptx_mma(
    dtype: Any, shape: Any, A_layout: Any, B_layout: Any, A_dtype: Any, B_dtype: Any, C_dtype: Any,
    multiplicand_a: Any, a_index: Any, multiplicand_b: Any, b_index: Any,
    accumulator: Any, c_index: Any, saturate: Any, operator: Any = None,
) -> PrimExpr:  # fmt: skip
    """Return the warp's matrix product ``mma``."""
    arguments: tuple[Any, ...] = (
        shape, A_layout, B_layout, A_dtype, B_dtype, C_dtype,
        multiplicand_a, a_index, multiplicand_b, b_index, accumulator, c_index, saturate,
    )  # fmt: skip
    if operator is not None:
        arguments = (*arguments, operator)
    return intrinsic_call(dtype, "ptx_mma", *arguments)


def ptx_mma_sp(
    dtype: Any, shape: Any, A_layout: Any, B_layout: Any, A_dtype: Any, B_dtype: Any, C_dtype: Any,
    multiplicand_a: Any, a_index: Any, multiplicand_b: Any, b_index: Any,
    accumulator: Any, c_index: Any, metadata: Any, meta_index: Any,
    sparse_selector: Any, saturate: Any,
) -> PrimExpr:  # fmt: skip
    """Return the warp's matrix product ``mma.sp`` with a sparse left side."""
    arguments = (
        shape, A_layout, B_layout, A_dtype, B_dtype, C_dtype, multiplicand_a, a_index,
        multiplicand_b, b_index, accumulator, c_index, metadata, meta_index, sparse_selector,
        saturate,
    )  # fmt: skip
    return intrinsic_call(dtype, "ptx_mma_sp", *arguments)


def ptx_wgmma(
    dtype: Any, shape: Any, A_dtype: Any, B_dtype: Any, C_dtype: Any,
    a_ptr: Any, a_offset: Any, a_layout: Any, a_leading: Any, a_stride: Any,
    b_ptr: Any, b_offset: Any, b_layout: Any, b_leading: Any, b_stride: Any,
    accumulator: Any, c_index: Any, accumulate: Any = True,
) -> PrimExpr:  # fmt: skip
    """Begin the product ``wgmma`` of four warps: matrices in shared memory, sums in registers.

    The words of layouts and the distances in bytes are explained in ``tir.warpgroup_products``.
    The product is done when ``ptx_wgmma_wait_group`` has waited for its group.
    """
    arguments = (
        shape, A_dtype, B_dtype, C_dtype, a_ptr, a_offset, a_layout, a_leading, a_stride,
        b_ptr, b_offset, b_layout, b_leading, b_stride, accumulator, c_index, accumulate,
    )  # fmt: skip
    return intrinsic_call(dtype, "ptx_wgmma", *arguments)


def ptx_wgmma_fence() -> PrimExpr:
    """Order accesses of registers before the products of four warps that follow."""
    return intrinsic_call("", "ptx_wgmma_fence")


def ptx_wgmma_commit_group() -> PrimExpr:
    """Close the group of products of four warps begun so far."""
    return intrinsic_call("", "ptx_wgmma_commit_group")


def ptx_wgmma_wait_group(num: Any) -> PrimExpr:
    """Wait until at most ``num`` groups of products of four warps are pending."""
    return intrinsic_call("", "ptx_wgmma_wait_group", num)


def ptx_fence_proxy_async() -> PrimExpr:
    """Show what a thread wrote to shared memory to the units that read it by themselves."""
    return intrinsic_call("", "ptx_fence_proxy_async")


def mma_store(
    dtype: Any, m: Any, n: Any, dst_ptr: Any, src_ptr: Any, src_offset: Any, dst_stride: Any
) -> PrimExpr:
    """Store an accumulator of ``mma``."""
    return intrinsic_call(dtype, "mma_store", m, n, dst_ptr, src_ptr, src_offset, dst_stride)


def mma_fill(dtype: Any, local_size: Any, local_ptr: Any, offset: Any) -> PrimExpr:
    """Fill an accumulator of ``mma`` with zeros."""
    return intrinsic_call(dtype, "mma_fill", local_size, local_ptr, offset)


def ptx_ldmatrix(
    dtype: Any, trans: Any, num: Any, type: Any,
    local_ptr: Any, local_offset: Any, smem_ptr: Any, smem_offset: Any,
) -> PrimExpr:  # fmt: skip
    """Load matrices from shared memory with ``ldmatrix``."""
    arguments = (trans, num, type, local_ptr, local_offset, smem_ptr, smem_offset)
    return intrinsic_call(dtype, "ptx_ldmatrix", *arguments)


def ptx_cp_async(
    dtype: Any, shared_ptr: Any, shared_offset: Any, global_ptr: Any, global_offset: Any, bytes: Any
) -> PrimExpr:
    """Copy from global to shared memory in the background."""
    arguments = (shared_ptr, shared_offset, global_ptr, global_offset, bytes)
    return intrinsic_call(dtype, "ptx_cp_async", *arguments)


def ptx_cp_async_bulk(
    dtype: Any, shared_ptr: Any, shared_offset: Any,
    global_ptr: Any, global_offset: Any, bytes: Any, barrier_id: Any,
) -> PrimExpr:  # fmt: skip
    """Copy a block of bytes from global to shared memory in the background."""
    arguments = (shared_ptr, shared_offset, global_ptr, global_offset, bytes, barrier_id)
    return intrinsic_call(dtype, "ptx_cp_async_bulk", *arguments)


def ptx_cp_async_bulk_tensor(
    dtype: Any, shared_ptr: Any, shared_offset: Any, global_ptr: Any,
    sizes: Any, box: Any, place: Any, barrier_id: Any, swizzle: Any = 0, strides: Any = None,
) -> PrimExpr:  # fmt: skip
    """Copy a box of a tensor from global to shared memory in the background; zeros arrive for what
    lies outside of the tensor.

    ``sizes``, ``strides`` (of dense rows, if not given) and ``box`` are constants in elements,
    ``place`` is that of the box's first element; outermost axes come first. ``swizzle``: bytes of
    rows in shared memory whose pieces are permuted. ``tir.tensor_copies`` has the rules. One thread
    issues the copy, and announces its bytes: ``ptx_arrive_barrier_expect_tx``.
    """
    if strides is None:
        strides = _dense_strides(sizes.args if isinstance(sizes, Call) else sizes)
    parts = [_tuple(part) for part in (sizes, box, place, strides)]
    arguments = (
        shared_ptr, shared_offset, global_ptr, *parts[:3], barrier_id, swizzle, parts[3],
    )  # fmt: skip
    return intrinsic_call(dtype, "ptx_cp_async_bulk_tensor", *arguments)


def _dense_strides(sizes: Any) -> list[Any]:
    strides: list[Any] = [1]
    for size in list(sizes)[:0:-1]:
        size = size.value if isinstance(size, IntImm) else size
        strides.insert(0, strides[0] * size)
    return strides


def _tuple(part: Any) -> PrimExpr:
    return part if isinstance(part, PrimExpr) else intrinsic_call("handle", "tvm_tuple", *part)


def ptx_commit_group() -> PrimExpr:
    """Close the group of copies begun so far."""
    return intrinsic_call("", "ptx_commit_group")


def ptx_wait_group(num: Any) -> PrimExpr:
    """Wait until at most ``num`` groups of copies are pending."""
    return intrinsic_call("", "ptx_wait_group", num)


def ptx_cp_async_barrier(barrier_id: Any) -> PrimExpr:
    """Make a barrier wait for the copies begun so far."""
    return intrinsic_call("", "ptx_cp_async_barrier", barrier_id)


def ptx_init_barrier_thread_count(barrier_id: Any, thread_count: Any) -> PrimExpr:
    """Set for how many threads a barrier waits."""
    return intrinsic_call("", "ptx_init_barrier_thread_count", barrier_id, thread_count)


def ptx_arrive_barrier(barrier_id: Any) -> PrimExpr:
    """Arrive at a barrier."""
    return intrinsic_call("", "ptx_arrive_barrier", barrier_id)


def ptx_arrive_barrier_expect_tx(barrier_id: Any, byte_count: Any) -> PrimExpr:
    """Arrive at a barrier and expect a number of bytes."""
    return intrinsic_call("", "ptx_arrive_barrier_expect_tx", barrier_id, byte_count)


def ptx_wait_barrier(barrier_id: Any) -> PrimExpr:
    """Wait at a barrier."""
    return intrinsic_call("", "ptx_wait_barrier", barrier_id)


def create_barriers(barrier_count: Any) -> PrimExpr:
    """Make barriers in shared memory."""
    return intrinsic_call("", "create_barriers", barrier_count)


def make_filled_simdgroup_matrix(
    d: Any, index: Any, value: Any, col: int = 8, row: int = 8
) -> PrimExpr:
    """Fill a matrix of a SIMD group."""
    return intrinsic_call("handle", "make_filled_simdgroup_matrix", d, index, value, col, row)


def simdgroup_load(
    d: Any, index: Any, ptr: Any, stride: Any, col: int = 8, row: int = 8,
    transpose_matrix: bool = False,
) -> PrimExpr:  # fmt: skip
    """Load a matrix of a SIMD group."""
    return intrinsic_call(
        "handle", "simdgroup_load", d, index, ptr, stride, col, row, transpose_matrix
    )


def simdgroup_store(
    d: Any, index: Any, ptr: Any, stride: Any, col: int = 8, row: int = 8,
    transpose_matrix: bool = False,
) -> PrimExpr:  # fmt: skip
    """Store a matrix of a SIMD group."""
    return intrinsic_call(
        "handle", "simdgroup_store", d, index, ptr, stride, col, row, transpose_matrix
    )


def simdgroup_multiply_accumulate(
    d: Any, index_d: Any, a: Any, index_a: Any, b: Any, index_b: Any, c: Any, index_c: Any
) -> PrimExpr:
    """``d = a * b + c`` of matrices of a SIMD group."""
    arguments = (d, index_d, a, index_a, b, index_b, c, index_c)
    return intrinsic_call("handle", "simdgroup_multiply_accumulate", *arguments)


def vectorlow(dtype: Any, vec: Any) -> PrimExpr:
    """Return the lower half of a vector."""
    return intrinsic_call(dtype, "vectorlow", vec)


def vectorhigh(dtype: Any, vec: Any) -> PrimExpr:
    """Return the upper half of a vector."""
    return intrinsic_call(dtype, "vectorhigh", vec)


def vectorcombine(dtype: Any, vec1: Any, vec2: Any) -> PrimExpr:
    """Concatenate two vectors."""
    return intrinsic_call(dtype, "vectorcombine", vec1, vec2)


def dp4a(vec1: Any, vec2: Any, acc: Any = 0) -> PrimExpr:
    """Return the dot product of four pairs of bytes, added to ``acc``; unsigned if all operands
    are.
    """
    vec1, vec2 = convert(vec1), convert(vec2)
    unsigned = vec1.dtype.is_uint and vec2.dtype.is_uint
    return intrinsic_call("uint32" if unsigned else "int32", "dp4a", vec1, vec2, acc)
