"""Makes alias modules: each has the names of one of Tilesmith's modules, and older spellings.

An alias holds in its ``__dict__`` what its target has loaded, because many tools look names up
there without asking the module (``inspect.getattr_static``, and with it pytest's plugin manager,
debuggers and editors). Names that Tilesmith loads at first use join when they are first used, or
when the names of the alias are listed. A name keeps the value that it had then.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

from tilesmith.compat.tvm.aliases import COMPLETE, MODULES, NAMES
from tilesmith.compat.tvm.refusals import refusal_of, refused_names
from tilesmith.support.errors import TilesmithError, UnsupportedMemberError
from tilesmith.support.lazy import resolve

__all__ = ["TOP_LEVEL", "Alias", "exists", "target_of"]

TOP_LEVEL = ("tvm", "topi")


def target_of(name: str) -> str:
    """Return Tilesmith's module for a module name of users' programs."""
    return _spellings(name)[-1]


def _spellings(name: str) -> list[str]:
    """Return the names of a module from that of users' programs to Tilesmith's.

    In each step the longest matching prefix in the table is replaced; a row may lead to another
    row.
    """
    found = [name]
    while found[-1].partition(".")[0] in TOP_LEVEL:
        parts = found[-1].split(".")
        for count in range(len(parts), 0, -1):
            row = MODULES.get(".".join(parts[:count]))
            if row is not None:
                found.append(".".join([row, *parts[count:]]))
                break
    return found


def _further_names(name: str) -> tuple[dict[str, str], str | None]:
    """Return the rows of NAMES for a module: name → where it lives, and the module that "*" stands
    for.
    """
    rows: dict[str, str] = {}
    for spelling in reversed(_spellings(name)):
        rows.update(NAMES.get(spelling, {}))
    return rows, rows.pop("*", None)


def exists(name: str) -> bool:
    """True if a module name of users' programs has a module here."""
    try:
        return importlib.util.find_spec(target_of(name)) is not None
    except (ImportError, ValueError):
        return False


class Alias(ModuleType):
    """A module that has the names of another one, and older spellings."""

    _target: ModuleType
    _rows: dict[str, str]
    _also: ModuleType | None

    def __init__(self, name: str) -> None:
        target = importlib.import_module(target_of(name))
        super().__init__(name, target.__doc__)
        rows, also = _further_names(name)
        self.__dict__["_target"] = target
        self.__dict__["_rows"] = rows
        self.__dict__["_also"] = resolve(also) if also is not None else None
        self.__dict__["__path__"] = []

    def hold_loaded_names(self) -> None:
        """Put all names into ``__dict__`` that need no further import."""
        for name, path in self._rows.items():
            module, _, attribute = path.partition(":")
            if module in sys.modules and not attribute:
                self._hold(name, sys.modules[module])
            elif module in sys.modules and attribute in vars(sys.modules[module]):
                self._hold(name, vars(sys.modules[module])[attribute])
        for name, value in list(vars(self._target).items()):
            if not name.startswith("_") and name not in self._rows:
                self._hold(name, value)
        if self._also is not None:
            for name in self._also.__all__:
                self._hold(name, getattr(self._also, name))
        if self.__name__ in COMPLETE:
            dir(self)
        for spelling in _spellings(self.__name__):
            for name, refused in refused_names(spelling).items():
                self.__dict__.setdefault(name, refused)

    def __getattr__(self, name: str) -> Any:
        return self._hold(name, self._find(name))

    def __setattr__(self, name: str, value: Any) -> None:
        # `import tvm.topi.nn.softmax` must not put the module in place of the function softmax.
        if isinstance(value, Alias) and value.__name__ == f"{self.__name__}.{name}":
            value = getattr(self, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        names = {*dir(self._target), *self._rows, *_children(self.__name__)}
        for name in names - vars(self).keys():
            # Tools that list names look at them next. A name that fails says why when it is used.
            with contextlib.suppress(ImportError, TilesmithError):
                try:
                    getattr(self, name)
                except AttributeError:  # a row whose other end is not there
                    names.discard(name)
        return sorted(names)

    def _hold(self, name: str, value: Any) -> Any:
        if isinstance(value, ModuleType) and value.__name__.startswith("tilesmith."):
            value = self._as_alias(name, value)
        return self.__dict__.setdefault(name, value)

    def _find(self, name: str) -> Any:
        if name in self._rows:
            return resolve(self._rows[name])
        try:
            return getattr(self._target, name)
        except AttributeError:
            path = f"{self.__name__}.{name}"
            refusal = refusal_of(path)
            if refusal is not None:
                raise UnsupportedMemberError(
                    f"there is no module '{path}': {refusal.reason}", notes=(refusal.advice,)
                ) from None
            if name.startswith("__") or not exists(path):
                raise AttributeError(
                    f"module '{self.__name__}' has no attribute '{name}' (Tilesmith's module is "
                    f"'{self._target.__name__}')"
                ) from None
        return importlib.import_module(f"{self.__name__}.{name}")

    def _as_alias(self, name: str, value: ModuleType) -> ModuleType:
        path = f"{self.__name__}.{name}"
        is_alias = path in MODULES or target_of(path) == value.__name__
        return importlib.import_module(path) if is_alias else value


def _children(name: str) -> list[str]:
    """Return the submodules of a module that exist only in the table."""
    start = name + "."
    return [
        module[len(start) :]
        for module in MODULES
        if module.startswith(start) and "." not in module[len(start) :]
    ]
