"""Built programs run on an NVIDIA GPU: the programs of `programs.py`, libraries, graphs, errors.

Without a GPU the tests are skipped; `python -m pytest tests/gpu/test_launch_on_gpu.py -s` on a
machine with one prints the time of a launch.
"""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tilesmith
from tests.gpu.classic_programs import CLASSIC
from tests.gpu.programs import PROGRAMS, build_smallest, build_wide, exchange_between_blocks
from tilesmith.runtime.cuda import graph_of
from tilesmith.script import tir as T
from tilesmith.support.errors import DeviceError, ShapeError

DEVICE = tilesmith.cuda(0)
pytestmark = pytest.mark.skipif(not DEVICE.exist, reason="there is no NVIDIA GPU here")


def target():
    """Return the target of the GPU that is here."""
    return f"cuda -arch=sm_{DEVICE.compute_version.replace('.', '')}"


@pytest.mark.parametrize("name", [*PROGRAMS, *CLASSIC])
@pytest.mark.parametrize("back_end", ["cuda", "nvptx"])
def test_program(name, back_end):
    program = PROGRAMS.get(name) or CLASSIC[name]
    if back_end == "nvptx" and not program.is_for_ptx:
        pytest.skip("LLVM's PTX lacks what the program needs")
    module = program.build(target() if back_end == "cuda" else back_end)
    for seed in range(3):
        program.check(module, DEVICE, seed)


@pytest.mark.parametrize("suffix", ["so", "tar", "o"])
def test_library(suffix, tmp_path):
    program = PROGRAMS["two kernels, symbolic"]
    path = tmp_path / f"library.{suffix}"
    program.build(target()).export_library(path)
    program.check(tilesmith.runtime.load_module(path)["_chain"], DEVICE)


