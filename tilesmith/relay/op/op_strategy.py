"""What may compute an operator: implementations, and the conditions under which they may be taken.

strategy = OpStrategy()
strategy.add_implementation(compute, schedule, name="dense.mine", plevel=15)
with te.SpecializedCondition(n >= 16):
    strategy.add_implementation(compute_of_blocks, schedule, name="dense.blocks", plevel=20)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith import te
from tilesmith.support.errors import TypeMismatchError
from tilesmith.target import Target

__all__ = ["OpImplementation", "OpSpecialization", "OpStrategy"]

FieldCompute = Callable[[Any, Sequence[Any], Any], Any]
"""``(attrs, inputs, out_type)`` → the tensors that an operator's call gives."""

FieldSchedule = Callable[[Any, Any, Any], Any]
"""``(attrs, outs, target)`` → a classic schedule of these tensors."""


class OpImplementation:
    """One way to compute an operator; among several the one with the highest ``plevel`` is taken.

    Without a schedule the kernel is scheduled as those of our own operators are.
    """

    def __init__(
        self,
        compute: FieldCompute,
        schedule: FieldSchedule | None = None,
        name: str = "default",
        plevel: int = 10,
        *,
        is_search: bool = False,
    ) -> None:
        if not callable(compute) or not (schedule is None or callable(schedule)):
            raise TypeMismatchError(
                f"the implementation '{name}' needs functions as compute and schedule",
                notes=("compute(attrs, inputs, out_type), schedule(attrs, outs, target)",),
            )
        self.fcompute = compute
        self.fschedule = schedule
        self.name = name
        self.plevel = int(plevel)
        self.is_search = is_search
        """True for the program that whole-model compilation schedules by its static search."""

    def compute(self, attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        """Return the tensors that a call with these attributes and tensors gives."""
        made = self.fcompute(attrs, list(inputs), out_type)
        found = list(made) if isinstance(made, (list, tuple)) else [made]
        for one in found:
            if not isinstance(one, te.Tensor):
                raise TypeMismatchError(
                    f"the compute of the implementation '{self.name}' gave {one!r}",
                    notes=("return a list of what te.compute or functions of topi give",),
                )
        return found

    def schedule(self, attrs: Any, outs: Any, target: Any) -> Any:
        """Return the schedule of tensors that `compute` gave, made within the target's scope."""
        if self.fschedule is None:
            raise TypeMismatchError(
                f"the implementation '{self.name}' has no schedule",
                notes=("give one to add_implementation(compute, schedule)",),
            )
        with Target(target):
            return self.fschedule(attrs, outs, target)

    def __repr__(self) -> str:
        return f"OpImplementation({self.name!r}, plevel={self.plevel})"


class OpSpecialization:
    """The implementations that may be taken where ``condition`` holds (None: always)."""

    def __init__(self, condition: Any = None) -> None:
        self.condition = condition
        self.implementations: list[OpImplementation] = []

    def __repr__(self) -> str:
        return f"OpSpecialization({self.condition}, {self.implementations})"


class OpStrategy:
    """The implementations of an operator for one call and target."""

    def __init__(self) -> None:
        self.specializations: list[OpSpecialization] = []

    def add_implementation(
        self,
        compute: FieldCompute,
        schedule: FieldSchedule | None = None,
        name: str = "default",
        plevel: int = 10,
    ) -> None:
        """Add an implementation: ``compute(attrs, inputs, out_type)`` gives a list of tensors,
        ``schedule(attrs, outs, target)`` a classic schedule of them (None leaves scheduling to the
        compiler). Inside of a `te.SpecializedCondition` it may be taken where that holds.
        """
        self.add(OpImplementation(compute, schedule, name, plevel))

    def add(self, implementation: OpImplementation) -> None:
        """Add an implementation that is made already."""
        condition = te.SpecializedCondition.current()
        for known in self.specializations:
            if known.condition is condition:
                known.implementations.append(implementation)
                return
        self.specializations.append(OpSpecialization(condition))
        self.specializations[-1].implementations.append(implementation)

    def __repr__(self) -> str:
        return f"OpStrategy({self.specializations})"
