"""Bulk copies of boxes of tensors: interpreted against numpy, compiled for sm_90a, refused."""

import re
from dataclasses import replace

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.gpu_instructions_script import barriers
from tests.codegen.gpu_products import (
    instructions,
    kernels_of,
    mnemonics,
    needs_nvdisasm,
    on_threads,
)
from tests.codegen.gpu_tensor_copies_script import (
    CASES,
    Box,
    arrays_of,
    arrays_of_product,
    copy_of,
    product_by_tensor_maps,
)
from tests.codegen.gpu_warpgroups_script import Case, product_of
from tests.tir.warp_roles_script import by_tensor_maps, in_one_loop
from tests.tir.warp_roles_script import product as roles
from tilesmith.codegen.gpu import emit_source, kernel_alignments
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.ir import assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.support.errors import CodegenError, ExecutionError, UnsupportedError
from tilesmith.target import Target
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.interpreter.lockstep import run_kernels

CHECKED = Options(check_races=True, check_undefined=True)
TARGET = Target("cuda -arch=sm_90a", host="llvm")


def source_of(function, target=TARGET):
    named = ts.IRModule({"main": function.with_attr("global_symbol", "main")})
    return emit_source(kernels_of(named, target), Target(target))


@pytest.mark.parametrize("name", CASES)
def test_interpreted(name):
    """As it is written, with races and undefined memory watched, and as it is lowered."""
    function = copy_of(CASES[name])
    lowered = on_threads(ts.IRModule({"main": function}), TARGET)["main"]
    for one, options in ((function, CHECKED), (lowered, Options())):
        arrays, expected = arrays_of(CASES[name])
        run(one, *arrays, options=options)
        np.testing.assert_array_equal(arrays[2], expected)


@pytest.mark.parametrize("name", CASES)
def test_in_lockstep(name):
    arrays, expected = arrays_of(CASES[name])
    assert run_kernels(copy_of(CASES[name]), arrays).findings == ()
    np.testing.assert_array_equal(arrays[2], expected)


@pytest.mark.parametrize("stages, sizes", [(2, (64, 64, 256)), (3, (72, 40, 192))])
def test_product(stages, sizes):
    """What the copies permute is what tensor cores read; tiles at the edges are filled with 0."""
    function = product_by_tensor_maps(*sizes, stages)
    for one in (function, on_threads(ts.IRModule({"main": function}), TARGET)["main"]):
        arrays, expected = arrays_of_product(*sizes)
        run(one, *arrays)
        np.testing.assert_array_equal(arrays[2], expected)
    arrays, _ = arrays_of_product(*sizes)
    assert run_kernels(function, arrays).findings == ()
    np.testing.assert_array_equal(arrays[2], expected)


@needs_nvdisasm
def test_instructions_of_the_machine():
    functions = {f"case_{number}": copy_of(case) for number, case in enumerate(CASES.values())}
    functions["product"] = product_by_tensor_maps(4096, 4096, 4096, 4)
    named = {name: one.with_attr("global_symbol", name) for name, one in functions.items()}
    found = mnemonics(emit_source(kernels_of(ts.IRModule(named), TARGET), TARGET), "sm_90a")
    wanted = {*[f"UTMALDG.{axes}D" for axes in range(1, 6)], "HGMMA.64x64x16.F32"}
    assert wanted <= found
    assert not [word for word in found if word.startswith(("LDL", "STL"))]


def fenced(source):
    """What a kernel does with barriers, in the order of its text."""
    kernel = source[source.index("main_kernel(") :]
    words = "fence_proxy_async|__syncthreads|arrive_barrier_expecting|arrive_barrier|wait_barrier"
    return " ".join(re.findall(rf"\b({words}|copy_tensor_2d|copy_bulk|wgmma_wait_0)\(", kernel))


FENCED = {
    "tensor cores read what bulk copies bring": (product_by_tensor_maps(128, 128, 128), ""),
    "tensor cores read what threads store": (
        product_of(Case()), "fence_proxy_async __syncthreads wgmma_wait_0"
    ),
    "bulk copies replace what threads have read": (
        by_tensor_maps(2, 5),
        "__syncthreads wait_barrier fence_proxy_async arrive_barrier_expecting copy_tensor_2d "
        "wait_barrier fence_proxy_async arrive_barrier",
    ),
    "by all threads": (
        in_one_loop(), "copy_bulk wait_barrier fence_proxy_async arrive_barrier"
    ),
    "no bulk copies": (barriers(), "arrive_barrier wait_barrier __syncthreads"),
}  # fmt: skip


@pytest.mark.parametrize("name", FENCED)
def test_fences_between_threads_and_other_units(name):
    """What a thread did with shared memory comes before what tensor cores and bulk copies do behind
    the barrier where it arrives. Where these alone use it, there are no fences.
    """
    function, wanted = FENCED[name]
    found = fenced(source_of(function))
    assert wanted in found
    assert ("fence_proxy_async" in found) == ("fence_proxy_async" in wanted)


