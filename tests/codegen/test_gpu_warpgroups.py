"""Products of four warps (``wgmma``): interpreted, compiled for sm_90a, scheduled."""

import re

import numpy as np
import pytest

import tilesmith as ts
from examples.gemm_ladder.ladder import product
from examples.gemm_ladder.warpgroups import WarpgroupTiling, warpgroup_products
from tests.codegen.gpu_products import instructions, kernels_of, needs_nvdisasm, on_threads
from tests.codegen.gpu_warpgroups_script import CASES, Case, arrays_of, product_of
from tilesmith.codegen.gpu import emit_source, kernel_resources
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.inspect import gpu_report
from tilesmith.support.errors import CodegenError, ExecutionError, UnsupportedError
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.target import Target
from tilesmith.tir.interpreter import run
from tilesmith.tir.interpreter.lockstep import run_kernels
from tilesmith.tir.warpgroup_products import (
    OperandLayout,
    byte_offsets,
    result_places,
    swizzled,
)

TARGET = Target("cuda -arch=sm_90a", host="llvm")


@pytest.mark.parametrize("name", CASES)
def test_interpreted(name):
    arrays, expected = arrays_of(CASES[name])
    run(product_of(CASES[name]), *arrays)
    np.testing.assert_array_equal(arrays[2].astype("float64"), expected)


@pytest.mark.parametrize("name", CASES)
def test_in_lockstep(name):
    arrays, expected = arrays_of(CASES[name])
    assert run_kernels(product_of(CASES[name]), arrays).findings == ()
    np.testing.assert_array_equal(arrays[2].astype("float64"), expected)


def test_in_lockstep_without_a_barrier():
    program = product_of(Case())
    source = re.sub(r".*tvm_storage_sync.*\n", "", program.script())
    found = run_kernels(ts.script.from_source(source), arrays_of(Case())[0]).findings
    assert {one.kind for one in found} == {"race"}


def test_report():
    sch = ts.tir.Schedule(product(128, 128, 256, "float16"))
    warpgroup_products(sch, WarpgroupTiling((128, 64), stages=3, group=1))
    with ts.transform.PassContext(config={"tir.use_async_copy": True}):
        report = gpu_report(sch, target=TARGET, compile_kernels=False)
    assert report.findings == ()
    assert "conflict" in str(report)


def test_compiled():
    """All kernels in one file: NVRTC takes each, and tensor cores do the work."""
    pytest.importorskip("cuda.bindings.nvrtc")
    functions = {
        f"case_{number}": product_of(case).with_attr("global_symbol", f"case_{number}")
        for number, case in enumerate(CASES.values())
    }
    source = emit_source(kernels_of(ts.IRModule(functions), TARGET), TARGET)
    found = kernel_resources(compile_source(source, "sm_90a"))
    assert len(found) == len(CASES)
    assert {name: one.local_bytes for name, one in found.items() if one.local_bytes} == {}
    words = set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.\w+\.\w+\.\w+\.\w+", source))
    assert "wgmma.mma_async.sync.aligned.m64n48k32.s32.u8.u8" in words


TILINGS = {
    "one warpgroup": (WarpgroupTiling((64, 64), 64, stages=3, group=1), (64, 64, 256)),
    "two of rows": (WarpgroupTiling((128, 64), 32, stages=4), (256, 64, 128)),
    "two tiles each": (WarpgroupTiling((128, 64), 32, 2, 3, 1), (128, 128, 128)),
}


@pytest.mark.parametrize("name", TILINGS)
def test_schedule(name):
    tiling, (rows, columns, depth) = TILINGS[name]
    sch = ts.tir.Schedule(product(rows, columns, depth, "float16"))
    warpgroup_products(sch, tiling)
    random = np.random.default_rng(0)
    a, b = [random.standard_normal(s).astype("float16") for s in ((rows, depth), (depth, columns))]
    expected = a.astype("float64") @ b.astype("float64")
    lowered = on_threads(sch.mod, "cuda -arch=sm_90a", use_async_copy=True)
    for module in (sch.mod, lowered):
        c = np.zeros((rows, columns), "float32")
        run(module["main"], a, b, c)
        np.testing.assert_allclose(c, expected, atol=1e-4)


