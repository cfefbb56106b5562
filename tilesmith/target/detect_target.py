"""Finds the target for a device of this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.target.target import Target

__all__ = ["SUPPORT_DEVICE", "detect_target_from_device"]

SUPPORT_DEVICE: dict[str, Callable[[Any], Target]] = dict.fromkeys(
    ("cpu", "cuda", "metal", "opencl", "rocm", "vulkan", "webgpu"), Target.from_device
)
"""Type of a device → the function that finds its target."""


def detect_target_from_device(dev: Any) -> Target:
    """Return the target for `dev`, a Device or a name such as `"cuda"`."""
    return Target.from_device(dev)
