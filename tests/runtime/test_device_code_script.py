"""Launchers in generated code: what a driver gets, from a driver that only writes it down.

The kernels are PTX, which nothing runs here; tensors "on the GPU" lie in memory of the host.
"""

import ctypes
import threading

import numpy as np
import pytest

import tilesmith
from tilesmith.codegen.gpu.launchers import Launchers
from tilesmith.codegen.llvm.compile import compile_text
from tilesmith.runtime import device_code, device_workspace
from tilesmith.runtime.device_code import KERNEL_LOADERS, KernelLoader, LoadedKernels
from tilesmith.runtime.device_container import CodeContainer, KernelRecord
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ffi import tensor_at, tvm_ffi
from tilesmith.runtime.library import Library
from tilesmith.script import tir as T
from tilesmith.support.errors import ArtifactError, DeviceError, ShapeError, TargetError
from tilesmith.target import Target

_POINTER, _WORD = ctypes.c_void_p, ctypes.c_uint
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, _POINTER, *[_WORD] * 7, _POINTER, ctypes.POINTER(_POINTER), _POINTER
)
_LAUNCH_EX = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, ctypes.POINTER(_POINTER), _POINTER)
_GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_POINTER))
_SET = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER)


class Driver(KernelLoader):
    """Writes launches down; `status` is what it answers."""

    def __init__(self):
        self.known = {}
        self.forget()
        self.functions = (
            _LAUNCH(self.launch), _LAUNCH_EX(self.launch_ex), _GET(self.get), _SET(self.set)
        )  # fmt: skip

    def forget(self):
        self.launches, self.loaded, self.unloaded, self.status = [], [], [], 0
        self.local = threading.local()

    def launch(self, function, *rest):
        sizes, stream, params = rest[:7], rest[7], rest[8]
        self.note(function, sizes, stream, params)
        return self.status

    def launch_ex(self, config, function, params, _):
        sizes = (ctypes.c_uint * 7).from_address(config)[:]
        stream, attributes = (_POINTER * 2).from_address(config + 32)
        count = _WORD.from_address(config + 48).value
        self.note(function, sizes, stream, params)
        self.launches[-1]["attributes"] = [
            (ctypes.c_uint * 18).from_address(attributes + 72 * place)[:] for place in range(count)
        ]
        return self.status

    def note(self, function, sizes, stream, params):
        device, kernel = self.known[function]
        types = kernel.parameters
        values = [_value(params[number], DataType(dtype)) for number, dtype in enumerate(types)]
        context = getattr(self.local, "context", None)
        self.launches.append({
            "kernel": kernel.name, "device": device, "sizes": list(sizes),
            "values": values, "stream": stream, "context": context,
        })  # fmt: skip

    def get(self, place):
        place[0] = getattr(self.local, "context", None)
        return 0

    def set(self, context):
        self.local.context = context
        return 0

    def driver(self):
        return [ctypes.cast(one, _POINTER).value for one in self.functions]

    def load(self, code, device_id):
        self.loaded.append(device_id)
        return _Kernels(self, code, device_id)