def test_fence_behind_a_wait_for_copies():
    """The arrival of ``cp.async`` happens by itself: who waits for it has the fence."""
    text = product_of(Case()).script()
    begin, wait = 'T.tvm_storage_sync("shared")', "T.ptx_wait_barrier(0)"
    arrivals = f"T.ptx_cp_async_barrier(0)\n    T.ptx_arrive_barrier(0)\n    {wait}"
    assert text.count(begin) == 1
    text = text.replace("    a = T.decl", "    T.create_barriers(1)\n    a = T.decl", 1)
    found = fenced(source_of(ts.script.from_source(text.replace(begin, arrivals))))
    assert "fence_proxy_async arrive_barrier wait_barrier fence_proxy_async" in found


@needs_nvdisasm
def test_order_of_the_machine_code():
    """Warps of two roles: barriers are set up before all threads meet; products wait for their
    tile and give it back behind their end; a copy follows the announcement of its bytes.
    """
    source = source_of(roles(256, 256, 256, 2))
    words = instructions(source, "sm_90a")
    for order in (
        ["SYNCS.EXCH.64", "BAR.SYNC", "SYNCS.PHASECHK.TRANS64.TRYWAIT", "WARPGROUP.ARRIVE",
         "HGMMA.64x64x16.F32", "WARPGROUP.DEPBAR", "SYNCS.ARRIVE.TRANS64.A1T0"],
        ["BAR.SYNC", "SYNCS.ARRIVE.TRANS64", "UTMALDG.2D", "EXIT"],
    ):  # fmt: skip
        rest = iter(words)
        assert all(any(word.startswith(one) for word in rest) for one in order), order
    assert not [word for word in words if word.startswith(("MEMBAR", "LDL", "STL"))]


def test_the_description_is_a_parameter():
    """The hardware reads 128 bytes at a multiple of 64 in the memory of parameters: no copy."""
    pytest.importorskip("cuda.bindings.nvrtc")
    text = compile_source(source_of(copy_of(CASES["2d"])), "sm_90a", "ptx").decode()
    assert re.search(r"\.param \.align 64 \.b8 main_kernel_param_\d\[128\]", text)
    assert "cvta.param.u64" in text and ".local" not in text


def test_copies_share_a_description():
    source = source_of(product_by_tensor_maps(128, 128, 128))
    assert source.count("__grid_constant__") == 2
    assert "//   A_map: 128 x 128 elements of 16 bits, 256 bytes apart, box 64 x 64" in source
    (alignments,) = kernel_alignments(
        kernels_of(ts.IRModule({"main": product_by_tensor_maps(128, 128, 128)}), TARGET), TARGET
    ).values()
    assert alignments == (128, 128, 0)


def test_boxes_in_shared_memory_are_aligned():
    assert "__shared__ __align__(128) float S[128];" in source_of(copy_of(CASES["2d"]))
    assert "__shared__ __align__(512) __half S[512];" in source_of(
        copy_of(CASES["64 bytes permuted"])
    )
    assert "buf_dyn_shmem + 1024)" in source_of(copy_of(CASES["dynamic memory"]))


