"""A schedule without its primitives: the module, the random variables, the trace, the errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Self

from tilesmith.ir import GlobalVar, IntImm, IRModule, PrimExpr, StringImm, Var, const
from tilesmith.support.caller import place_of_caller
from tilesmith.support.errors import ScheduleError, TilesmithError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule import primitives
from tilesmith.tir.schedule.state import ScheduleState, StmtSRef, is_mark
from tilesmith.tir.schedule.trace import BlockRV, Instruction, LoopRV, Trace
from tilesmith.tir.stmt import BlockRealize, For

__all__ = ["ScheduleBase", "plain_decision"]


class ScheduleBase:
    """What all primitives of a schedule share: state, table of random variables, trace, errors."""

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
        if error_render_level not in ("detail", "fast", "none"):
            raise ScheduleError(
                f"error_render_level is 'detail', 'fast' or 'none', got '{error_render_level}'"
            )
        self.state = ScheduleState(mod, debug_mask=debug_mask, enable_check=enable_check)
        self.trace = Trace()
        self.error_render_level = error_render_level
        self._table: dict[Any, Any] = {}
        self._working_on: GlobalVar | None = None
        self._random = random.Random(seed)
        functions = [v for v, f in mod.functions.items() if isinstance(f, PrimFunc)]
        if len(functions) == 1:
            self._working_on = functions[0]
        elif any(v.name_hint == "main" for v in functions):
            self._working_on = next(v for v in functions if v.name_hint == "main")

    # --- the module and the schedule as a whole ---------------------------------------------------

    @property
    def mod(self) -> IRModule:
        """The module as scheduled so far."""
        return self.state.mod

    @property
    def func_working_on(self) -> GlobalVar | None:
        """The function that ``get_block`` looks in when none is named."""
        return self._working_on

    def work_on(self, func_name: str) -> None:
        """Choose the function that ``get_block`` looks in when none is named."""
        self._working_on = self.state.mod.get_global_var(func_name)

    def copy(self) -> Self:
        """A schedule of its own that starts from here; random variables are valid in both."""
        made = type(self).__new__(type(self))
        made.state = self.state.copy()
        made.trace = self.trace.copy()
        made.error_render_level = self.error_render_level
        made._table = dict(self._table)
        made._working_on = self._working_on
        made._random = random.Random(self._random.getrandbits(31))
        return made

    def seed(self, seed: int) -> None:
        """Start the random numbers of sampling anew."""
        self._random = random.Random(None if seed == -1 else seed)

    def fork_seed(self) -> int:
        """A new seed, drawn from this schedule's random numbers."""
        return self._random.getrandbits(31)

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
        """What a random variable stands for: a Block, a For, an int, or a mark in the place of a
        loop (``StmtSRef.root_mark``, ``inline_mark``)."""
        if isinstance(rand_var_or_sref, (BlockRV, LoopRV, StmtSRef)):
            sref = self._sref(rand_var_or_sref)
            if is_mark(sref):
                return sref
            stmt = self.state.stmt(sref)
            return stmt.block if isinstance(stmt, BlockRealize) else stmt
        return self._expr(rand_var_or_sref)

    def get_sref(self, rand_var_or_stmt: Any) -> StmtSRef:
        """The identity of a block or loop in the state."""
        if isinstance(rand_var_or_stmt, (BlockRV, LoopRV, StmtSRef)):
            return self.state.handed_out(self._sref(rand_var_or_stmt))
        return self.state.get_sref(rand_var_or_stmt)

    def remove_rv(self, rand_var: Any) -> None:
        """Forget a random variable."""
        self._table.pop(rand_var, None)

    def _sref(self, variable: Any) -> StmtSRef:
        if isinstance(variable, StmtSRef):
            return variable
        sref = self._table.get(variable) if isinstance(variable, (BlockRV, LoopRV)) else None
        if sref is None:
            raise ScheduleError(f"expected a block or loop of this schedule, got {variable!r}")
        if not is_mark(sref):
            self.state.stmt(sref)  # refuses what is gone
        return sref

    def _block(self, variable: Any, primitive: str = "") -> StmtSRef:
        if isinstance(variable, str):
            variable = self.get_block(variable)
        sref = self._sref(variable)
        if not isinstance(self.state.stmt(sref), BlockRealize):
            raise ScheduleError(
                f"{primitive}: expected a block, got the loop "
                f"'{self.state.stmt(sref).loop_var.name}'",
                notes=('sch.get_block("name") gives a block',),
            )
        return sref

    def _loop(self, variable: Any, primitive: str = "") -> StmtSRef:
        sref = self._sref(variable)
        if is_mark(sref):
            raise ScheduleError(
                f"{primitive}: expected a loop, got the mark {sref!r}",
                notes=("only compute_at and reverse_compute_at understand it",),
            )
        stmt = self.state.stmt(sref)
        if not isinstance(stmt, For):
            raise ScheduleError(
                f"{primitive}: expected a loop, got the block '{stmt.block.name_hint}'",
                notes=("sch.get_loops(block) gives the loops around a block, outermost first",),
            )
        return sref

    def _buffer_index(self, block: BlockRV, index: Any, kind: str) -> int:
        """The number of a buffer among the regions of a block; buffers may be given by name."""
        if isinstance(index, (int, IntImm)):
            return int(index)
        realize = self.state.stmt(self._block(block))
        regions = realize.block.reads if kind == "read" else realize.block.writes
        for number, region in enumerate(regions):
            if region.buffer is index or region.buffer.name == index:
                return number
        names = ", ".join(region.buffer.name for region in regions)
        raise ScheduleError(
            f"block '{realize.block.name_hint}' does not {kind} '{index}'; it does: {names}"
        )

    def _buffer_of(self, block: BlockRV, buffer: Any) -> tuple[int, str]:
        if isinstance(buffer, (tuple, list)) and len(buffer) == 2:
            kind, index = buffer
            if isinstance(kind, int):
                kind, index = index, kind
            if kind not in ("read", "write"):
                raise ScheduleError(
                    f"a buffer is ('read', number) or ('write', number), got {buffer!r}"
                )
            return int(index), kind
        realize = self.state.stmt(self._block(block))
        for kind, regions in (("write", realize.block.writes), ("read", realize.block.reads)):
            for number, region in enumerate(regions):
                if region.buffer is buffer or region.buffer.name == buffer:
                    return number, kind
        raise ScheduleError(
            f"block '{realize.block.name_hint}' neither reads nor writes '{buffer}'"
        )

    def _expr(self, value: Any) -> Any:
        """An int for a sampled value or constant; else the expression with its
        variables replaced."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, IntImm):
            return value.value
        if isinstance(value, StringImm):
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

    def _new_blocks(self, srefs: list[StmtSRef]) -> list[BlockRV]:
        made = []
        for sref in srefs:
            variable = BlockRV()
            self._table[variable] = sref
            made.append(variable)
        return made

    def _new_loops(self, srefs: list[StmtSRef]) -> list[LoopRV]:
        made = []
        for sref in srefs:
            variable = LoopRV()
            self._table[variable] = sref
            made.append(variable)
        return made

    def _new_exprs(self, values: list[int]) -> list[Var]:
        made = []
        for value in values:
            variable = Var(f"v{len(self.trace.insts)}_{len(made)}", "int32")
            self._table[variable] = value
            made.append(variable)
        return made

    def _record(
        self, kind: str, inputs: list, attrs: list, outputs: list, decision: Any = None
    ) -> None:
        self.trace.append(Instruction(kind, inputs, attrs, outputs), decision)
        if self.state.debug_mask:
            primitives.verify_state(self.state)

    def _run(self, primitive: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return primitive(self.state, *args, **kwargs)
        except ScheduleError as error:
            if self.error_render_level == "detail":
                raise
            text = (
                str(error).split("\n")[0] if self.error_render_level == "fast" else "schedule error"
            )
            raise ScheduleError(text) from None
        except TilesmithError as error:
            if error.span is None:
                error.span = place_of_caller()
            raise


def plain_decision(decision: Any) -> Any:
    """A decision of the user's as ints, lists of ints, or None."""
    if isinstance(decision, (list, tuple)):
        return [int(value) for value in decision]
    return None if decision is None else int(decision)
