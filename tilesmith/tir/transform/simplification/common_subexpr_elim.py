"""CommonSubexprElimTIR: computes common subexpressions once and gives them names.

    B[i * 8 + j] = A[i * 8 + j]                 cse_var_1: T.int32 = i * 8 + j
                                                B[cse_var_1] = A[cse_var_1]

The name is bound around the innermost statement that holds all occurrences, so nothing is computed
where it was not before. Loads, calls, constants, variables and vectors are never named; neither
are integer divisions by what may be zero, which a condition may protect. Blocks are left alone:
what they read and write is declared in terms of the same indices.

With ``identify_equiv_terms`` integer terms count as the same when they simplify to the same.
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    BinaryOp,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Not,
    PrimExpr,
    Rewriter,
    Select,
    StringImm,
    Var,
)
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import PassContext
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AllocateConst, AttrStmt, Block, DeclBuffer, LetStmt, Stmt

__all__ = ["common_subexpr_elim", "common_subexpr_elim_as_configured"]

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
_LEAVES = (Var, IntImm, FloatImm, StringImm)
_MAY_BE_NAMED = (BinaryOp, Cast, Not, Select)


class _Term:
    """A subexpression: its number of occurrences, and the path from the root to the innermost
    statement that holds them all."""

    __slots__ = ("count", "expr", "path", "size")

    def __init__(self, expr: PrimExpr, size: int, path: tuple[int, ...]) -> None:
        self.expr = expr
        self.size = size
        self.path = path
        self.count = 0


class _TermTable:
    """Numbers expressions so that equal ones have equal numbers; -1 marks expressions that are
    never bound to a name.
    """

    def __init__(self, equivalent: bool) -> None:
        self.numbers: dict[Any, int] = {}
        self.by_identity: dict[int, tuple[PrimExpr, int, int]] = {}
        self.analyzer = Analyzer() if equivalent else None
        self.hidden: set[Var] = set()  # bound inside of an expression: no statement knows them

    def number(self, expr: PrimExpr) -> tuple[int, int]:
        """Return number and size of an expression."""
        found = self.by_identity.get(id(expr))
        if found is None:
            number, size = self.computed(expr)
            found = self.by_identity[id(expr)] = (expr, number, size)
        return found[1], found[2]

    def computed(self, expr: PrimExpr) -> tuple[int, int]:
        if isinstance(expr, Var):
            return (-1, 0) if expr in self.hidden else (self.of_key(expr), 1)
        if isinstance(expr, (IntImm, FloatImm)):
            return self.of_key((expr.__class__, expr.dtype, repr(expr.value))), 1
        if not isinstance(expr, _MAY_BE_NAMED) or expr.dtype.lanes > 1:
            return -1, 0
        if isinstance(expr, _DIVISIONS) and not expr.dtype.is_float:
            if not isinstance(expr.b, IntImm) or expr.b.value == 0:
                return -1, 0
        operands: list[Any] = expr.children()
        parts = [self.number(operand) for operand in operands]
        if any(number < 0 for number, _ in parts):
            return -1, 0
        size = 1 + sum([size for _, size in parts])
        if self.analyzer is not None and expr.dtype.is_int:
            # equal normal forms are equal values; their atoms are numbered by the analyzer
            form = self.analyzer.engine.normalizer.normal(expr)
            terms = frozenset(form.terms.items())
            return self.of_key((form.dtype, terms, form.const)), size
        return self.of_key((expr.__class__, expr.dtype, *[number for number, _ in parts])), size

    def of_key(self, key: Any) -> int:
        return self.numbers.setdefault(key, len(self.numbers))


class _Counter:
    """Counts the subexpressions of a program; ``path`` holds the enclosing statements, by
    identity."""

    def __init__(self, table: _TermTable) -> None:
        self.table = table
        self.path: list[int] = []
        self.terms: dict[int, _Term] = {}

    def visit(self, node: Any) -> None:
        if isinstance(node, PrimExpr):
            self.expression(node)
        elif isinstance(node, Stmt):
            if isinstance(node, Block):
                return  # its regions are written in terms of its own indices
            self.path.append(id(node))
            self.statement(node)
            self.path.pop()

    def statement(self, node: Stmt) -> None:
        if isinstance(node, AttrStmt):
            self.visit(node.body)  # attribute values are for passes to read: they stay
        elif isinstance(node, (AllocateConst, DeclBuffer)):
            self.visit(node.body)
        else:
            for child in node.children():
                self.visit(child)

    def expression(self, expr: PrimExpr) -> None:
        """Count a subexpression; its parts count only with its first occurrence."""
        if isinstance(expr, _LEAVES):
            return
        if isinstance(expr, Let):
            self.table.hidden.add(expr.var)
        number, size = self.table.number(expr)
        if number >= 0:
            term = self.terms.get(number)
            if term is None:
                term = self.terms[number] = _Term(expr, size, tuple(self.path))
                term.count = 1
            else:
                term.count += 1
                term.path = _common(term.path, self.path)
                # its parts have to be bound where it is computed
                self.lift(expr, term.path)
                return
        for child in expr.children():
            if isinstance(child, PrimExpr):
                self.expression(child)

    def lift(self, expr: PrimExpr, path: tuple[int, ...]) -> None:
        for child in expr.children():
            if isinstance(child, PrimExpr) and not isinstance(child, _LEAVES):
                number, _ = self.table.number(child)
                term = self.terms.get(number)
                if term is not None:
                    term.path = _common(term.path, path)
                self.lift(child, path)


def _common(a: tuple[int, ...], b: Any) -> tuple[int, ...]:
    length = 0
    for left, right in zip(a, b):
        if left != right:
            break
        length += 1
    return a[:length]


class _Namer(Rewriter):
    """Binds the chosen subexpressions at their statements and uses the names below."""

    def __init__(self, table: _TermTable, chosen: dict[int, _Term]) -> None:
        self.table = table
        self.at: dict[int, list[tuple[int, _Term]]] = {}
        for number, term in sorted(chosen.items(), key=lambda item: item[1].size):
            self.at.setdefault(term.path[-1], []).append((number, term))
        self.names: dict[int, Var] = {}
        self.count = 0

    def visit(self, node: Any) -> Any:
        if isinstance(node, Stmt):
            return self.statement(node)
        if isinstance(node, PrimExpr):
            return self.expression(node)
        return node

    def expression(self, expr: PrimExpr) -> PrimExpr:
        if isinstance(expr, _LEAVES) or not self.names:
            return expr
        number, _ = self.table.number(expr)
        name = self.names.get(number)
        if name is not None and name.dtype is expr.dtype:
            return name
        return expr.map_children(self.visit)

    def statement(self, stmt: Stmt) -> Stmt:
        bound: list[tuple[int, Var, PrimExpr]] = []
        for number, term in self.at.get(id(stmt), ()):
            value = term.expr.map_children(self.visit)
            self.count += 1
            var = Var(f"cse_var_{self.count}", term.expr.dtype)
            bound.append((number, var, value))
            self.names[number] = var
        new = self.inside(stmt)
        for number, var, value in reversed(bound):
            del self.names[number]
            new = LetStmt(var, value, new)
        return new

    def inside(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, (AttrStmt, AllocateConst, DeclBuffer)):
            body = self.visit(stmt.body)
            return stmt if body is stmt.body else stmt.with_fields(body=body)
        return stmt.map_children(self.visit)


def _chosen(terms: dict[int, _Term]) -> dict[int, _Term]:
    """Return the subexpressions to bind: those that occur at least twice, alone or in different
    larger ones.
    """
    return {
        number: term
        for number, term in terms.items()
        if term.count > 1 and term.path and isinstance(term.expr, _MAY_BE_NAMED)
    }


def common_subexpr_elim(func: PrimFunc, identify_equiv_terms: bool = False) -> PrimFunc:
    """Return ``func`` with common subexpressions computed once.

    ``identify_equiv_terms``: integer terms that simplify to the same term count as common.
    """
    table = _TermTable(identify_equiv_terms)
    counter = _Counter(table)
    counter.visit(func.body)
    chosen = _chosen(counter.terms)
    if not chosen:
        return func
    return func.with_body(_Namer(table, chosen).visit(func.body))


@compiler_pass("tir.CommonSubexprElimTIR", aliases=("tir.CommonSubexprElim",))
def common_subexpr_elim_as_configured(
    func: PrimFunc,
    context: PassContext,
    enable_cse_tir: bool = True,
    identify_equiv_terms: bool = False,
) -> PrimFunc:
    """Computes common subexpressions once.

    The options ``tir.disable_cse_tir`` and ``tir.enable_equiv_terms_in_cse_tir`` count as well.
    """
    if not enable_cse_tir or context.get_config("tir.disable_cse_tir", False):
        return func
    equivalent = context.get_config("tir.enable_equiv_terms_in_cse_tir", False)
    return common_subexpr_elim(func, identify_equiv_terms or bool(equivalent))
