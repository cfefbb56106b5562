"""States what code needs of a CPU, and refuses code that this machine cannot run.

Generated code carries its needs as data under a symbol of its own:

    Requirements(("avx2", "fma"), "llvm -mcpu=haswell").symbol   # __tilesmith_requires_<digest>

Different needs have different symbols, so a library that is linked from several objects has those
of all. `check_code` reads them from the file, before anything of it is loaded: without the check
the process would end at the first unknown instruction (SIGILL).
"""

from __future__ import annotations

import hashlib
import json
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from tilesmith.runtime.elf import Contents, is_cut_off, machine_of, visible_symbols
from tilesmith.support.errors import ArtifactError, IncompatibleCodeError

__all__ = [
    "CHOSEN_FEATURES", "INTRINSIC_FEATURES", "Requirements", "check_code", "missing_features",
    "requirements_in",
]  # fmt: skip

_PREFIX = "__tilesmith_requires_"

# LLVM's name of a feature → Linux' name of it in /proc/cpuinfo. Only features whose instructions
# LLVM chooses by itself are here: what is for operating systems (pku, xsave, shstk, …) or needs an
# intrinsic of its own never makes code unusable, and virtual machines often hide it.
CHOSEN_FEATURES: dict[str, dict[str, str]] = {
    "x86": {
        "sse3": "pni", "ssse3": "ssse3", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "sse4a": "sse4a",
        "popcnt": "popcnt", "cx16": "cx16", "sahf": "lahf_lm", "lzcnt": "abm", "movbe": "movbe",
        "bmi": "bmi1", "bmi2": "bmi2", "tbm": "tbm", "xop": "xop", "fma4": "fma4",
        "avx": "avx", "avx2": "avx2", "f16c": "f16c", "fma": "fma", "gfni": "gfni",
        "avxvnni": "avx_vnni", "avxifma": "avx_ifma", "avxneconvert": "avx_ne_convert",
        "avxvnniint8": "avx_vnni_int8", "avxvnniint16": "avx_vnni_int16",
        "avx512f": "avx512f", "avx512bw": "avx512bw", "avx512cd": "avx512cd",
        "avx512dq": "avx512dq", "avx512vl": "avx512vl", "avx512ifma": "avx512ifma",
        "avx512vbmi": "avx512vbmi", "avx512vbmi2": "avx512_vbmi2", "avx512vnni": "avx512_vnni",
        "avx512bitalg": "avx512_bitalg", "avx512vpopcntdq": "avx512_vpopcntdq",
        "avx512vp2intersect": "avx512_vp2intersect", "avx512bf16": "avx512_bf16",
        "avx512fp16": "avx512_fp16", "avx10.2": "avx10_2", "cmpccxadd": "cmpccxadd",
        "egpr": "apx", "ndd": "apx", "ccmp": "apx", "cf": "apx", "nf": "apx", "zu": "apx",
        "ppx": "apx", "push2pop2": "apx",
    },
    "aarch64": {
        "fp-armv8": "fp", "neon": "asimd", "fullfp16": "asimdhp", "lse": "atomics",
        "lse2": "uscat", "rdm": "asimdrdm", "dotprod": "asimddp", "complxnum": "fcma",
        "rcpc": "lrcpc", "rcpc-immo": "ilrcpc", "fp16fml": "asimdfhm", "flagm": "flagm",
        "i8mm": "i8mm", "bf16": "bf16", "sve": "sve", "sve2": "sve2", "sve2p1": "sve2p1",
        "sme": "sme", "sme2": "sme2", "cssc": "cssc", "mops": "mops",
    },
}  # fmt: skip

# The same for features that only an intrinsic of their own can need, by the intrinsics' names.
INTRINSIC_FEATURES = {
    "llvm.x86.aesni.": "aes", "llvm.x86.pclmulqdq": "pclmul", "llvm.x86.sha": "sha",
    "llvm.x86.rdrand": "rdrnd", "llvm.x86.rdseed": "rdseed", "llvm.aarch64.crypto.": "aes",
}  # fmt: skip
_BY_INTRINSIC = {
    "x86": {
        "aes": "aes", "pclmul": "pclmulqdq", "sha": "sha_ni", "rdrnd": "rdrand",
        "rdseed": "rdseed",
    },
    "aarch64": {"aes": "aes"},
}  # fmt: skip

# How object files begin on systems other than those with ELF files.
_OTHER_SYSTEMS = {
    b"\xcf\xfa\xed\xfe": "macOS",
    b"\0asm": "WebAssembly",
    b"\x64\x86": "Windows (x86_64)",
    b"\x64\xaa": "Windows (aarch64)",
}

