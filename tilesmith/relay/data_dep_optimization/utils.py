"""``relay.data_dep_optimization.utils``: applies a pass to one function."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.transform.types import InferType

__all__ = ["run_opt_pass"]


def run_opt_pass(expr: Any, *passes: Any) -> Any:
    """Return a function after some passes, with its types."""
    mod = IRModule.from_expr(expr)
    for one in (InferType(), *passes, InferType()):
        mod = one(mod)
    return mod["main"]
