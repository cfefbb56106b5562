"""The loops of a stage, from its leaves: serial, vectorized, unrolled and parallel loops, threads,
virtual threads, pragmas, prefetches; loops of one iteration become their value.

    nest = LoopNest(stage, bounds)
    nest.values                        # axis → its value inside of the loops
    nest.wrap(body, placement.at)      # the loops around a statement
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr, Range, StringImm, Var, const
from tilesmith.ir.intrinsics import likely
from tilesmith.ir.operators import cast, is_const
from tilesmith.ir.queries import variables
from tilesmith.te.places import span_of
from tilesmith.te.schedule.loop_attributes import LoopAttributes
from tilesmith.te.schedule.message_passing import (
    guards,
    is_virtual_thread,
    pass_up_values,
    thread_of,
)
from tilesmith.te.schedule.operations.rules import Bounds
from tilesmith.te.schedule.placement import AttachPaths
from tilesmith.te.schedule.refusals import describe, refuse
from tilesmith.te.schedule.stage import Stage
from tilesmith.tir.expr import IterVar
from tilesmith.tir.stmt import AttrStmt, For, ForKind, IfThenElse, Stmt

__all__ = ["PREFETCH_SCOPE", "LoopNest", "with_conditions", "with_pragmas"]

PREFETCH_SCOPE = "prefetch_scope"

_KINDS = {
    IterVar.DataPar: ForKind.SERIAL,
    IterVar.CommReduce: ForKind.SERIAL,
    IterVar.Ordered: ForKind.SERIAL,
    IterVar.Unrolled: ForKind.UNROLLED,
    IterVar.Vectorized: ForKind.VECTORIZED,
    IterVar.Parallelized: ForKind.PARALLEL,
}

_NONE = LoopAttributes()


def with_conditions(conditions: Sequence[PrimExpr], body: Stmt, are_likely: bool = True) -> Stmt:
    """Return a statement that runs where all conditions hold."""
    for condition in reversed(conditions):
        body = IfThenElse(likely(condition) if are_likely else condition, body)
    return body


class LoopNest:
    """The loops of the leaves of a stage from ``first`` on.

    ``renewed``: the loops get variables of their own (the stage's are used by another nest);
    axes of ``left_out`` get no loop. ``outer`` are the values of the leaves before ``first``.
    """

    def __init__(
        self,
        stage: Stage,
        bounds: Bounds,
        keep_trivial_loops: bool = False,
        first: int = 0,
        renewed: bool = False,
        left_out: Container[IterVar] = (),
        outer: dict[IterVar, PrimExpr] | None = None,
    ) -> None:
        self.stage = stage
        self.bounds = bounds
        self.keep_trivial_loops = keep_trivial_loops
        self.renewed = renewed
        self.left_out = left_out
        self.analyzer = Analyzer()
        self.values: dict[IterVar, PrimExpr] = dict(outer or {})
        self.layers: list[tuple[IterVar, Callable[[Stmt], Stmt]]] = []
        self._know_around()
        for number, axis in enumerate(stage.leaf_iter_vars):
            if number < first:
                self._know(stage, axis)
            elif axis not in left_out:
                self.layers.append((axis, self._layer(axis)))
        pass_up_values(stage, bounds, self.values)

    def guards(self) -> list[PrimExpr]:
        """Return the conditions under which an iteration of the loops counts."""
        return guards(self.stage, self.bounds, self.values, self.analyzer, self.left_out)

    def substitution(self) -> dict[Var, PrimExpr]:
        """Return the values of the variables of the root axes."""
        found = {}
        for axis in self.stage.op.root_iter_vars:
            value = self.values.get(axis)
            if value is not None and value is not axis.var:
                found[axis.var] = self.analyzer.simplify(value)
        return found

    def wrap(
        self,
        body: Stmt,
        at: Callable[[IterVar, Stmt], Stmt] | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> Stmt:
        """Return the loops of the layers from ``start`` to ``end`` around a statement; ``at`` puts
        other stages into the body of each of them.
        """
        for axis, layer in reversed(self.layers[start:end]):
            if at is not None:
                body = at(axis, body)
            body = layer(body)
        return body

    def _know_around(self) -> None:
        """Tell the analyzer the ranges of the loops around the stage on which its bounds depend."""
        roots = [self.bounds[axis] for axis in self.stage.op.root_iter_vars if axis in self.bounds]
        used = set(variables([end for one in roots for end in (one.min, one.extent)]))
        if used:
            for loop in AttachPaths()[self.stage]:
                self._know(loop.stage, loop.axis)

    def _know(self, stage: Stage, axis: IterVar) -> None:
        """Tell the analyzer the range of a loop around."""
        domain, thread = self.bounds[axis], thread_of(stage, axis)
        variable = axis.var if thread is None else thread.var
        if thread is None and not is_const(domain.min, 0):
            return
        extent = cast(variable.dtype, domain.extent)
        self.analyzer.bind(variable, Range.from_min_extent(const(0, variable.dtype), extent))

    def _layer(self, axis: IterVar) -> Callable[[Stmt], Stmt]:
        """Record the value of a leaf; return the function that puts its loop around a
        statement.
        """
        domain = self.bounds[axis]
        found = self.stage.iter_var_attrs.get(axis, _NONE)
        thread = thread_of(self.stage, axis)
        if thread is not None:
            return self._thread(axis, thread, domain, found)
        kind = _KINDS.get(found.iter_type)
        if kind is None:
            kind = _KINDS.get(axis.iter_type, ForKind.SERIAL)
        trivial = is_const(domain.extent, 1) and not self.keep_trivial_loops
        if trivial:
            self.values[axis] = domain.min
            return lambda body: with_pragmas(found, _prefetched(found, body))
        starts_at_zero = is_const(domain.min, 0)
        variable = axis.var
        if self.renewed or not starts_at_zero:
            variable = Var(axis.var.name, axis.var.dtype)
        self.values[axis] = variable if starts_at_zero else domain.min + variable
        zero = const(0, variable.dtype)
        extent = cast(variable.dtype, domain.extent)
        self.analyzer.bind(variable, Range.from_min_extent(zero, extent))

        def around(body: Stmt) -> Stmt:
            loop = For(variable, zero, extent, kind, _prefetched(found, body))
            return with_pragmas(found, loop)

        return around

    def _thread(
        self, axis: IterVar, thread: IterVar, domain: Range, found: LoopAttributes
    ) -> Callable[[Stmt], Stmt]:
        """Return the function that runs a statement on the threads of an axis."""
        variable = thread.var
        extent = cast(variable.dtype, domain.extent)
        first = Range.from_min_extent(const(0, variable.dtype), extent)
        self.analyzer.bind(variable, first)
        if is_const(extent, 1) and not self.keep_trivial_loops:
            self.values[axis] = domain.min
        else:
            value = cast(axis.var.dtype, variable)
            self.values[axis] = value if is_const(domain.min, 0) else domain.min + value
        key = "virtual_thread" if is_virtual_thread(thread) else "thread_extent"
        node = IterVar(first, variable, IterVar.ThreadIndex, thread.thread_tag)
        span = span_of(found.bound_at)

        def around(body: Stmt) -> Stmt:
            # inside: what a pragma says belongs to the kernel
            inner = with_pragmas(found, _prefetched(found, body))
            return AttrStmt(node, key, extent, inner, span)

        if thread.thread_tag == "pipeline":
            raise refuse(
                "bind", self.stage, f"{describe(axis)} is bound to a pipeline", axis,
                "pipelines are stages of TensorIR: annotate software_pipeline_stage",
            )  # fmt: skip
        return around


def with_pragmas(found: LoopAttributes, body: Stmt) -> Stmt:
    """Return a loop with its pragmas around it."""
    for pragma in reversed(found.pragmas):
        value = const(1, "int32") if pragma.value is None else pragma.value
        if isinstance(value, str):
            value = StringImm(value)
        body = AttrStmt(const(0, "int32"), f"pragma_{pragma.key}", value, body)
    return body


def _prefetched(found: LoopAttributes, body: Stmt) -> Stmt:
    """Return the body of a loop with what it prefetches; `postprocessing` finds the regions."""
    for one in reversed(found.prefetches):
        body = AttrStmt(one.tensor, PREFETCH_SCOPE, one.offset, body)
    return body
