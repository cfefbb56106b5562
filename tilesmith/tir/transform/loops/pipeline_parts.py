"""Builds prologue, body and epilogue of a software pipeline, each as one block.

A turn carries out, of each statement, the iteration that is ``stage`` turns back. The prologue
starts the first iterations, the epilogue ends the last ones: both are loops that get unrolled, or
one turn without a loop. A turn's statements stand under the predicate that the iteration exists.

Stores in the background stand in ``async_scope``, neighbours of one stage together in
``async_commit_queue_scope``. What needs their results stands in ``async_wait_queue_scope``, whose
``async_wait_inflight_count`` says how many later groups may still be under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilesmith.arith import Analyzer
from tilesmith.ir import LE, IntImm, PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.intrinsics import if_then_else
from tilesmith.ir.operators import is_const, logical_and, logical_not, moved
from tilesmith.tir.analysis.access_region import get_block_read_write_region
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    Evaluate,
    For,
    ForKind,
    Stmt,
    stmt_seq,
)
from tilesmith.tir.transform.loops.buffer_versions import VersionedBuffers
from tilesmith.tir.transform.loops.pipeline_memory import in_background

__all__ = ["PipelineParts", "PipelineStep"]


class PipelineStep(NamedTuple):
    """One statement of a pipeline's body."""

    stmt: Stmt
    stage: int
    order: int
    reads: set[Var]
    writes: set[Var]


class _Part(NamedTuple):
    """A range of turns of the pipeline, ``number`` counted from the loop's start."""

    name: str
    start: PrimExpr
    end: PrimExpr
    kind: ForKind
    turns: range | None  # as numbers, where they are known
    guard: PrimExpr | None  # the first turn that is not the prologue's, if that may be later


class _Emitted(NamedTuple):
    """One statement of a turn."""

    stage: int
    predicate: PrimExpr
    block: Block
    in_background: bool
    run: int