class _Kernels(LoadedKernels):
    def __init__(self, owner, code, device_id):
        self.owner, self.device_id, self.context = owner, device_id, 50 + device_id
        self.handles = [1000 + len(owner.known) + index for index in range(len(code.kernels))]
        for handle, kernel in zip(self.handles, code.kernels):
            owner.known[handle] = device_id, kernel
        self.kept = [_attributes(kernel) for kernel in code.kernels]

    def attributes(self, index):
        kept = self.kept[index]
        return (ctypes.addressof(kept), len(kept) // 18) if kept is not None else (0, 0)

    def explain(self, index, sizes, status):
        return DeviceError(f"status {status} for {device_code.launch_text(sizes)}")

    def unload(self):
        self.owner.unloaded.append(self.device_id)


def _attributes(kernel):
    if "cooperative" not in kernel.attributes:
        return None
    return (ctypes.c_uint * 18)(2, 0, 1)


def _value(address, dtype):
    if dtype.is_handle:
        return _POINTER.from_address(address).value
    if dtype == "bfloat16":
        bits = ctypes.c_uint16.from_address(address).value << 16
        return np.array([bits], "uint32").view("float32")[0]
    numpy_dtype = np.dtype(dtype.numpy())
    memory = (ctypes.c_char * numpy_dtype.itemsize).from_address(address)
    return np.frombuffer(memory, numpy_dtype)[0]


@pytest.fixture(scope="module")
def _driver():
    made = Driver()
    kept = KERNEL_LOADERS["cuda"]
    KERNEL_LOADERS.register("cuda", made, override=True)
    yield made
    KERNEL_LOADERS.register("cuda", kept, override=True)


@pytest.fixture
def driver(_driver):
    _driver.forget()
    return _driver


def on_gpu(array, device_id=0):
    owner = tilesmith.nd.array(array)
    dtype = DataType(str(array.dtype))
    return tensor_at(owner, owner.data_ptr(), (2, device_id), array.shape, dtype)


@T.prim_func
def scaled(a: T.handle, b: T.handle, alpha: T.float32):
    n = T.int32()
    A = T.match_buffer(a, (n, 16), "float32")
    B = T.match_buffer(b, (n, 16), "float32")
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("b"):
                i, j = T.axis.remap("SS", [bx, tx])
                B[i, j] = A[i, j] * alpha


@T.prim_func
def chain(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 16), "float32")
    C = T.match_buffer(c, (n, 16), "float32")
    B = T.alloc_buffer((n, 16), "float32")
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("b"):
                i, j = T.axis.remap("SS", [bx, tx])
                B[i, j] = A[i, j] * T.float32(2)
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("c"):
                i, j = T.axis.remap("SS", [bx, tx])
                C[i, j] = B[i, 15 - j] + T.float32(1)


@pytest.fixture(scope="module")
def module():
    return tilesmith.build(scaled, target="nvptx")


def test_a_launch(driver):
    module = tilesmith.build(scaled, target="nvptx")
    a, b = on_gpu(np.zeros((3, 16), "float32")), on_gpu(np.zeros((3, 16), "float32"))
    module(a, b, 0.5)
    module["scaled"](a, b, 0.25)
    first, second = driver.launches
    assert first["kernel"] == "scaled_kernel" and first["sizes"] == [3, 1, 1, 16, 1, 1, 0]
    assert {a.data_ptr(), b.data_ptr()} <= set(first["values"])
    assert np.float32(0.5) in first["values"] and np.float32(0.25) in second["values"]
    assert first["context"] == 50 and first["stream"] is None
    assert driver.loaded == [0]


def test_no_blocks_no_launch(driver, module):
    empty = on_gpu(np.zeros((0, 16), "float32"))
    module(empty, empty, 1.0)
    assert driver.launches == [] and driver.loaded == []


def test_devices_and_streams(driver, module):
    for device_id in (1, 0):
        a = on_gpu(np.zeros((2, 16), "float32"), device_id)
        set_stream = tvm_ffi.LIB.TVMFFIEnvSetStream
        set_stream(ctypes.c_int(2), ctypes.c_int(device_id), _POINTER(77 + device_id), None)
        module(a, a, 1.0)
        set_stream(ctypes.c_int(2), ctypes.c_int(device_id), None, None)
    assert [one["device"] for one in driver.launches] == [1, 0]
    assert [one["stream"] for one in driver.launches] == [78, 77]
    # a thread without a context keeps the first; another's is there again after the launch
    assert [one["context"] for one in driver.launches] == [51, 50]
    assert driver.local.context == 51


@pytest.mark.parametrize("device_id", [0, 3])
def test_threads(driver, module, device_id):
    failures = []

    def run(number):
        try:
            a = on_gpu(np.zeros((number + 1, 16), "float32"), number % 3 + device_id)
            for _ in range(50):
                module(a, a, float(number))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(driver.launches) == 300
    for one in driver.launches:
        number = one["sizes"][0] - 1
        assert one["device"] == number % 3 + device_id and one["context"] == 50 + one["device"]
        assert np.float32(number) in one["values"]