def test_code_of_a_schedule():
    """The large tile: no spills, no barriers but one a step, tensor cores from shared memory."""
    pytest.importorskip("cuda.bindings.nvrtc")
    sch = ts.tir.Schedule(product(1024, 1024, 1024, "float16"))
    warpgroup_products(sch, WarpgroupTiling())
    source = emit_source(kernels_of(sch.mod, TARGET, use_async_copy=True), TARGET)
    assert source.count("__syncthreads()") == 4  # one in the loop, three steps after it
    assert source.count("fence_proxy_async();") == 4
    with collect_fallbacks() as report:
        (found,) = kernel_resources(compile_source(source, "sm_90a")).values()
    assert found.local_bytes == 0 and found.registers <= 255
    assert "products" not in {one.kind for one, _ in report.rows()}


def _after(text, first, *others):
    """Return whether texts come in this order."""
    for one in (first, *others):
        before, found, text = text.partition(one)
        if not found:
            return False
    return True


def test_registers_stay_on_their_side():
    """Neither the fence nor the wait names registers: the compiler is told that both change them,
    so that arithmetic on results is not moved before the wait, nor what is multiplied behind the
    fence.
    """
    source = _source(CASES["A in registers"])
    kernel = source[source.index("main_kernel(") :]
    kept = "keep_registers_4r(r);", "keep_registers_32f(c);"
    for one in kept:
        assert _after(kernel, one, "wgmma_fence();", "wgmma_wait_0();", one)
    assert 'asm volatile("" : "+f"(c[i]) : : "memory");' in source
    of_words = _source(CASES["results of 16 bits"])
    assert "keep_registers_16r(c);" in of_words


@pytest.mark.parametrize("element", [1, 2, 4])
@pytest.mark.parametrize("width", [16, 32, 64, 128])
def test_canonical_layouts_along_k(element, width):
    """The PTX ISA and CuTe describe rows along k as ((8, m), (T, 2)), in units of T elements of 16
    bytes: ((w T, SBO), (1, T)), and ((T, SBO), (1, LBO)) for rows of 16 bytes.
    """
    groups, leading, stride = 4, 4096, 8 * width * 3
    t = 16 // element
    found = byte_offsets(
        OperandLayout("k", width, True), (8 * groups, 2 * t), leading, stride, element
    )
    for row in range(8 * groups):
        for k in range(2 * t):
            step = leading if width == 16 else 16
            wanted = row % 8 * width + row // 8 * stride + k // t * step + k % t * element
            assert found[row, k] == wanted


@pytest.mark.parametrize("width", [16, 32, 64, 128])
def test_canonical_layouts_along_mn(width):
    """Rows along m or n: ((T, w, m), (8, k)): ((1, T, LBO), (w T, SBO)), and with rows of 16 bytes
    the two distances trade places: ((T, 1, m), (8, k)): ((1, T, SBO), (T, LBO)).
    """
    leading, stride, parts = 8192, 8 * width * 5, 3
    row = width // 2
    found = byte_offsets(OperandLayout("mn", width, True), (row * parts, 16), leading, stride, 2)
    between, groups = (stride, leading) if width == 16 else (leading, stride)
    for outer in range(row * parts):
        for k in range(16):
            wanted = outer % row * 2 + outer // row * between + k % 8 * width + k // 8 * groups
            assert found[outer, k] == wanted


@pytest.mark.parametrize("width, bits", [(16, 0), (32, 1), (64, 2), (128, 3)])
def test_the_order_of_pieces(width, bits):
    """CuTe's Swizzle<bits, 4, 3>: bits from 7 on change as many from 4 on."""
    places = np.arange(4096)
    mask = (1 << bits) - 1
    np.testing.assert_array_equal(swizzled(places, width), places ^ (places >> 7 & mask) << 4)


