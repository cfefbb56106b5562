"""What functions and classes see around them."""

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
    """The variables that a function takes from the functions around it."""
    func = inspect.unwrap(getattr(func, "__func__", func))
    found: dict[str, Any] = {}
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or ()):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def inspect_function_capture(func: Callable[..., Any]) -> dict[str, Any]:
    """All variables that a function sees: globals, and those of the functions around it."""
    return {**inspect.unwrap(func).__globals__, **get_func_nonlocals(func)}


def inspect_class_capture(cls: type) -> dict[str, Any]:
    """All variables that the methods of a class see."""
    found: dict[str, Any] = {}
    for value in vars(cls).values():
        if inspect.isfunction(value):
            found.update(inspect_function_capture(value))
    return found


def is_defined_in_class(frames: list[Any], obj: Any) -> bool:
    """Whether a function is being defined in the body of a class.

    ``frames``: those of the stack, innermost first, as ``inspect.stack()`` gives them; the second
    is the one in which the decorator of ``obj`` stands.
    """
    if len(frames) < 3:
        return False
    frame = frames[2]
    frame = frame if isinstance(frame, FrameType) else frame.frame
    inside = "__qualname__" in frame.f_locals and "__module__" in frame.f_locals
    return inside and obj.__qualname__.startswith(frame.f_locals["__qualname__"] + ".")
