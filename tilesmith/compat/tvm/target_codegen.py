"""Generates code from lowered modules, as ``tvm.target.codegen`` does."""

from __future__ import annotations

from typing import Any

from tilesmith.codegen import build
from tilesmith.ir import IRModule
from tilesmith.runtime.module import Module

__all__ = ["build_module"]


def build_module(mod: IRModule, target: Any) -> Module:
    """Compile a lowered module for a target."""
    return build(mod, target)
