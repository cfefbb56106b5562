"""Defines the targets of a compilation, and the default location of its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilesmith.runtime.devices import Device
from tilesmith.support.errors import TargetError
from tilesmith.target.target import Target
from tilesmith.target.virtual_device import VirtualDevice

__all__ = ["CompilationConfig", "make_compilation_config"]


@dataclass(frozen=True)
class CompilationConfig:
    """`primitive_targets`: what operators are compiled for; `host_target`: what calls them."""

    primitive_targets: tuple[Target, ...]
    host_target: Target
    host_virtual_device: VirtualDevice
    default_primitive_virtual_device: VirtualDevice

    @property
    def optional_homogeneous_target(self) -> Target | None:
        """The target, if there is only one."""
        return self.primitive_targets[0] if len(self.primitive_targets) == 1 else None


def make_compilation_config(ctxt: Any, target: Any, target_host: Any = None) -> CompilationConfig:
    """Return the configuration for one target, several, or a dictionary from devices to targets.

    `ctxt` is a PassContext; its option "relay.fallback_device_type" chooses, among several targets,
    the one that operators run on unless they say otherwise. Raises TargetError without a target.
    """
    targets = Target.canon_multi_target_and_host(target, target_host)
    if not targets:
        raise TargetError("a compilation needs at least one target", notes=("pass 'llvm'",))
    host = next((part.host for part in targets if part.host is not None), None)
    host = host or next((part for part in targets if part.get_target_device_type() == 1), None)
    host = host or Target("llvm")
    targets = [part if part.host is not None else part.with_host(host) for part in targets]
    wanted = _fallback_device_type(ctxt)
    default = next((p for p in targets if p.get_target_device_type() == wanted), targets[0])
    return CompilationConfig(
        tuple(targets),
        host,
        VirtualDevice(Device(host.get_target_device_type(), 0), host),
        VirtualDevice(Device(default.get_target_device_type(), 0), default),
    )


def _fallback_device_type(context: Any) -> int | None:
    config = getattr(context, "config", None) or {}
    value = config.get("relay.fallback_device_type")
    return None if value is None else int(value)
