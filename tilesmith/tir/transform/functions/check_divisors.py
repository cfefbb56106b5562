"""CheckDivisors: makes a division of integers by zero an error of the program.

    C[i] = A[i] // B[i]      C[i] = A[i] // T.checked(B[i], B[i] != 0, "DivisionByZeroError: ...")

On a CPU such a division would end the process. Divisors that are constants, or are proven not to be
zero, cost nothing. Sizes of buffers are taken for such: where one is zero, the loops over the
buffer do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilesmith.ir import (
    And,
    BinaryOp,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Or,
    PrimExpr,
    Rewriter,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import checked
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import variables
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import reads_memory
from tilesmith.tir.transform.scoped import ScopedAnalyzer

__all__ = ["check_divisors"]

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
_MESSAGE = "DivisionByZeroError: integer division by zero"


class _DivisorChecker(ScopedAnalyzer, Rewriter):
    def __init__(self, sizes: Iterable[Var]) -> None:
        super().__init__()
        self.sizes = set(sizes)
        self.count = 0  # checks that were made

    def visit_BinaryOp(self, expr: BinaryOp) -> PrimExpr:
        expr = self.children(expr)
        if not isinstance(expr, _DIVISIONS) or expr.dtype.is_float or self.is_safe(expr.b):
            return expr
        self.count += 1
        divisor = expr.b
        zero = const(0, divisor.dtype)
        return type(expr)(expr.a, checked(divisor, ops.not_equal(divisor, zero), _MESSAGE))

    def is_safe(self, divisor: PrimExpr) -> bool:
        """Return whether a divisor is known not to be zero."""
        if isinstance(divisor, IntImm):
            return divisor.value != 0
        if divisor.dtype.lanes > 1:
            return False
        if self.sizes.issuperset(variables(divisor)) and not reads_memory(divisor):
            return True
        return bool(self.analyzer.can_prove(ops.not_equal(divisor, 0)))

    def visit_And(self, expr: And) -> PrimExpr:
        return self.visit_lazily(expr, const(False, "bool"))

    def visit_Or(self, expr: Or) -> PrimExpr:
        return self.visit_lazily(expr, const(True, "bool"))

    def visit_lazily(self, expr: And | Or, decided: PrimExpr) -> PrimExpr:
        """Keep the second condition from being computed where the first one decides, as it does in
        the interpreter, if it divides.
        """
        a, before = self.visit(expr.a), self.count
        b = self.visit(expr.b)
        if self.count > before and expr.dtype.lanes == 1:
            arms = (b, decided) if isinstance(expr, And) else (decided, b)
            return Call("bool", "tir.if_then_else", (a, *arms))
        return expr if a is expr.a and b is expr.b else type(expr)(a, b)


@compiler_pass("tir.CheckDivisors")
def check_divisors(func: PrimFunc) -> PrimFunc:
    """Makes a division of integers by zero an error of the program.

    Returns ``func`` with checks of the divisors that may be zero.
    """
    sizes = [size for buffer in func.buffers for size in variables(buffer.shape)]
    return func.with_body(_DivisorChecker(sizes).visit(func.body))
