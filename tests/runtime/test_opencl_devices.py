"""OpenCL devices, on whatever OpenCL this machine has (PoCL, from pip, is one on the CPU)."""

import ctypes
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.runtime.devices import DEVICE_APIS
from tilesmith.runtime.opencl import buffers, old_pocl, platforms
from tilesmith.runtime.timing import time_call
from tilesmith.support.errors import (
    DeviceError,
    MissingDependencyError,
    NoDeviceError,
    OutOfMemoryError,
    UnsupportedError,
)
from tilesmith.support.knobs import knobs
from tilesmith.testing import requires_package

cl = pytest.importorskip("pyopencl")
pytestmark = [
    requires_package("pyopencl"),
    pytest.mark.skipif(not ts.opencl(0).exist, reason="this machine has no OpenCL device"),
]
DTYPES = (
    "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint64", "bool", "int4",
    "uint2", "float32x4",
)  # fmt: skip
KERNELS = """
__kernel void add(__global float *data, int n) {
  int i = get_global_id(0);
  if (i < n) data[i] += 1;
}
"""
N = 1 << 10


@pytest.fixture(params=["shared", "buffers"])
def memory(request, monkeypatch):
    """Both kinds of memory: shared virtual memory where the device has it, and buffers."""
    if request.param == "buffers":
        monkeypatch.setattr(buffers, "has_shared_memory", lambda device_id: False)
    elif not buffers.has_shared_memory(0):
        pytest.skip("the device has no shared virtual memory")
    return request.param


@pytest.fixture(scope="module")
def add_one():
    """A function that adds 1 to the elements of a tensor on the device."""
    kernel = cl.Program(platforms.context(0), KERNELS).build().add

    def call(tensor):
        count = tensor.size
        kernel.set_args(buffers.argument_of(tensor.data_ptr()), np.int32(count))
        cl.enqueue_nd_range_kernel(platforms.queue(0), kernel, (count,), None)

    return call


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_of_all_dtypes(memory, dtype):
    source = ts.nd.empty((3, 5), dtype)
    lanes = () if source.dtype.lanes == 1 else (source.dtype.lanes,)
    count = int(np.prod((3, 5, *lanes)))
    source.copyfrom((np.arange(count).reshape(3, 5, *lanes) % 2).astype("float32"))
    there = source.copyto(ts.opencl(0))
    assert there.device == ts.opencl(0) and there.dtype == dtype
    other = ts.nd.empty((3, 5), dtype, ts.opencl(0)).copyfrom(there)
    np.testing.assert_array_equal(other.numpy(), source.numpy())


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (7, 1, 2)])
def test_shapes(memory, shape):
    content = np.arange(int(np.prod(shape)), dtype="int32").reshape(shape)
    made = ts.nd.array(content, ts.opencl(0))
    np.testing.assert_array_equal(made.copyto(ts.opencl(0)).numpy(), content)


def test_kernels_and_views(memory, add_one):
    content = np.arange(2 * N, dtype="float32")
    made = ts.nd.array(content, ts.opencl(0))
    view = made._create_view((N,), relative_byte_offset=4 * N)
    del made
    add_one(view)
    np.testing.assert_array_equal(view.numpy(), content[N:] + 1)
    whole = ts.nd.array(content[::2], ts.opencl(0))
    part = whole._create_view((3,), relative_byte_offset=4)
    part.copyfrom(np.zeros(3))  # copies begin anywhere
    assert whole.numpy()[:5].tolist() == [0, 0, 0, 0, 8]
    if memory == "shared":
        add_one(part)
        assert whole.numpy()[:5].tolist() == [0, 1, 1, 1, 8]
    else:
        with pytest.raises(UnsupportedError, match="a view that begins at byte 4"):
            add_one(part)
    assert buffers.argument_of(0) is None


