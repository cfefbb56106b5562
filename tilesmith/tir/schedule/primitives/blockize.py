"""Defines blockize, which makes one block of a loop nest or of several adjacent blocks.

The value of each iterator is divided into a part over the loops outside and one over those inside,
``value = outer * extent + inner``. The outer parts are the iterators of the new block, the inner
ones those of the blocks in it:

    for i_0, i_1 in T.grid(8, 16):          for i_0 in range(8):
        with T.block("B"):                      with T.block("B_o"):
            vi = T.axis.spatial(128,                vi_o = T.axis.spatial(8, i_0)
                        i_0 * 16 + i_1)             for i_1 in range(16):
                                                        with T.block("B"):
                                                            vi_i = T.axis.spatial(16, i_1)
"""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.operators import all_of, is_const, minimum
from tilesmith.ir.queries import conjuncts, variables
from tilesmith.support.errors import InternalError
from tilesmith.tir.analysis import get_block_access_region
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion, IterVar
from tilesmith.tir.functor import Substitution
from tilesmith.tir.schedule.blocks import why_not_reduction
from tilesmith.tir.schedule.cursor import BlockCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import (
    SimplifiedSubstitution,
    analyzer_for,
    without_views,
)
from tilesmith.tir.schedule.parameters import Targets
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.schedule.primitives.blockize_place import Place, find_place
from tilesmith.tir.schedule.primitives.subspace import (
    Division,
    Part,
    divide,
    loops_in_terms_of,
)
from tilesmith.tir.schedule.repetition import runs_once, without_idle_iterators
from tilesmith.tir.stmt import Block, BlockRealize, For, SeqStmt, Stmt, stmt_seq

__all__ = ["blockize"]


@primitive(former_names={"loop": "target"})
def blockize(target: Targets, preserve_unit_iters: bool = True) -> BlockCursor:
    """Make one block of a loop with its body, or of several blocks of one scope.

      for i_0, i_1 in T.grid(8, 16):
          with T.block("B"):
              vi = T.axis.spatial(128, i_0 * 16 + i_1)
    blockize(i_1)
      for i_0 in range(8):
          with T.block("B_o"):
              vi_o = T.axis.spatial(8, i_0)
              for i_1 in range(16):
                  with T.block("B"):
                      vi_i = T.axis.spatial(16, i_1)

    ``target``: a loop, a block, or a list of blocks that stand beside each other. The init of a
    reduction goes to the new block if that carries the reduction. With ``preserve_unit_iters``
    an iterator that is wholly inside leaves one of extent 1 outside; without, the new block has
    no iterator of one value, but the last one of a reduction. Gives the new block.

    Refuses iterators that are not ``outer * extent + inner`` at this place, other statements
    between the loops, and blocks of different scopes.
    """
    targets = list(dict.fromkeys(target))  # a block given twice counts once
    place = find_place(targets)
    blockizer = _Blockizer(place, preserve_unit_iters)
    realize = blockizer.outer()
    place.put(realize, blockizer.reuse)
    return targets[0].block_of(realize.block)


