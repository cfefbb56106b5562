"""Products on tensor cores and copies in the background: from the schedule to machine code, and in
the interpreter.
"""

from functools import cache

import numpy as np
import pytest

from tests.codegen.gpu_classic_products import classic_product
from tests.codegen.gpu_instructions_script import arrays_for
from tests.codegen.gpu_products import (
    arrays_of,
    kernels_of,
    mma_product,
    mnemonics,
    needs_nvdisasm,
    on_threads,
    product_of_m16n8k8,
    wmma_product,
)
from tests.codegen.opencl_harness import Program, needs_opencl
from tests.tir.transform.thread_programs_script import PROGRAMS
from tilesmith import IRModule
from tilesmith.codegen.gpu import emit_source
from tilesmith.codegen.gpu.limits import thread_extents
from tilesmith.lowering import lower
from tilesmith.support.errors import CodegenError
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.tir.interpreter import run

PRODUCTS = {
    "mma": (mma_product, (), "sm_80", {}, ["HMMA.16816.F32", "LDSM.16.M88.4", "LDSM.16.MT88.4"]),
    "mma f16": (
        mma_product, ("float16", "float16", True), "sm_80", {}, ["HMMA.16816.F16", "LDSM.16.M88.4"]
    ),
    "mma tf32": (mma_product, ("float32", "float32", True), "sm_80", {}, ["HMMA.1688.F32.TF32"]),
    "wmma tf32": (
        wmma_product, ("float32", "float32", False, 32), "sm_80", {}, ["HMMA.1684.F32.TF32"]
    ),
    "mma bytes": (mma_product, ("int8", "int32", True), "sm_80", {}, ["IMMA.16832.S8.S8"]),
    "m16n8k8": (product_of_m16n8k8, (), "sm_75", {}, ["HMMA.1688.F32", "LDSM.16.M88.4"]),
    "wmma": (wmma_product, (), "sm_75", {}, ["HMMA.1688.F32", "LDSM.16.M88.2"]),
    "wmma bytes": (wmma_product, ("int8", "int32", True), "sm_80", {}, ["IMMA.16816.S8.S8"]),
    "wmma int4": (wmma_product, ("int4", "int32", True), "sm_80", {}, ["IMMA.8832.S4.S4"]),
    "pipeline": (
        wmma_product, ("float16", "float32", False, 64, 3, "shared.dyn"), "sm_90a",
        {"use_async_copy": True}, ["HMMA.16816.F32", "LDGSTS.E.64", "LDGDEPBAR", "DEPBAR.LE"],
    ),
    "mma pipeline": (
        mma_product, ("float16", "float32", True, 64, False, 2, True), "sm_80",
        {"use_async_copy": True}, ["HMMA.16816.F32", "LDSM.16.M88.4", "LDGSTS.E.BYPASS.128"],
    ),
    "pipeline of four": (
        wmma_product, ("int8", "int32", True, 64, 4), "sm_90a",
        {"use_async_copy": True}, ["IMMA.16816.S8.S8", "LDGSTS.E.64"],
    ),
}  # fmt: skip


RUN = ["mma", "mma bytes", "m16n8k8", "wmma", "pipeline", "mma pipeline"]


@cache
def scheduled(name):
    make, arguments, *_ = PRODUCTS[name]
    return make(*arguments)


@needs_nvdisasm
@pytest.mark.parametrize("name", PRODUCTS)
def test_machine_code(name):
    _, _, arch, options, words = PRODUCTS[name]
    target = f"cuda -arch={arch}"
    _, sch = scheduled(name)
    source = emit_source(kernels_of(sch.mod, target, **options), Target(target))
    found = mnemonics(source, arch)
    assert [word for word in words if word not in found] == []
    # registers stay registers: nothing is kept in a thread's own memory
    assert not [word for word in found if word.startswith(("LDL", "STL"))]


@pytest.mark.parametrize(
    "name", ["mma", "mma bytes", "m16n8k8", "wmma", "pipeline", "mma pipeline"]
)
def test_results(name):
    """The interpreter runs what the passes for threads have made, with registers and copies."""
    _, arguments, arch, options, _ = PRODUCTS[name]
    program, sch = scheduled(name)
    arrays = arrays_of(program)
    a, b = [array.astype("float64") for array in arrays[:2]]
    right = b.T if len(arguments) > 2 and arguments[2] else b
    module = on_threads(sch.mod, f"cuda -arch={arch}", **options)
    run(module["main"], *arrays)
    np.testing.assert_array_equal(arrays[2].astype("float64"), a @ right)


