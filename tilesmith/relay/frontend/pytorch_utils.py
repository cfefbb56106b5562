"""Questions about torch and its graphs."""

from __future__ import annotations

import re
from typing import Any

from tilesmith.relay.frontend.pytorch import require_torch

__all__ = ["getattr_attr_name", "is_version_greater_than"]


def is_version_greater_than(ver: str) -> bool:
    """Return whether the installed torch is newer than a version."""
    return _numbers(require_torch().__version__) > _numbers(ver)


def _numbers(version: str) -> list[int]:
    plain = version.partition("+")[0]
    return [int(number) for number in re.findall(r"\d+", plain)[:3]]


def getattr_attr_name(node: Any) -> str:
    """Return the name that a node ``prim::GetAttr`` of TorchScript asks for."""
    name: str = node.s(node.attributeNames()[0])
    return name
