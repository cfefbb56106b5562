"""Finds the target for a device of this machine."""

from __future__ import annotations

from typing import Any

from tilesmith.support.errors import TargetError
from tilesmith.target.kind import (
    CPU,
    CUDA,
    HEXAGON,
    METAL,
    OPENCL,
    ROCM,
    VULKAN,
    WEBGPU,
    target_kind,
)
from tilesmith.target.target import Target

_KIND_OF_DEVICE = {
    CPU: "llvm",
    CUDA: "cuda",
    OPENCL: "opencl",
    VULKAN: "vulkan",
    METAL: "metal",
    ROCM: "rocm",
    WEBGPU: "webgpu",
    HEXAGON: "hexagon",
}
_KIND_OF_NAME = {"cpu": "llvm", "gpu": "cuda", "cl": "opencl"}


def detect_target_from_device(dev: Any) -> Target:
    """Return the target for `dev`, a Device or a name such as `"cuda"`."""
    if isinstance(dev, str):
        name = dev.partition(":")[0]
        return Target(_KIND_OF_NAME.get(name, name))
    kind = _KIND_OF_DEVICE.get(getattr(dev, "device_type", None))
    if kind is None:
        raise TargetError(f"no target is known for device {dev}")
    attributes: dict[str, Any] = {}
    if dev.device_type != CPU:
        attributes["from_device"] = int(getattr(dev, "device_id", 0))
    version = getattr(dev, "compute_version", None)
    if version and "arch" in target_kind(kind).options:
        attributes["arch"] = "sm_" + str(version).replace(".", "")
    return Target({"kind": kind, **attributes})
