"""Compiles CUDA C with NVRTC, the compiler as a library, and keeps what it made in the disk cache.

It needs no GPU and no driver: packages `cuda-bindings`, `nvidia-cuda-nvrtc` (the compiler) and
`nvidia-cuda-runtime` (the headers).
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tilesmith.support.cache import DiskCache, digest
from tilesmith.support.errors import CodegenError, MissingDependencyError, UnsupportedError
from tilesmith.support.fallbacks import record_fallback

__all__ = ["compile_source", "header_folders", "nvrtc_version"]

_CACHE = DiskCache("nvrtc")
_FORMATS = {"ptx": "PTX", "cubin": "CUBIN"}
_PRODUCT = "wgmma.mma_async"
_REMARK = re.compile(r"\(C75\d\d\) (.*wgmma.*)")
_SHOWN_LINES = 2
"""How many lines of a source stand before and behind the one of an error."""


def compile_source(
    source: str, arch: str, kind: str = "cubin", options: Sequence[str] = ()
) -> bytes:
    """Compile CUDA C for an architecture (`sm_90`) to "cubin" (machine code) or "ptx".

    Raises CodegenError with the compiler's messages and the lines that they are about,
    MissingDependencyError where a package is missing.
    """
    if kind not in _FORMATS:
        raise UnsupportedError(
            f"NVRTC makes {' and '.join(_FORMATS)}, not '{kind}'", notes=("nvcc makes others",)
        )
    words = (*_options(arch, kind), *options)
    parts = (source, kind, " ".join(words), ".".join([str(n) for n in nvrtc_version()]))
    key, log_key = digest(*parts), digest(*parts, "log")
    kept = _CACHE.get(key)
    log = _CACHE.get(log_key) if kept is not None and _PRODUCT in source else b""
    if kept is None or log is None:
        kept, text = _compile(source, kind, words)
        log = text.encode()
        _CACHE.put(key, kept)
        if _PRODUCT in source:
            _CACHE.put(log_key, log)
    _report_waits(log.decode(errors="replace"))
    return bytes(kept)


def _report_waits(log: str) -> None:
    """Record what the compiler says about products of four warps that it lets wait."""
    for remark in dict.fromkeys(_REMARK.findall(log)):
        kernel = re.search(r"function '(\w+)'", remark)
        record_fallback("products", f"kernel '{kernel[1]}'" if kernel else "kernels", remark)


def _options(arch: str, kind: str) -> tuple[str, ...]:
    named = arch.replace("sm_", "compute_") if kind == "ptx" else arch
    return (f"--gpu-architecture={named}", "--std=c++17", "-default-device")


def _nvrtc() -> Any:
    try:
        return importlib.import_module("cuda.bindings.nvrtc")
    except ImportError:
        raise MissingDependencyError("cuda-bindings", "cuda", "compiling CUDA C") from None


@cache
def nvrtc_version() -> tuple[int, int]:
    """Return the version of the compiler. Raises MissingDependencyError where it is missing."""
    nvrtc = _nvrtc()
    try:
        status, major, minor = nvrtc.nvrtcVersion()
    except (
        Exception
    ) as error:  # the bindings raise errors of several kinds where there is no library
        raise MissingDependencyError("nvidia-cuda-nvrtc", "cuda", "compiling CUDA C") from error
    if int(status) != 0:
        raise CodegenError(f"NVRTC cannot be used: {status}")
    return int(major), int(minor)


@cache
def _architectures() -> tuple[int, ...]:
    """Return the numbers of the architectures that the compiler knows."""
    status, numbers = _nvrtc().nvrtcGetSupportedArchs()
    return tuple(numbers) if int(status) == 0 else ()


@cache
def header_folders() -> tuple[str, ...]:
    """Return the folders with CUDA's headers: those of the package, else of a toolkit."""
    found = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in found.submodule_search_locations or ()] if found else []
    for place in places:
        for header in sorted(place.glob("*/include/cuda_fp16.h"), reverse=True):
            return tuple([str(folder) for folder in (header.parent, header.parent / "cccl")
                          if folder.is_dir()])  # fmt: skip
    toolkit = Path("/usr/local/cuda/include")
    return (str(toolkit),) if (toolkit / "cuda_fp16.h").exists() else ()


def _includes(source: str) -> list[str]:
    if "#include" not in source:
        return []
    folders = header_folders()
    if not folders:
        raise MissingDependencyError("nvidia-cuda-runtime", "cuda", "the headers of CUDA C")
    return [f"--include-path={folder}" for folder in folders]


def _compile(source: str, kind: str, options: Sequence[str]) -> tuple[bytes, str]:
    """Return the code, and what the compiler said about it."""
    nvrtc = _nvrtc()
    words = [word.encode() for word in (*options, *_includes(source))]

    def call(name: str, *arguments: Any) -> Any:
        status, *values = getattr(nvrtc, name)(*arguments)
        if int(status) != 0:
            raise CodegenError(f"{name} failed: {status}")
        return values[0] if values else None

    program = call("nvrtcCreateProgram", source.encode(), b"kernels.cu", 0, [], [])
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(words), words)
        said = bytearray(call("nvrtcGetProgramLogSize", program))
        call("nvrtcGetProgramLog", program, said)
        log = said.decode(errors="replace").rstrip("\0")
        if int(status) != 0:
            raise _compile_error(source, log, options)
        content = bytearray(call(f"nvrtcGet{_FORMATS[kind]}Size", program))
        call(f"nvrtcGet{_FORMATS[kind]}", program, content)
        return bytes(content), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _compile_error(source: str, log: str, options: Sequence[str]) -> CodegenError:
    """Return the error for a log of the compiler, with the lines of the source."""
    lines, shown = source.splitlines(), []
    for number in dict.fromkeys(re.findall(r"kernels\.cu\((\d+)\): (?:catastrophic )?error", log)):
        at = int(number)
        near = range(max(1, at - _SHOWN_LINES), min(len(lines), at + _SHOWN_LINES) + 1)
        shown += [f"{'>' if n == at else ' '} {n:4} {lines[n - 1]}" for n in near]
    first = next((line for line in log.splitlines() if "error" in line), "no message")
    wrong = options[0].partition("=")[2].replace("compute_", "sm_")
    if "--gpu-architecture" in first:
        known = ", ".join([f"sm_{number}" for number in _architectures()])
        version = ".".join([str(number) for number in nvrtc_version()])
        return CodegenError(
            f"NVRTC {version} does not know the architecture '{wrong}'",
            notes=(
                f"it compiles for {known}",
                "name one of them (Target('cuda -arch=sm_90')), or install a newer one: "
                "pip install -U nvidia-cuda-nvrtc",
            ),
        )
    return CodegenError(
        f"NVRTC refuses the source: {first}",
        notes=("\n".join(shown), log[-4000:], f"options: {' '.join(options)}"),
    )
