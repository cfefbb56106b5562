"""Translates programs whose values are on several devices: `annotation.on_device`, `device_copy`.

    %0 = add(%x, %x)                             a: R.Tensor(…, "opencl:0") = R.add(x, x)
    %1 = on_device(%0, opencl(0))           →    b = R.to_vdevice(a, "opencl:1")
    dense(%1, %w) on opencl(1)                   c: R.Tensor(…, "opencl:1") = R.matmul(b, w)

PlanDevices says where values are. Each device becomes one of the relax module's.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Op, VDevice
from tilesmith.ir.pass_context import PassContext
from tilesmith.relax import StructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.relax import op as operators
from tilesmith.relay.expr import Call, Var
from tilesmith.relay.function import Function
from tilesmith.relay.op.annotation.annotation import virtual_device
from tilesmith.relay.transform import PlanDevices
from tilesmith.relay.translate import ModuleTranslation, Scope, prepared
from tilesmith.relay.walks import functions_of, post_order
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.recursion import deep_recursion
from tilesmith.target import Target
from tilesmith.target.compilation_config import make_compilation_config
from tilesmith.target.virtual_device import VirtualDevice

__all__ = ["names_devices", "to_relax_on_devices"]

_HOST_TYPE = 1
_PLACES = ("param_virtual_devices", "result_virtual_device")


def names_devices(module: IRModule) -> bool:
    """Return whether a program says on which devices values are."""
    return any(
        any(key in function.attrs for key in _PLACES)
        or any(_is_call(node, "on_device", "device_copy") for node in post_order(function))
        for _, function in functions_of(module)
    )


def _is_call(node: Any, *names: str) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in names


def to_relax_on_devices(module: IRModule, target: Target) -> IRModule:
    """Translate a program for a target with devices; values that nothing places are on the first
    one. Raises UnsupportedError for devices that are neither the host nor of the target's type.
    """
    with deep_recursion():
        planned = PlanDevices(make_compilation_config(PassContext.current(), target))(module)
        return _Translation(prepared(planned), target).run()


class _Scope(Scope):
    """Translates the expressions of one function body or branch; copies stay copies."""

    module: _Translation

    def call(self, call: Call) -> Any:
        """Translate a call of an operator or of a function."""
        if not _is_call(call, "device_copy"):
            return super().call(call)
        attrs: Any = call.attrs
        place = self.module.device_of(attrs.dst_virtual_device, call)
        return self.builder.emit(operators.to_vdevice(self.find(call.args[0]), place))


class _Translation(ModuleTranslation):
    """Translates the functions of a module whose values are placed."""

    scope = _Scope

    def __init__(self, source: IRModule, target: Target) -> None:
        self.target = target
        self.devices: dict[tuple[int, int], VDevice] = {}
        self.places: dict[int, VirtualDevice] = {}
        plain = source.shallow_copy()
        for variable, function in functions_of(source):
            plain[variable] = self._without_places(function)
        super().__init__(plain)

    def run(self) -> IRModule:
        """Return the translated module, with its devices."""
        made = super().run()
        made.update_global_info("vdevice", list(self.devices.values()))
        return made

    def _without_places(self, function: Function) -> Function:
        """Return a function without the attributes that place its parameters; note these."""
        for param, place in zip(function.params, function.attrs.get(_PLACES[0], ())):
            self.places[id(param)] = virtual_device(place)
        attrs = {key: value for key, value in function.attrs.items() if key not in _PLACES}
        made: Function = function.with_fields(attrs=attrs)
        return made

    def device_of(self, place: VirtualDevice, what: Any) -> VDevice:
        """Return the device of the module that a place means."""
        kind = place.device_type or self.target.get_target_device_type()
        number = 0 if place.device is None else int(place.device.device_id)
        found = self.devices.get((kind, number))
        if found is None:
            found = self.devices[kind, number] = VDevice(self._target_of(kind, place, what), number)
        return found

    def _target_of(self, kind: int, place: VirtualDevice, what: Any) -> Target:
        if kind == self.target.get_target_device_type():
            return self.target
        if kind == _HOST_TYPE:
            return self.target.host or Target("llvm")
        raise UnsupportedError(
            f"a value is on {place.name}, and the program is built for '{self.target.kind.name}': "
            "values are on the host and on devices of one other type",
            notes=("build one program for each type of device, and copy tensors between them",),
            span=getattr(what, "span", None),
        )

    def known_sizes(self, param: Var) -> StructInfo:
        """Return the struct info of a parameter, with its device."""
        info, place = super().known_sizes(param), self.places.get(id(param))
        return info if place is None else _on(info, self.device_of(place, param))


def _on(info: StructInfo, device: VDevice) -> StructInfo:
    """Return a struct info with its tensors on a device."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo([_on(one, device) for one in info.fields])
    if isinstance(info, TensorStructInfo):
        return TensorStructInfo(info.shape, info.dtype, device, info.ndim)
    return info
