"""Defines a node for a function of the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir.node import Node, data
from tilesmith.runtime.registry import get_global_func

__all__ = ["EnvFunc"]


class EnvFunc(Node, key="ir.EnvFunc"):
    """A function of the registry: saved by its name and looked up again after loading."""

    name: str = data()

    @staticmethod
    def get(name: str) -> EnvFunc:
        """Return the node for a registered function. Raises UnknownNameError if it is not
        registered.
        """
        get_global_func(name)
        return EnvFunc(name)

    @property
    def func(self) -> Callable[..., Any]:
        """The function itself."""
        found: Callable[..., Any] | None = get_global_func(self.name)
        assert found is not None  # only with allow_missing
        return found

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.func(*args)
