"""Makes kernels of implementations that programs have registered for operators.

    relay.op.register_compute("my_op", compute)      # or a strategy, for an operator of ours, too
    my_op(x)    →    R.call_tir(cls.my_op, (x,), R.Tensor(…))

The compute becomes the kernel. A classic schedule is honoured: the loops that it gives are lowered
as they are (decision 9). A call for which the static search is the best stays an operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import te
from tilesmith.ir import GlobalVar, IntImm, Op, PrimExpr
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Call, Tuple, TupleGetItem, known_struct_info
from tilesmith.relax.relations import describe, infer_call, sizes_of
from tilesmith.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.relax.transform.legalize_ops import is_known
from tilesmith.relax.type_views import type_of
from tilesmith.relay.op.op_strategy import OpImplementation
from tilesmith.relay.op.strategy.computes import copy_if_identical
from tilesmith.relay.op.strategy.selection import (
    best_implementation,
    has_choice,
    has_users_implementation,
)
from tilesmith.support.errors import ShapeError, TilesmithError, TypeMismatchError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target
from tilesmith.tir import PrimFunc
from tilesmith.tir.functor import renew_defs
from tilesmith.tir.schedule import Schedule as BlockSchedule

__all__ = ["GivenKernels", "kernel_of", "placeholders"]

_OPAQUE = 8  # of TOpPattern: it is fused with nothing


class GivenKernels:
    """The kernels of one module that come from implementations of its program."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self.target = Target.current(allow_none=True)
        self.asked: dict[Op, bool] = {}
        self.made: dict[Any, tuple[GlobalVar, StructInfo] | None] = {}

    def has(self, op: Op) -> bool:
        """Return whether the program has stated how an operator is computed, or tuning records may
        say so. Outside of a target's scope it is asked only about operators that are not ours.
        """
        if op not in self.asked:
            own = op.spec is not None
            self.asked[op] = not (own and self.target is None) and has_choice(op)
        return self.asked[op]

    def call(self, call: Call, args: Sequence[Any]) -> Any:
        """Return the call of the kernel for a call with these (translated) arguments; None if the
        static search is what is best for it.
        """
        operands = [one for arg in args for one in self.fields(arg)]
        info = infer_call(Call(call.op, list(args), call.attrs, call.sinfo_args))
        if not all(is_known(one) for one in [info, *_infos(operands)]):
            if call.op.spec is None:
                raise ShapeError(f"{call.op.name}: the shapes of a call have to be known")
            if has_users_implementation(call.op):
                record_fallback("strategy", call.op.name, "its shapes are not known")
            return None
        key = _key(call, operands)
        if key is None or key not in self.made:
            found = self._kernel(call, operands, info)
            if key is None:
                return self._result(found, operands, info)
            self.made[key] = found
        return self._result(self.made[key], operands, info)

    def fields(self, arg: Any) -> list[Any]:
        """Return the tensors of an argument, those of a tuple one by one."""
        if isinstance(arg, Tuple):
            return [one for field in arg.fields for one in self.fields(field)]
        info = known_struct_info(arg)
        if isinstance(info, TupleStructInfo):
            fields = [
                self.builder.emit(TupleGetItem(arg, place)) for place in range(len(info.fields))
            ]
            return [one for field in fields for one in self.fields(field)]
        return [arg]

    def _result(self, found: tuple[GlobalVar, StructInfo] | None, operands: Any, info: Any) -> Any:
        if found is None:
            return None
        variable, result = found
        made = Call(Op.get("relax.call_tir"), [variable, Tuple(list(operands))], None, (result,))
        if isinstance(info, TupleStructInfo) and not isinstance(result, TupleStructInfo):
            return Tuple([self.builder.emit(made)])
        return made

    def _kernel(
        self, call: Call, operands: list[Any], info: StructInfo
    ) -> tuple[GlobalVar, StructInfo] | None:
        target = self.target or Target("llvm")
        inputs = placeholders([known_struct_info(one) for one in operands])
        try:
            type_ = type_of(info)
            best = best_implementation(call.op, call.attrs, inputs, type_, target)
            if best.is_search:
                return None
            with target:
                outs = best.compute(call.attrs, inputs, type_)
            fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
            _check_results(best, outs, fields)
            function = kernel_of(best, call.attrs, inputs, outs, target)
            if call.op.get_attr("TOpPattern") == _OPAQUE:
                function = function.with_attr("op_pattern", _OPAQUE)
        except TilesmithError as error:
            error.span = error.span or call.span
            error.notes += (f"in the implementation of {call.op.name} that the program registered",)
            raise
        name = call.op.name.rpartition(".")[2]
        return self.builder.add_func(function, name), fields[0] if len(fields) == 1 else info