def test_text_of_a_pipeline():
    """Fragments are arrays of registers, and each turn waits for the copies of two turns ago."""
    _, sch = scheduled("pipeline")
    target = "cuda -arch=sm_80"
    source = emit_source(kernels_of(sch.mod, target, use_async_copy=True), Target(target))
    kernel = source[source.index("main_kernel(") :]
    assert "  float C_wmma_accumulator[1][8];" in kernel
    assert "wmma_fill_f32_8(C_wmma_accumulator[0], 0.0f);" in kernel
    turn = kernel[kernel.index("#pragma unroll") :]
    order = ["__syncthreads();", "copy_async_8(", "commit_group();", "wait_group_2();",
             "__syncthreads();", "wmma_load_a_", "wmma_load_b_", "wmma_mma_", "wait_group_1();",
             "wait_group_0();", "wmma_store_d_"]  # fmt: skip
    place = 0
    for word in order:
        place = turn.index(word, place) + 1
    assert "mma.h" not in source


def test_a_kernel_without_copies_in_the_background_needs_no_groups():
    _, sch = scheduled("pipeline")
    source = emit_source(kernels_of(sch.mod, "cuda -arch=sm_75"), Target("cuda -arch=sm_75"))
    assert "_group" not in source and "cp.async" not in source


def test_an_older_architecture():
    _, sch = scheduled("pipeline")
    kernels = kernels_of(sch.mod, "cuda -arch=sm_75", use_async_copy=True)
    with pytest.raises(CodegenError) as caught:
        emit_source(kernels, Target("cuda -arch=sm_75"))
    text = str(caught.value)
    assert "'ptx_cp_async' needs the architecture sm_80 or newer, the target's is sm_75" in text
    assert '"cuda -arch=sm_80"' in text
    _, sch = scheduled("mma")
    with pytest.raises(CodegenError, match="'ptx_mma m16n8k16' needs the architecture sm_80"):
        emit_source(kernels_of(sch.mod, "cuda"), Target("cuda"))


@pytest.mark.parametrize("name, word", [("wmma", "wmma"), ("mma", "mma_fill")])
def test_opencl_has_no_tensor_cores(name, word):
    _, sch = scheduled(name)
    kernels = kernels_of(sch.mod, "opencl -thread_warp_size=32")
    with pytest.raises(CodegenError, match=f"{word}.*OpenCL C has no words for"):
        emit_source(kernels, Target("opencl"))


def test_copies_of_several_queues():
    """A GPU has one queue: the kernel waits for all copies, and a report says so."""
    function = PROGRAMS["matmul_async_apart"]().with_attr("global_symbol", "main")
    target = "cuda -arch=sm_80"
    kernels = kernels_of(IRModule({"main": function}), target, use_async_copy=True)
    with collect_fallbacks() as report:
        source = emit_source(kernels, Target(target))
    assert "copy_async_4(" in source and "wait_group_0();" in source
    assert "wait_group_1" not in source
    (found,) = {fallback.reason for fallback, _ in report.rows()}
    assert found == "it fills several queues"


@needs_opencl
def test_pipelines_on_an_opencl_device():
    """Copies in the background are copies at once there, whatever waits for them."""
    names = ("matmul_async", "matmul_async_apart")
    functions = {name: PROGRAMS[name]().with_attr("global_symbol", name) for name in names}
    for name, function in functions.items():
        kernels = kernels_of(IRModule({name: function}), "opencl", use_async_copy=True)
        source = emit_source(kernels, Target("opencl"))
        assert "*(__local uint*)" in source
        arrays = arrays_for(function)
        expected = [array.copy() for array in arrays]
        run(function, *expected)
        ((variable, kernel),) = kernels.functions.items()
        extents = thread_extents(kernel)
        grid = [int(extents.extents.get(f"blockIdx.{axis}", 1)) for axis in "xyz"]
        given = dict(zip([buffer.name for buffer in function.buffers], arrays))
        dynamic = 8192 if "dynamic_shared" in source else 0
        arguments = [given[param.name] for param in kernel.params]
        program = Program(source)
        program.run(variable.name_hint, grid, extents.block(), *arguments, local_bytes=dynamic)
        np.testing.assert_array_equal(arrays[-1], expected[-1], err_msg=name)


def test_a_classic_schedule():
    """Tensor intrinsics that a user declares; the axes of threads that stages launch are one."""
    schedule, tensors = classic_product()
    module = lower(schedule, tensors, name="main")
    target = "cuda -arch=sm_75"
    source = emit_source(kernels_of(module, target), Target(target))
    assert source.count("__syncthreads();") == 2  # before each load of fragments
    assert "wmma_load_b_m16n16k16_row_f16_shared(" in source
    random = np.random.default_rng(0)
    a, b = [random.integers(-2, 3, (4, 4, 16, 16)).astype("float16") for _ in range(2)]
    c = np.zeros((4, 4, 16, 16), "float32")
    run(on_threads(module, target)["main"], a, b, c)
    np.testing.assert_array_equal(c, np.einsum("ikab,kjbc->ijac", a, b, dtype="float32"))
