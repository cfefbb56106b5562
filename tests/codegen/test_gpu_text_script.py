"""The text of small kernels in both dialects, and what is refused before code leaves."""

import re

import pytest

import tilesmith
from tests.codegen.test_gpu_kernels_script import kernels_of, needs_nvrtc
from tests.gpu.programs import PROGRAMS
from tilesmith.codegen.gpu import emit_source, kernel_alignments, kernel_resources
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.script import tir as T
from tilesmith.support.errors import CodegenError, MissingDependencyError
from tilesmith.target import Target
from tilesmith.tir import Schedule

CUDA, OPENCL = Target("cuda -arch=sm_80"), Target("opencl")


def text_of(function, target):
    """The kernels of a function, without the line about Tilesmith."""
    return emit_source(kernels_of({"main": function}, target), target).partition("\n")[2].strip()


def elementwise(make, dtype="float32", lanes=4, result=None, count=1024, offset=0):
    """`B[i] = make(A[i + offset])`, vectorized, on blocks of 32 threads."""
    result = result or dtype

    @T.prim_func
    def main(A: T.Buffer((count + offset,), dtype), B: T.Buffer((count,), result)):
        for i in range(count):
            with T.block("B"):
                vi = T.axis.spatial(count, i)
                B[vi] = make(A[vi + offset])

    sch = Schedule(main)
    (i,) = sch.get_loops(sch.get_block("B"))
    block, thread, lane = sch.split(i, [None, 32, lanes])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lane)
    return sch.mod["main"]


def test_a_kernel_in_cuda_c():
    assert (
        text_of(elementwise(lambda a: T.exp(a) * T.float32(2)), CUDA)
        == """
// main_kernel: blockIdx (8, 1, 1), threadIdx (32, 1, 1)
extern "C" __global__ void __launch_bounds__(32) main_kernel(
    float* __restrict__ B,
    const float* __restrict__ A) {
  const int blockIdx_x = blockIdx.x;
  const int threadIdx_x = threadIdx.x;
  const int cse_var_1 = blockIdx_x * 128 + threadIdx_x * 4;
  const float4 A_value = *(const float4*)(A + cse_var_1);
  *(float4*)(B + cse_var_1) = make_float4(
      expf(A_value.x) * 2.0f,
      expf(A_value.y) * 2.0f,
      expf(A_value.z) * 2.0f,
      expf(A_value.w) * 2.0f);
}
""".strip()
    )


@pytest.mark.parametrize("target", ["cuda -arch=sm_90", "opencl", "nvptx -mcpu=sm_90"])
def test_pointers_through_which_threads_exchange_values(target):
    """The compiler may read through a restricted pointer before a barrier (found on a GPU)."""
    module = PROGRAMS["exchange in global memory"].build(target).imported_modules[0]
    text = module.get_source("ll") if target.startswith("nvptx") else module.get_source()
    word = "noalias" if target.startswith("nvptx") else "restrict"
    (head,) = re.findall(r"exchange_kernel\((.*?)\)", text, re.DOTALL)
    restricted = {one.split()[-1].strip("%_*")[0]: word in one for one in head.split(",")}
    assert restricted == {"A": True, "B": False, "C": True}


def test_a_kernel_in_opencl_c():
    assert (
        text_of(elementwise(lambda a: T.exp(a) * T.float32(2)), OPENCL)
        == """
// main_kernel: blockIdx (8, 1, 1), threadIdx (32, 1, 1)
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void main_kernel(
    __global float* restrict B,
    const __global float* restrict A) {
  const int blockIdx_x = get_group_id(0);
  const int threadIdx_x = get_local_id(0);
  const int cse_var_1 = blockIdx_x * 128 + threadIdx_x * 4;
  const float4 A_value = *(const __global float4*)(A + cse_var_1);
  *(__global float4*)(B + cse_var_1) = (float4)(
      exp(A_value.s0) * 2.0f,
      exp(A_value.s1) * 2.0f,
      exp(A_value.s2) * 2.0f,
      exp(A_value.s3) * 2.0f);
}
""".strip()
    )


ACCESSES = [  # dtype, lanes, the type of an access in CUDA C, in OpenCL C
    ("float32", 2, "float2", "float2"), ("float32", 4, "float4", "float4"),
    ("float32", 8, "float4", "float8"), ("float64", 2, "double2", "double2"),
    ("float16", 2, "__half2", "ushort2"), ("float16", 8, "uint4", "ushort8"),
    ("bfloat16", 8, "uint4", "ushort8"), ("int8", 4, "char4", "char4"),
    ("int8", 16, "uint4", "char16"), ("uint8", 2, "uchar2", "uchar2"),
    ("int32", 4, "int4", "int4"), ("int16", 8, "uint4", "short8"),
    ("int64", 2, "longlong2", "long2"), ("uint32", 4, "uint4", "uint4"),
    ("float8_e4m3fn", 16, "uint4", "uchar16"),
]  # fmt: skip


