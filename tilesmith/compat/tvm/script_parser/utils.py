"""Finds the variables that functions and classes see."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = [
    "get_func_nonlocals", "inspect_class_capture", "inspect_function_capture",
    "is_defined_in_class",
]  # fmt: skip


def get_func_nonlocals(func: Callable[..., Any]) -> dict[str, Any]:
    """Return the variables that a function takes from the functions around it."""
    func = inspect.unwrap(getattr(func, "__func__", func))
    found: dict[str, Any] = {}
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def inspect_function_capture(func: Callable[..., Any]) -> dict[str, Any]:
    """Return all variables that a function sees: globals, and those of the functions around it."""
    return {**inspect.unwrap(func).__globals__, **get_func_nonlocals(func)}


def inspect_class_capture(cls: type) -> dict[str, Any]:
    """Return all variables that the methods of a class see."""
    found: dict[str, Any] = {}
    for value in vars(cls).values():
        if inspect.isfunction(value):
            found.update(inspect_function_capture(value))
    return found


def is_defined_in_class(frames: list[Any], obj: Any) -> bool:
    """True if a function is being defined in the body of a class.

    ``frames``: the stack, innermost first, as ``inspect.stack()`` returns it; the second frame
    applies the decorator of ``obj``.
    """
    if len(frames) < 3:
        return False
    frame = frames[2]
    frame = frame if isinstance(frame, FrameType) else frame.frame
    inside = "__qualname__" in frame.f_locals and "__module__" in frame.f_locals
    return inside and obj.__qualname__.startswith(frame.f_locals["__qualname__"] + ".")
