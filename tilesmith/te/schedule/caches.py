"""Caches: copies of a tensor that some stages read, or that a stage writes first.

s.cache_read(A, "shared", [B])       A.shared = copy of A;  B reads A.shared
s.cache_write(C, "local")            C.local = what C was;  C = copy of C.local
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of, cast
from tilesmith.support.caller import place_of_caller
from tilesmith.support.errors import TypeMismatchError
from tilesmith.te.bodies import map_body
from tilesmith.te.schedule.message_passing import (
    guards,
    pass_down_domains,
    pass_down_values,
    pass_up_values,
)
from tilesmith.te.schedule.refusals import check_scope, describe, position, refuse
from tilesmith.te.schedule.replacement import (
    computed_inside,
    current_tensor,
    insert_stage,
    replace_operations,
)
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.te.tensor import (
    ComputeOp,
    Operation,
    PlaceholderOp,
    Tensor,
    TensorComputeOp,
)
from tilesmith.tir.expr import IterVar, ProducerLoad, Reduce
from tilesmith.tir.functor import substitute
from tilesmith.tir.op import if_then_else

if TYPE_CHECKING:
    from tilesmith.te.schedule.schedule import Schedule

__all__ = [
    "cache_read", "cache_write", "check_rewritable", "check_tensor", "position_of", "restart",
]  # fmt: skip


# Copies that are read


def cache_read(schedule: Schedule, tensor: Tensor, scope: str, readers: Any) -> Tensor:
    """Let some operations read a copy of a tensor; see ``Schedule.cache_read``."""
    given = list(readers) if isinstance(readers, (list, tuple)) else [readers]
    check_tensor("cache_read", tensor)
    stage = schedule[tensor]
    if not given:
        raise refuse(
            "cache_read", stage, "no readers are given", None,
            "name the operations that read the copy: s.cache_read(A, scope, [B])",
        )  # fmt: skip
    check_scope("cache_read", stage, scope)
    source = current_tensor(schedule, tensor)
    copy = _copy_of(source, f"{source.name}.{scope}")
    replaced: dict[Operation, Operation] = {}
    for reader in given:
        op = schedule[reader].op
        replaced[op] = op.replace_inputs({source: copy})
        if replaced[op] is op:
            raise _not_read(schedule, stage, source, op)
    cache = insert_stage(schedule, position_of(schedule, stage) + 1, copy.op, stage)
    cache.scope = scope
    replace_operations(schedule, replaced)
    return copy


def position_of(schedule: Schedule, stage: Stage) -> int:
    """Return the position of a stage in the order in which they are computed."""
    return next(number for number, one in enumerate(schedule.stages) if one is stage)


def check_tensor(primitive: str, tensor: Any) -> None:
    """Refuse what is not a tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeMismatchError(
            f"{primitive} takes a tensor, got {tensor!r}",
            notes=("for example the result of te.compute; op.output(0) is that of an operation",),
        )


def _copy_of(tensor: Tensor, name: str) -> Tensor:
    axis = [
        IterVar(
            Range.from_min_extent(const(0, size.dtype), size),
            Var(f"ax{number}", size.dtype),
            IterVar.DataPar,
        )
        for number, size in enumerate(tensor.shape)
    ]
    element = ProducerLoad(tensor, [one.var for one in axis])
    return ComputeOp(name, "", None, axis, (element,), place_of_caller()).output(0)


def _not_read(schedule: Schedule, stage: Stage, tensor: Tensor, op: Operation) -> Exception:
    known = [one.name for one in schedule.stages if tensor in one.op.input_tensors]
    return refuse(
        "cache_read", stage, f"'{op.name}' does not read '{tensor.name}'", None,
        f"it is read by: {', '.join(known)}" if known else "no stage reads it",
    )  # fmt: skip


# Copies that are written


