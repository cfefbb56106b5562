"""Holds the random variables of a schedule, with the loops, blocks and numbers that they stand
for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.ir import IntImm, PrimExpr, StringImm, Var, const
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.schedule.cursor import Cursor
from tilesmith.tir.schedule.state import StmtSRef
from tilesmith.tir.schedule.trace import BlockRV, LoopRV

__all__ = ["RandomVariables"]


def _not_ours(given: Any) -> ScheduleError:
    """Return the error for something that stands for no block or loop of the schedule."""
    if isinstance(given, (BlockRV, LoopRV)):
        kind = "block" if isinstance(given, BlockRV) else "loop"
        return ScheduleError(
            f"this {kind} belongs to another schedule, or its instruction was taken back",
            notes=("get it from this one, with get_block or get_loops",),
        )
    if isinstance(given, (list, tuple)):
        advice = "give them one by one, with a star: sch.fuse(*loops)"
    else:
        advice = "sch.get_block(name) gives a block, sch.get_loops(block) the loops around it"
    return ScheduleError(
        f"expected a block or loop of this schedule, got {_shown(given)}", notes=(advice,)
    )


def _shown(given: Any) -> str:
    if isinstance(given, (list, tuple)):
        return f"a {type(given).__name__} of {len(given)}"
    return repr(given)


class RandomVariables:
    """The table of a schedule, from variables to identities of blocks or loops, or to numbers."""

    __slots__ = ("_table",)

    def __init__(self) -> None:
        self._table: dict[Any, Any] = {}

    def copy(self) -> RandomVariables:
        """Return an independent table with the same variables."""
        made = RandomVariables()
        made._table = dict(self._table)
        return made

    def forget(self, variable: BlockRV | LoopRV | Var) -> None:
        """Remove a variable if it is in the table."""
        self._table.pop(variable, None)

    def sref(self, variable: BlockRV | LoopRV | StmtSRef) -> StmtSRef:
        """Return the identity of a block or loop, or a mark in place of a loop."""
        if isinstance(variable, StmtSRef):
            return variable
        found = self._table.get(variable) if isinstance(variable, (BlockRV, LoopRV)) else None
        if found is None:
            raise _not_ours(variable)
        sref: StmtSRef = found
        return sref

    def value(self, value: Any) -> Any:
        """Return the number of a sampled variable or constant; for other expressions, the
        expression with its variables replaced.
        """
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (IntImm, StringImm)):
            return value.value
        if isinstance(value, Var) and value in self._table:
            return self._table[value]
        if isinstance(value, PrimExpr):
            from tilesmith.arith import Analyzer
            from tilesmith.tir.functor import substitute

            known = {v: const(n, v.dtype) for v, n in self._table.items() if isinstance(v, Var)}
            simple = Analyzer().simplify(substitute(value, known))
            return simple.value if isinstance(simple, IntImm) else simple
        raise ScheduleError(f"expected a number or an expression, got {value!r}")

    def numbers(self, variables: Iterable[Var]) -> dict[Var, PrimExpr]:
        """Return the numbers of those variables that have been sampled."""
        return {v: const(self._table[v], v.dtype) for v in variables if v in self._table}

    def new_block(self, cursor: Cursor) -> BlockRV:
        """Return a variable for a block."""
        variable = BlockRV()
        self._table[variable] = cursor.sref
        return variable

    def new_loop(self, cursor: Cursor | StmtSRef) -> LoopRV:
        """Return a variable for a loop, or for a mark in place of a loop."""
        variable = LoopRV()
        self._table[variable] = cursor.sref if isinstance(cursor, Cursor) else cursor
        return variable

    def new_numbers(self, values: Iterable[int], number: int) -> list[Var]:
        """Return variables for sampled numbers, named after the ``number`` of their instruction."""
        made = [Var(f"v{number}_{k}", "int32") for k, _ in enumerate(values)]
        self._table.update(zip(made, values))
        return made