def test_library_in_another_process(tmp_path):
    """The library has the machine code inside: no compiler is asked."""
    build_smallest(target()).export_library(tmp_path / "library.so")
    code = (
        "import sys, tilesmith\n"
        f"module = tilesmith.runtime.load_module({str(tmp_path / 'library.so')!r})\n"
        "a = tilesmith.nd.empty((1,), 'float32', tilesmith.cuda(0))\n"
        "module['_nothing'](a)\n"
        "assert a.numpy()[0] == 0\n"
        "assert not any('nvrtc' in name for name in sys.modules), 'compiled again'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_code_for_another_gpu():
    """Code for an older GPU of another generation is compiled again for this one."""
    module = build_smallest("cuda -arch=sm_75")
    tensor = tilesmith.nd.array(np.ones(1, "float32"), DEVICE)
    module(tensor)
    assert tensor.numpy()[0] == 0


def test_threads_and_streams():
    program, failures = PROGRAMS["two kernels, symbolic"], []
    module = program.build(target())

    def run(seed):
        stream = DEVICE.create_raw_stream()
        try:
            DEVICE.set_raw_stream(stream)
            for _ in range(20):
                program.check(module, DEVICE, seed)
        except BaseException as error:
            failures.append(error)
        finally:
            DEVICE.set_raw_stream(0)
            DEVICE.free_raw_stream(stream)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_graph():
    program = PROGRAMS["two kernels, symbolic"]
    module = program.build(target())
    values, expected = program.case(np.random.default_rng(0))
    a, c = (tilesmith.nd.array(value, DEVICE) for value in values[:2])
    graph = graph_of(module["_chain"], a, c, values[2])
    c.copyfrom(np.zeros_like(expected[1]))
    graph.launch()
    DEVICE.sync()
    np.testing.assert_allclose(c.numpy(), expected[1], rtol=1e-5)
    a.copyfrom(values[0] + 1)
    graph.launch()
    DEVICE.sync()
    assert not np.allclose(c.numpy(), expected[1])


def test_views_that_are_not_aligned():
    """A view of torch that wide accesses would fault on is refused; the GPU goes on."""
    torch = pytest.importorskip("torch")
    module = build_wide(target())
    whole = torch.arange(1032, dtype=torch.float32, device="cuda")
    out = tilesmith.nd.empty((1024,), "float32", DEVICE)
    for start in (1, 2, 3):
        view = whole[start : start + 1024]
        with pytest.raises(ShapeError, match=r"'A'\) must be aligned to 16 bytes"):
            module(tilesmith.nd.from_dlpack(view), out)
        module(tilesmith.nd.from_dlpack(view.clone()), out)
        np.testing.assert_array_equal(out.numpy(), np.arange(start, start + 1024) * 2.0)
    module(tilesmith.nd.from_dlpack(whole[4:1028]), out)
    DEVICE.sync()
    np.testing.assert_array_equal(out.numpy(), np.arange(4, 1028) * 2.0)


@T.prim_func
def _large_shared(A: T.Buffer((256,), "float32"), n: T.int32):
    for tx in T.thread_binding(256, thread="threadIdx.x"):
        with T.block("root"):
            S = T.alloc_buffer((n, 256), "float32", scope="shared.dyn")
            for row in range(n):
                with T.block("s"):
                    k, i = T.axis.remap("SS", [row, tx])
                    S[k, i] = A[i] + T.Cast("float32", k)
            with T.block("a"):
                i = T.axis.spatial(256, tx)
                A[i] = S[n - 1, 255 - i] - S[n - 1, 0] + S[0, 0]


def test_much_dynamic_shared_memory():
    """More than 48 KiB have to be asked for; more than the GPU has is refused with the numbers."""
    module = tilesmith.build(_large_shared, target=target())
    a = np.arange(256, dtype="float32")
    tensor = tilesmith.nd.array(a, DEVICE)
    module(tensor, 96)  # 96 KiB
    np.testing.assert_array_equal(tensor.numpy(), a[::-1])
    with pytest.raises(DeviceError, match=r"a block needs .* bytes of shared memory"):
        module(tensor, 1 << 10)
    module(tensor, 1)


def test_too_many_blocks():
    @T.prim_func
    def deep(A: T.Buffer((32,), "float32"), n: T.int32):
        for bz in T.thread_binding(n, thread="blockIdx.z"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("b"):
                    z, i = T.axis.remap("SS", [bz, tx])
                    T.reads()
                    T.writes(A[i])
                    if z < 1:
                        A[i] = T.float32(1)

    module = tilesmith.build(deep, target=target())
    tensor = tilesmith.nd.array(np.zeros(32, "float32"), DEVICE)
    with pytest.raises(DeviceError, match="grid z is 70000, this GPU allows 65535"):
        module(tensor, 70000)
    module(tensor, 2)
    assert tensor.numpy().sum() == 32


def test_cooperative_launch():
    function = build_smallest.__globals__["_nothing"].with_attr("tir.cooperative_launch", True)
    module = tilesmith.build(function, target=target())
    tensor = tilesmith.nd.array(np.ones(1, "float32"), DEVICE)
    module(tensor)
    assert tensor.numpy()[0] == 0


def test_a_barrier_of_all_blocks():
    module = tilesmith.build(exchange_between_blocks, target=target())
    for _ in range(3):
        values = np.arange(64, dtype="float32"), np.zeros(64, "float32")
        a, b = [tilesmith.nd.array(one, DEVICE) for one in values]
        module(a, b)
        np.testing.assert_array_equal(b.numpy(), np.arange(64)[::-1] + 2)
        np.testing.assert_array_equal(a.numpy(), np.arange(64) + 2)


def test_a_barrier_of_more_blocks_than_the_gpu_holds_is_refused():
    @T.prim_func
    def large(A: T.Buffer((1024,), "float32"), n: T.int32):
        for bx in T.thread_binding(n, thread="blockIdx.x"):
            for tx in T.thread_binding(1024, thread="threadIdx.x"):
                with T.block("b"):
                    T.reads()
                    T.writes(A[0:1024])
                    if bx == 0:
                        A[tx] = T.float32(1)
                    T.tvm_storage_sync("global")

    module = tilesmith.build(large, target=target())
    tensor = tilesmith.nd.array(np.zeros(1024, "float32"), DEVICE)
    with pytest.raises(DeviceError, match="all of its blocks on the GPU at once"):
        module(tensor, 100_000)
    module(tensor, 4)
    assert tensor.numpy().sum() == 1024


@T.prim_func
def _clustered(A: T.Buffer((4096,), "float32"), n: T.int32):
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("b"):
                i = T.axis.spatial(4096, bx * 32 + tx)
                A[i] = A[i] + T.float32(1)


def test_clusters():
    if int(DEVICE.compute_version.split(".")[0]) < 9:
        pytest.skip("GPUs have clusters of blocks since compute capability 9.0")
    for size in (2, 16):
        function = _clustered.with_attr("tir.cluster_dims", (size, 1, 1))
        module = tilesmith.build(function, target=target())
        tensor = tilesmith.nd.array(np.zeros(4096, "float32"), DEVICE)
        module(tensor, 64)
        assert tensor.numpy().sum() == 64 * 32
        with pytest.raises(DeviceError, match="must divide the grid"):
            module(tensor, 33)


_FAULT = """
import numpy as np, tilesmith
from tests.gpu.programs import build_faulty
device = tilesmith.cuda(0)
module = build_faulty("cuda")
module(tilesmith.nd.array(np.zeros(32, "float32"), device), 1 << 40)
try:
    device.sync()
except tilesmith.support.errors.DeviceLostError as error:
    assert "kernels launched before, the last one first: _faulty_kernel" in str(error), str(error)
    print("named")
"""


def test_faults_name_the_kernel():
    done = subprocess.run([sys.executable, "-c", _FAULT], capture_output=True, text=True)
    assert "named" in done.stdout, done.stderr[-2000:]


def test_time_of_a_launch():
    """Prints what a launch costs from Python; benchmarks/gpu.py compares it."""
    function = build_smallest(target())["_nothing"]
    tensor = tilesmith.nd.array(np.ones(1, "float32"), DEVICE)
    best = 1e9
    for _ in range(20):
        DEVICE.sync()
        begin = time.perf_counter()
        for _ in range(200):
            function(tensor)
        best = min(best, (time.perf_counter() - begin) / 200)
    DEVICE.sync()
    print(f"\na launch from Python: {best * 1e6:.2f} microseconds")
    assert tensor.numpy()[0] == 0
