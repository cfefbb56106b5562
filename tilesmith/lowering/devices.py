"""Builds for devices: kernels for the device, and host functions that launch them."""

from __future__ import annotations

from typing import Any

from tilesmith.codegen import build as generate
from tilesmith.ir import IRModule
from tilesmith.ir.calling_convention import CallingConv
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.lowering.pipelines import device_passes
from tilesmith.runtime.devices import Device
from tilesmith.runtime.module import Module
from tilesmith.runtime.packed_func import convert_to_packed
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of

__all__ = ["build_for_device"]


def build_for_device(module: IRModule, target: Target) -> Module:
    """Compile lowered functions with threads; return the host module, which imports the kernels.

    Without a runtime for the device, the kernels can be inspected and saved, but calling a function
    raises UnsupportedError.
    """
    host = target.host or Target(back_end_of(target).host)
    module = Sequential(device_passes(target.with_host(host)), name="tir.device")(module)
    kernels, others = {}, {}
    for variable, function in module.functions.items():
        is_kernel = function.attrs.get("calling_conv") == CallingConv.DEVICE_KERNEL_LAUNCH
        (kernels if is_kernel else others)[variable] = function
    level = PassContext.current().opt_level
    opt_level = level if level < 2 else None
    built = generate(IRModule(others, attrs=module.attrs), host, opt_level)
    if kernels:
        built.import_module(generate(IRModule(kernels, attrs=module.attrs), target, opt_level))
        device = Device(target.get_target_device_type(), 0)
        if not device.exist:
            for name in built.function_names:
                built.set_function(name, convert_to_packed(_without_runtime(name, device)))
    return built


def _without_runtime(name: str, device: Device) -> Any:
    """Return a function that raises UnsupportedError, in place of one that launches kernels."""

    def call(*arguments: Any) -> None:
        raise UnsupportedError(
            f"'{name}' launches kernels, and no runtime for devices of type '{device.type}' is "
            "loaded",
            notes=(
                "the kernels can be seen and saved: module.imported_modules[0].get_source()",
                "`tilesmith doctor` shows what is installed and what is missing",
            ),
        )

    return call
