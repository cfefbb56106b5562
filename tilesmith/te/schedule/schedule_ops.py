"""Writes the statement of a schedule: the loops of all stages, each where it is computed.

s[B].compute_at(s[C], yo)      for yo:
                                   realize B[yo * 8 : yo * 8 + 8]:
                                       for y, x: B[yo * 8 + y, x] = …
                                       for yi, x: C[yo * 8 + yi, x] = … B[…] …
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import Call, PrimExpr, Range, Rewriter, const
from tilesmith.support.errors import ScheduleError
from tilesmith.support.recursion import deep_recursion
from tilesmith.te.schedule.operations import OPERATIONS
from tilesmith.te.schedule.operations.rules import Bounds
from tilesmith.te.schedule.placement import AttachPaths, attach_point, memory_scope
from tilesmith.te.schedule.refusals import refuse
from tilesmith.te.schedule.schedule import Schedule
from tilesmith.te.schedule.single_writers import guard_updates
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.te.tensor import Operation, PlaceholderOp, ScanOp, Tensor
from tilesmith.tir.expr import IterVar, ProducerLoad
from tilesmith.tir.stmt import (
    AttrStmt,
    NodeList,
    ProducerRealize,
    ProducerStore,
    Stmt,
    is_no_op,
    stmt_seq,
)

__all__ = ["AXIS_SEPARATORS", "LAYOUT_TRANSFORMS", "schedule_ops"]

AXIS_SEPARATORS = "axis_separators"
LAYOUT_TRANSFORMS = "layout_transforms"


@deep_recursion
def schedule_ops(
    sch: Schedule, bounds: Mapping[IterVar, Range], debug_keep_trivial_loop: bool = False
) -> Stmt:
    """Return the statement of a schedule, from the ranges that ``infer_bound`` found.

    ``debug_keep_trivial_loop``: loops of one iteration stay loops.
    """
    return _Writer(sch, dict(bounds), debug_keep_trivial_loop).run()


class _Writer:
    def __init__(self, sch: Schedule, bounds: Bounds, keep_trivial_loops: bool) -> None:
        self.sch = sch
        self.bounds = bounds
        self.keep_trivial_loops = keep_trivial_loops
        self.paths = AttachPaths()
        self.at_root: list[Stage] = []
        self.at_loops: dict[IterVar, list[Stage]] = {}
        self.of_scans: dict[Operation, list[Stage]] = {}
        self.placed: set[IterVar] = set()
        self.aliases: dict[Tensor, Tensor] = {}

    def run(self) -> Stmt:
        """Return the whole statement."""
        self.sort_stages()
        body: Stmt = stmt_seq()
        for stage in reversed(self.at_root):
            body = self.pipeline(stage, body)
        body = guard_updates(body)
        missing = [axis for axis in self.at_loops if axis not in self.placed]
        if missing:
            stage = self.at_loops[missing[0]][0]
            raise refuse(
                "compute_at", stage,
                f"the loop '{missing[0].var.name}' at which it is to be computed is not written",
                None, "compute it at another loop, or at the root",
                stage.group_spec().placed_at,
            )  # fmt: skip
        names = self.users_tensors()
        body = _AliasRewriter(names).visit(body) if names else body
        for stage in self.sch.stages:
            body = self.laid_out(stage, body)
        return body

    def users_tensors(self) -> dict[Tensor, Tensor]:
        """Return, for tensors that have no memory of their own or that primitives have put in the
        place of the user's, the tensor that stands for them in the end.
        """
        found: dict[Tensor, Tensor] = {}
        for stage in self.sch.stages:
            if stage.op is not stage.origin_op:
                for k in range(stage.op.num_outputs):
                    found[stage.op.output(k)] = stage.origin_op.output(k)
        for tensor, owner in self.aliases.items():
            found[tensor] = found.get(owner, owner)
        return found

    def laid_out(self, stage: Stage, body: Stmt) -> Stmt:
        """Return a statement that says how the memory of a stage's results is laid out."""
        for k in range(stage.op.num_outputs):
            tensor = stage.origin_op.output(k)
            if stage.layout_transforms:
                subject = [tensor, *stage.layout_transforms]
                body = AttrStmt(subject, LAYOUT_TRANSFORMS, const(1, "int32"), body)
            if stage.axis_separators:
                parts = [const(part, "int32") for part in stage.axis_separators]
                value = Call("handle", "tir.tvm_tuple", parts)
                body = AttrStmt(tensor, AXIS_SEPARATORS, value, body)
        return body

    def sort_stages(self) -> None:
        """Find the place of each stage."""
        initial: dict[Operation, Operation] = {}
        for stage in self.sch.stages:
            if stage.attach_type == AttachType.INLINED_ALREADY or stage.op is None:
                continue
            self.aliases.update(OPERATIONS[stage.op.__class__].aliases(stage.op))
            if isinstance(stage.op, ScanOp):
                initial.update({tensor.op: stage.op for tensor in stage.op.init})
        for stage in self.sch.stages:
            if stage.attach_type == AttachType.INLINE:
                raise ScheduleError(
                    f"stage '{stage.name}' is inlined, which has to be carried out first",
                    notes=("call sch = sch.normalize() first; lower and build do so",),
                )
            is_computed = stage.attach_type != AttachType.INLINED_ALREADY
            if not is_computed or isinstance(stage.op, PlaceholderOp):
                continue
            parent, axis = attach_point(stage)
            if axis is not None:
                self.at_loops.setdefault(axis, []).append(stage)
            elif stage.op in initial:
                self.of_scans.setdefault(initial[stage.op], []).append(stage)
            else:
                self.at_root.append(stage)

    def pipeline(self, stage: Stage, consumer: Stmt) -> Stmt:
        """Return the statement that computes a stage and then uses it."""
        rules = OPERATIONS[stage.op.__class__]
        producer = rules.provide(stage, self.bounds, _Place(self, stage))
        if stage.has_double_buffer:
            producer = self.marked(stage, "double_buffer_scope", producer)
        body = producer if is_no_op(consumer) else stmt_seq(producer, consumer)
        if not any(stage.op.output(k) in self.aliases for k in range(stage.op.num_outputs)):
            scope = memory_scope(stage, self.paths[stage])
            body = rules.realize(stage, self.bounds, body, scope)
        if stage.has_rolling_buffer:
            body = self.marked(stage, "rolling_buffer_scope", body)
        return body

    def marked(self, stage: Stage, key: str, body: Stmt) -> Stmt:
        for number in range(stage.op.num_outputs):
            body = AttrStmt(stage.op.output(number), key, const(1, "int32"), body)
        return body


