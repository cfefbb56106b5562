"""Errors for what a graph function cannot be compiled with: what, of which operator, what to do."""

from __future__ import annotations

from typing import Any

from tilesmith import relax
from tilesmith.ir import Op, OperatorSpan, Span, operators_at
from tilesmith.relax import StructInfo
from tilesmith.relax.spec import Execution
from tilesmith.support.errors import UnsupportedError

__all__ = ["cast_text", "not_lowered", "unknown_shape", "unsupported"]

_INTERPRETER = "run the module with tilesmith.relax.interpreter.run, which can carry it out"
_CURES = {
    Execution.KERNEL: "operators become kernels in relax.transform.LegalizeOps; apply it before,"
    " or compile with a pipeline that holds it",
    Execution.HOST: _INTERPRETER,
}


def unsupported(function: str, what: str, call: Any, cure: str) -> UnsupportedError:
    """Return the error for a call (or None) in a function."""
    place = operators_at(getattr(call, "span", None))
    notes = (f"in {place}", cure) if place else (cure,)
    span = getattr(call, "span", None)
    return UnsupportedError(
        f"'{function}': {what}", span if isinstance(span, Span) else None, notes
    )


def cast_text(binding: relax.MatchCast, function: str) -> str:
    """Return what errors of the running program call a cast: what the user wrote, or the operator
    that compares sizes by it.
    """
    if isinstance(binding.span, OperatorSpan) and not binding.span.name:
        return f"{binding.span.operator}: an axis of an operand"
    place = operators_at(binding.span) or function
    return f"{place}: match_cast of {binding.var.name_hint}"


def not_lowered(function: str, call: relax.Call) -> UnsupportedError:
    """Return the error for a call that has no place in compiled code."""
    op = call.op
    name = op.name if isinstance(op, Op) else str(op)
    spec = op.spec if isinstance(op, Op) else None
    cure = _CURES.get(Execution.HOST if spec is None else spec.execution, _INTERPRETER)
    return unsupported(
        function, f"the call of {name} is not lowered to a kernel, so it cannot be compiled", call,
        cure,
    )  # fmt: skip


def unknown_shape(function: str, what: str, info: StructInfo, call: Any = None) -> UnsupportedError:
    """Return the error for a tensor whose shape is not known."""
    return unsupported(
        function,
        f"the shape of {what} is not known when it is compiled ({info})",
        call,
        "give it symbolic sizes with R.match_cast, or pass input_shapes",
    )
