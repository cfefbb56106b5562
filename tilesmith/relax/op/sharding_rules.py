"""What operators do with tensors that are spread over workers.

A rule names the axes of operands and results: equal names run over the same elements, so that one
of them divided divides all. ``matmul`` of (m, k) and (k, n) gives (m, n): what lies in the results
only as a sum over ``k`` is added up by all workers where ``k`` is divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, Var, known_struct_info
from tilesmith.relax.sharding import DTensorStructInfo, Placement
from tilesmith.relax.spec import Layout
from tilesmith.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import TypeMismatchError

__all__ = ["AxisNames", "Plan", "axis_names", "infer_sharded", "plan"]

Names = list[str | None]


@dataclass
class AxisNames:
    """The names of the axes of operands and result (None: an axis that cannot be divided)."""

    operands: list[Names]
    result: Names
    sums: set[str] = field(default_factory=set)
    """The names over which the result is a sum."""


@dataclass(frozen=True)
class Plan:
    """How operands have to be placed for each worker to compute its part of the result."""

    operands: list[Placement]
    result: Placement
    is_partial: bool
    """Whether workers have summands of the result, which are still to be added up."""


def whole(info: StructInfo) -> StructInfo:
    """Return what describes the whole of a tensor that is spread, also in tuples."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple([whole(one) for one in info.fields]))
    return info.tensor_sinfo if isinstance(info, DTensorStructInfo) else info


def _elementwise(infos: Sequence[Any], result: Any) -> AxisNames:
    rank = result.ndim
    names: Names = [f"i{axis}" for axis in range(rank)]
    operands = []
    for info in infos:
        own: Names = list(names[rank - info.ndim :]) if info.ndim else []
        for axis, size in enumerate(info.shape.values if info.shape is not None else ()):
            if isinstance(size, IntImm) and size.value == 1:
                own[axis] = None
        operands.append(own)
    return AxisNames(operands, names)


def _matmul(infos: Sequence[Any], result: Any) -> AxisNames | None:
    a, b = infos
    if a.ndim < 2 or b.ndim < 2:
        return None
    batch = [f"b{axis}" for axis in range(result.ndim - 2)]
    left: Names = [*batch[len(batch) - (a.ndim - 2) :], "m", "k"] if a.ndim > 2 else ["m", "k"]
    right: Names = [*batch[len(batch) - (b.ndim - 2) :], "k", "n"] if b.ndim > 2 else ["k", "n"]
    for names, info in ((left, a), (right, b)):
        for axis in range(info.ndim - 2):
            size = info.shape.values[axis]
            if isinstance(size, IntImm) and size.value == 1:
                names[axis] = None
    return AxisNames([left, right], [*batch, "m", "n"], {"k"})


def _permuted(call: Any, infos: Sequence[Any]) -> AxisNames:
    names: Names = [f"i{axis}" for axis in range(infos[0].ndim)]
    axes = call.attrs.axes
    order = [*reversed(range(infos[0].ndim))] if axes is None else [a % len(names) for a in axes]
    return AxisNames([names], [names[axis] for axis in order])


def _reduced(call: Any, infos: Sequence[Any]) -> AxisNames:
    rank = infos[0].ndim
    axes = call.attrs.axis
    chosen = {*range(rank)} if axes is None else {axis % rank for axis in axes}
    is_sum = call.op is operators.sum.op
    names: Names = [f"i{axis}" if axis not in chosen or is_sum else None for axis in range(rank)]
    kept: Names = [names[axis] for axis in range(rank) if axis not in chosen]
    if call.attrs.keepdims:
        kept = [None if axis in chosen else names[axis] for axis in range(rank)]
    return AxisNames([names], kept, {f"i{axis}" for axis in chosen} if is_sum else set())


def _along_axis(call: Any, infos: Sequence[Any]) -> AxisNames:
    names: Names = [f"i{axis}" for axis in range(infos[0].ndim)]
    names[call.attrs.axis % len(names)] = None
    return AxisNames([names], list(names))


_REDUCTIONS = [getattr(operators, name).op for name in ("sum", "mean", "max", "min", "prod")]
_ALONG_AXIS = [operators.nn.softmax.op, operators.nn.log_softmax.op]


