"""Compares the computation of a block with the description of a tensor intrinsic.

Both are walked in parallel. Iterators are replaced by what they are bound to, so that only loops
are left: one loop of the description stands for one of the block, in the same order; loops of one
iteration do not count. A buffer of the description stands for a box of a buffer of the block: the
indices may differ by an offset that is the same for all accesses, and the block's buffer may have
more dimensions in front.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    Add,
    And,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Range,
    Rewriter,
    StringImm,
    Var,
    const,
    structural_equal,
)
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import variables
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule.nests import is_one
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)

__all__ = ["BufferMatch", "DescriptionMatcher", "Mismatch"]

COMMUTATIVE = (Add, Mul, Min, Max, And, Or)
KIND_NAMES = {IterVar.DataPar: "data-parallel", IterVar.CommReduce: "a reduction"}


class Mismatch(Exception):
    """Raised with the difference between a block and a description."""


class BufferMatch:
    """The start of the box that corresponds to a buffer of the description."""

    def __init__(self, buffer: Buffer, start: list[PrimExpr]) -> None:
        self.buffer = buffer
        self.start = start


class _Indices(Rewriter):
    """Replaces variables of the description; index arithmetic gets the block's integer dtype."""

    def __init__(self, values: dict[Var, PrimExpr], dtype: DataType) -> None:
        self.values = values
        self.dtype = dtype

    def visit_Var(self, variable: Var) -> PrimExpr:
        value = self.values.get(variable, variable)
        return value.astype(self.dtype) if value.dtype.is_integer else value

    def visit_IntImm(self, number: IntImm) -> PrimExpr:
        return number if number.dtype.is_bool else const(number.value, self.dtype)

    def visit_Cast(self, cast: Cast) -> PrimExpr:
        value = self.visit(cast.value)
        return value if cast.dtype.is_integer else Cast(cast.dtype, value)