def test_arrays_on_the_wrong_device(driver, module):
    here = tilesmith.nd.array(np.zeros((2, 16), "float32"))
    gpu = [on_gpu(np.zeros((2, 16), "float32"), device_id) for device_id in (0, 1)]
    with pytest.raises(TargetError, match=r"argument 2 \('B'\) must be on cuda .*, got cpu"):
        module(gpu[0], here, 1.0)
    with pytest.raises(TargetError, match=r"'B'\) is on cuda\(1\), and argument 1 .* on cuda\(0"):
        module(*gpu, 1.0)
    assert driver.launches == []


def test_a_refused_launch(driver, module):
    a = on_gpu(np.zeros((2, 16), "float32"))
    driver.status = 701
    with pytest.raises(DeviceError, match="status 701 for grid 2 x 1 x 1, blocks of 16 x 1 x 1"):
        module(a, a, 1.0)
    driver.status = 0
    module(a, a, 1.0)
    assert device_code.recent_launches("cuda", 0, 2) == ["scaled_kernel"] * 2


def test_sizes_that_no_driver_takes(driver):
    launchers = Launchers("cuda", (KernelRecord("k", (), ("blockIdx.x",)),), "0123")
    code = CodeContainer("cuda", "", launchers.kernels, {"ptx": b"text"})
    launch = _entry(launchers, code)
    with pytest.raises(ShapeError, match="more than 31 bits"):
        launch(1 << 31, 0)
    launch(-1, 0)
    launch(0, 0)
    assert driver.launches == []
    launch(7, 0)
    assert driver.launches[0]["sizes"] == [7, 1, 1, 1, 1, 1, 0]


def _entry(launchers, code, number=0):
    """Return a launcher as a packed function."""
    text = launchers.text(code, Target("llvm")).replace("define hidden", "define")
    library = Library.from_objects([compile_text(text, Target("llvm"))])
    address = library.symbol(launchers.symbol(launchers.kernels[number].name))
    return tvm_ffi.Function.__from_extern_c__(address, keep_alive_object=library)


SCALARS = {
    "int8": -128, "uint8": 255, "int16": -32768, "uint16": 65535, "int32": -(2**31),
    "uint32": 2**32 - 1, "int64": -(2**63), "uint64": 2**63 - 1,
    "float32": 1 / 3, "float64": 1 / 3, "bool": True,
}  # fmt: skip


def test_scalars(driver):
    halves = np.array([0.0, -0.0, 1 / 3, 65504, 6e-8, -6.1e-5, 2**-14, np.inf, -np.inf], "float16")
    cuts = np.array([1 / 3, -1e38, 1e-40, np.inf], "float32").view("uint32") & 0xFFFF0000
    cuts = cuts.view("float32")
    types = [*SCALARS, "handle", *["float16"] * len(halves), *["bfloat16"] * len(cuts), "float16"]
    record = KernelRecord("k", tuple(types), ("threadIdx.x", "tir.use_dyn_shared_memory"))
    launchers = Launchers("cuda", (record,), "4567")
    launch = _entry(launchers, CodeContainer("cuda", "", (record,), {"ptx": b"text"}))
    values = [*SCALARS.values(), ctypes.c_void_p(4096), *map(float, halves), *map(float, cuts)]
    launch(*values, float("nan"), 32, 1024, 2)
    (one,) = driver.launches
    assert one["device"] == 2 and one["sizes"] == [1, 1, 1, 32, 1, 1, 1024]
    got = one["values"]
    for dtype, value, wanted in zip(types, got, SCALARS.values()):
        assert value == np.dtype(dtype).type(wanted), dtype
    assert got[len(SCALARS)] == 4096
    start = len(SCALARS) + 1
    np.testing.assert_array_equal(got[start : start + len(halves)], halves)
    assert np.signbit(got[start + 1])
    np.testing.assert_array_equal(got[start + len(halves) : -1], cuts)
    assert np.isnan(got[-1])


