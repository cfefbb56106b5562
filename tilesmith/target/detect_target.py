"""Finds the target for a device of this machine."""

from __future__ import annotations

from typing import Any

from tilesmith.target.target import Target

__all__ = ["detect_target_from_device"]


def detect_target_from_device(dev: Any) -> Target:
    """Return the target for `dev`, a Device or a name such as `"cuda"`."""
    return Target.from_device(dev)
