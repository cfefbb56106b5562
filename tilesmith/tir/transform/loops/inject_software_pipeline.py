"""InjectSoftwarePipeline: overlaps iterations of a loop by running its statements in stages.

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
``software_pipeline_async_stages`` the stores of these stages run in the background
(``async_scope``), but those whose result the same statement reads; statements that need the results
wait for them, with as many groups of copies still under way as can be. The block annotation
``double_buffer_scope`` asks for two versions of a buffer that needs one. Pipelines may be nested:
the three parts of an inner one count as statements of the outer one.

Raises ScheduleError where the annotation would let a statement run before one that it depends on.
"""

from __future__ import annotations

from tilesmith.ir import Var
from tilesmith.ir.operators import is_const
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    Block,
    BlockRealize,
    For,
    SeqStmt,
    Stmt,
    stmt_list,
)
from tilesmith.tir.transform.loops.pipeline_memory import touched
from tilesmith.tir.transform.loops.pipeline_parts import PipelineParts, PipelineStep

__all__ = ["inject_software_pipeline"]

STAGE = "software_pipeline_stage"
ORDER = "software_pipeline_order"
ASYNC = "software_pipeline_async_stages"


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

    def __init__(self, func: PrimFunc) -> None:
        self.pointers = {buffer.data: buffer for buffer in func.buffer_map.values()}

    def visit_Block(self, block: Block) -> Block:
        self.pointers.update({buffer.data: buffer for buffer in block.alloc_buffers})
        self.pointers.update({match.buffer.data: match.buffer for match in block.match_buffers})
        body = self.visit(block.body)
        return block if body is block.body else block.with_fields(body=body)

    def visit_For(self, loop: For) -> Stmt:
        body = self.visit(loop.body)
        loop = loop if body is loop.body else loop.with_fields(body=body)
        if STAGE not in loop.annotations:
            return loop
        pipeline = _Pipeline(loop)
        pipeline.check()
        merges = PassContext.current().get_config("tir.merge_async_commit_queue_scope", True)
        parts = PipelineParts(
            loop, pipeline.steps, pipeline.owned, pipeline.count_versions(), pipeline.background,
            self.pointers, bool(merges),
        )  # fmt: skip
        return parts.build()


class _Pipeline:
    """One loop whose statements run in several stages."""

    def __init__(self, loop: For) -> None:
        self.loop = loop
        if ORDER not in loop.annotations:
            raise ScheduleError(
                f"the order of the software pipeline '{loop.loop_var.name}' is not defined",
                span=loop.span,
            )
        self.owned: list[Buffer] = []
        stmts = self.statements(loop.body)
        stages = _numbers(loop, STAGE, len(stmts))
        orders = _numbers(loop, ORDER, len(stmts))
        if sorted(orders) != list(range(len(stmts))) or min(stages) < 0:
            raise ScheduleError(
                f"the order of loop '{loop.loop_var.name}' names each statement once, stages are "
                "not negative",
                span=loop.span,
            )
        self.steps = [
            PipelineStep(stmt, stage, order, *touched(stmt))
            for stmt, stage, order in zip(stmts, stages, orders)
        ]
        self.background = {int(stage) for stage in loop.annotations.get(ASYNC, ())}

    def statements(self, body: Stmt) -> list[Stmt]:
        """Return the statements that the annotations refer to; an inner pipeline counts as its
        parts.
        """
        while (block := _opened(body)) is not None:
            self.owned += block.alloc_buffers
            body = block.body
        found: list[Stmt] = []
        for stmt in stmt_list(body):
            block = _opened(stmt)
            if block is not None and isinstance(block.body, SeqStmt):
                self.owned += block.alloc_buffers
                found += stmt_list(block.body)
            else:
                found.append(stmt)
        return found

    def check(self) -> None:
        """Check that each statement runs after those that it depends on."""
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

    def refused(
        self, first: PipelineStep, second: PipelineStep, pointers: set[Var], why: str
    ) -> ScheduleError:
        names = ", ".join(sorted([f"'{pointer.name}'" for pointer in pointers]))
        one, other = self.steps.index(first), self.steps.index(second)
        return ScheduleError(
            f"software pipeline of loop '{self.loop.loop_var.name}': statement {other} {why} "
            f"(statement {one}, through {names})",
            span=self.loop.span,
        )

    def count_versions(self) -> dict[Var, int]:
        """Return the number of iterations whose contents of a buffer are live at the same time."""
        counts: dict[Var, int] = {}
        for buffer in self.owned:
            pointer = buffer.data
            users = [s for s in self.steps if pointer in s.reads or pointer in s.writes]
            for writer in [s for s in users if pointer in s.writes]:
                for user in users:
                    distance = user.stage - writer.stage
                    # The next contents may come in the turn in which the last ones are read, after.
                    needed = 1 if distance == 1 and user.order < writer.order else distance + 1
                    counts[pointer] = max(counts.get(pointer, 1), needed)
        for step in self.steps:
            for pointer in _doubled(step.stmt):
                if pointer in counts:
                    counts[pointer] = max(counts[pointer], 2)
        return counts


def _doubled(stmt: Stmt) -> list[Var]:
    """Return the buffers for which blocks request two versions: ``double_buffer_scope`` names one
    by its position in the writes.
    """
    return [
        block.writes[int(block.annotations["double_buffer_scope"])].buffer.data
        for block in nodes(stmt, Block)
        if "double_buffer_scope" in block.annotations
    ]


def _opened(stmt: Stmt) -> Block | None:
    """Return the block of a statement if it has no iterators, condition, matched buffers or init,
    else None.
    """
    if isinstance(stmt, BlockRealize) and is_const(stmt.predicate, 1):
        block = stmt.block
        if not (block.iter_vars or block.match_buffers or block.init is not None):
            return block
    return None


@compiler_pass("tir.InjectSoftwarePipeline")
def inject_software_pipeline(func: PrimFunc) -> PrimFunc:
    """Overlaps iterations of marked loops by running their statements in stages.

    Returns ``func`` with the marked loops divided into stages.
    """
    return func.with_body(_Pipeliner(func).visit(func.body))