def axis_names(call: Any, infos: Sequence[StructInfo], result: StructInfo) -> AxisNames | None:
    """Return the rule of a call of an operator, or None: nothing can be divided then."""
    tensors = [info for info in infos if isinstance(info, TensorStructInfo)]
    if len(tensors) != len(infos) or not isinstance(result, TensorStructInfo):
        return None
    if any(info.shape is None for info in (*tensors, result)):
        return None
    spec = call.op.spec
    if spec is not None and spec.layout is Layout.ELEMENTWISE:
        return _elementwise(tensors, result)
    if call.op is operators.matmul.op:
        return _matmul(tensors, result)
    if call.op is operators.permute_dims.op:
        return _permuted(call, tensors)
    if call.op in _REDUCTIONS:
        return _reduced(call, tensors)
    return _along_axis(call, tensors) if call.op in _ALONG_AXIS else None


def plan(
    call: Call, infos: Sequence[StructInfo], placements: Sequence[Sequence[int | None]], count: int
) -> Plan:
    """Return how operands with these placements (axes that are divided, for each of ``count`` axes
    of the mesh) are to be placed; what does not fit becomes copies.
    """
    result = whole(_whole_result(call))
    names = axis_names(call, [whole(info) for info in infos], result)
    operands: list[list[int | None]] = [[None] * count for _ in infos]
    placed: list[int | None] = [None] * count
    taken: set[str] = set()
    is_partial = False
    for number in range(count) if names is not None else ():
        assert names is not None
        for own, placement in zip(names.operands, placements):
            axis = placement[number]
            name = None if axis is None else own[axis]
            if name is None or name in taken:
                continue
            if name not in names.result and name not in names.sums:
                continue
            taken.add(name)
            for place, other in enumerate(names.operands):
                operands[place][number] = other.index(name) if name in other else None
            if name in names.result:
                placed[number] = names.result.index(name)
            else:
                is_partial = True
            break
    return Plan([Placement.of(one) for one in operands], Placement.of(placed), is_partial)


def spread_parts(arg: Any) -> list[DTensorStructInfo]:
    """Return the tensors that are spread in an argument: itself, or fields of a tuple."""
    info = getattr(arg, "struct_info", None)
    parts = info.fields if isinstance(info, TupleStructInfo) else (info,)
    return [one for one in parts if isinstance(one, DTensorStructInfo)]


def _whole_result(call: Any) -> StructInfo:
    """Return what an operator gives for whole tensors."""
    args = [
        Var("x", whole(known_struct_info(arg))) if spread_parts(arg) else arg for arg in call.args
    ]
    return Call(call.op, args, call.attrs, list(call.sinfo_args) or None).struct_info


def infer_sharded(call: Any) -> StructInfo:
    """Infer the struct info of a call with operands that are spread.

    Raises TypeMismatchError if they are placed so that no worker can compute its part.
    """
    infos = [known_struct_info(arg) for arg in call.args]
    parts = [one for arg in call.args for one in spread_parts(arg)]
    meshes = [info.device_mesh for info in parts]
    mesh = meshes[0]
    if any(other != mesh for other in meshes):
        raise TypeMismatchError(f"{call.op.name}: its tensors are on different meshes")
    count = len(mesh.shape)
    given = [
        info.placement.axes if isinstance(info, DTensorStructInfo) else (None,) * count
        for info in infos
    ]
    for info in infos:
        fields = info.fields if isinstance(info, TupleStructInfo) else ()
        inside = [one for one in fields if isinstance(one, DTensorStructInfo)]
        if any(one.placement.axes != (None,) * count for one in inside):
            raise TypeMismatchError(f"{call.op.name}: a tuple of tensors that are divided")
    made = plan(call, infos, given, count)
    for number, (wanted, own) in enumerate(zip(made.operands, given)):
        if wanted.axes != own:
            raise TypeMismatchError(
                f"{call.op.name}: argument {number} is placed as '{Placement.of(own).text}', "
                f"'{wanted.text}' is needed",
                notes=("PropagateSharding puts R.dist.redistribute before it",),
            )
    result = _whole_result(call)
    if isinstance(result, TensorStructInfo):
        return DTensorStructInfo(result, mesh, made.result)
    if isinstance(result, TupleStructInfo):
        copies = Placement.of([None] * count)
        return TupleStructInfo(
            tuple(
                [
                    DTensorStructInfo(one, mesh, copies)
                    if isinstance(one, TensorStructInfo)
                    else one
                    for one in result.fields
                ]
            )
        )
    return result