class _Blockizer:
    """Builds the new block, and records the replacement of each block."""

    def __init__(self, place: Place, preserve_unit_iters: bool) -> None:
        self.place = place
        self.preserve_unit_iters = preserve_unit_iters
        self.reuse: dict[Block, Block] = {}
        self.analyzer = analyzer_for(place.blocks[0])
        self.iterators: list[IterVar] = []
        self.values: list[PrimExpr] = []
        self.predicates: list[PrimExpr] = []
        self.inits: list[Stmt] = []
        self.lifted: list[BlockCursor] = []

    def outer(self) -> BlockRealize:
        """Return the realization of the new block."""
        divisions = [self.divide(cursor) for cursor in self.place.blocks]
        for division in divisions:
            for part in division.parts:
                self.add_outer(part)
        for division in divisions:
            self.bind_iterators(division)
        self.outside = loops_in_terms_of(
            self.iterators, self.values, self.place.outer_ranges(), self.place.outer_predicates()
        )
        lifted = [self.lifts_init(division) for division in divisions]
        self.lifted = [cursor for cursor, lift in zip(self.place.blocks, lifted) if lift]
        body = self.nest(divisions, lifted)
        self.check_closed(body)
        return self.assemble(body)

    def divide(self, cursor: BlockCursor) -> Division:
        """Divide the iterators of one block into two parts each."""
        realize = cursor.stmt
        outside, inside = self.place.loops_around(cursor)
        keeps_units = self.preserve_unit_iters and not self.place.is_shared
        drops_units = not self.preserve_unit_iters
        division = divide(realize, outside, inside, keeps_units, drops_units)
        if isinstance(division, str):
            name = realize.block.name_hint
            reason = f"the bindings of block '{name}' cannot be divided at this place: {division}"
            advice = "split the loops so that an iterator is outer * extent + inner"
            raise refuse(reason, cursor, advice)
        return division

    def add_outer(self, part: Part) -> None:
        """Return the iterator of the new block for an outer part; blocks with equal outer parts
        share it.
        """
        if part.outer is None:
            return
        for number, (iterator, value) in enumerate(zip(self.iterators, self.values)):
            same = part.same_outer(iterator, value) and self.place.is_shared
            if same:
                part.outer_var = iterator.var
                kind = _more_ordered(iterator.iter_type, part.iterator.iter_type)
                if kind != iterator.iter_type:
                    self.iterators[number] = iterator.with_fields(iter_type=kind)
                return
        variable = Var(f"{part.iterator.var.name}_o", part.iterator.var.dtype)
        part.outer_var = variable
        self.iterators.append(IterVar(part.outer_domain, variable, part.iterator.iter_type))
        self.values.append(part.outer)

    def bind_iterators(self, division: Division) -> None:
        """Add the ranges of the iterators of both blocks to the analyzer."""
        for part in division.parts:
            if part.outer_var is not None and part.outer_domain is not None:
                self.analyzer.bind(part.outer_var, part.outer_domain)
            if part.inner is not None:
                inner = part.inner_iterator()
                self.analyzer.bind(inner.var, inner.domain)

    # Initialisation of reductions.

    def lifts_init(self, division: Division) -> bool:
        """Return whether the init of a block moves to the new block, which then carries a part of
        the reduction.
        """
        block = division.realize.block
        reduces = [
            part
            for part in division.parts
            if part.outer is not None and part.iterator.iter_type == IterVar.CommReduce
        ]
        if block.init is None or not reduces:
            return False
        cursor = self.place.cursor(block)
        reason = why_not_reduction(cursor, self.place.scope)
        if not reason:
            reason = self.earlier_use(cursor, block) or self.repetition(cursor)
        if reason:
            reason = f"the init of block '{block.name_hint}' cannot be moved out: {reason}"
            raise refuse(reason, cursor)
        return True

    def earlier_use(self, cursor: BlockCursor, block: Block) -> str:
        """Return the reason why an init cannot run before the other blocks of the place; "" if it
        can.
        """
        written = {id(region.buffer) for region in block.writes}
        for other in self.place.blocks:
            if other == cursor:
                return ""
            before = other.block
            for region in (*before.reads, *before.writes):
                if id(region.buffer) in written:
                    return f"block '{before.name_hint}' uses '{region.buffer.name}' before it"
        return ""

    def repetition(self, cursor: BlockCursor) -> str:
        """Return the reason why one init is too few for a block; "" if it is enough."""
        _, inside = self.place.loops_around(cursor)
        if runs_once(without_idle_iterators(cursor.stmt), inside):
            return ""
        return "the loops inside may run several times through the reduction, from a new start each"

    def init_nest(self, division: Division, loops: list[For], inner: BlockRealize) -> Stmt:
        """Return the init under copies of the inner loops that its iterators need."""
        block = division.realize.block
        assert block.init is not None  # it is a reduction block
        renamed: dict[Var, PrimExpr] = {}
        iterators, values = [], []
        reduction = set()
        for iterator, value in zip(inner.block.iter_vars, inner.iter_values):
            if iterator.iter_type == IterVar.CommReduce:
                reduction.update(variables(value))
                renamed[iterator.var] = iterator.domain.min
                continue
            name = iterator.var.name.removesuffix("_i")
            variable = Var(f"{name}_init", iterator.var.dtype)
            renamed[iterator.var] = variable
            iterators.append(IterVar(iterator.dom, variable, iterator.iter_type))
            values.append(value)
        needed = set(variables(values))
        for clause in conjuncts(inner.predicate):  # it may name loops of one iteration besides
            if not reduction.intersection(variables(clause)):
                needed.update(variables(clause))
        moved = {
            loop.loop_var: Var(f"{loop.loop_var.name}_init", loop.loop_var.dtype)
            for loop in loops
            if loop.loop_var in needed
        }
        relocate, rename = Substitution(dict(moved)), Substitution(renamed)
        conditions = []
        for clause in conjuncts(inner.predicate):
            used = set(variables(clause))
            if not reduction.intersection(used):
                conditions.append(relocate.visit(clause))
            elif needed.intersection(used):
                cursor = self.place.cursor(block)
                reason = f"a condition mixes reduction and other loops: {clause}"
                raise refuse(reason, cursor)
        substitute = SimplifiedSubstitution(division.mapping(), self.analyzer)
        init_block = Block(
            iterators,
            (),
            [rename.visit(substitute.visit(region)) for region in block.writes],
            f"{block.name_hint}_init",
            rename.visit(substitute.visit(without_views(block, block.init))),
            span=block.span,
        )
        reads, _, _ = get_block_access_region(init_block, {})
        init_block = init_block.with_fields(reads=tuple(reads))
        predicate = all_of(*conditions) if conditions else const(True, "bool")
        body: Stmt = BlockRealize([relocate.visit(v) for v in values], predicate, init_block)
        for loop in reversed(loops):
            if loop.loop_var in moved:
                body = _copy_of_loop(loop, moved[loop.loop_var], relocate, body)
        return body

    # The inside.

    def nest(self, divisions: list[Division], lifted: list[bool]) -> Stmt:
        """Return the statements of the place with their blocks replaced."""
        new: dict[int, BlockRealize] = {}
        for division, lift in zip(divisions, lifted):
            inner = self.inner(division, lift)
            new[id(division.realize)] = inner
            if lift:
                cursor = self.place.cursor(division.realize.block)
                _, inside = self.place.loops_around(cursor)
                self.inits.append(self.init_nest(division, inside, inner))
            self.reuse[division.realize.block] = inner.block
        expressed = Substitution(dict(self.outside))

        def walk(stmt: Stmt) -> Stmt:
            if isinstance(stmt, BlockRealize):
                return new[id(stmt)]
            if isinstance(stmt, SeqStmt):
                return stmt_seq(*[walk(one) for one in stmt.seq])
            if not isinstance(stmt, For):
                raise InternalError(f"blockize met {type(stmt).__name__}")
            return stmt.with_fields(
                min=expressed.visit(stmt.min),
                extent=expressed.visit(stmt.extent),
                body=walk(stmt.body),
            )

        return stmt_seq(*[walk(stmt) for stmt in self.place.statements])

    def inner(self, division: Division, lift: bool) -> BlockRealize:
        """Return one block in its form inside the new block."""
        realize = division.realize
        block = realize.block
        substitute = SimplifiedSubstitution(division.mapping(), self.analyzer)
        reads = [substitute.visit(region) for region in block.reads]
        writes = [substitute.visit(region) for region in block.writes]
        if lift:  # what remains is an update, which reads what it writes
            reads = [*writes, *reads]
        made = Block(
            [part.inner_iterator() for part in division.parts if part.inner is not None],
            reads,
            writes,
            block.name_hint,
            substitute.visit(block.body),
            None if block.init is None or lift else substitute.visit(block.init),
            block.alloc_buffers,
            [substitute.visit(match) for match in block.match_buffers],
            block.annotations,
            block.span,
        )
        for before, after in substitute.reuse.items():
            self.reuse[before] = after
        values = [part.inner for part in division.parts if part.inner is not None]
        return BlockRealize(values, self.inner_predicate(division), made, realize.span)

    def inner_predicate(self, division: Division) -> PrimExpr:
        """Return the part of a block's predicate that stays inside; the other part moves to the new
        block.
        """
        outside, inside = self.place.loops_around(self.place.cursor(division.realize.block))
        outer_vars = {loop.loop_var for loop in outside}
        inner_vars = {loop.loop_var for loop in inside}
        kept = []
        for clause in conjuncts(division.realize.predicate):
            used = set(variables(clause))
            if not inner_vars.intersection(used) and self.is_asked_by_all(clause):
                if not any(structural_equal(clause, known) for known in self.predicates):
                    self.predicates.append(clause)
                continue
            if outer_vars.intersection(used):
                clause = division.clause(clause, self.outside)
            kept.append(clause)
        return all_of(*kept) if kept else const(True, "bool")

    def is_asked_by_all(self, clause: PrimExpr) -> bool:
        """Return whether all blocks have a condition; only then it can be the condition of the new
        block.
        """
        return all(
            any(structural_equal(clause, one) for one in conjuncts(cursor.stmt.predicate))
            for cursor in self.place.blocks
        )

    # The new block.

    def check_closed(self, body: Stmt) -> None:
        """Check that the body of the new block no longer uses the loop variables outside."""
        used = set(variables([body, *self.inits]))
        for cursor in self.place.outer_loops():
            variable = cursor.stmt.loop_var
            if variable in used:
                reason = (
                    f"the inside depends on loop '{variable.name}' in a way that the iterators "
                    "of the new block do not tell"
                )
                raise refuse(reason, cursor)

    def assemble(self, body: Stmt) -> BlockRealize:
        """Return the new block, with the regions of its body."""
        first = self.place.blocks[0].block
        names = [cursor.block.name_hint for cursor in self.place.blocks]
        name = f"{names[0]}_o" if len(names) == 1 else "outer_" + "_".join(names) + "_"
        init = stmt_seq(*self.inits) if self.inits else None
        block = Block(self.iterators, (), (), name, body, init, span=first.span)
        buffers = {}
        for cursor in self.place.blocks:
            inner = cursor.block
            for region in (*inner.reads, *inner.writes):
                buffers[region.buffer.data] = region.buffer
        reads, writes, _ = get_block_access_region(block.with_fields(init=None), buffers)
        reads = [region for region in reads if not self.is_own_result(region.buffer)]
        order = _order_of([cursor.block for cursor in self.place.blocks])
        block = block.with_fields(
            reads=tuple(sorted([_inside_buffer(r, self.analyzer) for r in reads], key=order)),
            writes=tuple(sorted([_inside_buffer(w, self.analyzer) for w in writes], key=order)),
        )
        predicate = all_of(*self.predicates) if self.predicates else const(True, "bool")
        return BlockRealize(self.values, predicate, block)

    def is_own_result(self, buffer: Buffer) -> bool:
        """Return whether the only reader of a buffer is a reduction whose init has been moved out:
        it is its own result.
        """
        for cursor in self.place.blocks:
            block = cursor.block
            if cursor in self.lifted and any(region.buffer is buffer for region in block.writes):
                continue
            if any(region.buffer is buffer for region in block.reads):
                return False
        return any(
            region.buffer is buffer for cursor in self.lifted for region in cursor.block.writes
        )


