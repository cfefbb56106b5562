"""Says whether a target sorts and scans by NVIDIA's Thrust, or AMD's version of it."""

from __future__ import annotations

import logging
from typing import Any

from tilesmith.runtime.devices import Device
from tilesmith.runtime.registry import get_global_func

__all__ = ["can_use_rocthrust", "can_use_thrust", "maybe_warn"]

_log = logging.getLogger("tilesmith.thrust")


def maybe_warn(target: Any, func_name: str) -> None:
    """Warn where a target asks for Thrust (`-libs=thrust`) and the function is not registered."""
    if "thrust" in target.libs and get_global_func(func_name, allow_missing=True) is None:
        _log.warning(
            "-libs=thrust: nobody has registered '%s'; the operator is compiled instead", func_name
        )


def can_use_thrust(target: Any, func_name: str) -> bool:
    """True if a CUDA target asks for Thrust, and the function is registered."""
    maybe_warn(target, func_name)
    return bool(
        target.get_target_device_type() == Device.kDLCUDA
        and "thrust" in target.libs
        and get_global_func(func_name, allow_missing=True) is not None
    )


def can_use_rocthrust(target: Any, func_name: str) -> bool:
    """True if a ROCm target asks for Thrust, and the function is registered."""
    maybe_warn(target, func_name)
    return bool(
        target.get_target_device_type() == Device.kDLROCM
        and "thrust" in target.libs
        and get_global_func(func_name, allow_missing=True) is not None
    )
