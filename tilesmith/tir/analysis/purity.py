"""Finds the side effects of functions and expressions."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, CallEffectKind, GlobalVar, Var, structural_equal
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.queries import called_name, calls, walk
from tilesmith.support.errors import VerifyError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import loads
from tilesmith.tir.stmt import Allocate, Block, BufferStore

__all__ = ["assert_pure_function", "expr_deep_equal", "is_pure_function", "side_effect"]


def _impurity(func: PrimFunc) -> str:
    """Return the first side effect that is visible outside; "" if there is none."""
    own: set[Var] = set()
    for node in walk(func.body):
        if isinstance(node, Allocate):
            own.add(node.buffer_var)
        elif isinstance(node, Block):
            own.update([buffer.data for buffer in node.alloc_buffers])
            matches = [m for m in node.match_buffers if m.source.buffer.data in own]
            own.update([match.buffer.data for match in matches])
        elif isinstance(node, BufferStore):
            if node.buffer.data not in own:
                return f"it writes to the buffer '{node.buffer.name}'"
        elif isinstance(node, Call) and effect_of(node) is CallEffectKind.UpdateState:
            name = node.op.name_hint if isinstance(node.op, GlobalVar) else called_name(node)
            return f"it calls {name}"
    return ""


def is_pure_function(func: PrimFunc) -> bool:
    """Return whether a function writes to no memory but its own and has no other side effect."""
    return not _impurity(func)


def assert_pure_function(func: PrimFunc) -> bool:
    """Return True for a pure function, else raise VerifyError with the effect that was found."""
    reason = _impurity(func)
    if reason:
        name = func.attrs.get("global_symbol", "")
        raise VerifyError(f"the function '{name}' is not pure: {reason}", span=func.span)
    return True


def side_effect(expr: Any) -> CallEffectKind:
    """Return the strongest side effect inside an expression; reading memory is ``ReadState``."""
    effects = [CallEffectKind.Pure, *[effect_of(call) for call in calls(expr)]]
    effects += [CallEffectKind.ReadState for _ in loads(expr)]
    return max(effects)


def expr_deep_equal(lhs: Any, rhs: Any) -> bool:
    """Return whether two expressions are the same term over the same variables."""
    return structural_equal(lhs, rhs)
