"""Defines ``install()``, after which ``import tvm`` finds Tilesmith's modules.

A finder at the head of ``sys.meta_path`` finds ``tvm`` and the modules below it. They look each
name up in Tilesmith's modules: first by the spellings of ``aliases.py``, then as it is.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tilesmith.compat.tvm.alias import TOP_LEVEL, Alias, exists
from tilesmith.compat.tvm.refusals import refusal_of, refuse_module
from tilesmith.ir.printing.config import SPELLING
from tilesmith.support.errors import ConfigError

__all__ = ["install", "uninstall"]


class _Finder(MetaPathFinder, Loader):
    """Finds the aliases."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname.split(".")[0] not in TOP_LEVEL:
            return None
        refusal = refusal_of(fullname)
        if refusal is not None:
            refuse_module(fullname, refusal)
        if not exists(fullname):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Alias(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if isinstance(module, Alias):
            module.hold_loaded_names()


_finder = _Finder()


def install() -> None:
    """Let ``import tvm`` (and ``import topi``) find Tilesmith; programs are printed accordingly.

    Raises ConfigError when a real tvm is imported already. Calling it again does nothing.
    """
    for name in TOP_LEVEL:
        known = sys.modules.get(name)
        if known is not None and not isinstance(known, Alias):
            raise ConfigError(
                f"a module '{name}' is imported already ({getattr(known, '__file__', 'unknown')})",
                notes=("call tilesmith.compat.tvm.install() before the first `import tvm`",),
            )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    SPELLING.package = "tvm"


def uninstall() -> None:
    """Remove the aliases."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [n for n, m in sys.modules.items() if isinstance(m, Alias)]:
        del sys.modules[name]
    SPELLING.package = "tilesmith"
