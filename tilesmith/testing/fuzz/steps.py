"""Records the calls of a schedule as Python, and draws their arguments from the current program."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.ir.queries import variables
from tilesmith.support.errors import ScheduleError
from tilesmith.testing.fuzz.choices import Choices, Nothing
from tilesmith.testing.fuzz.sure import is_sure, only_looks
from tilesmith.tir import PrimFunc, Schedule
from tilesmith.tir.schedule import BlockRV, LoopRV
from tilesmith.tir.stmt import Block, BlockRealize, For, Stmt

__all__ = ["IndexMapText", "Nothing", "Pick", "Recorder"]


class IndexMapText:
    """A function of indices that can be called and printed."""

    def __init__(self, rank: int, results: list[str]) -> None:
        names = ", ".join(f"i{k}" for k in range(rank))
        self.text = f"lambda {names}: [{', '.join(results)}]"
        self.function: Callable[..., Any] = eval(self.text)

    def __repr__(self) -> str:
        return self.text


class Recorder:
    """Calls the methods of a schedule and records the calls as a script."""

    def __init__(self, sch: Schedule) -> None:
        self.sch = sch
        self.calls: list[tuple[str, tuple, dict[str, Any], Any]] = []
        self.before: Any = None  # the module before the latest call
        self.is_final = False  # a step after which correctness is not guaranteed was made

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method; the call is recorded even if it raises."""
        self.calls.append((method, args, kwargs, None))
        self.before = self.sch.mod
        given = [_plain(value) for value in args]
        named = {name: _plain(value) for name, value in kwargs.items()}
        result = getattr(self.sch, method)(*given, **named)
        self.calls[-1] = (method, args, kwargs, result)
        return result

    def is_sure_to_work(self) -> bool:
        """Return whether nothing may refuse the latest call."""
        method, args, more, _ = self.calls[-1]
        return is_sure(self.sch, method, args, more)

    def source(self) -> list[str]:
        """Return lines of Python that do the same with a schedule called ``sch``; queries whose
        results are not used are left out.
        """
        needed: set[int] = set()
        kept = []
        for number, (method, args, kwargs, result) in enumerate(reversed(self.calls)):
            made = _flat(result)
            if only_looks(method) and number and not any(id(one) in needed for one in made):
                continue
            kept.append((method, args, kwargs, result))
            needed.update(id(value) for value in _flat([*args, *kwargs.values()]))
        names: dict[int, str] = {}
        return [_line(call, names) for call in reversed(kept)]


def _plain(value: Any) -> Any:
    return value.function if isinstance(value, IndexMapText) else value


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in _flat(part)]
    return [] if value is None or isinstance(value, (int, str, float)) else [value]


def _line(call: tuple[str, tuple, dict[str, Any], Any], names: dict[int, str]) -> str:
    method, args, kwargs, result = call
    texts = [_text(value, names) for value in args]
    texts += [f"{name}={_text(value, names)}" for name, value in kwargs.items()]
    line = f"sch.{method}({', '.join(texts)})"
    made = _flat(result)
    for one in made:
        letter = "b" if isinstance(one, BlockRV) else "l" if isinstance(one, LoopRV) else "v"
        names[id(one)] = f"{letter}{len(names)}"
    if not made:
        return line
    left = ", ".join(names[id(one)] for one in made)
    return f"{left}{',' if isinstance(result, (list, tuple)) and len(made) == 1 else ''} = {line}"


