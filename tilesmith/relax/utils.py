"""Helpers for users who build graphs: conversion of Python values, copies, te arguments."""

from __future__ import annotations

import re
from typing import Any

from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.expr import RelaxExpr, as_expr
from tilesmith.relax.te_arguments import gen_call_tir_inputs
from tilesmith.support.errors import ScriptError

__all__ = [
    "convert_to_expr", "copy_with_new_vars", "gen_call_tir_inputs", "metadata_partitioner",
]  # fmt: skip

_METADATA = re.compile(r"^metadata = \w+\.metadata\(\{\n.*?^\}\)\n", re.DOTALL | re.MULTILINE)


def convert_to_expr(value: Any) -> RelaxExpr:
    """Convert a Python value to an expression of the graph: numbers, strings, sizes, tuples,
    arrays.
    """
    return as_expr(value)


def metadata_partitioner(rx_txt: str) -> list[str]:
    """Return a printed program without its section of large constants, and that section.

    Raises ScriptError where the text has no such section.
    """
    found = _METADATA.search(rx_txt)
    if found is None:
        raise ScriptError(
            "the text has no section of large constants",
            notes=("script(show_meta=True) writes it where a program has large constants",),
        )
    return [rx_txt[: found.start()] + rx_txt[found.end() :], found[0]]
