"""Built modules on the fake CUDA driver: what is loaded, what is launched, what errors say."""

import gc

import numpy as np
import pytest

import tilesmith
from tests.codegen.gpu_tensor_copies_script import CASES, arrays_of, copy_of
from tests.gpu.programs import PROGRAMS, build_smallest
from tests.runtime.fake_cuda import on_fake_driver
from tilesmith.runtime import cuda
from tilesmith.runtime.device_code import launch_count
from tilesmith.script import tir as T
from tilesmith.support.errors import (
    DeviceError,
    DeviceLostError,
    MissingDependencyError,
    ShapeError,
    TypeMismatchError,
)
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.testing import requires_c_compiler

pytestmark = requires_c_compiler.marks()


@pytest.fixture
def fake(monkeypatch):
    with on_fake_driver(monkeypatch) as made:
        yield made


def launches(fake):
    return [call for call in fake.take_calls() if call.startswith("cuLaunchKernel")]


def test_what_is_called(fake):
    module = build_smallest("nvptx")
    tensor = tilesmith.nd.empty((1,), "float32", tilesmith.cuda(1))
    count = launch_count("cuda", 1)
    for _ in range(3):
        module(tensor)
    calls = fake.take_calls()
    assert calls.count("cuModuleLoadDataEx") == 1 and calls.count("cuModuleGetFunction") == 1
    assert launches(fake) == ["cuLaunchKernel"] * 3
    assert launch_count("cuda", 1) == count + 3
    del module
    gc.collect()
    assert fake.take_calls().count("cuModuleUnload") == 1


def test_workspaces(fake):
    program = PROGRAMS["two kernels, symbolic"]
    module = program.build("nvptx")
    values, _ = program.case(np.random.default_rng(0))
    device = tilesmith.cuda(0)
    arguments = [tilesmith.nd.array(v, device) if hasattr(v, "shape") else v for v in values]
    module(*arguments)
    allocated = fake.live
    module(*arguments)
    assert fake.live == allocated and launches(fake) == ["cuLaunchKernel"] * 4


def test_refused_launches(fake):
    @T.prim_func
    def wide(A: T.Buffer((2048,), "float32"), n: T.int32):
        for bx in T.thread_binding(n, thread="blockIdx.z"):
            for tx in T.thread_binding(64, thread="threadIdx.x"):
                with T.block("b"):
                    i = T.axis.spatial(2048, bx * 64 + tx)
                    A[i] = T.float32(1)

    module = tilesmith.build(wide, target="nvptx")
    tensor = tilesmith.nd.empty((2048,), "float32", tilesmith.cuda(0))
    module(tensor, 32)
    fake.plan("cuLaunchKernel", 701)
    with pytest.raises(DeviceError) as caught:
        module(tensor, 32)
    text = str(caught.value)
    assert "'wide_kernel' on cuda(0): grid 1 x 1 x 32, blocks of 64 x 1 x 1 threads" in text
    assert "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)" in text
    fake.plan("cuLaunchKernel", 1)
    with pytest.raises(DeviceError, match="INVALID_VALUE") as caught:
        module(tensor, 70000)
    assert "grid z is 70000, this GPU allows" in str(caught.value)
    fake.plan("cuLaunchKernel", 700)
    with pytest.raises(DeviceLostError) as caught:
        module(tensor, 32)
    assert "the last one first: wide_kernel, wide_kernel" in str(caught.value)


def test_errors_that_appear_when_waiting(fake):
    module = build_smallest("nvptx")
    tensor = tilesmith.nd.empty((1,), "float32", tilesmith.cuda(0))
    module(tensor)
    fake.plan("cuCtxSynchronize", 700)
    with pytest.raises(DeviceLostError, match="ILLEGAL_ADDRESS") as caught:
        tilesmith.cuda(0).sync()
    assert "the last one first: _nothing_kernel" in str(caught.value)


def test_code_that_does_not_fit(fake):
    """The machine code is refused, the source beside it is compiled for the GPU that is there."""
    module = build_smallest("cuda -arch=sm_80")
    tensor = tilesmith.nd.empty((1,), "float32", tilesmith.cuda(0))
    try:
        module["_nothing"]
    except MissingDependencyError as error:
        pytest.skip(str(error))
    fake.plan("cuModuleLoadDataEx", 209)
    with collect_fallbacks() as report:
        module(tensor)
    assert fake.take_calls().count("cuModuleLoadDataEx") == 2
    assert any(row.kind == "device code" for row, _ in report.rows())


@pytest.mark.parametrize(
    "attribute", [("tir.cooperative_launch", True), ("tir.cluster_dims", (2, 1, 1))]
)
def test_launch_attributes(fake, attribute):
    function = build_smallest.__globals__["_nothing"].with_attr(*attribute)
    module = tilesmith.build(function, target="nvptx")
    module(tilesmith.nd.empty((1,), "float32", tilesmith.cuda(0)))
    assert launches(fake) == ["cuLaunchKernelEx 1 attributes"]


