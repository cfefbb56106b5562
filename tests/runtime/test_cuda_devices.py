"""CUDA devices on a fake driver (`fake_cuda.c`): memory, errors, streams, threads, the end."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tilesmith as ts
from tests.runtime.fake_cuda import on_fake_driver
from tilesmith.runtime.cuda import driver, memory, ranges, streams
from tilesmith.runtime.device_memory import tensor_over
from tilesmith.runtime.devices import DEVICE_APIS
from tilesmith.runtime.ffi import DLTensor, current_stream
from tilesmith.runtime.timing import evaluator, time_call
from tilesmith.support.errors import (
    DeviceError,
    DeviceLostError,
    NoDeviceError,
    OutOfMemoryError,
    ShapeError,
    UnsupportedError,
)
from tilesmith.support.fallbacks import capture_fallbacks
from tilesmith.testing import requires_c_compiler

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint64", "bool", "int4",
    "uint2", "float32x4",
)  # fmt: skip
SIZE_OF_OBJECT_HEADER = 24  # of tvm-ffi's objects, before a tensor's DLTensor
pytestmark = requires_c_compiler.marks()


@pytest.fixture
def fake(monkeypatch):
    """The driver of two GPUs, of which the second has no pools of memory."""
    with on_fake_driver(monkeypatch) as made:
        yield made


def values(shape, dtype):
    """Return a tensor of the host with some values that every dtype has."""
    made = ts.nd.empty(shape, dtype)
    lanes = () if made.dtype.lanes == 1 else (made.dtype.lanes,)
    count = int(np.prod(shape + lanes))
    return made.copyfrom((np.arange(count).reshape(shape + lanes) % 2).astype("float32"))


def test_properties(fake):
    device = ts.cuda(0)
    assert device.exist and ts.cuda(1).exist and not ts.cuda(2).exist
    assert (device.compute_version, device.device_name) == ("9.0", "Fake GPU 0")
    assert device.max_thread_dimensions == [1024, 1024, 64]
    assert device.max_shared_memory_per_block == 48 << 10
    assert device.max_shared_memory_per_block_optin == 232448
    assert (device.warp_size, device.max_threads_per_block) == (32, 1024)
    assert (device.multi_processor_count, device.l2_cache_size_bytes) == (132, 50 << 20)
    assert (device.api_version, device.driver_version) == (13000, "13.0")
    assert device.total_global_memory == 1 << 40 >= device.available_global_memory
    assert device.max_clock_rate == 1980000 and device.device_kind == "gpu"
    assert ts.cuda(2).compute_version is None
    with pytest.raises(AttributeError, match="nonsense"):
        device.nonsense


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_of_all_dtypes(fake, dtype):
    source = values((3, 5), dtype)
    there = source.copyto(ts.cuda(0))
    assert there.device == ts.cuda(0) and there.dtype == dtype and there.nbytes == source.nbytes
    other = ts.nd.empty((3, 5), dtype, ts.cuda(1))
    there.copyto(other)
    again = ts.nd.empty((3, 5), dtype, ts.cuda(1)).copyfrom(other)
    np.testing.assert_array_equal(again.numpy(), source.numpy())
    assert "cuMemcpyPeerAsync" in fake.take_calls()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (7, 1, 2)])
def test_shapes(fake, shape):
    content = np.arange(int(np.prod(shape)), dtype="int32").reshape(shape)
    made = ts.nd.array(content, ts.cuda(0))
    np.testing.assert_array_equal(made.numpy(), content)
    assert made.shape == shape


def test_sources_of_the_host(fake):
    content = np.arange(24, dtype="float32").reshape(4, 6)
    made = ts.nd.array(content[:, ::2], ts.cuda(0))
    np.testing.assert_array_equal(made.numpy(), content[:, ::2])
    made.copyfrom(content.T[1:5:1, :3][:4])
    np.testing.assert_array_equal(made.numpy(), content.T[1:5, :3])
    shared = ts.nd.from_dlpack(content.T)
    np.testing.assert_array_equal(shared.copyto(ts.cuda(0)).numpy(), content.T)
    frozen = content.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(ts.nd.array(frozen, ts.cuda(0)).numpy(), content)
    made[:] = np.ones((4, 3))
    assert made.numpy().sum() == 12 and made[1, 2] == 1
    with pytest.raises(UnsupportedError, match="on the host only"):
        made[0, 0] = 1
    with pytest.raises(ShapeError):
        made.copyfrom(content)
    content[:] = 0  # a copy to a device is over when its call returns
    assert made.numpy().sum() == 12


def test_pinned_and_managed_memory(fake):
    content = np.arange(6, dtype="float32")
    pinned = ts.nd.array(content, ts.device("cuda_host"))
    managed = ts.nd.array(content, ts.device("cuda_managed", 1))
    assert {"cuMemHostAlloc", "cuMemAllocManaged"} <= set(fake.take_calls())
    for one in (pinned, managed):
        np.testing.assert_array_equal(one.numpy(), content)
        there = one.copyto(ts.cuda(0))
        back = ts.nd.empty((6,), "float32", one.device)
        np.testing.assert_array_equal(there.copyto(back).numpy(), content)
    np.testing.assert_array_equal(managed.copyto(pinned).copyto(managed).numpy(), content)
    assert ts.device("cuda_host").exist and not ts.device("cuda_host", 1).exist
    assert ts.device("cuda_host").warp_size is None
    del one, pinned, managed, there, back
    assert fake.live == 0


def test_views_keep_memory_alive(fake):
    made = ts.nd.array(np.arange(12, dtype="float32"), ts.cuda(0))
    view = made._create_view((2, 2), relative_byte_offset=16)
    del made
    assert fake.live == 1 and view.numpy().tolist() == [[4, 5], [6, 7]]
    view.copyfrom(np.zeros((2, 2), "float32"))
    as_bytes = view._create_view((16,), "uint8")
    del view
    assert fake.live == 1 and as_bytes.numpy().sum() == 0
    del as_bytes
    assert fake.live == 0


def test_memory_goes_back_from_any_thread(fake):
    made = [ts.nd.array(np.full(100, n), ts.cuda(n % 2)) for n in range(40)]
    sums = []

    def use(mine):
        while mine:
            one = mine.pop()
            sums.append(int(one.numpy().sum()) + int(one.copyto(one.device).numpy().sum()))

    threads = [threading.Thread(target=use, args=(made[n::4],)) for n in range(4)]
    del made
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    del threads
    gc.collect()
    assert sorted(sums) == [200 * n for n in range(40)] and fake.live == 0


def test_a_scope_and_a_dtype_that_devices_lack(fake):
    with pytest.raises(UnsupportedError, match=r"cuda\(0\) cannot lie in the scope 'global.tex"):
        ts.nd.empty((4,), "float32", ts.cuda(0), "global.texture")
    assert ts.nd.empty((4,), "float32", ts.cuda(0), "global").shape == (4,)


@pytest.mark.parametrize(
    "function, status, call, text",
    [
        (
            "cuMemcpyDtoHAsync",
            1,
            lambda a: a.numpy(),
            "CUDA_ERROR_INVALID_VALUE (1), invalid argument",
        ),
        ("cuMemcpyDtoHAsync", 1, lambda a: a.numpy(), "copying 64 bytes from cuda(0)"),
        ("cuMemcpyAsync", 1, lambda a: a.copyto(a), "copying 64 bytes from cuda(0) to cuda(0)"),
        ("cuStreamSynchronize", 701, lambda a: a.copyfrom(a.numpy()), "launch fewer threads"),
        ("cuCtxSynchronize", 701, lambda a: a.device.sync(), "waiting for cuda(0)"),
        ("cuMemAllocFromPoolAsync", 801, lambda a: a.copyto(a.device), "an unknown status (801)"),
        ("cuStreamCreate", 1, lambda a: a.device.create_raw_stream(), "cuStreamCreate"),
        ("cuDevicePrimaryCtxRetain", 2, lambda a: a.copyto(ts.cuda(1)), "starting cuda(1)"),
    ],
)
def test_statuses_are_errors(fake, function, status, call, text):
    made = ts.nd.array(np.arange(16, dtype="float32"), ts.cuda(0))
    fake.plan(function, status)
    with pytest.raises((DeviceError, OutOfMemoryError)) as found:
        call(made)
    assert text in str(found.value)
    assert made.numpy().sum() == 120  # such an error passes


def test_out_of_memory(fake):
    fake.reset(bytes_of_device=10_000)
    first = ts.nd.empty((6000,), "uint8", ts.cuda(0))
    left = memory.pool_use(0)[1] - 6000  # by lost devices of other tests
    del first
    second = ts.nd.empty((8000,), "uint8", ts.cuda(0))  # what the pool keeps is given back for it
    assert "cuMemPoolTrimTo" in fake.take_calls()
    with pytest.raises(OutOfMemoryError, match="has no memory for") as found:
        ts.nd.empty((3000,), "uint8", ts.cuda(0))
    assert "are free" in found.value.message
    del second
    assert memory.pool_use(0) == (8000 + left, left)
    assert memory.free_and_total(0) == (10_000 - left, 10_000)
    memory.trim(0)
    assert memory.pool_use(0) == (left, left)


def test_a_device_without_pools(fake):
    with capture_fallbacks() as report:
        made = ts.nd.array(np.arange(3), ts.cuda(1))
        assert made.numpy().tolist() == [0, 1, 2]
    del made
    assert {"cuMemAlloc", "cuMemFree"} <= set(fake.take_calls()) and fake.live == 0
    assert [one.kind for one, _ in report.rows()] == ["memory"]


def test_a_lost_context(fake):
    made = ts.nd.array(np.arange(3), ts.cuda(0))
    other = ts.nd.array(np.arange(3), ts.cuda(1))
    fake.plan("cuCtxSynchronize", 700)
    with pytest.raises(DeviceLostError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as found:
        ts.cuda(0).sync()
    assert "waiting for cuda(0)" in found.value.message
    assert "Tensors on the host and other devices still work" in str(found.value)
    for use in (made.numpy, ts.cuda(0).sync, lambda: ts.nd.empty((1,), "int8", ts.cuda(0))):
        with pytest.raises(DeviceLostError, match="a kernel accessed memory that is not its own"):
            use()
    assert repr(made) == "<tilesmith.NDArray shape=(3,), int64, cuda(0)>"
    assert ts.cuda(0).exist and driver.is_lost(0) and not driver.is_lost(1)
    assert other.numpy().tolist() == [0, 1, 2] and ts.nd.array([1]).numpy().sum() == 1
    frees = len([one for one in fake.take_calls() if "Free" in one])
    del made  # nothing is asked of a driver that refuses everything
    assert len([one for one in fake.take_calls() if "Free" in one]) == frees


def test_streams(fake):
    device = ts.cuda(0)
    stream = device.create_raw_stream()
    device.set_raw_stream(stream)
    try:
        assert streams.stream_of(0) == stream == current_stream(2, 0)
        made = ts.nd.array(np.arange(3), device)
        seen = []
        one = threading.Thread(target=lambda: seen.append(streams.stream_of(0)))
        one.start()
        one.join()
        assert seen == [0]  # each thread has its own
        device.sync(stream)
        device.sync(ctypes.c_void_p(stream))
        del made
        assert fake.take_calls()[-1] == f"cuMemFreeAsync {stream}"
        made = ts.nd.array(np.arange(3), device)
    finally:
        device.set_raw_stream(None)
    kept = made.copyto(device)
    del made  # its stream waits for the one that used it last
    assert fake.take_calls()[-3:] == [
        "cuEventRecord 0", f"cuStreamWaitEvent {stream}", f"cuMemFreeAsync {stream}"
    ]  # fmt: skip
    device.set_raw_stream(stream)
    made = kept.copyto(device)
    device.free_raw_stream(stream)
    assert streams.stream_of(0) == 0
    assert made.numpy().tolist() == [0, 1, 2]
    del made  # its stream is no more
    assert fake.take_calls()[-1] == "cuMemFreeAsync 0"
    for use in (device.free_raw_stream, device.set_raw_stream):
        with pytest.raises(DeviceError, match="free"):
            use(stream)
    del kept
    assert fake.live == fake.events == 0


def test_memory_while_a_graph_is_recorded(fake):
    device = ts.cuda(0)
    dying = [ts.nd.array(np.arange(3), ts.device(kind)) for kind in ("cuda", "cuda_host")]
    stream, graph = device.create_raw_stream(), ctypes.c_void_p()
    device.set_raw_stream(stream)
    try:
        driver.driver().cuStreamBeginCapture(stream, 1)
        before = fake.take_calls()
        dying.clear()
        assert fake.take_calls() == before  # a free would spoil the graph
        with pytest.raises(DeviceError, match="cannot be allocated while a graph is recorded"):
            ts.nd.empty((3,), "int8", device)
        driver.driver().cuStreamEndCapture(stream, ctypes.byref(graph))
    finally:
        device.free_raw_stream(stream)
    assert fake.live == 2
    made = ts.nd.empty((3,), "int8", device)
    assert fake.live == 1
    del made
    assert fake.live == 0


def test_events_and_clocks(fake):
    begin, end = streams.Event(0), streams.Event(0)
    begin.record()
    end.record(0)
    end.synchronize()
    assert end.seconds_since(begin) == pytest.approx(2e-3)
    del begin, end
    assert fake.events == 0
    calls = []
    found = time_call(lambda: calls.append(1), number=4, repeat=3, device=ts.cuda(0))
    assert found.results == pytest.approx([5e-4] * 3) and len(calls) == 13
    measure = evaluator(lambda x: x, ts.cuda(0), number=1, cache_flush_bytes=1 << 10)
    assert measure(1).mean == pytest.approx(2e-3)
    assert "cuMemsetD8Async" in fake.take_calls()


def test_ranges_for_profilers(monkeypatch):
    ranges.find_functions.cache_clear()
    monkeypatch.setattr(ranges, "LIBRARIES", ())
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with ranges.profiler_range("nobody looks"):
        assert not ranges.has_nvtx()
    seen = []
    fake = ModuleType("nvtx")
    fake.push_range, fake.pop_range = seen.append, lambda: seen.append("end")
    monkeypatch.setitem(sys.modules, "nvtx", fake)
    ranges.find_functions.cache_clear()
    with pytest.raises(ZeroDivisionError), ranges.profiler_range("copy"):
        assert 1 / 0
    assert seen == ["copy", "end"] and ranges.has_nvtx()
    ranges.find_functions.cache_clear()


def test_order_with_consumers(fake):
    made = ts.nd.array(np.arange(3), ts.cuda(0))
    stream = ts.cuda(0).create_raw_stream()
    before = len(fake.take_calls())
    for same in (None, 1, -1):
        made.__dlpack__(stream=same)
    assert len(fake.take_calls()) == before
    shared = ts.nd.from_dlpack(made.__dlpack__(stream=stream, max_version=(1, 0)))
    calls = fake.take_calls()[before:]
    assert [one for one in calls if "Event" in one][-2:] == [
        "cuEventRecord 1", f"cuStreamWaitEvent {stream}"
    ]  # fmt: skip
    assert shared.data_ptr() == made.data_ptr() and shared.device == ts.cuda(0)
    on_host = np.from_dlpack(made, device="cpu")
    assert on_host.tolist() == [0, 1, 2]
    ts.cuda(0).free_raw_stream(stream)


class Producer:
    """A tensor of another library."""

    def __init__(self, tensor, is_old):
        self.tensor, self.is_old, self.stream = tensor, is_old, None

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **more):
        if self.is_old and more:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.stream = stream
        return self.tensor.__dlpack__(stream=-1, **more)


@pytest.mark.parametrize("is_old", [False, True])
def test_producers_hear_of_our_stream(fake, is_old):
    tensor = ts.nd.array(np.arange(3), ts.cuda(0))
    producer = Producer(tensor, is_old)
    shared = ts.nd.from_dlpack(producer)
    assert producer.stream == 1 and shared.data_ptr() == tensor.data_ptr()
    stream = ts.cuda(0).create_raw_stream()
    ts.cuda(0).set_raw_stream(stream)
    copied = ts.nd.array(producer, ts.cuda(0))
    assert producer.stream == stream and copied.data_ptr() != tensor.data_ptr()
    ts.cuda(0).free_raw_stream(stream)
    host = ts.nd.empty((3,), "int64").copyfrom(producer)
    assert host.numpy().tolist() == [0, 1, 2]
    del tensor, copied
    assert shared.numpy().tolist() == [0, 1, 2]


def test_another_library_keeps_its_device(fake):
    driver.ensure_context(1)
    made = ts.nd.array(np.arange(3), ts.cuda(0))
    del made
    found = ctypes.c_void_p()
    driver.driver().cuCtxGetCurrent(ctypes.byref(found))
    assert found.value == driver.context_of(1)
    driver.ensure_context(0)
    driver.driver().cuCtxGetCurrent(ctypes.byref(found))
    assert found.value == driver.context_of(0)


def test_code(fake):
    module = driver.load_module(b"code", 0)
    function = driver.function_of(module, "main")
    driver.set_function_attribute(function, "max_dynamic_shared_size_bytes", 100_000)
    assert driver.function_attribute(function, "max_dynamic_shared_size_bytes") == 100_000
    with pytest.raises(DeviceError, match="max_dynamic_shared_size_bytes = 300000"):
        driver.set_function_attribute(function, "max_dynamic_shared_size_bytes", 300_000)
    with pytest.raises(DeviceError, match="looking for the kernel 'missing'") as found:
        driver.function_of(module, "missing")
    assert "no such function" in str(found.value)
    with pytest.raises(DeviceError, match="CUDA_ERROR_INVALID_PTX") as found:
        driver.load_module(b"bad code", 0)
    assert "line 1: unexpected 'bad'" in str(found.value)
    expected = ctypes.cast(fake.library.cuLaunchKernel, ctypes.c_void_p).value
    assert driver.launch_address() == expected
    driver.unload_module(module)


def test_devices_that_are_not_there(fake):
    with pytest.raises(NoDeviceError, match=r"there is no cuda\(7\): this machine has 2 CUDA dev"):
        ts.nd.empty((0,), "int8", ts.cuda(7))
    with pytest.raises(NoDeviceError, match=r"there is no cuda\(2\)"):
        ts.cuda(2).sync()


@pytest.mark.parametrize("count, plan, text", [(0, (), "NO_DEVICE"), (1, ("cuInit", 3), "not")])
def test_a_driver_that_does_not_start(fake, count, plan, text):
    fake.reset(devices=count)
    if plan:
        fake.plan(*plan)
    assert not ts.cuda(0).exist
    with pytest.raises(NoDeviceError, match="the CUDA driver .* does not start") as found:
        ts.nd.array([1], ts.cuda(0))
    assert text in str(found.value) and len(found.value.notes) == 1


def test_no_driver(monkeypatch, tmp_path):
    monkeypatch.setenv("TILESMITH_CUDA_DRIVER", str(tmp_path / "libcuda.so"))
    driver.unload()
    try:
        assert not ts.cuda(0).exist and ts.cuda(0).compute_version is None
        assert "install NVIDIA's driver" in DEVICE_APIS["cuda"].problem()
        with pytest.raises(NoDeviceError, match="there is no CUDA driver here") as found:
            ts.nd.array([1], ts.cuda(0))
        assert found.value.notes[0].startswith("install NVIDIA's driver")
    finally:
        driver.unload()


END = """
import sys, threading, time
import numpy as np
import tilesmith as ts
from tests.runtime.fake_cuda import FakeDriver