def test_launch_attributes(driver):
    record = KernelRecord("k", ("int32",), ("blockIdx.y",), {"cooperative": True})
    launchers = Launchers("cuda", (record,), "89ab")
    launch = _entry(launchers, CodeContainer("cuda", "", (record,), {"ptx": b"text"}))
    launch(5, 9, 1)
    (one,) = driver.launches
    assert one["attributes"][0][:3] == [2, 0, 1] and one["values"] == [5]
    assert one["sizes"] == [1, 9, 1, 1, 1, 1, 0] and one["device"] == 1


@pytest.mark.parametrize("suffix", ["so", "tar", "o", "a"])
def test_libraries(driver, module, tmp_path, suffix):
    path = tmp_path / f"library.{suffix}"
    module.export_library(path)
    loaded = tilesmith.runtime.load_module(path)
    a = on_gpu(np.zeros((4, 16), "float32"))
    loaded["scaled"](a, a, 2.0)
    assert driver.launches[0]["sizes"][0] == 4
    del loaded
    assert driver.unloaded == [0]


def test_code_linked_into_the_program(driver, module, tmp_path):
    module.export_library(tmp_path / "library.so")
    handle = ctypes.CDLL(str(tmp_path / "library.so"), mode=ctypes.RTLD_GLOBAL)
    a = on_gpu(np.zeros((4, 16), "float32"))
    tilesmith.runtime.system_lib()["scaled"](a, a, 2.0)
    assert len(driver.launches) == 1 and handle is not None


def test_saved_kernels(module, tmp_path):
    kernels = module.imports[0]
    kernels.save(tmp_path / "kernels.ptx")
    assert (tmp_path / "kernels.ptx").read_text() == kernels.get_source()
    module.save(tmp_path / "host.o")
    assert b"TSDEVICE" in (tmp_path / "host.o").read_bytes()
    assert "scaled" in tilesmith.runtime.load_module(tmp_path / "host.o").function_names


