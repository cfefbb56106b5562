"""The primitives: one declared function each, which becomes a method of ``Schedule``."""

from __future__ import annotations

import importlib
import pkgutil

__all__ = ["load_all"]


def load_all() -> None:
    """Import all files of this folder, so that each primitive in them is declared."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
