"""A registered function as a part of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir.node import Node, data
from tilesmith.runtime.registry import get_global_func

__all__ = ["EnvFunc"]


class EnvFunc(Node, key="ir.EnvFunc"):
    """A function of the registry, saved by its name and found again when it is needed."""

    name: str = data()

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The node for a registered function. Raises UnknownNameError if there is none."""
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
