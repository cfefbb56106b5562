"""Attributes that a model holds as text."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilesmith.support.errors import OpAttributeInvalid, OpAttributeRequired

__all__ = ["RequiredAttr", "StrAttrsDict"]


class RequiredAttr:
    """Stands for the default of an attribute that has none."""


_REQUIRED = RequiredAttr()


class StrAttrsDict:
    """Reads the attributes of a node, whose values are text: ``attrs.get_int("axis", 1)``."""

    def __init__(self, attrs: Mapping[str, str]) -> None:
        self.attrs = attrs

    def has_attr(self, key: str) -> bool:
        """Return whether an attribute is there."""
        return key in self.attrs

    def get_float(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a number."""
        return self._read(key, default, float)

    def get_int(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return an integer; "None" is None."""
        return self._read(key, default, lambda text: None if text == "None" else int(text))

    def get_str(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return the text itself."""
        return self._read(key, default, str)

    def get_int_tuple(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of integers; "None" among them is left out."""
        return self._read(key, default, lambda text: tuple(_numbers(text, int)))

    def get_float_tuple(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of numbers."""
        return self._read(key, default, lambda text: tuple(_numbers(text, float)))

    def get_tuple_tuple_int(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a tuple of tuples of integers."""
        return self._read(
            key, default, lambda text: tuple([tuple(_of(one, int)) for one in _literal(text)])
        )

    def get_int_list(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a list of integers."""
        return self._read(key, default, lambda text: list(_numbers(text, int)))

    def get_bool(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return whether the text is that of a truth: "True", "true", "1"."""
        return self._read(key, default, lambda text: text.strip().lower() in ("true", "1"))

    def _read(self, key: str, default: Any, convert: Any) -> Any:
        if key not in self.attrs:
            if isinstance(default, RequiredAttr):
                raise OpAttributeRequired(f"the attribute '{key}' is missing")
            return default
        text = str(self.attrs[key])
        try:
            return convert(text)
        except (ValueError, TypeError, SyntaxError):
            raise OpAttributeInvalid(f"the attribute '{key}' cannot be read: {text!r}") from None


def _literal(text: str) -> Any:
    found = ast.literal_eval(text)
    return found if isinstance(found, (tuple, list)) else (found,)


def _of(values: Any, kind: Any) -> list[Any]:
    return [kind(value) for value in values if value is not None]


def _numbers(text: str, kind: Any) -> list[Any]:
    return _of(_literal(text), kind)
