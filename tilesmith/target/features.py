"""Finds the instruction set extensions of a target, and the options that LLVM needs for it.

The features of this machine come from LLVM; those of a CPU named by `-mcpu` from a table
(`cpu_features.json`, written by `tools/cpu_features.py`), because LLVM answers for the host only.
The names that `-mattr` may have are in `feature_names.json`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tilesmith.support.errors import TargetError
from tilesmith.target.host import host_architecture, host_cpu

if TYPE_CHECKING:
    from tilesmith.target.target import Target

_TABLE = Path(__file__).with_name("cpu_features.json")
_NAMES = Path(__file__).with_name("feature_names.json")

# Other names that LLVM's tools accept for a CPU.
ALIASES = {
    "core-avx-i": "ivybridge",
    "core-avx2": "haswell",
    "corei7": "nehalem",
    "corei7-avx": "sandybridge",
    "skx": "skylake-avx512",
    "slm": "silvermont",
    "apple-a14": "apple-m1",
    "apple-latest": "apple-m1",
    "cyclone": "apple-a7",
    # the first CPUs of 64 bits, as far as they have the same instructions
    "nocona": "x86-64",
    "k8": "x86-64",
    "opteron": "x86-64",
    "athlon64": "x86-64",
    "generic-rv64gc": "sifive-u54",
    "rv64gc": "sifive-u54",
}

_FAMILIES = ("arm", "aarch64", "riscv", "x86")

# The minimum that a platform guarantees when no CPU is named.
GENERIC_CPU = {"x86": "x86-64", "aarch64": "generic", "arm": "generic", "riscv": "generic-rv64"}


def architecture_of_triple(triple: str) -> str:
    """Return the family of instruction sets at the start of a triple (`x86_64-linux-gnu` →
    `x86`).
    """
    first = triple.partition("-")[0].lower()
    if first in ("x86_64", "amd64", "i386", "i486", "i586", "i686", "x86"):
        return "x86"
    if first.startswith(("aarch64", "arm64")):
        return "aarch64"
    if first.startswith(("arm", "thumb")):
        return "arm"
    if first.startswith("riscv"):
        return "riscv"
    return first


_SYSTEMS = (
    "darwin", "emscripten", "freebsd", "fuchsia", "ios", "linux", "macos", "netbsd", "none",
    "openbsd", "wasi", "windows",
)  # fmt: skip


def full_triple(triple: str) -> str:
    """Return a triple with its vendor: `armv7a-linux-gnueabihf` → `armv7a-unknown-linux-gnueabihf`.

    LLVM's code generators count the words: without a vendor they would see no system, and pass
    floats in other registers than the platform's libraries do.
    """
    first, *rest = triple.split("-")
    if rest and rest[0].lower().startswith(_SYSTEMS):
        rest.insert(0, "unknown")
    return "-".join([first, *rest])


@cache
def _table() -> dict[str, dict[str, str]]:
    return json.loads(_TABLE.read_text(encoding="utf-8"))


def known_cpus(architecture: str) -> list[str]:
    """Return the names that `cpu_features` knows for one architecture."""
    return sorted(_table().get(architecture, {}))


@cache
def cpu_features(name: str, architecture: str) -> frozenset[str]:
    """Return the features of the CPU that LLVM calls `name`; TargetError with the nearest name if
    unknown.
    """
    records = _table().get(architecture)
    if records is None:
        return frozenset()  # an architecture without table: LLVM's name alone decides
    text = records.get(name)
    if text is None:
        text = records.get(ALIASES.get(name, name))
    if text is None:
        import difflib

        near = difflib.get_close_matches(name, records, n=1, cutoff=0.4)
        advice = f"did you mean '-mcpu={near[0]}'?" if near else f"{len(records)} CPUs are known"
        raise TargetError(f"unknown CPU '{name}' for {architecture}", notes=(advice,))
    return frozenset(text.split())


@cache
def known_features(architecture: str) -> frozenset[str]:
    """Return the names of all features that LLVM knows; empty if it was not asked for an
    architecture.
    """
    names: dict[str, str] = json.loads(_NAMES.read_text(encoding="utf-8"))
    return frozenset(names.get(architecture, "").split())


@cache
def check_features(changes: tuple[str, ...], architecture: str) -> None:
    """Raise TargetError, with the nearest name, for a feature of `-mattr` that LLVM does not
    know.
    """
    known = known_features(architecture)
    for change in changes:
        name = change.lstrip("+-")
        if known and name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean '{near[0]}'?" if near else f"{len(known)} features are known"
            raise TargetError(f"unknown feature '{name}' for {architecture}", notes=(advice,))


def is_host(target: Target) -> bool:
    """True if `target` names no CPU, so that this machine's is used."""
    return target.kind.means_host and target.mcpu in _OWN_CPU and not target.mtriple


