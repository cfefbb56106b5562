"""Copies of NVIDIA GPUs, and kernels that become functions of their own."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply, arrays_for, assert_same, module
from tilesmith.ir import assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.transform import (
    AnnotateDeviceRegions,
    DecorateDeviceScope,
    InjectPTXAsyncCopy,
    InjectPTXLDG32,
    LowerDeviceKernelLaunch,
    SplitHostDevice,
)

CHECKED = Options(check_races=True, check_undefined=True)


def same(before, after, options=CHECKED):
    arrays = arrays_for(before)
    want = [array.copy() for array in arrays]
    got = [array.copy() for array in arrays]
    run(before, *want)
    run(after, *got, options=options)
    assert_same(got, want)


# Copies of NVIDIA GPUs


def test_inject_ptx_async_copy():
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.decl_buffer((64,), scope="shared")
        with T.attr(0, "async_commit_queue_scope", 0):
            with T.attr(0, "async_scope", 1):
                S[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
                S[tx + 32] = T.if_then_else(tx < n, A[tx + 32], T.float32(0))
        with T.attr(0, "async_wait_queue_scope", 0):
            with T.attr(0, "async_wait_inflight_count", 0):
                B[tx] = S[tx * 4] + S[tx + 32]

    after = apply(before, InjectPTXAsyncCopy())
    text = str(after)
    assert 'T.ptx_cp_async("float32", S.data, tx * 4, A.data, tx * 4, 16)' in text
    assert '"tir.ptx_cp_async", S.data, tx + 32, A.data, tx + 32, 4, tx < n)' in text
    assert "async_scope" not in text
    a, b, c = (np.random.rand(64).astype("float32") for _ in range(3))
    run(before, a, b, 5)
    run(after, a, c, 5)
    np.testing.assert_array_equal(b[:8], c[:8])
    np.testing.assert_array_equal(b[:8], a[:32:4] + np.where(np.arange(8) < 5, a[32:40], 0))


def test_copies_of_two_bytes_stay_stores():
    @T.prim_func
    def func(A: T.Buffer((64,), "float16")):
        T.func_attr({"global_symbol": "main"})
        S = T.decl_buffer((64,), "float16", scope="shared")
        with T.attr(0, "async_scope", 1):
            S[0] = A[1]

    assert_structural_equal(apply(func, InjectPTXAsyncCopy()), func)


def test_inject_ptx_ldg32():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 8)
        x = T.decl_buffer((1,), scope="local")
        x[0] = T.if_then_else(tx < 5, A[tx], T.float32(0))
        B[tx] = x[0]

    after = apply(func, InjectPTXLDG32())
    assert '"tir.ptx_ldg32", x.data, tx < 5, A[tx], 0)' in str(after)
    same(func, after, Options())


# Kernels


def two_kernels():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main", "target": T.target("cuda", host="llvm")})
        with T.launch_thread("threadIdx.x", 8) as tx:
            B[tx] = A[tx] * T.Cast("float32", n)
        with T.launch_thread("blockIdx.x", n) as bx:
            B[bx] = B[bx] + T.float32(1)

    return func


def test_split_host_device():
    mod = module(two_kernels())
    annotated = AnnotateDeviceRegions()(mod)
    assert str(annotated).count('"target", 0') == 2
    split = SplitHostDevice()(annotated)
    assert_structural_equal(split, SplitHostDevice()(mod))  # marks by itself what is not marked
    assert {v.name_hint for v in split.functions} == {"main", "main_kernel", "main_kernel_1"}
    kernel = split["main_kernel"]
    assert [p.name for p in kernel.params] == ["A", "B", "n"] or len(kernel.params) == 3
    assert kernel.attrs["tir.is_global_func"]
    assert kernel.attrs["target"].host is None
    launched = LowerDeviceKernelLaunch()(split)
    assert launched["main_kernel_1"].attrs["tir.kernel_launch_params"] == ("blockIdx.x",)
    assert launched["main_kernel"].attrs["calling_conv"] == 2
    assert 'T.call_packed("main_kernel_1", B.data, n, n)' in str(launched)
    a = np.random.rand(8).astype("float32")
    for stage in (mod, annotated, split, launched):
        b = np.zeros(8, "float32")
        run(stage, a, b, 5, entry="main", options=CHECKED)
        np.testing.assert_array_equal(b, a * 5 + (np.arange(8) < 5))


def test_kernels_with_several_dynamic_allocations_are_refused():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main", "target": T.target("cuda", host="llvm")})
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.decl_buffer((8,), scope="shared.dyn")
        R = T.decl_buffer((8,), scope="shared.dyn")
        S[tx] = A[tx]
        R[tx] = S[tx]
        A[tx] = R[tx]

    split = SplitHostDevice()(module(func))
    with pytest.raises(UnsupportedError, match="run MergeSharedMemoryAllocations"):
        LowerDeviceKernelLaunch()(split)


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_memory_of_threads_is_no_parameter(scope):
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main", "target": T.target("cuda", host="llvm")})
        S = T.decl_buffer((8,), scope=scope)
        with T.launch_thread("threadIdx.x", 8) as tx:
            S[tx] = A[tx]
        A[0] = S[0]

    with pytest.raises(UnsupportedError, match=f"'S' is memory in scope '{scope}'.* outside of"):
        SplitHostDevice()(module(func))


def test_decorate_device_scope():
    after = apply(two_kernels(), DecorateDeviceScope())
    assert after.body.attr_key == "device_scope"