def _more_ordered(one: int, other: int) -> int:
    """Return the type of an iterator that two blocks share: the one that allows fewer orders."""
    if one == other:
        return one
    kinds = {one, other}
    if kinds == {int(IterVar.DataPar), int(IterVar.CommReduce)}:
        return IterVar.CommReduce
    return IterVar.Opaque


def _order_of(blocks: list[Block]) -> Callable[[BufferRegion], int]:
    """Return a sort key that preserves the order in which the blocks name their buffers."""
    numbers: dict[int, int] = {}
    for block in blocks:
        for region in (*block.reads, *block.writes):
            numbers.setdefault(id(region.buffer), len(numbers))
    return lambda region: numbers.get(id(region.buffer), len(numbers))


def _inside_buffer(region: BufferRegion, analyzer: Analyzer) -> BufferRegion:
    """Clip a region to its buffer: the last of several tiles may extend beyond it."""
    ranges = []
    for part, size in zip(region.region, region.buffer.shape):
        low, extent = part.min, part.extent
        if not is_const(extent, 1) and not analyzer.can_prove(low + extent <= size):
            extent = minimum(extent, analyzer.simplify(size - low))
            part = Range.from_min_extent(low, extent)
        ranges.append(part)
    return BufferRegion(region.buffer, tuple(ranges))


def _copy_of_loop(loop: For, variable: Var, relocate: Substitution, body: Stmt) -> For:
    """Return a loop like another one with its own variable; threads stay threads."""
    binding = loop.thread_binding
    if binding is not None:
        binding = binding.with_fields(var=Var(binding.var.name, binding.var.dtype))
    return For(
        variable,
        relocate.visit(loop.min),
        relocate.visit(loop.extent),
        loop.kind,
        body,
        binding,
        loop.annotations,
        loop.span,
    )
