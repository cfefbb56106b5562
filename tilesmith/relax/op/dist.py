"""``relax.op.distributed``: operators of tensors that are spread over workers."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar
from tilesmith.relax.attrs import REQUIRED, Schema, anything, integer
from tilesmith.relax.expr import Call, Constant, as_expr, as_struct_info, known_struct_info
from tilesmith.relax.op import base
from tilesmith.relax.op.ccl import check_single, scaled_axis
from tilesmith.relax.op.common import tensor
from tilesmith.relax.op.declaration import (
    call,
    define,
    find_function,
    function,
    function_of,
    functions,
)
from tilesmith.relax.sharding import DTensorStructInfo, Placement
from tilesmith.relax.spec import Execution, no_gradient, topi
from tilesmith.support.errors import ShapeError

__all__ = [
    "annotate_sharding",
    "call_tir_local_view",
    "redistribute",
    "redistribute_replica_to_shard",
]

_PLACE = Schema(device_mesh=anything(REQUIRED), placement=anything(REQUIRED))
_PLACE_TOO = Schema(device_mesh=anything(REQUIRED), placement=anything(REQUIRED))


def _placed(call: Any) -> Any:
    info = known_struct_info(call.args[0])
    whole = info.tensor_sinfo if isinstance(info, DTensorStructInfo) else tensor(call, 0)
    return DTensorStructInfo(whole, call.attrs.device_mesh, call.attrs.placement)


def _annotated(call: Any) -> Any:
    info = known_struct_info(call.args[0])
    DTensorStructInfo(  # the placement has to fit
        info.tensor_sinfo if isinstance(info, DTensorStructInfo) else tensor(call, 0),
        call.attrs.device_mesh,
        call.attrs.placement,
    )
    return info


def _needs_one(name: str) -> Any:
    def compute(attrs: Any, x: Any) -> Any:
        count = 1
        for size in attrs.device_mesh.shape:
            count *= size
        check_single(name, {"num_workers": count})
        return topi.identity(x)

    return compute


_annotate_sharding = define(
    "dist.annotate_sharding",
    "input",
    _annotated,
    schema=_PLACE,
    evaluate=lambda attrs, x: x,
    gradient=no_gradient,
    is_identity=True,
)
_redistribute = define(
    "dist.redistribute",
    "input",
    _placed,
    schema=_PLACE_TOO,
    compute=_needs_one("dist.redistribute"),
    evaluate=lambda attrs, x: x,
)


def _inferred_part(call: Any) -> Any:
    info = known_struct_info(call.args[0])
    count, axis = call.attrs.num_workers, call.attrs.axis
    if isinstance(info, DTensorStructInfo):
        if info.placement.axes != (None,):
            raise ShapeError(
                "redistribute_replica_to_shard takes copies of a tensor, the placement is "
                f"'{info.placement.text}'"
            )
        return DTensorStructInfo(info.tensor_sinfo, info.device_mesh, Placement.of([axis]))
    return scaled_axis(tensor(call, 0), axis, count, True)


def _own_part(attrs: Any, x: Any) -> Any:
    check_single("dist.redistribute_replica_to_shard", attrs)
    return topi.identity(x)


def _evaluated_part(attrs: Any, x: Any) -> Any:
    check_single("dist.redistribute_replica_to_shard", attrs)
    return x


redistribute_replica_to_shard = define(
    "dist.redistribute_replica_to_shard",
    "input",
    _inferred_part,
    description="This worker's part, along an axis, of a tensor that each worker has.",
    schema=Schema(num_workers=integer(least=1), axis=integer()),
    compute=_own_part,
    evaluate=_evaluated_part,
)
_call_tir_local_view = define(
    "dist.call_tir_local_view",
    "func args tir_vars?",
    lambda call: call.sinfo_args[0],
    execution=Execution.CALL_TIR,
)


def _as_mesh(mesh: Any) -> Any:
    """Return a mesh; a text is the place of one in the module that is being written."""
    if not isinstance(mesh, str):
        return mesh
    from tilesmith.script.ir import lookup_global_info  # few programs have meshes

    return lookup_global_info(mesh)


def _as_placement(placement: Any) -> Placement:
    return Placement.from_text(placement) if isinstance(placement, str) else placement


@function_of(_annotate_sharding)
def annotate_sharding(input: Any, device_mesh: Any, placement: Any) -> Call:
    """Say how a tensor should be spread; PropagateSharding follows it."""
    return call(
        _annotate_sharding.op,
        input,
        device_mesh=_as_mesh(device_mesh),
        placement=_as_placement(placement),
    )


@function_of(_redistribute)
def redistribute(input: Any, device_mesh: Any, placement: Any) -> Call:
    """Return a tensor spread otherwise."""
    return call(
        _redistribute.op,
        input,
        device_mesh=_as_mesh(device_mesh),
        placement=_as_placement(placement),
    )


@function_of(_call_tir_local_view)
def call_tir_local_view(gvar: GlobalVar, args: Any, out_sinfo: Any, tir_vars: Any = None) -> Call:
    """Call a PrimFunc on the parts of tensors that a worker has; ``out_sinfo`` describes the whole
    of the results.
    """
    made = base.call_tir(gvar, args, out_sinfo, tir_vars)
    return Call(_call_tir_local_view.op, made.args, None, made.sinfo_args)


@function("dist.call_tir")
def call_tir(func: GlobalVar, args: Any, out_sinfo: Any, tir_vars: Any = None) -> Call:
    """Call a PrimFunc on whole tensors that are spread over workers."""
    return base.call_tir(func, args, out_sinfo, tir_vars)


@function("dist.const")
def const(value: Any, struct_info: Any) -> Any:
    """Return a constant that is spread over workers."""
    plain = as_expr(value)
    return Constant(
        plain.data if isinstance(plain, Constant) else value, as_struct_info(struct_info)
    )


globals().update(functions("dist."))


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("dist." + name)