def test_memory_goes_back(memory):
    def churn():
        for n in range(20):
            made = ts.nd.array(np.full(N, n), ts.opencl(0))
            sums.append(int(made.copyto(ts.opencl(0)).numpy().sum()) == n * N)

    sums = []
    threads = [threading.Thread(target=churn) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sums == [True] * 60
    gc.collect()
    made = ts.nd.empty((4,), "int8", ts.opencl(0))
    pointer = made.data_ptr()
    del made
    if memory == "buffers":
        with pytest.raises(DeviceError, match="was freed"):
            buffers.argument_of(pointer)
        made = ts.nd.empty((4,), "int8", ts.opencl(0))
        assert made.data_ptr() >= 1 << 56  # never a real address


def test_streams(memory, add_one):
    device = ts.opencl(0)
    stream = device.create_raw_stream()
    device.set_raw_stream(stream)
    seen = []
    one = threading.Thread(target=lambda: seen.append(platforms.queue(0)))
    one.start()
    one.join()
    assert platforms.queue(0) != platforms.queue_of(0, None) == seen[0]
    made = ts.nd.array(np.zeros(N, "float32"), device)
    add_one(made)
    device.sync(stream)
    device.sync(ctypes.c_void_p(stream))
    device.sync()
    assert made.numpy().sum() == N
    device.free_raw_stream(stream)
    assert platforms.queue(0) == platforms.queue_of(0, 0)
    del made
    for use in (device.free_raw_stream, device.set_raw_stream, device.sync):
        with pytest.raises(DeviceError, match="freed"):
            use(stream)
    with pytest.raises(DeviceError, match="the default stream"):
        device.free_raw_stream(None)


def test_clocks(add_one):
    device = ts.opencl(0)
    made = ts.nd.array(np.zeros(N, "float32"), device)
    found = time_call(add_one, [made], number=3, repeat=2, device=device, cache_flush_bytes=1 << 12)
    assert 0 < found.min <= found.max < 1 and made.numpy()[0] == 7


def test_properties():
    device = ts.opencl(0)
    assert device.compute_version.count(".") == 1 and float(device.compute_version) >= 1
    assert device.max_shared_memory_per_block >= 1 << 10 and device.device_kind in ("gpu", "cpu")
    assert len(device.max_thread_dimensions) == 3 and device.warp_size >= 1
    assert device.max_threads_per_block >= 1 and device.multi_processor_count >= 1
    assert device.total_global_memory > 1 << 20 and device.device_name
    assert device.available_global_memory is None  # OpenCL does not tell
    assert ts.opencl(99).device_name is None and not ts.opencl(99).exist


def test_errors():
    with pytest.raises(NoDeviceError, match=r"there is no opencl\(99\): this machine has"):
        ts.nd.array([1], ts.opencl(99))
    with pytest.raises(OutOfMemoryError, match=r"opencl\(0\)|has no memory"):
        ts.nd.empty((1 << 45,), "uint8", ts.opencl(0))
    with pytest.raises(UnsupportedError, match="cannot lie in the scope 'global.texture'"):
        ts.nd.empty((4,), "float32", ts.opencl(0), "global.texture")


def test_choice_of_devices():
    name = ts.opencl(0).device_name
    with knobs.override(opencl_device=name[:5].upper()):
        assert ts.opencl(0).device_name == name
    with knobs.override(opencl_device="no such device"):
        assert not ts.opencl(0).exist
        with pytest.raises(NoDeviceError, match="TILESMITH_OPENCL_DEVICE='no such device' is"):
            ts.nd.array([1], ts.opencl(0))
    assert ts.opencl(0).exist


def test_no_pyopencl(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with knobs.override(opencl_device=" "):  # looks again
        assert not ts.opencl(0).exist
        assert "pip install" in DEVICE_APIS["opencl"].problem()
        with pytest.raises(MissingDependencyError, match="OpenCL needs the package 'pyopencl'"):
            ts.nd.array([1], ts.opencl(0))


def test_an_old_pocl_is_mended_once():
    device = platforms.device(0)
    assert not old_pocl.mend(device)  # it was when it was found, or needs none


END = """
import numpy as np
import tilesmith as ts
kept = [ts.nd.array(np.arange(10), ts.opencl(0)) for _ in range(5)]
views = [one._create_view((2,)) for one in kept]
cycle = [ts.nd.empty((4,), "int8", ts.opencl(0))]
cycle.append(cycle)
ts.opencl(0).set_raw_stream(ts.opencl(0).create_raw_stream())
more = ts.nd.array(np.arange(10), ts.opencl(0))
"""


def test_the_end_of_a_process():
    done = subprocess.run(
        [sys.executable, "-c", END],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["vulkan", "webgpu", "metal", "rocm"])
def test_kinds_without_a_runtime(kind):
    device = ts.device(kind)
    assert not device.exist
    for use in (device.sync, lambda: ts.nd.array([1], device), device.create_raw_stream):
        with pytest.raises(UnsupportedError, match=f"no runtime for devices of type '{kind}'") as e:
            use()
        assert "use the target" in e.value.notes[0]
