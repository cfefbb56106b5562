"""Finds AMD's ROCm, links code for its GPUs, and says what they can do."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tilesmith.contrib.programs import find_program, run_program
from tilesmith.contrib.utils import tempdir
from tilesmith.support.errors import ConfigError

__all__ = [
    "callback_rocm_bitcode_path", "callback_rocm_link", "find_lld", "find_rocm_path",
    "get_rocm_arch", "have_matrixcore", "parse_compute_version", "rocm_link",
]  # fmt: skip

_ADVICE = "install ROCm, or set ROCM_PATH to its folder"
_LLD_ADVICE = "install lld (Debian: lld), or ROCm, which brings it"
_LINKERS = ("ld.lld", *[f"ld.lld-{version}" for version in range(22, 13, -1)])


def find_rocm_path() -> str:
    """Return the folder of ROCm: that of ROCM_PATH, of `hipcc`, or /opt/rocm; ConfigError where
    there is none.
    """
    compiler = shutil.which("hipcc")
    named = [os.environ.get("ROCM_PATH")]
    named += [str(Path(compiler).resolve().parents[1])] if compiler else []
    for folder in (*named, "/opt/rocm"):
        if folder and Path(folder).is_dir():
            return folder
    raise ConfigError("ROCm was not found", notes=(_ADVICE,))


def find_lld(required: bool = True) -> list[str]:
    """Return the paths of LLVM's linker, ROCm's own last; ConfigError where there is none, unless
    it is not ``required``.
    """
    own = os.path.join(os.environ.get("ROCM_PATH") or "/opt/rocm", "llvm", "bin", "ld.lld")
    found = [path for path in (shutil.which(name) for name in (*_LINKERS, own)) if path is not None]
    if not found and required:
        raise ConfigError("LLVM's linker 'ld.lld' was not found", notes=(_LLD_ADVICE,))
    return list(dict.fromkeys(found))


def rocm_link(in_file: str, out_file: str, lld: str | None = None) -> None:
    """Link an object file for an AMD GPU into a code object (`.hsaco`)."""
    run_program([lld or find_lld()[0], "--no-undefined", "-shared", in_file, "-o", out_file])


def callback_rocm_link(obj_bin: bytes | bytearray) -> bytearray:
    """Return the code object of an object file, both as bytes."""
    with tempdir() as folder:
        source, made = folder.relpath("kernel.o"), folder.relpath("kernel.hsaco")
        Path(source).write_bytes(obj_bin)
        rocm_link(source, made)
        return bytearray(Path(made).read_bytes())


def callback_rocm_bitcode_path(rocdl_dir: str | None = None) -> list[str]:
    """Return the paths of ROCm's libraries of mathematical functions (files of bitcode)."""
    folder = Path(rocdl_dir) if rocdl_dir else Path(find_rocm_path(), "amdgcn", "bitcode")
    found = [str(path) for path in sorted(folder.glob("*.bc"))]
    if not found:
        raise ConfigError(f"there are no files of bitcode in '{folder}'", notes=(_ADVICE,))
    return found


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """Return the two numbers of a version: (9, 0) of "9.0"."""
    found = re.fullmatch(r"(\d+)\.(\d+)", str(compute_version))
    if found is None:
        raise ConfigError(f"'{compute_version}' is not a version such as 9.0")
    return int(found[1]), int(found[2])


def have_matrixcore(compute_version: str | None = None) -> bool:
    """True if GPUs of a version, by default of this machine's GPU, have instructions for products
    of matrices: data centre GPUs of version 9, and all from version 11 on.

    The first GPUs of 9.0 lack them; the version does not tell them apart.
    """
    if compute_version is None:
        major = int(get_rocm_arch().removeprefix("gfx")[:-2])  # gfx90a, gfx1100
    else:
        major, _ = parse_compute_version(compute_version)
    return major == 9 or major >= 11


def get_rocm_arch(rocm_path: str | None = None) -> str:
    """Return the architecture of this machine's GPU ("gfx90a"), as `rocminfo` tells it."""
    program = os.path.join(rocm_path or find_rocm_path(), "bin", "rocminfo")
    text = run_program([find_program((program, "rocminfo"), _ADVICE)])
    found = re.search(r"Name:\s+(gfx\d+[0-9a-f]{2})\b", text)
    if found is None:
        raise ConfigError("'rocminfo' names no GPU", notes=("name it: -mcpu=gfx90a",))
    return found[1]
