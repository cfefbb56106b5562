"""MergeComposite: what patterns match becomes calls of functions with the attribute Composite."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.dpl.pattern import DFPattern
from tilesmith.relay.dataflow_groups import is_grouped
from tilesmith.relay.dataflow_pattern import partition
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.fallbacks import fallbacks_within, record_fallback

__all__ = ["MergeComposite"]


@relay_pass("MergeComposite")
def MergeComposite(mod: IRModule, pattern_table: Iterable[tuple[Any, ...]]) -> IRModule:
    """Turn what patterns match into calls of functions with the attribute ``Composite``.

    The table has rows ``(name, pattern)`` or ``(name, pattern, check)``, earlier ones first;
    ``check(root)`` gets the last call of a match, with types, and may refuse it. A match whose
    inner values are used outside of it stays as it is.
    """
    rows = [_row(row) for row in pattern_table]
    mod = infer_module(mod)
    for name, pattern, check in rows:
        changed = False
        for variable, function in functions_of(mod):
            if is_grouped(function):
                continue
            with fallbacks_within(variable.name_hint):
                body = partition(
                    pattern, function.body, {"Composite": name}, check, partial(_record, name)
                )
            if body is not function.body:
                mod[variable] = function.with_fields(body=body)
                changed = True
        if changed:
            mod = infer_module(mod)  # the check of the next pattern may ask for types
    return mod


def _record(pattern: str, root: Any, reason: str) -> None:
    callee = getattr(getattr(root, "op", None), "name", type(root).__name__)
    record_fallback("fusion", f"pattern '{pattern}' at {callee}", reason)


def _row(row: Any) -> tuple[str, DFPattern, Any]:
    if not isinstance(row, (list, tuple)) or len(row) not in (2, 3):
        raise TypeMismatchError(
            f"a row of a pattern table is (name, pattern[, check]), got {row!r}",
        )
    name, pattern = row[:2]
    if not isinstance(pattern, DFPattern):
        raise TypeMismatchError(f"'{name}' needs a dataflow pattern, got {type(pattern).__name__}")
    return str(name), pattern, row[2] if len(row) == 3 else None
