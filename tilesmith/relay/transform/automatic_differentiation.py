"""Gradients of functions, and the passes that add them.

both = gradient(function)                       # (result, (gradient of each parameter, …))
both = gradient(function, mode="first_order")   # no control flow, no references
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_expr, infer_module
from tilesmith.relay.transform.first_order_gradient import first_order_gradient
from tilesmith.relay.transform.higher_order_gradient import higher_order_gradient
from tilesmith.relay.transform.normal_form import ToANormalFormExpr
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of
from tilesmith.support.errors import ConfigError, TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = ["FirstOrderGradient", "gradient"]


def gradient(expr: Any, mod: IRModule | None = None, mode: str = "higher_order") -> Function:
    """Return the function that gives the result of a function and the tuple of its gradients by its
    parameters: of the sum of all numbers of the result.

    ``mode``: "higher_order" differentiates any program; the result holds references and functions
    that carry gradients back (PartialEvaluate removes them). "first_order" is for programs without
    control flow, whose gradients are straight-line programs, too. ``mod`` has the functions that
    are called; in the first mode it gets their variants with gradients.
    """
    if mode not in ("higher_order", "first_order"):
        raise ConfigError(f"mode is 'higher_order' or 'first_order', not {mode!r}")
    if not isinstance(expr, (Function, GlobalVar)):
        raise TypeMismatchError(f"a gradient is of a function, not of a {type(expr).__name__}")
    with deep_recursion():
        if isinstance(expr, GlobalVar) and mod is not None and mode == "first_order":
            expr = mod[expr]
        if mod is not None and isinstance(expr, GlobalVar):
            infer_module(mod)
        typed: Any = infer_expr(expr, mod)
        if mode == "higher_order":
            return higher_order_gradient(typed, mod)
        made: Function = ToANormalFormExpr(first_order_gradient(typed, mod))
        return made


@relay_pass("FirstOrderGradient", 0)
def FirstOrderGradient(mod: IRModule) -> IRModule:
    """Let each function return its result and the tuple of gradients of its parameters."""
    original = mod.shallow_copy()
    for variable, function in functions_of(original):
        if not function.attrs.get("Primitive") and not function.attrs.get("Compiler"):
            mod[variable] = gradient(function, original, mode="first_order")
    return infer_module(mod)