class PipelineParts:
    """Builds the three parts of one pipeline.

    ``versions`` tells how many versions the memory behind a pointer gets, ``background`` the stages
    that run in the background, ``pointers`` the buffers around the loop. Neighbours in the
    background are one group of copies, unless ``merges_groups`` is false: then each is its own.
    """

    def __init__(
        self,
        loop: For,
        steps: list[PipelineStep],
        owned: list[Buffer],
        versions: Mapping[Var, int],
        background: set[int],
        pointers: Mapping[Var, Buffer],
        merges_groups: bool = True,
    ) -> None:
        self.loop, self.steps, self.background = loop, steps, background
        self.merges_groups = merges_groups
        self.emitted = sorted(steps, key=lambda step: step.order)
        self.last = max([step.stage for step in steps])
        self.rewriter = VersionedBuffers(
            {b: versions[b.data] for b in owned if versions.get(b.data, 1) > 1},
            whole_regions=self.last != 1,
        )
        self.buffers = [self.rewriter.redirected(buffer) or buffer for buffer in owned]
        self.pointers = {**pointers, **{buffer.data: buffer for buffer in self.buffers}}
        self.blocks = {step.order: self.step_block(step, owned) for step in steps}
        self.analyzer = Analyzer()

    def step_block(self, step: PipelineStep, owned: list[Buffer]) -> Block:
        """Return a statement as a block, on the buffer versions of the loop's iteration."""
        pointers = {**self.pointers, **{buffer.data: buffer for buffer in owned}}
        block = _as_block(step.stmt, pointers)
        if step.stage in self.background:
            block = block.with_fields(body=in_background(block.body))
        return self.rewriter.rewrite(block, self.loop.loop_var - self.loop.min)

    def build(self) -> Stmt:
        """Return the block that holds the buffers and the three parts."""
        loop, last = self.loop, self.last
        first, end = loop.min, loop.min + loop.extent
        count = loop.extent.value if isinstance(loop.extent, IntImm) else None
        late: PrimExpr = end  # where the epilogue starts: never in the prologue's turns
        guard: PrimExpr | None = None
        if count is not None:
            late = first + max(count, last)
        elif not self.analyzer.can_prove(loop.extent >= last):
            guard = first + last
        begin = max(count, last) if count is not None else 0
        parts = [
            _Part("prologue", first, first + last, ForKind.UNROLLED, range(last), None),
            _Part("body", first + last, end, loop.kind, None, None),
            _Part(
                "epilogue", late, end + last, ForKind.UNROLLED,
                range(begin, count + last) if count is not None else None, guard,
            ),
        ]  # fmt: skip
        stmts = [self.emit(part) for part in parts]
        block = Block((), (), (), "", stmt_seq(*stmts), alloc_buffers=tuple(self.buffers))
        return BlockRealize((), True, _with_regions(block, self.pointers))

    def emit(self, part: _Part) -> Stmt:
        """Return one part."""
        loop = self.loop
        extent = part.end - part.start
        single = self.analyzer.can_prove(extent.equal(1))
        var = Var(loop.loop_var.name, loop.loop_var.dtype)
        turn = part.start if single else var
        analyzer = Analyzer()
        if not single:
            analyzer.bind(var, Range.from_min_extent(part.start, extent))
        found: list[_Emitted] = []
        nothing = isinstance(extent, IntImm) and extent.value <= 0
        nothing |= self.last == 0 and part.name != "body"
        for step in [] if nothing else self.emitted:
            exists = self.exists(step, part, turn, analyzer)
            if not analyzer.can_prove(logical_not(exists)):
                found.append(self.emit_step(step, part, turn, exists))
        stmts = self.with_groups(found)
        body: Stmt = stmt_seq(*stmts) if stmts else Evaluate(const(0, "int32"))
        if stmts and not single:
            kept = {k: v for k, v in loop.annotations.items() if not k.startswith("software_pipel")}
            body = For(var, loop.min, extent, part.kind, body, None, kept, loop.span)
        return BlockRealize((), True, _as_block(body, self.pointers))

    def exists(
        self, step: PipelineStep, part: _Part, turn: PrimExpr, analyzer: Analyzer
    ) -> PrimExpr:
        """Return whether the iteration that a statement executes in a turn is within the loop's
        range.
        """
        iteration = turn - step.stage
        first = analyzer.simplify(self.loop.min <= iteration)
        if isinstance(first, LE) and analyzer.can_prove(first.b <= first.a):
            first = first.b.equal(first.a)  # only in the last turn
        end = self.loop.min + self.loop.extent
        inside = logical_and(first, iteration < end)
        if part.guard is None:
            return inside
        new = analyzer.simplify(part.guard <= turn)
        if structural_equal(new, first) and turn is part.start:
            return inside
        last = analyzer.simplify(end + (step.stage - 1))
        inside = turn.equal(last) if analyzer.can_prove(last <= turn) else turn < end + step.stage
        return logical_and(logical_and(first, inside), new)

    def emit_step(
        self, step: PipelineStep, part: _Part, turn: PrimExpr, exists: PrimExpr
    ) -> _Emitted:
        """Return a statement for one turn, with variables of its own."""
        iteration = turn - step.stage
        if turn is not part.start:
            shift = part.start - self.loop.min
            iteration = iteration + shift
            exists = substitute(exists, {turn: turn + shift})
        block = substitute(self.blocks[step.order], {self.loop.loop_var: iteration})
        body = renew_defs(PrimFunc((), block.body)).body
        for stage, pending in self.waits(step, part, turn, iteration, exists):
            body = AttrStmt(_zero(), "async_wait_inflight_count", pending, body)
            body = AttrStmt(_zero(), "async_wait_queue_scope", const(stage, "int32"), body)
        block = block.with_fields(body=body)
        run = next((n for n, run in enumerate(self.runs(step.stage)) if step in run), 0)
        return _Emitted(step.stage, exists, block, step.stage in self.background, run)

    def with_groups(self, emitted: list[_Emitted]) -> list[Stmt]:
        """Return the statements of a turn; asynchronous neighbours form one group of copies."""
        stmts: list[Stmt] = []
        position = 0
        while position < len(emitted):
            one = emitted[position]
            if not one.in_background:
                stmts.append(BlockRealize((), one.predicate, one.block))
                position += 1
                continue
            group = [one]
            while position + len(group) < len(emitted):
                other = emitted[position + len(group)]
                if (other.stage, other.run) != (one.stage, one.run):
                    break
                group.append(other)
            position += len(group)
            body = stmt_seq(*[other.block.body for other in group])
            body = AttrStmt(_zero(), "async_commit_queue_scope", const(one.stage, "int32"), body)
            stmts.append(BlockRealize((), one.predicate, _as_block(body, self.pointers)))
        return stmts

    # Asynchronous copies.

    def runs(self, stage: int) -> list[list[PipelineStep]]:
        """Return groups of adjacent statements of one asynchronous stage that do not depend on each
        other.
        """
        found: list[list[PipelineStep]] = []
        if stage not in self.background:
            return found
        previous: PipelineStep | None = None
        for step in self.emitted:
            if step.stage == stage:
                touched = step.reads | step.writes
                close = previous is not None and previous.stage == stage and self.merges_groups
                if close and not any(earlier.writes & touched for earlier in found[-1]):
                    found[-1].append(step)
                else:
                    found.append([step])
            previous = step
        return found

    def waits(
        self, step: PipelineStep, part: _Part, turn: PrimExpr, iteration: PrimExpr, exists: PrimExpr
    ) -> list[tuple[int, PrimExpr]]:
        """Return, for each stage that a statement has to wait for, how many groups may be in
        flight."""
        found: list[tuple[int, PrimExpr]] = []
        for stage in sorted(self.background, reverse=True):
            producers = [
                producer
                for producer in self.steps
                if producer.stage == stage
                and producer is not step
                and producer.writes & (step.reads | step.writes)
                and (producer.stage, producer.order) != (step.stage, step.order)
                and not (producer.stage == step.stage and producer.order > step.order)
            ]
            if producers:
                found.append((stage, self.pending(step, producers, part, turn, iteration)))
        return found

    def pending(
        self,
        step: PipelineStep,
        producers: list[PipelineStep],
        part: _Part,
        turn: PrimExpr,
        iteration: PrimExpr,
    ) -> PrimExpr:
        """Return the number of groups started after the last group on which a statement depends."""
        stage = producers[0].stage
        steady = min([self.later_groups(step, producer) for producer in producers])
        loop = self.loop
        if part.name == "body":
            return const(steady, "int32")
        if not isinstance(loop.extent, IntImm):
            return const(0, "int32")
        count = loop.extent.value
        turns = [t for t in part.turns or () if step.stage <= t < step.stage + count]
        begun = [t for t in turns if t - stage < count]
        if len(begun) == len(turns):  # each of these turns begins a group
            return const(steady, "int32")
        if not begun and part.name == "epilogue":
            # The last iteration's groups are the newest.
            newest = self.analyzer.simplify(moved(loop.min, count - 1) - (iteration - turn))
            return (newest - turn).astype("int32")
        if part.name == "epilogue" and turn is not part.start:
            now = turn + (part.start - loop.min)
            begins = now - stage < loop.min + loop.extent
            return if_then_else(begins, const(steady, "int32"), const(0, "int32"))
        return const(0, "int32")

    def later_groups(self, step: PipelineStep, producer: PipelineStep) -> int:
        """Return the groups of a producer's stage between it and a statement, in the steady
        state."""
        runs = self.runs(producer.stage)
        mine = next(number for number, run in enumerate(runs) if producer in run)
        before = len([run for run in runs if run[-1].order < step.order])
        distance = step.stage - producer.stage
        if distance == 0:
            return max(before - 1 - mine, 0)
        return len(runs) - 1 - mine + (distance - 1) * len(runs) + before


def _as_block(stmt: Stmt, pointers: Mapping[Var, Buffer]) -> Block:
    """Wrap a statement in a block without iterators, unless it already is one."""
    if isinstance(stmt, BlockRealize) and is_const(stmt.predicate, 1):
        if not stmt.block.iter_vars:
            return stmt.block
    return _with_regions(Block((), (), (), "", stmt), pointers)


def _with_regions(block: Block, pointers: Mapping[Var, Buffer]) -> Block:
    reads, writes = get_block_read_write_region(block, pointers)
    return block.with_fields(reads=tuple(reads), writes=tuple(writes))


def _zero() -> PrimExpr:
    return const(0, "int32")
