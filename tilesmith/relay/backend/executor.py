"""Names how a built program is run (`Executor`) and by which runtime (`Runtime`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from tilesmith.support.errors import OpAttributeInvalid, UnknownNameError

__all__ = ["Executor", "Runtime"]


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, (bool, int)):
        raise TypeError
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


Options = Mapping[str, Callable[[Any], Any]]


class _Choice:
    """A name out of a table, with options that the table knows."""

    WHAT: ClassVar[str]
    KNOWN: ClassVar[Mapping[str, Options]]

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        if name not in self.KNOWN:
            raise UnknownNameError(
                f"there is no {self.WHAT} '{name}'", notes=("known: " + ", ".join(self.KNOWN),)
            )
        self.name = name
        self.options: Mapping[str, Any] = MappingProxyType(
            {key: self._checked(key, value) for key, value in (options or {}).items()}
        )

    def _checked(self, key: str, value: Any) -> Any:
        known = self.KNOWN[self.name]
        if key not in known:
            raise OpAttributeInvalid(
                f"the {self.WHAT} '{self.name}' has no option '{key}'",
                notes=("options: " + (", ".join(known) or "none"),),
            )
        try:
            return known[key](value)
        except TypeError:
            raise OpAttributeInvalid(
                f"option '{key}' of the {self.WHAT} '{self.name}' cannot be {value!r}"
            ) from None

    def __getitem__(self, name: str) -> Any:
        if name not in self.options:
            raise KeyError(name)
        return self.options[name]

    def __contains__(self, name: object) -> bool:
        return name in self.options

    def __eq__(self, other: object) -> bool:
        same = type(other) is type(self)
        return same and (self.name, dict(self.options)) == (other.name, dict(other.options))  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        shown = f", {dict(self.options)}" if self.options else ""
        return f"{type(self).__name__}({self.name!r}{shown})"


class Executor(_Choice):
    """How a program runs: "graph" (step by step, as its JSON describes) or "aot" (one function)."""

    WHAT = "executor"
    KNOWN: ClassVar[Mapping[str, Options]] = {
        "graph": {"link-params": _yes_or_no},
        "aot": {
            "link-params": _yes_or_no,
            "unpacked-api": _yes_or_no,
            "interface-api": _text,
        },
    }

    @staticmethod
    def list_registered() -> list[str]:
        """Return the names of executors."""
        return list(Executor.KNOWN)

    @staticmethod
    def list_registered_options(executor: str) -> dict[str, str]:
        """Return the names of an executor's options, and the types of their values."""
        return _option_types(Executor, executor)


class Runtime(_Choice):
    """What a built program runs on: "cpp" (this process) or "crt" (a board, in C)."""

    WHAT = "runtime"
    KNOWN: ClassVar[Mapping[str, Options]] = {
        "cpp": {"system-lib": _yes_or_no},
        "crt": {"system-lib": _yes_or_no},
    }

    @staticmethod
    def list_registered() -> list[str]:
        """Return the names of runtimes."""
        return list(Runtime.KNOWN)

    @staticmethod
    def list_registered_options(runtime: str) -> dict[str, str]:
        """Return the names of a runtime's options, and the types of their values."""
        return _option_types(Runtime, runtime)


def _option_types(choice: type[_Choice], name: str) -> dict[str, str]:
    options = choice(name).KNOWN[name]
    return {key: "bool" if check is _yes_or_no else "str" for key, check in options.items()}
