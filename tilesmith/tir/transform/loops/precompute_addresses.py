"""PrecomputeAddresses: computes what is the same in all steps of a loop once, in front of it.

    for k in T.serial(9, annotations={          for p in range(4):
            "precompute_addresses": 1}):            place[p] = p * 8 // 14 * 16 + p * 8 % 14 - 17
        for p in range(4):                          outside[p] = T.Select(1 <= p * 8 // 14, 0, 1)
            … T.if_then_else(                           + T.Select(1 <= p * 8 // 14 + 1, 0, 2)
                1 <= p * 8 // 14 + k // 3,              + …
                A[p * 8 // 14 * 16 + p * 8 % 14     for k in range(9):
                  + k // 3 * 16 + k % 3 - 17],          for p in range(4):
                0)                                          … T.if_then_else(
                                                    outside[p] & 1 << k // 3 == 0,
                                                    A[k // 3 * 16 + k % 3 + place[p]], 0)

An address is a sum; its terms without the loop's variable become a table with one entry for each
iteration of the loops within. A condition that says whether the address is valid usually depends on
the loop's variable through few values (a position of a filter): the answers for all of them become
the bits of a word. So a step of the loop costs an addition and a test of a bit per access, where
the source asks for divisions and comparisons.

Loops with the annotation ``precompute_addresses`` are looked at, and in them the loads whose
address divides, or which a condition guards. What does not fit (a condition with too many answers,
an address that depends on memory) stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    EQ,
    Add,
    Call,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Ramp,
    Range,
    Rewriter,
    Select,
    Sub,
    Var,
    const,
)
from tilesmith.ir.intrinsics import if_then_else
from tilesmith.ir.operators import all_of
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, conjuncts, is_call, mentions, variables
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import is_speculable, statements
from tilesmith.tir.stmt import (
    Allocate,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    LetStmt,
    Stmt,
    stmt_seq,
)
from tilesmith.tir.transform.scoped import ScopedAnalyzer
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["PRECOMPUTE_ADDRESSES", "precompute_addresses"]

PRECOMPUTE_ADDRESSES = "precompute_addresses"
"""The annotation of the loop whose addresses are prepared."""
_BITS = 31
_MOST_ENTRIES = 64
"""The largest table: its entries take registers."""
_WIDEST = 16
"""The largest power of two that stays outside of a table, so that alignment remains visible."""


@dataclass(eq=False)
class _Table:
    """Values of an expression for all iterations of loops."""

    value: PrimExpr
    loops: tuple[For, ...]
    buffer: Buffer

    def at(self) -> BufferLoad:
        """Return the entry of the present iteration."""
        return BufferLoad(self.buffer, [self.place({})])

    def place(self, renamed: dict[Var, Var]) -> PrimExpr:
        """Return the index of an entry."""
        found: PrimExpr = const(0, "int32")
        for loop in self.loops:
            number = renamed.get(loop.loop_var, loop.loop_var)
            found = found * loop.extent + number if len(self.loops) > 1 else number
        return found

    def filling(self) -> Stmt:
        """Return the loops that compute the table."""
        renamed = {
            loop.loop_var: Var(loop.loop_var.name, loop.loop_var.dtype) for loop in self.loops
        }
        value = substitute(self.value, renamed)
        stmt: Stmt = BufferStore(self.buffer, value, [self.place(renamed)])
        for loop in reversed(self.loops):
            stmt = For(renamed[loop.loop_var], loop.min, loop.extent, ForKind.SERIAL, stmt)
        return stmt


@dataclass(eq=False)
class _Choices:
    """Conditions that depend on the loop's variable through one expression with few values."""

    selector: PrimExpr
    low: int
    count: int
    conditions: list[PrimExpr] = field(default_factory=list)


