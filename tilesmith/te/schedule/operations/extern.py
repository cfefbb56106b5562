"""Statements over buffers in a schedule (``te.extern``): they read and write whole tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.arith import Analyzer, IntervalSet, IntSet
from tilesmith.ir import Call, IRModule, PrimExpr, Range, Var, const
from tilesmith.ir.queries import any_node
from tilesmith.te.schedule.operations.rules import (
    OPERATIONS,
    Bounds,
    OperationRules,
    Placement,
    Regions,
)
from tilesmith.te.schedule.single_writers import updating_alone
from tilesmith.te.schedule.stage import Stage
from tilesmith.te.tensor import ExternOp, Tensor
from tilesmith.tir import transform as passes
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AttrStmt, Block, BlockRealize, ProducerRealize, Stmt

__all__ = ["BIND_SCOPE", "bound_to_region", "whole_ranges"]

BIND_SCOPE = "buffer_bind_scope"


def whole_ranges(tensor: Tensor) -> list[Range]:
    """Return the ranges of all elements of a tensor."""
    return [Range.from_min_extent(const(0, size.dtype), size) for size in tensor.shape]


def bound_to_region(buffer: Buffer, tensor: Tensor, ranges: Sequence[Range], body: Stmt) -> Stmt:
    """Return ``body`` with a buffer that stands for a region of a tensor: StorageFlatten redirects
    its accesses, and replaces the variables among its strides, sizes and offset.
    """
    ends: list[PrimExpr] = [part for one in ranges for part in (one.min, one.extent)]
    return AttrStmt([buffer, tensor], BIND_SCOPE, Call("handle", "tir.tvm_tuple", ends), body)


def _reads(op: ExternOp, sets: Mapping[Var, IntervalSet], analyzer: Analyzer) -> Regions:
    return {
        tensor: [IntSet.from_range(one) for one in whole_ranges(tensor)]
        for tensor in op.input_tensors
    }


def _domains(op: ExternOp, needed: Regions, analyzer: Analyzer) -> Bounds:
    return {}


def _realize(stage: Stage, bounds: Bounds, body: Stmt, scope: str) -> Stmt:
    for number in reversed(range(stage.op.num_outputs)):
        tensor = stage.op.output(number)
        ranges = whole_ranges(tensor)
        body = ProducerRealize(tensor, ranges, const(True, "bool"), body, scope)
    return body


def _without_blocks(op: ExternOp) -> Stmt:
    """Return the statement of an operation with its blocks lowered to plain loops, which is what
    the rest of a classic program is made of.
    """
    if not any_node(op.body, lambda node: isinstance(node, Block)):
        return op.body
    body = op.body
    if not isinstance(body, BlockRealize) or body.block.iter_vars:
        body = BlockRealize((), const(True, "bool"), Block((), (), (), "root", body))
    buffers = {Var(one.name, "handle"): one for one in _buffers(op)}
    module = IRModule({"main": PrimFunc(list(buffers), body, None, buffers)})
    for step in (
        passes.LowerInitBlock(),
        passes.PlanAndUpdateBufferAllocationLocation(),
        passes.ConvertBlocksToOpaque(),
        passes.LowerMatchBuffer(),
        passes.LowerOpaqueBlock(),
    ):
        module = step(module)
    lowered: Any = module["main"]
    return lowered.body  # type: ignore[no-any-return]


def _buffers(op: ExternOp) -> list[Buffer]:
    return [*op.input_placeholders, *op.output_placeholders]


def _provide(stage: Stage, bounds: Bounds, placement: Placement) -> Stmt:
    op = stage.op
    outputs = [op.output(number) for number in range(op.num_outputs)]
    body: Stmt = AttrStmt(const(0, "int32"), "extern_scope", const(0, "int32"), _without_blocks(op))
    pairs = [*zip(op.input_placeholders, op.inputs), *zip(op.output_placeholders, outputs)]
    for buffer, tensor in reversed(pairs):
        body = bound_to_region(buffer, tensor, whole_ranges(tensor), body)
    return updating_alone(stage, body)


OPERATIONS.handles(ExternOp)(OperationRules(_reads, _domains, _realize, _provide))
