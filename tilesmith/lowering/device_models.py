"""Compiles whole models for devices: kernels, and functions of the host that call their host parts.

main (host, wrapped for its users)  →  kernel_12ab (host, pointers and sizes)  →  launch
"""

from __future__ import annotations

from collections.abc import Collection

from tilesmith.ir import IRModule
from tilesmith.ir.calling_convention import CallingConv
from tilesmith.ir.transform import PassContext, Sequential
from tilesmith.lowering.checking import checked_passes
from tilesmith.lowering.devices import generate_with_kernels, host_of
from tilesmith.lowering.functions import lower
from tilesmith.lowering.kernels import with_size_parameters
from tilesmith.lowering.pipelines import device_passes, further_passes
from tilesmith.runtime.module import Module
from tilesmith.target import Target
from tilesmith.tir import transform as passes
from tilesmith.tir.transform.functions.device_functions import DEVICE_FUNCTION

__all__ = ["build_model_for_device", "lower_for_device"]


def build_model_for_device(
    kernels: IRModule, entries: IRModule, on_host: Collection[str], target: Target
) -> Module:
    """Compile scheduled kernels, and the functions that call them; return the host's module.

    ``on_host`` names the entries whose tensors are in the host's memory, or anywhere.
    """
    host = host_of(target)
    with checked_passes():
        whole = _lowered_kernels(kernels, target.with_host(host))
        whole.update(_lowered_entries(entries, on_host, target, host))
        return generate_with_kernels(whole, target, host)


def lower_for_device(kernels: IRModule, target: Target) -> IRModule:
    """Lower functions with threads; return their kernels without the functions of the host."""
    lowered = _lowered_kernels(kernels, target.with_host(host_of(target)))
    convention = CallingConv.DEVICE_KERNEL_LAUNCH
    found = {}
    for variable, function in lowered.functions.items():
        if function.attrs.get("calling_conv") == convention:
            found[str(function.attrs["global_symbol"])] = function
        elif function.attrs.get(DEVICE_FUNCTION):
            found[variable.name_hint] = function
    return IRModule(found)


def _lowered_kernels(kernels: IRModule, target: Target) -> IRModule:
    """Return kernels for the device, and the functions of the host that launch them: with pointers
    for buffers, then the scalars, then the symbolic sizes.
    """
    inner = with_size_parameters(kernels)
    for variable, function in list(inner.items()):
        inner[variable] = function.without_attr("global_symbol")  # it needs no wrapper
    from tilesmith.lowering.gpu_checks import check_build  # which loads interpreters

    lowered = lower(inner)
    check_build(lowered, target)
    return Sequential(device_passes(target), name="tir.device")(lowered)


def _lowered_entries(
    entries: IRModule, on_host: Collection[str], target: Target, host: Target
) -> IRModule:
    """Return the functions that users call, with wrappers that take tensors of the device."""
    lowered = lower(entries)
    skips = PassContext.current().get_config("tir.disable_assert", False)
    steps = [
        passes.BindTarget(host),
        *([passes.SkipAssert()] if skips else []),
        passes.LowerIntrin(),
        *further_passes(host),
    ]
    lowered = Sequential(steps, name="tir.host")(lowered)
    for variable, function in list(lowered.items()):
        if variable.name_hint not in on_host:
            lowered[variable] = function.with_attr("target", target.with_host(host))
    wrapped: IRModule = passes.MakePackedAPI()(lowered)
    for variable, function in list(wrapped.items()):
        wrapped[variable] = function.with_attr("target", host)
    return wrapped