class _Steps(Rewriter):
    """Rewrites the loads in the body of one loop, and collects the tables that they use."""

    def __init__(self, loop: For, analyzer: Analyzer) -> None:
        self.step = loop.loop_var
        self.analyzer = analyzer
        self.inner: list[For] = []
        self.own: set[Var] = set()
        """Variables of the body that are no variables of plain loops."""
        self.tables: list[_Table] = []

    def visit_For(self, loop: For) -> Stmt:
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        is_plain = isinstance(loop.extent, IntImm) and isinstance(loop.min, IntImm) and (
            loop.min.value == 0 and loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        )  # fmt: skip
        if not is_plain:
            self.own.add(loop.loop_var)
            return self.children(loop)
        self.inner.append(loop)
        new = self.children(loop)
        self.inner.pop()
        return new

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        self.own.add(let.var)
        return self.children(let)

    def visit_Call(self, call: Call) -> PrimExpr:
        if not is_call(call, "tir.if_then_else"):
            return self.children(call)
        condition, load, other = _whole(call)
        if isinstance(load, BufferLoad) and condition.dtype.lanes == 1:
            test = self.prepared_test(conjuncts(condition, through_likely=True))
            prepared = self.prepared_load(load)
            if test is not None or prepared is not None:
                return if_then_else(
                    condition if test is None else test,
                    load if prepared is None else prepared, self.visit(other),
                )  # fmt: skip
        return self.children(call)

    def visit_BufferLoad(self, load: BufferLoad) -> BufferLoad:
        prepared = self.prepared_load(load) if self.divides(load) else None
        return self.children(load) if prepared is None else prepared

    def divides(self, load: BufferLoad) -> bool:
        """Return whether the address of a load needs divisions that are no shifts."""
        return any_node(load.indices, lambda one: isinstance(one, FloorDiv | FloorMod) and (
            not isinstance(one.b, IntImm) or one.b.value & (one.b.value - 1) != 0
        ))  # fmt: skip

    # Addresses.

    def prepared_load(self, load: BufferLoad) -> BufferLoad | None:
        """Return a load whose address is an entry of a table and what depends on the step."""
        if len(load.indices) != 1 or load.predicate is not None or load.buffer.scope() != "global":
            return None
        index = load.indices[0]
        ramp = index if isinstance(index, Ramp) else None
        base = index if ramp is None else ramp.base
        if base.dtype.lanes != 1 or not self.is_known(base):
            return None
        fixed: PrimExpr = const(0, base.dtype)
        moving: PrimExpr = const(0, base.dtype)
        for term, factor in _terms(base):
            if mentions([term], {self.step}):
                moving = moving + term * factor
            else:
                fixed = fixed + term * factor
        if not variables(fixed) or self.entries(fixed) > _MOST_ENTRIES:
            return None
        unit = self.unit_of(fixed)
        entry = self.table(self.analyzer.simplify(fixed // unit), "place")
        # What all threads share comes first: it is added to the pointer once.
        place = self.analyzer.simplify(moving) + (entry * unit if unit > 1 else entry)
        return load.with_fields(
            indices=[place if ramp is None else Ramp(place, ramp.stride, ramp.lanes)]
        )

    def unit_of(self, expr: PrimExpr) -> int:
        """Return a power of two that divides an expression."""
        known = self.analyzer.modular_set(expr)
        unit = _WIDEST
        while unit > 1 and (known.coeff % unit or known.base % unit):
            unit //= 2
        return unit

    def is_known(self, expr: PrimExpr) -> bool:
        """Return whether an expression may be computed in front of the loop."""
        return is_speculable(expr) and not mentions([expr], self.own)

    def table(self, value: PrimExpr, hint: str) -> BufferLoad:
        """Return the entry of a table of values, which may exist already."""
        for known in self.tables:
            if structural_equal(known.value, value):
                return known.at()
        buffer = decl_buffer([self.entries(value)], value.dtype, hint, scope="local")
        self.tables.append(_Table(value, self.loops_of(value), buffer))
        return self.tables[-1].at()

    def loops_of(self, value: PrimExpr) -> tuple[For, ...]:
        """Return the loops within the step on which a value depends."""
        used = set(variables(value))
        return tuple([loop for loop in self.inner if loop.loop_var in used])

    def entries(self, value: PrimExpr) -> int:
        """Return the size of a table of values."""
        return math.prod([loop.extent.value for loop in self.loops_of(value)])  # type: ignore[attr-defined]

    # Conditions.

    def prepared_test(self, conditions: Sequence[PrimExpr]) -> PrimExpr | None:
        """Return the test of the bits of a word that holds the answers; None where they do not fit
        or where nothing is to be computed.
        """
        always: list[PrimExpr] = []
        choices: list[_Choices] = []
        if not conditions or not self.is_known(all_of(*conditions)):
            return None
        for condition in conditions:
            if not mentions([condition], {self.step}):
                always.append(condition)
            elif not self.add_choice(choices, condition):
                return None
        if sum([one.count for one in choices]) > _BITS:
            return None
        word, shifts = self.word(always, choices)
        if not variables(word) or self.entries(word) > _MOST_ENTRIES:
            return None
        entry, zero = self.table(word, "outside"), const(0, "int32")
        if not shifts:
            return EQ(entry, zero)
        bits: PrimExpr = const(1, "int32") << shifts[0]
        for shift in shifts[1:]:
            bits = bits | (const(1, "int32") << shift)
        return EQ(entry & bits, zero)

    def add_choice(self, choices: list[_Choices], condition: PrimExpr) -> bool:
        """Add a condition to the choices on the same selector; return whether it fits."""
        selectors = _selectors(condition, self.step)
        if len(selectors) != 1:
            return False
        for known in choices:
            if structural_equal(known.selector, selectors[0]):
                known.conditions.append(condition)
                return True
        bound = self.analyzer.const_int_bound(selectors[0])
        count = bound.max_value - bound.min_value + 1
        if count > _BITS:
            return False
        choices.append(_Choices(selectors[0], bound.min_value, count, [condition]))
        return True

    def word(
        self, always: Sequence[PrimExpr], choices: Sequence[_Choices]
    ) -> tuple[PrimExpr, list[PrimExpr]]:
        """Return the word of answers, a bit for each "no", and which bit tells each choice."""
        shifts: list[PrimExpr] = []
        word: PrimExpr = const(0, "int32")
        first = 0
        for choice in choices:
            for number in range(choice.count):
                value = const(choice.low + number, choice.selector.dtype)
                answers = [
                    _Replaced(choice.selector, value).visit(one) for one in choice.conditions
                ]
                answer = self.analyzer.simplify(all_of(*always, *answers))
                word = word + Select(
                    answer, const(0, "int32"), const(1 << (first + number), "int32")
                )
            shift = choice.selector - choice.low + first
            shifts.append(self.analyzer.simplify(shift).astype("int32"))
            first += choice.count
        if not choices:
            word = Select(all_of(*always), const(0, "int32"), const(1, "int32"))
        return self.analyzer.simplify(word), shifts


class _Replaced(Rewriter):
    """Replaces an expression by a value."""

    def __init__(self, wanted: PrimExpr, value: PrimExpr) -> None:
        self.wanted = wanted
        self.value = value

    def visit_PrimExpr(self, expr: PrimExpr) -> PrimExpr:
        """Replace the expression, or look into it."""
        return self.value if structural_equal(expr, self.wanted) else self.children(expr)


def _whole(call: Call) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return a choice; those within it that give the same otherwise are part of its condition."""
    condition, true, false = call.args
    while is_call(true, "tir.if_then_else") and structural_equal(true.args[2], false):
        condition, true = all_of(condition, true.args[0]), true.args[1]
    return condition, true, false


def _terms(expr: PrimExpr, factor: int = 1) -> list[tuple[PrimExpr, int]]:
    """Return the terms of a sum with their factors."""
    if isinstance(expr, Add):
        return _terms(expr.a, factor) + _terms(expr.b, factor)
    if isinstance(expr, Sub):
        return _terms(expr.a, factor) + _terms(expr.b, -factor)
    if isinstance(expr, Mul) and isinstance(expr.b, IntImm):
        return _terms(expr.a, factor * expr.b.value)
    return [(expr, factor)]


def _selectors(expr: PrimExpr, step: Var) -> list[PrimExpr]:
    """Return the different parts of an expression that depend on the step alone: of each the
    smallest one that has only as many values, ``k // 3`` of ``k // 3 * 2 + 1``.
    """
    found: list[PrimExpr] = []
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        if not mentions([part], {step}):
            continue
        if set(variables(part)) == {step} and not part.dtype.is_bool:
            chosen = _without_constants(part)
            if not any(structural_equal(chosen, one) for one in found):
                found.append(chosen)
            continue
        part.for_each_child(waiting.append)
    return found


def _without_constants(expr: PrimExpr) -> PrimExpr:
    while isinstance(expr, Add | Sub | Mul) and isinstance(expr.b, IntImm):
        expr = expr.a
    return expr


class _Precomputer(ScopedAnalyzer, StatementRewriter):
    """Finds the loops."""

    def visit_For(self, loop: For) -> Stmt:
        loop = super().visit_For(loop)  # type: ignore[assignment]
        if not loop.annotations.get(PRECOMPUTE_ADDRESSES):
            return loop
        kept = {key: one for key, one in loop.annotations.items() if key != PRECOMPUTE_ADDRESSES}
        steps = _Steps(loop, self.analyzer)
        new: Stmt = loop.with_fields(body=steps.visit(loop.body), annotations=kept)
        new = stmt_seq(*[table.filling() for table in steps.tables], new)
        for table in reversed(steps.tables):
            memory = table.buffer
            new = DeclBuffer(memory, new)
            new = Allocate(memory.data, memory.dtype, memory.shape, const(True, "bool"), new)
        return new


@compiler_pass("tir.PrecomputeAddresses")
def precompute_addresses(func: PrimFunc) -> PrimFunc:
    """Computes the fixed parts of addresses and conditions in front of loops that ask for it."""
    marked = [one for one in statements(func.body)
              if isinstance(one, For) and one.annotations.get(PRECOMPUTE_ADDRESSES)]  # fmt: skip
    return func.with_body(_Precomputer().visit(func.body)) if marked else func
