"""Defines the one registry class: operators, global functions, node keys, targets, pass options,
back ends.

    OPS = Registry("operator", {"relax.": "tilesmith.relax.op"})

    @OPS.register("relax.add")
    def add(...): ...

    OPS.get("relax.add")

When a name is missing, the registry imports the module that provides its prefix and looks again, so
that modules of a higher floor fill a table on a lower one without being imported beforehand. That
module may hand over to a `Loader`, which knows what to import for a single name.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar, overload

from tilesmith.support.errors import ConfigError, UnknownNameError

Value = TypeVar("Value")
_MISSING: Any = object()


class Loader(Protocol):
    """Imports the module that registers a name."""

    def load(self, name: str) -> None:
        """Import the module that registers `name`, if there is one."""

    def load_all(self) -> None:
        """Import all modules that register names."""


class Registry(Generic[Value]):
    """A table from names to values. Writing takes a lock, reading does not."""

    def __init__(self, kind: str, providers: Mapping[str, str] | None = None) -> None:
        """`kind` is the word for an entry in errors ("operator"); `providers` maps a prefix of
        names to the module that registers them when it is imported."""
        self.kind = kind
        self._values: dict[Any, Value] = {}
        self._providers: dict[str, str | Loader] = dict(providers or {})
        self._lock = threading.RLock()

    @overload
    def register(self, name: Any, value: Value, override: bool = False) -> Value: ...

    @overload
    def register(
        self, name: Any, value: None = None, override: bool = False
    ) -> Callable[[Value], Value]: ...

    def register(self, name: Any, value: Any = None, override: bool = False) -> Any:
        """Register `value` under `name` and return it; without a value, act as a decorator.

        Raises ConfigError when the name is taken and `override` is false.
        """
        if value is None:
            return lambda decorated: self.register(name, decorated, override)
        with self._lock:
            if not override and name in self._values and self._values[name] is not value:
                raise ConfigError(
                    f"the {self.kind} '{name}' is registered already",
                    notes=("pass override=True to replace it",),
                )
            self._values[name] = value
        return value

    def remove(self, name: Any) -> None:
        """Remove `name`; a name that is not registered is not an error."""
        with self._lock:
            self._values.pop(name, None)

    def provide(self, prefix: str, provider: str | Loader) -> None:
        """Set the module to import, or the loader to ask, when a name that starts with `prefix` is
        looked up and missing.
        """
        with self._lock:
            self._providers[prefix] = provider

    def get(self, name: Any, default: Any = _MISSING) -> Value:
        """Return the value of `name`. If there is none, return `default` if given, else raise
        UnknownNameError.
        """
        try:
            return self._values[name]
        except KeyError:
            pass
        value: Value = self._ask_providers(name)
        if value is _MISSING:
            value = default
        if value is not _MISSING:
            return value
        raise UnknownNameError(f"unknown {self.kind} '{name}'", notes=self._advice(name))

    def __getitem__(self, name: Any) -> Value:
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._values or self._ask_providers(name) is not _MISSING

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def names(self, load: bool = False) -> list[Any]:
        """Return all registered names in order of registration; `load` imports the providers
        first.
        """
        if load:
            for prefix in sorted(self._providers):
                self._ask_provider(prefix, None)
        return list(self._values)

    def items(self) -> list[tuple[Any, Value]]:
        """Return all (name, value) pairs in order of registration."""
        return list(self._values.items())

    def _ask_providers(self, name: object) -> Any:
        if not self._providers or not isinstance(name, str):
            return _MISSING
        # The longest prefix wins; several prefixes may share a module.
        for prefix in sorted(self._providers, key=len, reverse=True):
            if name.startswith(prefix):
                self._ask_provider(prefix, name)
                if name in self._values:
                    return self._values[name]
        return _MISSING

    def _ask_provider(self, prefix: str, name: str | None) -> None:
        """Let a provider register ``name``, or all names that it knows."""
        provider = self._providers[prefix]
        if isinstance(provider, str):
            # importlib keeps modules, so that a second import is a dictionary look-up; its own
            # locks let two threads ask at once. A provider that fails to import says so itself.
            importlib.import_module(provider)
            provider = self._providers[prefix]
        if isinstance(provider, str):
            return
        if name is None:
            provider.load_all()
        else:
            provider.load(name)

    def _advice(self, name: Any) -> tuple[str, ...]:
        import difflib  # only when something has gone wrong

        known = [entry for entry in self._values if isinstance(entry, str)]
        near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
        if near:
            return (f"did you mean '{near[0]}'?",)
        if known and len(known) <= 12:
            return ("known: " + ", ".join(sorted(known)),)
        return (f"{len(known)} names are registered",) if known else ()