@pytest.mark.parametrize("dtype, lanes, cuda, opencl", ACCESSES)
def test_copies_are_wide(dtype, lanes, cuda, opencl):
    copy = elementwise(lambda a: a, dtype, lanes)
    for target, kind in ((CUDA, cuda), (OPENCL, opencl)):
        text = text_of(copy, target)
        assert re.search(rf"\*\((__global )?{kind}\*\)\(?B", text), text
        assert re.search(rf"\*\(const (__global )?{kind}\*\)\(?A", text), text
        assert "A[" not in text and "B[" not in text


def test_where_alignment_is_not_known_elements_are_loaded_one_by_one():
    shifted = elementwise(lambda a: a, offset=1)
    assert "A[cse_var_1 + 1], A[" in text_of(shifted, CUDA).replace("place", "cse_var_1 + 1")
    text = text_of(shifted, OPENCL)
    assert "vload4(0, A + " in text  # takes any address
    pairs = elementwise(lambda a: a, offset=2)
    assert text_of(pairs, CUDA).count("*(const float2*)(A") == 2


@pytest.mark.parametrize("target", [CUDA, OPENCL], ids=["cuda", "opencl"])
def test_what_a_kernel_relies_on_is_said(target):
    wide = kernels_of({"main": elementwise(lambda a: a)}, target)
    assert kernel_alignments(wide, target) == {"main_kernel": (16, 16)}
    narrow = kernels_of({"main": elementwise(lambda a: a, lanes=1)}, target)
    assert kernel_alignments(narrow, target) == {"main_kernel": (0, 0)}


