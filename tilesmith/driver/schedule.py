"""Who schedules (decision 9): functions that are still as a compute is born, and no others."""

from __future__ import annotations

from typing import Any

from tilesmith.schedule_rules import default_schedule
from tilesmith.target import Target
from tilesmith.tir import Block, BlockRealize, For, ForKind, PrimFunc, Stmt, Var

__all__ = ["is_unscheduled", "schedule_function"]


def schedule_function(function: PrimFunc, target: Target) -> PrimFunc:
    """The function with the default schedule, or as it is where its user has scheduled it."""
    return default_schedule(function, target) if is_unscheduled(function) else function


def is_unscheduled(function: PrimFunc) -> bool:
    """Whether a function is as a compute is born: serial loops without annotations, each block
    right under its own loops and bound to their variables, no ``tir.is_scheduled``."""
    if function.attrs.get("tir.is_scheduled"):
        return False
    body = function.body
    if not isinstance(body, BlockRealize) or body.iter_values or body.block.annotations:
        return False
    return _is_born(body.block.body, [])


def _is_born(stmt: Stmt, loops: list[Var]) -> bool:
    if isinstance(stmt, For):
        plain = stmt.kind is ForKind.SERIAL and not stmt.annotations
        return plain and _is_born(stmt.body, [*loops, stmt.loop_var])
    if isinstance(stmt, BlockRealize):
        return _is_bound_to(stmt, loops) and not _holds_blocks(stmt.block)
    inner = getattr(stmt, "seq", None)
    if inner is None or loops:  # several statements under a loop: somebody moved them there
        return False
    return all(_is_born(one, []) for one in inner)


def _is_bound_to(realize: BlockRealize, loops: list[Var]) -> bool:
    values = [value for value in realize.iter_values if isinstance(value, Var)]
    rest = [value for value in realize.iter_values if not isinstance(value, Var)]
    constants = all(hasattr(value, "value") for value in rest)
    return constants and len(values) == len(loops) and all(a is b for a, b in zip(values, loops))


def _holds_blocks(block: Block) -> bool:
    found: list[Any] = []

    def walk(node: Any) -> None:
        if isinstance(node, BlockRealize):
            found.append(node)
        elif isinstance(node, Stmt):
            node.for_each_child(walk)

    walk(block.body)
    return bool(found)
