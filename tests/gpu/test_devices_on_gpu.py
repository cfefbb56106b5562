"""CUDA devices on a real GPU: copies, DLPack with torch and cupy, streams, clocks, memory, faults.

pytest tests/gpu/test_devices_on_gpu.py -s      # also shows the rates of copies
"""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.runtime.cuda import driver, graph_of, memory, streams
from tilesmith.runtime.cuda.ranges import profiler_range
from tilesmith.runtime.timing import time_call
from tilesmith.support.errors import DeviceError, NoDeviceError, OutOfMemoryError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not ts.cuda(0).exist, reason="this machine has no CUDA device"),
]
DTYPES = (
    "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint64", "bool", "int4",
    "uint2", "float32x4",
)  # fmt: skip
PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry add_one(.param .u64 data, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<6>;
  .reg .b64 %d<5>;
  .reg .f32 %f<3>;
  ld.param.u64 %d1, [data];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra DONE;
  cvta.to.global.u64 %d2, %d1;
  mul.wide.u32 %d3, %r5, 4;
  add.u64 %d4, %d2, %d3;
  ld.global.f32 %f1, [%d4];
  add.f32 %f2, %f1, 0f3F800000;
  st.global.f32 [%d4], %f2;
DONE:
  ret;
}
"""
N = 1 << 22


def launcher():
    """Return a function that adds 1 to the first `n` floats at an address, on a GPU."""
    function = driver.function_of(driver.load_module(PTX, 0), "add_one")

    def launch(address, n):
        values = ctypes.c_uint64(address), ctypes.c_uint32(n)
        pointers = (ctypes.c_void_p * 2)(*[ctypes.addressof(one) for one in values])
        driver.ensure_context(0)
        grid, block = (-(-n // 256), 1, 1), (256, 1, 1)
        stream = streams.stream_of(0)
        status = driver.driver().cuLaunchKernel(function, *grid, *block, 0, stream, pointers, None)
        driver.check(status, "cuLaunchKernel", 0)

    return launch


@pytest.fixture(scope="module")
def add_one():
    """A function that adds 1 to the elements of a tensor of float32."""
    launch = launcher()
    return lambda tensor: launch(tensor.data_ptr(), tensor.size)


def test_properties():
    device = ts.cuda(0)
    major, minor = device.compute_version.split(".")
    assert int(major) >= 7 and int(minor) >= 0 and device.warp_size == 32
    assert device.max_threads_per_block == 1024 and device.max_thread_dimensions[2] == 64
    assert device.max_shared_memory_per_block == 48 << 10
    assert device.max_shared_memory_per_block_optin >= 64 << 10
    assert device.l2_cache_size_bytes > 1 << 20 and device.multi_processor_count > 1
    assert 0 < device.available_global_memory <= device.total_global_memory
    assert device.api_version >= 12000 and device.device_name
    assert not ts.cuda(99).exist
    with pytest.raises(NoDeviceError, match=r"there is no cuda\(99\)"):
        ts.nd.array([1], ts.cuda(99))


def test_properties_are_those_of_torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    found, device = torch.cuda.get_device_properties(0), ts.cuda(0)
    assert device.compute_version == f"{found.major}.{found.minor}"
    assert device.multi_processor_count == found.multi_processor_count
    assert device.total_global_memory == found.total_memory and device.device_name == found.name


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_of_all_dtypes(dtype):
    source = ts.nd.empty((33, 5), dtype)
    lanes = () if source.dtype.lanes == 1 else (source.dtype.lanes,)
    count = int(np.prod((33, 5, *lanes)))
    source.copyfrom((np.arange(count).reshape(33, 5, *lanes) % 2).astype("float32"))
    there = source.copyto(ts.cuda(0))
    other = ts.nd.empty((33, 5), dtype, ts.cuda(0)).copyfrom(there)
    np.testing.assert_array_equal(other.numpy(), source.numpy())


@pytest.mark.parametrize("kind", ["cuda", "cuda_host", "cuda_managed"])
def test_large_copies(kind):
    content = np.random.default_rng(1).random((1023, 4099), "float32")
    made = ts.nd.array(content[:, 1:], ts.device(kind))
    there = made.copyto(ts.cuda(0))
    back = there.copyto(ts.device(kind))
    np.testing.assert_array_equal(back.numpy(), content[:, 1:])
    view = there._create_view((4098,), relative_byte_offset=4 * 4098)
    del there
    np.testing.assert_array_equal(view.numpy(), content[1, 1:])


def test_two_devices():
    if not ts.cuda(1).exist:
        pytest.skip("this machine has one CUDA device")
    content = np.arange(N, dtype="float32")
    made = ts.nd.array(content, ts.cuda(0)).copyto(ts.cuda(1))
    np.testing.assert_array_equal(made.copyto(ts.cuda(0)).numpy(), content)


def test_a_kernel_and_its_clock(add_one):
    made = ts.nd.array(np.zeros(N, "float32"), ts.cuda(0))
    with profiler_range("clock"):
        found = time_call(
            add_one, [made], number=20, repeat=3, device=ts.cuda(0), cache_flush_bytes=64 << 20
        )
    assert made.numpy()[[0, N // 2, N - 1]].tolist() == [61] * 3
    rate = 8 * N / found.min  # bytes per second
    assert 1e10 < rate < 3e13, found


def test_streams(add_one):
    device = ts.cuda(0)
    made = ts.nd.array(np.zeros(N, "float32"), device)
    stream = device.create_raw_stream()
    device.set_raw_stream(stream)
    begin, end = streams.Event(0), streams.Event(0)
    begin.record()
    for _ in range(10):
        add_one(made)
    end.record()
    copied = made.copyto(device)
    device.sync(stream)
    assert 0 < end.seconds_since(begin) < 1
    device.set_raw_stream(0)
    device.free_raw_stream(stream)
    assert copied.numpy().min() == copied.numpy().max() == 10
    with pytest.raises(DeviceError, match="freed"):
        device.set_raw_stream(stream)


def test_freed_memory_is_reused():
    first = ts.nd.empty((N,), "float32", ts.cuda(0))
    pointer = first.data_ptr()
    del first
    second = ts.nd.empty((N,), "float32", ts.cuda(0))
    assert second.data_ptr() == pointer
    used = memory.pool_use(0)[1]
    del second
    ts.cuda(0).sync()
    assert memory.pool_use(0)[1] <= used - 4 * N
    held = memory.pool_use(0)[0]
    memory.trim(0)
    assert memory.pool_use(0)[0] <= held


def test_memory_dies_while_a_graph_is_recorded(add_one):
    made = ts.nd.array(np.zeros(N, "float32"), ts.cuda(0))
    dying = [ts.nd.empty((N,), "float32", ts.device(kind)) for kind in ("cuda", "cuda_host")]

    def call(tensor):
        add_one(tensor)
        dying.clear()
        with pytest.raises(DeviceError, match="cannot be allocated while a graph is recorded"):
            ts.nd.empty((3,), "int8", ts.cuda(0))
        add_one(tensor)

    graph = graph_of(call, made, warm_up=False)
    used = memory.pool_use(0)[1]
    other = ts.nd.empty((3,), "int8", ts.cuda(0))  # what died is freed now
    ts.cuda(0).sync()
    assert memory.pool_use(0)[1] < used and other.shape == (3,)
    for _ in range(3):
        graph.launch()
    assert made.numpy().min() == made.numpy().max() == 6


def test_out_of_memory():
    size = ts.cuda(0).total_global_memory + (1 << 30)
    with pytest.raises(OutOfMemoryError, match=r"cuda\(0\) has no memory for .* GiB are free"):
        ts.nd.empty((size,), "uint8", ts.cuda(0))
    assert ts.nd.array(np.arange(3), ts.cuda(0)).numpy().tolist() == [0, 1, 2]


def test_threads(add_one):
    wrong = []

    def work(number):
        stream = ts.cuda(0).create_raw_stream()
        ts.cuda(0).set_raw_stream(stream)
        for round_ in range(30):
            made = ts.nd.array(np.full(1000 + number, number, "float32"), ts.cuda(0))
            add_one(made)
            if not (made.copyto(ts.cuda(0)).numpy() == number + 1).all():
                wrong.append((number, round_))
        del made
        ts.cuda(0).free_raw_stream(stream)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_torch_shares_memory(add_one):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    theirs = torch.zeros(N, device="cuda")
    ours = ts.nd.from_dlpack(theirs)
    assert ours.data_ptr() == theirs.data_ptr() and ours.device == ts.cuda(0)
    add_one(ours)
    theirs += 1
    assert ours.numpy().min() == 2
    mine = ts.nd.array(np.arange(12, dtype="float32").reshape(3, 4), ts.cuda(0))
    shared = torch.from_dlpack(mine)
    assert shared.data_ptr() == mine.data_ptr() and shared.device.type == "cuda"
    pointer = mine.data_ptr()
    del mine
    assert ts.nd.empty((3, 4), "float32", ts.cuda(0)).data_ptr() != pointer  # torch keeps it
    shared *= 2
    assert shared.sum().item() == 132
    turned = ts.nd.from_dlpack(shared.T)
    np.testing.assert_array_equal(turned.numpy(), shared.T.cpu().numpy())
    for dtype in (torch.bfloat16, torch.int8, torch.bool, torch.float16):
        one = torch.ones(7, dtype=dtype, device="cuda")
        again = torch.from_dlpack(ts.nd.from_dlpack(one))
        assert again.dtype == dtype and bool((again == one).all())
    copied = ts.nd.array(shared, ts.cuda(0))
    assert copied.data_ptr() != shared.data_ptr() and copied.numpy().sum() == 132
    assert ts.nd.empty((3, 4), "float32").copyfrom(shared).numpy().sum() == 132
    graded = torch.ones(3, device="cuda", requires_grad=True)
    assert ts.nd.from_dlpack(graded).numpy().tolist() == [1, 1, 1]


def test_torch_on_streams_of_its_own(add_one):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    side = torch.cuda.Stream()
    for _ in range(5):
        with torch.cuda.stream(side):
            theirs = torch.zeros(N, device="cuda")
            torch.cuda._sleep(20_000_000)  # some milliseconds
            theirs += 1
            ours = ts.nd.from_dlpack(theirs)  # our stream, the default one, waits for theirs
        add_one(ours)
        with torch.cuda.stream(side):
            doubled = torch.from_dlpack(ours) * 2  # theirs waits for ours
        side.synchronize()
        assert doubled.min().item() == doubled.max().item() == 4
        assert ours.numpy().min() == 2
    ts.cuda(0).set_raw_stream(side)  # or both use one stream
    try:
        with torch.cuda.stream(side):
            theirs = torch.zeros(N, device="cuda")
            torch.cuda._sleep(20_000_000)
            theirs += 3
            ours = ts.nd.from_dlpack(theirs)
            add_one(ours)
            assert (theirs == 4).all().item()
    finally:
        ts.cuda(0).set_raw_stream(None)


def test_cupy_shares_memory(add_one):
    cupy = pytest.importorskip("cupy")
    theirs = cupy.zeros(N, "float32")
    ours = ts.nd.from_dlpack(theirs)
    assert ours.data_ptr() == theirs.data.ptr
    add_one(ours)
    theirs += 1
    assert ours.numpy().max() == 2
    mine = ts.nd.array(np.arange(6, dtype="float32"), ts.cuda(0))
    shared = cupy.from_dlpack(mine)
    assert shared.data.ptr == mine.data_ptr() and float(shared.sum()) == 15
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        add_one(mine)
        waited = cupy.from_dlpack(mine) * 2
    stream.synchronize()
    assert float(waited.sum()) == 42


def test_torch_keeps_its_device_and_context(add_one):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    before = torch.cuda.current_device()
    made = ts.nd.array(np.ones(10, "float32"), ts.cuda(0))
    add_one(made)
    assert torch.cuda.current_device() == before
    assert float((torch.ones(10, device="cuda") + torch.from_dlpack(made)).sum()) == 30


@pytest.mark.parametrize("kind", ["cpu", "cuda_host"])
def test_rates_of_copies(kind):
    size = 256 << 20
    host = ts.nd.array(np.ones(size, "uint8"), ts.device(kind))
    there = ts.nd.empty((size,), "uint8", ts.cuda(0))
    rates = {}
    for way, source, target in (("to", host, there), ("from", there, host)):
        found = time_call(source.copyto, [target], number=1, repeat=5, device=ts.cuda(0))
        rates[way] = size / found.min / 1e9
    print(f"\n{kind}: {rates['to']:.1f} GB/s to the device, {rates['from']:.1f} GB/s from it")
    assert min(rates.values()) > 0.5


def test_code_that_is_no_code():
    with pytest.raises(DeviceError, match="cuModuleLoadDataEx, loading"):
        driver.load_module(b"this is no code", 0)
    with pytest.raises(DeviceError, match="CUDA_ERROR_INVALID_PTX") as found:
        driver.load_module(PTX.replace(b"add.f32", b"add.f99"), 0)
    assert "f99" in str(found.value)  # the log of PTX's compiler
    with pytest.raises(DeviceError, match="looking for the kernel 'missing'"):
        driver.function_of(driver.load_module(PTX, 0), "missing")


FAULT = """
import numpy as np
import tilesmith as ts
from tests.gpu.test_devices_on_gpu import launcher
from tilesmith.support.errors import DeviceLostError

kept = ts.nd.array(np.arange(10), ts.cuda(0))
launcher()(64, 1)
for use in (ts.cuda(0).sync, kept.numpy, lambda: ts.nd.empty((3,), "int8", ts.cuda(0))):
    try:
        use()
    except DeviceLostError as error:
        assert "memory that is not its own" in str(error), error
    else:
        raise SystemExit("no error")
assert ts.nd.array([1, 2]).numpy().sum() == 3
"""
END = """
import threading, time
import numpy as np
import tilesmith as ts

kept = [ts.nd.array(np.arange(1000), ts.cuda(0)) for _ in range(5)]
views = [one._create_view((2,)) for one in kept]
cycle = [ts.nd.empty((4,), "int8", ts.cuda(0))]
cycle.append(cycle)
pinned = ts.nd.empty((4,), "int8", ts.device("cuda_host"))

def churn():
    while True:
        ts.nd.empty((100,), "float32", ts.cuda(0))

threading.Thread(target=churn, daemon=True).start()
time.sleep(0.1)
"""


@pytest.mark.parametrize("program", [FAULT, END], ids=["fault", "end"])
def test_processes(program):
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
    )
    assert (done.returncode, done.stderr) == (0, "")