@pytest.mark.parametrize("columns", [8, 64, 256])
def test_places_of_results(columns):
    """CuTe's CLayout_64xN: threads (4, 8, 4) and values (2, 2, N / 8) in a matrix by columns, at
    strides (128, 1, 16) and (64, 8, 512).
    """
    thread, number = np.arange(128)[:, None], np.arange(columns // 2)[None, :]
    place = thread % 4 * 128 + thread // 4 % 8 + thread // 32 * 16
    place = place + number % 2 * 64 + number // 2 % 2 * 8 + number // 4 * 512
    row, column = result_places(columns)
    np.testing.assert_array_equal(row + 64 * column, place)


DESCRIPTORS = {
    "rows of 128 bytes": (16, 1024, 1), "rows of 64 bytes": (16, 512, 2),
    "rows of 32 bytes": (16, 256, 3), "both by columns": (2048, 1024, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_bits_of_a_descriptor(name):
    """The bits that the PTX ISA lists: 16 to 29 and 32 to 45 the distances without their last four
    bits, 62 and 63 the width of rows. Where rows run along k and are wide, the hardware does not
    look at the leading distance.
    """
    pytest.importorskip("cuda.bindings.nvrtc")
    leading, stride, mode = DESCRIPTORS[name]
    found = {
        int(one) & (1 << 64) - 1
        for one in re.findall(
            r"or\.b64\s+%rd\d+, %rd\d+, (-?\d+);",
            compile_source(_source(CASES[name]), "sm_90a", "ptx").decode(),
        )
    }
    fields = {
        (one >> 16 & 0x3FFF, one >> 32 & 0x3FFF, one >> 46 & 0xFFFF, one >> 62) for one in found
    }
    along_k = CASES[name].a.startswith("k")
    wanted = {(stride >> 4, mode)}
    assert {(one[1], one[3]) for one in fields} == wanted
    assert all(one[2] & 0x3FFF == 0 for one in fields)  # the base offset, too
    assert along_k or {one[0] for one in fields} == {leading >> 4}


@needs_nvdisasm
@pytest.mark.parametrize("name", ["rows of 128 bytes", "A in registers"])
def test_order_of_the_machine_code(name):
    """What threads wrote is fenced before the barrier, products begin behind it, and no register
    of theirs is used before the wait.
    """
    words = instructions(_source(CASES[name]), "sm_90a")
    wanted = [
        "STS", "FENCE.VIEW.ASYNC.S", "BAR.SYNC.DEFER_BLOCKING", "WARPGROUP.ARRIVE", "HGMMA",
        "WARPGROUP.DEPBAR.LE", "STG",
    ]  # fmt: skip
    places = [
        [at for at, word in enumerate(words) if word.startswith(one)][-1 if one == "STS" else 0]
        for one in wanted
    ]
    assert places == sorted(places)


def test_products_that_wait_on_their_own():
    """The compiler inserts the wait that a program forgot, and that is recorded; in the cache, too.
    The schedules of the ladder have no such waits.
    """
    pytest.importorskip("cuda.bindings.nvrtc")
    source = _source(Case())
    for text, count in ((source, 0), (source.replace("  wgmma_wait_0();\n", ""), 1)):
        for _ in range(2):
            with collect_fallbacks() as report:
                compile_source(text, "sm_90a")
            found = [one for one, _ in report.rows() if one.kind == "products"]
            assert len(found) == count
            assert all(
                one.function == "" and one.place == "kernel 'main_kernel'" for one in found
            ), found


def _source(case, arch="sm_90a"):
    target = Target(f"cuda -arch={arch}", host="llvm")
    return emit_source(kernels_of(ts.IRModule({"main": product_of(case)}), target), target)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case(20), "no 20 columns"),
        (Case(40, "s8", "int32"), "no 40 columns"),
        (Case(64, "bf16", "fp16"), "gives f32"),
        (Case(64, "s8", "int32", b="mn:16"), "rows along k only"),
    ],
)
def test_unknown_product(case, message):
    with pytest.raises(CodegenError, match=message):
        _source(case)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100a"])
def test_architecture(arch):
    with pytest.raises(CodegenError, match="needs the architecture sm_90a"):
        _source(Case(), arch)


def test_opencl():
    target = Target("opencl", host="llvm")
    with pytest.raises(CodegenError, match="Hopper"):
        emit_source(kernels_of(ts.IRModule({"main": product_of(Case())}), target), target)


def test_rows_that_are_not_permuted():
    sch = ts.tir.Schedule(product(64, 64, 256, "float16"))
    warpgroup_products(sch, WarpgroupTiling((64, 64), 64, stages=3, group=1))
    (block, *_) = [
        one
        for one in sch.get_child_blocks(sch.get_block("root"))
        if "permuted_layout" in sch.get(one).annotations
    ]
    sch.unannotate(block, "permuted_layout")
    with pytest.raises(CodegenError, match="permuted_layout"):
        emit_source(kernels_of(sch.mod, TARGET), TARGET)


def test_rows_of_another_width():
    sch = ts.tir.Schedule(product(64, 64, 256, "float16"))
    warpgroup_products(sch, WarpgroupTiling((64, 64), 64, stages=3, group=1))
    lines = sch.mod["main"].script().replace("k:rows128", "k:rows64")
    with pytest.raises(UnsupportedError, match="k:rows128"):
        on_threads(ts.IRModule({"main": ts.script.from_source(lines)}), TARGET)


def test_half_a_warpgroup():
    program = product_of(Case())
    source = re.sub(r'(launch_thread\("threadIdx.x"), 128', r"\1, 64", program.script())
    arrays, _ = arrays_of(Case())
    with pytest.raises(ExecutionError, match="only 64 of the 128 threads"):
        run(ts.script.from_source(source), *arrays)
