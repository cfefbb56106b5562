"""Describes where a value lives: a device, the target of the code that uses it, and a memory
scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilesmith.runtime.devices import Device
from tilesmith.target.target import Target, canon_target


@dataclass(frozen=True)
class VirtualDevice:
    """Where a value lives. Each part may be left open: no device, no target, an empty scope.

    `device_type` is DLPack's number of the device, else that of the target, else 0.
    """

    device: Any = None
    target: Target | None = None
    memory_scope: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", canon_target(self.target))

    @property
    def name(self) -> str:
        """The device in words, such as "cuda:1"; "" if it is open."""
        if self.device_type == 0:
            return ""
        found = self.device if self.device is not None else Device(self.device_type, 0)
        return f"{found.type}:{found.device_id}"

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind of device; 0 if it is open."""
        if self.device is not None:
            return int(self.device.device_type)
        return self.target.get_target_device_type() if self.target is not None else 0