_OWN_CPU = ("", "native", "host")


def architecture(target: Target) -> str:
    """Return `x86`, `aarch64`, `arm`, `riscv`, or the first word of the triple."""
    return architecture_of_triple(_triple(target) or host_architecture())


def _triple(target: Target) -> str:
    """Return the platform of a target; "" for this one. C targets have no option for it, but their
    CPU may say it.
    """
    if target.mtriple or not target.mcpu or "mtriple" in target.kind.options:
        return target.mtriple
    family = architecture_of_triple(host_architecture())
    if target.mcpu in _OWN_CPU or target.mcpu in known_cpus(family):
        return ""
    others = (name for name in _FAMILIES if target.mcpu in known_cpus(name))
    return next(others, "unknown")  # the C compiler may know it


def target_features(target: Target) -> frozenset[str]:
    """Return the extensions that code for `target` may use: those of its CPU, changed by
    `-mattr`.
    """
    cpu = target.mcpu
    is_own = cpu in _OWN_CPU and (target.kind.means_host or bool(cpu))
    return _features(_triple(target), cpu, target.mattr, is_own)


@cache
def _features(triple: str, cpu: str, changes: tuple[str, ...], is_own: bool) -> frozenset[str]:
    family = architecture_of_triple(triple or host_architecture())
    check_features(changes, family)
    if is_own and not triple:
        host = host_cpu()
        features = set(host.features or cpu_features(host.name, family))
    else:
        features = set(cpu_features(cpu or GENERIC_CPU.get(family, ""), family))
    for change in changes:
        name = change.lstrip("+-")
        if change.startswith("-"):
            features.discard(name)
        else:
            features |= _with_implied(name, family)
    return frozenset(features)


# What LLVM switches on together with a feature of `-mattr`, as far as decisions here depend on it.
_IMPLIED = {
    "avx": ("sse4.2",),
    "sse4.2": ("sse4.1",),
    "sse4.1": ("ssse3",),
    "avx2": ("avx",),
    "fma": ("avx",),
    "f16c": ("avx",),
    "avx512f": ("avx2", "fma", "f16c"),
    "avx512bw": ("avx512f",),
    "avx512cd": ("avx512f",),
    "avx512dq": ("avx512f",),
    "avx512vl": ("avx512f",),
    "avx512vnni": ("avx512f",),
    "avx512bf16": ("avx512bw",),
    "avx512fp16": ("avx512bw", "avx512vl"),
    "amx-bf16": ("amx-tile",),
    "amx-int8": ("amx-tile",),
    "sve": ("fullfp16",),
    "sve2": ("sve",),
    "dotprod": ("neon",),
}


def _with_implied(name: str, family: str) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        feature = waiting.pop()
        if feature not in found:
            found.add(feature)
            waiting += _IMPLIED.get(feature, ())
    if family == "arm" and name == "neon":
        found |= {"vfp3", "d32"}
    return found


