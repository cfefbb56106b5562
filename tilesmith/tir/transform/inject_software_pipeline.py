"""InjectSoftwarePipeline: statements of one iteration run in different turns of the loop.

    for k in T.serial(4, annotations={          A_s = T.alloc_buffer((2, 16), scope="shared")
            "software_pipeline_stage": [0, 1],  A_s[0, ...] = A[..., 0]             (prologue)
            "software_pipeline_order": [0, 1]}):for k in range(3):                  (body)
        with T.block():                             A_s[(k + 1) % 2, ...] = A[..., k + 1]
            A_s = T.alloc_buffer((16,), ...)        use A_s[k % 2, ...]
            A_s[...] = A[..., k]                use A_s[1, ...]                     (epilogue)
            use A_s[...]

The annotation ``software_pipeline_stage`` gives each statement of the body the turn in which it
runs, counted from the first one's; ``software_pipeline_order`` their order within a turn. A buffer
that is allocated in the body gets as many versions as are alive at once. With
``software_pipeline_async_stages`` the statements of these stages run in the background
(``async_scope``); those that need their results wait for them, with as many groups of copies still
under way as can be. The block annotation ``double_buffer_scope`` asks for two versions of a buffer
that needs one. Pipelines may be nested: the three parts of an inner one count as statements of
the outer one.

Raises ScheduleError where the annotation would let a statement run before one that it depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, Var, Visitor, const
from tilesmith.ir.operators import all_of, is_const
from tilesmith.ir.transform import Pass
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import post_order_visit, renew_defs, substitute
from tilesmith.tir.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    MatchBufferRegion,
    Stmt,
    stmt_list,
    stmt_seq,
)
from tilesmith.tir.transform.buffer_versions import VersionedBuffers
from tilesmith.tir.transform.registration import function_pass, register_pass

__all__ = ["InjectSoftwarePipeline", "inject_software_pipeline"]

STAGE = "software_pipeline_stage"
ORDER = "software_pipeline_order"
ASYNC = "software_pipeline_async_stages"


class _Step(NamedTuple):
    """One statement of the body."""

    stmt: Stmt
    stage: int
    order: int
    reads: set[Var]
    writes: set[Var]


class _Touches(Visitor):
    """The memory that a statement reads and writes; other uses of a pointer count as both."""

    def __init__(self) -> None:
        self.reads: set[Var] = set()
        self.writes: set[Var] = set()
        self.same: dict[Var, Var] = {}

    def root(self, pointer: Var) -> Var:
        return self.same.get(pointer, pointer)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.reads.add(self.root(node.buffer.data))
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.writes.add(self.root(node.buffer.data))
        self.visit_children(node)

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> None:
        self.same[node.buffer.data] = self.root(node.source.buffer.data)

    def visit_Block(self, node: Block) -> None:
        for match in node.match_buffers:
            self.visit(match)
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)

    def visit_Var(self, node: Var) -> None:
        if node.dtype.is_handle:
            self.reads.add(self.root(node))
            self.writes.add(self.root(node))

    def visit_Call(self, node: Any) -> None:
        if getattr(node.op, "name", "") == "tir.tvm_access_ptr" and isinstance(node.args[1], Var):
            mask = node.args[4].value if isinstance(node.args[4], IntImm) else 3
            pointer = self.root(node.args[1])
            if mask & 1:
                self.reads.add(pointer)
            if mask & 2:
                self.writes.add(pointer)
            self.visit(node.args[2])
            return
        self.visit_children(node)


def touched(stmt: Stmt) -> tuple[set[Var], set[Var]]:
    """The pointers behind which a statement reads and writes."""
    finder = _Touches()
    finder.visit(stmt)
    return finder.reads, finder.writes


def _numbers(loop: For, key: str, count: int) -> list[int]:
    values = loop.annotations.get(key, ())
    numbers = [int(value) for value in (values if isinstance(values, (tuple, list)) else (values,))]
    if len(numbers) != count:
        raise ScheduleError(
            f"'{key}' of loop '{loop.loop_var.name}' has {len(numbers)} numbers, the body has "
            f"{count} statements",
            span=loop.span,
        )
    return numbers


class _Pipeliner(Rewriter):
    """Rewrites loops with the annotation, inner ones first."""

    def __init__(self) -> None:
        self.allocations: list[list[Buffer]] = []

    def visit_Block(self, block: Block) -> Block:
        self.allocations.append([])
        body = self.visit(block.body)
        added = self.allocations.pop()
        if body is block.body:
            return block
        return block.with_fields(body=body, alloc_buffers=(*block.alloc_buffers, *added))

    def visit_For(self, loop: For) -> Stmt:
        if STAGE not in loop.annotations:
            body = self.visit(loop.body)
            return loop if body is loop.body else loop.with_fields(body=body)
        if not self.allocations:
            raise ScheduleError(
                f"loop '{loop.loop_var.name}' stands in no block that could hold its buffers",
                span=loop.span,
            )
        # What inner pipelines allocate belongs to this one's body, and gets versions too.
        self.allocations.append([])
        body = self.visit(loop.body)
        inner = self.allocations.pop()
        pipeline = _Pipeline(loop.with_fields(body=body), inner)
        result = pipeline.build()
        self.allocations[-1].extend(pipeline.buffers)
        return result


class _Pipeline:
    """One loop whose statements run in several stages."""

    def __init__(self, loop: For, buffers: list[Buffer]) -> None:
        self.loop = loop
        body: Stmt = loop.body
        self.owned = list(buffers)
        self.wrap = lambda stmt: stmt
        while isinstance(body, BlockRealize) and not body.block.iter_vars:
            block = body.block
            if block.match_buffers or not is_const(body.predicate, 1):
                break
            self.owned += block.alloc_buffers
            body = block.body
        stmts = stmt_list(body)
        stages = _numbers(loop, STAGE, len(stmts))
        orders = _numbers(loop, ORDER, len(stmts)) if ORDER in loop.annotations else (
            list(range(len(stmts)))
        )  # fmt: skip
        if sorted(orders) != list(range(len(stmts))) or min(stages) < 0:
            raise ScheduleError(
                f"the order of loop '{loop.loop_var.name}' names each statement once, stages are "
                "not negative",
                span=loop.span,
            )
        self.steps = [
            _Step(stmt, stage, order, *touched(stmt))
            for stmt, stage, order in zip(stmts, stages, orders)
        ]
        self.emitted = sorted(self.steps, key=_order_of)
        self.last_stage = max(stages)
        listed = loop.annotations.get(ASYNC, ())
        self.background = {int(stage) for stage in listed}
        self.check()
        self.versions = self.count_versions()
        self.rewriter = VersionedBuffers(
            {b: self.versions[b.data] for b in self.owned if self.versions.get(b.data, 1) > 1}
        )
        self.buffers = [self.rewriter.buffer(buffer) for buffer in self.owned]
        self.analyzer = Analyzer()

    def check(self) -> None:
        """Each statement runs after those that it depends on."""
        for number, first in enumerate(self.steps):
            for second in self.steps[number + 1 :]:
                pointers = first.writes & (second.reads | second.writes) | (
                    first.reads & second.writes
                )
                if not pointers:
                    continue
                if (first.stage, first.order) > (second.stage, second.order) and not (
                    first.stage < second.stage
                ):
                    raise self.refused(first, second, pointers, "runs before what it depends on")
                own = {buffer.data for buffer in self.owned}
                if first.stage != second.stage and not pointers <= own:
                    raise self.refused(
                        first, second, pointers - own,
                        "runs in another stage, but the buffer is allocated outside of the loop",
                    )  # fmt: skip

    def refused(self, first: _Step, second: _Step, pointers: set[Var], why: str) -> ScheduleError:
        names = ", ".join(sorted([f"'{pointer.name}'" for pointer in pointers]))
        one, other = self.steps.index(first), self.steps.index(second)
        return ScheduleError(
            f"software pipeline of loop '{self.loop.loop_var.name}': statement {other} {why} "
            f"(statement {one}, through {names})",
            span=self.loop.span,
        )

    def count_versions(self) -> dict[Var, int]:
        """How many iterations' contents of a buffer are alive at once."""
        counts: dict[Var, int] = {}
        for buffer in self.owned:
            pointer = buffer.data
            users = [s for s in self.steps if pointer in s.reads or pointer in s.writes]
            for writer in [s for s in users if pointer in s.writes]:
                for user in users:
                    distance = user.stage - writer.stage
                    # The next contents may come in the turn in which the last ones are read, after.
                    needed = distance if distance and user.order < writer.order else distance + 1
                    counts[pointer] = max(counts.get(pointer, 1), needed)
        for step in self.steps:
            for pointer in _doubled(step.stmt):
                if pointer in counts:
                    counts[pointer] = max(counts[pointer], 2)
        return counts

    # Building.

    def build(self) -> Stmt:
        """Prologue, body and epilogue, each as one statement."""
        loop, last = self.loop, self.last_stage
        if last == 0 and not self.background:
            kept = {k: v for k, v in loop.annotations.items() if k not in (STAGE, ORDER, ASYNC)}
            body = stmt_seq(*[step.stmt for step in self.emitted])
            return loop.with_fields(body=body, annotations=kept)
        start, extent = loop.min, loop.extent
        zero = const(0, loop.loop_var.dtype)
        prologue = [self.turn(start + t, zero + t, t) for t in range(last)]
        var = Var(loop.loop_var.name, loop.loop_var.dtype)
        body = self.turn(var + last, var - start + last, None)
        epilogue = [
            self.turn(start + extent + t, extent + t, None, from_end=t) for t in range(last)
        ]
        kept = {k: v for k, v in loop.annotations.items() if k not in (STAGE, ORDER, ASYNC)}
        parts = [_one_statement(prologue)]
        count = self.analyzer.simplify(extent - last)
        if not isinstance(count, IntImm) or count.value > 0:
            parts.append(For(var, start, count, loop.kind, body, None, kept, loop.span))
        parts.append(_one_statement(epilogue))
        return stmt_seq(*parts)

    def turn(
        self, now: PrimExpr, number: PrimExpr, first: int | None, from_end: int | None = None
    ) -> Stmt:
        """What happens in one turn: ``number`` counts from zero, ``now`` from the loop's start."""
        stmts: list[Stmt] = []
        run: list[Stmt] = []  # neighbours in the background, one group of copies
        running = -1
        for step in self.emitted:
            exists = self.exists(step, number, first, from_end)
            if is_const(exists, 0):
                continue
            stmt = self.copy(step, now - step.stage, number - step.stage)
            if step.stage in self.background:
                if running not in (-1, step.stage):
                    stmts.append(_commit(run, running))
                    run = []
                run.append(stmt if is_const(exists, 1) else IfThenElse(exists, stmt))
                running = step.stage
                continue
            if run:
                stmts.append(_commit(run, running))
                run, running = [], -1
            stmt = self.waiting(step, stmt, first, from_end)
            stmts.append(stmt if is_const(exists, 1) else IfThenElse(exists, stmt))
        if run:
            stmts.append(_commit(run, running))
        return stmt_seq(*stmts)

    def exists(
        self, step: _Step, number: PrimExpr, first: int | None, from_end: int | None
    ) -> PrimExpr:
        """Whether the loop has the iteration that a statement would carry out in a turn."""
        if first is not None:  # in the prologue
            if first < step.stage:
                return const(False, "bool")
            return self.analyzer.simplify(const(first - step.stage, "int32") < self.loop.extent)
        if from_end is not None:
            if from_end >= step.stage:
                return const(False, "bool")
            # A short loop has done this in its prologue.
            late = number >= self.last_stage
            return self.analyzer.simplify(all_of(late, number - step.stage >= 0))
        return const(True, "bool")

    def copy(self, step: _Step, iteration: PrimExpr, number: PrimExpr) -> Stmt:
        """A statement for one iteration, with variables and buffers of its own."""
        iteration = self.analyzer.simplify(iteration)
        stmt = self.rewriter.rewrite(step.stmt, self.analyzer.simplify(number))
        stmt = substitute(stmt, {self.loop.loop_var: iteration})
        return renew_defs(PrimFunc((), stmt)).body

    # Copies in the background.

    def waiting(self, step: _Step, stmt: Stmt, first: int | None, from_end: int | None) -> Stmt:
        """A statement behind waits for the copies that it needs."""
        for stage in sorted(self.background):
            pending = [
                self.pending(step, producer, first, from_end)
                for producer in self.steps
                if producer.stage == stage and producer.writes & (step.reads | step.writes)
            ]
            if pending:
                count = const(max(min(pending), 0), "int32")
                stmt = AttrStmt(_zero(), "async_wait_inflight_count", count, stmt)
                stmt = AttrStmt(_zero(), "async_wait_queue_scope", const(stage, "int32"), stmt)
        return stmt

    def pending(self, step: _Step, producer: _Step, first: int | None, from_end: int | None) -> int:
        """Groups of copies that have been begun after the one that a statement needs."""
        runs = self.runs(producer.stage)
        mine = next(i for i, run in enumerate(runs) if producer in run)
        before = len([run for run in runs if run[-1].order < step.order])
        distance = step.stage - producer.stage
        if distance == 0:
            return before - 1 - mine
        # Turns since the one in which the copy was begun, and whether this one begins some.
        whole, present = distance - 1, before
        extent = self.loop.extent
        if isinstance(extent, IntImm):
            if first is not None or from_end is not None:
                now = first if first is not None else extent.value + (from_end or 0)
                newest = min(now - producer.stage, extent.value - 1)
                present = before if now - producer.stage < extent.value else 0
                whole = newest - (now - step.stage) - (newest == now - producer.stage)
        elif first is not None:
            return 0  # the loop may be too short to have begun anything else
        elif from_end is not None and from_end >= producer.stage:
            whole, present = step.stage - from_end - 1, 0
        return len(runs) - 1 - mine + whole * len(runs) + present

    def runs(self, stage: int) -> list[list[_Step]]:
        """Neighbours in the order that belong to a stage in the background."""
        found: list[list[_Step]] = []
        previous: _Step | None = None
        for step in self.emitted:
            if step.stage == stage:
                if previous is not None and previous.stage == stage:
                    found[-1].append(step)
                else:
                    found.append([step])
            previous = step
        return found


