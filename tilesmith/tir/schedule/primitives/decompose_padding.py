"""Defines decompose_padding, which splits a padding block into a fill with constants and a copy.

for i in range(10):                         for i_pad in range(10):
    with T.block("B"):                          with T.block("B_pad_const"):
        vi = T.axis.spatial(10, i)                  B[vi] = 0.0
        B[vi] = T.if_then_else(             for i in range(8):
            1 <= vi and vi < 9,                 with T.block("B"):
            A[vi - 1], 0.0)                         vi = T.axis.spatial(8, i)
                                                    B[vi + 1] = A[vi]
"""

from __future__ import annotations

from tilesmith.arith import Analyzer
from tilesmith.ir import GE, GT, LE, LT, IntImm, PrimExpr, Range, Select, Var, const
from tilesmith.ir.intrinsics import ceildiv
from tilesmith.ir.operators import all_of, floordiv, is_const, maximum, minimum
from tilesmith.ir.queries import conjuncts, is_call, mentions, variables
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.expr import IterVar
from tilesmith.tir.functor import Substitution, substitute
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.schedule.blocks import scope_of, why_not_complete
from tilesmith.tir.schedule.cursor import BlockCursor, LoopCursor
from tilesmith.tir.schedule.errors import refuse
from tilesmith.tir.schedule.nests import SimplifiedSubstitution
from tilesmith.tir.schedule.primitive import primitive
from tilesmith.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt, stmt_seq

__all__ = ["can_decompose_padding", "decompose_padding"]

PRIMITIVE = "decompose_padding"
Bounds = dict[Var, tuple[PrimExpr, PrimExpr]]  # iterator: first value inside, first one after


@primitive(trace="", no_sampler="it only tells what decompose_padding would do")
def can_decompose_padding(block: BlockCursor, loop: LoopCursor) -> bool:
    """Return whether ``decompose_padding`` accepts the same arguments."""
    try:
        _Padding(block, loop)
    except ScheduleError:
        return False
    return True


@primitive()
def decompose_padding(block: BlockCursor, loop: LoopCursor) -> BlockCursor:
    """Split a block that chooses between a value and constant padding into two.

      for i in range(10):
          with T.block("B"):
              B[vi] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1], 0.0)
    decompose_padding(B, i)
      for i_pad in range(10):
          with T.block("B_pad_const"): B[vi] = 0.0
      for i in range(8):
          with T.block("B"): B[vi + 1] = A[vi]

    The padding is filled in right before ``loop``. Gives the block that fills. Refuses other
    blocks, conditions that are not bounds of single iterators, and loops with other statements.
    """
    padding = _Padding(block, loop)
    fill, fill_block = padding.fill()
    copy = padding.copy()
    new = padding.copied
    loop.replace(stmt_seq(fill, copy), {padding.block: new})
    return loop.block_of(fill_block)


