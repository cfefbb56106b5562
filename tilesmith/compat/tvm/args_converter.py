"""Converts arguments of functions to expressions of the graph: ``@args_converter.auto``.

    @args_converter.to_expr("x")
    @args_converter.to_list_expr("fields")
    def f(x, fields): ...                  f(1.0, [2, (3, 4)]) gets expressions

``auto`` converts parameters that are annotated as ``Expr``, ``Optional[Expr]`` or ``List[Expr]``.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from tilesmith.relax.base import Expr
from tilesmith.relax.utils import convert_to_expr
from tilesmith.support.errors import TypeMismatchError, UnknownNameError

__all__ = ["FType", "args_converter"]

FType = TypeVar("FType", bound=Callable[..., Expr])


def _list(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise TypeMismatchError(f"a list of expressions is needed, got {type(value).__name__}")
    return [convert_to_expr(one) for one in value]


class _ArgsConverter:
    """Makes decorators that convert arguments; None stays as it is."""

    @staticmethod
    def convert(args_to_expr: list[str], args_to_list_expr: list[str]) -> Callable[[FType], FType]:
        """Return the decorator that converts some arguments to expressions, and others, which are
        lists, to lists of them.
        """

        def decorate(function: FType) -> FType:
            signature = inspect.signature(function)
            unknown = {*args_to_expr, *args_to_list_expr} - signature.parameters.keys()
            if unknown:
                raise UnknownNameError(
                    f"{function.__name__} has no parameters {', '.join(sorted(unknown))}"
                )

            @functools.wraps(function)
            def converted(*args: Any, **kwargs: Any) -> Any:
                bound = signature.bind(*args, **kwargs)
                for name, value in bound.arguments.items():
                    if value is not None and name in args_to_expr:
                        bound.arguments[name] = convert_to_expr(value)
                    elif value is not None and name in args_to_list_expr:
                        bound.arguments[name] = _list(value)
                return function(*bound.args, **bound.kwargs)

            return typing.cast(FType, converted)

        return decorate

    @staticmethod
    def to_expr(*arg_names: str) -> Callable[[FType], FType]:
        """Return the decorator that converts arguments to expressions."""
        return _ArgsConverter.convert(list(arg_names), [])

    @staticmethod
    def to_list_expr(*arg_names: str) -> Callable[[FType], FType]:
        """Return the decorator that converts lists to lists of expressions."""
        return _ArgsConverter.convert([], list(arg_names))

    @staticmethod
    def auto(func: FType) -> FType:
        """Convert the arguments whose annotation says that they are expressions."""
        hints = typing.get_type_hints(func)
        single = [name for name, hint in hints.items() if _is_expr(hint)]
        several = [name for name, hint in hints.items() if _is_list(hint)]
        parameters = inspect.signature(func).parameters
        return _ArgsConverter.convert(
            [name for name in single if name in parameters],
            [name for name in several if name in parameters],
        )(func)


def _chosen(hint: Any) -> list[Any]:
    """Return the alternatives of an annotation, without None."""
    parts = typing.get_args(hint) if None.__class__ in typing.get_args(hint) else (hint,)
    return [part for part in parts if part is not None.__class__]


def _is_expr(hint: Any) -> bool:
    return all(isinstance(part, type) and issubclass(part, Expr) for part in _chosen(hint))


def _is_list(hint: Any) -> bool:
    parts = _chosen(hint)
    return all(
        typing.get_origin(part) in (list, tuple)
        and all(_is_expr(item) for item in typing.get_args(part) if item is not ...)
        for part in parts
    )


args_converter = _ArgsConverter()
