"""Hybrid scripts in a schedule: primitives rewrite the loops that the script has.

for i in range(10): c[i] = a[i]     split(i, 4)     for i_outer in range(3):
                                    vectorize           for i_inner in vectorized(4):
                                                            if i_outer * 4 + i_inner < 10: …

The loops of a script run one after the other, as Python's do. Loops run at the same time, or in
another order, only where iterations are known to be independent: each writes elements of its own,
and reads none that another one writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.arith import Analyzer, IntervalSet, IntSet, detect_linear_equation
from tilesmith.ir import IntImm, PrimExpr, Range, Rewriter, Var, const, structural_equal
from tilesmith.ir.intrinsics import likely
from tilesmith.ir.operators import cast, floordiv, floormod, is_const
from tilesmith.ir.queries import any_node, mentions, nodes
from tilesmith.te.bodies import replace_tensors
from tilesmith.te.schedule.loop_nest import with_pragmas
from tilesmith.te.schedule.message_passing import pass_down_marks, thread_of
from tilesmith.te.schedule.operations.extern import whole_ranges
from tilesmith.te.schedule.operations.rules import (
    OPERATIONS,
    Bounds,
    OperationRules,
    Placement,
    Regions,
)
from tilesmith.te.schedule.refusals import describe, position, refuse
from tilesmith.te.schedule.relations import Fuse, Rebase, Split
from tilesmith.te.schedule.stage import Stage
from tilesmith.te.tensor import HybridOp
from tilesmith.tir.expr import IterVar, ProducerLoad
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import (
    AttrStmt,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    ProducerRealize,
    ProducerStore,
    Stmt,
)

__all__: list[str] = []


def _reads(op: HybridOp, sets: Mapping[Var, IntervalSet], analyzer: Analyzer) -> Regions:
    return {
        tensor: [IntSet.from_range(one) for one in whole_ranges(tensor)]
        for tensor in op.input_tensors
    }


def _domains(op: HybridOp, needed: Regions, analyzer: Analyzer) -> Bounds:
    return {axis: axis.domain for axis in op.axis}


def _realize(stage: Stage, bounds: Bounds, body: Stmt, scope: str) -> Stmt:
    for number in reversed(range(stage.op.num_outputs)):
        tensor = stage.op.output(number)
        ranges = whole_ranges(tensor)
        body = ProducerRealize(tensor, ranges, const(True, "bool"), body, scope)
    return body


def _provide(stage: Stage, bounds: Bounds, placement: Placement) -> Stmt:
    op = stage.op
    _Order(stage).check()
    body = op.body
    for relation in stage.relations:
        body = _related(stage, relation, bounds, body)
    body = _reordered(stage, body)
    body = _Kinds(stage, bounds).visit(body)
    for axis in stage.leaf_iter_vars:
        body = placement.at(axis, body)  # no stage can be computed inside
    return replace_tensors(body, {one: op.output(k) for k, one in enumerate(op.outputs)})


# Relations


class _Loops(Rewriter):
    """Replaces the loop of one variable."""

    def __init__(self, variable: Var, replace: Callable[[For], Stmt]) -> None:
        self.variable = variable
        self.replace = replace

    def visit_For(self, loop: For) -> Stmt:
        return self.replace(loop) if loop.loop_var is self.variable else self.children(loop)


def _related(stage: Stage, relation: Any, bounds: Bounds, body: Stmt) -> Stmt:
    """Return the loops after one primitive."""
    if isinstance(relation, Rebase):
        return _Loops(relation.parent.var, lambda loop: _renamed(loop, relation.rebased)).visit(
            body
        )
    if isinstance(relation, Split):
        return _Loops(relation.parent.var, lambda loop: _split(loop, relation, bounds)).visit(body)
    if isinstance(relation, Fuse):
        return _Loops(relation.outer.var, lambda loop: _fused(stage, loop, relation, bounds)).visit(
            body
        )
    raise refuse(
        "schedule", stage, f"{type(relation).__name__} of the loops of a hybrid script is not "
        "supported", None, "split, fuse, reorder and mark the loops",
    )  # fmt: skip


def _renamed(loop: For, axis: IterVar) -> Stmt:
    body = substitute(loop.body, {loop.loop_var: axis.var})
    return loop.with_fields(loop_var=axis.var, body=body)


def _split(loop: For, relation: Split, bounds: Bounds) -> Stmt:
    outer, inner = relation.outer.var, relation.inner.var
    extents = [cast(outer.dtype, bounds[axis].extent) for axis in relation.below]
    value = outer * extents[1] + inner
    body = substitute(loop.body, {loop.loop_var: value})
    if not Analyzer().can_prove_equal(extents[0] * extents[1], loop.extent):
        body = _guarded(likely(value < cast(value.dtype, loop.extent)), body)
    inside = For(inner, 0, extents[1], loop.kind, body)
    return For(outer, 0, extents[0], ForKind.SERIAL, inside, span=loop.span)


def _guarded(condition: PrimExpr, body: Stmt) -> Stmt:
    """Return a statement under a condition, which moves inside of loops that are its only part, so
    that these stay nested directly.
    """
    if isinstance(body, For):
        return body.with_fields(body=_guarded(condition, body.body))
    return IfThenElse(condition, body)


def _fused(stage: Stage, loop: For, relation: Fuse, bounds: Bounds) -> Stmt:
    inside = loop.body
    if not isinstance(inside, For) or inside.loop_var is not relation.inner.var:
        raise refuse(
            "fuse", stage,
            f"'{relation.inner.var.name}' is not the only statement in "
            f"'{relation.outer.var.name}'",
            None, "only loops that are nested directly can be fused", relation.place,
        )  # fmt: skip
    fused = relation.fused.var
    size = cast(fused.dtype, inside.extent)
    values = {
        loop.loop_var: cast(loop.loop_var.dtype, floordiv(fused, size)),
        inside.loop_var: cast(inside.loop_var.dtype, floormod(fused, size)),
    }
    extent = cast(fused.dtype, bounds[relation.fused].extent)
    return For(fused, 0, extent, loop.kind, substitute(inside.body, values), span=loop.span)


# Order


def _chains(body: Stmt) -> list[list[For]]:
    """Return the loops that are nested directly, each group from outside to inside."""
    inner = {loop.body for loop in nodes(body, For) if isinstance(loop.body, For)}
    chains = []
    for loop in nodes(body, For):
        if loop in inner:
            continue
        chain = [loop]
        while isinstance(chain[-1].body, For):
            chain.append(chain[-1].body)
        chains.append(chain)
    return chains


def _reordered(stage: Stage, body: Stmt) -> Stmt:
    """Return the loops in the order of the leaves of a stage."""
    places = {axis.var: number for number, axis in enumerate(stage.leaf_iter_vars)}
    chains = _chains(body)
    written = [loop.loop_var for chain in chains for loop in chain]
    wanted = []
    for chain in chains:
        wanted += sorted([loop.loop_var for loop in chain], key=lambda var: places.get(var, -1))
    listed = [var for var in wanted if var in places]
    if [places[var] for var in listed] != sorted([places[var] for var in listed]):
        raise refuse(
            "reorder", stage, "the loops of the script are not nested as their new order says",
            None, "only loops that are nested directly can change places",
        )  # fmt: skip
    if all(a is b for a, b in zip(written, wanted)):
        return body
    for chain in chains:
        order = sorted(chain, key=lambda loop: places.get(loop.loop_var, -1))
        if any(a is not b for a, b in zip(order, chain)):
            body = _Loops(
                chain[0].loop_var,
                lambda _, chain=chain, order=order: _nested(stage, order, chain[-1].body),
            ).visit(body)  # type: ignore[misc]
    return body


def _nested(stage: Stage, order: Sequence[For], body: Stmt) -> Stmt:
    for number in reversed(range(len(order))):
        loop = order[number]
        inside = {one.loop_var for one in order[number + 1 :]}
        if mentions([loop.min, loop.extent], inside | {loop.loop_var}) or mentions(
            loop.extent, {one.loop_var for one in order[number + 1 :]}
        ):
            raise refuse(
                "reorder", stage, f"the end of loop '{loop.loop_var.name}' changes in a loop that "
                "is to be inside of it", None, "keep the order of these loops",
            )  # fmt: skip
        body = loop.with_fields(body=body)
    return body


# Kinds


class _Kinds(Rewriter):
    """Marks loops as the stage says: vectorized, parallel, unrolled, run on threads."""

    def __init__(self, stage: Stage, bounds: Bounds) -> None:
        self.stage = stage
        self.leaves = {axis.var: axis for axis in stage.leaf_iter_vars}

    def visit_For(self, loop: For) -> Stmt:
        axis = self.leaves.get(loop.loop_var)
        found = None if axis is None else self.stage.iter_var_attrs.get(axis)
        if axis is None or found is None:
            return self.children(loop)
        thread = thread_of(self.stage, axis)
        if thread is not None:
            value = cast(loop.loop_var.dtype, thread.var)
            body = self.visit(substitute(loop.body, {loop.loop_var: value}))
            domain = Range.from_min_extent(0, cast(thread.var.dtype, loop.extent))
            node = IterVar(domain, thread.var, IterVar.ThreadIndex, thread.thread_tag)
            return with_pragmas(found, AttrStmt(node, "thread_extent", domain.extent, body))
        if found.prefetches:
            raise refuse(
                "prefetch", self.stage, "the loops of a hybrid script do not prefetch", axis
            )
        kind = _KINDS.get(found.iter_type, loop.kind)
        new: Any = self.children(loop)
        return with_pragmas(found, new.with_fields(kind=kind))


_KINDS = {
    IterVar.Unrolled: ForKind.UNROLLED,
    IterVar.Vectorized: ForKind.VECTORIZED,
    IterVar.Parallelized: ForKind.PARALLEL,
}


# Independence


class _Order:
    """Checks that what a stage says about the loops of a script keeps its results."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.loops = {loop.loop_var: loop for loop in nodes(stage.op.body, For)}
        self.known: dict[Var, str] = {}

    def check(self) -> None:
        """Refuse loops that run at the same time, or change places, and are not independent."""
        bits = {axis: 1 << number for number, axis in enumerate(self.stage.op.axis)}
        marks = dict(bits)
        pass_down_marks(self.stage, marks)
        for axis in self.stage.leaf_iter_vars:
            found = self.stage.iter_var_attrs.get(axis)
            if found is not None and found.iter_type == IterVar.Tensorized:
                raise refuse("tensorize", self.stage, "a hybrid script is not tensorized", axis)
            at_once = found is not None and found.iter_type in (
                IterVar.Vectorized,
                IterVar.Parallelized,
            )
            if at_once or thread_of(self.stage, axis) is not None:
                self.require_independent(self.roots(marks.get(axis, 0)), axis, "run at once")
        leaves = self.stage.leaf_iter_vars
        for number, outer in enumerate(leaves):
            for inner in leaves[number + 1 :]:
                self.check_pair(marks.get(outer, 0), marks.get(inner, 0), inner)

    def roots(self, bits: int) -> list[IterVar]:
        """Return the loops of the script that a leaf comes from."""
        return [axis for number, axis in enumerate(self.stage.op.axis) if bits & (1 << number)]

    def check_pair(self, outer: int, inner: int, axis: IterVar) -> None:
        """Refuse two leaves of which the inner one comes from a loop that was outside, unless one
        of both is independent.
        """
        for a in self.roots(outer):
            for b in self.roots(inner):
                if a is b:
                    continue
                order = self.stage.op.axis
                was_inside = position(order, a) > position(order, b)  # type: ignore[operator]
                if was_inside and self.reason(a.var) and self.reason(b.var):
                    self.require_independent([b], axis, f"change places with '{a.var.name}'")

    def require_independent(self, roots: Sequence[IterVar], axis: IterVar, what: str) -> None:
        for root in roots:
            reason = self.reason(root.var)
            if reason:
                raise refuse(
                    "schedule", self.stage,
                    f"{describe(axis)} cannot {what}: in the loop '{root.var.name}' of the script "
                    f"{reason}",
                    axis, "keep the order of this loop, or write the script with another one",
                )  # fmt: skip

    def reason(self, variable: Var) -> str:
        """Return why iterations of a loop depend on each other; "" if they do not."""
        if variable not in self.known:
            self.known[variable] = self._find_reason(self.loops[variable])
        return self.known[variable]

    def _find_reason(self, loop: For) -> str:
        private = {one.producer for one in nodes(loop.body, ProducerRealize)}
        stored = [one for one in nodes(loop.body, ProducerStore) if one.producer not in private]
        loads = list(nodes(loop.body, ProducerLoad))
        inside = {one.loop_var for one in nodes(loop.body, For)}
        inside |= {one.var for one in nodes(loop.body, LetStmt)}
        for store in stored:
            tensor: Any = store.producer
            others = [one for one in [*stored, *loads] if one.producer is tensor]
            separated = [
                number
                for number, index in enumerate(store.indices)
                if self._separates(index, loop.loop_var, inside)
                and all(structural_equal(one.indices[number], index) for one in others)
            ]
            if not separated:
                return f"different iterations may use the same elements of '{tensor.name}'"
        return ""

    def _separates(self, index: PrimExpr, variable: Var, inside: set[Var]) -> bool:
        """Return whether an index has another value in each iteration of a loop."""
        if mentions(index, inside) or any_node(index, lambda one: isinstance(one, ProducerLoad)):
            return False
        parts = detect_linear_equation(index, [variable])
        if len(parts) != 2 or mentions(parts[1], {variable}):
            return False
        factor = Analyzer().simplify(parts[0])
        return isinstance(factor, IntImm) and not is_const(factor, 0)


OPERATIONS.handles(HybridOp)(OperationRules(_reads, _domains, _realize, _provide))
