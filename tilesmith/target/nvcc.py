"""Compiles CUDA sources, and says what a GPU of some compute capability can do.

`nvcc` compiles where it is installed, else NVRTC of the packages that ``tilesmith[cuda]`` brings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilesmith.runtime.devices import cuda
from tilesmith.support.errors import (
    CodegenError,
    ConfigError,
    TargetError,
    UnsupportedError,
)
from tilesmith.support.lazy import resolve
from tilesmith.target.target import Target

__all__ = [
    "callback_libdevice_path", "compile_cuda", "find_cuda_path", "find_libdevice_path",
    "get_cuda_version", "get_target_compute_version", "have_bf16", "have_cudagraph", "have_fp16",
    "have_fp8", "have_int8", "have_tensorcore", "parse_compute_version",
    "tvm_callback_cuda_compile",
]  # fmt: skip

_FORMATS = ("ptx", "cubin", "fatbin")


def compile_cuda(
    code: str,
    target_format: str | None = "ptx",
    arch: str | Sequence[str] | None = None,
    options: str | Sequence[str] | None = None,
    path_target: str | None = None,
) -> bytearray:
    """Compile CUDA source to "ptx", "cubin" or "fatbin".

    ``arch``: "sm_80" and its like, by default that of the current target; ``options``: for the
    compiler; ``path_target``: a file into which the result is written as well.
    """
    kind = target_format or "ptx"
    if kind not in _FORMATS:
        raise UnsupportedError(f"compile_cuda: format '{kind}' is not one of {', '.join(_FORMATS)}")
    chosen = arch if arch is not None else _current_arch()
    more = [options] if isinstance(options, str) else list(options or ())
    if shutil.which("nvcc") is not None:
        made = _compile_by_nvcc(code, kind, chosen, more)
    else:
        made = _compile_by_nvrtc(code, kind, chosen, more)
    if path_target is not None:
        Path(path_target).write_bytes(made)
    return bytearray(made)


def tvm_callback_cuda_compile(code: str, target: Target | None = None) -> bytearray:
    """Compile CUDA source to ptx for a target."""
    return compile_cuda(code, "ptx", None if target is None else target.arch)


def _current_arch() -> str:
    target = Target.current(allow_none=True)
    if (target is None or not target.arch) and cuda(0).exist:
        return "sm_" + str(cuda(0).compute_version).replace(".", "")
    if target is None or not target.arch:
        raise TargetError(
            "the architecture of the GPU is not known",
            notes=('give it: arch="sm_80", or work within a target: with Target("cuda -arch=…")',),
        )
    return str(target.arch)


def _compile_by_nvcc(
    code: str, kind: str, arch: str | Sequence[str], options: Sequence[str]
) -> bytes:
    # A list of words, such as ["-gencode", "arch=…"], stands for several architectures.
    architectures = [f"-arch={arch}"] if isinstance(arch, str) else list(arch)
    with tempfile.TemporaryDirectory(prefix="tilesmith-") as folder:
        source, made = os.path.join(folder, "kernel.cu"), os.path.join(folder, f"kernel.{kind}")
        Path(source).write_text(code)
        line = ["nvcc", f"--{kind}", "-O3", *architectures, *options, "-o", made, source]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CodegenError("nvcc failed", notes=((done.stderr or done.stdout)[-4000:],))
        return Path(made).read_bytes()


def _compile_by_nvrtc(
    code: str, kind: str, arch: str | Sequence[str], options: Sequence[str]
) -> bytes:
    if kind == "fatbin" or not isinstance(arch, str):
        raise UnsupportedError(
            "NVRTC compiles ptx or cubin for one architecture", notes=("nvcc compiles the others",)
        )
    compile_source = resolve("tilesmith.codegen.gpu.nvrtc:compile_source")
    return bytes(compile_source(code, arch, kind, tuple(options)))


def find_cuda_path() -> str:
    """Return the folder of the CUDA toolkit: that of CUDA_PATH or CUDA_HOME, of `nvcc`, or
    /usr/local/cuda. Raises ConfigError where there is none.
    """
    named = [os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME")]
    compiler = shutil.which("nvcc")
    if compiler is not None:
        named.append(str(Path(compiler).resolve().parent.parent))
    for folder in (*named, "/usr/local/cuda"):
        if folder and Path(folder).is_dir():
            return folder
    raise ConfigError(
        "the CUDA toolkit was not found",
        notes=("set CUDA_PATH to its folder, or put nvcc on the path",),
    )


def get_cuda_version(cuda_path: str | None = None) -> tuple[int, ...]:
    """Return the version of the CUDA toolkit: (12, 8)."""
    compiler = os.path.join(cuda_path or find_cuda_path(), "bin", "nvcc")
    if not os.path.exists(compiler):
        compiler = shutil.which("nvcc") or compiler
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigError(f"'{compiler}' cannot be run: {error}") from None
    found = re.search(r"release (\d+)\.(\d+)", done.stdout)
    if found is None:
        raise ConfigError(f"'{compiler} --version' names no release")
    return int(found[1]), int(found[2])


def find_libdevice_path(arch: str | int | None = None) -> str:
    """Return the path of the bitcode library of mathematical functions, which serves all GPUs."""
    path = os.path.join(find_cuda_path(), "nvvm", "libdevice", "libdevice.10.bc")
    if not os.path.exists(path):
        raise ConfigError(f"there is no '{path}'", notes=("set CUDA_PATH to the toolkit's folder",))
    return path


def callback_libdevice_path(arch: str | int | None = None) -> str:
    """Return the path of the library of mathematical functions, or "" where there is none."""
    try:
        return find_libdevice_path(arch)
    except ConfigError:
        return ""


def get_target_compute_version(target: Target | str | None = None) -> str:
    """Return the compute capability of a target, by default of the current one: "8.0" of sm_80."""
    arch = _current_arch() if target is None else str(Target(target).arch)
    found = re.fullmatch(r"sm_(\d+)(\d)([a-z]?)", arch)
    if found is None:
        raise TargetError(
            f"the target's architecture is '{arch}', not a number of NVIDIA's GPUs",
            notes=('for example Target("cuda -arch=sm_80")',),
        )
    return f"{found[1]}.{found[2]}{found[3]}"


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """Return the two numbers of a compute capability: (9, 0) of "9.0a"."""
    found = re.fullmatch(r"(\d+)\.(\d+)[a-z]?", compute_version)
    if found is None:
        raise ConfigError(f"'{compute_version}' is not a compute capability such as 8.0")
    return int(found[1]), int(found[2])


def have_fp16(compute_version: str) -> bool:
    """True if there is arithmetic of float16."""
    return parse_compute_version(compute_version) >= (6, 0) or compute_version == "5.3"


def have_int8(compute_version: str) -> bool:
    """True if there are dot products of int8."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Target | str | None = None) -> bool:
    """True if there are tensor cores, by capability or target; False where neither is known."""
    if compute_version is None:
        try:
            compute_version = get_target_compute_version(target)
        except TargetError:
            return False
    return parse_compute_version(compute_version) >= (7, 0)


def have_cudagraph() -> bool:
    """True if the toolkit has graphs of launches."""
    try:
        return get_cuda_version() >= (10, 0)
    except ConfigError:
        return False


def have_bf16(compute_version: str) -> bool:
    """True if there is arithmetic of bfloat16."""
    return parse_compute_version(compute_version) >= (8, 0)


def have_fp8(compute_version: str) -> bool:
    """True if there is arithmetic of 8-bit floats."""
    return parse_compute_version(compute_version) >= (8, 9)
