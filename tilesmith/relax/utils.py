"""Helpers for users who build graphs: conversion of Python values, copies, te arguments."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.expr import RelaxExpr, as_expr
from tilesmith.relax.te_arguments import gen_call_tir_inputs

__all__ = ["convert_to_expr", "copy_with_new_vars", "gen_call_tir_inputs"]


def convert_to_expr(value: Any) -> RelaxExpr:
    """Convert a Python value to an expression of the graph: numbers, strings, sizes, tuples,
    arrays.
    """
    return as_expr(value)
