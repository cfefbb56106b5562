"""Kernels for NVIDIA GPUs: PTX text from thread-bound functions, checked by ptxas where it is."""

import re
import subprocess
from shutil import which

import pytest

import tilesmith
from tests.gpu.programs import PROGRAMS
from tilesmith import codegen
from tilesmith.script import tir as T
from tilesmith.support.errors import CodegenError
from tilesmith.target import Target
from tilesmith.tir import transform

GPU = Target("nvptx -mcpu=sm_70", host="llvm")


@T.prim_func
def reversed_exponential(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for bx in T.thread_binding(8, thread="blockIdx.x"):
        for tx in T.thread_binding(128, thread="threadIdx.x"):
            with T.block("b"):
                w, t = T.axis.remap("SS", [bx, tx])
                S = T.alloc_buffer((128,), "float32", scope="shared")
                S[t] = A[w * 128 + t]
                T.evaluate(T.tvm_storage_sync("shared"))
                B[w * 128 + t] = T.exp(S[127 - t])


@T.prim_func
def narrow_sums(A: T.Buffer((64, 32), "float16"), B: T.Buffer((64,), "float32"), n: T.int32):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for bx in T.thread_binding(2, thread="blockIdx.y"):
        for tx in T.thread_binding(32, thread="threadIdx.y"):
            for _one in T.thread_binding(1, thread="threadIdx.z"):
                with T.block("b"):
                    w, t = T.axis.remap("SS", [bx, tx])
                    L = T.alloc_buffer((1,), "float32", scope="local")
                    L[0] = T.float32(0)
                    for k in range(n):
                        L[0] = L[0] + T.Cast("float32", A[w * 32 + t, k])
                    B[w * 32 + t] = L[0]


@T.prim_func(check_well_formed=False)
def warp_sum(A: T.Buffer((32,), "float32"), B: T.Buffer((1,), "int32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    tx = T.launch_thread("threadIdx.x", 32)
    mask = T.tvm_warp_activemask()
    moved: T.float32 = T.tvm_warp_shuffle_down(mask, A[tx], 16, 32, 32)
    up: T.int32 = T.tvm_warp_shuffle_up(mask, T.reinterpret("int32", moved), 1, 16, 32)
    T.evaluate(T.tvm_storage_sync("warp"))
    T.evaluate(T.call_intrin("int32", "tir.atomic_add", T.address_of(B[0]), up))


def kernel_of(function):
    """The module with the one kernel of a function."""
    module = transform.BindTarget(GPU)(tilesmith.lower(function))
    module = transform.SplitHostDevice()(transform.AnnotateDeviceRegions()(module))
    kernels = {v: f for v, f in module.functions.items() if v.name_hint.endswith("_kernel")}
    assert len(kernels) == 1
    return transform.LowerIntrin()(tilesmith.IRModule(kernels))


def ptx(function, tmp_path, target=GPU):
    text = codegen.build(kernel_of(function), target).get_source("ptx")
    if which("ptxas"):
        (tmp_path / "kernel.ptx").write_text(text)
        architecture = re.search(r"\.target (\w+)", text).group(1)
        known = subprocess.run(["ptxas", "--help"], capture_output=True, text=True).stdout
        if f"'{architecture}'" in known:
            command = ["ptxas", f"-arch={architecture}", "kernel.ptx", "-o", "kernel.cubin"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    return text


def test_threads_shared_memory_and_barriers(tmp_path):
    text = ptx(reversed_exponential, tmp_path, Target("nvptx -mcpu=sm_80"))
    assert ".target sm_80" in text and re.search(r"\.visible \.entry main_kernel\(", text)
    for words in ("%ctaid.x", "%tid.x", "bar.sync", "st.shared", "ld.shared", "ld.global"):
        assert words in text
    assert ".shared .align 16 .b8" in text and "[512]" in text
    assert "fma.rn.f32" in text and ".func" not in text  # exp is arithmetic


def test_local_memory_loops_and_float16(tmp_path):
    text = ptx(narrow_sums, tmp_path)
    assert "%ctaid.y" in text and "%tid.y" in text and "%tid.z" not in text
    assert "cvt.f32.f16" in text and ".local" not in text  # the sum is in a register


def test_warps_and_atomics(tmp_path):
    text = ptx(warp_sum, tmp_path)
    for words in ("shfl.sync.down.b32", "shfl.sync.up.b32", "activemask", "bar.warp.sync"):
        assert words in text
    assert re.search(r"(atom|red)\.\S*add\.u32", text)


def test_forms_and_saving(tmp_path):
    module = codegen.build(kernel_of(reversed_exponential), GPU)
    assert module.type_key == "nvptx" and not module.is_runnable
    assert module.function_names == ["main_kernel"] and module.is_device_module
    assert module.format == "ptx" and module.get_source() == module.get_source("ptx")
    assert "ptx_kernel void @main_kernel" in module.get_source("ll")
    module.save(str(tmp_path / "kernel.ptx"))
    assert ".version" in (tmp_path / "kernel.ptx").read_text()


def refused(function, words):
    with pytest.raises(CodegenError, match=words):
        codegen.build(kernel_of(function), GPU)


def test_refusals():
    @T.prim_func(check_well_formed=False)
    def sine(A: T.Buffer((32,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 32)
        A[tx] = T.sin(A[tx])

    @T.prim_func(check_well_formed=False)
    def wide(A: T.Buffer((32,), "float64")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 32)
        A[tx] = T.sigmoid(A[tx])

    @T.prim_func(check_well_formed=False)
    def asserting(A: T.Buffer((32,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 32)
        assert A[tx] > T.float32(0), "no"
        A[tx] = T.float32(0)

    @T.prim_func(check_well_formed=False)
    def matrices(A: T.Buffer((32,), "float32")):
        T.func_attr({"global_symbol": "main"})
        tx = T.launch_thread("threadIdx.x", 32)
        A[tx] = T.float32(1)
        T.evaluate(T.ptx_commit_group())

    refused(sine, r"(?s)'tir.sin'.*'cuda'")
    refused(wide, r"(?s)'tir.sigmoid' of float64.*'cuda'")
    refused(asserting, "assertion, which code of a GPU cannot report")
    refused(matrices, "'tir.ptx_commit_group' has no translation for NVPTX")


def test_names_of_memory_that_the_launch_sizes():
    """ptxas takes no dots in names of external variables."""

    module = PROGRAMS["transpose, dynamic shared"].build("nvptx -mcpu=sm_90")
    text = module.imported_modules[0].get_source("ptx")
    (name,) = re.findall(r"\.extern \.shared \.align \d+ \.b8 ([^\[]+)\[", text)
    assert name.isidentifier()
