"""Answers questions of programs about the instructions of CPU targets."""

from __future__ import annotations

from typing import Any

from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import InternalError
from tilesmith.target import Target, architecture, target_features
from tilesmith.target.x86 import get_simd_32bit_lanes

__all__ = [
    "get_arch_version", "get_simd_32bit_lanes", "is_aarch64_arm", "is_dotprod_available",
    "is_int8_hw_support", "is_mmla_available", "is_neon_available", "target_has_avx",
    "target_has_avx2", "target_has_avx512", "target_has_sse41", "target_has_sse42",
    "target_has_vnni",
]  # fmt: skip


def _has(target: Any, family: str, *features: str) -> bool:
    """True if a target (or a CPU's name, for a target of LLVM) has one of some features."""
    if isinstance(target, str) and target.partition(" ")[0] not in ("llvm", "c"):
        target = f"llvm -mcpu={target}"
    found = Target(target)
    return architecture(found) == family and not target_features(found).isdisjoint(features)


def target_has_sse41(target: Any) -> bool:
    """Return whether an x86 target, or the CPU of a name, has SSE 4.1."""
    return _has(target, "x86", "sse4.1")


def target_has_sse42(target: Any) -> bool:
    """Return whether an x86 target, or the CPU of a name, has SSE 4.2."""
    return _has(target, "x86", "sse4.2")


def target_has_avx(target: Any) -> bool:
    """Return whether an x86 target, or the CPU of a name, has AVX."""
    return _has(target, "x86", "avx")


def target_has_avx2(target: Any) -> bool:
    """Return whether an x86 target, or the CPU of a name, has AVX2."""
    return _has(target, "x86", "avx2")


def target_has_avx512(target: Any) -> bool:
    """Return whether an x86 target, or the CPU of a name, has AVX-512 as servers have it: F, CD,
    BW, DQ and VL.
    """
    parts = ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")
    return all(_has(target, "x86", part) for part in parts)


def target_has_vnni(target: Any) -> bool:
    """Return whether an x86 target, or the CPU of a name, has dot products of 8-bit integers."""
    return _has(target, "x86", "avx512vnni", "avxvnni")


def _current() -> Target:
    target = Target.current(allow_none=False)
    if target is None:
        raise InternalError("there is no current target")
    return target


def _current_has(*features: str) -> bool:
    target = _current()
    return _has(target, "aarch64", *features) or _has(target, "arm", *features)


def is_aarch64_arm() -> bool:
    """Return whether the current target is an AArch64 CPU."""
    return architecture(_current()) == "aarch64"


def is_neon_available() -> bool:
    """Return whether the current target has NEON."""
    return _current_has("neon")


def is_dotprod_available() -> bool:
    """Return whether the current target has the dot products of Armv8.2."""
    return _current_has("dotprod")


def is_mmla_available() -> bool:
    """Return whether the current target has the matrix products of 8-bit integers of Armv8.6."""
    return _current_has("i8mm")


def get_arch_version(target_mattr: Any) -> float:
    """Return the version of the Arm architecture that features name: 8.2 for ["+v8.2a", …]."""
    versions = [8.0]
    for feature in target_mattr or ():
        text = str(feature).lstrip("+")
        if text.startswith("v") and text.endswith("a"):
            number = text[1:-1]
            if number.replace(".", "", 1).isdigit():
                versions.append(float(number))
    return max(versions)


def is_int8_hw_support(data_dtype: Any, kernel_dtype: Any) -> bool:
    """Return whether the current target multiplies 8-bit integers by vectors: on x86 unsigned data
    with signed weights (from SSSE3 on), on Arm operands of one kind (dot products or NEON).
    """
    data, kernel = DataType(data_dtype), DataType(kernel_dtype)
    if data.bits != 8 or kernel.bits != 8:
        return False
    target = _current()
    if architecture(target) == "x86":
        return data.is_uint and kernel.is_int and _has(target, "x86", "ssse3", "avx2")
    return data == kernel and _current_has("dotprod", "neon")
