"""Describes the processor and the system for which code is generated."""

from __future__ import annotations

from tilesmith.runtime.dtype import DataType
from tilesmith.target import Target
from tilesmith.target.features import (
    LLVMMachine,
    architecture,
    llvm_machine,
    target_features,
)
from tilesmith.target.requirements import requirements_of

__all__ = ["Machine"]

_FAST_MATH = {
    "fast-math": "fast",
    "fast-math-nnan": "nnan",
    "fast-math-ninf": "ninf",
    "fast-math-nsz": "nsz",
    "fast-math-arcp": "arcp",
    "fast-math-contract": "contract",
    "fast-math-reassoc": "reassoc",
}
_SMALL_POINTERS = ("arm", "thumb", "i386", "i486", "i586", "i686", "riscv32", "wasm32", "mips")


class Machine:
    """The properties of a target that decide between forms of code.

    ``size_type`` is the integer of the width of a pointer, ``float_flags`` LLVM's fast-math flags
    with a blank before each. ``converts_float16`` and ``converts_bfloat16`` say that instructions
    convert these types to and from float32, ``has_float16`` that they compute with float16.
    ``uses_streaming_mode``: scalable vectors are those of Arm's streaming mode (see `streaming`).
    ``requirements`` is what the code needs of the CPU that runs it, ``attributes`` the LLVM
    attributes of functions that say for which one they are compiled.
    """

    def __init__(self, target: Target) -> None:
        processor = llvm_machine(target)
        self.triple = processor.triple
        self.attributes = _function_attributes(processor)
        self.architecture = architecture(target)
        self.features = features = target_features(target)
        self.requirements = requirements_of(target)
        self.uses_streaming_mode = "sme" in features and "sve" not in features
        first = self.triple.partition("-")[0]
        self.size_type = "i32" if first.startswith(_SMALL_POINTERS) else "i64"
        self.is_windows = "windows" in self.triple or "mingw" in self.triple
        self.float_flags = _float_flags(target)
        self.converts_float16 = self.architecture == "aarch64" or bool(
            features & {"f16c", "avx512f", "fp16", "zfhmin", "zfh"}
        )
        flushes = "fast" in self.float_flags or bool(target.attrs.get("flush-subnormals"))
        exact, quick = "bf16" in features, "avx512bf16" in features and flushes
        self.converts_bfloat16 = (exact and self.architecture == "aarch64") or quick
        self.has_float16 = bool(features & {"avx512fp16", "fullfp16", "zfh"})

    @property
    def has_scalable_vectors(self) -> bool:
        """True if there are vectors whose length is not known at compile time."""
        return bool(self.features & {"sve", "sme", "v", "zve32x", "zve64x"})

    @property
    def vector_lengths(self) -> str:
        """An attribute of functions: the possible lengths of Arm vectors, in units of 128 bits."""
        return " vscale_range(1,16)" if self.features & {"sve", "sme"} else ""

    def computes_directly(self, dtype: DataType) -> bool:
        """True if the CPU computes with values of a float dtype; else float32 is used."""
        return dtype.code == "float" and (dtype.bits >= 32 or self.has_float16)


def _float_flags(target: Target) -> str:
    attributes = target.attrs
    flags = [word for name, word in _FAST_MATH.items() if attributes.get(name)]
    if "fast" in flags:
        return " fast"
    if "contract" not in flags and attributes.get("fast-math-contract") is not False:
        flags.append("contract")
    return "".join([" " + word for word in flags])


def _function_attributes(processor: LLVMMachine) -> str:
    words = {"target-cpu": processor.cpu, "target-features": processor.features}
    return " ".join([f'"{name}"="{value}"' for name, value in words.items() if value])
