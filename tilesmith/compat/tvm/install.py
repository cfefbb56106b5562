"""``install()``: from now on ``import tvm`` finds Tilesmith's modules.

A finder at the head of ``sys.meta_path`` answers for ``tvm`` and what is below it with modules
that hand each name on to Tilesmith's: first the spellings of ``aliases.py``, then its own names.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tilesmith.compat.tvm.aliases import MODULES, NAMES
from tilesmith.support.errors import ConfigError
from tilesmith.support.lazy import resolve

__all__ = ["install", "uninstall"]

_TOP_LEVEL = ("tvm", "topi")
VERSION = "0.18.0"


def _target_of(name: str) -> str:
    """The module here for a module of users' programs: the longest prefix in the table counts."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        found = MODULES.get(".".join(parts[:count]))
        if found is not None:
            return ".".join([found, *parts[count:]])
    return name


class _Alias(ModuleType):
    """A module that has the names of another one, and older spellings."""

    def __init__(self, name: str, target: ModuleType) -> None:
        super().__init__(name, target.__doc__)
        self.__dict__["_target"] = target
        self.__dict__["__path__"] = []

    def __getattr__(self, name: str) -> Any:
        names = NAMES.get(self.__name__, {})
        if name in names:
            value = resolve(names[name])
        elif self.__name__ == "tvm" and name == "__version__":
            return VERSION
        else:
            value = self._own(name)
        if isinstance(value, ModuleType) and value.__name__.startswith("tilesmith."):
            value = self._as_alias(name, value)
        return value

    def _own(self, name: str) -> Any:
        try:
            return getattr(self._target, name)
        except AttributeError:
            if name.startswith("__") or not _exists(f"{self.__name__}.{name}"):
                raise AttributeError(
                    f"module '{self.__name__}' has no attribute '{name}' (Tilesmith's module is "
                    f"'{self._target.__name__}')"
                ) from None
        return importlib.import_module(f"{self.__name__}.{name}")

    def _as_alias(self, name: str, value: ModuleType) -> ModuleType:
        path = f"{self.__name__}.{name}"
        return importlib.import_module(path) if _target_of(path) == value.__name__ else value

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._target), *NAMES.get(self.__name__, {})})


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(_target_of(name)) is not None
    except (ImportError, ValueError):
        return False


class _Finder(MetaPathFinder, Loader):
    """Finds the aliases."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname.split(".")[0] not in _TOP_LEVEL or not _exists(fullname):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Alias(spec.name, importlib.import_module(_target_of(spec.name)))

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run: the names come from elsewhere."""


_finder = _Finder()


def install() -> None:
    """Let ``import tvm`` (and ``import topi``) find Tilesmith.

    Raises ConfigError when a real tvm is imported already. Calling it again does nothing.
    """
    for name in _TOP_LEVEL:
        known = sys.modules.get(name)
        if known is not None and not isinstance(known, _Alias):
            raise ConfigError(
                f"a module '{name}' is imported already ({getattr(known, '__file__', 'unknown')})",
                notes=("call tilesmith.compat.tvm.install() before the first `import tvm`",),
            )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Take the aliases away again."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [n for n, m in sys.modules.items() if isinstance(m, _Alias)]:
        del sys.modules[name]
