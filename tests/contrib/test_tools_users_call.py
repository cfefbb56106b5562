"""Downloads, clang, cuDNN's sizes and nvcc, as programs written for TVM call them."""

import shutil
import stat
import textwrap

import pytest

from tilesmith.contrib import clang, cudnn, download
from tilesmith.support.errors import (
    CodegenError,
    ConfigError,
    FileError,
    MissingDependencyError,
    ShapeError,
    TargetError,
    UnsupportedError,
)
from tilesmith.target import Target, nvcc


def test_files_are_fetched_once(tmp_path, monkeypatch):
    source, target = tmp_path / "source", tmp_path / "folder" / "target"
    source.write_text("one")
    download.download(source.as_uri(), target)
    source.write_text("changed")
    download.download(source.as_uri(), target)
    assert target.read_text() == "one"
    download.download(source.as_uri(), target, size_compare=True)
    assert target.read_text() == "changed"
    source.write_text("another")
    download.download(source.as_uri(), target, overwrite=True)
    assert target.read_text() == "another"
    monkeypatch.setattr(download, "TEST_DATA_ROOT_PATH", tmp_path / "data")
    path = download.download_testdata(source.as_uri(), "x.bin", ["a", "b"])
    assert path == str(tmp_path / "data" / "a" / "b" / "x.bin")


def test_what_cannot_be_fetched_is_said(tmp_path):
    with pytest.raises(FileError, match=r"nothing' cannot be fetched: .*No such file"):
        download.download((tmp_path / "nothing").as_uri(), tmp_path / "x", retries=1)
    with pytest.raises(ConfigError, match="not an address"):
        download.download("nothing", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def fake_clang(tmp_path, monkeypatch):
    """A program called clang that writes what it was told."""
    program = tmp_path / "clang"
    program.write_text(
        textwrap.dedent(
            """\
            #!/bin/sh
            while [ $# -gt 1 ]; do
              case "$1" in -o) out="$2";; --fail) echo "no such thing" >&2; exit 1;; esac
              shift
            done
            { echo "; IR of"; cat "$1"; } > "$out"
            """
        )
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return str(program)


def test_c_becomes_llvm_ir(fake_clang, tmp_path):
    assert clang.find_clang()[0] == fake_clang
    text = clang.create_llvm("int f() { return 1; }\n", str(tmp_path / "made.ll"), cc=fake_clang)
    assert text.startswith("; IR of\nint f()") and (tmp_path / "made.ll").read_text() == text
    with pytest.raises(CodegenError, match="no such thing"):
        clang.create_llvm("int f();\n", options=["--fail"], cc=fake_clang)


def test_a_machine_without_clang_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(clang, "_zig", lambda: False)
    assert clang.find_clang(required=False) == []
    with pytest.raises(MissingDependencyError, match="pip install ziglang"):
        clang.create_llvm("int f();\n")


@pytest.mark.parametrize("tensor_format, order", [(0, (0, 1, 2, 3)), (1, (0, 2, 3, 1))])
def test_sizes_of_convolutions(tensor_format, order):
    x, w, y = [[shape[k] for k in order] for shape in ((2, 4, 9, 8), (6, 2, 3, 2), (2, 6, 5, 8))]
    args = (tensor_format, (1, 0), (2, 1), (1, 1))
    assert cudnn.conv_output_shape(*args, x, w, "float32", "float32", 2) == [
        [2, 6, 5, 7][k] for k in order
    ]
    assert cudnn.conv_dgrad_shape(*args, y, w, (0, 0), 2) == [[2, 4, 9, 9][k] for k in order]
    with pytest.raises(ShapeError):
        cudnn.conv_output_shape(*args, x, w, "float32", "float32", 1)


@pytest.mark.parametrize(
    "name",
    [
        "conv_forward",
        "conv_forward_find_algo",
        "conv_backward_data",
        "conv_backward_data_find_algo",
        "conv_backward_filter",
        "conv_backward_filter_find_algo",
        "softmax",
        "log_softmax",
    ],
)
def test_cudnn_is_not_called(name):
    with pytest.raises(UnsupportedError, match=f"cudnn.{name}: cuDNN is not called"):
        getattr(cudnn, name)()
    assert cudnn.exists() in (True, False)


@pytest.mark.parametrize(
    "arch, version, numbers", [("sm_80", "8.0", (8, 0)), ("sm_90a", "9.0a", (9, 0)),
                               ("sm_120", "12.0", (12, 0))]
)  # fmt: skip
def test_compute_capabilities(arch, version, numbers):
    assert nvcc.get_target_compute_version(f"cuda -arch={arch}") == version
    assert nvcc.parse_compute_version(version) == numbers
    with Target(f"cuda -arch={arch}"):
        assert nvcc.get_target_compute_version() == version and nvcc.have_tensorcore()


@pytest.mark.parametrize(
    "question, yes, no",
    [
        (nvcc.have_fp16, ("5.3", "6.0", "8.9"), ("5.2",)),
        (nvcc.have_int8, ("6.1", "7.5"), ("6.0",)),
        (nvcc.have_bf16, ("8.0", "9.0a"), ("7.5",)),
        (nvcc.have_fp8, ("8.9", "9.0"), ("8.6",)),
        (nvcc.have_tensorcore, ("7.0",), ("6.1",)),
    ],
)
def test_what_gpus_have(question, yes, no):
    assert all(question(version) for version in yes)
    assert not any(question(version) for version in no)


def test_unknown_gpus_are_refused():
    with pytest.raises(TargetError, match="architecture of the GPU is not known"):
        nvcc.get_target_compute_version()
    with pytest.raises(TargetError, match="not a number of NVIDIA"):
        nvcc.get_target_compute_version("llvm")
    with pytest.raises(ConfigError, match="not a compute capability"):
        nvcc.parse_compute_version("eight")
    assert not nvcc.have_tensorcore()


KERNEL = 'extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= 2; }'
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")


@needs_nvcc
def test_cuda_sources_are_compiled(tmp_path):
    path = tmp_path / "kernel.ptx"
    text = nvcc.compile_cuda(KERNEL, "ptx", "sm_80", path_target=str(path))
    assert b".entry scale" in text and path.read_bytes() == text
    with Target("cuda -arch=sm_90"):
        assert b"sm_90" in nvcc.tvm_callback_cuda_compile(KERNEL)
    with pytest.raises(CodegenError, match="nvcc failed"):
        nvcc.compile_cuda("this is not C", arch="sm_80")
    with pytest.raises(UnsupportedError, match="format 'exe'"):
        nvcc.compile_cuda(KERNEL, "exe", "sm_80")


@needs_nvcc
def test_the_toolkit_is_found(tmp_path, monkeypatch):
    assert nvcc.get_cuda_version() >= (11, 0) and nvcc.have_cudagraph()
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert nvcc.find_cuda_path() == str(tmp_path)
    with pytest.raises(ConfigError, match="libdevice"):
        nvcc.find_libdevice_path("sm_80")
    assert nvcc.callback_libdevice_path("sm_80") == ""


def test_a_machine_without_a_cuda_compiler_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings.nvrtc", None)
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[cuda\]"):
        nvcc.compile_cuda(KERNEL, arch="sm_80")
