"""LowerParallelRegions: parallel loops that share one start of the threads.

    pragma parallel_launch_point:               for task in T.parallel(T.parallel_tasks()):
        for t in range(100):                        for t in range(100):
            pragma parallel_stride_pattern:             for j in range(…):
                for i in T.parallel(n):                     i = task + j * T.parallel_tasks()
                    …                                       …
            pragma parallel_barrier_when_finish:        for i in range(task * share, …):
                for i in T.parallel(n):                     …
                    …                                   T.parallel_barrier()

A parallel loop starts and ends its threads itself. In a region all workers run the statements
around the parallel loops, and divide the iterations of these: in equal contiguous shares, or, by
the stride pattern, every worker the iterations ``task``, ``task + tasks``, … of the loop. The end
of a loop waits for nobody, unless ``parallel_barrier_when_finish`` stands on it. Memory that is
allocated in a region, outside of its parallel loops, is that of all workers: it moves before it.

The loop over the tasks has the annotation ``parallel_region``: back ends call its body once with
each number of a task, all at the same time. ``T.parallel_tasks()`` is their number, 1 outside of
regions, so that the program has its meaning also where one thread runs it.

What all workers would do at once although it is meant to be done once (a store outside of the
parallel loops, a branch on values that the region computes) cannot be part of a region. Then each
parallel loop starts its threads itself, as without the pragmas; that is recorded as a fallback.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr, Rewriter, Var, const
from tilesmith.ir.intrinsic_table import intrinsic_call
from tilesmith.ir.operators import cast, minimum, truncdiv
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, mentions, nodes
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import has_side_effect, loads, stores
from tilesmith.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)

__all__ = ["BARRIER", "LAUNCH", "REGION", "STRIDE", "lower_parallel_regions"]

LAUNCH = "pragma_parallel_launch_point"
STRIDE = "pragma_parallel_stride_pattern"
BARRIER = "pragma_parallel_barrier_when_finish"
REGION = "parallel_region"
"""The annotation of a loop whose iterations are the tasks of a region."""


class _NotTogether(Exception):
    """A statement is not for all workers of a region; the reason is its text."""


def _is_parallel(node: Any) -> bool:
    return isinstance(node, For) and node.kind is ForKind.PARALLEL


def _is_for_one(node: Any) -> bool:
    return isinstance(node, (BufferStore, AssertStmt))


def _is_region(node: Any) -> bool:
    return isinstance(node, AttrStmt) and node.attr_key in (LAUNCH, STRIDE)


class _Region:
    """Rewrites the statement of one region for the worker ``task`` of ``tasks``."""

    def __init__(self, body: Stmt) -> None:
        self.task, self.tasks = Var("task", "int32"), Var("tasks", "int32")
        self.written = {store.buffer.data for store in stores(body)}
        self.defined: list[Var] = []  # variables of the statements around, in the region
        self.allocations: list[Allocate] = []

    def statement(self, body: Stmt) -> Stmt:
        """Return the region as one loop over its tasks."""
        inner = LetStmt(self.tasks, intrinsic_call("int32", "parallel_tasks"), self.visit(body))
        count = intrinsic_call("int32", "parallel_tasks")
        zero = const(0, "int32")
        loop: Stmt = For(
            self.task, zero, count, ForKind.PARALLEL, inner, None, {REGION: const(1, "int32")}
        )
        for allocation in reversed(self.allocations):
            loop = allocation.with_fields(body=loop)
        return loop

    def visit(self, stmt: Stmt, strided: bool = False) -> Stmt:
        """Return a statement as each worker runs it."""
        if isinstance(stmt, AttrStmt):
            return self.attribute(stmt, strided)
        if _is_parallel(stmt):
            return self.divided(stmt, strided)  # type: ignore[arg-type]
        if not any_node(stmt, _is_parallel):
            if has_side_effect(stmt) or any_node(stmt, _is_for_one):
                raise _NotTogether("it stores outside of its parallel loops")
            return stmt
        if isinstance(stmt, SeqStmt):
            return stmt_seq(*[self.visit(part, strided) for part in stmt.seq], span=stmt.span)
        if isinstance(stmt, IfThenElse):
            self.require_common(stmt.condition)
            other = None if stmt.else_case is None else self.visit(stmt.else_case, strided)
            return stmt.with_fields(then_case=self.visit(stmt.then_case, strided), else_case=other)
        if isinstance(stmt, While):
            raise _NotTogether("parallel loops stand inside of a while loop")
        return self.around(stmt, strided)

    def around(self, stmt: Any, strided: bool) -> Stmt:
        """Return a statement with one body, of loops, definitions and memory around parallel
        loops.
        """
        if isinstance(stmt, For):
            self.require_common(stmt.min, stmt.extent)
            self.defined.append(stmt.loop_var)
        elif isinstance(stmt, LetStmt):
            self.require_common(stmt.value)
            self.defined.append(stmt.var)
        elif isinstance(stmt, AssertStmt):
            self.require_common(stmt.condition)
        body = self.visit(stmt.body, strided)
        if isinstance(stmt, Allocate):
            self.require_common(*stmt.extents, stmt.condition)
            if mentions([*stmt.extents, stmt.condition], set(self.defined)):
                raise _NotTogether(f"the size of '{stmt.buffer_var.name}' changes inside of it")
            self.allocations.append(stmt)
            return body
        return stmt.with_fields(body=body)  # type: ignore[no-any-return]

    def attribute(self, stmt: AttrStmt, strided: bool) -> Stmt:
        if stmt.attr_key == LAUNCH:
            return self.visit(stmt.body, strided)
        if stmt.attr_key == STRIDE:
            return self.visit(stmt.body, True)
        if stmt.attr_key == BARRIER:
            barrier = Evaluate(intrinsic_call("int32", "parallel_barrier"))
            return stmt_seq(self.visit(stmt.body, strided), barrier)
        return stmt.with_fields(body=self.visit(stmt.body, strided))

    def require_common(self, *values: PrimExpr) -> None:
        """Refuse values that may differ between workers, or change while they run."""
        if any(load.buffer.data in self.written for load in loads(values)):
            raise _NotTogether("what it does depends on values that it computes")
        if any(has_side_effect(value) for value in values):
            raise _NotTogether("it calls what has effects, outside of its parallel loops")

    def divided(self, loop: For, strided: bool) -> Stmt:
        """Return one worker's iterations of a parallel loop."""
        inner = [one for one in nodes(loop.body, AttrStmt) if one.attr_key == BARRIER]
        if inner:
            raise ScheduleError(
                f"parallel_barrier_when_finish stands inside of the parallel loop "
                f"'{loop.loop_var.name}': its workers have different numbers of iterations, and "
                "would wait for each other forever",
                inner[0].span,
                ("put the pragma on the parallel loop, or on a loop around it",),
            )
        self.require_common(loop.min, loop.extent)
        dtype = loop.loop_var.dtype
        task, tasks = cast(dtype, self.task), cast(dtype, self.tasks)
        if strided:
            turn = Var(loop.loop_var.name + "_turn", dtype)
            count = truncdiv(loop.extent - task + tasks - 1, tasks)
            body = LetStmt(loop.loop_var, loop.min + task + turn * tasks, loop.body)
            return For(
                turn, const(0, dtype), count, ForKind.SERIAL, body, None, loop.annotations,
                loop.span,
            )  # fmt: skip
        share = Var(loop.loop_var.name + "_share", dtype)
        first = Var(loop.loop_var.name + "_first", dtype)
        count = minimum(share, loop.extent - first)
        one = loop.with_fields(min=loop.min + first, extent=count, kind=ForKind.SERIAL)
        begin = minimum(task * share, loop.extent)
        return LetStmt(share, truncdiv(loop.extent + tasks - 1, tasks), LetStmt(first, begin, one))


class _Regions(Rewriter):
    """Finds regions; what stands inside of a parallel loop is run by one worker anyway."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_For(self, loop: For) -> Stmt:
        return loop if _is_parallel(loop) else self.children(loop)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if not _is_region(attribute) or not any_node(attribute.body, _is_parallel):
            return self.children(attribute)
        try:
            return _Region(attribute).statement(attribute)
        except _NotTogether as reason:
            record_fallback("threads", self.name, f"its loops start threads each: {reason}")
            return attribute


@compiler_pass("tir.LowerParallelRegions")
def lower_parallel_regions(func: PrimFunc) -> PrimFunc:
    """Make one parallel loop of each region that a pragma ``parallel_launch_point`` begins."""
    if not any_node(func.body, _is_region):
        return func
    name = str(func.attrs.get("global_symbol", "a function"))
    return func.with_body(_Regions(name).visit(func.body))