@T.prim_func
def shared_rows(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32"), n: T.int32):
    for bx in T.thread_binding(8, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("b"):
                w, t = T.axis.remap("SS", [bx, tx])
                S = T.alloc_buffer((64,), "float32", scope="shared.dyn")
                L = T.alloc_buffer((4,), "float32", scope="local")
                S[t] = A[w, t]
                T.evaluate(T.tvm_storage_sync("shared"))
                for u in T.unroll(4):
                    L[u] = S[(t + u) % 64]
                for k in range(n):
                    for q in range(4):
                        L[q] = L[q] + T.if_then_else(t + k < 64, S[t + k], T.float32(0))
                B[w, t] = L[0] + L[1] + L[2] + L[3]


@pytest.mark.parametrize(
    "target, parts",
    [
        (CUDA, ["extern __shared__ __align__(1024) unsigned char dynamic_shared[];",
                "float* const S = (float*)dynamic_shared;", "__syncthreads();", "const int n",
                "#pragma unroll\n    for (int q = 0; q < 4; ++q) {"]),
        (OPENCL, ["__local uchar* dynamic_shared)", "barrier(CLK_LOCAL_MEM_FENCE);",
                  "__local float* const S = (__local float*)dynamic_shared;"]),
    ],
    ids=["cuda", "opencl"],
)  # fmt: skip
def test_shared_memory_barriers_and_loops(target, parts):
    text = text_of(shared_rows, target)
    for part in parts:
        assert part in text, text
    assert "(cse_var_2 < 64 ? S[cse_var_2] : 0.0f)" in text


def test_source_of_the_user_is_included():
    @T.prim_func
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("b"):
                t = T.axis.spatial(32, tx)
                T.attr(0, "pragma_import_c", "__device__ float twice(float x) { return x + x; }")
                B[t] = T.call_pure_extern("float32", "twice", A[t])

    text = text_of(main, CUDA)
    assert text.startswith("__device__ float twice(float x)") and "= twice(A[threadIdx_x]);" in text


def test_kernels_have_names_that_every_language_allows():
    odd = elementwise(lambda a: a).with_attr("global_symbol", "my-odd.name")
    assert "void __launch_bounds__(32) my_odd_name_kernel(" in text_of(odd, CUDA)


def test_a_schedule_asks_for_blocks_on_a_multiprocessor():
    sch = Schedule(elementwise(lambda a: a, lanes=1))
    sch.annotate(sch.get_loops(sch.get_block("B"))[1], "pragma_min_blocks_per_multiprocessor", 2)
    assert "__launch_bounds__(32, 2) main_kernel(" in text_of(sch.mod["main"], CUDA)


def test_fast_math_is_an_option_of_the_target():
    exponential = elementwise(lambda a: T.exp(a), lanes=1)
    assert "= __expf(A" in text_of(exponential, Target("cuda -arch=sm_80 -fast-math=1"))
    assert "= native_exp(A" in text_of(exponential, Target("opencl -fast-math=1"))


# -- limits


def threads(x, y=1, shared=0, scope="shared"):
    @T.prim_func
    def main(A: T.Buffer((x, y), "float32"), B: T.Buffer((x, y), "float32")):
        for tx in T.thread_binding(x, thread="threadIdx.x"):
            for ty in T.thread_binding(y, thread="threadIdx.z"):
                with T.block("b"):
                    i, j = T.axis.remap("SS", [tx, ty])
                    S = T.alloc_buffer((max(shared, 1),), "float32", scope=scope)
                    S[i] = A[i, j]
                    B[i, j] = S[i]

    return main


def refusal(function, target):
    with pytest.raises(CodegenError) as caught:
        text_of(function, Target(target))
    return str(caught.value)


def test_too_many_threads_are_refused():
    text = refusal(threads(2048), "cuda -arch=sm_80")
    assert "kernel 'main_kernel': a block has 2048 x 1 x 1 = 2048 threads" in text
    assert "the target allows 1024" in text and "split the loops" in text
    limited = "opencl -max_threads_per_block=128"
    assert "the target allows 128" in refusal(threads(512), limited)
    assert "512, 1, 1" in text_of(threads(512), Target("opencl"))  # only the device knows its limit
    assert "threadIdx.z has extent 128; the largest is 64" in refusal(
        threads(2, 128), "cuda -arch=sm_80"
    )


def static_tile(words, scope):
    @T.prim_func(check_well_formed=False)
    def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        tx = T.launch_thread("threadIdx.x", 32)
        S = T.allocate([words], "float32", scope)
        tile = T.decl_buffer((words,), "float32", data=S, scope=scope)
        tile[tx] = A[tx]
        B[tx] = tile[words - 1 - tx]

    return main


def test_too_much_shared_memory_is_refused():
    text = refusal(static_tile(16384, "shared"), "cuda -arch=sm_80")
    assert "it declares 65536 bytes of shared memory (S 65536)" in text and "shared.dyn" in text
    assert "dynamic_shared" in text_of(static_tile(16384, "shared.dyn"), CUDA)
    text = refusal(static_tile(65536, "shared.dyn"), "cuda -arch=sm_80")
    assert "a block needs 262144 bytes of shared memory; the target has 166912" in text
    assert "the target has 16384" in refusal(static_tile(8192, "shared"), "opencl")


def test_what_a_kernel_cannot_do_is_refused():
    @T.prim_func
    def packed(A: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("b"):
                t = T.axis.spatial(32, tx)
                A[t] = T.float32(0)
                T.evaluate(T.tvm_storage_sync("global"))

    text = refusal(packed, "opencl")
    assert "a barrier of all blocks" in text and "may run one after the other" in text


# -- NVRTC


@needs_nvrtc
def test_an_error_of_the_compiler_shows_the_line():
    with pytest.raises(CodegenError) as caught:
        compile_source('extern "C" __global__ void f(float* a) {\n  a[0] = wrong;\n}\n', "sm_80")
    text = str(caught.value)
    assert 'identifier "wrong" is undefined' in text and ">    2   a[0] = wrong;" in text


@needs_nvrtc
def test_resources_are_read_from_machine_code():
    source = """
extern "C" __global__ void uses(float* a, int n) {
  float kept[100];
  for (int i = 0; i < 100; i++) kept[i] = a[i];
  __shared__ float s[77];
  s[threadIdx.x] = kept[n];
  __syncthreads();
  a[n] = s[n] + kept[a[0] > 1 ? 3 : n + 1];
}
extern "C" __global__ void plain(float* a) { a[threadIdx.x] = 1; }
"""
    found = kernel_resources(compile_source(source, "sm_80"))
    assert found["uses"].local_bytes >= 400 and found["uses"].shared_bytes >= 308
    assert found["plain"].local_bytes == found["plain"].shared_bytes == 0
    assert 0 < found["plain"].registers < found["uses"].registers
    with pytest.raises(CodegenError, match="not the bytes of a cubin"):
        kernel_resources(b"ELF")


@needs_nvrtc
def test_formats_of_a_built_module(tmp_path):
    module = tilesmith.build(elementwise(lambda a: a + a), target="cuda").imported_modules[0]
    assert module.get_source().startswith("// Made by Tilesmith: cuda\n")
    assert ".target sm_75" in module.get_source("ptx")
    assert module.get_source("cubin").startswith("\x7fELF")
    module.save(tmp_path / "kernels.cubin")  # the bytes, which a text of them is not
    assert kernel_resources((tmp_path / "kernels.cubin").read_bytes())["main_kernel"].registers > 0


def test_a_missing_compiler_names_its_package(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    with pytest.raises(MissingDependencyError, match="cuda-bindings"):
        compile_source("// not kept in the cache", "sm_80")


@needs_nvrtc
@pytest.mark.parametrize("kind", ["cubin", "ptx"])
def test_an_architecture_that_the_compiler_does_not_know(kind):
    with pytest.raises(CodegenError, match="does not know the architecture 'sm_999'") as caught:
        compile_source("// nothing", "sm_999", kind)
    assert "sm_80, " in str(caught.value) and "pip install -U" in str(caught.value)
