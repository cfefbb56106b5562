"""Rules as objects, and the pass that applies the first one that fits each function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.transform import module_pass
from tilesmith.support.errors import ScheduleError, TypeMismatchError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule import Schedule

__all__ = ["ApplyDefaultSchedule", "ScheduleRule"]


class ScheduleRule:
    """A rule: ``apply`` returns a schedule (or several), or None for functions of another kind."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> Any:
        """Return the schedule of ``func``, a list of them if ``tunable``, or None."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to schedule")

    @staticmethod
    def from_callable(name: str) -> Callable[[Callable[..., Any]], Any]:
        """Return a decorator that makes a rule of a function ``(func, target, tunable)``."""

        def decorator(function: Callable[..., Any]) -> Any:
            methods = {"apply": lambda _, *arguments: function(*arguments)}
            return type(name, (ScheduleRule,), {"__doc__": function.__doc__, **methods})()

        return decorator

    def is_target_available(self, target: Target) -> bool:
        """Return whether the rule is for a target."""
        return True


@module_pass(opt_level=0, name="ApplyDefaultSchedule")
class ApplyDefaultSchedule:
    """The pass that gives each function without a schedule that of the first rule that fits."""

    def __init__(self, *rules: Any) -> None:
        for rule in rules:
            if not hasattr(rule, "apply"):
                raise TypeMismatchError(f"a rule has a method 'apply', got {rule!r}")
        self.rules = rules

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Return the module with scheduled functions."""
        current = Target.current(allow_none=True)
        changed = {}
        for variable, func in mod.functions.items():
            if not isinstance(func, PrimFunc) or func.attrs.get("tir.is_scheduled"):
                continue
            target = func.attrs.get("target") or current
            if target is not None and (found := self._first(func, Target(target))) is not None:
                changed[variable] = found.with_attr("tir.is_scheduled", True)
        return IRModule({**mod.functions, **changed}, attrs=mod.attrs)

    def _first(self, func: PrimFunc, target: Target) -> PrimFunc | None:
        for rule in self.rules:
            try:
                found = rule.apply(func, target, False)
            except ScheduleError as error:  # a pattern that looked right, with loops that are not
                record_fallback("schedule", type(rule).__name__, error)
                continue
            if isinstance(found, list):
                found = found[0] if found else None
            if isinstance(found, Schedule):
                return found.mod["main"]
        return None
