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

from tilesmith.ir.transform import FunctionLevelPass, ModulePass, Pass, PassInfo, pass_decorator
from tilesmith.relay.function import Function

__all__ = ["FunctionPass", "function_pass", "relay_pass"]


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