def _doubled(stmt: Stmt) -> list[Var]:
    """Buffers that blocks want twice: ``double_buffer_scope`` names one by its place in writes."""
    found: list[Var] = []

    def look(node: Any) -> None:
        if isinstance(node, Block) and "double_buffer_scope" in node.annotations:
            found.append(node.writes[int(node.annotations["double_buffer_scope"])].buffer.data)

    post_order_visit(stmt, look)
    return found


def _order_of(step: _Step) -> int:
    return step.order


def _zero() -> PrimExpr:
    return const(0, "int32")


def _commit(stmts: list[Stmt], stage: int) -> Stmt:
    """Statements in the background, as one group."""
    body = AttrStmt(_zero(), "async_scope", const(1, "int32"), stmt_seq(*stmts))
    return AttrStmt(_zero(), "async_commit_queue_scope", const(stage, "int32"), body)


def _one_statement(stmts: Sequence[Stmt]) -> Stmt:
    """Statements as one: a block without iterators, so that an outer pipeline counts it as one."""
    body = stmt_seq(*stmts)
    finder = _BufferUses()
    finder.visit(body)
    reads = [BufferRegion.full_region(buffer) for buffer in finder.read if finder.is_free(buffer)]
    writes = [BufferRegion.full_region(buffer) for buffer in finder.wrote if finder.is_free(buffer)]
    return BlockRealize((), True, Block((), reads, writes, "", body))


class _BufferUses(Visitor):
    def __init__(self) -> None:
        self.read: dict[Buffer, None] = {}
        self.wrote: dict[Buffer, None] = {}
        self.own: set[Buffer] = set()

    def is_free(self, buffer: Buffer) -> bool:
        return buffer not in self.own

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.read.setdefault(node.buffer)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.wrote.setdefault(node.buffer)
        self.visit_children(node)

    def visit_Block(self, node: Block) -> None:
        self.own.update(node.alloc_buffers)
        self.own.update([match.buffer for match in node.match_buffers])
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)


def inject_software_pipeline(func: PrimFunc) -> PrimFunc:
    """``func`` with the loops that are marked taken apart into stages."""
    return func.with_body(_Pipeliner().visit(func.body))


@register_pass("tir.InjectSoftwarePipeline")
def InjectSoftwarePipeline() -> Pass:  # noqa: N802
    """The pass that overlaps iterations of marked loops."""
    return function_pass(inject_software_pipeline, "tir.InjectSoftwarePipeline")