# Levels of x86-64 that every newer CPU has, best first: what to compile for instead.
_LEVELS = {
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v3": "avx avx2 bmi bmi2 f16c fma lzcnt movbe",
    "x86-64-v2": "sse3 ssse3 sse4.1 sse4.2 popcnt cx16 sahf",
}


@dataclass(frozen=True)
class Requirements:
    """The features, by LLVM's names, that code for a target may use."""

    features: tuple[str, ...]
    target: str

    @property
    def data(self) -> bytes:
        """The contents of the symbol."""
        return json.dumps({"features": self.features, "target": self.target}).encode()

    @property
    def symbol(self) -> str:
        """The name of the symbol."""
        return _PREFIX + hashlib.blake2b(self.data, digest_size=8).hexdigest()

    def missing(self) -> list[str]:
        """Return the features that this machine's CPU lacks."""
        return missing_features(self.features)


def requirements_in(content: Contents) -> list[Requirements]:
    """Return the requirements recorded in an object file or a shared library; [] if there are
    none.
    """
    try:
        places = [
            (symbol.place, symbol.size)
            for symbol in visible_symbols(content)
            if symbol.name.startswith(_PREFIX)
        ]
        texts = [bytes(content[place : place + size]) for place, size in places]
        records = [json.loads(text) for text in texts]
        return [Requirements(tuple(one["features"]), str(one["target"])) for one in records]
    except (struct.error, IndexError, ValueError, KeyError, TypeError):
        return []  # a damaged file: what loads it says so


def check_code(content: Contents, what: str) -> None:
    """Raise IncompatibleCodeError if this machine cannot run an object file or a shared library,
    ArtifactError if it is not complete.

    `what` names it in the message.
    """
    if is_cut_off(content):
        raise ArtifactError(
            f"{what} is cut off: it has {len(content)} bytes, its headers speak of more",
            notes=("build or copy it again",),
        )
    machine, own = machine_of(content), machine_of_process()
    if machine is not None and own is not None and machine != own:
        raise IncompatibleCodeError(
            f"{what} is for {machine}, this machine is {own}", notes=(_advice(),)
        )
    system = _system_of(content)
    if own is not None and system is not None:
        raise IncompatibleCodeError(f"{what} is for {system}", notes=(_advice(),))
    for needed in requirements_in(content):
        check(needed, what)


def _system_of(content: Contents) -> str | None:
    """Return the system whose object files these are, if it is none that has ELF files."""
    begin = bytes(content[:4])
    return next((name for magic, name in _OTHER_SYSTEMS.items() if begin.startswith(magic)), None)


def check(needed: Requirements, what: str) -> None:
    """Raise IncompatibleCodeError, which names the features that this machine's CPU lacks."""
    missing = needed.missing()
    if missing:
        raise IncompatibleCodeError(
            f"{what} needs features that this CPU lacks: {', '.join(missing)}",
            notes=(f"it was compiled for '{needed.target}'", _advice()),
        )


def _advice() -> str:
    """Return for which targets to compile instead."""
    level = next((cpu for cpu, names in _LEVELS.items() if not missing_features(names.split())), "")
    here = "compile it on this machine (target 'llvm')"
    if _family(platform.machine()) != "x86" or not level:
        return here
    return f"{here}, or elsewhere for a level that it has (target 'llvm -mcpu={level}')"


@cache
def machine_of_process() -> str | None:
    """Return the architecture of this process according to its executable file; None if unknown."""
    try:
        with open("/proc/self/exe", "rb") as file:
            return machine_of(file.read(64))
    except OSError:
        return None


def missing_features(names: Iterable[str]) -> list[str]:
    """Return which of LLVM's features this CPU lacks, as far as code can depend on them.

    The system's list is looked at first, because it costs nothing; an old system does not list what
    its CPU has, so LLVM decides about the rest, where it is installed.
    """
    family = _family(platform.machine())
    table = {**CHOSEN_FEATURES.get(family, {}), **_BY_INTRINSIC.get(family, {})}
    wanted = [name for name in names if name in table]
    listed = system_features()
    lacking = [name for name in wanted if table[name] not in listed]
    if not lacking:
        return []
    states = llvm_features()
    if states is None:
        return lacking if listed else []
    return sorted([name for name in lacking if not states.get(name, not listed)])


@cache
def system_features() -> frozenset[str]:
    """Return the features of this CPU as Linux names them; empty where unknown."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


@cache
def llvm_features() -> dict[str, bool] | None:
    """Return the features of this CPU as LLVM finds them; None without LLVM, or if it cannot
    tell.
    """
    try:
        from llvmlite import binding

        return dict(binding.get_host_cpu_features()) or None
    except (ImportError, RuntimeError):
        return None


def _family(machine: str) -> str:
    name = machine.lower()
    if name in ("x86_64", "amd64", "i386", "i686"):
        return "x86"
    return "aarch64" if name in ("aarch64", "arm64") else name
