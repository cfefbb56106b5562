"""Defines small packed functions that tests of calls, errors and callbacks use.

Each is a global function as well (``get_global_func("testing.echo")``) and is called through it, so
that a call takes the way of all packed functions.
"""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

from tilesmith import error as errors
from tilesmith.runtime import Module, get_global_func, register_func
from tilesmith.runtime.packed_func import convert_to_packed, from_ffi
from tilesmith.support.errors import InternalError

__all__ = [
    "ErrorTest", "FrontendTestModule", "device_test", "echo", "identity_cpp", "nop",
    "object_use_count", "run_check_signal", "test_check_eq_callback",
    "test_raise_error_callback", "test_wrap_callback",
]  # fmt: skip


def _packed(function: Callable[..., Any]) -> Callable[..., Any]:
    packed = register_func(f"testing.{function.__name__}", function, override=True)

    @wraps(function)
    def call(*args: Any) -> Any:
        return from_ffi(packed(*args))

    vars(call)["__test__"] = False  # pytest takes names that begin with "test" for tests
    return call


def _raise(text: str) -> NoReturn:
    """Raise the error that a text begins with: ``ValueError: …``; without one InternalError."""
    name, _, message = text.partition(": ")
    kind = getattr(errors, name, None) or getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        raise kind(message)
    raise InternalError(text)


@_packed
def nop(*args: Any) -> None:
    """Do nothing: what a call costs."""


@_packed
def echo(arg: Any) -> Any:
    """Return the argument."""
    return arg


@_packed
def device_test(device: Any) -> Any:
    """Return a device."""
    return device


@_packed
def identity_cpp(arg: Any) -> Any:
    """Return what the global function ``testing.identity_py`` returns for the argument."""
    return get_global_func("testing.identity_py")(arg)


@_packed
def run_check_signal(seconds: int) -> None:
    """Wait; a signal ends it as it ends Python code."""
    for _ in range(int(seconds)):
        time.sleep(1)


@_packed
def ErrorTest(x: int, y: int) -> int:
    """Return y if both numbers are equal; raise ValueError if not, InternalError if both are 1."""
    if x != y:
        raise ValueError(f"expect x and y to be equal, got {x} and {y}")
    if x == 1:
        raise InternalError("cannot reach here")
    return y


@_packed
def test_wrap_callback(callback: Callable[[], Any]) -> Any:
    """Return a packed function without arguments that calls another one."""

    def call() -> None:
        callback()

    return convert_to_packed(call)


@_packed
def test_raise_error_callback(message: str) -> Any:
    """Return a packed function that raises the error of a text: ``"OpError: wrong"``."""
    return convert_to_packed(lambda: _raise(message))


@_packed
def test_check_eq_callback(message: str) -> Any:
    """Return a packed function of two numbers that raises the error of a text if they differ."""

    def check(x: int, y: int) -> None:
        if x != y:
            _raise(f"{message} ({x} and {y})")

    return convert_to_packed(check)


def _references(value: Any) -> int:
    return sys.getrefcount(value)


def _references_of_one() -> int:
    only = object()
    return _references(only)


def object_use_count(obj: Any) -> int:
    """Return how many references to an object its users hold: 1 for one variable."""
    return sys.getrefcount(obj) - _OWN_REFERENCES


_OWN_REFERENCES = _references_of_one() - 1
"""References of the call itself; how many there are depends on Python's version."""


class FrontendTestModule:
    """Python functions that are added one by one and called as those of a module; ``module`` is the
    module itself.
    """

    def __init__(self, entry_name: str | None = None) -> None:
        self.module = Module("frontend-test", entry_name=entry_name or "main")

    def add_function(self, name: str, func: Callable[..., Any]) -> None:
        """Let ``module[name]`` be a Python function."""
        self.module.set_function(name, convert_to_packed(func))

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        """Return the packed function of a name."""
        return self.module.get_function(name, query_imports)

    def __getitem__(self, name: str) -> Any:
        return self.module[name]

    def __call__(self, *args: Any) -> Any:
        return self.module(*args)