def cache_write(schedule: Schedule, tensor: Any, scope: str) -> Any:
    """Compute a tensor in a copy first; see ``Schedule.cache_write``."""
    given = list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]
    for one in given:
        check_tensor("cache_write", one)
    stage = schedule[given[0]]
    _check_outputs(schedule, stage, given)
    op = stage.op
    check_rewritable("cache_write", schedule, stage, (ComputeOp, TensorComputeOp))
    check_scope("cache_write", stage, scope)
    cache, indices = _computed_in_cache(stage, f"{op.name}.{scope}")
    copies = [ProducerLoad(cache.output(k), indices) for k in range(op.num_outputs)]
    axis = [_as_loop(one) for one in op.axis]
    copy = ComputeOp(op.name, op.tag, op.attrs, axis, copies, getattr(op, "place", None))
    added = insert_stage(schedule, position_of(schedule, stage), cache, stage)
    added.scope = scope
    replace_operations(schedule, {op: copy})
    restart(stage)
    outputs = [cache.output(one.value_index) for one in given]
    return outputs if isinstance(tensor, (list, tuple)) else outputs[0]


def _computed_in_cache(stage: Stage, name: str) -> tuple[Operation, list[PrimExpr]]:
    """Return the operation that makes the cache, and where it has an element of the stage."""
    op = stage.op
    if isinstance(op, ComputeOp):
        layout = _LeafLayout(stage)
        body = _guarded_body(_substituted(op.body, layout.axis_values), layout.conditions)
        return ComputeOp(name, op.tag, op.attrs, layout.new_axes, body, op.place), layout.indices
    loops = Stage(op).leaf_iter_vars
    if stage.relations or any(a is not b for a, b in zip(stage.leaf_iter_vars, loops)):
        raise refuse(
            "cache_write", stage, "its loops were changed, and a tensor intrinsic has its layout",
            None, "cache_write first, then split and reorder the loops of the cache",
        )  # fmt: skip
    renewed = [one.with_fields(var=Var(f"{one.var.name}.c", one.var.dtype)) for one in op.axis]
    values = dict(zip([one.var for one in op.axis], [one.var for one in renewed]))
    regions, scalars = substitute((op.input_regions, op.scalar_inputs), values)
    made = TensorComputeOp(
        name, op.tag, renewed, op.reduce_axis, op.schedulable_ndim, op.intrin, op.inputs, regions,
        scalars, op.attrs,
    )  # fmt: skip
    return made, [one.var for one in op.axis]


def _as_loop(axis: IterVar) -> IterVar:
    """Return an axis of a copy: those that belong to a tensor intrinsic become loops."""
    is_loop = axis.iter_type == IterVar.DataPar
    return axis if is_loop else axis.with_fields(iter_type=IterVar.DataPar)


def _check_outputs(schedule: Schedule, stage: Stage, given: Sequence[Tensor]) -> None:
    foreign = [one for one in given if schedule[one] is not stage]
    if foreign:
        raise refuse(
            "cache_write", stage, f"'{foreign[0].name}' is a result of another operation", None,
            "the tensors of one cache_write are the results of one operation",
        )  # fmt: skip
    wanted = {one.value_index for one in given}
    if len(wanted) != len(given) or len(wanted) != stage.op.num_outputs:
        names = ", ".join([stage.op.output(k).name for k in range(stage.op.num_outputs)])
        raise refuse(
            "cache_write", stage, "all results of an operation are cached together", None,
            f"give the list of its results, each once: [{names}]",
        )  # fmt: skip


