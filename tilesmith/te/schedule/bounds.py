"""Bound inference: over which ranges the loops of a schedule run.

Consumers come before producers. A stage that is computed as a whole runs over the domains of its
axes, as far as they are needed. A stage that is computed at a loop makes what one iteration of that
loop needs: the loops outside of that point are fixed, those inside run over their ranges.

    s[B].compute_at(s[C], xo)      B is needed for x = xo * 4 + xi + {0, 1}, xi in 0..4:
                                   its axis begins at xo * 4 and has extent 5

Threads are a case of their own: memory that several threads see holds what all of them need, so
that their loops count as inside, wherever they are.
"""

from __future__ import annotations

from tilesmith.arith import Analyzer, IntervalSet, IntSet, eval_set
from tilesmith.arith import union as united
from tilesmith.ir import PrimExpr, Range, Var
from tilesmith.ir.operators import cast, is_const
from tilesmith.support.errors import ScheduleError
from tilesmith.support.recursion import deep_recursion
from tilesmith.te.schedule.message_passing import (
    pass_down_domains,
    pass_down_marks,
    pass_up_sets,
    thread_of,
)
from tilesmith.te.schedule.operations import OPERATIONS
from tilesmith.te.schedule.operations.rules import Bounds, Regions
from tilesmith.te.schedule.placement import (
    AttachPaths,
    Loop,
    attach_point,
    memory_rank,
    memory_scope,
    thread_rank,
)
from tilesmith.te.schedule.refusals import describe, refuse
from tilesmith.te.schedule.schedule import Schedule
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.te.tensor import Operation, PlaceholderOp, Tensor
from tilesmith.tir.expr import IterVar

__all__ = ["infer_bound"]


@deep_recursion
def infer_bound(sch: Schedule) -> Bounds:
    """Return the range of each axis of a schedule: of roots, of loops and of threads."""
    return _Inference(sch).run()


