"""Chooses the device on which a model runs, and shows a model as one that runs there.

model_on(executable, [opencl(0)])["main"](x)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.runtime.devices import DEVICE_TYPES, RPC_SESS_MASK, Device
from tilesmith.support.errors import ArtifactError, TargetError

__all__ = [
    "ModelOnDevice", "check_count", "check_device", "device_kind", "device_numbers", "model_on",
    "on_devices",
]  # fmt: skip


def device_kind(metadata: Mapping[str, Any]) -> str | None:
    """Return the type of devices that a model's code is for; None: the host."""
    found = metadata.get("device")
    if found is not None and found not in DEVICE_TYPES:
        raise ArtifactError(f"the model is for devices of type {found!r}, which is not known")
    return None if found is None else str(found)


def check_device(wanted: str, device: Device) -> None:
    """Raise TargetError if a model that is built for a type of devices cannot run on a device."""
    if device.device_type == DEVICE_TYPES[wanted]:
        return
    name = {"cpu": "the CPU"}.get(wanted, f"devices of type '{wanted}'")
    raise TargetError(
        f"this model was built for {name}, it does not run on {device}",
        notes=(f"use tilesmith.{wanted}(), or build it for '{device.type}'",),
    )


def device_numbers(metadata: Mapping[str, Any]) -> list[int]:
    """Return the numbers that a model gives the devices on which its tensors are."""
    found = metadata.get("device_numbers", [0])
    if not (isinstance(found, (list, tuple)) and found and all(type(one) is int for one in found)):
        raise ArtifactError(f"the model's numbers of devices, {found!r}, cannot be read")
    return list(found)


def check_count(wanted: str, numbers: Sequence[int], devices: Sequence[Device]) -> None:
    """Raise TargetError if there are fewer devices than a model uses."""
    if len(devices) < len(numbers):
        given = ", ".join([str(one) for one in devices])
        needed = ", ".join([f"tilesmith.{wanted}({number})" for number in numbers])
        raise TargetError(
            f"this model runs on {len(numbers)} devices of type '{wanted}', got {given}",
            notes=(f"give one for each of its numbers, in order: [{needed}]",),
        )


class ModelOnDevice:
    """A model whose functions run on one device, or several of one type; all else is the model's.
    ``device`` is the first one.
    """

    def __init__(
        self, model: Any, device: Device, copies_inputs: bool, others: Sequence[Device] = ()
    ) -> None:
        self.model, self.device, self.devices = model, device, (device, *others)
        self._functions = model.on_device(device, copies_inputs, others)

    def copying(self, name: str) -> Any:
        """Return a function that copies its inputs to where they have to be."""
        return self.model.on_device(self.device, True, self.devices[1:]).get_function(name)

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """Return a function of the model as it runs on the device."""
        return self._functions.get_function(name)

    __getitem__ = get_function

    def profile(self, *inputs: Any, **named: Any) -> Any:
        """Run `main` on the device, and return a table of its kernels."""
        return self.profile_function(inputs, named)

    def profile_function(
        self, inputs: Sequence[Any], named: Mapping[str, Any], **options: Any
    ) -> Any:
        """Return what `inspect.profile` gives on the device; ``options`` are its settings."""
        return self.model.profile_function(inputs, named, devices=self.devices, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def model_on(model: Any, devices: Sequence[Device], copies_inputs: bool = True) -> Any:
    """Return a model as one that runs on the first of some devices that is of its type, or on as
    many of them as it uses; the model itself if that is the host. Raises TargetError if there are
    devices, but none of its type, or too few.
    """
    kind = getattr(model, "device_type", "cpu")
    local = [one for one in devices if one.device_type < RPC_SESS_MASK]
    fitting = [one for one in local if one.device_type == DEVICE_TYPES[kind]]
    if local and not fitting:
        check_device(kind, local[0])
    if kind == "cpu":
        return model
    numbers = device_numbers(getattr(model, "metadata", {}))
    first, *others = fitting[: len(numbers)] or [Device(kind, number) for number in numbers]
    return ModelOnDevice(model, first, copies_inputs, others)


def on_devices(model: Any, *devices: Device) -> Any:
    """Return what `lib["default"](device)` gives: what a GraphModule takes."""
    return model_on(model, devices)
