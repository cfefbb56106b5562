"""Finds functions of a module that may be equal to another one, without comparing all of them."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import BaseFunc, GlobalVar, IRModule
from tilesmith.ir.structural import structural_hash

__all__ = ["alike_functions", "kind_of_function"]


def kind_of_function(func: Any) -> tuple[Any, ...]:
    """Return a cheap key that equal functions have in common."""
    return (type(func), tuple(sorted(func.attrs)), func.attrs.get("global_symbol"))


def alike_functions(
    table: dict[Any, dict[int, list[GlobalVar]]], module: IRModule, func: BaseFunc
) -> dict[int, list[GlobalVar]]:
    """Return the functions of a module of the same class with the same attributes, by their hash;
    ``table`` keeps what was found, by kind.

    Other functions cannot be equal; they are not hashed, since hashing large constants is slow.
    """
    kind = kind_of_function(func)
    if kind not in table:
        found: dict[int, list[GlobalVar]] = {}
        for variable, function in module.functions.items():
            if kind_of_function(function) == kind:
                found.setdefault(structural_hash(function), []).append(variable)
        table[kind] = found
    return table[kind]
