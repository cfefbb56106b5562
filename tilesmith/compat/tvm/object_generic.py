"""Defines what programs ask of objects: conversion, extension classes, handles."""

from __future__ import annotations

import ctypes
import multiprocessing
import warnings
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

from tilesmith.compat.tvm.convert import convert
from tilesmith.ir import Node
from tilesmith.runtime import DataType, Device, Module, NDArray, PackedFunc, ShapeTuple, String
from tilesmith.support.errors import TypeMismatchError, UnsupportedError

__all__ = [
    "ObjectGeneric", "ObjectTypes", "PackedFuncHandle", "convert_to_object", "deprecated",
    "register_extension", "tvm_wrap_excepthook",
]  # fmt: skip

ObjectTypes = (Node, NDArray, Module, PackedFunc, Device, DataType, ShapeTuple, String)
"""The classes whose values are handed on as they are."""

PackedFuncHandle = ctypes.c_void_p
"""The type of pointers to functions."""

AnyClass = TypeVar("AnyClass", bound=type)

convert_to_object = convert


class ObjectGeneric:
    """Base of the user's classes that stand for an expression: wherever one is expected, what
    ``asobject`` returns is taken.
    """

    def asobject(self) -> Any:
        """Return the expression."""
        raise NotImplementedError(f"{type(self).__name__} has no asobject()")


def register_extension(cls: AnyClass, fcreate: Callable[..., Any] | None = None) -> AnyClass:
    """Let values of a class be arguments of packed functions, as the pointers (numbers) that their
    ``_tvm_handle`` holds. Can be used as decorator.

    Raises TypeMismatchError for a class without ``_tvm_handle``, UnsupportedError for ``fcreate``:
    results are pointers.
    """
    if fcreate is not None:
        raise UnsupportedError(
            "values of an extension class are not made from results",
            notes=("the function returns a pointer: make the object from it where it is called",),
        )
    if not hasattr(cls, "_tvm_handle"):
        raise TypeMismatchError(
            f"{cls.__name__} has no property _tvm_handle", notes=("it holds the pointer",)
        )
    cls.__tvm_ffi_opaque_ptr__ = lambda self: self._tvm_handle  # type: ignore[attr-defined]
    return cls


def deprecated(method_name: str, new_method_name: str) -> Callable[..., Any]:
    """Return a decorator: calls of the function warn that another one took its place."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(
                f"{method_name} is deprecated, use {new_method_name} instead",
                DeprecationWarning,
                stacklevel=2,
            )
            return function(*args, **kwargs)

        return call

    return decorate


def tvm_wrap_excepthook(exception_hook: Callable[..., Any]) -> Callable[..., None]:
    """Return a hook for ``sys.excepthook`` that calls another one, then ends the processes that
    ``multiprocessing`` started.
    """

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        exception_hook(kind, error, traceback)
        for process in multiprocessing.active_children():
            process.terminate()

    return hook
