"""Which functions and expressions have effects."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, CallEffectKind, GlobalVar, Var, Visitor, structural_equal
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.queries import called_name, calls
from tilesmith.support.errors import VerifyError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import loads
from tilesmith.tir.stmt import Allocate, Block, BufferStore

__all__ = ["assert_pure_function", "expr_deep_equal", "is_pure_function", "side_effect"]


class _Impurity(Visitor):
    """Finds the first effect that can be seen from outside."""

    def __init__(self) -> None:
        self.own: set[Var] = set()
        self.found: str = ""

    def visit_Allocate(self, node: Allocate) -> None:
        self.own.add(node.buffer_var)
        node.for_each_child(self.visit)

    def visit_Block(self, node: Block) -> None:
        self.own.update([buffer.data for buffer in node.alloc_buffers])
        self.own.update(
            [m.buffer.data for m in node.match_buffers if m.source.buffer.data in self.own]
        )
        node.for_each_child(self.visit)

    def visit_BufferStore(self, node: BufferStore) -> None:
        if node.buffer.data not in self.own:
            self.found = self.found or f"it writes to the buffer '{node.buffer.name}'"
        node.for_each_child(self.visit)

    def visit_Call(self, node: Call) -> None:
        if effect_of(node) is CallEffectKind.UpdateState:
            name = node.op.name_hint if isinstance(node.op, GlobalVar) else called_name(node)
            self.found = self.found or f"it calls {name}"
        node.for_each_child(self.visit)


def _impurity(func: PrimFunc) -> str:
    finder = _Impurity()
    with deep_recursion():
        finder.visit(func.body)
    return finder.found


def is_pure_function(func: PrimFunc) -> bool:
    """Whether a function only returns a value: it writes to nothing but its own memory."""
    return not _impurity(func)


def assert_pure_function(func: PrimFunc) -> bool:
    """True for a pure function, else VerifyError with the effect that was found."""
    reason = _impurity(func)
    if reason:
        name = func.attrs.get("global_symbol", "")
        raise VerifyError(f"the function '{name}' is not pure: {reason}", span=func.span)
    return True


def side_effect(expr: Any) -> CallEffectKind:
    """The strongest effect inside an expression; reading memory is ``ReadState``."""
    effects = [CallEffectKind.Pure, *[effect_of(call) for call in calls(expr)]]
    effects += [CallEffectKind.ReadState for _ in loads(expr)]
    return max(effects)


def expr_deep_equal(lhs: Any, rhs: Any) -> bool:
    """Whether two expressions are the same term over the same variables."""
    return structural_equal(lhs, rhs)
