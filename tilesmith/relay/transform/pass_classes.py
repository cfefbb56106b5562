"""How passes over the functional door are declared.

    @relay_pass("Inline")
    def inline(mod: IRModule) -> IRModule: ...

    Inline = inline.factory             # Inline()(mod)

Many passes have a namesake in relax; which one runs is said by the package that it is taken from.
``PassContext(disabled_pass=["FoldConstant"])`` means both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.ir.transform import (
    FunctionLevelPass,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    pass_decorator,
)
from tilesmith.relay.function import Function
from tilesmith.support.errors import ConfigError

__all__ = ["FunctionPass", "build_config", "function_pass", "relay_pass"]


class FunctionPass(FunctionLevelPass):
    """A pass that works on each function by itself."""

    function_class = Function


function_pass = pass_decorator(FunctionPass, "transform_function", "function_pass")


def relay_pass(
    name: str, opt_level: int = 0, required: Iterable[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Pass]]:
    """Make the factory of a pass from a function of the module and the pass's arguments."""

    def declare(function: Callable[..., Any]) -> Callable[..., Pass]:
        @functools.wraps(function)
        def factory(*args: Any, **named: Any) -> Pass:
            info = PassInfo(opt_level, name, list(required))
            return ModulePass(lambda mod, ctx: function(mod, *args, **named), info)

        factory.__name__ = factory.__qualname__ = name
        return factory

    return declare


def build_config(
    opt_level: int = 2,
    required_pass: Iterable[str] | None = None,
    disabled_pass: Iterable[str] | None = None,
    trace: Any = None,
) -> PassContext:
    """Return the context that programs asked for before there was PassContext.

    Raises ConfigError for a ``trace``, whose place instruments have taken.
    """
    if trace is not None:
        raise ConfigError(
            "a trace is not called", notes=("PassContext(instruments=[...]) sees each pass",)
        )
    return PassContext(
        opt_level=opt_level,
        required_pass=list(required_pass or ()),
        disabled_pass=list(disabled_pass or ()),
    )
