"""Makes functions that differ in one argument out of one function that takes it.

    def _conv(layout: str, data: Tensor, kernel: Tensor) -> Tensor: ...

    conv1d_ncw = variant("conv1d_ncw", _conv, "NCW", "Return a convolution of NCW data.")

`inspect.signature`, editors and type checkers see the parameters: ``conv1d_ncw(data, kernel)``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

__all__ = ["variant"]

First = TypeVar("First")
Others = ParamSpec("Others")
Result = TypeVar("Result")


def variant(
    name: str,
    function: Callable[Concatenate[First, Others], Result],
    first: First,
    doc: str,
    **defaults: object,
) -> Callable[Others, Result]:
    """Return ``function`` with its first argument given, as a function with a name of its own.

    ``defaults`` replace defaults of the other parameters.
    """
    signature = inspect.signature(function)
    given_one, *others = signature.parameters.values()
    shown = [other.replace(default=defaults.get(other.name, other.default)) for other in others]
    signature = signature.replace(parameters=shown)

    @wraps(function)
    def named(*args: Others.args, **kwargs: Others.kwargs) -> Result:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        given.apply_defaults()
        return function(first, *given.args, **given.kwargs)

    named.__name__ = named.__qualname__ = name
    named.__doc__ = doc
    named.__annotations__ = {
        parameter: written
        for parameter, written in function.__annotations__.items()
        if parameter != given_one.name
    }
    named.__dict__["__signature__"] = signature
    return named