def test_two_modules_with_the_same_names(driver, tmp_path):
    @T.prim_func
    def other(A: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("a"):
                i = T.axis.spatial(8, tx)
                A[i] = T.float32(1)

    first = tilesmith.build(other.with_attr("global_symbol", "f"), target="nvptx")
    second = tilesmith.build(scaled.with_attr("global_symbol", "f"), target="nvptx")
    small, large = on_gpu(np.zeros(8, "float32")), on_gpu(np.zeros((3, 16), "float32"))
    first(small)
    second(large, large, 1.0)
    first(small)
    assert [one["sizes"][3] for one in driver.launches] == [8, 16, 8]
    third = tilesmith.build(other.with_attr("global_symbol", "g"), target="nvptx")
    third.import_module(second)
    third.export_library(tmp_path / "both.so")
    both = tilesmith.runtime.load_module(tmp_path / "both.so")
    both["g"](small)
    both["f"](large, large, 1.0)
    assert [one["kernel"] for one in driver.launches[3:]] == ["g_kernel", "f_kernel"]


def _container():
    attributes, names = {"cluster": [2, 1, 1]}, ("A", "n")
    kernels = (KernelRecord("k", ("handle", "int32"), ("blockIdx.x",), attributes, names, (16, 0)),)
    return CodeContainer("cuda", "sm_90", kernels, {"cubin": bytes(range(256)), "cu": b"source"})


def test_containers():
    whole = _container()
    again = CodeContainer.unpack(memoryview(whole.pack()))
    assert again == whole and list(again.parts) == ["cubin", "cu"]


@pytest.mark.parametrize("place", [0, 8, 20, 40, 60, 200, -1])
def test_damaged_containers(place):
    packed = bytearray(_container().pack())
    packed[place] ^= 0x5A
    with pytest.raises(ArtifactError, match="device code"):
        CodeContainer.unpack(bytes(packed))


def test_cut_and_lying_containers():
    packed = _container().pack()
    for size in (0, 10, 55, len(packed) - 1):
        with pytest.raises(ArtifactError, match="damaged"):
            CodeContainer.unpack(packed[:size])
    for kernels, parts in (
        ((KernelRecord("", (), ()),), {"cu": b"x"}),
        ((KernelRecord("k", ("no_type",), ()),), {"cu": b"x"}),
        ((KernelRecord("k", (), (), {"unknown": 1}),), {"cu": b"x"}),
        ((KernelRecord("k", ("int32",), (), {}, ("a", "b")),), {"cu": b"x"}),
        ((KernelRecord("k", ("handle",), (), {}, ("a",), (12,)),), {"cu": b"x"}),
        ((KernelRecord("k", (), ()),) * 2, {"cu": b"x"}),
        ((KernelRecord("k", (), ()),), {}),
    ):
        with pytest.raises(ArtifactError, match="damaged"):
            CodeContainer.unpack(CodeContainer("cuda", "", kernels, parts).pack())


def test_a_library_with_damaged_code(driver, module, tmp_path):
    module.export_library(tmp_path / "library.so")
    content = bytearray((tmp_path / "library.so").read_bytes())
    content[content.index(b"TSDEVICE") + 100] ^= 1
    (tmp_path / "damaged.so").write_bytes(content)
    with pytest.raises(ArtifactError, match="damaged"):
        tilesmith.runtime.load_module(tmp_path / "damaged.so")


def test_workspaces_between_kernels(driver, monkeypatch):
    made = []

    def empty(shape, dtype, device):
        made.append((shape, device))
        return on_gpu(np.zeros(shape, str(dtype)), device.device_id)

    monkeypatch.setattr(device_workspace, "empty", empty)
    module = tilesmith.build(chain, target="nvptx")
    a, c = (on_gpu(np.zeros((5, 16), "float32"), 1) for _ in range(2))
    module(a, c)
    module(a, c)
    names = [one["kernel"] for one in driver.launches]
    assert names == ["chain_kernel", "chain_kernel_1"] * 2
    shared = set(driver.launches[0]["values"]) & set(driver.launches[1]["values"]) - {5}
    assert len(shared) == 1 and shared <= set(driver.launches[2]["values"])
    assert made == [((5 * 16 * 4,), tilesmith.cuda(1))]
    driver.status = 1
    for _ in range(50):
        with pytest.raises(DeviceError, match="status 1"):
            module(a, c)
    driver.status = 0
    module(a, c)
    assert len(made) < 20  # what failed calls had taken comes back


ALIGNED = KernelRecord(
    "k", ("handle", "float32", "handle", "handle"), ("blockIdx.x",), {},
    ("A", "x", "B", "C"), (16, 0, 8, 0),
)  # fmt: skip


@pytest.mark.parametrize(
    "addresses, wanted",
    [
        ((4096, 4096, 4097), None),
        ((4096 + 16, 4096 + 8, 1), None),
        ((0, 0, 0), None),
        ((4096 + 8, 4096, 0), r"parameter 0 \('A'\) must be aligned to 16 .* 0x1008, 8 bytes"),
        ((4096, 4096 + 4, 0), r"launched: parameter 2 \('B'\) must be aligned to 8 bytes"),
        ((4097, 4097, 0), r"'A'\) must be .*; parameter 2 \('B'\) must"),
    ],
)  # fmt: skip
def test_misaligned_memory(driver, addresses, wanted):
    """Wide accesses would end the device's context: such launches do not reach the driver."""
    launchers = Launchers("cuda", (ALIGNED,), "c0de")
    launch = _entry(launchers, CodeContainer("cuda", "", (ALIGNED,), {"ptx": b"text"}))
    a, b, c = [ctypes.c_void_p(address) for address in addresses]
    if wanted is None:
        launch(a, 1.0, b, c, 3, 0)
        assert [value or 0 for value in driver.launches[0]["values"][2:]] == list(addresses[1:])
        return
    with pytest.raises(ShapeError, match=wanted) as caught:
        launch(a, 1.0, b, c, 3, 0)
    assert "copy it" in str(caught.value)
    launch(a, 1.0, b, c, 0, 0)  # no block would read it
    assert driver.launches == []
