"""Where the tensors of a model for a device lie: on that device, or on the host.

    a = R.add(x, x)                      x: R.Tensor(…, "llvm:0")       native code of the host
    b = R.to_vdevice(a, "cuda:0")                                       a copy
    c = R.matmul(b, w)                                                  kernels of the device

A tensor that names no device is on the model's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilesmith import relax
from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.queries import nodes
from tilesmith.relax import StructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.relax.expr import known_struct_info
from tilesmith.runtime.devices import type_name
from tilesmith.support.errors import UnsupportedError

__all__ = ["check_places", "has_host_tensors", "is_on_host", "place_of_result"]

_HOST = 1


def _devices(info: StructInfo | None) -> Iterator[Any]:
    if isinstance(info, TupleStructInfo):
        for one in info.fields:
            yield from _devices(one)
    elif isinstance(info, TensorStructInfo) and info.vdevice is not None:
        yield info.vdevice


def _type_of(device: Any) -> int:
    return int(device.target.get_target_device_type())


def is_on_host(info: StructInfo | None) -> bool:
    """Return whether a value's tensors lie in the host's memory."""
    return any(_type_of(device) == _HOST for device in _devices(info))


def place_of_result(binding: Any) -> bool | None:
    """Return whether a call computes on the host; None for what computes nothing."""
    value = binding.value
    if not isinstance(value, relax.Call):
        return None
    infos = [*value.sinfo_args, binding.var.struct_info]
    operands = [known_struct_info(one) for one in value.args if not isinstance(one, GlobalVar)]
    return any(is_on_host(info) for info in (infos if any(infos) else operands))


def _infos(module: IRModule, name: GlobalVar) -> Iterator[StructInfo | None]:
    function: Any = module[name]
    for param in function.params:
        yield param.struct_info
    for binding in nodes(function.body, relax.Binding):
        yield binding.var.struct_info


def has_host_tensors(module: IRModule, name: GlobalVar) -> bool:
    """Return whether a function has tensors on the host."""
    return any(is_on_host(info) for info in _infos(module, name))


def check_places(module: IRModule, name: GlobalVar, device_type: int) -> None:
    """Raise UnsupportedError for tensors that are neither on a model's device nor on the host."""
    own: set[int] = set()
    for info in _infos(module, name):
        for device in _devices(info):
            kind = _type_of(device)
            if kind == device_type:
                own.add(int(device.vdevice_id))
            elif kind != _HOST:
                raise UnsupportedError(
                    f"'{name.name_hint}' has a tensor on '{type_name(kind)}': a model runs on the "
                    f"host and on one other device, here '{type_name(device_type)}'",
                    notes=("build one module for each device, and copy tensors between them",),
                )
    if len(own) > 1:
        raise UnsupportedError(
            f"'{name.name_hint}' has tensors on {len(own)} devices of type "
            f"'{type_name(device_type)}': a model runs on one of them",
            notes=("build one module for each device, and copy tensors between them",),
        )