class DescriptionMatcher:
    """Compares a block's statements with those of a description.

    ``actual`` is always the block's side, ``wanted`` the description's. Afterwards ``buffers``
    gives a match for each buffer of the description that is used.
    """

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.actual_values: dict[Var, PrimExpr] = {}
        self.wanted_values: dict[Var, PrimExpr] = {}
        self.buffers: dict[Buffer, BufferMatch] = {}
        self.loops: dict[Var, None] = {}
        self.index_dtype = DataType("int32")
        self.written: dict[Buffer, None] = {}

    # Statements.

    def statement(self, actual: Stmt, wanted: Stmt) -> None:
        """Compare two statements; raises Mismatch."""
        actual = self.without_units(actual, self.actual_values, self.actual)
        wanted = self.without_units(wanted, self.wanted_values, self.wanted)
        if type(actual) is not type(wanted):
            raise Mismatch(
                f"the block has {_described(actual)} where the description has {_described(wanted)}"
            )
        compare = getattr(self, "compare_" + type(wanted).__name__, None)
        if compare is None:
            kind = type(wanted).__name__
            raise Mismatch(f"a description cannot have statements of the kind {kind}")
        compare(actual, wanted)

    def without_units(
        self, stmt: Stmt, values: dict[Var, PrimExpr], value_of: Callable[[PrimExpr], PrimExpr]
    ) -> Stmt:
        """Return the body of loops of extent 1."""
        while isinstance(stmt, For) and is_one(stmt.extent):
            values[stmt.loop_var] = value_of(stmt.min)
            stmt = stmt.body
        return stmt

    def compare_For(self, actual: For, wanted: For) -> None:
        if not self.loops:
            self.index_dtype = actual.loop_var.dtype
        extent, other = self.actual(actual.extent), self.wanted(wanted.extent)
        if not self.analyzer.can_prove_equal(extent, other.astype(extent.dtype)):
            raise Mismatch(
                f"loop '{actual.loop_var.name}' of the block has the extent {extent}, "
                f"loop '{wanted.loop_var.name}' of the description {other}"
            )
        if actual.kind is ForKind.THREAD_BINDING and wanted.kind is not actual.kind:
            raise Mismatch(f"loop '{actual.loop_var.name}' of the block is bound to threads")
        low, start = self.actual(actual.min), self.wanted(wanted.min)
        value: PrimExpr = actual.loop_var if is_const(low, 0) else actual.loop_var - low
        self.wanted_values[wanted.loop_var] = value if is_const(start, 0) else value + start
        self.analyzer.bind(actual.loop_var, Range.from_min_extent(low, extent))
        self.loops[actual.loop_var] = None
        self.statement(actual.body, wanted.body)

    def compare_SeqStmt(self, actual: SeqStmt, wanted: SeqStmt) -> None:
        if len(actual.seq) != len(wanted.seq):
            raise Mismatch(
                f"the block has {len(actual.seq)} statements where the description has "
                f"{len(wanted.seq)}"
            )
        for one, other in zip(actual.seq, wanted.seq):
            self.statement(one, other)

    def compare_BlockRealize(self, actual: BlockRealize, wanted: BlockRealize) -> None:
        for iterator, value in zip(actual.block.iter_vars, actual.iter_values):
            self.actual_values[iterator.var] = self.actual(value)
        for iterator, value in zip(wanted.block.iter_vars, wanted.iter_values):
            self.wanted_values[iterator.var] = self.wanted(value)
        self.compare_kinds(actual, wanted)
        self.compare_predicates(actual, wanted)
        self.compare_Block(actual.block, wanted.block)

    def compare_kinds(self, actual: BlockRealize, wanted: BlockRealize) -> None:
        """Check that corresponding loops drive iterators of the same kind."""
        kinds: dict[Var, int] = {}
        for iterator in actual.block.iter_vars:
            for variable in variables(self.actual(iterator.var)):
                kinds[variable] = iterator.iter_type
        for iterator in wanted.block.iter_vars:
            for variable in variables(self.wanted(iterator.var)):
                kind = kinds.get(variable, iterator.iter_type)
                if variable in self.loops and kind != iterator.iter_type:
                    mine, other = [
                        KIND_NAMES.get(k, f"of kind {k}") for k in (kind, iterator.iter_type)
                    ]
                    raise Mismatch(
                        f"the iterator over loop '{variable.name}' of the block is {mine}, "
                        f"'{iterator.var.name}' of the description is {other}"
                    )

    def compare_predicates(self, actual: BlockRealize, wanted: BlockRealize) -> None:
        mine, other = self.actual(actual.predicate), self.wanted(wanted.predicate)
        if self.analyzer.can_prove_equal(mine, other):
            return
        raise Mismatch(
            f"block '{actual.block.name_hint}' runs under the condition {mine}, the "
            f"description under {other} (is the tile partial? pad_einsum pads the extents)"
        )

    def compare_Block(self, actual: Block, wanted: Block) -> None:
        if actual.match_buffers or wanted.match_buffers:
            raise Mismatch(f"block '{actual.name_hint}' matches regions of buffers")
        if (actual.init is None) != (wanted.init is None):
            has, lacks = (
                ("block", "description") if wanted.init is None else ("description", "block")
            )
            raise Mismatch(
                f"the {has} has an init and the {lacks} has none"
                + (" (decompose_reduction takes it out)" if wanted.init is None else "")
            )
        if len(actual.alloc_buffers) != len(wanted.alloc_buffers):
            raise Mismatch(
                f"block '{actual.name_hint}' allocates {len(actual.alloc_buffers)} buffers, the "
                f"description {len(wanted.alloc_buffers)}"
            )
        if wanted.init is not None and actual.init is not None:
            self.statement(actual.init, wanted.init)
        self.statement(actual.body, wanted.body)

    def compare_BufferStore(self, actual: BufferStore, wanted: BufferStore) -> None:
        self.access(actual, wanted)
        self.written[wanted.buffer] = None
        self.expression(actual.value, wanted.value)

    def compare_IfThenElse(self, actual: IfThenElse, wanted: IfThenElse) -> None:
        self.expression(actual.condition, wanted.condition)
        self.statement(actual.then_case, wanted.then_case)
        if (actual.else_case is None) != (wanted.else_case is None):
            raise Mismatch("one side has an else and the other has none")
        if actual.else_case is not None and wanted.else_case is not None:
            self.statement(actual.else_case, wanted.else_case)

    def compare_Evaluate(self, actual: Evaluate, wanted: Evaluate) -> None:
        self.expression(actual.value, wanted.value)

    def compare_LetStmt(self, actual: LetStmt, wanted: LetStmt) -> None:
        self.expression(actual.value, wanted.value)
        if actual.var.dtype is not wanted.var.dtype:
            raise Mismatch(
                f"variable '{actual.var.name}' of the block is {actual.var.dtype}, "
                f"'{wanted.var.name}' of the description {wanted.var.dtype}"
            )
        self.wanted_values[wanted.var] = actual.var
        self.statement(actual.body, wanted.body)

    # Expressions.

    def actual(self, expr: PrimExpr) -> PrimExpr:
        """Return an expression of the block in terms of its loops."""
        if is_const(expr):
            return expr
        return self.analyzer.simplify(substitute(expr, self.actual_values))

    def wanted(self, expr: PrimExpr) -> PrimExpr:
        """Return an index or condition of the description in terms of the block's loops."""
        return self.analyzer.simplify(_Indices(self.wanted_values, self.index_dtype).visit(expr))

    def differ(self, actual: PrimExpr, wanted: PrimExpr) -> Mismatch:
        """Return a Mismatch that shows both expressions."""
        return Mismatch(
            f"the block computes\n    {actual}\n  where the description computes\n    {wanted}"
        )

    def expression(self, actual: PrimExpr, wanted: PrimExpr) -> None:
        """Compare two values; raises Mismatch."""
        if isinstance(wanted, BufferLoad) and isinstance(actual, BufferLoad):
            self.access(actual, wanted)
            return
        if next(loads([actual, wanted]), None) is None:
            self.plain(actual, wanted)
            return
        if type(actual) is not type(wanted):
            raise self.differ(actual, wanted)
        if actual.dtype is not wanted.dtype:
            raise Mismatch(
                f"the block computes {actual} as {actual.dtype}, the description {wanted} as "
                f"{wanted.dtype}"
            )
        if isinstance(wanted, Call) and isinstance(actual, Call):
            if actual.op is not wanted.op or len(actual.args) != len(wanted.args):
                raise self.differ(actual, wanted)
        mine, other = _operands(actual), _operands(wanted)
        if isinstance(wanted, COMMUTATIVE):
            self.in_some_order(mine, other)
            return
        for one, two in zip(mine, other):
            self.expression(one, two)

    def in_some_order(self, actual: list[PrimExpr], wanted: list[PrimExpr]) -> None:
        """Compare two operands of a commutative operator, in either order."""
        buffers = dict(self.buffers)
        try:
            for one, two in zip(actual, wanted):
                self.expression(one, two)
        except Mismatch:
            first = dict(self.buffers)
            self.buffers = buffers
            try:
                for one, two in zip(actual[::-1], wanted):
                    self.expression(one, two)
                return
            except Mismatch:
                self.buffers = first
            raise

    def plain(self, actual: PrimExpr, wanted: PrimExpr) -> None:
        """Compare values without loads: they must be equal for all values of the loops."""
        if isinstance(wanted, StringImm) or isinstance(actual, StringImm):
            if not (
                isinstance(wanted, StringImm)
                and isinstance(actual, StringImm)
                and wanted.value == actual.value
            ):
                raise self.differ(actual, wanted)
            return
        if actual.dtype is not wanted.dtype:
            raise Mismatch(
                f"the block has {actual} as {actual.dtype}, the description {wanted} as "
                f"{wanted.dtype}"
            )
        mine, other = self.actual(actual), wanted
        if variables(wanted):
            other = self.wanted(wanted)
            other = other if other.dtype is mine.dtype else other.astype(mine.dtype)
        if isinstance(mine, FloatImm) and isinstance(other, FloatImm):
            if not structural_equal(mine, other):
                raise self.differ(mine, other)
        elif not self.analyzer.can_prove_equal(mine, other):
            raise self.differ(mine, other)

    # Buffers.

    def access(self, actual: Any, wanted: Any) -> None:
        """Compare accesses to one element; the first access of a buffer determines its match."""
        mine, other = actual.buffer, wanted.buffer
        if mine.dtype is not other.dtype:
            raise Mismatch(
                f"buffer '{mine.name}' of the block is {mine.dtype}, '{other.name}' of the "
                f"description {other.dtype}"
            )
        if mine.scope() != other.scope():
            raise Mismatch(
                f"buffer '{mine.name}' of the block is in scope '{mine.scope()}', "
                f"'{other.name}' of the description in '{other.scope()}'"
            )
        start = self.start(actual, wanted)
        known = self.buffers.get(other)
        if known is None:
            self.buffers[other] = BufferMatch(mine, start)
            return
        if known.buffer is not mine:
            raise Mismatch(
                f"'{other.name}' of the description stands for '{known.buffer.name}' of the block "
                f"and for '{mine.name}'"
            )
        for one, two in zip(known.start, start):
            if not self.analyzer.can_prove_equal(one, two):
                raise Mismatch(
                    f"the accesses to '{mine.name}' of the block begin at {one} and at {two}, "
                    f"those to '{other.name}' of the description at one place"
                )

    def start(self, actual: Any, wanted: Any) -> list[PrimExpr]:
        """Return the start of the box in the block's buffer."""
        mine, other = actual.buffer, wanted.buffer
        leading = len(actual.indices) - len(wanted.indices)
        if leading < 0:
            raise Mismatch(
                f"buffer '{mine.name}' of the block has {len(actual.indices)} dimensions, "
                f"'{other.name}' of the description {len(wanted.indices)}"
            )
        start = []
        for number, index in enumerate(actual.indices):
            index = self.actual(index)
            if number < leading:
                shift = index
                text = f"dimension {number} of '{mine.name}' is not in the description"
            else:
                described = self.wanted(wanted.indices[number - leading])
                shift = self.analyzer.simplify(index - described.astype(index.dtype))
                text = (
                    f"'{mine.name}' of the block is indexed by {index} in dimension {number}, "
                    f"'{other.name}' of the description by {described}"
                )
            for variable in variables(shift):
                if variable in self.loops:
                    raise Mismatch(f"{text}; it depends on loop '{variable.name}': {shift}")
            start.append(shift)
        return start


def _operands(expr: PrimExpr) -> list[PrimExpr]:
    if isinstance(expr, Cast):
        return [expr.value]
    if isinstance(expr, Call):
        return list(expr.args)
    return [child for child in expr.children() if isinstance(child, PrimExpr)]


def _described(stmt: Stmt) -> str:
    if isinstance(stmt, For):
        return f"a loop over '{stmt.loop_var.name}' of extent {stmt.extent}"
    if isinstance(stmt, BlockRealize):
        return f"the block '{stmt.block.name_hint}'"
    if isinstance(stmt, BufferStore):
        return f"a store to '{stmt.buffer.name}'"
    if isinstance(stmt, SeqStmt):
        return f"{len(stmt.seq)} statements"
    return {"IfThenElse": "a condition", "Evaluate": "a call"}.get(
        type(stmt).__name__, type(stmt).__name__
    )
