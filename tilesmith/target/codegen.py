"""Queries LLVM and the CPU of a target."""

from __future__ import annotations

import re
from typing import Any

from tilesmith.support.errors import TargetError
from tilesmith.target import features
from tilesmith.target.host import host_cpu
from tilesmith.target.target import Target


def target_has_features(cpu_features: str | list[str], target: Any = None) -> bool:
    """True if `target` (else the current one) has all of `cpu_features`, by LLVM's names."""
    return llvm_cpu_has_features(cpu_features, target)


def llvm_cpu_has_features(cpu_features: str | list[str], target: Any = None) -> bool:
    """True if the CPU of `target` (else of the current one) has all of `cpu_features`."""
    wanted = [cpu_features] if isinstance(cpu_features, str) else list(cpu_features)
    known = features.target_features(Target.target_or_current(target))
    return all(feature in known for feature in wanted)


def llvm_get_cpu_features(target: Any = None) -> list[str]:
    """Return the features of the CPU of `target` (else of the current one)."""
    return sorted(features.target_features(Target.target_or_current(target)))


def llvm_get_cpu_archlist(target: Any = None) -> list[str]:
    """Return the names that `-mcpu` accepts for `target` (else for the current one)."""
    return features.known_cpus(features.architecture(Target.target_or_current(target)))


def llvm_get_system_triple() -> str:
    """Return LLVM's name of this platform."""
    return host_cpu().triple


def llvm_get_system_cpu() -> str:
    """Return LLVM's name of this machine's CPU; on virtual machines it may be wrong."""
    return host_cpu().name


def llvm_get_system_x86_vendor() -> str:
    """Return the maker of this machine's x86 CPU: `intel`, `amd` or `unknown`."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            vendor = next((line for line in lines if line.startswith("vendor_id")), "")
    except OSError:
        return "unknown"
    return {"GenuineIntel": "intel", "AuthenticAMD": "amd"}.get(
        vendor.partition(":")[2].strip(), "unknown"
    )


def llvm_get_targets() -> list[str]:
    """Return the architectures for which this LLVM generates code."""
    from llvmlite import binding

    binding.initialize_all_targets()
    found = []
    for triple in ("x86_64", "i386", "aarch64", "arm", "thumb", "riscv32", "riscv64", "nvptx64",
                   "amdgcn", "wasm32", "hexagon", "spirv64", "powerpc64le", "s390x", "mips",
                   "bpfel"):  # fmt: skip
        try:
            binding.Target.from_triple(triple)
        except RuntimeError:
            continue
        found.append(triple)
    return found


def llvm_get_vector_width(target: Any = None) -> int:
    """Return the bits of the widest vector register of `target` (else of the current one), at least
    128.

    For scalable vectors (SVE, RISC-V V) it is the smallest width that a CPU may have.
    """
    chosen = Target.target_or_current(target)
    if chosen.attrs.get("vector-width"):
        return int(chosen.attrs["vector-width"])
    known = features.target_features(chosen)
    family = features.architecture(chosen)
    if family == "x86":
        return 512 if "avx512f" in known else 256 if "avx" in known else 128
    if family == "hexagon":
        return 1024
    return 128


def llvm_version_major(allow_none: bool = False) -> int | None:
    """Return the major version of LLVM; without llvmlite None or, unless `allow_none`,
    TargetError.
    """
    try:
        from llvmlite import binding
    except ImportError:
        if allow_none:
            return None
        raise TargetError("llvmlite is not installed", notes=("pip install llvmlite",)) from None
    return int(binding.llvm_version_info[0])


def llvm_lookup_intrinsic_id(name: str) -> int:
    """Return a number for the intrinsic called `name` (`llvm.fma`), or 0 if there is none.

    The number is ours (a digest of the name): LLVM's own numbers change between its versions and
    cannot be asked for.
    """
    if not re.fullmatch(r"llvm(\.[A-Za-z0-9_]+)+", name):
        return 0
    import zlib

    number = zlib.crc32(name.encode()) | 1
    _INTRINSICS[number] = name
    return number


def llvm_get_intrinsic_name(intrin_id: int) -> str:
    """Return the name for a number from `llvm_lookup_intrinsic_id`, or an empty text."""
    return _INTRINSICS.get(int(intrin_id), "")


_INTRINSICS: dict[int, str] = {}