def test_tensor_maps(fake, monkeypatch):
    """Each launch describes its tensors to the hardware: the kernel's last parameter."""
    monkeypatch.setattr("tilesmith.codegen.gpu.code.compile_source", lambda *_: b"machine code")
    case = CASES["2d, gaps"]
    module = tilesmith.build(copy_of(case), target="cuda -arch=sm_90a")
    fake.watch(3)
    for number in (1, 0):
        device = tilesmith.cuda(number)
        tensors = [tilesmith.nd.array(array, device) for array in arrays_of(case)[0]]
        module["main"](*tensors)
        at = f"{tensors[0].data_ptr():#x}"
        assert fake.watched == f"type 4 at {at}: 6/6 by 64 9/4, swizzle 0"
    module["main"](*tensors)
    calls = fake.take_calls()
    assert calls.count("cuTensorMapEncodeTiled") == calls.count("cuLaunchKernel") == 3
    fake.plan("cuTensorMapEncodeTiled", 1)
    with pytest.raises(DeviceError) as caught:
        module["main"](*tensors)
    assert "describing the tensors of kernel 'main_kernel' on cuda(0)" in str(caught.value)
    assert "parameter 'A': 6 x 9 elements of 64 bits, 64 bytes apart, box 6 x 4" in str(
        caught.value
    )
    assert len(launches(fake)) == 3
    with pytest.raises(ShapeError, match="'A'.* must be aligned to 16 bytes"):
        larger = tilesmith.nd.empty((80,), "float64", tilesmith.cuda(0))
        module["main"](larger._create_view((9, 8), "float64", 8), *tensors[1:])


def test_graphs(fake):
    program = PROGRAMS["two kernels, symbolic"]
    module = program.build("nvptx")
    values, _ = program.case(np.random.default_rng(0))
    device = tilesmith.cuda(1)
    arguments = [tilesmith.nd.array(v, device) if hasattr(v, "shape") else v for v in values]
    graph = cuda.graph_of(module["_chain"], *arguments)
    calls = fake.take_calls()
    begin, end = calls.index("cuStreamBeginCapture"), calls.index("cuStreamEndCapture")
    inside = [call for call in calls[begin + 1 : end] if call != "cuCtxSetCurrent"]
    assert inside == ["cuLaunchKernel"] * 2  # nothing is loaded or allocated
    graph.launch()
    graph()
    assert fake.take_calls().count("cuGraphLaunch") == 2
    fake.plan("cuLaunchKernel", 900, after=2)
    with pytest.raises(DeviceError, match=r"\(900\)"):
        cuda.graph_of(module["_chain"], *arguments)
    assert fake.take_calls().count("cuStreamEndCapture") == 2
    del graph
    gc.collect()
    assert fake.take_calls().count("cuGraphExecDestroy") == 1
    with pytest.raises(TypeMismatchError, match="a tensor on a device of type 'cuda'"):
        cuda.graph_of(module["_chain"], 1)


def test_without_a_compiler(fake, monkeypatch, tmp_path):
    """Where NVRTC is missing the library has the source; the machine with the GPU compiles it."""

    def missing(*_arguments):
        raise MissingDependencyError("cuda-bindings", "cuda", "compiling CUDA C")

    module = build_smallest("cuda -arch=sm_90a")
    with monkeypatch.context() as patch, collect_fallbacks() as report:
        patch.setattr("tilesmith.codegen.gpu.code.compile_source", missing)
        module.export_library(tmp_path / "library.so")
    assert any(row.kind == "device code" for row, _ in report.rows())
    content = (tmp_path / "library.so").read_bytes()
    assert b'"format": "cu"' in content and b'"format": "cubin"' not in content
    loaded = tilesmith.runtime.load_module(tmp_path / "library.so")
    tensor = tilesmith.nd.empty((1,), "float32", tilesmith.cuda(0))
    wanted = []

    def compiled(_source, architecture, *_rest):
        wanted.append(architecture)
        return b"machine code"

    monkeypatch.setattr("tilesmith.codegen.gpu.nvrtc.compile_source", compiled)
    loaded["_nothing"](tensor)
    assert wanted == ["sm_90a"]  # what the code was made for: the GPU is one
    assert launches(fake) == ["cuLaunchKernel"]
    monkeypatch.setattr("tilesmith.codegen.gpu.nvrtc.compile_source", missing)
    with pytest.raises(MissingDependencyError, match="cuda-bindings"):
        loaded["_nothing"](tilesmith.nd.empty((1,), "float32", tilesmith.cuda(1)))