def _with_float_abi(triple: str, float_abi: str) -> str:
    """Return Arm's triple for passing floats in their own registers ("hard") or not ("soft",
    "softfp").
    """
    if float_abi not in ("hard", "soft", "softfp"):
        raise TargetError(f"unknown '-mfloat-abi={float_abi}'", notes=("hard, soft or softfp",))
    head, _, environment = triple.rpartition("-")
    plain = environment.removesuffix("hf")
    if not plain.endswith("eabi"):
        raise TargetError(
            f"'-mfloat-abi' has no meaning for '{triple}'",
            notes=("name a triple that ends in eabi",),
        )
    return f"{head}-{plain}{'hf' if float_abi == 'hard' else ''}"


@dataclass(frozen=True)
class LLVMMachine:
    """The arguments from which LLVM's target machine is made."""

    triple: str
    cpu: str
    features: str
    float_abi: str = ""
    abi: str = ""


def llvm_machine(target: Target) -> LLVMMachine:
    """Return the arguments of LLVM's target machine for `target`.

    For this machine each feature is switched on or off, because LLVM's name for the CPU may be
    wrong; for a named CPU only what `-mattr` changes. With AVX-512, full vectors are requested
    (`-prefer-256-bit`), unless the target says otherwise.
    """
    changes = [change if change[0] in "+-" else "+" + change for change in target.mattr]
    family = architecture(target)
    check_features(target.mattr, family)  # LLVM would warn, once for each piece of code
    if is_host(target):
        host = host_cpu()
        triple, cpu = host.triple, host.name
        changes = [*host.changes, *changes]
    else:
        triple = full_triple(target.mtriple) or host_cpu().triple
        cpu = target.mcpu or (GENERIC_CPU.get(family, "") if not target.mtriple else "")
        if cpu:
            cpu_features(cpu, family)  # an unknown name is an error here, not a warning of LLVM
            cpu = ALIASES.get(cpu, cpu) if cpu not in known_cpus(family) else cpu
    float_abi = str(target.attrs.get("mfloat-abi", ""))
    if family == "arm" and float_abi:
        triple = _with_float_abi(triple, float_abi)
        changes += ["+soft-float"] if float_abi == "soft" else []
    has_preference = any("prefer-256-bit" in change for change in target.mattr)
    if family == "x86" and "avx512f" in target_features(target) and not has_preference:
        changes.append("-prefer-256-bit")
    return LLVMMachine(
        triple,
        cpu,
        ",".join(changes),
        float_abi,
        str(target.attrs.get("mabi", "")),
    )


class TargetFeatures:
    """What a target's CPU can do: `is_aarch64`, `has_asimd`, `has_dotprod`, `has_matmul_i8`,
    `has_fp16_simd`, `has_sve`, `has_sme`, `has_dsp`, `has_mve`; and `has_avx2`, … for any feature
    by LLVM's name, with `_` for the characters that Python does not allow. Unknown features are
    None.
    """

    _NAMES = {
        "has_asimd": "neon",
        "has_matmul_i8": "i8mm",
        "has_fp16_simd": "fullfp16",
        "has_fp16": "fp16",
    }

    def __init__(self, target: Target) -> None:
        self._target = target

    def __getattr__(self, name: str) -> bool | None:
        if name.startswith("is_"):
            return architecture(self._target) == name[3:]
        if name.startswith("_"):
            raise AttributeError(name)
        if not name.startswith("has_"):
            return None
        wanted = self._NAMES.get(name, name[4:])
        known = target_features(self._target)
        if wanted == "mve" and self._target.mcpu in _WITH_MVE:
            return "-mve" not in self._target.mattr  # optional, so LLVM does not list it
        return any(feature == wanted or _identifier(feature) == wanted for feature in known)


_WITH_MVE = ("cortex-m52", "cortex-m55", "cortex-m85")


def _identifier(feature: str) -> str:
    return feature.replace(".", "_").replace("-", "_")