class _Inference:
    def __init__(self, sch: Schedule) -> None:
        self.sch = sch
        self.paths = AttachPaths()
        self.analyzer = Analyzer()
        self.bounds: Bounds = {}
        self.threads: dict[IterVar, tuple[Stage, IterVar]] = {}  # who gave a thread its extent
        self.consumers: dict[Operation, list[Stage]] = {}
        self.in_others: set[Operation] = set()  # that live in the memory of others
        for stage in sch.stages:
            if stage.attach_type == AttachType.INLINED_ALREADY:
                continue
            if stage.attach_type == AttachType.INLINE:
                raise ScheduleError(
                    f"stage '{stage.name}' is inlined, which has to be carried out before bounds "
                    "are inferred",
                    notes=("call sch = sch.normalize() first; lower and build do so",),
                )
            aliases = OPERATIONS[stage.op.__class__].aliases(stage.op)
            self.in_others.update([tensor.op for tensor in aliases])
            for op in dict.fromkeys([tensor.op for tensor in stage.op.input_tensors]):
                self.consumers.setdefault(op, []).append(stage)

    def run(self) -> Bounds:
        for stage in reversed(self.sch.stages):
            skipped = stage.attach_type == AttachType.INLINED_ALREADY
            if skipped or isinstance(stage.op, PlaceholderOp):
                continue
            self.bounds.update(self.root_bounds(stage))
            pass_down_domains(stage, self.bounds, self.analyzer)
            for thread in stage.env_thread_axes:
                self.env_thread(stage, thread)
            tags: dict[str, IterVar] = {}
            for axis in stage.leaf_iter_vars:
                self.learn(axis)
                bound = thread_of(stage, axis)
                if bound is not None:
                    self.check_tag(stage, axis, bound.thread_tag, tags)
                    if bound is not axis:
                        self.bind(stage, axis, bound)
        return self.bounds

    def learn(self, axis: IterVar) -> None:
        """Tell the analyzer how far a loop counts."""
        domain = self.bounds[axis]
        if is_const(domain.min, 0):
            self.analyzer.bind(axis.var, domain)

    def env_thread(self, stage: Stage, thread: IterVar) -> None:
        if thread.dom is None:
            raise refuse(
                "env_threads", stage, f"{describe(thread)} has no extent", thread,
                'give it one: te.thread_axis((0, 8), "blockIdx.x")',
            )  # fmt: skip
        self.set_thread(stage, thread, thread, thread.dom)

    def bind(self, stage: Stage, axis: IterVar, thread: IterVar) -> None:
        extent = cast(thread.var.dtype, self.bounds[axis].extent)
        self.check_launch(stage, axis, thread.thread_tag, extent)
        self.set_thread(stage, axis, thread, Range.from_min_extent(0, extent))

    def check_launch(self, stage: Stage, axis: IterVar, tag: str, extent: PrimExpr) -> None:
        """Refuse threads that end before their memory is read, or that are not those around."""
        if not tag.startswith(("blockIdx", "threadIdx")):
            return
        around = [(one, thread_of(one.stage, one.axis)) for one in self.paths[stage]]
        threads = [(one, thread) for one, thread in around if thread is not None]
        if not threads and memory_rank(stage.scope) > 0:
            raise refuse(
                "set_scope", stage,
                f"its \"{stage.scope}\" memory ends with the threads '{tag}' that fill it", axis,
                "compute it inside of the threads that read it, or keep it in \"global\" memory",
            )  # fmt: skip
        scope = memory_scope(stage, self.paths[stage])
        is_private = not needs_relaxing(stage.attributes(axis).bind_thread, True, scope)
        is_alone = stage.is_output or stage.op in self.in_others or is_const(extent, 1)
        if is_private and not is_alone and not self.is_reduced(stage, axis):
            raise refuse(
                "bind", stage,
                f"the threads '{tag}' of '{axis.var.name}' fill \"{scope}\" memory, of which each "
                "has its own",
                axis, 'keep the result in memory that they share: set_scope("shared")',
                stage.attributes(axis).bound_at,
            )  # fmt: skip
        for loop, thread in threads:
            running = self.bounds[loop.axis].extent
            if thread.thread_tag != tag or self.analyzer.can_prove_equal(extent, running):
                continue
            raise refuse(
                "bind", stage,
                f"'{axis.var.name}' runs over {extent} values, and inside of "
                f"'{loop.axis.var.name}' of stage '{loop.stage.name}', which runs over {running} "
                f"on the same threads '{tag}'",
                axis, "split the loop by nparts, so that both have the same extent",
                stage.attributes(axis).bound_at,
            )  # fmt: skip

    def is_reduced(self, stage: Stage, axis: IterVar) -> bool:
        """Return whether the iterations of a loop are those of a reduction: all threads get its
        result.
        """
        marks = dict.fromkeys(stage.op.axis, 1)
        pass_down_marks(stage, marks)
        return not marks.get(axis)

    def check_tag(self, stage: Stage, axis: IterVar, tag: str, tags: dict[str, IterVar]) -> None:
        """Refuse two loops of a stage that run on the same threads (virtual ones may be nested)."""
        other = tags.setdefault(tag, axis)
        if other is not axis and tag.startswith(("blockIdx", "threadIdx")):
            raise refuse(
                "bind", stage,
                f"'{other.var.name}' and '{axis.var.name}' both run on the threads '{tag}'",
                axis, "fuse the loops and bind the fused one, or bind them to different threads",
                stage.attributes(axis).bound_at,
            )  # fmt: skip

    def set_thread(self, stage: Stage, axis: IterVar, thread: IterVar, domain: Range) -> None:
        """Record the extent of a thread axis, which has to be the same wherever it is used."""
        known, who = self.bounds.get(thread), "another stage"
        if thread in self.threads:
            who = f"'{self.threads[thread][1].var.name}' of stage '{self.threads[thread][0].name}'"
        elif thread.dom is not None:
            known, who = thread.dom, "the thread axis"
        if known is not None and not self.analyzer.can_prove_equal(known.extent, domain.extent):
            raise refuse(
                "bind", stage,
                f"'{axis.var.name}' runs over {domain.extent} values on thread "
                f"'{thread.thread_tag}', {who} over {known.extent}",
                axis,
                "all loops that run on one thread axis have the same extent: split this one by "
                "nparts or factor, or bind it to a thread axis of its own",
                stage.attributes(axis).bound_at,
            )  # fmt: skip
        self.threads.setdefault(thread, (stage, axis))
        self.bounds[thread] = domain
        self.analyzer.bind(thread.var, domain)

    # Root axes

    def root_bounds(self, stage: Stage) -> Bounds:
        """Return the ranges of the root axes of a stage."""
        op = stage.op
        if stage.is_output:
            if attach_point(stage)[0] is not None:
                raise refuse(
                    "compute_at", stage, "it is an output, which is computed as a whole", None,
                    "compute another stage inside of it", stage.group_spec().placed_at,
                )  # fmt: skip
            return {axis: axis.domain for axis in op.root_iter_vars if axis.dom is not None}
        parent, point = attach_point(stage)
        scope = memory_scope(stage, self.paths[stage])
        boxes: dict[Tensor, list[list[IntervalSet]]] = {}
        for consumer in self.consumers.get(op, []):
            sets = self.consumer_sets(stage, consumer, parent, point, scope)
            read = OPERATIONS[consumer.op.__class__].reads(consumer.op, sets, self.analyzer)
            for tensor, box in read.items():
                if tensor.op is op:
                    boxes.setdefault(tensor, []).append(box)
        needed: Regions = {tensor: self.hull(several) for tensor, several in boxes.items()}
        found = OPERATIONS[op.__class__].domains(op, needed, self.analyzer)
        return {
            axis: Range.from_min_extent(
                self.analyzer.simplify(domain.min), self.analyzer.simplify(domain.extent)
            )
            for axis, domain in found.items()
        }

    def hull(self, boxes: list[list[IntervalSet]]) -> list[IntervalSet]:
        if len(boxes) == 1:
            return boxes[0]
        return [united(several, self.analyzer) for several in zip(*boxes)]

    def consumer_sets(
        self, stage: Stage, consumer: Stage, parent: Stage | None, point: IterVar | None, scope: str
    ) -> dict[Var, IntervalSet]:
        """Return the values of a consumer's root axes while one part of ``stage`` is in use."""
        is_fixed = False
        sets: dict[IterVar, IntervalSet] = {}
        for axis in reversed(consumer.leaf_iter_vars):
            is_fixed = is_fixed or axis is point
            self.check_seen(stage, Loop(axis, consumer), is_fixed, scope)
            sets[axis] = self.loop_set(consumer, axis, is_fixed, scope)
        relaxed: dict[Var, IntervalSet] = {}
        for loop in self.paths[consumer]:
            is_fixed = is_fixed or loop.axis is point
            self.check_seen(stage, loop, is_fixed, scope)
            relaxed.update(self.relaxed_variables(loop, is_fixed, scope))
        if point is not None and not is_fixed:
            assert parent is not None
            raise refuse(
                "compute_at", stage,
                f"'{consumer.name}' uses it too, and is not computed inside of "
                f"'{point.var.name}' of stage '{parent.name}'",
                None,
                f"compute '{consumer.name}' there as well, or '{stage.name}' further outside",
                stage.group_spec().placed_at,
            )  # fmt: skip
        pass_up_sets(consumer, self.bounds, sets, self.analyzer)
        axes = consumer.op.root_iter_vars
        found = {axis.var: self.axis_set(axis, sets, relaxed) for axis in axes}
        # A loop that is fixed stands for itself.
        return {var: values for var, values in found.items() if values.min_value is not var}

    def check_seen(self, stage: Stage, loop: Loop, is_fixed: bool, scope: str) -> None:
        """Refuse a stage outside of threads that use it, in memory that each has for itself."""
        thread = thread_of(loop.stage, loop.axis)
        if thread is None or is_fixed or is_const(self.bounds[loop.axis].extent, 1):
            return
        running = [thread_of(around.stage, around.axis) for around in self.paths[stage]]
        if any(one is not None and one.thread_tag == thread.thread_tag for one in running):
            return
        if not needs_relaxing(thread, is_fixed, scope):
            raise refuse(
                "set_scope", stage,
                f"it is kept in \"{scope}\" memory, and computed outside of the threads "
                f"'{thread.thread_tag}' of stage '{loop.stage.name}' that read it",
                None,
                f"compute it inside: s[{stage.name}].compute_at(s[{loop.stage.name}], loop), or "
                'keep it in "global" memory',
            )  # fmt: skip

    def loop_set(self, consumer: Stage, axis: IterVar, is_fixed: bool, scope: str) -> IntervalSet:
        """Return the iterations of a consumer's loop that count: one of them, or all."""
        domain = self.bounds[axis]
        if is_const(domain.extent, 1):
            return IntSet.single_point(domain.min)
        thread = thread_of(consumer, axis)
        if needs_relaxing(thread, is_fixed, scope):
            return IntSet.from_range(domain)
        return IntSet.single_point(fixed_value(consumer, axis, domain))

    def relaxed_variables(self, loop: Loop, is_fixed: bool, scope: str) -> dict[Var, IntervalSet]:
        """Return the variables of a loop around the consumer, with their ranges, if the loop lies
        inside of the point where the stage is computed.
        """
        domain = self.bounds[loop.axis]
        thread = thread_of(loop.stage, loop.axis)
        if is_const(domain.extent, 1) or not needs_relaxing(thread, is_fixed, scope):
            return {}
        variable = loop.axis.var if thread is None else thread.var
        extent = cast(variable.dtype, domain.extent)
        return {variable: IntSet.from_min_extent(0, extent)}

    def axis_set(
        self,
        axis: IterVar,
        sets: dict[IterVar, IntervalSet],
        relaxed: dict[Var, IntervalSet],
    ) -> IntervalSet:
        found = sets.get(axis)
        if found is None:
            found = IntSet.from_range(self.bounds[axis])
        return eval_set(found, relaxed, self.analyzer) if relaxed else found


def needs_relaxing(thread: IterVar | None, is_fixed: bool, scope: str) -> bool:
    """Return whether all iterations of a loop share one part of a stage in some memory."""
    rank = None if thread is None else thread_rank(thread.thread_tag)
    if thread is None or rank is None:
        return not is_fixed
    if scope.startswith("warp") and thread.thread_tag == "threadIdx.x":
        return True
    return memory_rank(scope) <= rank


def fixed_value(stage: Stage, axis: IterVar, domain: Range) -> PrimExpr:
    """Return the value of a loop in one of its iterations."""
    thread = thread_of(stage, axis)
    if thread is not None:
        value = cast(axis.var.dtype, thread.var)
        return value if is_const(domain.min, 0) else domain.min + value
    if not is_const(domain.min, 0):
        raise refuse(
            "compute_at", stage,
            f"'{axis.var.name}', around a stage that is computed inside, begins at {domain.min}",
            axis, "call sch = sch.normalize() first: loops begin at 0 then; lower does so",
        )  # fmt: skip
    return axis.var
