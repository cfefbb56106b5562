"""Compiles exported modules."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.frontend.nn import core, spec
from tilesmith.relax.frontend.nn.torch import TorchModule
from tilesmith.runtime import devices
from tilesmith.runtime.relax_vm import VirtualMachine
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.support.lazy import resolve

__all__ = ["compile_module"]


def compile_module(
    module_spec: spec.ModuleSpec,
    mod: IRModule,
    params: list[tuple[str, core.Parameter]],
    device: Any,
    pipeline: Any,
    out_format: str,
) -> Any:
    """Compile a module for a device; see `Module.jit`."""
    place = devices.device(device) if isinstance(device, str) else device
    if place.device_type != devices.cpu().device_type:
        raise UnsupportedError(
            f"modules are compiled for the CPU, got the device {place}",
            notes=("whole models run on 'llvm' and 'c' so far",),
        )
    empty = [name for name, param in params if param.data is None]
    if empty:
        raise ShapeError(
            f"the parameters {', '.join(empty[:5])} have no data",
            notes=("set them with load_state_dict, or parameter.data = …, before jit",),
        )
    build = resolve("tilesmith.driver.relax_build:build")
    machine = VirtualMachine(build(mod, target="llvm", pipeline=pipeline), place)
    data = [param.data for _, param in params if param.data is not None]
    if out_format == "raw":
        return module_spec, machine, data
    return TorchModule(spec=module_spec, vm=machine, params=data)
