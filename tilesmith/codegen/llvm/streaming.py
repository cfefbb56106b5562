"""Says which functions run in the streaming mode of Arm CPUs, and which have a ZA of their own.

SME has instructions that exist only in streaming mode, and its scalable vectors have a length of
their own there. A function that enters the mode does so at its beginning and leaves it at its end
and around calls (LLVM's `aarch64_pstate_sm_body`), so its callers need not know.

All functions of a module that use scalable vectors agree on their length: if one of them uses SME,
or the CPU has scalable vectors in streaming mode only, all of them run in streaming mode.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilesmith.ir import IntImm, StringImm
from tilesmith.ir.queries import calls
from tilesmith.tir.function import PrimFunc

__all__ = ["SME_INTRINSICS", "function_attributes", "uses_streaming_mode"]

SME_INTRINSICS = "llvm.aarch64.sme."
_ANYWHERE = "llvm.aarch64.sme.cnts"  # the lengths of vectors: the same in both modes


def uses_streaming_mode(functions: Iterable[PrimFunc]) -> bool:
    """Return whether one of the functions calls an intrinsic of SME."""
    for function in functions:
        for operator in ("tir.call_llvm_intrin", "tir.call_llvm_pure_intrin"):
            if any(_needs_it(intrinsic_name(call.args[0])) for call in calls(function, operator)):
                return True
    return False


def intrinsic_name(name: object) -> str:
    """Return the name of an LLVM intrinsic that a call gives as a text or as a number."""
    if isinstance(name, IntImm):
        from tilesmith.target.codegen import llvm_get_intrinsic_name

        return llvm_get_intrinsic_name(name.value) or ""
    return name.value if isinstance(name, StringImm) else ""


def _needs_it(text: str) -> bool:
    return SME_INTRINSICS in text and _ANYWHERE not in text


def function_attributes(lines: Iterable[str]) -> str:
    """Return LLVM's attributes for a function of these lines in a module that uses streaming mode,
    with a blank before each.
    """
    streams = has_tiles = False
    for line in lines:
        has_tiles = has_tiles or _needs_it(line)
        streams = streams or has_tiles or "vscale" in line
    words = {"aarch64_pstate_sm_body": streams, "aarch64_new_za": has_tiles}
    return "".join([f' "{word}"' for word, holds in words.items() if holds])
