"""Builds for a GPU without its runtime: kernels to look at, calls that say what is missing."""

import re

import numpy as np
import pytest

import tilesmith
from tilesmith import te
from tilesmith.inspect import gpu_report
from tilesmith.runtime.ffi import tensor_at
from tilesmith.script import tir as T
from tilesmith.support.errors import TargetError, UnsupportedError, VerifyError
from tilesmith.target import Target


@T.prim_func
def twice(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    for bx in T.thread_binding(8, thread="blockIdx.x"):
        for tx in T.thread_binding(128, thread="threadIdx.x"):
            with T.block("b"):
                i = T.axis.spatial(1024, bx * 128 + tx)
                B[i] = A[i] * T.float32(2)


@T.prim_func
def on_the_host(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("b"):
            v = T.axis.spatial(16, i)
            B[v] = A[v]


@pytest.mark.parametrize("target", ["nvptx", Target("nvptx -mcpu=sm_80", host="llvm")])
def test_kernels_are_imported_by_the_host(target, tmp_path):
    module = tilesmith.build(twice, target=target)
    assert module.type_key == "llvm" and module.function_names == ["twice"]
    (kernels,) = module.imports
    assert kernels.type_key == "nvptx" and kernels.function_names == ["twice_kernel"]
    wanted = ".target sm_80" if isinstance(target, Target) else ".target sm_70"
    assert wanted in kernels.get_source() and "%ctaid.x" in kernels.get_source("ptx")
    assert "@__tvm_ffi_twice" in module.get_source("ll")
    kernels.save(tmp_path / "kernels.ptx")
    assert "call_cpacked" not in module.get_source("ll")  # launchers are called by their symbols
    assert "@__tilesmith_launch_" in module.get_source("ll")


def test_a_call_names_what_is_missing(tmp_path):
    """Building, saving and loading need no GPU; only calls do."""
    module = tilesmith.build(twice, target="nvptx")
    module.export_library(tmp_path / "library.so")
    tensor = tilesmith.nd.array(np.zeros(1024, "float32"))
    # tensors on a GPU that is not there
    absent = tensor_at(tensor, tensor.data_ptr(), (2, 0), (1024,), tensor.dtype)
    for each in (module, tilesmith.runtime.load_module(tmp_path / "library.so")):
        for call in (each["twice"], each.time_evaluator("twice")):
            with pytest.raises(TargetError, match="must be on cuda .*, got cpu"):
                call(tensor, tensor)
            if not tilesmith.cuda(0).exist:
                with pytest.raises(UnsupportedError, match="no device of type 'cuda' can be used"):
                    call(absent, absent)


def test_loops_of_a_device_need_threads():
    with pytest.raises(VerifyError, match="outside of all threads"):
        tilesmith.build(on_the_host, target="nvptx")


def test_several_targets():
    module = tilesmith.build({"nvptx": twice, "llvm": on_the_host})
    assert [each.type_key for each in module.imports] == ["nvptx", "llvm"]
    a, b = tilesmith.nd.array(np.arange(16, dtype="float32")), tilesmith.nd.empty((16,))
    module["on_the_host"](a, b)
    np.testing.assert_array_equal(b.numpy(), a.numpy())


# Kernels that do not fit are refused with the line of the schedule, on all kinds of targets.


def classic(threads=64, tile=None, scope="shared"):
    """A[i, j] + 1 by blocks of threads, through a tile in memory on the chip."""
    rows = tile or 4
    a = te.placeholder((4, rows, 64), name="A")
    b = te.compute((4, rows, 64), lambda i, j, k: a[i, rows - 1 - j, k] + 1.0, name="B")
    s = te.create_schedule(b.op)
    i, j, k = b.op.axis
    if tile is None:
        outer, inner = s[b].split(s[b].fuse(i, j, k), threads)
        s[b].bind(outer, te.thread_axis("blockIdx.x"))
        s[b].bind(inner, te.thread_axis("threadIdx.x"))  # too many
        return s, [a, b]
    copy = s.cache_read(a, scope, [b])
    s[b].bind(i, te.thread_axis("blockIdx.x"))
    s[b].bind(k, te.thread_axis("threadIdx.x"))
    s[copy].compute_at(s[b], i)
    s[copy].bind(copy.op.axis[2], te.thread_axis("threadIdx.x"))
    return s, [a, b]


def two_extents():
    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((64, 64), lambda i, j: b[i, j] + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].set_scope("shared")
    s[c].bind(c.op.axis[1], te.thread_axis("threadIdx.x"))  # 64, and 16
    s[b].bind(s[b].split(b.op.axis[1], 16)[1], te.thread_axis("threadIdx.x"))
    return s, [a, c]


@pytest.mark.parametrize(
    "make, target, text, line",
    [
        (lambda: classic(2048), "cuda", "max_thread_x is 1024", "# too many"),
        (
            lambda: classic(512),
            "opencl -max_threads_per_block=128",
            "max_threads_per_block is 128",
            "# too many",
        ),
        (lambda: classic(tile=196), "cuda", r"A.shared 50176.*is 49152", "s[b]"),
        (lambda: classic(tile=196), "opencl", "max_shared_memory_per_block is 16384", "s[b]"),
        (lambda: classic(tile=700, scope="shared.dyn"), "cuda -arch=sm_80", "is 166912", "s[b]"),
        (two_extents, "cuda", "with 16 threads and with 64", "# 64, and 16"),
        (two_extents, "opencl", "with 16 threads and with 64", "# 64, and 16"),
    ],
)
def test_kernels_that_do_not_fit(make, target, text, line):
    schedule, arguments = make()
    with pytest.raises(VerifyError, match="does not fit") as caught:
        tilesmith.build(schedule, arguments, target=target)
    message = str(caught.value)
    assert re.search(text, message) and line in message
    assert ("-max_" in message) == (target.startswith("opencl") and make is not two_extents)


def test_local_memory_has_a_limit():
    @T.prim_func
    def large(A: T.Buffer((64,), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        L = T.alloc_buffer((262144,), scope="local")
        for i in range(262144):
            L[i] = A[i % 64]
        A[tx] = L[T.Cast("int32", A[tx])]

    with pytest.raises(VerifyError, match="1048576, max_local_memory_per_block is 524288"):
        tilesmith.build(large, target="cuda")


@T.prim_func
def one_after_the_other(A: T.Buffer((64,), "float32")):
    tx = T.launch_thread("threadIdx.x", 64)
    S = T.alloc_buffer((25600,), scope="shared.dyn")
    R = T.alloc_buffer((25600,), scope="shared.dyn")
    for i in range(400):
        S[i * 64 + tx] = A[tx] + T.Cast("float32", i)
    T.tvm_storage_sync("shared.dyn")
    A[tx] = S[T.Cast("int32", A[tx])]
    T.tvm_storage_sync("shared.dyn")
    for i in range(400):
        R[i * 64 + tx] = A[tx] + T.Cast("float32", i)
    T.tvm_storage_sync("shared.dyn")
    A[tx] = R[T.Cast("int32", A[tx])]


def test_tiles_of_disjoint_live_ranges_share_memory():
    """100 KB twice, and 163 KB are there."""
    tilesmith.build(one_after_the_other, target="cuda -arch=sm_80")
    report = gpu_report(one_after_the_other, target="A100", compile_kernels=False)
    assert report.violations == ()
    report = gpu_report(one_after_the_other, target="L4", compile_kernels=False)
    assert [one.limit for one in report.violations] == ["max_shared_memory_per_block"]
