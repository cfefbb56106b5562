"""The GEMM ladder: each step multiplies matrices without races, and lowers to what it promises."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import tilesmith as ts
from examples.gemm_ladder import page, sweep
from examples.gemm_ladder.ladder import FINAL, STEPS, Tiling, product
from examples.gemm_ladder.tensor_cores import TensorTiling
from examples.gemm_ladder.warpgroups import WarpgroupTiling
from tilesmith.codegen.gpu import kernel_resources
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.ir import assert_structural_equal
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.lowering.pipelines import device_passes
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.transform import ThreadSync

CHECKED = Options(check_races=True, check_undefined=True)
TARGET = Target("cuda -arch=sm_90", host="llvm")
SMALL = Tiling(tile=(16, 64), warps=(1, 2), depth=8)
SIZES = {
    "naive": (None, (32, 16, 5)),
    "wide_loads": (None, (16, 128, 6)),
    "register_tiles": (Tiling(tile=(64, 64), depth=4), (64, 64, 8)),
    "shared_memory": (Tiling(tile=(64, 64), depth=16), (64, 64, 16)),
    "no_bank_conflicts": (Tiling(tile=(64, 64), depth=16), (64, 64, 16)),
    "warp_tiles": (SMALL, (16, 64, 16)),
    "double_buffering": (SMALL, (16, 64, 24)),
    "block_swizzle": (replace(SMALL, group=2), (32, 64, 16)),
    "asynchronous_copies": (replace(SMALL, group=2, stages=4), (32, 64, 40)),
    "deeper_tiles": (replace(SMALL, depth=16, interleave=2), (16, 64, 48)),
    "tensor_cores": (
        TensorTiling(tile=(64, 32), depth=32, warps=(2, 1), stages=3, group=1), (64, 32, 128)
    ),
    "warpgroups": (WarpgroupTiling((64, 64), depth=64, stages=3, group=1), (64, 64, 256)),
}  # fmt: skip


def small(name):
    tiling, sizes = SIZES[name]
    step = STEPS[name]
    return (step if tiling is None else replace(step, tiling=tiling)), sizes


def lowered(step, sizes):
    with PassContext(config=dict(step.options)), Target(f"cuda -arch={step.arch or 'sm_90'}"):
        return ts.lower(step.schedule(*sizes).mod)


def kernel(step, sizes):
    """Return the kernel as the code generator gets it."""
    with PassContext(config=dict(step.options)):
        module = Sequential(device_passes(TARGET))(ts.lower(step.schedule(*sizes).mod))
    (found,) = [f for v, f in module.functions.items() if "kernel" in v.name_hint]
    return found.script()


@pytest.mark.parametrize("name", STEPS)
def test_a_step_multiplies(name):
    """The lowered kernel, run with its threads; barriers come later, so races are not watched."""
    step, (rows, columns, depth) = small(name)
    rng = np.random.default_rng(0)
    a, b = [
        rng.integers(-3, 4, shape).astype(step.dtype) for shape in ((rows, depth), (depth, columns))
    ]
    c = np.full((rows, columns), np.nan, "float32")
    run(lowered(step, (rows, columns, depth))["main"], a, b, c)
    np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32"))


def test_swizzled_tiles():
    """Without padding, pieces of rows lie in another order, which loads and copies know."""
    step, _ = small("tensor_cores")
    step = replace(step, tiling=replace(step.tiling, padding=0, tile=(32, 64), warps=(1, 1)))
    rng = np.random.default_rng(0)
    a, b = [rng.integers(-3, 4, shape).astype("float16") for shape in ((32, 96), (96, 64))]
    c = np.full((32, 64), np.nan, "float32")
    module = lowered(step, (32, 64, 96))
    run(module["main"], a, b, c)
    np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32"))
    assert "bitwise_xor" in module["main"].script()


@pytest.mark.parametrize("name", ["double_buffering", "asynchronous_copies"])
def test_no_races_with_the_barriers_of_lowering(name):
    step, (_, _, depth) = small(name)
    step = replace(step, tiling=replace(SMALL, stages=step.tiling.stages))
    rows, columns, depth = 16, 64, depth * 2 // 3 // 8 * 8
    module = Sequential([ThreadSync("shared"), ThreadSync("shared.dyn")])(
        lowered(step, (rows, columns, depth))
    )
    rng = np.random.default_rng(1)
    a, b = [
        rng.integers(-3, 4, shape).astype("float32") for shape in ((rows, depth), (depth, columns))
    ]
    c = np.full((rows, columns), np.nan, "float32")
    run(module["main"], a, b, c, options=CHECKED)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("name", ["double_buffering", "asynchronous_copies", "tensor_cores"])
def test_one_barrier_in_each_step_of_the_sum(name):
    """The copies of the next tiles need none of their own: they go to another version."""
    text = kernel(STEPS[name], (512, 512, 512))
    (loop,) = re.findall(r"^( +)for k_\S+ in range\(\d+\):\n((?:\1 .*\n)+)", text, re.MULTILINE)
    assert loop[1].count('tvm_storage_sync("shared")') == 1
    assert "if " not in loop[1]


def test_double_buffers_are_shared_ones():
    """Registers between global and shared memory have one version: constants index them."""
    text = kernel(STEPS["double_buffering"], (256, 256, 64))
    assert 'A_shared = T.allocate([2112], "float32", "shared")' in text
    assert "A_shared_local[0:4] = A_1[" in text
    assert ":132] = A_shared_local[0:4]" in text  # stored transposed


def test_the_launch_order_in_groups():
    """With powers of two, the numbers of a block are bits of its place in the order."""
    text = kernel(STEPS["block_swizzle"], (2048, 1024, 64))
    assert 'T.launch_thread("blockIdx.x", 128)' in text
    assert "blockIdx_x % 8" in text and "blockIdx_x % 64 // 8" in text


@pytest.mark.parametrize("step", [STEPS[FINAL], STEPS["asynchronous_copies"]])
def test_registers_on_a_gpu(step):
    """The machine code keeps all in registers, so that two blocks of 256 threads run at once."""
    code = step.build(step.schedule(1024, 1024, 1024)).imported_modules[0]
    (found,) = kernel_resources(compile_source(code.get_source(), "sm_90")).values()
    assert found.local_bytes == 0
    assert found.registers <= 128


@pytest.mark.parametrize("name", ["wide_loads", "block_swizzle"])
def test_a_step_on_an_opencl_device(name):
    if not ts.opencl(0).exist:
        pytest.skip("no OpenCL device")
    step, (rows, columns, depth) = small(name)
    built = ts.build(step.schedule(rows, columns, depth).mod, target="opencl")
    rng = np.random.default_rng(2)
    a, b = [rng.standard_normal(s).astype("float32") for s in ((rows, depth), (depth, columns))]
    c = np.full((rows, columns), np.nan, "float32")
    arrays = [ts.nd.array(value, ts.opencl(0)) for value in (a, b, c)]
    built["main"](*arrays)
    np.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-4, atol=1e-4)


def test_a_step_says_where_it_runs(capsys):
    step = STEPS["warpgroups"]
    wanted = {"sm_90": "sm_90a", "sm_90a": "sm_90a", "sm_80": "", "opencl": ""}
    assert {arch: step.architecture(arch) for arch in wanted} == wanted
    assert STEPS["naive"].architecture("sm_80") == "sm_80"
    with pytest.raises(UnsupportedError, match="needs sm_90a, not sm_100"):
        sweep.build(step, 256, "sm_100")
    sweep.compile_only(256, "warpgroups", "sm_100")
    said = capsys.readouterr().out
    assert len(said.splitlines()) == said.count("left out: it needs sm_90a, not sm_100") == 3


def test_traces_can_be_replayed():
    step, sizes = small("asynchronous_copies")
    sch = step.schedule(*sizes)
    again = ts.tir.Schedule(product(*sizes))
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_the_page_says_what_is_recorded():
    """`python -m examples.gemm_ladder.page` writes it again after changes."""
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text) == text
    assert all(f"\n### {name}\n" in text for name in STEPS)


def test_measured_shares_come_from_the_recorded_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    run = {"device": "A board", "size": page.SIZE, "torch": {"float32": 2e-3, "float16": 1e-3},
           "rows": {"naive": {"dtype": "float32", "seconds": 4e-3}}}  # fmt: skip
    (tmp_path / "board.json").write_text(json.dumps(run))
    lines = page.part().splitlines()
    assert "Measured on: A board, 4096³." in lines
    (row,) = [line for line in lines if line.startswith("| [naive]")]
    assert row.endswith("| 34.4 | 51% | 50% |")
    (other,) = [line for line in lines if line.startswith("| [wide_loads]")]
    assert other.endswith("| not measured | not measured | not measured |")


def test_the_sweep_checks_and_times(monkeypatch):
    """Beside an OpenCL device; what does not fit there is reported, the others go on."""
    if not ts.opencl(0).exist:
        pytest.skip("no OpenCL device")
    pytest.importorskip("torch")
    wanted = {name: STEPS[name] for name in ("wide_loads", "tensor_cores")}
    monkeypatch.setattr(sweep, "STEPS", wanted)
    monkeypatch.setattr(sweep, "VARIANTS", {"again": STEPS["wide_loads"]})
    results = sweep.measure(128, 1, None, "opencl")
    assert set(results["rows"]) == set(wanted)
    assert results["rows"]["wide_loads"]["error"] < 1e-5
    assert "bytes of shared memory" in results["rows"]["tensor_cores"]["failure"]
    text = sweep.table(results)
    assert "of torch" in text and "VerifyError" in text
