"""SpanCheck: tells which expressions of a program do not know where they come from."""

from __future__ import annotations

import warnings
from collections import Counter

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.ir.transform import ModulePass, Pass, PassInfo
from tilesmith.relay.adt import Constructor
from tilesmith.relay.walks import PLAIN, functions_of, post_order
from tilesmith.support.errors import ScriptWarning

__all__ = ["SpanCheck"]

_SHARED = (GlobalVar, Op, Constructor, *PLAIN)
"""What is one object wherever it is used, or no value: it has no place of its own."""


def SpanCheck() -> Pass:
    """Return a pass that warns of the expressions that have no span, counted by their kind; the
    program stays as it is.
    """
    return ModulePass(_check, PassInfo(0, "SpanCheck", []))


def _check(mod: IRModule, ctx: object) -> IRModule:
    for variable, function in functions_of(mod):
        inside = [node for node in post_order(function) if not isinstance(node, _SHARED)]
        missing = [type(one).__name__ for one in inside if getattr(one, "span", None) is None]
        if missing:
            kinds = ", ".join([f"{count} {kind}" for kind, count in Counter(missing).most_common()])
            warnings.warn(
                f"@{variable.name_hint}: {len(missing)} of {len(inside)} expressions have no span"
                f" ({kinds})",
                ScriptWarning,
                stacklevel=2,
            )
    return mod
