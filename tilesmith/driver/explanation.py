"""Explains the schedules of a model's kernels: what was considered, what was chosen, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilesmith.driver.stage_texts import check_kernel_name, graph_module
from tilesmith.schedule_rules.choices import Choice, capture_choices
from tilesmith.schedule_rules.default import schedule_by_rules
from tilesmith.support.recursion import deep_recursion
from tilesmith.target import Target
from tilesmith.tir import PrimFunc
from tilesmith.tir.analysis import is_unscheduled

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    """The schedule of one kernel."""

    kernel: str
    choices: tuple[Choice, ...]
    """What the search chose, for each block that it served."""
    trace: tuple[str, ...]
    """The schedule as lines of Python over ``sch``, a schedule of the kernel that
    ``prepare_for_rules`` returns; empty if it came scheduled."""

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as JSON data."""
        choices = [choice.to_json() for choice in self.choices]
        return {"kernel": self.kernel, "choices": choices, "trace": [*self.trace]}


def explain(
    model: Any,
    target: Any = "llvm",
    *,
    kernel: str | None = None,
    input_shapes: Mapping[str, Any] | None = None,
) -> list[Explanation]:
    """Schedule the kernels of a model (or the one of that name) and return how that was done.

    Nothing is compiled or run. A name that the model has not raises UnknownNameError.
    """
    chosen = Target(target)
    module = graph_module(model, chosen, "fused", input_shapes)
    check_kernel_name(kernel, module)
    found = []
    with deep_recursion(), chosen:
        for variable, function in module.items():
            name = variable.name_hint
            if isinstance(function, PrimFunc) and kernel in (None, name):
                found.append(_explained(name, function, chosen))
    return found


def _explained(name: str, function: PrimFunc, target: Target) -> Explanation:
    with capture_choices() as choices:
        named = function.with_attr("global_symbol", name)
        sch = schedule_by_rules(named, target) if is_unscheduled(function) else None
    trace = [] if sch is None else sch.trace.simplified(True).as_python()
    return Explanation(name, (*choices,), (*trace,))