fake = FakeDriver()
kept = [ts.nd.array(np.arange(10), ts.cuda(0)) for _ in range(5)]
views = [one._create_view((2,)) for one in kept]
cycle = [ts.nd.empty((4,), "int8", ts.cuda(0))]
cycle.append(cycle)
pinned = ts.nd.empty((4,), "int8", ts.device("cuda_host"))
event = __import__("tilesmith.runtime.cuda.streams", fromlist=["Event"]).Event(0)

def churn():
    while True:
        ts.nd.empty((100,), "float32", ts.cuda(0))

threading.Thread(target=churn, daemon=True).start()
time.sleep(0.05)
capsule = kept[0].__dlpack__()
"""
FORK = """
import os, sys
import numpy as np
import tilesmith as ts
from tilesmith.support.errors import DeviceError

made = ts.nd.array(np.arange(10), ts.cuda(0))
child = os.fork()
if child == 0:
    try:
        made.numpy()
    except DeviceError as error:
        assert "start workers with the method 'spawn'" in str(error)
        del made
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert made.numpy().sum() == 45
"""


@pytest.mark.parametrize("program", [END, FORK], ids=["end", "fork"])
def test_processes(fake, program):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_tensor_over_memory_of_others(fake):
    class Lent:
        address, released = 4096, []

        def release(self):
            self.released.append(True)

    lent = Lent()
    made = tensor_over(lent, (2, 0), (2, 3), ts.DataType("float16"))
    assert (made.data_ptr(), made.shape, made.strides) == (4096, (2, 3), (3, 1))
    del made
    assert lent.released == [True]


def strided(tensor, shape, steps):
    """Return a tensor over the same memory with strides, as torch may give one."""
    view = tensor._create_view(shape)
    inside = DLTensor.from_address(view.handle + SIZE_OF_OBJECT_HEADER)
    for axis, step in enumerate(steps):
        inside.strides[axis] = step
    return view


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_tensors_with_strides(fake, dtype):
    content = ts.nd.array(np.arange(12).reshape(3, 4), dtype=dtype)
    turned = strided(content.copyto(ts.cuda(0)), (4, 3), (1, 4))
    part = strided(content.copyto(ts.cuda(0)), (3, 2), (4, 2))
    np.testing.assert_array_equal(turned.numpy(), content.numpy().T)
    np.testing.assert_array_equal(part.numpy(), content.numpy()[:, ::2])
    np.testing.assert_array_equal(turned.copyto(ts.cuda(1)).numpy(), content.numpy().T)
    with pytest.raises(UnsupportedError, match="a tensor with strides cannot be written"):
        turned.copyfrom(turned.numpy())
