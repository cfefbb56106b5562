"""``T.prim_func``: the decorator, and the frame of the same name for plain Python."""

from __future__ import annotations

import sys
from typing import Any

from tilesmith.script.definitions import parse_now
from tilesmith.script.diagnostics import error_at_caller, nearest
from tilesmith.script.parsing import FunctionDecorator
from tilesmith.script.tir_frames import PrimFuncFrame
from tilesmith.support.errors import ScriptError

__all__ = ["prim_func"]


_OPTIONS = ("private", "is_private", "check_well_formed", "implicit_root")


class PrimFuncDecorator(FunctionDecorator):
    """``@T.prim_func``, ``@T.prim_func(private=True)``; ``with T.prim_func():`` in a builder.

    Options: ``private`` (also ``is_private``): no symbol; ``check_well_formed``: refuse functions
    that break a rule; ``implicit_root``: whether a root block is put around blocks that have none.
    """

    def __call__(self, func: Any = None, **options: Any) -> Any:
        """Decorate a function, or take options first."""
        for name in options:
            if name not in _OPTIONS:
                problem = ScriptError(
                    f"T.prim_func has no option '{name}'", notes=nearest(name, _OPTIONS)
                )
                caller = sys._getframe(1).f_globals.get("__name__", "")
                # Errors in what the parser evaluates itself have their position already.
                raise problem if caller.startswith("tilesmith.") else error_at_caller(problem)
        if "is_private" in options:
            options["private"] = options.pop("is_private")
        if isinstance(func, type):
            raise error_at_caller(
                ScriptError(
                    f"T.prim_func decorates a function, '{func.__name__}' is a class",
                    notes=("a class of functions is a module: @I.ir_module",),
                )
            )
        if callable(func):
            return self._parse(func, sys._getframe(1), {**self.options, **options})
        return super().__call__(func, **options)

    def make_frame(self) -> PrimFuncFrame:
        """Return the frame of ``with T.prim_func():``."""
        return PrimFuncFrame(bool(self.options.get("private", False)))


prim_func = PrimFuncDecorator("T", parse_now)
