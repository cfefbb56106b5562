"""Checks what a schedule says about a program: which blocks make what others read.

Primitives ask this to refuse what would compute something else. A wrong answer may only make them
refuse more, which no result of a program shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, IRModule, Var, const
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import mentions, nodes
from tilesmith.tir import PrimFunc, Schedule
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import Block, BlockRealize, Stmt

__all__ = ["left_over", "wrong_answer"]


def wrong_answer(module: IRModule) -> str | None:
    """Return what a schedule says wrongly about the function ``main``: about the children and the
    output blocks of a scope, the producers and the consumers of a block; None if all is right.
    """
    function = module["main"]
    assert isinstance(function, PrimFunc)
    names = [one.name_hint for one in _blocks(function.body, deep=True)]
    if names.count("root") != 1:  # no block to begin with, or two of that name
        return None
    sch = Schedule(module, error_render_level="none")
    waiting = [sch.get_block("root", func_name="main")]
    while waiting:
        scope = waiting.pop()
        children = sch.get_child_blocks(scope)
        wrong = [_difference(sch, *one) for one in _answers(sch, scope, children)]
        if any(wrong):
            return next(text for text in wrong if text)
        waiting += children
    return None


def left_over(sch: Schedule, call: tuple[str, tuple[Any, ...], dict[str, Any], Any]) -> str | None:
    """Return what a call of a split without ``preserve_unit_iters`` should have taken out of
    bindings: the variable of a loop that has one iteration now. Bindings that are sums of other
    loops, too, or have a condition, may stay as they are.
    """
    method, _, arguments, result = call
    if method != "split" or arguments.get("preserve_unit_iters", True):
        return None
    loops = [sch.get(one) for one in result]
    single = {loop.loop_var for loop in loops if is_const(loop.extent, 1)}
    simplify, zero = Analyzer().simplify, {one: const(0, one.dtype) for one in single}
    for realize in nodes(loops[0], BlockRealize) if single else ():
        values = [simplify(substitute(one, zero)) for one in realize.iter_values]
        is_plain = all(isinstance(one, (Var, IntImm)) for one in values)
        is_plain &= is_const(realize.predicate, 1)
        if is_plain and mentions(realize.iter_values, single):
            name = realize.block.name_hint
            return f"a variable of one value is left in the bindings of '{name}'"
    return None


def _answers(sch: Schedule, scope: Any, children: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield what is asked about which block, the answer, and the right answer."""
    block = sch.get(scope)
    inside = [one for part in (block.init, block.body) if part is not None for one in _blocks(part)]
    yield "children", block, children, inside
    own = set(block.alloc_buffers)
    outputs = [one for one in inside if not _buffers(one.writes) <= own]
    yield "output blocks", block, sch.get_output_blocks(scope), outputs
    for number, (child, one) in enumerate(zip(children, inside)):
        before = [it for it in inside[:number] if _buffers(it.writes) & _buffers(one.reads)]
        after = [it for it in inside[number + 1 :] if _buffers(it.reads) & _buffers(one.writes)]
        yield "producers", one, sch.get_producers(child), before
        yield "consumers", one, sch.get_consumers(child), after


def _blocks(stmt: Stmt, deep: bool = False) -> list[Block]:
    """Return the outermost blocks of a statement in their order, with those inside if ``deep``."""
    found = []
    waiting: list[Any] = [stmt]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BlockRealize):
            found.append(one.block)
            if not deep:
                continue
        waiting += [child for child in reversed(list(one.children())) if isinstance(child, Stmt)]
    return found


def _buffers(regions: Any) -> set[Any]:
    return {region.buffer for region in regions}


def _difference(
    sch: Schedule, what: str, block: Block, found: list[Any], wanted: list[Block]
) -> str | None:
    got = [sch.get(one) for one in found]
    if len(got) == len(wanted) and all(one is other for one, other in zip(got, wanted)):
        return None
    right, wrong = [[one.name_hint for one in blocks] for blocks in (wanted, got)]
    return f"the {what} of '{block.name_hint}' are {right}, not {wrong}"
