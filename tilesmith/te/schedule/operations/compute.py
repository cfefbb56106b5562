"""Computations in a schedule: the loops of ``te.compute``, with reductions.

for i in range(8):
    C[i] = 0.0                     the init: over the loops from the first one of the reduction
    for k in range(16):            on, without those that only the reduction has
        C[i] = C[i] + A[i, k]
"""

from __future__ import annotations

from collections.abc import Mapping

from tilesmith.arith import Analyzer, IntervalSet, IntSet, eval_set
from tilesmith.arith import union as united
from tilesmith.ir import Call, Let, PrimExpr, Range, Var, const
from tilesmith.ir.operators import cast
from tilesmith.ir.queries import any_node, nodes
from tilesmith.te.places import placed
from tilesmith.te.schedule.loop_nest import LoopNest, with_conditions
from tilesmith.te.schedule.operations.reductions import provide_reduction
from tilesmith.te.schedule.operations.rules import (
    OPERATIONS,
    Bounds,
    OperationRules,
    Placement,
    Regions,
)
from tilesmith.te.schedule.operations.tensorize import provide_tensorized, tensorized_leaf
from tilesmith.te.schedule.stage import Stage
from tilesmith.te.tensor import ComputeOp, Tensor
from tilesmith.tir.expr import IterVar, ProducerLoad
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import AttrStmt, ProducerRealize, ProducerStore, Stmt, stmt_seq

__all__ = ["box_domains", "read_boxes", "realize_outputs"]


# Which parts are read


def read_boxes(
    values: tuple[PrimExpr, ...], sets: Mapping[Var, IntervalSet], analyzer: Analyzer
) -> Regions:
    """Return the boxes of tensors that expressions read while variables take the values of sets."""
    known = dict(sets)
    for binding in nodes(values, Let):
        known[binding.var] = _values(binding.value, known, analyzer)
    found: dict[Tensor, list[list[IntervalSet]]] = {}
    seen: set[int] = set()
    for load in nodes(values, ProducerLoad):
        if id(load) in seen or not isinstance(load.producer, Tensor):
            continue
        seen.add(id(load))
        box = [
            _inside(_values(index, known, analyzer), size, analyzer)
            for index, size in zip(load.indices, load.producer.shape)
        ]
        found.setdefault(load.producer, []).append(box)
    return {
        tensor: boxes[0] if len(boxes) == 1 else [united(one, analyzer) for one in zip(*boxes)]
        for tensor, boxes in found.items()
    }


def _values(index: PrimExpr, known: Mapping[Var, IntervalSet], analyzer: Analyzer) -> IntervalSet:
    """Return the values of an index; what is read from memory may be anything."""
    if any_node(index, lambda node: isinstance(node, ProducerLoad)):
        return IntSet.everything()
    return eval_set(index, known, analyzer)


def _inside(found: IntervalSet, size: PrimExpr, analyzer: Analyzer) -> IntervalSet:
    """Return an interval of indices, cut to the shape where it is known to reach beyond it on both
    sides; what is cut on one side only is harder to analyze than a guard.
    """
    if not found.has_lower_bound() and not found.has_upper_bound():
        return IntSet.interval(const(0, size.dtype), size - 1)
    if not found.has_lower_bound():
        return IntSet.interval(const(0, size.dtype), found.max_value)
    if not found.has_upper_bound():
        return IntSet.interval(found.min_value, size - 1)
    if found.is_single_point():
        return found
    if analyzer.can_prove(found.min_value <= 0) and analyzer.can_prove(found.max_value >= size - 1):
        return IntSet.interval(const(0, size.dtype), size - 1)
    return found


def _reads(op: ComputeOp, sets: Mapping[Var, IntervalSet], analyzer: Analyzer) -> Regions:
    return read_boxes(op.body, sets, analyzer)


# Over which domains the axes run


def box_domains(axes: tuple[IterVar, ...], needed: Regions, analyzer: Analyzer) -> Bounds:
    """Return the ranges of data-parallel axes that cover the boxes needed of the outputs."""
    boxes = list(needed.values())
    found: Bounds = {}
    for number, axis in enumerate(axes):
        domain = axis.domain
        if boxes:
            sets = [box[number] for box in boxes]
            hull = sets[0] if len(sets) == 1 else united(sets, analyzer)
            domain = _covered(hull, domain, analyzer)
        found[axis] = domain
    return found


def _covered(found: IntervalSet, whole: Range, analyzer: Analyzer) -> Range:
    if not (found.has_lower_bound() and found.has_upper_bound()):
        return whole
    dtype = whole.extent.dtype
    if found.is_single_point():
        return Range.from_min_extent(cast(dtype, found.min_value), const(1, dtype))
    extent = analyzer.simplify(found.max_value - found.min_value + 1)
    return Range.from_min_extent(cast(dtype, found.min_value), cast(dtype, extent))


def _domains(op: ComputeOp, needed: Regions, analyzer: Analyzer) -> Bounds:
    found = box_domains(op.axis, needed, analyzer)
    found.update({axis: axis.domain for axis in op.reduce_axis})
    return found


# Memory


def realize_outputs(stage: Stage, bounds: Bounds, body: Stmt, scope: str) -> Stmt:
    """Return ``body`` with memory for the outputs of a stage: as much as its axes run over."""
    op = stage.op
    ranges = tuple([bounds[axis] for axis in op.axis])
    for number in reversed(range(op.num_outputs)):
        tensor = op.output(number)
        body = ProducerRealize(tensor, ranges, const(True, "bool"), body, scope)
        for dimension, axis in enumerate(op.axis):
            found = stage.iter_var_attrs.get(axis)
            if found is not None and found.dim_align_factor:
                parts = (dimension, found.dim_align_factor, found.dim_align_offset)
                value = Call("handle", "tir.tvm_tuple", [const(part, "int32") for part in parts])
                body = AttrStmt(tensor, "buffer_dim_align", value, body)
    return body


# Loops


def _provide(stage: Stage, bounds: Bounds, placement: Placement) -> Stmt:
    return placed(_loops(stage, bounds, placement), stage.op.place)


def _loops(stage: Stage, bounds: Bounds, placement: Placement) -> Stmt:
    op = stage.op
    tensorized = tensorized_leaf(stage)
    if tensorized is not None:
        return provide_tensorized(stage, bounds, placement, tensorized)
    if op.reduce_axis:
        return provide_reduction(stage, bounds, placement)
    nest = LoopNest(stage, bounds, placement.keep_trivial_loops)
    values = nest.substitution()
    indices = [values.get(axis.var, axis.var) for axis in op.axis]
    stores: list[Stmt] = []
    for number, value in enumerate(op.body):
        tensor = op.output(number)
        stores.append(ProducerStore(tensor, substitute(value, values), indices))
    body = stmt_seq(*stores)
    if stage.store_predicate is not None:
        body = with_conditions([stage.store_predicate], body, are_likely=False)
    return nest.wrap(with_conditions(nest.guards(), body), placement.at)


OPERATIONS.handles(ComputeOp)(OperationRules(_reads, _domains, realize_outputs, _provide))
