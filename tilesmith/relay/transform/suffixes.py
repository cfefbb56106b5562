"""``relay.transform.suffixes``: tells expressions apart that came from one place of a program."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tilesmith.ir import IRModule, SourceName, Span
from tilesmith.relay.expr import Call
from tilesmith.relay.rewriting import rewrite
from tilesmith.relay.walks import functions_of, post_order

__all__ = ["SUFFIX_STRING", "tag_suffixes"]

SUFFIX_STRING = "_PART_"


def _name(node: Any) -> str | None:
    """Return the name of the source of a call, if a span says it."""
    span = node.span if isinstance(node, Call) else None
    name = getattr(span, "source_name", None)
    return None if name is None else str(getattr(name, "name", name))


def tag_suffixes(mod: IRModule) -> IRModule:
    """Return a module in which calls that were made of one operator of the imported model, whose
    name their spans have, are numbered: ``conv1_PART_0``, ``conv1_PART_1``.
    """
    mod = mod.shallow_copy()
    for variable, function in functions_of(mod):
        found = [_name(node) for node in post_order(function)]
        counts = Counter([name for name in found if name is not None])
        numbers: Counter[str] = Counter()

        def tagged(node: Any, counts: Any = counts, numbers: Counter[str] = numbers) -> Any:
            name = _name(node)
            if name is None or counts[name] < 2:
                return node
            old, part = node.span, numbers[name]
            numbers[name] += 1
            source: Any = SourceName(f"{name}{SUFFIX_STRING}{part}")
            span = Span(source, old.line, old.end_line, old.column, old.end_column)
            return node.with_fields(span=span)

        mod[variable] = rewrite(function, tagged)
    return mod
