"""Hybrid script: Python functions with loops over tensors.

With arrays a script runs as Python; with tensors it becomes an operation (``HybridOp``), whose
loops are scheduled like others: ``s[c].split(c.op.axis[0], 8)``.

    @te.hybrid.script
    def outer_product(a, b):
        c = output_tensor((a.shape[0], b.shape[0]), "float32")
        for i in range(a.shape[0]):
            for j in range(b.shape[0]):
                c[i, j] = a[i] * b[j]
        return c
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tilesmith.support.errors import TypeMismatchError
from tilesmith.te.hybrid.module import HybridModule, build
from tilesmith.te.hybrid.parser import source_to_op
from tilesmith.te.hybrid.runtime import emulated
from tilesmith.te.hybrid.utils import are_symbolic, source_of

__all__ = ["HybridModule", "build", "decorate", "script", "source_to_op"]


def decorate(func: FunctionType, fwrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the name and signature of ``func`` that calls ``fwrapped(func,
    *args)``.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fwrapped(func, *args, **kwargs)

    return wrapper


def script(pyfunc: FunctionType) -> Callable[..., Any]:
    """Make a function a hybrid script: called with arrays it runs, called with tensors it gives the
    tensor (or list of tensors) that it computes.
    """
    if not isinstance(pyfunc, FunctionType):
        raise TypeMismatchError(
            f"te.hybrid.script decorates a function, got {pyfunc!r}",
            notes=("write @te.hybrid.script above a function",),
        )
    wrapper: Any = decorate(pyfunc, _call)
    wrapper.is_hybrid_script = True
    return wrapper  # type: ignore[no-any-return]


def _call(function: FunctionType, *args: Any, **kwargs: Any) -> Any:
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeMismatchError(f"hybrid script '{function.__name__}': {error}") from None
    bound.apply_defaults()
    given = list(bound.args)
    if not are_symbolic(given, function.__name__):
        return emulated(function)(*given)
    around = inspect.getclosurevars(function)
    closure_vars = {**around.globals, **around.nonlocals}
    return source_to_op(source_of(function), given, function.__globals__, closure_vars)
