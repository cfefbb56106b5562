"""Writes the expressions of inlined stages where they are read.

    B[i] = A[i] + 1     (compute_inline)
    C[i] = B[i + 2] * 3                        C[i] = (A[i + 2] + 1) * 3

Bodies are expanded from the reader's side, each once: a chain of inlined stages costs no more than
the expression that it becomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilesmith.ir import Let, PrimExpr, Rewriter, Var
from tilesmith.ir.operators import cast
from tilesmith.ir.queries import nodes
from tilesmith.support.errors import ScheduleError
from tilesmith.support.recursion import deep_recursion
from tilesmith.te.bodies import map_body
from tilesmith.te.schedule.refusals import refuse
from tilesmith.te.schedule.replacement import set_operation
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.te.tensor import ComputeOp, HybridOp, Operation, Tensor
from tilesmith.tir.expr import ProducerLoad
from tilesmith.tir.shared_values import bind_shared

if TYPE_CHECKING:
    from tilesmith.te.schedule.schedule import Schedule

__all__ = ["inline_stages"]


class _Inliner(Rewriter):
    """Expands reads of inlined operations, and lets others read what was replaced."""

    def __init__(
        self, inlined: Mapping[Operation, Stage], replaced: Mapping[Tensor, Tensor]
    ) -> None:
        self.inlined = inlined
        self.replaced = replaced
        self.values: dict[Var, PrimExpr] = {}
        """What the axes and the lets of the inlined operation are where it is read."""
        self.is_inside = False
        # An element that is read twice is one expression: chains of `x + x` stay small.
        self.elements: dict[tuple[Tensor, tuple[int, ...]], tuple[list[PrimExpr], PrimExpr]] = {}

    def expanded(self, op: ComputeOp | HybridOp) -> Operation:
        """Return an operation that reads no inlined ones."""
        self.elements.clear()
        if isinstance(op, ComputeOp):
            return op.with_body(map_body(op.body, lambda body: bind_shared(self.visit(body))))
        body = self.visit(op.body)
        if body is op.body:
            return op
        read = [load.producer for load in nodes(body, ProducerLoad)]
        known = dict.fromkeys([one for one in read if one not in op.outputs])
        return op.with_fields(inputs=tuple(known), body=body)

    def visit_Var(self, node: Var) -> PrimExpr:
        return self.values.get(node, node)

    def visit_Let(self, node: Let) -> PrimExpr:
        if not self.is_inside:
            return self.children(node)
        value = self.visit(node.value)
        variable = Var(node.var.name, node.var.dtype)  # the same let may be written several times
        self.values[node.var] = variable
        return Let(variable, value, self.visit(node.body))

    def visit_ProducerLoad(self, load: ProducerLoad) -> PrimExpr:
        producer = load.producer
        assert isinstance(producer, Tensor)
        indices = [self.visit(index) for index in load.indices]
        if producer.op in self.inlined:
            return self.element(producer, indices)
        tensor = self.replaced.get(producer, producer)
        if tensor is producer and all(new is old for new, old in zip(indices, load.indices)):
            return load
        return ProducerLoad(tensor, indices, load.span)

    def element(self, tensor: Tensor, indices: list[PrimExpr]) -> PrimExpr:
        """Return the expression of an element of an inlined operation."""
        key = (tensor, tuple([id(index) for index in indices]))
        found = self.elements.get(key)
        if found is None:
            op: ComputeOp = tensor.op  # type: ignore[assignment]
            outer, self.values = self.values, {}
            was_inside, self.is_inside = self.is_inside, True
            for axis, index in zip(op.axis, indices):
                self.values[axis.var] = cast(axis.var.dtype, index)
            value = self.visit(op.body[tensor.value_index])
            self.values, self.is_inside = outer, was_inside
            found = self.elements[key] = (indices, value)  # keeps the indices, and their ids, alive
        return found[1]


def inline_stages(schedule: Schedule) -> None:
    """Write the expressions of the stages that are computed inline where they are read; they have
    no loops from then on.
    """
    inlined = {s.op: s for s in schedule.stages if s.attach_type == AttachType.INLINE}
    if not inlined:
        return
    replaced: dict[Tensor, Tensor] = {}
    inliner = _Inliner(inlined, replaced)
    with deep_recursion():
        for stage in schedule.stages:
            if stage.attach_type == AttachType.INLINE:
                continue
            op = stage.op
            if isinstance(op, (ComputeOp, HybridOp)):
                new: Operation = inliner.expanded(op)
            else:
                if read := [one for one in op.input_tensors if one.op in inlined]:
                    raise _needs_memory(inlined[read[0].op], op)
                new = op.replace_inputs(replaced)
            if new is not op:
                replaced.update({op.output(k): new.output(k) for k in range(op.num_outputs)})
                set_operation(schedule, stage, new)
    for stage in inlined.values():
        stage.attach_type = AttachType.INLINED_ALREADY


def _needs_memory(stage: Stage, reader: Operation) -> ScheduleError:
    kind = type(reader).__name__
    return refuse(
        "compute_inline", stage, f"the {kind} '{reader.name}' reads it from memory", None,
        "leave out compute_inline: only expressions read expressions", stage.placed_at,
    )  # fmt: skip