class _Place:
    """Puts the stages that are computed inside of a stage into its statement."""

    def __init__(self, writer: _Writer, stage: Stage) -> None:
        self.writer = writer
        self.stage = stage
        self.keep_trivial_loops = writer.keep_trivial_loops

    def at(self, axis: IterVar, body: Stmt) -> Stmt:
        self.writer.placed.add(axis)
        for stage in reversed(self.writer.at_loops.get(axis, [])):
            body = self.writer.pipeline(stage, body)
        return body

    def before_scan(self, body: Stmt) -> Stmt:
        for stage in reversed(self.writer.of_scans.get(self.stage.op, [])):
            body = self.writer.pipeline(stage, body)
        return body


class _AliasRewriter(Rewriter):
    """Replaces tensors that live in the memory of others by these."""

    def __init__(self, aliases: Mapping[Any, Tensor]) -> None:
        self.aliases = aliases

    def visit_ProducerStore(self, store: ProducerStore) -> Stmt:
        new = self.children(store)
        found = self.aliases.get(store.producer)
        return new if found is None else new.with_fields(producer=found)

    def visit_ProducerLoad(self, load: ProducerLoad) -> PrimExpr:
        new = self.children(load)
        found = self.aliases.get(load.producer)
        return new if found is None else ProducerLoad(found, new.indices, new.span)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        body, value = self.visit(attribute.body), self.visit(attribute.value)
        node: Any = attribute.node
        if isinstance(node, NodeList):
            node = NodeList(tuple([self.aliases.get(item, item) for item in node.items]))
        else:
            node = self.aliases.get(node, node)
        return attribute.with_fields(node=node, value=value, body=body)

    def visit_ProducerRealize(self, realize: ProducerRealize) -> Stmt:
        new = self.children(realize)
        found = self.aliases.get(realize.producer)
        return new if found is None else new.with_fields(producer=found)