def test_two_boxes_in_one_buffer():
    """The thread that copies meets no barrier between its copies."""

    @T.prim_func
    def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((2, 256), "float32")):
        tx = T.launch_thread("threadIdx.x", 32)
        S = T.decl_buffer((512,), "float32", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
        T.tvm_storage_sync("shared")
        if tx == 0:
            T.ptx_arrive_barrier_expect_tx(0, 2048)
            for half in range(2):
                T.ptx_cp_async_bulk_tensor(
                    "float32", S.data, half * 256, A.data, (64, 64), (8, 32), (half * 8, 32), 0
                )
        T.ptx_wait_barrier(0)
        for half, i in T.grid(2, 8):
            B[half, i * 32 + tx] = S[half * 256 + i * 32 + tx]

    a = np.arange(4096, dtype="float32").reshape(64, 64)
    b = np.zeros((2, 256), "float32")
    run(main, a, b, options=CHECKED)
    np.testing.assert_array_equal(b, a[:16, 32:].reshape(2, 256))
    (copying,) = re.findall(
        r"if \(.*\) \{\n    fence_proxy_async\(\);\n    arrive_barrier_expecting(?:.|\n)*?\n  \}",
        source_of(main),
    )
    assert "copy_tensor_2d" in copying and "__syncthreads" not in copying


def test_text_again():
    function = copy_of(CASES["3d, permuted"])
    assert "T.tvm_tuple(3, 20, 32), T.tvm_tuple(2, 8, 32)" in function.script()
    assert_structural_equal(ts.script.from_source(function.script()), function)


# What is refused.

GOOD = CASES["2d"]
REFUSED = {
    "six axes": (
        Box((2,) * 5 + (4,), (1,) * 5 + (4,), ((0,) * 6,)), "boxes of 1 to 5 axes"
    ),
    "a long box": (replace(GOOD, box=(257, 16)), r"1 to 256 elements an axis, not \(257, 16\)"),
    "a short row": (replace(GOOD, box=(8, 3)), "whole pieces of 16 bytes, not 12"),
    "rows that are not aligned": (
        replace(GOOD, sizes=(40, 63)), "multiples of 16 bytes below .*, not 252 bytes"
    ),
    "another swizzle": (replace(GOOD, swizzle=16), "is 0, 32, 64 or 128 bytes, not 16"),
    "rows unlike the swizzle": (
        replace(GOOD, swizzle=128), "with a swizzle of 128 bytes, rows .* have as many, not 64"
    ),
    "axes of different number": (replace(GOOD, box=(16,)), "as many numbers each, not 2, 1, 1, 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    case, message = REFUSED[name]
    function = copy_of(case)
    with pytest.raises(CodegenError, match=message):
        source_of(function)
    with pytest.raises(UnsupportedError, match=message):
        run(
            function,
            *[np.zeros([int(n) for n in one.shape], one.dtype) for one in function.buffers],
        )


def plain():
    """One copy, without the arrivals that other architectures lack first."""

    @T.prim_func
    def main(A: T.Buffer((64, 64), "float32")):
        T.launch_thread("threadIdx.x", 32)
        S = T.decl_buffer((512,), "float32", scope="shared")
        T.create_barriers(1)
        T.ptx_cp_async_bulk_tensor("float32", S.data, 0, A.data, (64, 64), (8, 32), (0, 0), 0)

    return main


@pytest.mark.parametrize(
    "target, message",
    [
        ("cuda -arch=sm_80", "'ptx_cp_async_bulk_tensor' needs the architecture sm_90"),
        ("opencl", "barriers in shared memory, which OpenCL C has not"),
    ],
)
def test_refused_by_a_target(target, message):
    with pytest.raises(CodegenError, match=message):
        source_of(plain(), target)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("A.data,", "T.address_of(A[1, 0]),", "a tensor that the kernel gets as a parameter"),
        ("T.tvm_tuple(64, 64),", "T.int32(64),", "the sizes of .* must be a tuple"),
        ("T.tvm_tuple(64, 1)", "T.tvm_tuple(1, 64)", "the last axis .* has the stride 1, not 64"),
        ('"float32", S', '"float32x2", S', "8, 16, 32 or 64 bits, not float32x2"),
        ("S.data, 0, A", "S.data, 0, S", "a tensor that the kernel gets as a parameter"),
    ],
)  # fmt: skip
def test_operands_that_are_refused(old, new, message):
    text = plain().script()
    assert old in text
    with pytest.raises(CodegenError, match=message):
        source_of(ts.script.from_source(text.replace(old, new)))


def test_sizes_of_a_run():
    @T.prim_func
    def main(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n, 64), "float32")
        T.launch_thread("threadIdx.x", 32)
        S = T.decl_buffer((512,), "float32", scope="shared")
        T.create_barriers(1)
        T.ptx_cp_async_bulk_tensor("float32", S.data, 0, A.data, (n, 64), (8, 32), (0, 0), 0)

    with pytest.raises(CodegenError, match="the sizes of .* must be constants, not n"):
        source_of(main)


# Mistakes that the interpreter finds.

MISTAKES = {
    "too few bytes": ("expect_tx(0, 512)", "expect_tx(0, 256)", "512 of 256 announced bytes"),
    "nobody arrives": ("T.ptx_arrive_barrier_expect_tx(0, 512)", "T.evaluate(0)", "0 of 1 arr"),
    "a wrong place": ("S.data, 0,", "S.data, 4,", "byte 16 of shared memory; .* multiple of 128"),
    "no barrier": ("T.ptx_init_barrier_thread_count(0, 1)", "T.evaluate(0)", "used before"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    old, new, message = MISTAKES[name]
    text = copy_of(GOOD).script()
    assert old in text
    program = ts.script.from_source(text.replace(old, new))
    with pytest.raises(ExecutionError, match=message):
        run(program, *arrays_of(GOOD)[0])
    first, *_ = run_kernels(program, arrays_of(GOOD)[0]).findings
    assert re.search(message.partition("; ")[0].replace("shared memory", "S"), first.message)


def test_a_missing_wait():
    """What has not been waited for is seen: it is no number."""
    text = copy_of(GOOD).script().replace("T.ptx_wait_barrier(0)", "T.evaluate(0)")
    arrays, _ = arrays_of(GOOD)
    run(ts.script.from_source(text), *arrays)
    assert np.isnan(arrays[2]).all()
    found = run_kernels(ts.script.from_source(text), arrays).findings
    assert "missing wait" in {one.kind for one in found}


def test_a_missing_barrier():
    """The next box comes while others still read the last one."""
    text, _, rest = copy_of(GOOD).script().rpartition('T.tvm_storage_sync("shared")')
    program = ts.script.from_source(text + "T.evaluate(0)" + rest)
    found = run_kernels(program, arrays_of(GOOD)[0]).findings
    assert "race" in {one.kind for one in found}
