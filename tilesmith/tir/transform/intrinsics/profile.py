"""Rules for CPUs: lower the marks of profiled regions to calls of the runtime, which takes the
time."""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.ir import Call, PrimExpr, StringImm

__all__ = ["PROFILE_RULES"]


def _start(call: Call) -> Call:
    name = StringImm("tilesmith.runtime.start_profile")
    return Call("int32", "tir.tvm_call_packed", (name, *call.args))


def _end(call: Call) -> Call:
    name = StringImm("tilesmith.runtime.end_profile")
    return Call("int32", "tir.tvm_call_packed", (name, *call.args))


PROFILE_RULES: dict[str, Callable[[Call], PrimExpr | None]] = {
    "tir.start_profile_intrinsic": _start,
    "tir.end_profile_intrinsic": _end,
}
"""Rules by operator name."""
