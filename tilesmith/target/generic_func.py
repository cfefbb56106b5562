"""Defines functions with one version per target key, chosen by the current target.

@generic_func
def schedule_dense(outs): ...

@schedule_dense.register(["cuda", "gpu"])
def schedule_dense_gpu(outs): ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilesmith.support.errors import TargetError
from tilesmith.support.registry import Registry
from tilesmith.target.target import Target


class GenericFunc:
    """Calls the version registered for the first key of the current target that has one."""

    def __init__(self, name: str = "", default: Callable[..., Any] | None = None) -> None:
        self.name = name
        self._default = default
        self._versions: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_packed_func()(*args, **kwargs)

    @property
    def default(self) -> Callable[..., Any] | None:
        """The version for targets without one of their own, or None."""
        return self._default

    def find_version(self) -> Callable[..., Any] | None:
        """Return the version for the current target, the default one, or None."""
        target = Target.current(allow_none=True)
        for key in target.keys if target is not None else ():
            if key in self._versions:
                return self._versions[key]
        return self._default

    def get_packed_func(self) -> Callable[..., Any]:
        """Return the version for the current target."""
        found = self.find_version()
        if found is None:
            target = Target.current(allow_none=True)
            raise TargetError(f"'{self.name}' has no version for {target} and no default")
        return found

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> Any:
        """Use `func` where no key fits."""
        if self._default is not None and not allow_override:
            raise TargetError(
                f"'{self.name}' has a default already", notes=("allow_override=True",)
            )
        self._default = func
        return func

    def register(
        self,
        func: Any,
        key_list: Any = None,
        allow_override: bool = False,
        override: bool | None = None,
    ) -> Any:
        """Use `func` for targets with one of the keys; with keys alone, act as a decorator. The
        keys may come first; ``override`` is another name of ``allow_override``.
        """
        allow_override = allow_override if override is None else override
        if not callable(func):
            keys, func = func, key_list
            if func is None:
                return lambda version: self.register(version, keys, allow_override)
            key_list = keys
        for key in [key_list] if isinstance(key_list, str) else key_list or ():
            if key in self._versions and not allow_override:
                raise TargetError(
                    f"'{self.name}' has a version for '{key}' already",
                    notes=("allow_override=True",),
                )
            self._versions[key] = func
        return func


GENERIC_FUNCS: Registry[GenericFunc] = Registry("generic function")


def get_native_generic_func(name: str) -> GenericFunc:
    """Return the generic function called `name`, made if there is none yet."""
    found = GENERIC_FUNCS.get(name, None)
    return GENERIC_FUNCS.register(name, GenericFunc(name)) if found is None else found


def generic_func(fdefault: Callable[..., Any]) -> Any:
    """Return a generic function whose default is `fdefault`."""
    function = GenericFunc(fdefault.__name__, fdefault)
    functools.update_wrapper(function, fdefault)
    return function


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator like `generic_func` for the function registered as `func_name`."""

    def decorate(fdefault: Callable[..., Any]) -> GenericFunc:
        function = get_native_generic_func(func_name)
        function.set_default(fdefault, allow_override=True)
        functools.update_wrapper(function, fdefault)
        return function

    return decorate
