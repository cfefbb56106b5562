"""RenormalizeSplitPattern: writes digits of indices as quotient first, remainder second.

    B[i % 64 // 8]                              B[i // 8 % 8]

After loops were fused and split again the remainders of remainders become the same terms this way,
which later passes recognise as equal.
"""

from __future__ import annotations

from tilesmith.ir import Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Rewriter
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.tir.function import PrimFunc

__all__ = ["renormalize_split_pattern"]


def _constant(expr: PrimExpr) -> int | None:
    return expr.value if isinstance(expr, IntImm) and expr.value > 0 else None


class _Renormalizer(Rewriter):
    def visit_FloorDiv(self, expr: FloorDiv) -> PrimExpr:
        expr = self.children(expr)
        divisor = _constant(expr.b)
        if divisor is None or not expr.dtype.is_int:
            return expr
        a = expr.a
        found = None
        if isinstance(a, FloorMod):
            found = self.digit(a, divisor)
        elif isinstance(a, Add):
            found = self.sum(a.a, a.b, divisor)
            if found is None:
                found = self.sum(a.b, a.a, divisor)
        return expr if found is None else found

    def digit(self, remainder: FloorMod, divisor: int) -> PrimExpr | None:
        """Rewrite ``x % (d * n) // d`` to ``x // d % n``."""
        modulus = _constant(remainder.b)
        if modulus is None or modulus % divisor:
            return None
        return self.visit(ops.floordiv(remainder.a, divisor)) % (modulus // divisor)

    def sum(self, whole: PrimExpr, rest: PrimExpr, divisor: int) -> PrimExpr | None:
        """Rewrite ``(y * (d * k) + x % (d * n)) // d`` to ``y * k + x // d % n``."""
        if not isinstance(whole, Mul) or not isinstance(rest, FloorMod):
            return None
        factor, digit = _constant(whole.b), self.digit(rest, divisor)
        if factor is None or factor % divisor or digit is None:
            return None
        return whole.a * (factor // divisor) + digit


@compiler_pass("tir.RenormalizeSplitPattern")
def renormalize_split_pattern(func: PrimFunc) -> PrimFunc:
    """Writes digits of indices as quotient first, remainder second.

    Returns ``func`` with quotients before remainders in its indices.
    """
    return func.with_body(_Renormalizer().visit(func.body))
