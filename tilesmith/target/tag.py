"""Registers tags: short names of complete targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.support.errors import TargetError
from tilesmith.target.tag_table import TAGS
from tilesmith.target.target import Target

__all__ = ["list_tags", "register_tag"]


def list_tags() -> dict[str, Target]:
    """Return all tags, each with the target that it stands for."""
    return {name: Target(config) for name, config in TAGS.items()}


def register_tag(name: str, config: Mapping[str, Any], override: bool = False) -> Target:
    """Let `Target(name)` stand for `config`; return that target."""
    if not isinstance(config, Mapping) or "kind" not in config:
        raise TargetError(f"the configuration of tag '{name}' needs a 'kind'")
    target = Target(dict(config))
    TAGS.register(name, dict(config), override)
    return target