def _text(value: Any, names: dict[int, str]) -> str:
    if id(value) in names:
        return names[id(value)]
    if isinstance(value, list):
        return "[" + ", ".join(_text(item, names) for item in value) + "]"
    if isinstance(value, tuple):
        inside = ", ".join(_text(item, names) for item in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return json.dumps(value) if isinstance(value, str) else repr(value)


class Pick(Choices):
    """Draws blocks, loops and numbers of the current program, and calls primitives."""

    def __init__(
        self, recorder: Recorder, rng: random.Random, recipe: dict[str, Any],
        given: Sequence[int] = (),
    ) -> None:  # fmt: skip
        super().__init__(rng, given)
        self.recorder = recorder
        self.call = recorder.call
        self.sch = recorder.sch
        self.recipe = recipe

    # The program.

    @property
    def has_threads(self) -> bool:
        """True if a loop was bound to a thread."""
        return any(method == "bind" for method, *_ in self.recorder.calls)

    def buffers_now(self) -> list[Any]:
        """Return the buffers that blocks read and write."""
        return [
            region.buffer for block in self.blocks_now() for region in (*block.reads, *block.writes)
        ]

    @property
    def function(self) -> PrimFunc:
        """Return the current function that is scheduled."""
        function: PrimFunc = self.sch.mod["main"]
        return function

    def blocks_now(self) -> list[Block]:
        """Return the blocks of the program, without the root."""
        found: list[Block] = []

        def look(stmt: Stmt) -> None:
            if isinstance(stmt, BlockRealize):
                found.append(stmt.block)
                look(stmt.block.body)
                return
            for child in stmt.children():
                if isinstance(child, Stmt):
                    look(child)

        look(self.function.body)
        return found[1:]

    def block(self, wanted: Callable[[Block], bool] = lambda block: True) -> Any:
        """Return a block by its name, or by its position where names are not unique."""
        blocks = self.blocks_now()
        names = [block.name_hint for block in blocks]
        chosen = self.among([block for block in blocks if wanted(block)])
        if names.count(chosen.name_hint) == 1 and chosen.name_hint != "root":
            return self.call("get_block", chosen.name_hint, func_name="main")
        found = self.call("get_child_blocks", self.call("get_block", "root", func_name="main"))
        return self.among([one for one in found if self.sch.get(one) is chosen])

    def statement(self, variable: Any) -> Any:
        """Return the block or loop behind a variable."""
        return self.sch.get(variable)

    def realize(self, block: Any) -> BlockRealize:
        """Return the block with its bindings."""
        found: BlockRealize = self.sch.cursor(block).stmt
        return found

    def loops(self, block: Any) -> list[Any]:
        """Return the loops around a block."""
        return self.call("get_loops", block)

    def loop(self, block: Any = None) -> Any:
        """Return a loop around a block."""
        return self.among(self.loops(self.block() if block is None else block))

    def driven(self, block: Any, kind: int) -> list[Any]:
        """Return the loops around a block, not on threads, that drive only iterators of a kind."""
        realize = self.realize(block)
        used: dict[int, set[int]] = {}
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values):
            for variable in variables(value):
                used.setdefault(id(variable), set()).add(iterator.iter_type)
        loops = [(loop, self.statement(loop)) for loop in self.loops(block)]
        return [
            loop for loop, stmt in loops
            if used.get(id(stmt.loop_var)) == {kind} and stmt.thread_binding is None
        ]  # fmt: skip

    def tried(self, method: str, *args: Any, **kwargs: Any) -> bool:
        """Call a primitive that may refuse; True if it did not."""
        try:
            self.call(method, *args, **kwargs)
        except ScheduleError:
            self.recorder.calls.pop()
            return False
        return True

    def extent(self, loop: Any) -> int | None:
        """Return the number of iterations of a loop, where it is known."""
        stmt: For = self.sch.get(loop)
        return stmt.extent.value if isinstance(stmt.extent, IntImm) else None

    def is_parameter(self, buffer: Any) -> bool:
        """True if a buffer is one that callers see."""
        return any(buffer is one for one in self.function.buffer_map.values())

    def index_map(self, shape: Any, exact: bool = True) -> IndexMapText:
        """Return a map of indices that changes a layout: transposed, tiled, fused, or padded."""
        rank = len(shape)
        names = [f"i{k}" for k in range(rank)]
        kind = self.number(0, 3)
        axis = self.number(0, max(rank - 1, 0))
        if not rank:
            raise Nothing
        if kind == 0 and rank > 1:
            return IndexMapText(rank, names[::-1])
        if kind == 1 and rank > 1 and isinstance(shape[1], IntImm):
            return IndexMapText(rank, [f"i0 * {shape[1].value} + i1", *names[2:]])
        factors = [2, 3, 4]
        if exact:
            size = shape[axis].value if isinstance(shape[axis], IntImm) else 1
            factors = [factor for factor in (2, 3, 4, 7) if size % factor == 0] or [1]
        factor = self.among(factors)
        results = list(names)
        results[axis : axis + 1] = [f"i{axis} // {factor}", f"i{axis} % {factor}"]
        if kind == 2:  # the inner part last
            results.append(results.pop(axis + 1))
        return IndexMapText(rank, results)
