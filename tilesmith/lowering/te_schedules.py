"""From classic schedules to functions: the steps before lowering, and names that users know."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.ir import IRModule, Var
from tilesmith.ir.queries import mentions, nodes
from tilesmith.ir.transform import PassContext
from tilesmith.support.errors import ScheduleError, TypeMismatchError
from tilesmith.te.schedule import Schedule
from tilesmith.te.schedule.bounds import infer_bound
from tilesmith.te.schedule.postprocessing import schedule_post_proc_to_prim_func
from tilesmith.te.schedule.refusals import refuse
from tilesmith.te.schedule.schedule_ops import schedule_ops
from tilesmith.te.tensor import ComputeOp, Tensor
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.free_variables import free_variables
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AttrStmt

__all__ = ["check_pragmas", "form_irmodule", "schedule_to_module"]


def form_irmodule(
    sch: Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Any, Any] | None = None,
) -> IRModule:
    """Return the module with the function of a schedule, before lowering."""
    return schedule_to_module(sch, args, name, binds)


def schedule_to_module(
    sch: Schedule,
    args: Sequence[Any] | None = None,
    name: str = "main",
    binds: Mapping[Any, Any] | None = None,
) -> IRModule:
    """Return the module with the function of a schedule, before lowering: its loops, over buffers
    of which parts are realized.
    """
    if args is None:
        raise TypeMismatchError(
            "the arguments of a schedule are needed: the tensors that are passed in and out",
            notes=("for example lower(s, [A, B, C])",),
        )
    arguments = [args] if isinstance(args, (Tensor, Buffer, Var)) else list(args)
    _check_outputs(sch, arguments, binds or {})
    normal = sch.normalize()
    stmt = schedule_ops(normal, infer_bound(normal))
    func = schedule_post_proc_to_prim_func(arguments, stmt, binds)
    func = func.with_attr("global_symbol", name)
    return IRModule({name: func})


def _check_outputs(sch: Schedule, arguments: list[Any], binds: Mapping[Any, Any]) -> None:
    """Refuse a function that computes what nobody gets."""
    for op in [stage.origin_op for stage in sch.stages if stage.is_output]:
        outputs = [op.output(number) for number in range(op.num_outputs)]
        given = any(any(one is tensor for one in arguments) for tensor in outputs)
        if isinstance(op, ComputeOp) and not given and not any(one in binds for one in outputs):
            raise ScheduleError(
                f"stage '{op.name}' is an output of the schedule, which is not among the arguments",
                notes=(f"give it: lower(s, [..., {op.name}])",),
            )


PRAGMAS = (
    "auto_unroll_max_step", "debug_skip_region", "import_c", "import_llvm", "loop_partition_hint",
    "parallel_barrier_when_finish", "parallel_launch_point", "parallel_stride_pattern",
    "unroll_disable", "unroll_explicit",
)  # fmt: skip
"""The pragmas that passes and back ends know; `LowerParallelRegions` tells what those about
parallel loops mean."""


def check_pragmas(sch: Schedule, lowered: IRModule) -> None:
    """Refuse pragmas of a schedule that neither a pass nor a back end knows, and a stride for a
    loop that no workers divide.
    """
    for stage in sch.stages:
        _check_strides(stage)
    left = {
        attribute.attr_key.removeprefix("pragma_")
        for func in lowered.functions.values()
        if isinstance(func, PrimFunc)
        for attribute in nodes(func.body, AttrStmt)
        if attribute.attr_key.startswith("pragma_")
    }
    unknown = left.difference(PRAGMAS)
    if not unknown:
        return
    for stage in sch.stages:
        for axis, found in stage.iter_var_attrs.items():
            for pragma in found.pragmas:
                if pragma.key in unknown:
                    raise _unknown_pragma(stage, axis, pragma)


def _check_strides(stage: Any) -> None:
    """Refuse the pragma parallel_stride_pattern where no parallel loop follows in the stage."""
    leaves = stage.leaf_iter_vars
    for number, axis in enumerate(leaves):
        found = stage.iter_var_attrs.get(axis)
        pragmas = [] if found is None else found.pragmas
        for pragma in [one for one in pragmas if one.key == "parallel_stride_pattern"]:
            inner = [stage.iter_var_attrs.get(one) for one in leaves[number:]]
            kinds = [one.iter_type for one in inner if one is not None]
            if IterVar.Parallelized not in kinds:
                raise refuse(
                    "pragma", stage,
                    f"'parallel_stride_pattern' on '{axis.var.name}' divides a parallel loop, and "
                    "there is none", axis,
                    f"make it parallel: s[{stage.name}].parallel({axis.var.name})", pragma.place,
                )  # fmt: skip


def _unknown_pragma(stage: Any, axis: Any, pragma: Any) -> ScheduleError:
    known = [*PRAGMAS, "parallel", "unroll", "vectorize"]
    near = difflib.get_close_matches(pragma.key, known, n=1)
    advice = f"did you mean '{near[0]}'?" if near else "known ones: " + ", ".join(sorted(known))
    return refuse(
        "pragma", stage, f"'{pragma.key}' on '{axis.var.name}' is unknown", axis,
        advice + "; a pass of your own for it is added by the option tir.add_lower_pass",
        pragma.place,
    )  # fmt: skip


def check_schedule(sch: Schedule, lowered: IRModule) -> None:
    """Refuse what stands in the way of building a schedule that can be shown: pragmas that nobody
    knows, variables that nothing defines.
    """
    if not PassContext.current().get_config("tir.add_lower_pass"):
        check_pragmas(sch, lowered)
    for func in lowered.functions.values():
        if isinstance(func, PrimFunc) and (free := free_variables(func)):
            raise _undefined(sch, free[0])


def _undefined(sch: Schedule, variable: Var) -> ScheduleError:
    """Return the error for a variable that is neither an argument nor a loop."""
    for stage in sch.stages:
        predicate = stage.store_predicate
        if predicate is not None and mentions(predicate, {variable}):
            return refuse(
                "set_store_predicate", stage,
                f"the condition uses '{variable.name}', which is no loop or thread around it",
                None, "bind a loop of the stage to that thread axis",
            )  # fmt: skip
    using = [stage.name for stage in sch.stages if stage.op is not None and _uses(stage, variable)]
    where = f"stage '{using[0]}' uses" if using else "the schedule uses"
    return ScheduleError(
        f"{where} '{variable.name}', which is neither an argument nor a size of one",
        notes=(f"give it as an argument: build(s, [..., {variable.name}, ...])",),
    )


def _uses(stage: Any, variable: Var) -> bool:
    parts = [*getattr(stage.op, "body", ()), *[axis.dom for axis in stage.op.root_iter_vars]]
    return mentions([part for part in parts if part is not None], {variable})
