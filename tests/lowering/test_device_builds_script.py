"""Builds for a GPU without its runtime: kernels to look at, calls that say what is missing."""

import numpy as np
import pytest

import tilesmith
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
