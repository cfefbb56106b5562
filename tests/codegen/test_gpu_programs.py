"""Programs of `tests/gpu` as machine code and PTX; users' own steps on the way; files of code."""

import numpy as np
import pytest

import tilesmith
from tests.codegen.opencl_harness import needs_opencl
from tests.codegen.test_gpu_kernels_script import needs_nvrtc
from tests.gpu.classic_programs import CLASSIC
from tests.gpu.programs import PROGRAMS
from tilesmith import te, tir
from tilesmith.runtime import load_module
from tilesmith.support.errors import ArtifactError, CodegenError
from tilesmith.target import nvcc

ALL = {**PROGRAMS, **CLASSIC}


@needs_nvrtc
@pytest.mark.parametrize("name", ALL)
def test_machine_code_is_made(name):
    kernels = ALL[name].build("cuda -arch=sm_80").imported_modules[0]
    assert ".entry" in kernels.get_source("ptx")


@pytest.mark.parametrize("name", [name for name, one in ALL.items() if one.is_for_ptx])
def test_ptx_is_made(name):
    assert ".entry" in ALL[name].build("nvptx -mcpu=sm_80").imported_modules[0].get_source("ptx")


def added(target, call=None, source=None, size=64):
    """Build ``b[i] = a[i] + 1``, or a call of a function whose source a pragma imports."""
    a = te.placeholder((size,), name="a")
    b = te.compute((size,), lambda i: a[i] + 1.0 if call is None else call(a[i]), "b")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], 32)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    if source is not None:
        s[b].pragma(thread, "import_c", source)
    return tilesmith.build(s, [a, b], target=target, name="added")


@pytest.fixture
def registered():
    """Registers functions for the time of a test."""
    names = []

    def register(name, function):
        tilesmith.register_func(name, function, override=True)
        names.append(name)

    yield register
    for name in names:
        tilesmith.runtime.registry.remove_global_func(name)


@pytest.mark.parametrize(("kind", "fmt"), [("cuda", "cu"), ("opencl", "cl")])
def test_users_change_the_source(registered, kind, fmt):
    seen = []

    def change(source, target):
        seen.append(target.kind.name)
        return source.replace("1.0f", "2.0f")

    registered(f"tvm_callback_{kind}_postproc", change)
    text = added(kind).imported_modules[0].get_source(fmt)
    assert seen == [kind] and "+ 2.0f" in text and "1.0f" not in text
    registered(f"tvm_callback_{kind}_postproc", lambda source, target: 3)
    with pytest.raises(CodegenError, match=f"'tvm_callback_{kind}_postproc' returned int"):
        added(kind)


@needs_nvrtc
@pytest.mark.parametrize("kind", ["ptx", "cubin"])
def test_users_compile_the_source(registered, kind, tmp_path):
    registered("tvm_callback_cuda_compile", lambda source, target: nvcc.compile_cuda(source, kind))
    built = added("cuda -arch=sm_86")
    assert built.imported_modules[0].formats == ["cu", kind]
    assert "sm_86" in built.imported_modules[0].get_source(kind) or kind == "cubin"
    built.export_library(tmp_path / "library.so")
    (kernels,) = load_module(tmp_path / "library.so").imported_modules
    assert kernels.formats[0] == ("cu" if kind == "cubin" else kind)
    registered("tvm_callback_cuda_compile", lambda source, target: None)
    with pytest.raises(CodegenError, match="returned NoneType, not code"):
        added("cuda -arch=sm_86")


@pytest.mark.parametrize(("kind", "suffix"), [("cuda", "cu"), ("opencl", "cl")])
def test_code_of_kernels_is_loaded(kind, suffix, tmp_path):
    built = added(kind)
    built.imported_modules[0].save(tmp_path / f"kernels.{suffix}")
    built.export_library(tmp_path / "library.so")
    library = load_module(tmp_path / "library.so")
    (carried,) = library.imported_modules
    kernels = load_module(tmp_path / f"kernels.{suffix}")
    assert kernels.type_key == carried.type_key == kind and kernels.is_device_module
    assert kernels.get_source() == carried.get_source()
    library.import_module(kernels)
    assert library.imported_modules == [carried, kernels]


def test_other_files_are_no_machine_code(tmp_path):
    (tmp_path / "kernels.cubin").write_text("no machine code")
    with pytest.raises(ArtifactError, match="neither a cubin nor a fat binary"):
        load_module(tmp_path / "kernels.cubin")


@needs_opencl
def test_source_of_a_pragma_on_a_bound_axis():
    source = "inline float more(float x, float y) { return x + y; }"
    built = added("opencl", lambda x: tir.call_extern("float32", "more", x, 1.5), source)
    values = np.arange(64, dtype="float32")
    device = tilesmith.opencl(0)
    result = tilesmith.nd.empty((64,), "float32", device)
    built(tilesmith.nd.array(values, device), result)
    np.testing.assert_array_equal(result.numpy(), values + 1.5)