class _Padding:
    """The pattern of a padding block, checked."""

    def __init__(self, cursor: BlockCursor, loop_cursor: LoopCursor) -> None:
        self.cursor = cursor
        self.realize = cursor.stmt
        self.block = self.realize.block
        name = self.block.name_hint
        scope = scope_of(cursor)
        reason = why_not_complete(cursor, scope)
        if reason:
            raise self.refuse(f"block '{name}' is not a complete block: {reason}")
        loops = cursor.loops()
        if loop_cursor not in loops:
            raise refuse(f"the loop is not an ancestor of block '{name}'", loop_cursor)
        self.outside: list[For] = [one.stmt for one in loops[: loops.index(loop_cursor)]]
        self.loops: list[For] = [one.stmt for one in loops[loops.index(loop_cursor) :]]
        for outer, inner in zip(self.loops, [*self.loops[1:], self.realize]):
            if outer.body is not inner:
                raise refuse("the loops hold other statements too", loop_cursor)
        self.store, condition, self.value, self.padding = self.pattern()
        self.inside = self.bounds(condition)
        self.check_padding()

    def refuse(self, reason: str, advice: str = "") -> Exception:
        return refuse(reason, self.cursor, advice)

    def pattern(self) -> tuple[BufferStore, PrimExpr, PrimExpr, PrimExpr]:
        """Return the store, the condition, the value where it holds, and the padding value."""
        store, name = self.block.body, self.block.name_hint
        value = store.value if isinstance(store, BufferStore) else None
        advice = "the body must be B[...] = T.if_then_else(condition, value, constant)"
        if isinstance(value, Select):
            parts = (value.condition, value.true_value, value.false_value)
        elif is_call(value, "tir.if_then_else"):
            parts = (value.args[0], value.args[1], value.args[2])
        else:
            parts = None
        if parts is None or not isinstance(store, BufferStore):
            raise self.refuse(f"block '{name}' does not choose between a value and padding", advice)
        if not is_const(parts[2]):
            raise self.refuse(f"the padding is not constant: {parts[2]}", advice)
        return store, *parts

    def check_padding(self) -> None:
        """Check that the buffer is written once per element, at plain iterators."""
        seen: set[Var] = set()
        own = {iterator.var for iterator in self.block.iter_vars}
        for index in self.store.indices:
            for variable in variables(index):
                if variable in own:
                    seen.add(variable)
        for iterator in self.block.iter_vars:
            if iterator.var not in seen and not is_const(iterator.domain.extent, 1):
                raise self.refuse(f"iterator '{iterator.var.name}' does not choose what is written")

    def bounds(self, condition: PrimExpr) -> Bounds:
        """Return the box of iterators in which the condition holds."""
        domain = {iterator.var: iterator.domain for iterator in self.block.iter_vars}
        found = {v: (dom.min, dom.min + dom.extent) for v, dom in domain.items()}
        analyzer = Analyzer()
        for variable, dom in domain.items():
            analyzer.bind(variable, dom)
        for clause in conjuncts(condition):
            if analyzer.can_prove(clause):
                continue
            used = [v for v in variables(clause) if v in domain]
            limits = self.limits(clause, used[0]) if len(used) == 1 else None
            if limits is None:
                raise self.refuse(
                    f"the condition {clause} is not a bound of one iterator",
                    "the padding must be outside of a box",
                )
            low, high = found[used[0]]
            if limits[0] is not None:
                low = maximum(low, limits[0])
            if limits[1] is not None:
                high = minimum(high, limits[1])
            found[used[0]] = (analyzer.simplify(low), analyzer.simplify(high))
        return found

    def limits(
        self, clause: PrimExpr, variable: Var
    ) -> tuple[PrimExpr | None, PrimExpr | None] | None:
        """Solve ``a * v + b >= 0`` for ``v``: return the first value, or the first value that is
        too large.
        """
        if not isinstance(clause, (LT, LE, GT, GE)):
            return None
        analyzer = Analyzer()
        sides = (clause.b, clause.a) if isinstance(clause, (LT, LE)) else (clause.a, clause.b)
        rest = analyzer.difference(*sides)
        if rest is None:
            return None
        if isinstance(clause, (LT, GT)):
            rest = rest - 1
        base = analyzer.simplify(substitute(rest, {variable: 0}))
        step = analyzer.simplify(substitute(rest, {variable: 1}) - base)
        if not isinstance(step, IntImm) or step.value == 0:
            return None
        if not analyzer.can_prove_equal(rest, base + step * variable):
            return None
        if step.value > 0:
            return analyzer.simplify(ceildiv(-base, step)), None
        return None, analyzer.simplify(floordiv(base, -step) + 1)

    # The two nests.

    def fill(self) -> tuple[Stmt, Block]:
        """Return the nest that writes the padding value to all elements that these loops write."""
        renamed: dict[Var, PrimExpr] = {}
        iterators = []
        for iterator in self.block.iter_vars:
            variable = Var(iterator.var.name, iterator.var.dtype)
            renamed[iterator.var] = variable
            iterators.append(IterVar(iterator.dom, variable, iterator.iter_type))
        rename = Substitution(renamed)
        indices = [rename.visit(index) for index in self.store.indices]
        block = Block(
            iterators,
            (),
            [rename.visit(region) for region in self.block.writes],
            f"{self.block.name_hint}_pad_const",
            BufferStore(self.store.buffer, self.padding, indices),
            span=self.block.span,
        )
        moved: dict[Var, PrimExpr] = {
            loop.loop_var: Var(f"{loop.loop_var.name}_pad", loop.loop_var.dtype)
            for loop in self.loops
        }
        relocate = Substitution(moved)
        realize: Stmt = BlockRealize(
            [relocate.visit(self.without_units(value)) for value in self.realize.iter_values],
            relocate.visit(self.realize.predicate),
            block,
        )
        for loop in reversed(self.loops):
            realize = loop.with_fields(
                loop_var=moved[loop.loop_var],
                min=relocate.visit(loop.min),
                extent=relocate.visit(loop.extent),
                kind=ForKind.SERIAL if loop.kind is ForKind.THREAD_BINDING else loop.kind,
                thread_binding=None,
                body=realize,
            )
        return realize, block

    def copy(self) -> Stmt:
        """Return the nest that copies inside the box: loops that drive one iterator shrink, others
        get a condition.
        """
        analyzer = Analyzer()
        shifts: dict[Var, PrimExpr] = {}
        iterators: list[IterVar] = []
        values: list[PrimExpr] = []
        conditions = conjuncts(self.realize.predicate)
        extents: dict[Var, PrimExpr] = {}
        for iterator, value in zip(self.block.iter_vars, self.realize.iter_values):
            low, high = self.inside[iterator.var]
            dom = iterator.domain
            if analyzer.can_prove_equal(low, dom.min) and analyzer.can_prove_equal(
                high, dom.min + dom.extent
            ):
                iterators.append(iterator)
            elif isinstance(value, Var) and self.owns_loop(value, dom):
                extent = analyzer.simplify(maximum(high - low, 0))
                extents[value] = extent
                shifts[iterator.var] = iterator.var + low if not is_const(low, 0) else iterator.var
                whole = Range.from_min_extent(const(0, dom.extent.dtype), extent)
                iterators.append(iterator.with_fields(dom=whole))
            else:
                conditions += [low <= value, value < high]
                extent = analyzer.simplify(maximum(high - low, 0))
                whole = Range.from_min_extent(const(0, dom.extent.dtype), extent)
                iterators.append(iterator.with_fields(dom=whole))
                if not is_const(low, 0):
                    shifts[iterator.var] = iterator.var + low
                    value = analyzer.simplify(value - low)
            values.append(value)
        self.copied = self.copied_block(iterators, shifts, analyzer)
        kept = [one for one in conditions if not is_const(one, 1)]
        predicate = all_of(*kept) if kept else const(True, "bool")
        values = [self.without_units(value) for value in values]
        body: Stmt = BlockRealize(values, predicate, self.copied, self.realize.span)
        for loop in reversed(self.loops):
            extent = extents.get(loop.loop_var, loop.extent)
            body = loop.with_fields(extent=extent, body=body)
        return body

    def without_units(self, value: PrimExpr) -> PrimExpr:
        """Return a binding in which outer loops of extent 1 are replaced by their value."""
        units = {loop.loop_var: loop.min for loop in self.outside if is_const(loop.extent, 1)}
        new = substitute(value, units)
        return value if new is value else Analyzer().simplify(new)

    def owns_loop(self, value: Var, dom: Range) -> bool:
        """Return whether an iterator is bound to a loop of its own with the same range."""
        for loop in self.loops:
            if value is loop.loop_var:
                others = [one for one in self.realize.iter_values if one is not value]
                used = set(variables([*others, self.realize.predicate]))
                analyzer = Analyzer()
                return (
                    value not in used
                    and not any(mentions(one.extent, {loop.loop_var}) for one in self.loops)
                    and loop.thread_binding is None
                    and analyzer.can_prove_equal(loop.min, 0)
                    and analyzer.can_prove_equal(dom.min, 0)
                    and analyzer.can_prove_equal(loop.extent, dom.extent)
                )
        return False

    def copied_block(
        self, iterators: list[IterVar], shifts: dict[Var, PrimExpr], analyzer: Analyzer
    ) -> Block:
        """Return the block that only stores the value."""
        for iterator in iterators:
            analyzer.bind(iterator.var, iterator.domain)
        shift = SimplifiedSubstitution(shifts, analyzer)
        body = shift.visit(self.store.with_fields(value=self.value))
        # What only the condition loaded is not read any more.
        sources = [view.source for view in self.block.match_buffers]
        kept = [
            one for one in self.block.reads if uses_variable([body, *sources], {one.buffer.data})
        ]
        return self.block.with_fields(
            iter_vars=tuple(iterators),
            reads=tuple([shift.visit(region) for region in kept]),
            writes=tuple([shift.visit(region) for region in self.block.writes]),
            body=body,
        )
