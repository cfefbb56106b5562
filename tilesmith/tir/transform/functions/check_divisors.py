"""CheckDivisors: makes a division of integers by zero an error of the program.

    C[i] = A[i] // B[i]      C[i] = A[i] // T.checked(B[i], B[i] != 0, "DivisionByZeroError: ...")

On a CPU such a division would end the process. Divisors that are constants, or are proven not to be
zero, cost nothing: a size is not zero inside of loops that have no iterations if it is, such as
those over the buffer. Kernels have no way to report an error: their divisions stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilesmith.arith import ConstIntBound
from tilesmith.ir import (
    And,
    BinaryOp,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
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
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import AttrStmt, For, Stmt
from tilesmith.tir.transform.scoped import ScopedAnalyzer

__all__ = ["check_divisors"]

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
_MESSAGE = "DivisionByZeroError: integer division by zero"


def _factors(expr: PrimExpr) -> list[PrimExpr]:
    """Return the factors of a product without their conversions: none of them is zero if the
    product is not.
    """
    if isinstance(expr, Cast) and expr.dtype.is_integer:
        return _factors(expr.value)
    return [*_factors(expr.a), *_factors(expr.b)] if isinstance(expr, Mul) else [expr]


def _sufficient_factors(expr: PrimExpr) -> list[PrimExpr]:
    """Return factors without which a product is not zero: none of a product that may wrap around,
    as 16 * 16 does in 8 bits, or of a value that is cut off.
    """
    if isinstance(expr, Cast) and expr.dtype.is_integer and expr.value.dtype.is_integer:
        if expr.dtype.bits >= expr.value.dtype.bits:
            return _sufficient_factors(expr.value)
    if isinstance(expr, Mul) and expr.dtype.is_int and expr.dtype.bits >= 32:
        return [*_sufficient_factors(expr.a), *_sufficient_factors(expr.b)]
    return [expr]


class _DivisorChecker(ScopedAnalyzer, Rewriter):
    def __init__(self, sizes: Iterable[Var]) -> None:
        super().__init__()
        self.sizes = set(sizes)
        self.extents: list[PrimExpr] = []  # of the loops around
        self.count = 0  # checks that were made
        for size in self.sizes:
            self.analyzer.update(size, ConstIntBound(0, ConstIntBound.POS_INF))

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        """Leave what threads of a device execute as it is."""
        is_kernel = attribute.attr_key == "thread_extent"
        return attribute if is_kernel else super().visit_AttrStmt(attribute)

    def visit_For(self, loop: For) -> Stmt:
        """Visit the body knowing which sizes are not zero because the loop has iterations."""
        extent = loop.extent
        if isinstance(extent, IntImm):
            return super().visit_For(loop)
        self.extents.append(extent)
        known = const(True, "bool")
        for size in self.sizes.intersection(variables(extent)):
            if self.analyzer.can_prove(substitute(extent, {size: const(0, size.dtype)}) <= 0):
                known = ops.logical_and(known, size >= 1)
        with self.analyzer.constraint_scope(known):
            new = super().visit_For(loop)
        self.extents.pop()
        return new

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
        if self.analyzer.can_prove(ops.not_equal(divisor, 0)):
            return True
        factors = [factor for extent in self.extents for factor in _factors(extent)]
        return all(
            any(structural_equal(part, factor) for factor in factors)
            or self.analyzer.can_prove(ops.not_equal(part, 0))
            for part in _sufficient_factors(divisor)
        )

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
