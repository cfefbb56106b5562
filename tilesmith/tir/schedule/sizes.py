"""Finds the size variables of a scheduled function: by name, and those that are not zero wherever
the body of a loop runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tilesmith.arith import Analyzer, ConstIntBound
from tilesmith.ir import Var
from tilesmith.ir.queries import variables
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.free_variables import parameter_sizes
from tilesmith.tir.functor import substitute
from tilesmith.tir.schedule.cursor import LoopCursor
from tilesmith.tir.stmt import For

__all__ = ["get_size_var", "learn_sizes", "sizes_by_name"]


def sizes_by_name(sch: Any) -> dict[str, Var]:
    """Return the integers among the parameters of the function that a schedule works on, and the
    sizes, strides and offsets of its buffers: those whose name no other one has."""
    variable = sch.func_working_on
    if variable is None:
        return {}
    function = sch.mod[variable]
    scalars = [param for param in function.params if param.dtype.is_integer]
    sizes = dict.fromkeys([*scalars, *parameter_sizes(function)])
    count = Counter([size.name for size in sizes])
    return {size.name: size for size in sizes if count[size.name] == 1}


def get_size_var(sch: Any, name: str) -> Var:
    """Return the variable of a size, stride or offset among the parameters of the function that a
    schedule works on, by its name. Printed traces use it.

    Raises ScheduleError if there is no such variable, or several have this name.
    """
    found = sizes_by_name(sch).get(name)
    if found is None:
        raise ScheduleError(
            f"the function has no size variable '{name}', or several of this name",
            notes=("the sizes of a function stand in its match_buffer lines",),
        )
    return found


def learn_sizes(analyzer: Analyzer, loop_cursor: LoopCursor) -> None:
    """Let an analyzer know that sizes are positive where the body of a loop runs.

    Sizes are not negative, and with this one 0 the loop, or one around it, would not run:

        for f in range(n * m): ...  # inside of it n and m are positive, so f // m lies in [0, n)
    """
    buffers = loop_cursor.function.buffer_map.values()
    sizes = {size for buffer in buffers for size in buffer.shape if isinstance(size, Var)}
    if not sizes:
        return
    for cursor in (loop_cursor, *loop_cursor.ancestors()):
        loop = cursor.stmt
        if not isinstance(loop, For):
            continue
        for size in variables(loop.extent):
            if size in sizes and analyzer.can_prove(substitute(loop.extent, {size: 0}) <= 0):
                sizes.remove(size)
                analyzer.update(size, ConstIntBound(1, ConstIntBound.POS_INF))
