"""Kernels of one instruction each: as CUDA C they become the machine's instructions, as OpenCL C
they give what the interpreter gives, and what a device has not is refused.
"""

import numpy as np
import pytest

from tests.codegen.gpu_instructions_script import (
    BYTES,
    CUDA,
    EVERYWHERE,
    OF_NUMPY,
    arrays_for,
    atomics,
    barriers,
    bulk_copies,
    copies,
    fragments,
    ldmatrix,
    mma,
    shuffles,
)
from tests.codegen.gpu_products import kernels_of, mnemonics, needs_nvdisasm
from tests.codegen.opencl_harness import Program, needs_opencl
from tilesmith import IRModule
from tilesmith.codegen.gpu import emit_source, kernel_alignments
from tilesmith.codegen.gpu.limits import thread_extents
from tilesmith.ir import Call
from tilesmith.script import tir as T
from tilesmith.support.errors import CodegenError
from tilesmith.target import Target
from tilesmith.tir import Evaluate, PrimFunc
from tilesmith.tir.interpreter import run

WORDS = [
    "HMMA.1688.F32", "HMMA.16816.F16", "HMMA.16816.F32.BF16", "HMMA.1684.F32.TF32", "DMMA.8x8x4",
    "DMMA.16x8x16", "IMMA.16816.U8.U8", "IMMA.16832.S8.S8", "LDSM.16.MT88.4", "LDGSTS.E",
    "LDGSTS.E.64", "LDGSTS.E.BYPASS.128", "SYNCS.EXCH.64", "UBLKCP.S.G", "SHFL.DOWN", "SHFL.UP",
    "SHFL.IDX", "ATOMS.ADD", "REDG.E.ADD.F64.RN.STRONG.GPU", "IDP.4A.S8.S8", "IDP.4A.U8.U8",
]  # fmt: skip


def functions_of(programs):
    """The functions of programs, each with a name that C takes."""
    return {
        "_".join(name.split()): make(*arguments).with_attr("global_symbol", "_".join(name.split()))
        for name, (make, arguments) in programs.items()
    }


@needs_nvdisasm
def test_instructions_that_are_not_interpreted():
    """Products of sparse matrices and of bits (sm_90 has no exclusive or, and takes two ands)."""
    for arch, words in (("sm_80", ["BMMA.88128.XOR.POPC"]), ("sm_90a", ["BMMA.88128.AND.POPC"])):
        functions = {name: function for name, (function, _) in OF_NUMPY.items()}
        named = {
            "_".join(name.split()): one.with_attr("global_symbol", "_".join(name.split()))
            for name, one in functions.items()
        }
        target = f"cuda -arch={arch}"
        found = mnemonics(emit_source(kernels_of(IRModule(named), target), Target(target)), arch)
        wanted = ["HMMA.SP.16816.F32", "IMMA.SP.16832.S8.S8", *words]
        assert [word for word in wanted if not any(one.startswith(word) for one in found)] == []


@needs_nvdisasm
def test_instructions_of_the_machine():
    functions = functions_of({**CUDA, **EVERYWHERE})
    target = "cuda -arch=sm_90a"
    source = emit_source(kernels_of(IRModule(functions), target), Target(target))
    found = mnemonics(source, "sm_90a")
    assert [word for word in WORDS if word not in found] == []
    assert not [word for word in found if word.startswith(("LDL", "STL"))]


@needs_opencl
def test_on_an_opencl_device():
    """Copies in the background are copies at once there, and floats are added in a loop."""
    functions = functions_of(EVERYWHERE)
    kernels = kernels_of(IRModule(functions), "opencl")
    source = emit_source(kernels, Target("opencl"))
    assert "cp.async" not in source and "atomic_cmpxchg" in source
    program = Program(source)
    for name, function in functions.items():
        arrays = arrays_for(function)
        expected = [array.copy() for array in arrays]
        run(function, *expected)
        kernel = next(v for v in kernels.functions if v.name_hint.startswith(name + "_kernel"))
        params = [param.name for param in kernels[kernel].params]
        given = dict(zip([buffer.name for buffer in function.buffers], arrays))
        extents = thread_extents(kernels[kernel])
        grid = [int(extents.extents.get(f"blockIdx.{axis}", 1)) for axis in "xyz"]
        program.run(kernel.name_hint, grid, extents.block(), *[given[one] for one in params])
        for got, want in zip(arrays, expected):
            np.testing.assert_array_equal(got, want, err_msg=name)


def refused(function, target):
    with pytest.raises(CodegenError) as caught:
        named = function.with_attr("global_symbol", "main")
        emit_source(kernels_of(IRModule({"main": named}), target), Target(target))
    return str(caught.value)