def check_rewritable(
    primitive: str, schedule: Schedule, stage: Stage, kinds: Any = ComputeOp
) -> None:
    """Refuse stages whose computation cannot move to another stage."""
    if stage.attach_type in (AttachType.INLINE, AttachType.INLINED_ALREADY):
        raise refuse(
            primitive, stage, "the stage is inlined: nothing is computed that could be kept", None,
            "leave out compute_inline, or cache a stage that reads it",
        )  # fmt: skip
    if isinstance(stage.op, PlaceholderOp):
        raise refuse(
            primitive, stage, "an input of the program is not computed", None,
            "cache_read makes a copy of it",
        )  # fmt: skip
    if not isinstance(stage.op, kinds):
        kind = type(stage.op).__name__
        raise refuse(
            primitive, stage, f"its {kind} is not made of expressions that could move", None,
            "make a stage that copies it: te.compute(T.shape, lambda *i: T(*i))",
        )  # fmt: skip
    if stage.layout_transforms:
        raise refuse(
            primitive, stage, "its layout was transformed", None, "transform the layout afterwards"
        )
    inside = computed_inside(schedule, stage)
    if inside:
        raise refuse(
            primitive, stage,
            f"'{inside[0].name}' is computed at a loop of it, which the primitive replaces",
            inside[0].attach_ivar, f"place '{inside[0].name}' afterwards",
        )  # fmt: skip


def _substituted(body: tuple[PrimExpr, ...], values: dict[Var, PrimExpr]) -> tuple[PrimExpr, ...]:
    return map_body(body, lambda value: substitute(value, values)) if values else body


def _guarded_body(
    body: tuple[PrimExpr, ...], conditions: Sequence[PrimExpr]
) -> tuple[PrimExpr, ...]:
    """Return the values of a computation where conditions hold; elsewhere reductions leave the
    iteration out, and other values are zero.
    """
    if not conditions:
        return body
    condition = all_of(*conditions)

    def guarded(value: PrimExpr) -> PrimExpr:
        if isinstance(value, Reduce):
            return value.with_fields(condition=all_of(value.condition, condition))
        return if_then_else(condition, value, const(0, value.dtype))

    return map_body(body, guarded)


def restart(stage: Stage) -> None:
    """Let a stage loop over the axes of its operation, as a new stage does."""
    new = Stage(stage.op)
    stage.all_iter_vars, stage.leaf_iter_vars = new.all_iter_vars, new.leaf_iter_vars
    stage.relations = []


class _LeafLayout:
    """The layout that follows the loops over the data-parallel axes of a stage.

    ``new_axes``: an axis for each such loop. ``axis_values``: the values of the stage's axes in
    terms of them. ``conditions`` hold where these are inside of the shape. ``indices``: where an
    element of the stage lies.
    """

    def __init__(self, stage: Stage) -> None:
        axes, reduced = stage.op.axis, stage.op.reduce_axis
        analyzer = Analyzer()
        domains: dict[IterVar, Range] = {axis: axis.domain for axis in [*axes, *reduced]}
        for axis in [*axes, *reduced]:
            analyzer.bind(axis.var, axis.domain)
        self.loops = _data_parallel_loops(stage)
        pass_down_domains(stage, domains, analyzer)
        values: dict[IterVar, PrimExpr] = {}
        self.new_axes: list[IterVar] = []
        for loop in self.loops:
            new = IterVar(domains[loop], Var(f"{loop.var.name}.c", loop.var.dtype), loop.iter_type)
            self.new_axes.append(new)
            values[loop] = new.var
            analyzer.bind(new.var, domains[loop])
        pass_up_values(stage, domains, values)
        self.conditions = guards(stage, domains, values, analyzer, set(reduced))
        self.axis_values = {
            axis.var: analyzer.simplify(cast(axis.var.dtype, values[axis])) for axis in axes
        }
        places: dict[IterVar, PrimExpr] = {axis: axis.var for axis in axes}
        pass_down_values(stage, domains, places)
        self.indices = [analyzer.simplify(places[loop]) for loop in self.loops]


def _data_parallel_loops(stage: Stage) -> list[IterVar]:
    """Return the loops of a stage without its reduction axes, which must be as they were made."""
    loops = []
    for axis in stage.leaf_iter_vars:
        if position(stage.op.reduce_axis, axis) is not None:
            continue
        if axis.iter_type != IterVar.DataPar:
            raise refuse(
                "cache_write", stage,
                f"{describe(axis)} is a loop of its own by now, and the cache starts anew", axis,
                "cache_write first, then split and fuse the reduction axes of the cache",
            )  # fmt: skip
        loops.append(axis)
    return loops
