"""Defines ``tir.Schedule``, which rewrites a module step by step and checks each step.

A schedule is composed of the state (the program with the identities of its loops and blocks), the
table of random variables, the trace, and the primitives: functions below ``primitives/`` whose
declarations make the methods (``primitive.py``).
"""

from __future__ import annotations

import random
from typing import Any, Self, overload

from tilesmith.ir import GlobalVar, IRModule, PrimExpr, Var
from tilesmith.support.errors import ScheduleError, TypeMismatchError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule.cursor import BlockCursor, Cursor, LoopCursor, cursor_of
from tilesmith.tir.schedule.methods import PrimitiveMethods
from tilesmith.tir.schedule.primitives import load_all
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef, is_mark
from tilesmith.tir.schedule.trace import BlockRV, LoopRV, Trace
from tilesmith.tir.schedule.variables import RandomVariables
from tilesmith.tir.stmt import BlockRealize

__all__ = ["BlockRV", "ExprRV", "LoopRV", "Schedule", "ScheduleError"]

ExprRV = Var

load_all()


class Schedule(PrimitiveMethods):
    """Rewrites a module (or a single PrimFunc) by primitives.

    ``seed`` makes sampling repeatable; ``debug_mask="all"`` verifies the program after each
    primitive; ``error_render_level`` is "detail" (reason and program), "fast" (reason only).
    """

    # Members of the class, too: tools look names up there.
    __slots__ = {
        "func_working_on": "The function in which ``get_block`` looks by default.",
        "state": "The program, with the identities of its loops and blocks.",
        "trace": "The instructions that were applied so far.",
    }

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        *,
        seed: int | None = None,
        debug_mask: Any = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        if isinstance(mod, PrimFunc):
            mod = IRModule({"main": mod})
        if not isinstance(mod, IRModule):
            raise TypeMismatchError(
                f"a schedule is made of a PrimFunc or an IRModule, got {mod!r}",
                notes=("a tensor expression becomes a PrimFunc by te.create_prim_func",),
            )
        if error_render_level not in ("detail", "fast", "none"):
            raise ScheduleError(
                f"error_render_level is 'detail', 'fast' or 'none', got '{error_render_level}'"
            )
        self.state = ScheduleState(mod, debug_mask=debug_mask, enable_check=enable_check)
        self.trace = Trace()
        self.variables = RandomVariables()
        self.random = random.Random(seed)
        self.error_render_level = error_render_level
        self.func_working_on = _first_function(mod)

    # --- the module and the schedule as a whole ---------------------------------------------------

    @property
    def mod(self) -> IRModule:
        """The current module."""
        return self.state.mod

    def work_on(self, func_name: str) -> None:
        """Choose the function in which ``get_block`` looks by default."""
        self.func_working_on = self.state.mod.get_global_var(func_name)

    def copy(self) -> Self:
        """Return an independent schedule with the same state; random variables are valid in
        both.
        """
        made = type(self).__new__(type(self))
        made.state = self.state.copy()
        made.trace = self.trace.copy()
        made.variables = self.variables.copy()
        made.random = random.Random(self.random.getrandbits(31))
        made.error_render_level = self.error_render_level
        made.func_working_on = self.func_working_on
        return made

    def seed(self, seed: int) -> None:
        """Set the seed of the random number generator."""
        self.random = random.Random(None if seed == -1 else seed)

    def fork_seed(self) -> int:
        """Return a new seed, drawn from this schedule's generator."""
        return self.random.getrandbits(31)

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Print the module and the trace, coloured in terminals and notebooks.

        Options are those of ``IRModule.show`` (``style``, ``black_format``, of the printer). Of a
        random variable, print what it stands for (``show(rand_var)``).
        """
        if args and isinstance(args[0], (BlockRV, LoopRV, PrimExpr)):
            print(self.get(args[0]))
            return
        self.mod.show(*args, **kwargs)
        style = args[0] if args else kwargs.get("style")
        self.trace.show(style)

    # --- random variables -------------------------------------------------------------------------

    def get(self, rand_var_or_sref: Any) -> Any:
        """Return the value of a random variable: a Block, a For, an int, or a mark in place of a
        loop (``StmtSRef.root_mark``, ``inline_mark``).
        """
        if isinstance(rand_var_or_sref, (BlockRV, LoopRV, StmtSRef)):
            sref = self.variables.sref(rand_var_or_sref)
            if is_mark(sref):
                return sref
            stmt = self.state.stmt(sref)
            return stmt.block if isinstance(stmt, BlockRealize) else stmt
        return self.variables.value(rand_var_or_sref)

    def get_sref(self, rand_var_or_stmt: Any) -> StmtSRef:
        """Return the identity of a block or loop in the state."""
        if isinstance(rand_var_or_stmt, (BlockRV, LoopRV, StmtSRef)):
            sref = self.variables.sref(rand_var_or_stmt)
            if not is_mark(sref):
                self.state.stmt(sref)  # refuses what is gone
            return self.state.handed_out(sref)
        return self.state.get_sref(rand_var_or_stmt)

    @overload
    def cursor(self, rand_var: BlockRV) -> BlockCursor: ...

    @overload
    def cursor(self, rand_var: LoopRV) -> LoopCursor: ...

    def cursor(self, rand_var: BlockRV | LoopRV) -> Cursor:
        """Return the cursor of a block or loop in the program."""
        return cursor_of(self.state, self.variables.sref(rand_var))

    def remove_rv(self, rand_var: Any) -> None:
        """Forget a random variable."""
        self.variables.forget(rand_var)


def _first_function(mod: IRModule) -> GlobalVar | None:
    """Return the default function: the only one, or ``main``."""
    functions = [v for v, f in mod.functions.items() if isinstance(f, PrimFunc)]
    if len(functions) == 1:
        return functions[0]
    return next((v for v in functions if v.name_hint == "main"), None)
