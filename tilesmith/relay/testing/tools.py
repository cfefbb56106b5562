"""Runs passes on expressions, counts operators, makes random values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy

from tilesmith.ir import IRModule, Op
from tilesmith.relay.expr import Call
from tilesmith.relay.function import Function
from tilesmith.relay.prelude import Prelude
from tilesmith.relay.transform.types import InferType
from tilesmith.relay.walks import post_order
from tilesmith.runtime.ndarray import NDArray, array

__all__ = ["count_ops", "rand", "run_infer_type", "run_opt_pass"]


def run_opt_pass(expr: Any, opt_pass: Any, import_prelude: bool = False) -> Any:
    """Return an expression after a pass, or after several passes; of a function the function, of
    any other expression the body of the function around it.
    """
    mod = IRModule.from_expr(expr)
    if import_prelude:
        Prelude(mod)
    for one in opt_pass if isinstance(opt_pass, Iterable) else [opt_pass]:
        mod = one(mod)
    entry: Any = mod["main"]
    return entry if isinstance(expr, Function) else entry.body


def run_infer_type(expr: Any) -> Any:
    """Return an expression whose types are known."""
    return run_opt_pass(expr, InferType())


def rand(dtype: str, *shape: int) -> NDArray:
    """Return a tensor of random numbers between 0 and 1."""
    return array(numpy.random.rand(*shape).astype(dtype))


def count_ops(expr: Any) -> dict[str, int]:
    """Return how often an expression calls each operator, by name."""
    found: dict[str, int] = {}
    for node in post_order(expr):
        if isinstance(node, Call) and isinstance(node.op, Op):
            found[node.op.name] = found.get(node.op.name, 0) + 1
    return found
