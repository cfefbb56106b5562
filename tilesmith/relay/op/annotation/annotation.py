"""``relay.op.annotation.annotation``: notes for passes, which change no
value.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, anything, boolean, dtype, integer, text
from tilesmith.relax.spec import topi
from tilesmith.relay.op.view import computed, define, function, functions, make_call
from tilesmith.runtime.devices import device
from tilesmith.support.errors import TypeMismatchError
from tilesmith.target.virtual_device import VirtualDevice

SIMULATED_QUANTIZE = "relay.op.annotation.simulated_quantize"
"""The name of the operator by which `relay.quantize` works."""

for _name, _what in (
    ("stop_fusion", "The same tensor; operators before and after are not fused."),
    ("checkpoint", "The same tensor, which is computed anew for the gradient."),
):
    define("annotation." + _name, "data", lambda attrs, data: data, level=10, description=_what)


define(
    "annotation.cast_hint",
    "data",
    lambda attrs, data: data,
    level=10,
    schema=Schema(dtype=dtype("float32")),
    description="The same tensor; a hint of the dtype to which it may be converted.",
)


def _simulated_quantize(attrs: Any, data: Any, scale: Any, low: Any, high: Any) -> Any:
    steps = relax.round(relax.divide(data, scale))
    return relax.multiply(relax.minimum(relax.maximum(steps, low), high), scale)


define(
    SIMULATED_QUANTIZE,
    "data dom_scale clip_min clip_max",
    _simulated_quantize,
    level=11,
    schema=Schema(kind=integer(1), sign=boolean(True), rounding=text("round")),
    description="``clip(round(data / dom_scale), clip_min, clip_max) * dom_scale``, in floats.",
)

compiler_begin = define(
    "annotation.compiler_begin",
    "data",
    lambda attrs, data: data,
    level=10,
    schema=Schema(compiler=text()),
    description="The same value; from here on an external compiler has the program.",
)

compiler_end = define(
    "annotation.compiler_end",
    "data",
    lambda attrs, data: data,
    level=10,
    schema=Schema(compiler=text()),
    description="The same value; here the part of an external compiler ends.",
)


# Devices


def device_field() -> Any:
    """Declare a place: a device, its name or number, or a `VirtualDevice`."""
    field = anything(VirtualDevice())
    field.description = "a device"
    field.convert = virtual_device
    return field


def virtual_device(given: Any) -> VirtualDevice:
    """Return where a device, a name or number of one, or a `VirtualDevice` says that a value is."""
    if isinstance(given, VirtualDevice):
        return given
    return VirtualDevice() if given in (None, "") else VirtualDevice(device(given))


define(
    "on_device",
    "body",
    lambda attrs, body: body,
    level=10,
    schema=Schema(
        virtual_device=device_field(),
        constrain_result=boolean(False),
        constrain_body=boolean(True),
    ),
    description="The same value, which is on a device: PlanDevices copies it from or to others.",
)
computed(
    "device_copy",
    "data",
    lambda attrs, data: topi.identity(data),
    level=10,
    schema=Schema(src_virtual_device=device_field(), dst_virtual_device=device_field()),
    description="A copy of a tensor on another device.",
    evaluate=lambda attrs, data: data,
)


@function("annotation.on_device")
def on_device(
    body: Any, device: Any, constrain_result: bool = False, constrain_body: bool = True
) -> Any:
    """Return the same value, computed on a device (``constrain_body``), and used there
    (``constrain_result``); where one of these is left open, PlanDevices may put a copy in between.
    """
    attributes = {
        "virtual_device": virtual_device(device),
        "constrain_result": constrain_result,
        "constrain_body": constrain_body,
    }
    return make_call("on_device", [body], attributes)


@function("annotation.function_on_device")
def function_on_device(function: Any, param_devices: Any, result_device: Any) -> Any:
    """Return a function whose parameters and result are on devices: its attributes
    ``param_virtual_devices`` and ``result_virtual_device``.
    """
    devices = [virtual_device(one) for one in param_devices]
    if len(devices) != len(function.params):
        raise TypeMismatchError(
            f"{len(devices)} devices for a function of {len(function.params)} parameters"
        )
    attrs = dict(function.attrs)
    attrs["param_virtual_devices"] = devices
    attrs["result_virtual_device"] = virtual_device(result_device)
    return function.with_fields(attrs=attrs)


@function("device_copy")
def device_copy(data: Any, src_device: Any, dst_device: Any) -> Any:
    """Return a copy of a tensor of one device on another."""
    attributes = {
        "src_virtual_device": virtual_device(src_device),
        "dst_virtual_device": virtual_device(dst_device),
    }
    return make_call("device_copy", [data], attributes)


globals().update(functions("annotation."))
