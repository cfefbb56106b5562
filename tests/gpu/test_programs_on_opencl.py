"""Built programs run on OpenCL devices: one and several kernels, libraries, threads, errors."""

import threading

import numpy as np
import pytest

import tilesmith
from tests.gpu.classic_programs import CLASSIC
from tests.gpu.programs import PROGRAMS, _chain, build_smallest, build_wide
from tilesmith import te
from tilesmith.runtime.opencl import buffers
from tilesmith.script import tir as T
from tilesmith.support.errors import DeviceError, ShapeError, TargetError
from tilesmith.target import Target
from tilesmith.testing import requires_c_compiler

DEVICE = tilesmith.opencl(0)
pytestmark = pytest.mark.skipif(not DEVICE.exist, reason="there is no OpenCL device here")


@pytest.mark.parametrize("name", [*PROGRAMS, *CLASSIC])
def test_program(name):
    program = PROGRAMS.get(name) or CLASSIC[name]
    module = program.build("opencl")
    for seed in range(2):
        program.check(module, DEVICE, seed)


@pytest.mark.parametrize("suffix", ["so", "tar", "o"])
def test_library(suffix, tmp_path):
    program = PROGRAMS["two kernels, symbolic"]
    module = program.build("opencl")
    module.export_library(tmp_path / f"library.{suffix}")
    loaded = tilesmith.runtime.load_module(tmp_path / f"library.{suffix}")
    program.check(loaded["_chain"], DEVICE)


def test_threads():
    program = PROGRAMS["two kernels, symbolic"]
    module, failures = program.build("opencl"), []

    def run(seed):
        try:
            for _ in range(5):
                program.check(module, DEVICE, seed)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_views_at_offsets():
    program = PROGRAMS["two classic stages"]
    module = program.build("opencl")
    whole = tilesmith.nd.array(np.arange(64, dtype="float32"), DEVICE)
    part = whole._create_view((32,), relative_byte_offset=128)
    out = tilesmith.nd.empty((32,), "float32", DEVICE)
    module(part, out)
    np.testing.assert_array_equal(out.numpy(), np.arange(32, 64)[::-1] * 3.0 - 1)


@pytest.mark.parametrize("memory", ["shared", "buffers"])
def test_views_that_are_not_aligned(memory, monkeypatch):
    if memory == "buffers":
        monkeypatch.setattr(buffers, "has_shared_memory", lambda device_id: False)
    values = np.arange(1032, dtype="float32")
    module, whole = build_wide("opencl"), tilesmith.nd.array(values, DEVICE)
    out = tilesmith.nd.empty((1024,), "float32", DEVICE)
    view = whole._create_view((1024,), relative_byte_offset=4)
    wanted = r"kernel 'wide_kernel' cannot be launched: parameter 1 \('A'\) must be aligned to 16"
    with pytest.raises(ShapeError, match=wanted) as caught:
        module(view, out)
    assert str(caught.value).count("test_programs_on_opencl.py") == 1  # the place, once
    module(tilesmith.nd.array(view, DEVICE), out)  # as the error says
    np.testing.assert_array_equal(out.numpy(), values[1:1025] * 2)


def test_wrong_device():
    module = build_smallest("opencl")
    with pytest.raises(TargetError, match=r"must be on opencl .*tilesmith.opencl\(0\).*got cpu"):
        module(tilesmith.nd.array(np.zeros(1, "float32")))


def test_too_many_threads():
    @T.prim_func
    def wide(A: T.Buffer((65536,), "float32")):
        for tx in T.thread_binding(65536, thread="threadIdx.x"):
            with T.block("b"):
                i = T.axis.spatial(65536, tx)
                A[i] = T.float32(1)

    target = tilesmith.target.Target("opencl -max_threads_per_block=65536")
    module = tilesmith.build(wide, target=target)
    with pytest.raises(DeviceError, match="65536 x 1 x 1 threads"):
        module(tilesmith.nd.empty((65536,), "float32", DEVICE))


def _doubled(n, host):
    """A registered function gets a tensor of the device between two kernels."""
    a = te.placeholder((n,), "float32", "a")
    b = te.compute((n,), lambda i: a[i] + 1.0, "b")
    c = te.extern((n,), [b], lambda ins, outs: te.call_packed("test.doubled", ins[0], outs[0]), "c")
    d = te.compute((n,), lambda i: c[n - 1 - i], "d")
    schedule = te.create_schedule(d.op)
    for stage in (b, d):
        block, thread = schedule[stage].split(stage.op.axis[0], 32)
        schedule[stage].bind(block, te.thread_axis("blockIdx.x"))
        schedule[stage].bind(thread, te.thread_axis("threadIdx.x"))
    return tilesmith.build(schedule, [a, d], target=Target("opencl", host=host), name="main")


@pytest.mark.parametrize("host", ["llvm", pytest.param("c", marks=requires_c_compiler.marks())])
def test_registered_functions_between_kernels(host):
    seen = []

    @tilesmith.register_func("test.doubled", override=True)
    def doubled(source, target):
        seen.append((source.device, target.device))
        target.copyfrom(source.numpy() * 2)

    a = np.random.default_rng(0).standard_normal(75).astype("float32")
    out = tilesmith.nd.empty((75,), "float32", DEVICE)
    _doubled(75, host)(tilesmith.nd.array(a, DEVICE), out)
    np.testing.assert_allclose(out.numpy(), ((a + 1) * 2)[::-1], rtol=1e-6)
    assert seen == [(DEVICE, DEVICE)]


def test_time():
    module = build_smallest("opencl")
    result = module.time_evaluator("_nothing", DEVICE, number=3)(
        tilesmith.nd.empty((1,), "float32", DEVICE)
    )
    assert result.mean > 0


def test_no_elements():
    module = tilesmith.build(_chain, target="opencl")
    empty = tilesmith.nd.empty((0, 16), "float32", DEVICE)
    module(empty, empty, 1.0)
