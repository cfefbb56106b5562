"""Defines facts about a module that its functions refer to: the virtual devices of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir.node import Node, data
from tilesmith.support.lazy import resolve

__all__ = ["DummyGlobalInfo", "GlobalInfo", "VDevice"]


class GlobalInfo(Node, key="ir.GlobalInfo"):
    """Base of the facts in ``IRModule.global_infos``."""


class DummyGlobalInfo(GlobalInfo, key="ir.DummyGlobalInfo"):
    """A fact without content, for tests."""


def as_target(target: Any) -> Any:
    """Convert texts and dictionaries to targets, whose class lives on a higher floor."""
    if isinstance(target, (str, Mapping)):
        return resolve("tilesmith.target:Target")(target)
    return target


class VDevice(GlobalInfo, key="ir.VDevice"):
    """A device that tensors live on: a target, an index among equal targets, a memory scope."""

    target: Any = data(default=None, convert=as_target)
    vdevice_id: int = data(default=0)
    memory_scope: str = data(default="global")
