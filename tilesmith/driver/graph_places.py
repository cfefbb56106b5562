"""Where the tensors of a model for devices lie: on one of these devices, or on the host.

    a = R.add(x, x)                      x: R.Tensor(…, "llvm:0")       native code of the host
    b = R.to_vdevice(a, "cuda:0")                                       a copy
    c = R.matmul(b, w)                                                  kernels of a device
    d = R.to_vdevice(c, "cuda:1")                                       a copy, and so on

A place is HOST, or a position among the numbers of the devices that the model uses. A tensor that
names no device is on the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilesmith import relax
from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.queries import nodes
from tilesmith.relax import StructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.relax.expr import known_struct_info
from tilesmith.runtime.devices import type_name
from tilesmith.support.errors import UnsupportedError

__all__ = ["HOST", "Places", "is_on_host"]

HOST = -1
_HOST_TYPE = 1


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
    return any(_type_of(device) == _HOST_TYPE for device in _devices(info))


def _infos(function: Any) -> Iterator[StructInfo | None]:
    for param in function.params:
        yield param.struct_info
    for binding in nodes(function.body, relax.Binding):
        yield binding.var.struct_info


class Places:
    """The devices that the functions of a model name. Raises UnsupportedError for tensors that are
    neither on a device of the model's type nor on the host.
    """

    def __init__(self, module: IRModule, names: Sequence[GlobalVar], device_type: int) -> None:
        found: set[int] = set()
        for name in names:
            for info in _infos(module[name]):
                for device in _devices(info):
                    kind = _type_of(device)
                    if kind == device_type:
                        found.add(int(device.vdevice_id))
                    elif kind != _HOST_TYPE:
                        raise _of_another_type(name, kind, device_type)
        self.numbers = sorted(found)

    def named(self, info: StructInfo | None) -> set[int]:
        """Return the places that a value's tensors name."""
        return {
            HOST if _type_of(one) == _HOST_TYPE else self.numbers.index(int(one.vdevice_id))
            for one in _devices(info)
        }

    def of(self, info: StructInfo | None) -> int:
        """Return the place of a tensor."""
        return next(iter(self.named(info)), 0)

    def of_function(self, function: Any) -> set[int]:
        """Return the places of a function's tensors."""
        return {place for info in _infos(function) for place in self.named(info)}

    def of_call(self, binding: Any, name: str) -> int | None:
        """Return the place where a call is computed; None for what computes nothing. Raises
        UnsupportedError for a call with tensors on several devices.
        """
        value = binding.value
        if not isinstance(value, relax.Call):
            return None
        infos = [*value.sinfo_args, binding.var.struct_info]
        results = {place for info in infos for place in self.named(info)}
        operands = self._operands(value)
        devices = (results | operands) - {HOST}
        if len(devices) > 1:
            kinds = ", ".join([str(self.numbers[place]) for place in sorted(devices)])
            raise UnsupportedError(
                f"'{binding.var.name_hint}' in '{name}' is computed from or to tensors on several "
                f"devices, number {kinds}",
                notes=('copy them to one device before: R.to_vdevice(x, "cuda:0")',),
            )
        if HOST in results:
            return HOST
        return next(iter(devices), 0)

    def _operands(self, call: Any) -> set[int]:
        pending = [one for one in call.args if not isinstance(one, GlobalVar)]
        found: set[int] = set()
        while pending:
            one = pending.pop()
            if isinstance(one, relax.Tuple):
                pending += one.fields
            elif not isinstance(one, relax.ExternFunc):
                found |= self.named(known_struct_info(one))
        return found


def _of_another_type(name: GlobalVar, kind: int, device_type: int) -> UnsupportedError:
    return UnsupportedError(
        f"'{name.name_hint}' has a tensor on '{type_name(kind)}': a model runs on the host and on "
        f"devices of one other type, here '{type_name(device_type)}'",
        notes=("build one module for each type of device, and copy tensors between them",),
    )