@pytest.mark.parametrize(
    "make, target, message",
    [
        (lambda: mma("m16n8k16", "fp64", "fp64"), "cuda -arch=sm_80",
         "'ptx_mma m16n8k16' needs the architecture sm_90 or newer, the target's is sm_80"),
        (lambda: mma("m16n8k16", "fp16", "fp32"), "cuda",
         "needs the architecture sm_80 or newer, the target names none, which means sm_75"),
        (lambda: mma("m8n8k8", "fp16", "fp32"), "cuda", "its shapes are m8n8k4, m16n8k8, m16n8k16"),
        (lambda: fragments((16, 16, 8), "float16", "float32", "row_major"), "cuda",
         "fragment 'a': there is no matrix_a of f16 of shape m16n16k8"),
        (lambda: fragments((16, 16, 16), "bfloat16", "float32", "row_major"), "cuda -arch=sm_75",
         "sm_80"),
        (barriers, "cuda -arch=sm_75", "needs the architecture sm_80"),
        (bulk_copies, "cuda -arch=sm_80", "'ptx_cp_async_bulk' needs the architecture sm_90"),
        (lambda: atomics("int16"), "cuda", "values of 'int16' cannot be added atomically"),
        (lambda: atomics("int8"), "opencl", "values of 'int8' cannot be added atomically"),
        (lambda: shuffles("float32"), "opencl", "needs sub-groups"),
        (barriers, "opencl", "'create_barriers' needs barriers in shared memory"),
        (lambda: ldmatrix(4, False), "opencl", "'ptx_ldmatrix' is an instruction of NVIDIA GPUs"),
        (lambda: ldmatrix(3, False), "cuda", "ldmatrix loads 1, 2 or 4 matrices, not 3"),
    ],
)  # fmt: skip
def test_what_is_refused(make, target, message):
    assert message in refused(make(), target)


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize(
    "name, advice",
    [
        ("simdgroup_load", "fragments (tvm_mma_sync)"), ("dma_wait", "ptx_cp_async"),
        ("texture2d_store", "scope 'global'"), ("call_llvm_intrin", "T.call_extern"),
    ],
)  # fmt: skip
def test_operators_of_other_devices(target, name, advice):
    function = PrimFunc([], Evaluate(Call("int32", f"tir.{name}", ())))
    with pytest.raises(CodegenError) as caught:
        emit_source(IRModule({"main": function}), Target(target))
    assert f"'{name}'" in str(caught.value) and advice in str(caught.value)


def test_shuffles_of_sub_groups():
    """Text only: PoCL has no shuffles of sub-groups."""
    function = shuffles("float32").with_attr("global_symbol", "main")
    target = "opencl -thread_warp_size=32"
    source = emit_source(kernels_of(IRModule({"main": function}), target), Target(target))
    assert "cl_khr_subgroup_shuffle" in source and "sub_group_ballot(1)" in source
    assert "const int source = lane - given;" in source


@pytest.mark.parametrize("target", ["cuda -arch=sm_75", "opencl"])
def test_a_reduction_over_threads(target):
    """In a warp by exchanges; in OpenCL, which has no warps, through shared memory."""

    @T.prim_func
    def main(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for k in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]

    source = emit_source(kernels_of(IRModule({"main": main}), target), Target(target))
    if target == "opencl":
        assert "sub_group" not in source and "__local float" in source
    else:
        assert source.count("__shfl_down_sync(") == 5 and "__shared__" not in source


def test_dp4a_of_mixed_signs_is_a_sum():
    """The instruction that CUDA names has one sign for both sides."""
    sources = {}
    for pair in BYTES:
        make, arguments = EVERYWHERE[f"dp4a {pair[0]} {pair[1]}"]
        function = make(*arguments).with_attr("global_symbol", "main")
        kernels = kernels_of(IRModule({"main": function}), "cuda -arch=sm_75")
        sources[pair] = emit_source(kernels, Target("cuda -arch=sm_75"))
    assert "__dp4a(" in sources["int8", "int8"] and "__dp4a(" in sources["uint8", "uint8"]
    assert "__dp4a(" not in sources["uint8", "int8"]


def test_registers_are_aligned_for_instructions():
    """They take 32 bits at once, whatever the elements are."""
    for function, line in (
        (ldmatrix(1, False), "__align__(4) __half r[2];"),
        (mma("m16n8k16", "fp16", "fp32"), "__align__(16) __half a[8];"),
        (mma("m8n8k16", "s8", "int32"), "__align__(4) signed char a[4];"),
    ):
        named = IRModule({"main": function.with_attr("global_symbol", "main")})
        target = "cuda -arch=sm_80"
        assert line in emit_source(kernels_of(named, target), Target(target))


@pytest.mark.parametrize(
    "function, needed",
    [
        (copies(16, True), {"A": 16, "B": 0}), (copies(4, False), {"A": 4, "B": 0}),
        (bulk_copies(), {"A": 16, "B": 0}),
        (fragments((16, 16, 16), "float16", "float32", "row_major"), {"A": 32, "B": 32, "C": 32}),
    ],
    ids=["copies of 16 bytes", "copies of 4 bytes", "bulk copies", "fragments"],
)  # fmt: skip
def test_instructions_that_need_aligned_memory(function, needed):
    target = Target("cuda -arch=sm_90a")
    module = kernels_of(IRModule({"main": function.with_attr("global_symbol", "main")}), target)
    (kernel,) = module.functions.values()
    (found,) = kernel_alignments(module, target).values()
    assert dict(zip([parameter.name for parameter in kernel.params], found)) == needed
