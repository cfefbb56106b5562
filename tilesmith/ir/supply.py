"""Makes new names: for variables, and for the functions of a module."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tilesmith.ir.expr import GlobalVar
from tilesmith.ir.module import IRModule
from tilesmith.support.errors import ConfigError

__all__ = ["GlobalVarSupply", "NameSupply"]


class NameSupply:
    """Makes names that it has not made before, each begun with ``prefix``."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self._next_number: dict[str, int] = {}

    def _full(self, name: str, add_prefix: bool, add_underscore: bool = True) -> str:
        name = re.sub(r"[^0-9A-Za-z_]", "_", name)
        if not add_prefix or not self.prefix:
            return name
        return f"{self.prefix}_{name}" if add_underscore else f"{self.prefix}{name}"

    def fresh_name(self, name: str, add_prefix: bool = True, add_underscore: bool = True) -> str:
        """Return ``name`` itself, or with the first number appended that makes it new.

        ``add_underscore`` sets off the prefix and the number by an underscore.
        """
        full = self._full(name, add_prefix, add_underscore)
        if full not in self._next_number:
            self._next_number[full] = 1
            return full
        separator = "_" if add_underscore else ""
        while True:
            number = self._next_number[full]
            self._next_number[full] = number + 1
            candidate = f"{full}{separator}{number}"
            if candidate not in self._next_number:
                self._next_number[candidate] = 1
                return candidate

    def reserve_name(self, name: str, add_prefix: bool = True) -> str:
        """Mark a name as taken; return it with its prefix."""
        full = self._full(name, add_prefix)
        self._next_number.setdefault(full, 1)
        return full

    def contains_name(self, name: str, add_prefix: bool = True) -> bool:
        """True if a name has been made or reserved."""
        return self._full(name, add_prefix) in self._next_number


class GlobalVarSupply:
    """Makes GlobalVars with names that the modules it knows do not have.

    ``value`` is a NameSupply, a module, a list of modules, or None.
    """

    def __init__(self, value: NameSupply | IRModule | Iterable[IRModule] | None = None) -> None:
        self.name_supply = value if isinstance(value, NameSupply) else NameSupply()
        self._by_name: dict[str, GlobalVar] = {}
        modules: Iterable[Any] = ()
        if isinstance(value, IRModule):
            modules = (value,)
        elif value is not None and not isinstance(value, NameSupply):
            modules = value
        for module in modules:
            for variable in module.get_global_vars():
                self.reserve_global(variable)

    def fresh_global(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """Return a new GlobalVar, named ``name`` or ``name`` with a number."""
        made = GlobalVar(self.name_supply.fresh_name(name, add_prefix))
        self._by_name[made.name_hint] = made
        return made

    def unique_global_for(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """Return the GlobalVar of that name, made at the first request and the same ever after."""
        full = self.name_supply.reserve_name(name, add_prefix)
        if full not in self._by_name:
            self._by_name[full] = GlobalVar(full)
        return self._by_name[full]

    def reserve_global(self, global_var: GlobalVar, allow_conflict: bool = False) -> None:
        """Mark a GlobalVar's name as taken. Raises ConfigError when another one has it, unless
        ``allow_conflict``.
        """
        name = global_var.name_hint
        known = self._by_name.get(name)
        if known is not None and known is not global_var and not allow_conflict:
            raise ConfigError(
                f"two functions are called '{name}'",
                notes=("rename one with IRModule.replace_global_vars",),
            )
        self.name_supply.reserve_name(name, add_prefix=False)
        self._by_name[name] = global_var