def _infos(operands: Sequence[Any]) -> list[Any]:
    """Return the struct info of each operand."""
    return [known_struct_info(one) for one in operands]


def _key(call: Call, operands: Sequence[Any]) -> Any:
    """Return a key of the kernel of a call whose sizes are constant; None for other calls."""
    parts = []
    for one in operands:
        info = known_struct_info(one)
        if not isinstance(info, TensorStructInfo) or info.concrete_shape is None:
            return None
        parts.append((info.concrete_shape, info.dtype))
    try:
        key = (call.op, tuple(parts), tuple(call.attrs.items()) if call.attrs is not None else ())
        hash(key)
    except TypeError:
        return None
    return key


def placeholders(infos: Sequence[Any]) -> list[te.Tensor]:
    """Return tensors of the given types, as strategies get them: constant sizes are int32."""
    made = []
    for number, info in enumerate(infos):
        if not isinstance(info, TensorStructInfo):
            raise TypeMismatchError(f"an implementation takes tensors, got {describe(info)}")
        sizes = [_size(one) for one in sizes_of(info) or ()]
        name = chr(ord("A") + number) if number < 26 else f"input{number}"
        made.append(te.placeholder(sizes, info.dtype, name=name))
    return made


def _size(size: PrimExpr) -> Any:
    return int(size) if isinstance(size, IntImm) else size


def _check_results(
    implementation: OpImplementation, outs: list[te.Tensor], fields: Sequence[Any]
) -> None:
    """Compare what a compute gives with the type of the call."""
    if len(outs) != len(fields):
        raise ShapeError(
            f"'{implementation.name}' computes {len(outs)} tensors, the call has {len(fields)}"
        )
    for out, field in zip(outs, fields):
        wanted = [_size(one) for one in sizes_of(field) or ()]
        found = [_size(one) for one in out.shape]
        differs = len(wanted) != len(found) or any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(wanted, found)
        )
        if differs or out.dtype != field.dtype:
            raise ShapeError(
                f"'{implementation.name}' computes a {out.dtype} tensor of the shape {found}, the"
                f" call has the type {describe(field)}",
                notes=("the compute gets the type of the call as its third argument",),
            )


def kernel_of(
    implementation: OpImplementation,
    attrs: Any,
    inputs: Sequence[te.Tensor],
    outs: Sequence[te.Tensor],
    target: Target,
) -> PrimFunc:
    """Return the function of tensors that an implementation computes: with the loops of its
    schedule, or without a schedule as any compute is born.
    """
    results = []
    for out in outs:
        for one in inputs:
            out = copy_if_identical(one, out)
        results.append(out)
    arguments = [*inputs, *results]
    if implementation.fschedule is None:
        function = te.create_prim_func(arguments, index_dtype_override="int64")
    else:
        schedule = implementation.schedule(attrs, results, target)
        function = _scheduled(implementation, schedule, arguments)
        function = function.with_attrs({"tir.is_scheduled": True, "op_pattern": _OPAQUE})
    if not all(isinstance(size, IntImm) for one in arguments for size in one.shape):
        function = renew_defs(function)  # its sizes are the graph's own variables
    return function.without_attr("global_symbol")


def _scheduled(implementation: OpImplementation, schedule: Any, arguments: list[Any]) -> PrimFunc:
    if isinstance(schedule, BlockSchedule):
        (schedule,) = schedule.mod.functions.values()
    if isinstance(schedule, te.Schedule):
        from tilesmith.lowering import schedule_to_module  # loads classic schedules

        schedule = schedule_to_module(schedule, arguments)["main"]
    if isinstance(schedule, PrimFunc):
        return schedule
    raise TypeMismatchError(
        f"the schedule of '{implementation.name}' gave {type(schedule).__name__}",
        notes=("return what te.create_schedule gives, or a tir.Schedule",),
    )
